"""One utterance of live speech on the device: heard again and again, and judged once it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgewise.errors import GenerationFailed
from edgewise.flows.hear_segments import MOST_ALIKE, guide_of, judge, moved, spread_words
from edgewise.flows.transcript_draft import TranscriptDraft
from edgewise.local.backend import SpeechBackend
from edgewise.speech.chunks import Chunk
from edgewise.speech.guards import made_up, without_loops
from edgewise.speech.segment_confidence import LOOPING, SegmentCalibration
from edgewise.types.transcripts import Heard, Segment, Word


class UtteranceEars:
    """The device's part of live captions. `last` is the last hypothesis of the open utterance."""

    def __init__(
        self,
        ears: SpeechBackend,
        calibration: SegmentCalibration,
        draft: TranscriptDraft,
        clock: Callable[[], float],
    ) -> None:
        self._ears, self._calibration, self._draft, self._clock = ears, calibration, draft, clock
        self.language = draft.request.language
        self._guide = guide_of(draft.request)
        self.last: tuple[Word, ...] = ()
        self._heard: list[Heard] = []
        self._made_up: list[Heard] = []
        self._texts: list[str] = []  # of the last segments: loops also come as segments

    def hear(self, chunk: Chunk) -> tuple[Word, ...]:
        """A hypothesis: the words of the utterance so far, without what was made up."""
        with self._draft.listening(self._clock):
            found = self._ears.hear(chunk.samples, language=self.language, **self._guide)
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
