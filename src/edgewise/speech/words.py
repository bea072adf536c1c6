"""Words of a transcriber: invented or stable ones, utterances, how sure they are, subtitles."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from edgewise.decide.calibration import Calibration, Kind, Score
from edgewise.types.messages import Word
from edgewise.types.transcripts import Heard, Segment

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]


MOST_COMPRESSED = 2.4  # Whisper's own limit: text that compresses better is a loop
LEAST_TEXT = 60  # bytes; compression of shorter text says nothing
LONGEST_LOOP = 8  # words
# How often in a row this many words may be repeated; people do say "no, no, no".
_ALLOWED = {1: 5, 2: 3, 3: 3}
_ALLOWED_LONGER = 2
LEAST_VOICE = 0.1  # mean voice probability; below it nobody spoke; noise hides voices
LIKELY_SILENT, GUESSING = 0.6, -1.0  # no-speech chance and mean log-probability


PAUSE_S = 0.3  # between two words; less if voice activity hears nobody
LONGEST_S = 12.0  # of an utterance; a longer one is cut at its widest gap
JOINED_S = 8.0  # parts of one breath stay together up to this length
BREATH_S = 0.7  # a pause inside a sentence
_ENDS = (".", "?", "!", "。", "？", "！")  # noqa: RUF001 - other languages have other marks
# Whether somebody speaks all the time between two moments.
Speaking = Callable[[float, float], bool]
Item = tuple[Word, int]  # a word, and the number of the stretch it was heard in


def written(words: Iterable[Word]) -> str:
    """Words as a text, with spaces where they belong."""
    return "".join(f"{'' if word.glued else ' '}{word.text}" for word in words).strip()


def hangs_on(word: Word) -> bool:
    """Whether it is the rest of the word before it, as "-disposed" is of "ill"."""
    return word.glued and not word.text[:1].isalnum()


def compression(text: str) -> float:
    """How much smaller zlib makes a text; 1 if it is too short to tell."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if len(data) >= LEAST_TEXT else 1.0


def loop_in(words: Sequence[str]) -> tuple[int, int, int] | None:
    """A run of words repeated too often: where it starts, its length, how often."""
    plain = [re.sub(r"\W+", "", word).casefold() for word in words]
    for length in range(1, LONGEST_LOOP + 1):
        start = 0
        while start + length <= len(plain):
            times = _times(plain, start, length)
            if times > _ALLOWED.get(length, _ALLOWED_LONGER) and any(plain[start : start + length]):
                return start, length, times
            start += 1
    return None


def _times(words: Sequence[str], start: int, length: int) -> int:
    run, times = words[start : start + length], 1
    while words[start + times * length : start + (times + 1) * length] == run:
        times += 1
    return times


def without_loops(heard: Heard) -> tuple[str, tuple[Word, ...], bool]:
    """The text and words with each loop said once, and whether there was a loop."""
    if not heard.words:
        tokens, found = heard.text.split(), False
        while (loop := loop_in(tokens)) is not None:
            start, length, times = loop
            del tokens[start + length : start + times * length]
            found = True
        text = " ".join(tokens) if found else heard.text
        return text, (), found or compression(heard.text) > MOST_COMPRESSED
    words, found = list(heard.words), False
    while (loop := loop_in([word.text for word in words])) is not None:
        start, length, times = loop
        del words[start + length : start + times * length]
        found = True
    text = written(words) if found else heard.text
    return text, tuple(words), found or compression(heard.text) > MOST_COMPRESSED


def made_up(heard: Heard, voice: Sequence[float]) -> str:
    """The code of why these words were never said; empty if they may have been."""
    if not re.search(r"\w", heard.text):
        return "silence"
    if voice and sum(voice) < LEAST_VOICE * len(voice):
        return "silence"
    if heard.no_speech > LIKELY_SILENT and heard.mean_logprob < GUESSING:
        return "no_speech"
    return ""


def into_utterances(heard: Sequence[Heard], speaking: Speaking) -> list[Heard]:
    """The same words, divided at pauses. Stretches without word times stay as they are."""
    if not all(each.words for each in heard):
        return list(heard)
    items = [(word, number) for number, each in enumerate(heard) for word in each.words]
    parts: list[list[Item]] = []
    for item in items:
        if parts and not _pauses(parts[-1][-1][0], item[0], speaking):
            parts[-1].append(item)
        else:
            parts.append([item])
    whole = [piece for part in _joined(parts) for piece in _shortened(part)]
    return [_utterance(part, heard) for part in whole]


def _pauses(word: Word, following: Word, speaking: Speaking) -> bool:
    gap = following.start - word.end
    if hangs_on(following):
        return False
    return gap >= PAUSE_S or (gap >= 0.05 and not speaking(word.end, following.start))


def _joined(parts: Sequence[list[Item]]) -> list[list[Item]]:
    """Join short pieces of one sentence: context helps whoever transcribes them."""
    found: list[list[Item]] = []
    for part in parts:
        if found and _belong(found[-1], part):
            found[-1] = found[-1] + part
        else:
            found.append(list(part))
    return found


def _belong(before: Sequence[Item], part: Sequence[Item]) -> bool:
    last, first = before[-1][0], part[0][0]
    return (
        first.start - last.end < BREATH_S
        and part[-1][0].end - before[0][0].start <= JOINED_S
        and not last.text.endswith(_ENDS)
    )


def _shortened(part: list[Item]) -> list[list[Item]]:
    if len(part) < 2 or part[-1][0].end - part[0][0].start <= LONGEST_S:
        return [part]
    middle = (part[0][0].start + part[-1][0].end) / 2

    def width(index: int) -> tuple[float, bool, float]:
        word, following = part[index - 1][0], part[index][0]
        gap = round(following.start - word.end, 1)
        return gap, word.text.endswith(_ENDS), -abs(word.end - middle)

    cut = max(range(1, len(part)), key=width)
    return [*_shortened(part[:cut]), *_shortened(part[cut:])]


def _utterance(part: Sequence[Item], heard: Sequence[Heard]) -> Heard:
    numbers = [number for _, number in part]
    source = heard[max(set(numbers), key=numbers.count)]  # the evidence of most of its words
    words = tuple(word for word, _ in part)
    texts = [
        text_of([word for word, own in part if own == number], heard[number])
        for number in dict.fromkeys(numbers)
    ]
    return replace(
        source, start=words[0].start, end=words[-1].end, text=" ".join(texts), words=words
    )


def text_of(words: Sequence[Word], heard: Heard) -> str:
    """Some words of a stretch as written there: not every language has spaces."""
    begin, place = None, 0
    first = next((i for i, word in enumerate(heard.words) if word is words[0]), 0)
    for word in heard.words[: first + len(words)]:
        found = heard.text.find(word.text, place)
        if found < 0:
            return written(words)
        if word is words[0]:
            begin = found
        place = found + len(word.text)
    return heard.text[begin:place].strip()


class StableText:
    """The words of one utterance: `settled` ones only grow, `pending` ones may change."""

    def __init__(self) -> None:
        self.settled: list[Word] = []
        self.pending: tuple[Word, ...] = ()

    @property
    def end(self) -> float:
        """When the last confirmed word ends."""
        return self.settled[-1].end if self.settled else 0.0

    def offer(self, hypothesis: Sequence[Word]) -> tuple[Word, ...]:
        """The words that this hypothesis confirms."""
        rest = hypothesis[self._place_in(hypothesis) :]
        agreed = 0
        for before, now in zip(self.pending, rest, strict=False):
            if plain(before) != plain(now):
                break
            agreed += 1
        while 0 < agreed < len(rest) and hangs_on(rest[agreed]):
            agreed -= 1  # a word is confirmed as a whole
        return self._settle(rest, agreed)

    def finish(self, hypothesis: Sequence[Word]) -> tuple[Word, ...]:
        """Confirm the remaining words by the last hypothesis alone: nothing more will be said."""
        rest = hypothesis[self._place_in(hypothesis) :]
        return self._settle(rest, len(rest))

    def beyond(self, hypothesis: Sequence[Word]) -> list[Word]:
        """Take out and return the confirmed words that come after the end of a hypothesis."""
        kept = _place_of(self.settled, hypothesis)
        after = self.settled[kept:]
        del self.settled[kept:]
        return after

    def _settle(self, rest: Sequence[Word], count: int) -> tuple[Word, ...]:
        new = []
        for word in rest[:count]:
            start = max(word.start, self.end)
            new.append(replace(word, start=start, end=max(word.end, start)))
            self.settled.append(new[-1])
        self.pending = tuple(rest[count:])
        return tuple(new)

    def _place_in(self, hypothesis: Sequence[Word]) -> int:
        """How many words of a hypothesis are the confirmed ones, perhaps with differences.

        The beginning with the fewest differences; among equals, the one that ends when they do.
        """
        return _place_of(hypothesis, self.settled)


def _place_of(words: Sequence[Word], said: Sequence[Word]) -> int:
    """How many of the words are the beginning that differs least from `said`."""
    differences = list(range(len(words) + 1))
    for word in said:
        before, plain_word = differences, plain(word)
        differences = [before[0] + 1]
        for index, other in enumerate(words):
            changed = before[index] + (plain(other) != plain_word)
            differences.append(min(changed, before[index + 1] + 1, differences[-1] + 1))
    last = said[-1].end if said else 0.0

    def how_far(count: int) -> tuple[int, float]:
        return differences[count], abs((words[count - 1].end if count else 0.0) - last)

    return min(range(len(words) + 1), key=how_far)


def plain(word: Word) -> str:
    """A word for comparison: without case and punctuation."""
    return re.sub(r"[^\w]+", "", word.text).casefold() or word.text


@dataclass(slots=True)
class Captions:
    """The whole confirmed text: ended segments by id, and the confirmed words of the open one.

    It only grows, unless a segment is corrected.
    """

    _ended: dict[int, str] = field(default_factory=dict)
    _before: str = ""  # the ended segments, joined
    _open: str = ""

    @property
    def text(self) -> str:
        return _with_space(self._before, self._open)

    def say(self, words: Sequence[Word]) -> None:
        """Add confirmed words to the open segment."""
        glued = bool(words) and words[0].glued
        self._open = (
            self._open + written(words) if glued else _with_space(self._open, written(words))
        )

    def end(self, number: int | None, rest: Sequence[Word] = ()) -> str:
        """End the open segment under this id, or None if nothing was said; return its text.

        `rest` are its last words, which begin the next one.
        """
        after = written(rest)
        text, self._open = self._open.removesuffix(after).rstrip(), after
        if number is not None:
            self._ended[number] = text
            self._before = _with_space(self._before, text)
        return text

    def correct(self, number: int, text: str) -> None:
        """Replace the text of one segment."""
        if self._ended[number] != text:
            self._ended[number] = text
            self._before = " ".join(each for each in self._ended.values() if each)


def _with_space(before: str, after: str) -> str:
    return f"{before} {after}" if before and after else before or after


# -- from a segment's evidence to the chance that it is right --------------------------------------
#
# A calibration belongs to one model and quantisation; docs/notes/senses.md says how the
# shipped ones were fitted.


LOW_ERROR = 0.15  # up to this word error rate a segment counts as right
MOST_CONFIDENT = 0.99  # nothing is certain
LOOPING = 0.05  # the most for a loop: loops look sure of themselves
_FRAME = 512  # samples per energy measurement
_QUIET_DB, _LOUD_DB = 0.0, 60.0


def signal_to_noise(samples: Samples) -> float:
    """Decibels between the loud and the quiet moments of a stretch of sound, 0 to 60."""
    import numpy  # noqa: PLC0415  # speech is an extra

    count = len(samples) // _FRAME
    if not count:
        return _QUIET_DB
    energy = numpy.square(samples[: count * _FRAME].reshape(count, _FRAME)).mean(axis=1) + 1e-10
    loud, quiet = numpy.percentile(energy, 95), numpy.percentile(energy, 10)
    return float(min(_LOUD_DB, max(_QUIET_DB, 10 * math.log10(loud / quiet))))


def features_of(heard: Heard, voice: Sequence[float], snr_db: float) -> dict[str, float]:
    """All features of a segment."""
    chances = sorted(word.probability for word in heard.words if word.probability is not None) or [
        math.exp(heard.mean_logprob)
    ]
    count = len(chances)
    seconds = max(0.1, heard.end - heard.start)
    return {
        "mean_word": sum(chances) / count,
        "low_word": chances[count // 10],
        "lower_half": sum(chances[: (count + 1) // 2]) / ((count + 1) // 2),
        "unsure_words": sum(chance < 0.5 for chance in chances) / count,
        "mean_logprob": max(-3.0, heard.mean_logprob),
        "compression": min(4.0, max(compression(heard.text), heard.compression_ratio)),
        "no_speech": heard.no_speech,
        "temperature": heard.temperature,
        "voice": sum(voice) / len(voice) if voice else 1.0,
        "snr_db": snr_db / _LOUD_DB,
        "rate": min(8.0, len(heard.text.split()) / seconds) / 4.0,
        "short": 1.0 / (1 + len(heard.text.split())),
    }


# Of what a model of one language makes of a clear voice that speaks another.
_FOREIGN_WORD, _CLEAR_VOICE, _CLEAR_SOUND = 0.4, 0.6, 0.3
_FOREIGN_WORDS = 4  # fewer say nothing


def sounds_foreign(features: Mapping[str, float]) -> bool:
    """Whether a voice is clear and hardly a word is likely: a model of one language hears another.

    docs/notes/senses.md says on what this was chosen.
    """
    return (
        features["mean_word"] < _FOREIGN_WORD
        and features["voice"] >= _CLEAR_VOICE
        and features["snr_db"] >= _CLEAR_SOUND
        and features["short"] <= 1.0 / (1 + _FOREIGN_WORDS)
    )


def judge_features(
    calibration: Calibration, features: Mapping[str, float], *, looping: bool = False
) -> tuple[float, float]:
    """Confidence, and the expected word error rate."""
    chance = min(MOST_CONFIDENT, calibration.chance("chance", features))
    error = calibration.chance("error", features)
    if looping:
        return min(LOOPING, chance), max(1 - LOOPING, error)
    return chance, error


# `chance`: that the word error rate is at most LOW_ERROR. `error`: the expected rate.
SPEECH = Kind(
    name="speech",
    scores={"chance": "final", "error": ""},
    # Orders segments by the probabilities of their words.
    uncalibrated=Calibration(
        name="uncalibrated",
        scores={
            "chance": Score({"mean_word": 8.0, "low_word": 2.0}, -6.0),
            "error": Score({"mean_word": -6.0}, 3.0),
        },
    ),
)


# -- how many words are wrong ----------------------------------------------------------------------


_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
# Spellings that differ between writers.
_SAME = {
    "mr": "mister", "mrs": "missus", "dr": "doctor", "ok": "okay", "voicemail": "voice mail",
    "colour": "color", "grey": "gray", "neighbour": "neighbor", "centre": "center",
    "favourite": "favorite", "goodbye": "good bye", "cannot": "can not",
}  # fmt: skip
_SHORT = {
    "it's": "it is", "that's": "that is", "i'm": "i am", "don't": "do not", "can't": "can not",
    "won't": "will not", "you're": "you are", "we're": "we are", "i'd": "i would",
    "isn't": "is not", "doesn't": "does not", "didn't": "did not", "there's": "there is",
}  # fmt: skip


def plain_words(text: str) -> list[str]:
    """Words without case, marks and spelling habits; numbers up to 99 in words."""
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    text = re.sub(r"[\[(][^\])]*[\])]", " ", text)  # a model's notes about noises
    words: list[str] = []
    for word in re.findall(r"\d+|[^\W\d_]+(?:'[^\W\d_]+)*", text):
        spelled = _number(word) if word.isdigit() else _SAME.get(word) or _SHORT.get(word, word)
        words += spelled.replace("'", "").split()
    return words


def _number(digits: str) -> str:
    value = int(digits)
    if value < 20:
        return _ONES[value]
    if value < 100:
        return f"{_TENS[value // 10]} {_ONES[value % 10] if value % 10 else ''}".strip()
    return " ".join(_ONES[int(digit)] for digit in digits)


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Errors, and the number of words that were said."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.errors + other.errors, self.words + other.words)


def word_errors(said: str, heard: str) -> WordErrors:
    return errors_by_segment(said, [heard])[0]


def errors_by_segment(said: str, heard: Sequence[str]) -> list[WordErrors]:
    """Each segment's errors, by the best alignment of all segments with what was said.

    A missing word belongs to the segment in which, or before which, it is missing.
    """
    segments = [plain_words(text) for text in heard]
    owners = [number for number, words in enumerate(segments) for _ in words]
    hypothesis = [word for words in segments for word in words]
    errors, words = [0] * len(segments), [0] * len(segments)
    for reference, position, wrong in _alignment(plain_words(said), hypothesis):
        if not segments:
            break
        owner = owners[min(position, len(owners) - 1)] if owners else 0
        errors[owner] += wrong
        words[owner] += reference
    if not segments:
        return []
    return [WordErrors(*pair) for pair in zip(errors, words, strict=True)]


def said_in_segments(said: str, heard: Sequence[str]) -> list[str]:
    """What was said in each segment, by the same alignment: a perfect transcript."""
    segments = [plain_words(text) for text in heard]
    owners = [number for number, words in enumerate(segments) for _ in words]
    found: list[list[str]] = [[] for _ in segments]
    following = iter(plain_words(said))
    for reference, position, _ in _alignment(plain_words(said), [w for s in segments for w in s]):
        if reference and found:
            owner = owners[min(position, len(owners) - 1)] if owners else 0
            found[owner].append(next(following))
    return [" ".join(words) for words in found]


def _alignment(said: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int, int]]:
    """Steps of the cheapest alignment: words said (0 or 1), place in `heard`, errors (0 or 1)."""
    rows = [list(range(len(heard) + 1))]
    for number, word in enumerate(said, start=1):
        above, row = rows[-1], [number]
        for place, other in enumerate(heard, start=1):
            swap = above[place - 1] + (word != other)
            row.append(min(swap, above[place] + 1, row[place - 1] + 1))
        rows.append(row)
    steps: list[tuple[int, int, int]] = []
    i, j = len(said), len(heard)
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + (said[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            steps.append((1, j, int(said[i] != heard[j])))
        elif i and rows[i][j] == rows[i - 1][j] + 1:
            i -= 1
            steps.append((1, j, 1))
        else:
            j -= 1
            steps.append((0, j, 1))
    return steps[::-1]


# -- subtitles: SubRip (SRT) and WebVTT ------------------------------------------------------------


LINE = 42  # characters that fit on a line
LINES = 2
LONGEST_CUE_S = 7.0  # of one cue
LEAST_WORDS = 3  # of the last cue of a longer segment


@dataclass(frozen=True, slots=True)
class Cue:
    """A text that is shown from one time to another."""

    start: float
    end: float
    text: str
    speaker: str = ""


def as_srt(segments: Sequence[Segment]) -> str:
    parts = [
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{named(cue)}\n"
        for number, cue in enumerate(cues(segments), start=1)
    ]
    return "\n".join(parts)


def as_vtt(segments: Sequence[Segment]) -> str:
    parts = [
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_voiced(cue)}\n"
        for cue in cues(segments)
    ]
    return "\n".join(["WEBVTT\n", *parts])


def named(said: Cue | Segment) -> str:
    """Its text, after the number of the channel where channels were heard one by one."""
    return f"{said.speaker}: {said.text}" if said.speaker else said.text


def _voiced(cue: Cue) -> str:
    return f"<v {cue.speaker}>{_escaped(cue.text)}" if cue.speaker else _escaped(cue.text)


def cues(segments: Sequence[Segment]) -> Iterator[Cue]:
    """Each segment; in short pieces if the times of its words are known."""
    for segment in segments:
        if not segment.text:
            continue
        if not segment.words:
            words = [Word(text, segment.start, segment.end) for text in segment.text.split()]
            yield _cue(words, segment.speaker)
            continue
        for piece in _pieces(_whole(segment.words)):
            yield _cue(piece, segment.speaker)


def _pieces(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Words in pieces that fit. The last two share theirs, or one word would stand alone."""
    found: list[Sequence[Word]] = []
    start = 0
    for end in range(1, len(words) + 1):
        if end == len(words) or not _fits(words[start : end + 1]):
            found.append(words[start:end])
            start = end
    if len(found) > 1 and len(found[-1]) < LEAST_WORDS:
        both = [*found[-2], *found[-1]]
        halves = sorted(range(1, len(both)), key=lambda cut: abs(cut - (len(both) + 1) // 2))
        cuts = (cut for cut in halves if _fits(both[:cut]) and _fits(both[cut:]))
        if (cut := next(cuts, None)) is not None:
            found[-2:] = [both[:cut], both[cut:]]
    return found


def _whole(words: Sequence[Word]) -> list[Word]:
    """Words that no line may end inside: "ill" and "-disposed" become one."""
    found: list[Word] = []
    for word in words:
        if found and hangs_on(word):
            found[-1] = replace(found[-1], text=found[-1].text + word.text, end=word.end)
        else:
            found.append(word)
    return found


def _fits(words: Sequence[Word]) -> bool:
    lines = _lines(words).count("\n") + 1
    return lines <= LINES and words[-1].end - words[0].start <= LONGEST_CUE_S


def _cue(words: Sequence[Word], speaker: str) -> Cue:
    return Cue(words[0].start, words[-1].end, _lines(words), speaker)


def _lines(words: Sequence[Word]) -> str:
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}{'' if word.glued else ' '}{word.text}".strip()
        if lines[-1] and len(longer) > LINE:
            lines.append(word.text)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def _clock(seconds: float, point: str) -> str:
    whole = round(max(0.0, seconds) * 1000)
    minutes, milliseconds = divmod(whole, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}{point}{milliseconds % 1000:03}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
