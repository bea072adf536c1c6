"""Speech on the device: segments transcribed and judged, and which sound of a segment is sent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edgewise.decide.calibration import Calibration
from edgewise.local.backend import Guide, SpeechBackend
from edgewise.speech.audio import (
    RATE,
    as_wav,
)
from edgewise.speech.chunks import Chunk
from edgewise.speech.confidence import (
    features_of,
    judge_features,
    signal_to_noise,
)
from edgewise.speech.words import (
    MOST_COMPRESSED,
    compression,
    into_utterances,
    loop_in,
    made_up,
    without_loops,
)
from edgewise.types.messages import Audio, Request
from edgewise.types.transcripts import Heard, Segment, Word

if TYPE_CHECKING:
    from edgewise.local.backend import Samples


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
    language: str = ""
    dropped: list[Segment] = field(default_factory=list)
    guide: Guide = field(default_factory=Guide)
    _last: list[str] = field(default_factory=list)

    def hear(self, chunk: Chunk) -> list[Segment]:
        """The segments of a chunk. Times count from the start of the whole sound."""
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
