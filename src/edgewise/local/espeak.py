"""The voice of espeak-ng, where the system has it: a program that is run, and no part of ours.

It reads the text from its standard input and writes sound to its standard output. No shell is
started, and no file is written.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from edgewise.children import child_environment
from edgewise.errors import GenerationFailed, ModelNotFound
from edgewise.local.backend import DeviceFacts, nothing
from edgewise.types.transcripts import Spoken

PROGRAMS = ("espeak-ng", "espeak")
WORDS_PER_MINUTE = 175  # its own usual speed
SLOWEST, QUICKEST = 80, 450  # that it speaks
START_S, CHARACTERS_PER_S = 20.0, 100.0  # how long it may take; it needs a tenth of that
HEAD_BYTES = 44  # of its WAV, which states no length: it is written before the sound is
_VOICE = re.compile(r"[a-z]{2,3}(-[a-z0-9]+)*(\+[a-z0-9]+)?", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # some of them are commands to it
MISSING = (
    "no voice is installed here: espeak-ng speaks (on Debian and Ubuntu: apt install espeak-ng; "
    "macOS: brew install espeak-ng; Windows: winget install espeak-ng)"
)


def find_program() -> str:
    """Where it is; empty if it is not. Never one of the current folder."""
    for name in PROGRAMS:
        found = shutil.which(name)
        if found and Path(found).resolve().parent != Path.cwd():
            return str(Path(found).resolve())
    return ""


def open_voice() -> Espeak:
    """Raises ModelNotFound with the line that installs it."""
    program = find_program()
    if not program:
        raise ModelNotFound(MISSING)
    return Espeak(program)


class Espeak:
    """Fulfils VoiceBackend. Each text is spoken by a process of its own, which ends with it."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._languages: frozenset[str] = frozenset()

    def facts(self) -> DeviceFacts:
        return DeviceFacts(
            backend="espeak", model="espeak-ng", quantisation="none", context_tokens=0
        )

    def speak(
        self,
        text: str,
        *,
        voice: str = "",
        language: str = "",
        speed: float = 1.0,
        pause: Callable[[], None] = nothing,
    ) -> Spoken:
        pause()
        chosen = self._chosen(voice, language)
        pace = round(min(QUICKEST, max(SLOWEST, WORDS_PER_MINUTE * speed)))
        # Two brackets would begin phonemes.
        plain = _CONTROLS.sub(" ", text).replace("[[", "[ [")
        command = [self._program, "-v", chosen, "-s", str(pace), "-b", "1", "--stdin", "--stdout"]
        wave = self._run(command, plain.encode(), START_S + len(text) / CHARACTERS_PER_S)
        if wave[:4] != b"RIFF" or len(wave) <= HEAD_BYTES:
            raise GenerationFailed("espeak-ng made no sound of it")
        pcm = wave[HEAD_BYTES:]
        rate = int.from_bytes(wave[24:28], "little")
        return Spoken(pcm[: len(pcm) // 2 * 2], rate, chosen)

    def close(self) -> None:
        """Nothing stays open."""

    def _chosen(self, voice: str, language: str) -> str:
        """The voice that was asked for, if it is one of its own: a cloud's names are not."""
        for wanted in (voice, language, language.partition("-")[0]):
            known = wanted.partition("+")[0].lower() in self._known()
            if known and _VOICE.fullmatch(wanted):
                return wanted.lower()
        return "en-us" if "en-us" in self._known() else "en"

    def _known(self) -> frozenset[str]:
        if not self._languages:
            listed = self._run([self._program, "--voices"], b"", START_S).decode("utf-8", "replace")
            rows = (line.split() for line in listed.splitlines()[1:])
            self._languages = frozenset(row[1].lower() for row in rows if len(row) > 1)
        return self._languages

    def _run(self, command: list[str], given: bytes, limit_s: float) -> bytes:
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, timeout=limit_s, env=child_environment()
            )
        except subprocess.TimeoutExpired as error:
            raise GenerationFailed(f"espeak-ng had not ended after {limit_s:.0f} s") from error
        except OSError as error:
            raise GenerationFailed(f"espeak-ng does not start: {error.strerror}") from error
        if done.returncode:
            raise GenerationFailed(f"espeak-ng ended with {done.returncode}")
        return done.stdout
