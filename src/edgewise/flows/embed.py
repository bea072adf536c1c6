"""Embedding: the device, or the cloud where the device cannot; one space per result, always.

Read from the top: `embed` plans; `_on_device` and `_in_cloud` are the two ways vectors come about.
The cloud is asked in batches, and after the first one only who made it is asked again.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from edgewise.cloud.provider import Cloud
from edgewise.decide.fit import Misfit, outside_script
from edgewise.decide.policy import Plan, Policy, asked
from edgewise.errors import (
    CloudClosed,
    CloudError,
    CloudMalformed,
    DoesNotFit,
    ExtraMissing,
    GenerationFailed,
    ModelNotFound,
    SpaceMismatch,
)
from edgewise.local.backend import EmbedBackend
from edgewise.types.embeddings import (
    Embeddings,
    Vector,
)
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Decision, Place, Usage
from edgewise.types.tokens import Vectors

MOST_TEXTS = 96  # in one request to the cloud: fewer than any provider's limit
MOST_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends to an embedding.

    embedder  raises ModelNotFound or ExtraMissing where the device has none
    cloud     the door; with a space, only those of its providers that make vectors of that space
    """

    embedder: Callable[[], EmbedBackend]
    cloud: Callable[[str], Cloud]
    policy: Policy
    clock: Callable[[], float]


@dataclass(slots=True)
class _Walk:
    """One request on its way through this file."""

    request: Request
    parts: Parts
    attempts: list[Attempt]
    pinned: str  # the space that was asked for; empty: any
    started: float
    texts: list[str]
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    place: Place | None = None
    space: str = ""
    vectors: list[array[float]] = field(default_factory=list)
    windows: tuple[int, ...] = ()
    text_codes: tuple[tuple[str, ...], ...] = ()

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason


def cloud_space(provider: str, model: str, dimensions: int) -> str:
    return f"{provider}/{model}-{dimensions}"


def embed(
    request: Request, parts: Parts, attempts: list[Attempt], *, space: str = "", int8: bool = False
) -> Embeddings:
    """One vector per user message, in their order. `space` refuses any other than that one."""
    texts = [message.content for message in request.messages]
    walk = _Walk(request, parts, attempts, space, parts.clock(), texts)
    backend, misfit = _look_at_device(walk)
    plan = _plan(walk, misfit)
    walk.conclude(plan.code, plan.reason)
    walk.degraded_code = plan.degraded_code
    if plan.first is None:
        raise _refusal(walk, plan)
    if plan.first == "local":
        assert backend is not None, "a plan that starts on the device has one"
        _on_device(walk, backend, plan)
    elif request.handoff == "signal":
        walk.conclude(f"signalled_{plan.code.removeprefix('handoff_')}", plan.reason)
    else:
        _in_cloud_or_back(walk, backend, plan)
    return _finished(walk, int8)


def _look_at_device(walk: _Walk) -> tuple[EmbedBackend | None, Misfit | None]:
    if walk.request.policy == "cloud_only":
        return None, None  # never used, so never fetched or opened
    try:
        backend = walk.parts.embedder()
    except (ModelNotFound, ExtraMissing) as error:
        return None, Misfit(error.code, str(error))
    here = backend.facts().space
    if walk.pinned and walk.pinned != here:
        return None, Misfit("other_space", f"the device makes vectors of the space {here!r}")
    if walk.request.dimensions is not None and not here.endswith(f"-{walk.request.dimensions}"):
        wanted = f"the device makes vectors of {here!r}, not of {walk.request.dimensions} numbers"
        return None, Misfit("other_space", wanted)
    return backend, None


def _plan(walk: _Walk, misfit: Misfit | None) -> Plan:
    shut = walk.parts.cloud(walk.pinned).closed(walk.request)
    return walk.parts.policy(asked(walk.request, misfit, shut))


def _refusal(walk: _Walk, plan: Plan) -> Exception:
    if walk.pinned and "other_space" in (plan.code, plan.degraded_code):
        return _mismatch(walk.pinned, plan.reason)
    if walk.request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    return (ModelNotFound if plan.code == ModelNotFound.code else DoesNotFit)(plan.reason)


def _mismatch(pinned: str, reason: str) -> SpaceMismatch:
    name = pinned.partition("@")[0] if "@" in pinned else ""
    other = f"`edgewise pull {name}` and embed_model = {name}" if name else "that provider's key"
    return SpaceMismatch(
        f"vectors of the space {pinned!r} cannot be made here: {reason}. Embed the whole "
        f"collection again without naming a space, or use {other}"
    )


def _on_device(walk: _Walk, backend: EmbedBackend, plan: Plan) -> None:
    facts, begun, outcome, error = backend.facts(), walk.parts.clock(), "cancelled", ""
    tokens = 0
    try:
        made = backend.embed(walk.texts)
        tokens, outcome = made.tokens, "answered"
    except GenerationFailed as failure:
        outcome, error = failure.code, str(failure)
        if not plan.may_hand_off or walk.pinned or walk.request.handoff == "signal":
            raise
    finally:
        walk.attempts.append(
            Attempt(
                place="local",
                backend=facts.backend,
                model=facts.model,
                outcome=outcome,
                error=error,
                total_ms=1000 * (walk.parts.clock() - begun),
                input_tokens=tokens,
            )
        )
    if outcome != "answered":
        walk.conclude("handoff_local_failed", error)
        _in_cloud(walk)
        return
    if plan.code == "started_local":
        walk.conclude("embedded_local", "the device embeds whatever it can")
    walk.place, walk.space = "local", facts.space
    walk.vectors, walk.windows = list(made.vectors), made.windows
    walk.text_codes = tuple(
        ("windowed",) * (count > 1)
        + ("language_outside_model",) * outside_script(text, facts.languages)
        for text, count in zip(walk.texts, made.windows, strict=True)
    )


def _in_cloud_or_back(walk: _Walk, backend: EmbedBackend | None, plan: Plan) -> None:
    try:
        _in_cloud(walk)
    except CloudError as error:
        if plan.local_backup and backend is not None:
            walk.degraded_code = error.code
            reason = f"{walk.reason}; but the cloud did not answer: {error}"
            walk.vectors = []  # what it did make is of another space
            _on_device(walk, backend, replace(plan, may_hand_off=False))
            walk.conclude("fallback_local", reason)
            return
        if walk.request.policy == "cloud_only":
            raise
        raise DoesNotFit(f"{plan.reason}; and the cloud failed: {error}") from error


def _in_cloud(walk: _Walk) -> None:
    walk.place, walk.space = "cloud", walk.pinned
    for number, texts in enumerate(_batches(walk.texts)):
        done = len(walk.vectors)
        messages = walk.request.messages[done : done + len(texts)]
        part = replace(walk.request, messages=messages, part=f"{number}." if number else "")
        rows = _ask(walk, part)
        answered = walk.attempts[-1]
        space = cloud_space(answered.backend, answered.model, len(rows[0]))
        if walk.space and space != walk.space:
            raise _mismatch(walk.space, f"{answered.backend} answered in {space!r}")
        walk.space = space
        walk.vectors += map(_length_one, rows)
    walk.windows = (0,) * len(walk.texts)
    walk.text_codes = ((),) * len(walk.texts)


def _ask(walk: _Walk, part: Request) -> Sequence[Sequence[float]]:
    door = walk.parts.cloud(walk.space)
    rows: Sequence[Sequence[float]] = ()
    # To its end: the attempt is written down after the last chunk.
    for chunk in door.stream(part, walk.attempts, live=False, patience_s=None):
        if isinstance(chunk, Vectors):
            rows = chunk.values
    if len(rows) != len(part.messages):
        raise CloudMalformed(f"{len(rows)} vectors for {len(part.messages)} texts")
    return rows


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
    """Not every provider does it itself."""
    length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
    return array("f", (value / length for value in values))


def as_int8(vector: array[float]) -> tuple[array[int], float]:
    """Whole numbers from -127 to 127, and what they must be multiplied by. Zero stays zero."""
    scale = max(map(abs, vector), default=0.0) / 127 or 1.0
    return array("b", (round(value / scale) for value in vector)), scale


def _finished(walk: _Walk, int8: bool) -> Embeddings:
    request, attempts = walk.request, tuple(walk.attempts)
    rounded = [as_int8(vector) for vector in walk.vectors] if int8 else []
    vectors: tuple[Vector, ...] = tuple(v for v, _ in rounded) if int8 else tuple(walk.vectors)
    return Embeddings(
        id=request.id,
        text="",
        source=walk.place or "none",
        cloud_handoff=walk.place != "local",
        degraded=bool(walk.degraded_code),
        decision=Decision(
            policy=request.policy,
            handoff=request.handoff,
            code=walk.code,
            reason=walk.reason,
            degraded_code=walk.degraded_code,
        ),
        attempts=attempts,
        usage=Usage(
            sum(attempt.input_tokens for attempt in attempts),
            0,
            sum(attempt.cost_microdollars for attempt in attempts),
        ),
        total_ms=1000 * (walk.parts.clock() - walk.started),
        vectors=vectors,
        space=walk.space,
        dimensions=len(vectors[0]) if vectors else 0,
        scales=tuple(scale for _, scale in rounded),
        windows=walk.windows,
        text_codes=walk.text_codes,
    )
