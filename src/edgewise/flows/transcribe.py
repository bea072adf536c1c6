"""Transcription: the device transcribes chunk by chunk, and the cloud corrects what is in doubt.

Read from the top: `transcribe` routes. In `Transcribing`, `_on_device` transcribes a chunk and
sends its doubtful segments. `_in_cloud` sends whole chunks, if the policy or the device leaves
nothing else. `_take` puts each answer in its place. Sound is read as needed, so that hours of it
take no more memory than minutes.
"""

from __future__ import annotations

import heapq
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from typing_extensions import override

from edgewise.cloud.provider import Cloud, Stop
from edgewise.decide.calibration import Calibration
from edgewise.decide.policy import (
    Misfit,
    Plan,
    Policy,
    find_late_hearing,
    find_objective,
    find_queue,
)
from edgewise.errors import (
    Cancelled,
    CloudError,
    CloudMalformed,
    DoesNotFit,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.route import Draft, Flow, failure_code, run
from edgewise.local.backend import Guide, SpeechBackend, guarded
from edgewise.speech.audio import (
    RATE,
    Chunk,
    Sound,
    Unvoiced,
    as_wav,
    cut_into_chunks,
    open_channels,
    open_sound,
)
from edgewise.speech.words import (
    MOST_COMPRESSED,
    compression,
    features_of,
    into_utterances,
    judge_features,
    loop_in,
    made_up,
    signal_to_noise,
    sounds_foreign,
    without_loops,
)
from edgewise.types.messages import Audio, AudioLike, Message, Request, Source, Word, high_enough
from edgewise.types.replies import Attempt, Event, Finish, Place
from edgewise.types.transcripts import Heard, Segment, Transcript, text_of

if TYPE_CHECKING:
    from edgewise.local.backend import Samples


AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Corrected:
    """The cloud's text of a segment, or the `error` if there is none."""

    segment: int
    text: str = ""
    error: CloudError | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    segment: int
    audio: Audio
    words_before: str
    stop: Stop


class Corrections:
    """Sends segments, up to AT_ONCE together. Each answer names its segment.

    Sending never waits for the network. Each answer is returned once, in any order.
    """

    def __init__(
        self, cloud: Cloud, request: Request, journal: list[Attempt], patience_s: float | None
    ) -> None:
        self._cloud = cloud
        self._request = request
        self._journal = journal
        self._patience_s = patience_s
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._arrived: list[Corrected] = []
        self._outstanding: dict[int, Stop] = {}
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []

    @property
    def outstanding(self) -> int:
        with self._changed:
            return len(self._outstanding)

    def outstanding_ids(self) -> tuple[int, ...]:
        with self._changed:
            return tuple(self._outstanding)

    def send(self, segment: int, audio: Audio, *, words_before: str = "") -> None:
        """Ask for a segment that was not asked for before."""
        asked = _Asked(segment, audio, words_before, Stop())
        with self._changed:
            self._outstanding[segment] = asked.stop
            if len(self._workers) < min(AT_ONCE, len(self._outstanding)):
                worker = threading.Thread(target=self._work, name="edgewise-correct", daemon=True)
                self._workers.append(worker)
                worker.start()
        self._waiting.put(asked)

    def arrived(self) -> list[Corrected]:
        """The answers since the last call."""
        with self._changed:
            found, self._arrived = self._arrived, []
            return found

    def wait(self, *, most: int = 0, limit_s: float | None = None) -> list[Corrected]:
        """Wait until at most `most` are outstanding, or for `limit_s`; return the new answers."""
        give_up = None if limit_s is None else time.monotonic() + limit_s
        with self._changed:
            while len(self._outstanding) > most:
                left = None if give_up is None else give_up - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
        return self.arrived()

    def stop(self, *, within_s: float | None = None) -> list[Corrected]:
        """Abort what is outstanding, and return an error for each.

        After `within_s` it is not waited for any longer: its costs are settled when it ends.
        """
        give_up = None if within_s is None else time.monotonic() + within_s
        with self._changed:
            stops = list(self._outstanding.values())
        for stop in stops:
            stop.ask()
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join(None if give_up is None else max(0.0, give_up - time.monotonic()))
        self._workers.clear()
        with self._changed:
            given_up, self._outstanding = list(self._outstanding), {}
            self._arrived += [Corrected(segment, error=_cut()) for segment in given_up]
        return self.arrived()

    def _work(self) -> None:
        while (asked := self._waiting.get()) is not None:
            journal: list[Attempt] = []
            correction = self._ask(asked, journal)
            with self._changed:
                self._journal += journal
                if self._outstanding.pop(asked.segment, None) is not None:  # not given up meanwhile
                    self._arrived.append(correction)
                self._changed.notify_all()

    def _ask(self, asked: _Asked, journal: list[Attempt]) -> Corrected:
        request = replace(
            self._request,
            messages=(Message("user", asked.words_before, audio=(asked.audio,)),),
            part=f"s{asked.segment}.",
        )
        if asked.stop.asked:
            return Corrected(asked.segment, error=_cut())
        try:
            stream = self._cloud.stream(
                request, journal, live=False, patience_s=self._patience_s, stop=asked.stop
            )
            with closing(stream):
                heard = list(stream)
        except CloudError as error:
            return Corrected(asked.segment, error=error)
        except Cancelled:  # the user left: nobody waits for this answer
            return Corrected(asked.segment, error=_cut())
        if not any(isinstance(chunk, Finish) for chunk in heard):
            return Corrected(asked.segment, error=_cut())
        text = " ".join("".join(chunk for chunk in heard if isinstance(chunk, str)).split())
        return Corrected(asked.segment, text)


def _cut() -> CloudError:
    return CloudError("broken off", code="cancelled")


# -- the story of a recording ----------------------------------------------------------------------


MOST_OUTSTANDING = 8  # segments that wait for the cloud before the device waits too
CLOUD_CHUNK_S = 15.0  # shorter if the cloud transcribes everything: a chunk becomes one segment

# Called with the seconds of sound read so far, and in all (0 if the file does not say).
Progress = Callable[[float, float], None]
# Called with each segment when it is final, in the order of the transcript.
Settled = Callable[[Segment], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscribeNeeds:
    """What the engine provides. `transcriber` raises ModelNotFound if there is none."""

    transcriber: Callable[[], SpeechBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[SpeechBackend | None], Calibration]
    clock: Callable[[], float]
    progress: Progress
    settled: Settled = lambda _: None


def transcribe(
    request: Request,
    audio: AudioLike,
    parts: TranscribeNeeds,
    attempts: list[Attempt],
    *,
    split: bool = False,
) -> Transcript:
    """Everything that is said in a file. `split`: each channel of it is a speaker of its own."""
    with open_channels(audio) if split else open_sound(audio) as sound:
        sounds = [sound] if isinstance(sound, Sound) else sound
        flow = Transcribing(request, parts, attempts, sounds, split=split)
        try:
            run(flow)
        finally:
            flow.corrections.stop()
            flow.draft.end_local()
        flow.conclude()
        found = [heard.language or heard.detected for heard in flow.hearings]
        language = request.language or next(filter(None, found), "")
        return flow.draft.transcript(
            seconds=max(each.read_seconds for each in sounds),
            codes=tuple(dict.fromkeys(code for each in sounds for code in each.codes)),
            language=language,
            now=parts.clock(),
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
    if request.translate and not facts.translates:
        return None, Misfit("language_unsupported", f"{facts.model} cannot translate")
    return found, None


class Transcribing(Flow):
    """The transcription of one sound file. `plan` is the one being followed."""

    draft: TranscriptDraft
    plan: Plan

    def __init__(
        self,
        request: Request,
        parts: TranscribeNeeds,
        attempts: list[Attempt],
        sounds: Sequence[Sound],
        *,
        split: bool,
    ) -> None:
        self.parts, self.sounds, self.split = parts, sounds, split
        self.seconds = sum(sound.seconds for sound in sounds)
        self.cloud, self.policy, self.clock = parts.cloud, parts.policy, parts.clock
        transcriber, self.misfit = look_at_device(request, parts.transcriber)
        calibration = parts.calibration(transcriber)
        objective = find_objective(request, calibration)
        if transcriber is not None and request.handoff == "automatic":
            # Otherwise every segment says that it is in doubt.
            facts = transcriber.facts()
            late = find_late_hearing(request, self.seconds, facts.real_time_factor, facts.wait_s)
            busy = find_queue(request, facts.wait_s, self.cloud.closed(request))
            self.misfit = self.misfit or late or objective.misfit or busy
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
        self.unvoiced = [Unvoiced() for _ in sounds]
        self.told: set[int] = set()  # segments reported as final
        # Chunks sent to the cloud whole, by the id of their future segment.
        self.whole: dict[int, Chunk] = {}
        # One for each sound; none if only the cloud transcribes.
        self.hearings = [
            Hearing(
                transcriber,
                calibration,
                self.number,
                request.language,
                self.draft.dropped,
                guide_of(request),
            )
            for _ in sounds
            if transcriber is not None
        ]

    @property
    def may_ask(self) -> bool:
        return self.plan.may_hand_off and self.request.handoff == "automatic"

    def number(self) -> int:
        self.numbers += 1
        return self.numbers - 1

    @override
    def adjust(self, plan: Plan) -> Plan:
        self.plan = super().adjust(plan)
        return self.plan

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
    def may_start_over(self) -> bool:
        return False  # the sound that was read is gone, and its words may have been shown

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
        cut = [self._chunks(channel, longest_s) for channel in range(len(self.sounds))]
        for chunk in heapq.merge(*cut, key=lambda chunk: chunk.start):
            self.draft.speech_seconds += chunk.seconds
            self.unvoiced[chunk.channel].voiced(chunk.start, chunk.start + chunk.seconds)
            hear(chunk)
            outstanding = self.corrections.outstanding_ids()
            self._take(self.corrections.arrived())
            # Another channel's next chunk may begin before the end of this one.
            self._tell(outstanding, before=chunk.start if len(cut) > 1 else math.inf)
        self._take(self.corrections.wait())
        self._tell(outstanding=())
        for channel, unvoiced in enumerate(self.unvoiced):
            for start, end in unvoiced.stretches():
                codes, number = ("no_voice",), self.number()
                dropped = Segment(id=number, start=start, end=end, text="", codes=codes)
                self.draft.dropped.append(self._spoken_by(dropped, channel))

    def _chunks(self, channel: int, longest_s: float) -> Iterator[Chunk]:
        for chunk in cut_into_chunks(self._blocks(channel), longest_s=longest_s):
            yield replace(chunk, channel=channel)

    def _blocks(self, channel: int) -> Iterator[Samples]:
        sound = self.sounds[channel]
        for block in sound.blocks():
            self.unvoiced[channel].read(block)
            yield block
            self.parts.progress(max(each.read_seconds for each in self.sounds), sound.seconds)

    def _spoken_by(self, segment: Segment, channel: int) -> Segment:
        return replace(segment, speaker=str(channel + 1)) if self.split else segment

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
            self.draft.conclude(f"handoff_{failure_code(error)}", str(error))
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
        left_s = max(chunk.seconds, self.seconds - len(self.sounds) * chunk.start)
        factor = self.draft.transcriber.facts().real_time_factor
        return find_late_hearing(self.request, left_s, factor, self.clock() - self.draft.started)

    def _hear(self, chunk: Chunk) -> list[Segment]:
        with self.draft.listening(self.clock):
            found = self.hearings[chunk.channel].hear(chunk)
        return [self._spoken_by(segment, chunk.channel) for segment in found]

    def _in_cloud(self, chunk: Chunk) -> None:
        number = self.number()
        self.whole[number] = chunk
        self._send(number, audio_from(chunk.samples))

    def _send(self, number: int, audio: Audio, words_before: str = "") -> None:
        self._take(self.corrections.wait(most=MOST_OUTSTANDING - 1))
        self.draft.sent_seconds += audio.seconds
        self.corrections.send(number, audio, words_before=words_before)

    def _take(self, corrections: Sequence[Corrected]) -> None:
        for correction in corrections:
            chunk = self.whole.pop(correction.segment, None)
            if chunk is not None:
                self._take_whole(correction, chunk)
            elif correction.error is not None:
                self.draft.failed(correction.segment, correction.error)
            else:
                self.draft.correct(correction.segment, correction.text)

    def _tell(self, outstanding: Sequence[int], before: float = math.inf) -> None:
        """Report the segments as final that come before everything still at the cloud."""
        segments = self.draft.segments
        waiting = [segments[number].start for number in outstanding if number in segments]
        waiting += [chunk.start for chunk in self.whole.values()]
        first = min([before, *waiting])
        for segment in sorted(segments.values(), key=lambda each: (each.start, each.id)):
            if segment.id not in self.told and segment.start < first:
                self.told.add(segment.id)
                self.parts.settled(segment)

    def _take_whole(self, correction: Corrected, chunk: Chunk) -> None:
        draft = self.draft
        if correction.error is None:
            if correction.text:
                end = chunk.start + chunk.seconds
                whole = Segment(
                    id=correction.segment,
                    start=chunk.start,
                    end=end,
                    text=correction.text,
                    words=spread_words(correction.text, chunk.start, end),
                    source="cloud",
                    language=self.request.language,
                )
                draft.segments[correction.segment] = self._spoken_by(whole, chunk.channel)
            return
        draft.failure = draft.failure or correction.error
        if self.plan.local_backup and self.hearings:
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
        near = [each for each in near if each.speaker == before.speaker]
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
            text=text_of(segments),
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


# -- a chunk on the device, and which sound of a segment is sent -----------------------------------


MOST_ALIKE = 2  # segments in a row with the same words; a third is a loop
CONTEXT_S = 0.4  # of sound sent with a segment on each side, if nobody else speaks in it
LEAST_CONTEXT_S = 0.05  # times of words are not exact
MOST_WORDS_PER_SECOND = 8.0  # nobody speaks faster
AROUND_S = 0.5  # of sound around a segment, to measure the noise
CLEAR_VOICE = 0.4  # from this mean voice probability on, somebody speaks, whatever the model heard


@dataclass(slots=True)
class Hearing:
    """The device's part of one transcription. `number` gives each segment its id."""

    transcriber: SpeechBackend
    calibration: Calibration
    number: Callable[[], int]
    language: str = ""  # asked for, or detected for good
    dropped: list[Segment] = field(default_factory=list)
    guide: Guide = field(default_factory=Guide)
    detected: str = ""  # in the first stretch
    _last: list[str] = field(default_factory=list)

    def hear(self, chunk: Chunk) -> list[Segment]:
        """The segments of a chunk. Times count from the start of the whole sound."""
        found, facts = [], self.transcriber.facts()
        with guarded(facts.model):
            said = self.transcriber.hear(chunk.samples, language=self.language, **self.guide)
        heard = [moved(each, chunk) for each in said]
        if facts.word_times and not self.guide.get("translate"):  # words in another order
            heard = into_utterances(heard, chunk.speaking)
        for each in heard:
            self.detected = self.detected or each.language
            segment = self._judge(each, chunk)
            if segment is not None:
                found.append(segment)
        if not heard and sum(chunk.voice) >= CLEAR_VOICE * len(chunk.voice):
            found.append(self._unheard(chunk))
        return found

    def _unheard(self, chunk: Chunk) -> Segment:
        """Somebody speaks, but the model understands nothing: confidence 0."""
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
        self.language = self.language or fixed_language(segment)
        segment = without_foreign(segment, self.transcriber)
        return replace(segment, id=self.number())

    def _again(self, text: str) -> str:
        """The code of a loop that repeats a whole segment; else empty."""
        self._last = [*self._last[-MOST_ALIKE:], text]
        alike = len(self._last) > MOST_ALIKE and len(set(self._last)) == 1
        return "repetition" if alike else ""


def guide_of(request: Request) -> Guide:
    """What a request asks of the transcriber; mostly nothing."""
    guide: Guide = {}
    if request.hint:
        guide["hint"] = request.hint
    if request.temperature:
        guide["temperature"] = request.temperature
    if request.translate:
        guide["translate"] = True
    return guide


def judge(heard: Heard, chunk: Chunk, calibration: Calibration) -> Segment:
    """A segment without an id yet: loops said once, with the confidence of its words."""
    voice = chunk.voice_between(heard.start, heard.end)
    around = chunk.cut(heard.start - AROUND_S, heard.end + AROUND_S)
    features = features_of(heard, voice, signal_to_noise(around))
    text, words, looping = without_loops(heard)
    confidence, error = judge_features(calibration, features, looping=looping)
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


SURE_OF_LANGUAGE = 0.5  # of a segment, so that the rest is heard in its language too


def fixed_language(segment: Segment) -> str:
    """The language to stay with. Noise at the beginning must not decide about an hour."""
    return segment.language if (segment.confidence or 0.0) >= SURE_OF_LANGUAGE else ""


def without_foreign(segment: Segment, transcriber: SpeechBackend) -> Segment:
    """Speech of another language, as a model of one language hears it, is said to be that."""
    if len(transcriber.facts().languages) != 1 or not sounds_foreign(segment.features):
        return segment
    return replace(segment, codes=(*segment.codes, "other_language"), confidence=0.0)


def moved(heard: Heard, chunk: Chunk) -> Heard:
    """Times count from the start of the whole sound; none is after the end of the chunk."""
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
    """From when to when the sound of a segment is sent."""
    return span_between(segment, neighbours, chunk.start, chunk.start + chunk.seconds)


def span_between(
    segment: Segment, neighbours: Sequence[Segment], first: float = 0.0, last: float = math.inf
) -> tuple[float, float]:
    """From when to when the sound of a segment is sent: some context, but nobody else's words."""
    before = [other.end for other in neighbours if other.end <= segment.start]
    after = [other.start for other in neighbours if other.start >= segment.end]
    room_before = segment.start - max(before, default=first)
    room_after = min(after, default=last) - segment.end
    start = segment.start - _context(room_before)
    return max(0.0, start), segment.end + _context(room_after)


def cut_pieces(audio: AudioLike, spans: Sequence[tuple[float, float]]) -> list[Audio]:
    """These stretches of a sound, from when to when in seconds."""
    import numpy  # noqa: PLC0415  # speech is an extra

    with open_sound(audio) as sound:
        samples = numpy.concatenate([numpy.zeros(0, "float32"), *sound.blocks()])
    return [audio_from(samples[int(start * RATE) : int(end * RATE)]) for start, end in spans]


def audio_from(samples: Samples) -> Audio:
    return Audio(as_wav(samples), "audio/wav", len(samples) / RATE)


def _context(room: float) -> float:
    """Half the gap to the neighbour's words: their times are not exact either."""
    return max(LEAST_CONTEXT_S, min(CONTEXT_S, room / 2))


def is_nonsense(text: str, seconds: float) -> bool:
    """Whether a transcription loops, or has more words than anybody can say in that time."""
    words = text.split()
    looping = loop_in(words) is not None or compression(text) > MOST_COMPRESSED
    return looping or len(words) > 3 + MOST_WORDS_PER_SECOND * seconds


def without_neighbours(text: str, segment: Segment, neighbours: Sequence[Segment]) -> str:
    """The text without the words at its edges that belong to the neighbours."""
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
    """The cloud's text in place of the device's. Times stay; words share them by length."""
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
