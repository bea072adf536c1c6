"""A chat model in a native library that writes whole answers: it calls back with each piece.

The library works on a thread, one answer at a time. It is told to stop when nobody reads on. One
that does not stop keeps its model: nothing is freed under it, and later requests are refused.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

from edgewise.errors import GenerationFailed, LocalError
from edgewise.local.backend import DeviceFacts, Generation, TokenStream, with_speeds
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Token

STOP_S = 10.0  # that a library may take to stop, which it does between two tokens
LOOK_S = 0.2  # between two looks at whether waiting is in vain
_LOST = "\N{REPLACEMENT CHARACTER}"


class NativeModel(ABC):
    """Fulfils `ChatBackend` over a binding that blocks while it answers. Thread-safe."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self._turn = threading.Lock()  # the library works on one answer at a time
        self._state = threading.Lock()  # whose turn it is: only that answer may be stopped
        self._handle: Any = None
        self._running: Run | None = None

    def facts(self) -> DeviceFacts:
        return self._facts

    @abstractmethod
    def _load(self) -> Any:
        """The loaded model. Raises whatever the binding raises."""

    @abstractmethod
    def _free(self, handle: Any) -> None: ...

    @abstractmethod
    def _stop(self, handle: Any, run: Run) -> None:
        """Tell the library to stop; called from another thread than that of the answer."""

    @abstractmethod
    def _answer(self, handle: Any, request: Request, already: str, run: Run) -> tuple[str, Finish]:
        """Write an answer: `run.say` takes each piece. Returns the whole text and its end."""

    def _check(self, request: Request, already: str) -> None:  # noqa: B027 - most have none
        """Raise what can be known before any work is done."""

    def _named(self, error: Exception) -> LocalError:
        return GenerationFailed(f"{self._facts.backend} failed: {error}"[:300])

    def load(self) -> None:
        """Load the weights now. Raises GenerationFailed."""
        with self._turn:
            self._loaded()

    def generate(
        self,
        request: Request,
        *,
        already: str = "",
        layer: int = 0,  # it gives no hidden states
        prompt_layer: int = 0,
    ) -> Generation:
        self._check(request, already)
        run = Run()
        return Generation(self._tokens(request, already, run), lambda: self._call_off(run))

    def close(self) -> None:
        """Stop what runs and free the model. The next request loads it again."""
        running = self._running
        if running is not None:
            self._call_off(running)
        if self._turn.acquire(timeout=STOP_S):
            try:
                handle, self._handle = self._handle, None
                if handle is not None:
                    self._free(handle)
            finally:
                self._turn.release()

    def _loaded(self) -> Any:
        if self._handle is None:
            try:
                self._handle = self._load()
            except LocalError:
                raise
            except Exception as error:  # bindings raise what they like
                words = f"{self._facts.backend} cannot load {self._facts.model}: {error}"
                raise GenerationFailed(words[:300]) from error
        return self._handle

    def _tokens(self, request: Request, already: str, run: Run) -> TokenStream:
        thread = threading.Thread(
            target=self._work, args=(request, already, run), name="edgewise-native", daemon=True
        )
        thread.start()
        began, first, count = time.monotonic(), 0.0, 0
        try:
            for item in run:
                if isinstance(item, Finish):
                    self._measure(item, first - began, time.monotonic() - first)
                else:
                    first, count = first or time.monotonic(), count + 1
                yield item
        finally:
            self._call_off(run)
            thread.join(STOP_S)
            run.is_stuck = thread.is_alive()

    def _work(self, request: Request, already: str, run: Run) -> None:
        try:
            self._wait_for_turn(run)
        except GenerationFailed as error:
            run.fail(error)
            return
        with self._state:
            self._running = run
        try:
            whole, end = self._answer(self._loaded(), request, already, run)
            run.finish(whole, end)
        except LocalError as error:
            run.fail(error)
        except Exception as error:  # noqa: BLE001 - bindings raise what they like
            run.fail(self._named(error))
        finally:
            with self._state:
                self._running = None
            self._turn.release()

    def _wait_for_turn(self, run: Run) -> None:
        while not self._turn.acquire(timeout=LOOK_S):
            running = self._running
            if run.stopped.is_set():
                raise GenerationFailed("called off")
            if running is not None and running.is_stuck:
                raise GenerationFailed(f"{self._facts.backend} does not stop; start edgewise again")
        if run.stopped.is_set():
            self._turn.release()
            raise GenerationFailed("called off")

    def _call_off(self, run: Run) -> None:
        first = run.stop()
        with self._state:
            if first and run is self._running and self._handle is not None:
                with contextlib.suppress(Exception):  # whether it obeys is seen later
                    self._stop(self._handle, run)
        run.fail(GenerationFailed("called off"))

    def _measure(self, finish: Finish, reading_s: float, writing_s: float) -> None:
        self._facts = with_speeds(
            self._facts,
            read=finish.input_tokens,
            read_per_s=finish.input_tokens / max(reading_s, 1e-6),
            written=finish.output_tokens,
            written_per_s=finish.output_tokens / max(writing_s, 1e-6),
        )


class Run:
    """One answer: its pieces on their way to the reader, and whether it shall stop.

    A binding decodes each piece by itself. A character that two tokens share gets lost there: it
    comes as nothing, or as a mark. From then on nothing is passed on until the whole text is known.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.is_stuck = False
        self.note: Any = None  # of the engine, such as what it cancels with
        self._queue: SimpleQueue[Token | Finish | LocalError] = SimpleQueue()
        self._ended = False
        self._said: list[str] = []
        self._held: list[str] = []

    def say(self, piece: str) -> None:
        if self.stopped.is_set():
            return
        if self._held or not piece or _LOST in piece:
            self._held.append(piece)
        else:
            self._pass_on(piece)

    def finish(self, whole: str, end: Finish) -> None:
        said = "".join(self._said)
        exact = whole.startswith(said)
        self._pass_on(whole[len(said) :] if exact else "".join(self._held))
        self._queue.put(end)

    def fail(self, error: LocalError) -> None:
        self._queue.put(error)

    def stop(self) -> bool:
        """False if it has ended or was stopped before."""
        first = not self.stopped.is_set() and not self._ended
        self.stopped.set()
        return first

    def _pass_on(self, text: str) -> None:
        if text:
            self._said.append(text)
            self._queue.put(Token(text, has_evidence=False))

    def __iter__(self) -> Iterator[Token | Finish]:
        while True:
            item = self._queue.get()
            if isinstance(item, LocalError):
                raise item
            self._ended = isinstance(item, Finish)
            yield item
            if self._ended:
                return
