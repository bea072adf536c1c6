"""ScriptedEars: a speech model that hears what it was told to, with the evidence given."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgewise.errors import GenerationFailed
from edgewise.local.backend import SPEECH_RATE, DeviceFacts
from edgewise.types.transcripts import Heard, Word

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

# Without times of words: so that what is scripted as one segment stays one.
SCRIPTED_EARS_FACTS = DeviceFacts(
    backend="scripted",
    model="scripted-ears",
    quantisation="none",
    context_tokens=448,
    word_times=False,
)


@dataclass(frozen=True, slots=True)
class Listened:
    """What one `hear` was given."""

    seconds: float
    language: str
    hint: str = ""
    temperature: float = 0.0


def heard(text: str, start: float, end: float, chance: float = 0.97) -> Heard:
    """A stretch of speech whose every word has the same chance of being right."""
    tokens = text.split()
    step = (end - start) / max(1, len(tokens))
    words = tuple(
        Word(token, round(start + index * step, 3), round(start + (index + 1) * step, 3), chance)
        for index, token in enumerate(tokens)
    )
    return Heard(start=start, end=end, text=text, words=words, language="en")


class ScriptedEars:
    """Fulfils `edgewise.local.backend.SpeechBackend` without a model.

        ScriptedEars([[heard("hello there", 0.0, 1.0), heard("mumble", 1.2, 2.0, chance=0.2)]])

    Each chunk of sound takes the next answer, a list of `Heard`; the last one repeats. Raises
    GenerationFailed where `fails` is true.
    """

    def __init__(
        self,
        answers: Sequence[Sequence[Heard]],
        *,
        facts: DeviceFacts = SCRIPTED_EARS_FACTS,
        fails: bool = False,
    ) -> None:
        if not answers:
            raise ValueError("ScriptedEars need at least one answer")
        self._answers = [list(answer) for answer in answers]
        self._facts = facts
        self._fails = fails
        self._lock = threading.Lock()
        self.listened: list[Listened] = []
        self.closed = False

    def facts(self) -> DeviceFacts:
        return self._facts

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
    ) -> list[Heard]:
        with self._lock:
            number = min(len(self.listened), len(self._answers) - 1)
            seconds = len(samples) / SPEECH_RATE
            self.listened.append(Listened(seconds, language, hint, temperature))
        if self._fails:
            raise GenerationFailed("told to fail")
        return list(self._answers[number])

    def close(self) -> None:
        self.closed = True
