"""A model without weights that dies when it is told to. Tests open it in a process of its own.

It answers with the words of the request, one token each. Words that begin with @ are done instead:

    @segv @abort @exit @hang @raise    die, hang or fail here
    @slow                              take a while
    @wait:PATH                         go on when this file is there
    @once:PATH                         die here, but only the first time
    @other:PATH                        say "first", and the next time "second"
    @print:WORD                        to standard output and standard error
"""

from __future__ import annotations

import faulthandler
import os
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.errors import ContextExceeded
from edgewise.local.backend import CallToWrite, DeviceFacts, TokenStream
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request, Word
from edgewise.types.replies import Finish, Line, Sight, Thing, Token
from edgewise.types.transcripts import Heard

FACTS = DeviceFacts(
    backend="crashing", model="crashing-1", quantisation="none", context_tokens=64, slots=4, ahead=4
)


def open_crashing(*, dies_loading: str = "", dies_opening: str = "") -> CrashingModel:
    """`dies_loading` names a file: while it is there, loading the model ends the process."""
    if dies_opening:
        raise ValueError(dies_opening)
    return CrashingModel(dies_loading)


class CrashingModel:
    """Fulfils ChatBackend, TokenCounter and CallBackend."""

    def __init__(self, dies_loading: str) -> None:
        self._dies_loading = dies_loading
        self._facts = FACTS

    def facts(self) -> DeviceFacts:
        return self._facts

    def load(self) -> None:
        if self._dies_loading and Path(self._dies_loading).exists():
            os._exit(7)

    def generate(self, request: Request, *, already: str = "", **_: int) -> TokenStream:
        words = request.messages[-1].content.split()
        said = len([word for word in words if not word.startswith("@")])
        yield from self._say(words, min(said, request.device_tokens), len(already.split()))

    def write_call(self, call: CallToWrite) -> TokenStream:
        yield from self._say(call.prompt.split(), 64, 0)

    def count_tokens(self, request: Request) -> int:
        words = request.messages[-1].content.split()
        for word in words:
            _obey(word)
        return len(words)

    def close(self) -> None:
        pass

    def _say(self, words: list[str], most: int, skipped: int) -> TokenStream:
        if len(words) > FACTS.context_tokens:
            raise ContextExceeded(len(words), FACTS.context_tokens)
        count = 0
        for word in words:
            said = _obey(word) if word.startswith("@") else word
            if not said:
                continue
            count += 1
            if count > skipped and count - skipped <= most:
                yield Token(f"{said} ", -0.25, 3.0, 0.5, alternatives=((said, -0.25),))
        self._facts = replace(self._facts, output_tokens_per_second=99.0)
        yield Finish("stop", len(words) + skipped, count - skipped, 1, passes=count)


def open_senses() -> CrashingSenses:
    return CrashingSenses()


class CrashingSenses:
    """Fulfils SpeechBackend, EmbedBackend and VisionBackend; it does what words or a hint say."""

    def __init__(self) -> None:
        self._facts = FACTS

    def facts(self) -> DeviceFacts:
        return self._facts

    def hear(self, samples: Any, *, hint: str = "", **_: Any) -> list[Heard]:
        _obey(hint)
        self._facts = replace(self._facts, real_time_factor=0.5)
        words = (Word(f"{len(samples)} samples", 0.25, 0.5, 0.75, glued=True), Word("and", 0.5, 1))
        return [
            Heard(start=0.0, end=1.0, text=words[0].text, words=words, mean_logprob=-0.5),
            Heard(start=1.0, end=2.0, text="", no_speech=0.9, language="en"),
        ]

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None]) -> Embedded:
        for text in texts:
            for word in text.split():
                _obey(word)
            pause()
        vectors = tuple(array("f", (len(text), 0.1)) for text in texts)
        return Embedded(vectors, (1,) * len(texts), 7)

    def look(self, pixels: Any) -> Sight:
        height, width = pixels.shape[:2]
        line = Line("NO ENTRY", 0.9, ((0, 0), (9.5, 0), (9, 3), (0, 3)))
        return Sight(lines=(line,), things=(Thing("cat", 0.5),), width=width, height=height)

    def close(self) -> None:
        pass


def _obey(word: str) -> str:
    name, _, value = word.removeprefix("@").partition(":")
    deed = _DEEDS.get(name)
    return (deed(value) if deed else "") or ""


def _raise(_: str) -> None:
    raise ValueError("secret words")


def _print(text: str) -> None:
    os.write(1, text.encode())
    os.write(2, text.encode())


def _wait(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.005)


def _die_once(path: str) -> None:
    if _is_first(path):
        os._exit(9)


def _is_first(path: str) -> bool:
    first = not Path(path).exists()
    Path(path).touch()
    return first


_DEEDS: dict[str, Callable[[str], str | None]] = {
    "segv": lambda _: faulthandler._sigsegv(),  # type: ignore[attr-defined]
    "abort": lambda _: os.abort(),
    "exit": lambda _: os._exit(3),
    "hang": lambda _: time.sleep(3600),
    "slow": lambda _: time.sleep(0.05),
    "raise": _raise,
    "print": _print,
    "wait": _wait,
    "once": _die_once,
    "other": lambda path: "first" if _is_first(path) else "second",
}
