"""Embedding: the device, or the cloud if the device cannot; always one space per result.

The cloud is asked in batches. After the first, only the same provider is asked.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from edgewise.cloud.provider import Cloud
from edgewise.decide.policy import Misfit, Plan, Policy, outside_script
from edgewise.errors import (
    CloudMalformed,
    EdgewiseError,
    ExtraMissing,
    ModelNotFound,
    SpaceMismatch,
)
from edgewise.flows.route import Draft, Flow, LocalAttempt, run
from edgewise.local.backend import EmbedBackend, guarded
from edgewise.types.embeddings import Embeddings, Vector
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Event, Finish, Place, Vectors

MOST_TEXTS = 96  # in one request to the cloud: below every provider's limit
MOST_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedNeeds:
    """What the engine provides for an embedding.

    embedder  raises ModelNotFound or ExtraMissing if the device has none
    cloud     the door; given a space, only with providers that make vectors of that space
    """

    embedder: Callable[[], EmbedBackend]
    cloud: Callable[[str], Cloud]
    policy: Policy
    clock: Callable[[], float]


def cloud_space(provider: str, model: str, dimensions: int) -> str:
    return f"{provider}/{model}-{dimensions}"


def embed(
    request: Request,
    parts: EmbedNeeds,
    attempts: list[Attempt],
    *,
    space: str = "",
    int8: bool = False,
) -> Embeddings:
    """One vector per user message, in order. With `space`, vectors of any other are refused."""
    flow = EmbeddingFlow(request, parts, attempts, space)
    run(flow)
    return flow.finished(int8)


class EmbeddingFlow(Flow):
    """The embedding of some texts. `pinned` is the requested space; empty: any."""

    def __init__(
        self, request: Request, parts: EmbedNeeds, attempts: list[Attempt], pinned: str
    ) -> None:
        self.draft = Draft(request=request, attempts=attempts, started=parts.clock())
        self.parts, self.pinned = parts, pinned
        self.cloud, self.policy, self.clock = parts.cloud(pinned), parts.policy, parts.clock
        self.texts = [message.content for message in request.messages]
        self.place: Place | None = None
        self.space = ""
        self.vectors: list[array[float]] = []
        self.windows: tuple[int, ...] = ()
        self.text_codes: tuple[tuple[str, ...], ...] = ()
        self.backend, self.misfit = self._look_at_device()

    def _look_at_device(self) -> tuple[EmbedBackend | None, Misfit | None]:
        if self.request.policy == "cloud_only":
            return None, None  # never used, so never fetched or opened
        try:
            backend = self.parts.embedder()
        except (ModelNotFound, ExtraMissing) as error:
            return None, Misfit(error.code, str(error))
        here, wanted = backend.facts().space, self.request.dimensions
        if self.pinned and self.pinned != here:
            return None, Misfit("other_space", f"the device makes vectors of the space {here!r}")
        if wanted is not None and not here.endswith(f"-{wanted}"):
            reason = f"the device makes vectors of {here!r}, not of {wanted} numbers"
            return None, Misfit("other_space", reason)
        return backend, None

    @override
    def refusal(self, plan: Plan) -> EdgewiseError:
        if self.pinned and "other_space" in (plan.code, plan.degraded_code):
            return _mismatch(self.pinned, plan.reason)
        return super().refusal(plan)

    @override
    def may_start_over(self) -> bool:
        return not self.pinned

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        yield from ()
        self._on_device()
        return False

    def _on_device(self) -> None:
        backend = self.backend
        assert backend is not None, "a plan that uses the device has one"
        facts = backend.facts()
        with LocalAttempt(self.request, self.draft.attempts, facts, self.clock) as attempt:
            attempt.finish = Finish()
            with guarded(facts.model):
                made = backend.embed(self.texts)
            attempt.finish = Finish(input_tokens=made.tokens)
            attempt.outcome = "answered"
        self.place, self.space = "local", facts.space
        self.vectors, self.windows = list(made.vectors), made.windows
        self.text_codes = tuple(
            ("windowed",) * (count > 1)
            + ("language_outside_model",) * outside_script(text, facts.languages)
            for text, count in zip(self.texts, made.windows, strict=True)
        )

    @override
    def conclude_kept(self, plan: Plan) -> None:
        self.draft.conclude("embedded_local", self.surety())

    @override
    def surety(self) -> str:
        return "the device embeds whatever it can"

    @override
    def doubt(self) -> str:
        return ""  # vectors are never in doubt

    @override
    def fall_back(self) -> Iterator[Event]:
        yield from ()
        self.vectors = []  # the cloud's vectors are of another space
        self._on_device()

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        yield from ()
        self.place, self.space = "cloud", self.pinned
        for number, texts in enumerate(_batches(self.texts)):
            done = len(self.vectors)
            messages = self.request.messages[done : done + len(texts)]
            part = replace(self.request, messages=messages, part=f"{number}." if number else "")
            rows = self._ask(part)
            answered = self.draft.attempts[-1]
            space = cloud_space(answered.backend, answered.model, len(rows[0]))
            if self.space and space != self.space:
                raise _mismatch(self.space, f"{answered.backend} answered in {space!r}")
            self.space = space
            self.vectors += map(_length_one, rows)
        self.windows = (0,) * len(self.texts)
        self.text_codes = ((),) * len(self.texts)

    def _ask(self, part: Request) -> Sequence[Sequence[float]]:
        door = self.parts.cloud(self.space)
        rows: Sequence[Sequence[float]] = ()
        # Read to the end: the attempt is recorded after the last chunk.
        for chunk in door.stream(part, self.draft.attempts, live=False, patience_s=None):
            if isinstance(chunk, Vectors):
                rows = chunk.values
        if len(rows) != len(part.messages):
            raise CloudMalformed(f"{len(rows)} vectors for {len(part.messages)} texts")
        return rows

    def finished(self, int8: bool) -> Embeddings:
        rounded = [as_int8(vector) for vector in self.vectors] if int8 else []
        vectors: tuple[Vector, ...] = tuple(v for v, _ in rounded) if int8 else tuple(self.vectors)
        return Embeddings(
            **self.draft.common(self.place or "none", self.clock()),
            text="",
            decision=self.draft.decision(),
            vectors=vectors,
            space=self.space,
            dimensions=len(vectors[0]) if vectors else 0,
            scales=tuple(scale for _, scale in rounded),
            windows=self.windows,
            text_codes=self.text_codes,
        )


def _mismatch(pinned: str, reason: str) -> SpaceMismatch:
    name = pinned.partition("@")[0] if "@" in pinned else ""
    other = f"`edgewise pull {name}` and embed_model = {name}" if name else "that provider's key"
    return SpaceMismatch(
        f"vectors of the space {pinned!r} cannot be made here: {reason}. Embed the whole "
        f"collection again without naming a space, or use {other}"
    )


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == MOST_TEXTS or characters + len(text) > MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _length_one(values: Sequence[float]) -> array[float]:
    """Not every provider returns vectors of length 1."""
    length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
    return array("f", (value / length for value in values))


def as_int8(vector: array[float]) -> tuple[array[int], float]:
    """Integers from -127 to 127, and their scale. Zero stays zero."""
    scale = max(map(abs, vector), default=0.0) / 127 or 1.0
    return array("b", (round(value / scale) for value in vector)), scale
