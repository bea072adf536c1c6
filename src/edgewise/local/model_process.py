"""The process that a local model runs in: `python -m edgewise.local.model_process`.

isolated.py starts it and reads what it says. Requests come through standard input as pickles, from
the process that started this one. What goes back is never a pickle: a runtime that was taken over
must not be able to run code over there. A frame is a header, one line of JSON, and raw bytes for
hidden states.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import pickle
import signal
import struct
import sys
import threading
from array import array
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, BinaryIO

from edgewise.errors import ContextExceeded, EdgewiseError, GenerationFailed, place_of
from edgewise.types.embeddings import Embedded
from edgewise.types.replies import Finish, Token, floats_out

HEADER = struct.Struct("<IBII")  # number of the request, kind, bytes of JSON, raw bytes
LENGTH = struct.Struct("<Q")  # of what comes in
# Kinds of frames: four about a request, of which END or ERROR is the last, and about the model.
BEGUN, ITEM, END, ERROR, OPENED, LOADED, ALIVE = range(1, 8)
BEAT_S = 5.0  # how often a process that makes progress says so
CLOSING_S = 5.0  # to free the model; then the process ends anyway
CANCEL = "cancel"
STREAMS = ("generate", "write_call")  # methods that yield tokens; others return one value
IN_BATCHES = "embed"  # says between two of them that it goes on: others may have their turns
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG


@dataclass(eq=False, slots=True)
class _Work:
    """A request that runs here."""

    stream: Any = None
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True
        abort = getattr(self.stream, "abort", None)
        if abort is not None:
            abort()


@dataclass(eq=False, slots=True)
class ModelService:
    """One model, and the requests that it works on; each has a thread."""

    model: Any
    output: BinaryIO
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _loading: threading.Lock = field(default_factory=threading.Lock)
    _loaded: bool = False
    _told: dict[str, Any] = field(default_factory=dict)  # facts as they were sent
    _running: dict[int, _Work] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def serve(self, source: BinaryIO) -> None:
        """Until the other process closes the pipe, or is gone. What still runs is called off."""
        try:
            self._take(source)
        finally:
            self._over.set()
            for work in [*self._running.values()]:
                work.cancel()

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def _take(self, source: BinaryIO) -> None:
        self._send(0, OPENED, self._news())
        threading.Thread(target=self._beat, name="edgewise-beat", daemon=True).start()
        while (frame := read_pickle(source)) is not None:
            number, method, arguments, options = pickle.loads(frame)
            if method == CANCEL:
                if (work := self._running.get(number)) is not None:
                    work.cancel()
                continue
            self._send(number, BEGUN, {})
            work = self._running[number] = _Work()
            threading.Thread(
                target=self._run,
                args=(number, work, method, arguments, options),
                name="edgewise-request",
                daemon=True,
            ).start()

    def _run(
        self, number: int, work: _Work, method: str, arguments: Any, options: dict[str, Any]
    ) -> None:
        try:
            self._load()
            if method in STREAMS:
                self._stream(number, work, method, arguments, options)
            else:
                if method == IN_BATCHES:
                    options = {**options, "pause": lambda: self._pause(number, work)}
                call = getattr(self.model, method, None)
                value = None if method == "load" or call is None else call(*arguments, **options)
                told, vectors = told_value(value)
                self._send(number, END, {"value": told, **self._news()}, vectors)
        except Exception as error:  # noqa: BLE001 - the other process raises it
            self._send(number, ERROR, {**told_error(error), **self._news()})
        finally:
            self._running.pop(number, None)

    def _stream(
        self, number: int, work: _Work, method: str, arguments: Any, options: dict[str, Any]
    ) -> None:
        with contextlib.closing(getattr(self.model, method)(*arguments, **options)) as items:
            work.stream = items
            for item in items if not work.cancelled else ():
                if work.cancelled:
                    break
                if isinstance(item, Finish):
                    self._send(number, END, {**told_finish(item), **self._news()}, raw(item.state))
                    return
                self._send(number, ITEM, told_token(item), raw(item.state))
        called_off = {"error": "GenerationFailed", "words": "called off"}
        self._send(number, ERROR, {**called_off, **self._news()})

    def _pause(self, number: int, work: _Work) -> None:
        if work.cancelled:
            raise GenerationFailed("called off")
        self._send(number, ITEM, [""])

    def _load(self) -> None:
        """As a step of its own: a crash in it is no request's fault."""
        if self._loaded:
            return
        with self._loading:
            if not self._loaded:
                getattr(self.model, "load", lambda: None)()
                self._loaded = True
                self._send(0, LOADED, {})

    def _news(self) -> dict[str, Any]:
        """What has changed of the model's facts since they were last sent."""
        now = asdict(self.model.facts())
        changed = {name: value for name, value in now.items() if self._told.get(name, ...) != value}
        self._told |= changed
        return {"facts": changed}

    def _beat(self) -> None:
        """Say that there is progress: passes through the model, or that it is being loaded."""
        passes = getattr(self.model, "passes", lambda: 0)
        seen = 0
        while not self._over.wait(BEAT_S):
            now = passes()
            if now != seen or self._loading.locked():
                self._send(0, ALIVE, {})
            seen = now

    def _send(self, number: int, kind: int, told: Any, state: bytes = b"") -> None:
        text = json.dumps(told).encode()
        # The reader is gone, or the file is closed: so are we, soon.
        with self._writing, contextlib.suppress(OSError, ValueError):
            self.output.write(HEADER.pack(number, kind, len(text), len(state)) + text + state)
            self.output.flush()


# -- what goes over the pipe -----------------------------------------------------------------------


def read_pickle(source: BinaryIO) -> bytes | None:
    """The next piece of the other process; None at the end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = source.read(length)
    return body if len(body) == length else None


def told_token(token: Token) -> list[Any]:
    return [
        token.text,
        token.logprob,
        token.margin,
        token.entropy,
        token.has_evidence,
        token.alternatives,
    ]


def told_finish(finish: Finish) -> dict[str, Any]:
    counts = (finish.input_tokens, finish.output_tokens, finish.cached_tokens, finish.passes)
    return {"finish": [finish.reason, *counts, finish.estimated]}


def told_value(value: Any) -> tuple[Any, bytes]:
    """What a method returned, as JSON, and the vectors in it as bytes."""
    if isinstance(value, Embedded):
        rows = b"".join(floats_out(each) for each in value.vectors)
        return {"windows": value.windows, "tokens": value.tokens}, rows
    if isinstance(value, list):
        return [told_value(each)[0] for each in value], b""
    return (asdict(value) if is_dataclass(value) and not isinstance(value, type) else value), b""


def told_error(error: Exception) -> dict[str, Any]:
    """An error of ours with its words; of another one only its kind and its place."""
    if isinstance(error, EdgewiseError):
        told: dict[str, Any] = {"error": type(error).__name__, "words": str(error)}
        if isinstance(error, ContextExceeded):
            told["tokens"] = [error.prompt_tokens, error.context_tokens, error.counted]
        return told
    return {"error": "GenerationFailed", "words": place_of(error)}


def raw(state: Any) -> bytes:
    """A state as bytes; of a model that is in another process itself, it is an `array`."""
    if state is None or isinstance(state, array):
        return b"" if state is None else floats_out(state)
    sent: bytes = state.astype("<f4", copy=False).tobytes()
    return sent


# -- the process -----------------------------------------------------------------------------------


def main() -> None:
    """Open the model that the first two pieces describe, and serve it."""
    source, output = _take_pipes()
    _outlive_nobody()
    paths, opening = read_pickle(source), read_pickle(source)
    if paths is None or opening is None:
        return
    sys.path[:] = json.loads(paths)
    module, name, arguments, options = pickle.loads(opening)
    try:
        model = getattr(importlib.import_module(module), name)(*arguments, **options)
    except Exception as error:  # noqa: BLE001 - the other process raises it
        text = json.dumps(told_error(error)).encode()
        output.write(HEADER.pack(0, ERROR, len(text), 0) + text)
        output.flush()
        return
    ModelService(model, output).serve(source)
    threading.Timer(CLOSING_S, os._exit, (0,)).start()
    with contextlib.suppress(Exception):  # nobody is left to be told
        model.close()
    os._exit(0)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our ends of the pipes. What a runtime prints goes nowhere: it may quote a request.

    Only the Python stack of a crash goes to standard error, which the other process logs.
    """
    source, output, crashes = (os.dup(number) for number in (0, 1, 2))
    faulthandler.enable(file=crashes)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    return open(source, "rb"), open(output, "wb")


def _outlive_nobody() -> None:
    """Signals to stop go to the process that started this one; with it, this one ends."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "linux":  # elsewhere the closed pipe is all that tells it
        import ctypes  # noqa: PLC0415 - who only reads the frames needs none

        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
    without_cores()


def without_cores() -> None:
    """Writing the memory of a crash to disk takes seconds, and it holds what people asked."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
