"""Transcription: the device transcribes chunk by chunk, and the cloud corrects what is in doubt.

Read from the top: `transcribe` routes. In `Transcribing`, `_on_device` transcribes a chunk and
sends its doubtful segments. `_in_cloud` sends whole chunks, if the policy or the device leaves
nothing else. `_take` puts each answer in its place. Sound is read as needed, so that hours of it
take no more memory than minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from typing_extensions import override

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.decide.fit import Misfit, find_late_hearing
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, Policy
from edgewise.errors import CloudError, CloudMalformed, DoesNotFit, LocalError, ModelNotFound
from edgewise.flows.corrections import Correction, Corrections
from edgewise.flows.hear import (
    Hearing,
    audio_from,
    audio_of,
    corrected,
    guide_of,
    is_nonsense,
    spread_words,
    without_neighbours,
)
from edgewise.flows.route import Draft, Flow, run
from edgewise.local.backend import SpeechBackend
from edgewise.speech.audio import Sound, open_sound
from edgewise.speech.chunks import Chunk, cut_into_chunks
from edgewise.speech.subtitles import as_text
from edgewise.types.messages import Audio, AudioLike, Request, Source
from edgewise.types.objectives import high_enough
from edgewise.types.replies import Attempt, Event, Place
from edgewise.types.transcripts import Segment, Transcript

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

MOST_OUTSTANDING = 8  # segments that wait for the cloud before the device waits too
CLOUD_CHUNK_S = 15.0  # shorter if the cloud transcribes everything: a chunk becomes one segment

# Called with the seconds of sound read so far, and in all (0 if the file does not say).
Progress = Callable[[float, float], None]
# Called with each segment when it is final, in the order of the transcript.
Settled = Callable[[Segment], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine provides. `transcriber` raises ModelNotFound if there is none."""

    transcriber: Callable[[], SpeechBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[SpeechBackend | None], Calibration]
    clock: Callable[[], float]
    progress: Progress
    settled: Settled = lambda _: None


def transcribe(
    request: Request, audio: AudioLike, parts: Parts, attempts: list[Attempt]
) -> Transcript:
    """Everything that is said in a file."""
    with open_sound(audio) as sound:
        flow = Transcribing(request, parts, attempts, sound)
        try:
            run(flow)
        finally:
            flow.corrections.stop()
            flow.draft.end_local()
        flow.conclude()
        language = request.language or (flow.hearing.language if flow.hearing else "")
        return flow.draft.transcript(
            seconds=sound.read_seconds, codes=sound.codes, language=language, now=parts.clock()
        )


def look_at_device(
    request: Request, transcriber: Callable[[], SpeechBackend]
) -> tuple[SpeechBackend | None, Misfit | None]:
    """The device's model, and why it does not fit, if so."""
    if request.policy == "cloud_only":
        return None, None  # never used, so never fetched or opened
    try:
        found = transcriber()
    except ModelNotFound as error:
        return None, Misfit(error.code, str(error))
    facts = found.facts()
    if request.language and facts.languages and request.language not in facts.languages:
        reason = f"{facts.model} knows {', '.join(facts.languages)}, not {request.language!r}"
        return None, Misfit("language_unsupported", reason)
    return found, None


class Transcribing(Flow):
    """The transcription of one sound file. `plan` is the one being followed."""

    draft: TranscriptDraft
    plan: Plan

    def __init__(
        self, request: Request, parts: Parts, attempts: list[Attempt], sound: Sound
    ) -> None:
        self.parts, self.sound = parts, sound
        self.cloud, self.policy, self.clock = parts.cloud, parts.policy, parts.clock
        transcriber, self.misfit = look_at_device(request, parts.transcriber)
        calibration = parts.calibration(transcriber)
        objective = find_objective(request, calibration)
        if transcriber is not None and request.handoff == "automatic":
            # Otherwise every segment says that it is in doubt.
            late = find_late_hearing(request, sound.seconds, transcriber.facts().real_time_factor)
            self.misfit = self.misfit or late or objective.misfit
        self.draft = TranscriptDraft(
            request=request,
            attempts=attempts,
            started=parts.clock(),
            threshold=objective.threshold,
            objective=objective.words if transcriber is not None else "",
            calibration=calibration.name,
            transcriber=transcriber,
        )
        self.corrections = Corrections(parts.cloud, request, attempts, patience_s=None)
        self.numbers = 0
        self.told: set[int] = set()  # segments reported as final
        # Chunks sent to the cloud whole, by the id of their future segment.
        self.whole: dict[int, Chunk] = {}
        self.hearing: Hearing | None = None  # None if only the cloud transcribes
        if transcriber is not None:
            self.hearing = Hearing(
                transcriber,
                calibration,
                self.number,
                request.language,
                self.draft.dropped,
                guide_of(request),
            )

    @property
    def may_ask(self) -> bool:
        return self.plan.may_hand_off and self.request.handoff == "automatic"

    def number(self) -> int:
        self.numbers += 1
        return self.numbers - 1

    @override
    def adjust(self, plan: Plan) -> Plan:
        self.plan = plan
        return plan

    @override
    def signal(self, code: str, reason: str) -> None:
        raise DoesNotFit(f"the application is to route this: {reason}")

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        """Doubtful segments go to the cloud one by one, so there is nothing left to hand off."""
        yield from ()
        transcriber = self.draft.transcriber
        assert transcriber is not None, "a plan that starts on the device has one"
        self._read(transcriber.facts().chunk_s, self._on_device)
        return False

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        yield from ()
        self._read(CLOUD_CHUNK_S, self._in_cloud)

    @override
    def may_fall_back(self) -> bool:
        return False

    @override
    def fall_back(self) -> Iterator[Event]:
        """Each chunk falls back on its own, in `_take_whole`."""
        yield from ()

    @override
    def doubt(self) -> str:
        return f"{len(self.draft.in_doubt)} of {len(self.draft.segments)} segments in doubt"

    @override
    def surety(self) -> str:
        return f"every segment's {self.draft.sureness} is {self.draft.enough}"

    @override
    def conclude_kept(self, plan: Plan) -> None:
        """Done by `conclude`, when every correction has arrived or failed."""

    def _read(self, longest_s: float, hear: Callable[[Chunk], None]) -> None:
        for chunk in cut_into_chunks(self._blocks(), longest_s=longest_s):
            self.draft.speech_seconds += chunk.seconds
            hear(chunk)
            outstanding = self.corrections.outstanding_ids()
            self._take(self.corrections.arrived())
            self._tell(outstanding)
        self._take(self.corrections.wait())
        self._tell(outstanding=())

    def _blocks(self) -> Iterator[Samples]:
        for block in self.sound.blocks():
            yield block
            self.parts.progress(self.sound.read_seconds, self.sound.seconds)

    def _on_device(self, chunk: Chunk) -> None:
        if self.may_ask and (late := self._lateness(chunk)) is not None:
            # The cloud hears the rest. What it cannot hear, the device still can.
            self.plan = replace(self.plan, local_backup=True)
            self.draft.conclude(f"handoff_{late.code}", late.reason)
            self._in_cloud(chunk)
            return
        try:
            segments = self._hear(chunk)
        except LocalError as error:
            if not self.may_ask:
                raise
            self.draft.conclude("handoff_local_failed", str(error))
            self._in_cloud(chunk)
            return
        doubtful = self.draft.add(segments)
        for segment in doubtful if self.may_ask else ():
            before = next((s.text for s in segments if s.id == segment.id - 1), "")
            self._send(segment.id, audio_of(segment, segments, chunk), before)

    def _lateness(self, chunk: Chunk) -> Misfit | None:
        """Whether the rest, from this chunk on, would be heard too late.

        Asked before every chunk: a file may be the first that this device hears.
        """
        assert self.draft.transcriber is not None, "a plan that starts on the device has one"
        left_s = max(chunk.seconds, self.sound.seconds - chunk.start)
        factor = self.draft.transcriber.facts().real_time_factor
        return find_late_hearing(self.request, left_s, factor, self.clock() - self.draft.started)

    def _hear(self, chunk: Chunk) -> list[Segment]:
        assert self.hearing is not None, "a plan that uses the device has one"
        with self.draft.listening(self.clock):
            return self.hearing.hear(chunk)

    def _in_cloud(self, chunk: Chunk) -> None:
        number = self.number()
        self.whole[number] = chunk
        self._send(number, audio_from(chunk.samples))

    def _send(self, number: int, audio: Audio, words_before: str = "") -> None:
        self._take(self.corrections.wait(most=MOST_OUTSTANDING - 1))
        self.draft.sent_seconds += audio.seconds
        self.corrections.send(number, audio, words_before=words_before)

    def _take(self, corrections: Sequence[Correction]) -> None:
        for correction in corrections:
            chunk = self.whole.pop(correction.segment, None)
            if chunk is not None:
                self._take_whole(correction, chunk)
            elif correction.error is not None:
                self.draft.failed(correction.segment, correction.error)
            else:
                self.draft.correct(correction.segment, correction.text)

    def _tell(self, outstanding: Sequence[int]) -> None:
        """Report the segments as final that come before everything still at the cloud."""
        segments = self.draft.segments
        waiting = [segments[number].start for number in outstanding if number in segments]
        waiting += [chunk.start for chunk in self.whole.values()]
        first = min(waiting, default=math.inf)
        for segment in sorted(segments.values(), key=lambda each: (each.start, each.id)):
            if segment.id not in self.told and segment.start < first:
                self.told.add(segment.id)
                self.parts.settled(segment)

    def _take_whole(self, correction: Correction, chunk: Chunk) -> None:
        draft = self.draft
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
                    language=self.request.language,
                )
            return
        draft.failure = draft.failure or correction.error
        if self.plan.local_backup and self.hearing is not None:
            draft.add(self._hear(chunk))
        elif self.plan.first == "local":  # neither side transcribed this chunk
            raise DoesNotFit(f"{draft.reason}; and the cloud failed: {correction.error}")
        else:
            raise correction.error

    def conclude(self) -> None:
        """Say how the transcript came about, when every correction has arrived or failed."""
        draft, plan = self.draft, self.plan
        sources = {segment.source for segment in draft.segments.values()}
        if draft.failure is not None:
            draft.degraded_code = draft.failure.code
        if draft.code != "started_local":
            if draft.failure is not None and "cloud" not in sources:
                draft.conclude("fallback_local", f"the cloud failed: {draft.failure}")
        elif draft.in_doubt and self.request.handoff == "signal":
            draft.conclude("signalled_low_confidence", self.doubt())
        elif not draft.in_doubt or not plan.may_hand_off:
            draft.doubted = bool(draft.in_doubt)
            super().conclude_kept(plan)
        elif "cloud" in sources or draft.failure is None:
            sent = f"{draft.sent_seconds:.0f} s went to the cloud"
            draft.conclude("handoff_low_confidence", f"{self.doubt()}: {sent}")
        else:
            failed = f"{self.doubt()}; the cloud failed: {draft.failure}"
            draft.conclude("fallback_local", failed)


@dataclass(slots=True, kw_only=True)
class TranscriptDraft(Draft):
    """Segments by id. `in_doubt` are the ids of segments below the threshold."""

    transcriber: SpeechBackend | None
    segments: dict[int, Segment] = field(default_factory=dict)
    dropped: list[Segment] = field(default_factory=list)
    in_doubt: set[int] = field(default_factory=set)  # below the threshold on the device
    sent_seconds: float = 0.0
    speech_seconds: float = 0.0
    failure: CloudError | None = None
    _heard_s: float = 0.0
    _outcome: str = ""
    _error: str = ""

    @property
    @override
    def enough(self) -> str:
        return high_enough(self.objective if self.segments else "")

    def doubts(self, segment: Segment) -> bool:
        return segment.confidence is not None and segment.confidence < (self.threshold or 0.0)

    def add(self, segments: Sequence[Segment]) -> list[Segment]:
        """Add the device's segments, and return those in doubt."""
        self.segments |= {segment.id: segment for segment in segments}
        doubtful = [segment for segment in segments if self.doubts(segment)]
        self.in_doubt |= {segment.id for segment in doubtful}
        return doubtful

    def correct(self, number: int, text: str) -> None:
        """Use the cloud's text for a segment, unless it cannot be right."""
        before = self.segments[number]
        if is_nonsense(text, before.seconds):
            self.failed(number, CloudMalformed("the cloud repeats itself"))
            return
        near = [self.segments[n] for n in (number - 1, number + 1) if n in self.segments]
        segment = corrected(before, without_neighbours(text, before, near))
        self.segments[number] = segment
        if not segment.text:
            self.drop(segment)

    def drop(self, segment: Segment) -> None:
        """Remove a segment: the cloud hears no speech in it."""
        del self.segments[segment.id]
        self.dropped.append(replace(segment, codes=(*segment.codes, "no_speech")))

    def failed(self, number: int, error: CloudError) -> None:
        """The cloud did not correct a segment: keep the device's text, and record why."""
        self.failure = self.failure or error
        self.segments[number] = replace(self.segments[number], error=error.code)

    @contextmanager
    def listening(self, clock: Callable[[], float]) -> Iterator[None]:
        """Time the device. All its runs together are one attempt."""
        begun, self._outcome = clock(), "cancelled"
        try:
            yield
            self._outcome = "answered"
        except LocalError as error:
            self._outcome, self._error = error.code, str(error)
            raise
        finally:
            self._heard_s += clock() - begun

    def end_local(self) -> None:
        """Record the device's attempt before the cloud's: it was first."""
        if self.transcriber is None or not self._outcome:
            return
        facts = self.transcriber.facts()
        self.attempts.insert(
            0,
            Attempt(
                place="local",
                backend=facts.backend,
                model=facts.model,
                outcome=self._outcome,
                error=self._error,
                total_ms=1000 * self._heard_s,
            ),
        )

    def transcript(
        self, *, seconds: float, codes: tuple[str, ...], language: str, now: float
    ) -> Transcript:
        ordered = sorted(self.segments.values(), key=lambda each: (each.start, each.id))
        segments = tuple(each for each in ordered if each.text)
        self.dropped += [each for each in ordered if not each.text]  # no words from anybody
        self.doubted = any(each.id in self.in_doubt and each.source == "local" for each in segments)
        self.confidence = _mean_confidence(segments)
        source = self._source(segments)
        fields = self.common(source, now, self._with_shares(segments))
        fields["cloud_handoff"] |= self.code.startswith("signalled_")
        sent = {"sent_seconds": round(self.sent_seconds, 3), **_least_sure(segments)}
        return Transcript(
            **fields,
            text=as_text(segments),
            decision=self.decision(features=sent),
            segments=segments,
            dropped=tuple(self.dropped),
            seconds=round(seconds, 3),
            speech_seconds=round(self.speech_seconds, 3),
            language=language,
            codes=codes,
        )

    def _source(self, segments: Sequence[Segment]) -> Source:
        """From the segments; without segments, from the last successful attempt."""
        places: set[Place] = {segment.source for segment in segments if segment.text}
        if len(places) > 1:
            return "mixed"
        if places:
            return places.pop()
        answered = [attempt for attempt in self.attempts if attempt.outcome == "answered"]
        return answered[-1].place if answered else "local"

    def _with_shares(self, segments: Sequence[Segment]) -> tuple[Attempt, ...]:
        """The characters of each place belong to its last attempt that answered."""
        attempts = list(self.attempts)
        for place in ("local", "cloud"):
            characters = sum(len(each.text) for each in segments if each.source == place)
            for index in reversed(range(len(attempts))):
                if attempts[index].place == place and attempts[index].outcome == "answered":
                    attempts[index] = replace(attempts[index], shown_chars=characters)
                    break
        return tuple(attempts)


def _mean_confidence(segments: Sequence[Segment]) -> float | None:
    """Of the device's text, weighted by length."""
    known = [(each.seconds, each.confidence) for each in segments if each.confidence is not None]
    total = sum(seconds for seconds, _ in known)
    if not total:
        return None
    return sum(seconds * confidence for seconds, confidence in known) / total


def _least_sure(segments: Sequence[Segment]) -> dict[str, float]:
    """The features of the segment that the device was least sure of."""
    known = [(each.confidence, each) for each in segments if each.confidence is not None]
    if not known:
        return {}
    confidence, segment = min(known, key=lambda pair: pair[0])
    return {"least_confidence": confidence, **segment.features}
