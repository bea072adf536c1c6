"""Sound on the device: segments heard and judged, and the transcript that they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edgewise.errors import CloudError, CloudMalformed, GenerationFailed, LocalError
from edgewise.local.backend import Guide, SpeechBackend
from edgewise.speech.audio import (
    RATE,
    as_wav,
)
from edgewise.speech.chunks import Chunk
from edgewise.speech.confidence import (
    LOOPING,
    SegmentCalibration,
    features_of,
    signal_to_noise,
)
from edgewise.speech.subtitles import as_text
from edgewise.speech.words import (
    MOST_COMPRESSED,
    compression,
    into_utterances,
    loop_in,
    made_up,
    without_loops,
)
from edgewise.types.messages import Audio, Request, Source
from edgewise.types.objectives import high_enough
from edgewise.types.replies import Attempt, Decision, Place, Usage
from edgewise.types.transcripts import Heard, Segment, Transcript, Word

if TYPE_CHECKING:
    from edgewise.local.backend import Samples


MOST_ALIKE = 2  # segments in a row with the same words; a third is a loop
CONTEXT_S = 0.4  # of sound sent with a segment on each side, as far as nobody speaks in it
LEAST_CONTEXT_S = 0.05  # times of words are not exact
MOST_WORDS_PER_SECOND = 8.0  # that anybody says
AROUND_S = 0.5  # of sound that the noise is measured in
CLEAR_VOICE = 0.4  # mean chance of a voice from which somebody speaks, whatever the model hears


@dataclass(slots=True)
class Hearing:
    """The device's part of one transcription. `number` gives each segment its id."""

    transcriber: SpeechBackend
    calibration: SegmentCalibration
    number: Callable[[], int]
    language: str = ""
    dropped: list[Segment] = field(default_factory=list)
    guide: Guide = field(default_factory=Guide)
    _last: list[str] = field(default_factory=list)

    def hear(self, chunk: Chunk) -> list[Segment]:
        """The segments of a chunk, times in the whole sound."""
        found = []
        heard = [
            moved(each, chunk)
            for each in self.transcriber.hear(chunk.samples, language=self.language, **self.guide)
        ]
        if self.transcriber.facts().word_times:
            heard = into_utterances(heard, chunk.speaking)
        for each in heard:
            self.language = self.language or each.language
            segment = self._judge(each, chunk)
            if segment is not None:
                found.append(segment)
        if not heard and sum(chunk.voice) >= CLEAR_VOICE * len(chunk.voice):
            found.append(self._unheard(chunk))
        return found

    def _unheard(self, chunk: Chunk) -> Segment:
        """Somebody speaks, and the model makes nothing of it: as doubtful as can be."""
        return Segment(
            id=self.number(),
            start=chunk.start,
            end=chunk.start + chunk.seconds,
            text="",
            confidence=0.0,
            expected_error=1.0,
            codes=("unheard",),
        )

    def _judge(self, heard: Heard, chunk: Chunk) -> Segment | None:
        segment = judge(heard, chunk, self.calibration)
        code = made_up(heard, chunk.voice_between(heard.start, heard.end))
        code = code or self._again(segment.text)
        if code:
            self.dropped.append(replace(segment, codes=(code,), confidence=0.0))
            return None
        return replace(segment, id=self.number())

    def _again(self, text: str) -> str:
        """Loops also come as the same segment again and again."""
        self._last = [*self._last[-MOST_ALIKE:], text]
        alike = len(self._last) > MOST_ALIKE and len(set(self._last)) == 1
        return "repetition" if alike else ""


def guide_of(request: Request) -> Guide:
    """What a request asks of whoever hears it; most ask for nothing."""
    guide: Guide = {}
    if request.hint:
        guide["hint"] = request.hint
    if request.temperature:
        guide["temperature"] = request.temperature
    return guide


def judge(heard: Heard, chunk: Chunk, calibration: SegmentCalibration) -> Segment:
    """A segment without a number yet, loops said once, with how sure its words look."""
    voice = chunk.voice_between(heard.start, heard.end)
    around = chunk.cut(heard.start - AROUND_S, heard.end + AROUND_S)
    features = features_of(heard, voice, signal_to_noise(around))
    text, words, looping = without_loops(heard)
    confidence, error = calibration.judge(features, looping=looping)
    return Segment(
        id=-1,
        start=heard.start,
        end=heard.end,
        text=text,
        words=words,
        confidence=confidence,
        expected_error=error,
        language=heard.language,
        codes=("repetition",) * looping,
        features=features,
    )


def moved(heard: Heard, chunk: Chunk) -> Heard:
    """Times in the whole sound, and none after the end of the chunk."""
    last = chunk.start + chunk.seconds
    words = tuple(
        replace(
            word, start=min(last, word.start + chunk.start), end=min(last, word.end + chunk.start)
        )
        for word in heard.words
    )
    start = min(last, heard.start + chunk.start)
    return replace(heard, start=start, end=min(last, heard.end + chunk.start), words=words)


def audio_of(segment: Segment, neighbours: Sequence[Segment], chunk: Chunk) -> Audio:
    """A segment's sound as a WAV."""
    return audio_from(chunk.cut(*span_of(segment, neighbours, chunk)))


def span_of(segment: Segment, neighbours: Sequence[Segment], chunk: Chunk) -> tuple[float, float]:
    """From when to when a segment is sent: with a little around it but nobody else's words."""
    before = [other.end for other in neighbours if other.end <= segment.start]
    after = [other.start for other in neighbours if other.start >= segment.end]
    room_before = segment.start - max(before, default=chunk.start)
    room_after = min(after, default=chunk.start + chunk.seconds) - segment.end
    return segment.start - _context(room_before), segment.end + _context(room_after)


def audio_from(samples: Samples) -> Audio:
    return Audio(as_wav(samples), "audio/wav", len(samples) / RATE)


def _context(room: float) -> float:
    """Half of the way to the neighbour's words: their times are not exact either."""
    return max(LEAST_CONTEXT_S, min(CONTEXT_S, room / 2))


def is_nonsense(text: str, seconds: float) -> bool:
    """Whether a model that was sent a segment lost itself in a loop, or says more than one can."""
    words = text.split()
    looping = loop_in(words) is not None or compression(text) > MOST_COMPRESSED
    return looping or len(words) > 3 + MOST_WORDS_PER_SECOND * seconds


def without_neighbours(text: str, segment: Segment, neighbours: Sequence[Segment]) -> str:
    """The text without words at its edges that are the neighbours' and not the segment's own."""
    own = plain(segment.text)
    before = [plain(each.text) for each in neighbours if each.end <= segment.start + 0.01]
    after = [plain(each.text) for each in neighbours if each.start >= segment.end - 0.01]
    tokens = text.split()
    words = [plain(token)[0] if plain(token) else "" for token in tokens]
    for count in (3, 2, 1):
        if len(words) > count and before and words[:count] == before[-1][-count:] != own[:count]:
            tokens, words = tokens[count:], words[count:]
        if len(words) > count and after and words[-count:] == after[0][:count] != own[-count:]:
            tokens, words = tokens[:-count], words[:-count]
    return " ".join(tokens)


def plain(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.casefold())


def corrected(segment: Segment, text: str) -> Segment:
    """The cloud's text in place of the device's; times stay, words share them by their length."""
    return replace(
        segment,
        text=text,
        words=spread_words(text, segment.start, segment.end),
        source="cloud",
        replaced=segment.text,
        error="",
    )


def spread_words(text: str, start: float, end: float) -> tuple[Word, ...]:
    tokens = text.split()
    total = sum(len(token) + 1 for token in tokens)
    words, now = [], start
    for token in tokens:
        following = now + (end - start) * (len(token) + 1) / total
        words.append(Word(token, round(now, 3), round(following, 3)))
        now = following
    return tuple(words)


@dataclass(slots=True)
class TranscriptDraft:
    """Segments by their id; `doubted` are the ids of those that were below the threshold."""

    request: Request
    attempts: list[Attempt]
    started: float
    threshold: float
    calibration: str
    transcriber: SpeechBackend | None
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


class UtteranceTranscriber:
    """The device's part of live captions. `last` is the last hypothesis of the open utterance."""

    def __init__(
        self,
        transcriber: SpeechBackend,
        calibration: SegmentCalibration,
        draft: TranscriptDraft,
        clock: Callable[[], float],
    ) -> None:
        self._transcriber, self._calibration, self._draft, self._clock = (
            transcriber,
            calibration,
            draft,
            clock,
        )
        self.language = draft.request.language
        self._guide = guide_of(draft.request)
        self.last: tuple[Word, ...] = ()
        self._heard: list[Heard] = []
        self._made_up: list[Heard] = []
        self._texts: list[str] = []  # of the last segments: loops also come as segments

    def hear(self, chunk: Chunk) -> tuple[Word, ...]:
        """A hypothesis: the words of the utterance so far, without what was made up."""
        with self._draft.listening(self._clock):
            found = self._transcriber.hear(chunk.samples, language=self.language, **self._guide)
        self.forget()
        words: list[Word] = []
        for each in found:
            heard = moved(each, chunk)
            self.language = self.language or heard.language
            if made_up(heard, chunk.voice_between(heard.start, heard.end)):
                self._made_up.append(heard)
                continue
            self._heard.append(heard)
            text, said, _ = without_loops(heard)
            words += said or spread_words(text, heard.start, heard.end)
        self.last = tuple(words)
        return self.last

    def forget(self) -> None:
        """The utterance has ended."""
        self.last, self._heard, self._made_up = (), [], []

    def segment(self, words: Sequence[Word], chunk: Chunk) -> Segment | None:
        """The settled words of an utterance, judged by the last hypothesis; None without any.

        What was settled is not taken back, also where it looks like a loop: it is only doubted.
        """
        for heard in self._made_up:
            code = made_up(heard, chunk.voice_between(heard.start, heard.end))
            dropped = judge(heard, chunk, self._calibration)
            self._draft.dropped.append(replace(dropped, codes=(code or "silence",), confidence=0.0))
        if not words:
            return None
        text = " ".join(word.text for word in words)
        segment = judge(self._evidence(words, text), chunk, self._calibration)
        self._texts = [*self._texts[-MOST_ALIKE:], text]
        if len(self._texts) > MOST_ALIKE and len(set(self._texts)) == 1:
            sure = min(LOOPING, segment.confidence or 0.0)
            segment = replace(segment, codes=("repetition",), confidence=sure)
        return replace(segment, text=text, words=tuple(words))

    def unheard(self, words: Sequence[Word], chunk: Chunk, error: GenerationFailed) -> Segment:
        """What there is of an utterance that the model broke off in: nothing to rely on."""
        return Segment(
            id=-1,
            start=chunk.start,
            end=chunk.start + chunk.seconds,
            text=" ".join(word.text for word in words),
            words=tuple(words),
            confidence=0.0,
            expected_error=1.0,
            language=self.language,
            codes=(error.code,),
        )

    def _evidence(self, words: Sequence[Word], text: str) -> Heard:
        """The settled words with the evidence of all that the last hypothesis was made of."""
        heard = self._heard
        weights = [max(1, len(each.text)) for each in heard]
        logprobs = (weight * each.mean_logprob for weight, each in zip(weights, heard, strict=True))
        return Heard(
            start=words[0].start,
            end=max(words[-1].end, words[0].start),
            text=text,
            words=tuple(words),
            mean_logprob=sum(logprobs) / (sum(weights) or 1),
            no_speech=max((each.no_speech for each in heard), default=0.0),
            compression_ratio=max((each.compression_ratio for each in heard), default=1.0),
            temperature=max((each.temperature for each in heard), default=0.0),
            language=self.language,
        )
