"""The transcript in the making: who heard which segment, and what has been decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from edgewise.errors import CloudError, CloudMalformed, LocalError
from edgewise.flows.hear_segments import corrected, is_nonsense, without_neighbours
from edgewise.local.backend import SpeechBackend
from edgewise.speech.subtitles import as_text
from edgewise.types.aims import high_enough
from edgewise.types.messages import Request, Source
from edgewise.types.replies import Attempt, Decision, Place, Usage
from edgewise.types.transcripts import Segment, Transcript


@dataclass(slots=True)
class TranscriptDraft:
    """Segments by their id; `doubted` are the ids of those that were below the threshold."""

    request: Request
    attempts: list[Attempt]
    started: float
    threshold: float
    calibration: str
    ears: SpeechBackend | None
    objective: str = ""
    segments: dict[int, Segment] = field(default_factory=dict)
    dropped: list[Segment] = field(default_factory=list)
    doubted: set[int] = field(default_factory=set)
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    sent_seconds: float = 0.0
    speech_seconds: float = 0.0
    failure: CloudError | None = None
    _heard_s: float = 0.0
    _outcome: str = ""
    _error: str = ""

    @property
    def enough(self) -> str:
        return high_enough(self.objective if self.segments else "")

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason

    def doubts(self, segment: Segment) -> bool:
        return segment.confidence is not None and segment.confidence < self.threshold

    def add(self, segments: Sequence[Segment]) -> list[Segment]:
        """Those of the device's segments that are in doubt."""
        self.segments |= {segment.id: segment for segment in segments}
        doubtful = [segment for segment in segments if self.doubts(segment)]
        self.doubted |= {segment.id for segment in doubtful}
        return doubtful

    def correct(self, number: int, text: str) -> None:
        """The cloud's words in a segment's place, unless they cannot be what is said in it."""
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
        """The cloud hears nobody in it."""
        del self.segments[segment.id]
        self.dropped.append(replace(segment, codes=(*segment.codes, "no_speech")))

    def failed(self, number: int, error: CloudError) -> None:
        """The cloud did not correct a segment: the device's text stands, and says why."""
        self.failure = self.failure or error
        self.segments[number] = replace(self.segments[number], error=error.code)

    @contextmanager
    def listening(self, clock: Callable[[], float]) -> Iterator[None]:
        """Times the device, however often it is asked: all of it is one attempt."""
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
        """Write the device's attempt down, before the cloud's: it was first."""
        if self.ears is None or not self._outcome:
            return
        facts = self.ears.facts()
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
        self.dropped += [each for each in ordered if not each.text]  # heard by nobody
        in_doubt = any(each.id in self.doubted and each.source == "local" for each in segments)
        source = self._source(segments)
        signalled = self.code.startswith("signalled_")
        attempts = self._with_shares(segments)
        confidence = _mean_confidence(segments)
        return Transcript(
            id=self.request.id,
            text=as_text(segments),
            source=source,
            confidence=confidence,
            needs_cloud_handoff=in_doubt,
            cloud_handoff=signalled or source in ("cloud", "mixed"),
            degraded=bool(self.degraded_code),
            decision=self._decision(confidence, segments),
            attempts=attempts,
            usage=Usage(
                sum(attempt.input_tokens for attempt in attempts),
                sum(attempt.output_tokens for attempt in attempts),
                sum(attempt.cost_microdollars for attempt in attempts),
            ),
            total_ms=1000 * (now - self.started),
            segments=segments,
            dropped=tuple(self.dropped),
            seconds=round(seconds, 3),
            speech_seconds=round(self.speech_seconds, 3),
            language=language,
            codes=codes,
        )

    def _decision(self, confidence: float | None, segments: Sequence[Segment]) -> Decision:
        return Decision(
            policy=self.request.policy,
            handoff=self.request.handoff,
            code=self.code,
            reason=self.reason,
            threshold=self.threshold,
            objective=self.objective,
            confidence=confidence,
            calibration=self.calibration,
            degraded_code=self.degraded_code,
            features={"sent_seconds": round(self.sent_seconds, 3), **_least_sure(segments)},
        )

    def _source(self, segments: Sequence[Segment]) -> Source:
        """From the segments; of a transcript without any, its last successful attempt's."""
        places: set[Place] = {segment.source for segment in segments if segment.text}
        if len(places) > 1:
            return "mixed"
        if places:
            return places.pop()
        answered = [attempt for attempt in self.attempts if attempt.outcome == "answered"]
        return answered[-1].place if answered else "local"

    def _with_shares(self, segments: Sequence[Segment]) -> tuple[Attempt, ...]:
        """Each place's characters belong to its last attempt that answered."""
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
    """What is known about the segment that the device was least sure of, as it heard it."""
    known = [(each.confidence, each) for each in segments if each.confidence is not None]
    if not known:
        return {}
    confidence, segment = min(known, key=lambda pair: pair[0])
    return {"least_confidence": confidence, **segment.features}


def conclude_live(draft: TranscriptDraft) -> None:
    """How live captions came about, once every correction has come or been given up."""
    failure, doubted = draft.failure, len(draft.doubted)
    if failure is not None:
        draft.degraded_code = failure.code
    words = f"{doubted} of {len(draft.segments)} segments in doubt"
    if draft.code == "started_local":
        draft.conclude("kept_confident", f"every segment's confidence is {draft.enough}")
        if doubted and draft.request.handoff == "signal":
            draft.conclude("signalled_low_confidence", words)
        elif doubted and draft.sent_seconds:
            sent = f"{draft.sent_seconds:.0f} s went to the cloud"
            draft.conclude("handoff_low_confidence", f"{words}: {sent}")
        elif doubted:
            draft.conclude("kept_in_doubt", f"{words}; the cloud is closed: {failure}")
    corrected = any(each.source == "cloud" for each in draft.segments.values())
    if failure is not None and draft.sent_seconds and not corrected:
        draft.conclude("fallback_local", f"{words}; the cloud failed: {failure}")
