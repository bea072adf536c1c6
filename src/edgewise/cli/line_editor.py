"""The prompt of `edgewise chat` in a terminal: history between runs, completion, several lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from typing_extensions import override

QUOTES = '"""'
Names = Callable[[], Iterable[str]]


class LineEditor:
    """Reads one message at a time.

    `commands` are the slash commands and what each does; `arguments` are the names that may follow
    a command, `files` the commands that a file follows. `history` is the file that keeps what was
    typed; None keeps nothing. While `private()` is true, nothing is remembered at all.
    """

    def __init__(
        self,
        *,
        commands: Mapping[str, str],
        arguments: Mapping[str, Names],
        files: Iterable[str],
        history: Path | None,
        private: Callable[[], bool],
        coloured: bool,
    ) -> None:
        self._prompt: StyleAndTextTuples = [("bold" if coloured else "", "you >"), ("", " ")]
        self._session: PromptSession[str] = PromptSession(
            history=_history(history, private),
            completer=SlashCompleter(commands, arguments, files),
            key_bindings=_keys(),
            multiline=True,  # Enter is ours: it sends, or begins a new line inside quotes
            prompt_continuation=lambda *_: [("", "... ")],
            enable_history_search=True,
        )

    def read(self) -> str:
        """The message. Raises EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""
        text = self._session.prompt(self._prompt)
        return without_quotes(text)


def without_quotes(text: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(QUOTES):
        return text
    return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


def is_open(text: str) -> bool:
    """Whether a message begins with three quotes that nothing closes yet."""
    stripped = text.strip()
    return stripped.startswith(QUOTES) and (
        len(stripped) < 2 * len(QUOTES) or not stripped.endswith(QUOTES)
    )


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class SlashCompleter(Completer):
    """Commands after a slash, then what may follow them. Never in the middle of a sentence."""

    def __init__(
        self, commands: Mapping[str, str], arguments: Mapping[str, Names], files: Iterable[str]
    ) -> None:
        self._commands, self._arguments, self._files = commands, arguments, set(files)
        self._paths = PathCompleter(expanduser=True)

    @override
    def get_completions(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        line = document.text_before_cursor
        if not line.startswith("/") or "\n" in line:
            return
        name, space, rest = line[1:].partition(" ")
        if not space:
            for command, words in self._commands.items():
                if command.startswith(name):
                    yield Completion(f"/{command}", -len(line), display_meta=words)
        elif name in self._files:
            yield from self._paths.get_completions(Document(rest), event)
        else:
            names = self._arguments.get(name, tuple)()
            yield from (Completion(each, -len(rest)) for each in names if each.startswith(rest))


class _KeptHistory(FileHistory):
    """A file that only the user can read; private turns are not in it."""

    def __init__(self, path: Path, private: Callable[[], bool]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND, 0o600))
        path.chmod(0o600)  # also one that was there before
        super().__init__(path)
        self._private = private

    @override
    def append_string(self, string: str) -> None:
        if not self._private():
            super().append_string(string)


class _ForgetfulHistory(InMemoryHistory):
    """For the arrow keys of this run."""

    def __init__(self, private: Callable[[], bool]) -> None:
        super().__init__()
        self._private = private

    @override
    def append_string(self, string: str) -> None:
        if not self._private():
            super().append_string(string)


def _history(path: Path | None, private: Callable[[], bool]) -> History:
    if path is not None:
        try:
            return _KeptHistory(path, private)
        except OSError:
            pass  # a read-only folder: a talk needs no history
    return _ForgetfulHistory(private)
