"""Live captions: chunks of sound in, confirmed words out, and corrections of single segments.

Read from the top: `process` cuts sound into utterances. `_suppose` transcribes the open utterance
again and confirms what two hypotheses agree on. `_end` makes a segment of an utterance that ended
and, if it is in doubt, sends it to the cloud. `_take` puts each answer in its place. Only `stop`
waits for the network, and only up to a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from edgewise.decide.calibration import Calibration
from edgewise.decide.policy import Plan, find_objective
from edgewise.errors import (
    CloudClosed,
    CloudError,
    CloudMalformed,
    DeviceBusy,
    GenerationFailed,
    InvalidRequest,
    LocalError,
)
from edgewise.flows.route import make_plan, refusal
from edgewise.flows.transcribe import (
    MOST_ALIKE,
    Corrected,
    Corrections,
    TranscribeNeeds,
    TranscriptDraft,
    audio_from,
    corrected,
    guide_of,
    is_nonsense,
    judge,
    look_at_device,
    moved,
    spread_words,
    without_foreign,
)
from edgewise.local.backend import SpeechBackend, guarded
from edgewise.speech.audio import Chunk, LiveUtterances, PcmReader
from edgewise.speech.words import LOOPING, Captions, StableText, made_up, without_loops, written
from edgewise.types.messages import Request, Word
from edgewise.types.replies import Attempt, is_verified
from edgewise.types.transcripts import (
    Correction,
    Heard,
    LiveUpdate,
    Segment,
    Transcript,
    Utterance,
)

MOST_OUTSTANDING = 16  # segments at or on their way to the cloud; their sound is kept meanwhile
REACHES_S = 0.8  # if the last word ends this shortly before the utterance does, nothing is missing
BREAK_OFF_S = 1.0  # how long to wait for an aborted connection to end
HURRY_S = 1.5  # so far behind the speaker, hypotheses are skipped

Keep = Callable[[Request, Callable[[list[Attempt]], Transcript]], Transcript]


class LiveTranscriber:
    """Captions of one stream of sound. `engine.listen()` makes one.

        with engine.listen() as live:
            for chunk in microphone:
                print(live.process(chunk).confirmed)
            transcript = live.stop()

    Calls from several threads wait for each other. `last_update` is the update of `stop`.
    """

    def __init__(
        self,
        request: Request,
        parts: TranscribeNeeds,
        keep: Keep,
        *,
        rate: int,
        step_s: float,
        drain_s: float,
    ) -> None:
        self._request = request
        self.last_update = LiveUpdate()
        self._parts, self._keep = parts, keep
        self._step_s, self._drain_s = step_s, drain_s
        self._pcm = PcmReader(rate)
        self._lock = threading.RLock()
        self._attempts: list[Attempt] = []
        self._text, self._captions = StableText(), Captions()
        self._numbers = 0
        self._behind_s = 0.0
        self._running = False
        self._transcript: Transcript | None = None
        # Since the last update
        self._words: list[Word] = []
        self._segments: list[Segment] = []
        self._spoken: list[Utterance] = []
        self._announced: list[Correction] = []
        self._error = ""

    def start(self) -> Self:
        """Get ready. Raises if the device cannot transcribe: the cloud alone is too slow."""
        with self._lock:
            if self._running or self._transcript is not None:
                raise InvalidRequest("start: it has been started before")
            if self._request.policy == "cloud_only":
                raise InvalidRequest("live captions need the device: cloud_only is not possible")
            transcriber, misfit = look_at_device(self._request, self._parts.transcriber)
            if transcriber is None or misfit is not None:
                assert misfit is not None, "only cloud_only opens no model"
                raise refusal(self._request, misfit.code, misfit.reason)
            calibration = self._parts.calibration(transcriber)
            plan = self._plan()
            self._draft = self._new_draft(plan, transcriber, calibration)
            self._corrections = Corrections(
                self._parts.cloud, self._request, self._attempts, patience_s=None
            )
            self._utterances = LiveUtterances(transcriber.facts().chunk_s)
            self._transcriber = UtteranceTranscriber(
                transcriber, calibration, self._draft, self._parts.clock
            )
            self._running = True
            return self

    def process(self, chunk: Any, *, hurry: bool = False) -> LiveUpdate:
        """Take in a chunk: float32 or int16 samples of one channel, or bytes of 16-bit samples.

        If this has taken longer than the sound lasts, only whole utterances are transcribed until
        it has caught up, and `pending` stays empty. With `hurry` they are anyway: for programs that
        know of more sound that waits.
        """
        with self._lock:
            if not self._running:
                raise InvalidRequest("process: start it first, and call it before stop")
            begun, before_s = self._parts.clock(), self._utterances.seconds
            hurry = hurry or self._behind_s > HURRY_S
            self._hear(self._utterances.feed(self._pcm.read(chunk)), hurry)
            self._take(self._corrections.arrived())
            # Only what was spent here: who pauses between two chunks is not behind.
            took_s = self._parts.clock() - begun
            ahead_s = self._utterances.seconds - before_s
            self._behind_s = max(0.0, self._behind_s + took_s - ahead_s)
            return self._update()

    def stop(self, limit_s: float | None = None) -> Transcript:
        """End the captions. Waits up to `limit_s` for corrections, and reports missing ones."""
        if not isinstance(limit_s, float | int | None):
            raise InvalidRequest(f"limit_s: expected seconds, got a {type(limit_s).__name__}")
        with self._lock:
            if self._transcript is None:
                if not self._running:
                    raise InvalidRequest("stop: start it first")
                self._running = False
                wait_s = self._drain_s if limit_s is None else min(limit_s, threading.TIMEOUT_MAX)
                self._transcript = self._keep(
                    self._request, lambda found: self._end_all(found, wait_s)
                )
            return self._transcript

    def close(self) -> None:
        """Leave without waiting for the cloud. What was transcribed so far is recorded."""
        with self._lock:
            if self._running:
                self.stop(0.0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.close()
        elif self._running:
            self.stop()

    def _plan(self) -> Plan:
        """Made again for every utterance: the cloud may close or open meanwhile."""
        return make_plan(self._request, self._parts.policy, self._parts.cloud, None)

    def _new_draft(
        self, plan: Plan, transcriber: SpeechBackend, fitted: Calibration
    ) -> TranscriptDraft:
        objective = find_objective(self._request, fitted)
        draft = TranscriptDraft(
            request=self._request,
            attempts=self._attempts,
            started=self._parts.clock(),
            # A policy that asks the cloud first wants the cloud's text of everything.
            threshold=1.0 if plan.first == "cloud" else objective.threshold,
            objective=objective.words,
            calibration=fitted.name,
            transcriber=transcriber,
        )
        draft.conclude(plan.code, plan.reason)
        draft.degraded_code = plan.degraded_code
        return draft

    def _hear(self, ticks: Iterable[None], hurry: bool) -> None:
        utterances = self._utterances
        for _ in ticks:
            if utterances.ended:
                self._end_open()
            elif utterances.full:
                self._end_full()
            elif not hurry and utterances.due(self._step_s):
                self._suppose(utterances.so_far())

    def _suppose(self, chunk: Chunk) -> None:
        try:
            hypothesis = self._transcriber.hear(chunk)
        except (GenerationFailed, DeviceBusy) as error:
            self._error = error.code
            return
        self._settle(self._text.offer(hypothesis))

    def _settle(self, words: Sequence[Word]) -> None:
        self._words += words
        self._captions.say(words)

    def _end_open(self) -> None:
        last = self._transcriber.last if self._utterances.covered else ()
        self._end(self._utterances.take(), last)

    def _end_full(self) -> None:
        """Cut a long breath just after its confirmed words.

        Where words have no times of their own, that would cut through a word, which is then heard
        twice. So the sound is cut where it is quietest, and its first part is heard once more.
        """
        if self._transcriber.word_times:
            self._end(self._utterances.take(after_s=self._text.end), self._text.settled)
            return
        chunk, hypothesis = self._utterances.take(after_s=0.0), tuple[Word, ...]()
        if chunk is not None:
            with suppress(GenerationFailed, DeviceBusy):  # then what was confirmed must do
                hypothesis = self._transcriber.hear(chunk)
        after = self._text.beyond(hypothesis) if hypothesis else []
        self._end(chunk, hypothesis or self._text.settled, after)

    def _end(
        self, chunk: Chunk | None, hypothesis: Sequence[Word], after: Sequence[Word] = ()
    ) -> None:
        """Make a segment of an utterance: its confirmed words and the rest.

        The utterance is transcribed once more, unless the hypothesis reaches to its end. `after`
        are words that were confirmed already and belong to the next one.
        """
        if chunk is None:
            self._reset(after)
            return
        self._draft.speech_seconds += chunk.seconds
        try:
            if not hypothesis or chunk.start + chunk.seconds - hypothesis[-1].end > REACHES_S:
                hypothesis = self._transcriber.hear(chunk)
            self._settle(self._text.finish(hypothesis))
            segment = self._transcriber.segment(self._text.settled, chunk)
        except (GenerationFailed, DeviceBusy) as error:
            self._error = error.code
            segment = self._transcriber.unheard(self._text.settled, chunk, error)
        number: int | None = None
        plan = self._plan()
        wanted = plan.may_hand_off or plan.first == "cloud"
        may_ask = wanted and self._request.handoff == "automatic"
        if segment is not None and (segment.text or may_ask):
            number, self._numbers = self._numbers, self._numbers + 1
            segment = replace(segment, id=number)
            before = self._draft.segments.get(segment.id - 1)
            self._captions.end(segment.id, after)
            if self._draft.add([segment]) and self._request.handoff == "automatic":
                if may_ask:
                    self._send(segment, chunk, before.text if before else "")
                elif plan.code == "started_local" or plan.degraded_code:
                    self._draft.failed(segment.id, self._shut())
            self._segments.append(self._draft.segments[number])
        end = chunk.start + chunk.seconds
        self._spoken.append(Utterance(start=chunk.start, end=end, segment_id=number))
        self._reset(after)

    def _reset(self, after: Sequence[Word]) -> None:
        self._text = StableText()
        self._text.settled += after
        self._transcriber.forget()

    def _shut(self) -> CloudClosed:
        shut = self._parts.cloud.closed(self._request)
        return shut or CloudClosed("the policy kept it on the device", code="policy_local_only")

    def _send(self, segment: Segment, chunk: Chunk, words_before: str) -> None:
        if self._corrections.outstanding >= MOST_OUTSTANDING:
            full = CloudClosed(f"{MOST_OUTSTANDING} segments wait already", code="queue_full")
            self._draft.failed(segment.id, full)
            return
        audio = audio_from(chunk.samples)
        self._draft.sent_seconds += audio.seconds
        self._corrections.send(segment.id, audio, words_before=words_before)

    def _take(self, answers: Sequence[Corrected], late: CloudError | None = None) -> None:
        for answer in answers:
            before = self._draft.segments.get(answer.segment)
            if before is None or before.source == "cloud" or before.error:
                continue  # answered before: the first answer counts
            error = answer.error
            if error is None and is_nonsense(answer.text, before.seconds):
                error = CloudMalformed("the cloud repeats itself")
            if error is not None:
                error = late if late is not None and error.code == "cancelled" else error
                self._draft.failed(before.id, error)
                self._announce(before, None, error.code)
                continue
            after = self._draft.segments[before.id] = corrected(before, answer.text)
            if not after.text:
                self._draft.drop(after)
            self._captions.correct(before.id, after.text)
            self._announce(before, after.text, "")

    def _announce(self, before: Segment, text: str | None, error: str) -> None:
        self._announced.append(
            Correction(segment_id=before.id, cloud_result=text, replaced=before.text, error=error)
        )

    def _update(self) -> LiveUpdate:
        self.last_update = LiveUpdate(
            confirmed=self._captions.text,
            pending=written(self._text.pending),
            new_words=tuple(self._words),
            new_segments=tuple(self._segments),
            corrections=tuple(self._announced),
            outstanding=self._corrections.outstanding,
            utterances=tuple(self._spoken),
            speaking_since=self._utterances.open_since,
            seconds=round(self._utterances.seconds, 3),
            error=self._error,
            confidence_verified=is_verified(self._draft.calibration),
        )
        self._words, self._segments, self._announced, self._error = [], [], [], ""
        self._spoken = []
        return self.last_update

    def _end_all(self, attempts: list[Attempt], limit_s: float) -> Transcript:
        draft = self._draft
        try:
            self._hear(self._utterances.feed(self._pcm.rest()), hurry=True)
            self._hear(self._utterances.flush(), hurry=True)
            self._end_open()
            self._take(self._corrections.wait(limit_s=limit_s))
        finally:
            late = CloudError(f"no answer {limit_s:g} s after the end", code="correction_late")
            self._take(self._corrections.stop(within_s=BREAK_OFF_S), late)
            draft.end_local()
            attempts += self._attempts
        _conclude(draft)
        self._update()
        return draft.transcript(
            seconds=self._utterances.seconds,
            codes=(),
            language=self._request.language or self._transcriber.language,
            now=self._parts.clock(),
        )


def _conclude(draft: TranscriptDraft) -> None:
    """Say how live captions came about, when every correction has arrived or was given up."""
    failure, doubted = draft.failure, len(draft.in_doubt)
    if failure is not None:
        draft.degraded_code = failure.code
    words = f"{doubted} of {len(draft.segments)} segments in doubt"
    if draft.code == "started_local":
        draft.conclude("kept_confident", f"every segment's {draft.sureness} is {draft.enough}")
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
        calibration: Calibration,
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
        self.word_times = transcriber.facts().word_times
        self._guide = guide_of(draft.request)
        self.last: tuple[Word, ...] = ()
        self._heard: list[Heard] = []
        self._made_up: list[Heard] = []
        self._texts: list[str] = []  # of the last segments: some loops repeat a whole segment

    def hear(self, chunk: Chunk) -> tuple[Word, ...]:
        """A hypothesis: the words of the utterance so far, without invented ones."""
        with self._draft.listening(self._clock), guarded(self._transcriber.facts().model):
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
        """The confirmed words of an utterance, judged by the last hypothesis; None without words.

        Confirmed words are never taken back. If they look like a loop, they are only doubted.
        """
        for heard in self._made_up:
            code = made_up(heard, chunk.voice_between(heard.start, heard.end))
            dropped = judge(heard, chunk, self._calibration)
            self._draft.dropped.append(replace(dropped, codes=(code or "silence",), confidence=0.0))
        if not words:
            return None
        text = written(words)
        segment = judge(self._evidence(words, text), chunk, self._calibration)
        segment = without_foreign(segment, self._transcriber)
        self._texts = [*self._texts[-MOST_ALIKE:], text]
        if len(self._texts) > MOST_ALIKE and len(set(self._texts)) == 1:
            sure = min(LOOPING, segment.confidence or 0.0)
            segment = replace(segment, codes=("repetition",), confidence=sure)
        return replace(segment, text=text, words=tuple(words))

    def unheard(self, words: Sequence[Word], chunk: Chunk, error: LocalError) -> Segment:
        """What is known of an utterance if the model failed on it: nothing reliable."""
        return Segment(
            id=-1,
            start=chunk.start,
            end=chunk.start + chunk.seconds,
            text=written(words),
            words=tuple(words),
            confidence=0.0,
            expected_error=1.0,
            language=self.language,
            codes=(error.code,),
        )

    def _evidence(self, words: Sequence[Word], text: str) -> Heard:
        """The confirmed words with the evidence of the last hypothesis."""
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
