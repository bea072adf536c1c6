"""Transcription: the device hears chunk by chunk, and the cloud corrects what is in doubt.

Read from the top: `transcribe` plans and reads the sound; `_on_device` hears a chunk and sends its
doubtful segments; `_in_cloud` sends whole chunks, where the policy or the device leaves nothing
else; `_take` puts each answer where it belongs. Sound is read as it is needed, so that hours of it
take no more memory than minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.cloud.provider import Cloud
from edgewise.decide.fit import Misfit
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, Policy, Question
from edgewise.errors import (
    CloudClosed,
    DoesNotFit,
    EdgewiseError,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.corrections import Correction, Corrections
from edgewise.flows.hear import (
    Hearing,
    TranscriptDraft,
    audio_from,
    audio_of,
    guide_of,
    spread_words,
)
from edgewise.local.backend import SpeechBackend
from edgewise.speech.audio import (
    Sound,
    open_sound,
)
from edgewise.speech.chunks import (
    Chunk,
    cut_into_chunks,
)
from edgewise.speech.confidence import SegmentCalibration
from edgewise.types.messages import Audio, AudioLike, Request
from edgewise.types.replies import Attempt
from edgewise.types.transcripts import Segment, Transcript

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

MOST_OUTSTANDING = 8  # segments that wait for the cloud before the device waits too
CLOUD_CHUNK_S = 15.0  # where the cloud hears everything, shorter: a chunk becomes one segment

# Called with seconds of sound that were read, and seconds in all (0 where the file does not say).
Progress = Callable[[float, float], None]
# Called with each segment when nobody will change it any more, in the order of the transcript.
Settled = Callable[[Segment], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends to a transcription; `ears` raises ModelNotFound where it has none."""

    transcriber: Callable[[], SpeechBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[SpeechBackend | None], SegmentCalibration]
    clock: Callable[[], float]
    progress: Progress
    settled: Settled = lambda _: None


@dataclass(slots=True)
class _Walk:
    """One request on its way through this file."""

    request: Request
    parts: Parts
    plan: Plan
    draft: TranscriptDraft
    corrections: Corrections
    hearing: Hearing | None  # None where only the cloud hears
    language: str = ""
    numbers: int = 0
    told: set[int] = field(default_factory=set)  # segments that were called settled
    # Chunks that the cloud was sent in one piece, by the id of the segment they will be.
    whole: dict[int, Chunk] = field(default_factory=dict)

    @property
    def may_ask(self) -> bool:
        return self.plan.may_hand_off and self.request.handoff == "automatic"

    def number(self) -> int:
        self.numbers += 1
        return self.numbers - 1


def transcribe(
    request: Request, audio: AudioLike, parts: Parts, attempts: list[Attempt]
) -> Transcript:
    """Everything that is said in a file."""
    with open_sound(audio) as sound:
        walk = _begin(request, parts, attempts)
        try:
            _read(walk, sound)
            _take(walk, walk.corrections.wait())
            _tell(walk, outstanding=())
        finally:
            walk.corrections.stop()
            walk.draft.end_local()
        _conclude(walk)
        language = walk.request.language or (walk.hearing.language if walk.hearing else "")
        return walk.draft.transcript(
            seconds=sound.read_seconds, codes=sound.codes, language=language, now=parts.clock()
        )


def _begin(request: Request, parts: Parts, attempts: list[Attempt]) -> _Walk:
    transcriber, misfit = _look_at_device(request, parts)
    calibration = parts.calibration(transcriber)
    objective = find_objective(request, calibration)
    if transcriber is not None and request.handoff == "automatic":
        misfit = misfit or objective.misfit  # else every segment says that it is in doubt
    plan = _plan(request, parts, misfit)
    if plan.first is None:
        raise _refusal(request, plan)
    if plan.first == "cloud" and request.handoff == "signal":
        raise DoesNotFit(f"the application is to route this: {plan.reason}")
    draft = TranscriptDraft(
        request, attempts, parts.clock(), objective.threshold, calibration.name, transcriber
    )
    draft.objective = objective.words if transcriber is not None else ""
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    corrections = Corrections(parts.cloud, request, attempts, patience_s=None)
    walk = _Walk(request, parts, plan, draft, corrections, None)
    if transcriber is not None:
        walk.hearing = Hearing(
            transcriber,
            calibration,
            walk.number,
            request.language,
            draft.dropped,
            guide_of(request),
        )
    return walk


def _look_at_device(request: Request, parts: Parts) -> tuple[SpeechBackend | None, Misfit | None]:
    if request.policy == "cloud_only":
        return None, None  # never used, so never fetched or opened
    try:
        transcriber = parts.transcriber()
    except ModelNotFound as error:
        return None, Misfit(error.code, str(error))
    facts = transcriber.facts()
    if request.language and facts.languages and request.language not in facts.languages:
        reason = f"{facts.model} knows {', '.join(facts.languages)}, not {request.language!r}"
        return None, Misfit("language_unsupported", reason)
    return transcriber, None


def _plan(request: Request, parts: Parts, misfit: Misfit | None) -> Plan:
    shut = parts.cloud.closed(request)
    return parts.policy(
        Question(
            misfit=misfit,
            cloud_closed=shut.code if shut else "",
            cloud_closed_reason=str(shut) if shut else "",
        )
    )


def _refusal(request: Request, plan: Plan) -> EdgewiseError:
    if request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    return (
        ModelNotFound(plan.reason) if plan.code == ModelNotFound.code else DoesNotFit(plan.reason)
    )


def _read(walk: _Walk, sound: Sound) -> None:
    on_device = walk.plan.first == "local"
    transcriber = walk.draft.transcriber
    longest_s = (
        transcriber.facts().chunk_s if on_device and transcriber is not None else CLOUD_CHUNK_S
    )
    for chunk in cut_into_chunks(_told(walk, sound), longest_s=longest_s):
        walk.draft.speech_seconds += chunk.seconds
        if on_device:
            _on_device(walk, chunk)
        else:
            _in_cloud(walk, chunk)
        outstanding = walk.corrections.outstanding_ids()
        _take(walk, walk.corrections.arrived())
        _tell(walk, outstanding)


def _told(walk: _Walk, sound: Sound) -> Iterator[Samples]:
    for block in sound.blocks():
        yield block
        walk.parts.progress(sound.read_seconds, sound.seconds)


def _on_device(walk: _Walk, chunk: Chunk) -> None:
    try:
        segments = _hear(walk, chunk)
    except LocalError as error:
        if not walk.may_ask:
            raise
        walk.draft.conclude("handoff_local_failed", str(error))
        _in_cloud(walk, chunk)
        return
    doubtful = walk.draft.add(segments)
    for segment in doubtful if walk.may_ask else ():
        before = next((s.text for s in segments if s.id == segment.id - 1), "")
        _send(walk, segment.id, audio_of(segment, segments, chunk), before)


def _hear(walk: _Walk, chunk: Chunk) -> list[Segment]:
    assert walk.hearing is not None, "a plan that uses the device has one"
    with walk.draft.listening(walk.parts.clock):
        return walk.hearing.hear(chunk)


def _in_cloud(walk: _Walk, chunk: Chunk) -> None:
    number = walk.number()
    walk.whole[number] = chunk
    _send(walk, number, audio_from(chunk.samples))


def _send(walk: _Walk, number: int, audio: Audio, words_before: str = "") -> None:
    _take(walk, walk.corrections.wait(most=MOST_OUTSTANDING - 1))
    walk.draft.sent_seconds += audio.seconds
    walk.corrections.send(number, audio, words_before=words_before)


def _take(walk: _Walk, corrections: Sequence[Correction]) -> None:
    for correction in corrections:
        chunk = walk.whole.pop(correction.segment, None)
        if chunk is not None:
            _take_whole(walk, correction, chunk)
        elif correction.error is not None:
            walk.draft.failed(correction.segment, correction.error)
        else:
            walk.draft.correct(correction.segment, correction.text)


def _tell(walk: _Walk, outstanding: Sequence[int]) -> None:
    """Call those segments settled that come before everything still at the cloud."""
    segments = walk.draft.segments
    waiting = [segments[number].start for number in outstanding if number in segments]
    waiting += [chunk.start for chunk in walk.whole.values()]
    first = min(waiting, default=math.inf)
    for segment in sorted(segments.values(), key=lambda each: (each.start, each.id)):
        if segment.id not in walk.told and segment.start < first:
            walk.told.add(segment.id)
            walk.parts.settled(segment)


def _take_whole(walk: _Walk, correction: Correction, chunk: Chunk) -> None:
    draft = walk.draft
    if correction.error is None:
        if correction.text:
            end = chunk.start + chunk.seconds
            draft.segments[correction.segment] = Segment(
                id=correction.segment,
                start=chunk.start,
                end=end,
                text=correction.text,
                words=spread_words(correction.text, chunk.start, end),
                source="cloud",
                language=walk.request.language,
            )
        return
    draft.failure = draft.failure or correction.error
    if walk.plan.local_backup and walk.hearing is not None:
        draft.add(_hear(walk, chunk))
    elif walk.plan.code.startswith("handoff_") or walk.plan.first == "local":
        raise DoesNotFit(f"{draft.reason}; and the cloud failed: {correction.error}")
    else:
        raise correction.error


def _conclude(walk: _Walk) -> None:
    draft, plan = walk.draft, walk.plan
    sources = {segment.source for segment in draft.segments.values()}
    if draft.failure is not None:
        draft.degraded_code = draft.failure.code
    if draft.code != "started_local":
        if draft.failure is not None and "cloud" not in sources:
            draft.conclude("fallback_local", f"the cloud failed: {draft.failure}")
        return
    if not draft.doubted:
        draft.conclude("kept_confident", f"every segment's confidence is {draft.enough}")
        return
    words = f"{len(draft.doubted)} of {len(draft.segments)} segments in doubt"
    if walk.request.handoff == "signal":
        draft.conclude("signalled_low_confidence", words)
    elif not plan.may_hand_off:
        draft.conclude("kept_in_doubt", words)
        if (shut := walk.parts.cloud.closed(walk.request)) is not None:
            draft.degraded_code = shut.code
            draft.reason += f"; the cloud is closed: {shut}"
    elif "cloud" in sources or draft.failure is None:
        draft.conclude(
            "handoff_low_confidence", f"{words}: {draft.sent_seconds:.0f} s went to the cloud"
        )
    else:
        draft.conclude("fallback_local", f"{words}; the cloud failed: {draft.failure}")
