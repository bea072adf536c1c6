"""A transcript as SubRip (SRT) or WebVTT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from edgewise.speech.words import hangs_on
from edgewise.types.messages import Word
from edgewise.types.transcripts import Segment

LINE = 42  # characters that fit on a line
LINES = 2
LONGEST_S = 7.0  # of one cue
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
    return lines <= LINES and words[-1].end - words[0].start <= LONGEST_S


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
