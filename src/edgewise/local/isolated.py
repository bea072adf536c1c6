"""A local model in a process of its own: a crash of its runtime ends that process, not this one.

`IsolatedModel` is the model as flows see it. `Supervisor` starts the process (model_process.py),
hands it requests and reads what it says, on one thread. If the process dies, the supervisor starts
another and finds the request that was to blame: if it was alone, it is that one; if not, each runs
again, alone, and goes on where it was. The one to blame is refused if it comes again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import logging
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from edgewise import errors
from edgewise.children import child_environment, python_child
from edgewise.errors import (
    ContextExceeded,
    CrashedBefore,
    EdgewiseError,
    GenerationFailed,
    ModelNotFound,
    RuntimeCrashed,
    RuntimeDown,
)
from edgewise.local import model_process
from edgewise.local.backend import (
    CallToWrite,
    Channel,
    DeviceFacts,
    Generation,
    TokenStream,
    abandon,
    forget_at_fork,
    nothing,
)
from edgewise.local.model_process import (
    ALIVE,
    BEGUN,
    CANCEL,
    END,
    ERROR,
    HEADER,
    ITEM,
    LENGTH,
    LOADED,
)
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request, Tool, Word
from edgewise.types.replies import Finish, Line, Sight, Thing, Token, floats_in
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray, Samples

log = logging.getLogger("edgewise")

REMEMBERED, REMEMBERED_S = 256, 600.0  # requests that crashed the runtime, and for how long
LOOK_S = 5.0  # how often whoever waits looks whether the process still makes progress
HANGS_AFTER = 24  # looks without any progress
PATIENCE_S = 1.0  # requests wait this long for a new process; before a longer wait they fail
FREE_RESTARTS = 2  # in a row without a pause
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0
CLOSING_S = 10.0  # for the process to end by itself
ABORTING_S = 2.0  # for a process that hangs to say where
MOST_JSON, MOST_RAW = 16 * 2**20, 64 * 2**20  # bytes in one frame
MOST_PLACES = 60
MOST_SAID = 2**16  # bytes of a crash's stack that are read
# What may be logged of it: places in code, never words of a request.
_PLACE = re.compile(r'^(Fatal Python error: [\w ]+|  File "[^"]*", line \d+ in \S+)', re.MULTILINE)
# What reading the words of a process raises that was taken over, or has lost its mind.
NONSENSE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_FACTS = {each.name for each in fields(DeviceFacts)}

_FROM_OUTSIDE = {
    getattr(signal, name, -1) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
}
_Frame = tuple[int, bytes, bytes]  # kind, JSON, hidden state


def isolating(
    opener: Callable[..., Any], kind: type[IsolatedModel] | None = None
) -> Callable[..., Any]:
    """The same opener for a model in a process of its own, where one can be started.

    A program that was frozen into one file has no interpreter to start.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        return opener
    isolated = functools.partial(kind or IsolatedModel, opener)
    return functools.update_wrapper(isolated, opener, updated=())


class IsolatedModel:
    """Fulfils ChatBackend, TokenCounter and CallBackend for a model in a process of its own."""

    def __init__(
        self,
        opener: Callable[..., Any],
        *arguments: Any,
        memory: CrashMemory | None = None,
        start: Callable[[], Any] | None = None,
        **options: Any,
    ) -> None:
        """`opener` makes the model, over there: a function that can be imported by its name.

        `start` gives the process, or what stands for one that was there before.
        """
        memory = _MEMORY if memory is None else memory
        self.supervisor = Supervisor(opener, arguments, options, memory, start or _start_process)
        self.supervisor.open()
        # Also at the interpreter's exit, and if nobody closes it.
        self._end = weakref.finalize(self, self.supervisor.close)

    def facts(self) -> DeviceFacts:
        facts = self.supervisor.facts
        assert facts is not None, "open has returned"
        return facts

    def generate(self, request: Request, **options: Any) -> Generation:
        return self._stream(_ProcessCall("generate", (plain_request(request),), options))

    def write_call(self, call: CallToWrite) -> Generation:
        return self._stream(_ProcessCall("write_call", (call,)))

    def count_tokens(self, request: Request) -> int | None:
        """None if the runtime cannot count."""
        count = self._value(_ProcessCall("count_tokens", (plain_request(request),)))
        return None if count is None else int(count)

    def load(self) -> None:
        self._value(_ProcessCall("load"))

    def close(self) -> None:
        """End the process and all that runs in it. The next request starts it again."""
        self.supervisor.close()

    def _stream(self, call: _ProcessCall) -> Generation:
        return Generation(self._tokens(call), call.channel.abort)

    def _tokens(self, call: _ProcessCall) -> TokenStream:
        for kind, told, state in self._frames(call):
            item: Token | Finish
            try:
                news = json.loads(told)
                if kind == ITEM:
                    item = as_token(news, state)
                else:
                    self.supervisor.learn(news["facts"])
                    item = as_finish(news["finish"], state, call.continued)
            except NONSENSE as error:
                raise GenerationFailed("the local model's process makes no sense") from error
            yield item

    def _value(self, call: _ProcessCall) -> Any:
        for _, told, _ in self._frames(call):
            with _sense():
                news = json.loads(told)
                self.supervisor.learn(news["facts"])
                return news["value"]

    def _frames(self, call: _ProcessCall) -> Iterator[_Frame]:
        """What the process says about a call, its END included. Raises what went wrong."""
        supervisor, seen, quiet = self.supervisor, None, 0
        supervisor.submit(call)
        try:
            while True:
                try:
                    item = call.channel.queue.get(timeout=LOOK_S)
                except Empty:
                    quiet, seen = supervisor.look(quiet, seen)
                    continue
                quiet = 0
                if isinstance(item, EdgewiseError):
                    raise item
                if isinstance(item, BaseException) or item is None:
                    raise GenerationFailed(f"the local model: {item}")
                if item[0] == ERROR:
                    raise as_error(json.loads(item[1]))
                yield item
                if item[0] == END:
                    return
        finally:
            supervisor.leave(call)


class IsolatedTranscriber(IsolatedModel):
    """Fulfils SpeechBackend."""

    def hear(self, samples: Samples, **options: Any) -> list[Heard]:
        value = self._value(_ProcessCall("hear", (samples,), options))
        with _sense():
            return [as_heard(each) for each in value]


class IsolatedEmbedder(IsolatedModel):
    """Fulfils EmbedBackend."""

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        for kind, told, rows in self._frames(_ProcessCall("embed", (tuple(texts),))):
            if kind == ITEM:  # between two batches; the process goes on meanwhile
                pause()
                continue
            with _sense():
                return as_embedded(json.loads(told)["value"], rows, len(texts))
        raise GenerationFailed("the local model's process ended without an answer")


class IsolatedSkill(IsolatedModel):
    """Fulfils VisionBackend."""

    def look(self, pixels: PictureArray) -> Sight:
        value = self._value(_ProcessCall("look", (pixels,)))
        with _sense():
            return as_sight(value)


@contextlib.contextmanager
def _sense() -> Iterator[None]:
    """Around the reading of what a process said that may have been taken over."""
    try:
        yield
    except NONSENSE as error:
        raise GenerationFailed("the local model's process makes no sense") from error


def plain_request(request: Request) -> Request:
    """What a model reads of a request: functions of the user's program stay here."""
    wanted = request.response_format
    return replace(
        request,
        context={},
        tools=tuple(Tool(each.name, each.description, each.parameters) for each in request.tools),
        response_format=None if wanted is None else replace(wanted, parse=None),
    )


# -- the process, its lives, and who ends them -----------------------------------------------------


class Supervisor:
    """Keeps the process of one model alive, and knows which requests are in it."""

    def __init__(
        self,
        opener: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Mapping[str, Any],
        memory: CrashMemory,
        start: Callable[[], Any],
    ) -> None:
        self._start_process = start
        self._opening = (opener.__module__, opener.__qualname__, arguments, dict(options))
        self._memory = memory
        self._suspicions = CrashMemory()  # of requests that were left before a crash
        self._child: _Child | None = None
        self._begin()
        self._streak = 0  # crashes since the last answer
        self._streak_keys: list[bytes] = []
        self._down_until = 0.0
        self._failure: EdgewiseError | None = None  # why the model could not be opened
        self.facts: DeviceFacts | None = None
        self.restarts = 0
        self.trouble = ""  # why there is no local model at the moment
        forget_at_fork(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._closing = False
        self._running: dict[int, _ProcessCall] = {}
        self._waiting: deque[_ProcessCall] = deque()
        self._suspects: deque[_ProcessCall] = deque()  # they run alone, before all others
        self._on_trial = False  # the one that runs is a suspect
        self._was_loaded = False

    def forget(self) -> None:
        """The process is the parent's: the next call in this one starts another."""
        abandon(self._child)  # its pipe may hold half a frame, which must not be written twice
        calls = (*self._running.values(), *self._suspects, *self._waiting)
        self._child = None
        self._begin()
        for call in calls:
            words = "the local model's process works for the parent process, not for this fork"
            call.channel.queue.put(GenerationFailed(words))

    # -- for the readers --

    def open(self) -> DeviceFacts:
        """Start the process and return the model's facts. Raises what opening the model raised."""
        with self._lock:
            self._start()
            quiet, seen = 0, None
            while self.facts is None and self._thread is not None:
                if not self._changed.wait(LOOK_S):
                    quiet, seen = self.look(quiet, seen)
            if self.facts is not None:
                return self.facts
        raise self._failure or ModelNotFound("the local model's process did not start")

    def submit(self, call: _ProcessCall) -> None:
        """Hand a call to the process as soon as it may run. Raises CrashedBefore, RuntimeDown."""
        if len(self._memory) and call.blamable:
            left = self._memory.left_s(self._key(call))
            if left:
                raise CrashedBefore(
                    "a request like this one crashed the local model's process before; the device "
                    f"refuses it for another {left / 60:.0f} min"
                )
        call.pack()
        with self._lock:
            wait = self._down_until - time.monotonic()
            if wait > PATIENCE_S:
                raise self._down(wait)
            call.channel.interrupt = lambda: self.leave(call)
            self._waiting.append(call)
            self._start()
            self._hand_out()

    def leave(self, call: _ProcessCall) -> None:
        """Nobody reads this call any more. Returns at once."""
        with self._lock:
            if call.left:
                return
            call.left = True
            for line in (self._waiting, self._suspects):
                if call in line:
                    line.remove(call)
            if call.number in self._running and self._child is not None:
                cancel = pickle.dumps((call.number, CANCEL, (), {}))
                self._child.outbox.put(_framed(cancel))

    def look(self, quiet: int, seen: int | None) -> tuple[int, int | None]:
        """After a while without news: has the process made progress? If not for long, end it.

        Counted in looks, not in time: a machine that stood still has not looked.
        """
        with self._lock:
            child = self._child
            if child is None:
                return 0, None
            if child.frames != seen:
                return 0, child.frames
            child.go_on()
            if quiet + 1 >= HANGS_AFTER and not child.hung:
                child.end_hanging()
            return quiet + 1, seen

    def learn(self, news: Mapping[str, Any]) -> None:
        """Take in what has changed of the model's facts."""
        known = {name: value for name, value in news.items() if name in _FACTS}
        if "languages" in known:
            known["languages"] = tuple(known["languages"])
        self.facts = DeviceFacts(**known) if self.facts is None else replace(self.facts, **known)

    def close(self) -> None:
        """End the process. The next call starts it again."""
        with self._lock:
            thread, child = self._thread, self._child
            if thread is None:
                return
            self._closing = True
            self._changed.notify_all()
            if child is not None:
                child.outbox.put(None)
        if thread is threading.current_thread():
            return  # the garbage collector runs anywhere
        thread.join(CLOSING_S)
        if thread.is_alive() and child is not None:
            child.process.kill()
            thread.join(CLOSING_S)

    @property
    def resident_bytes(self) -> int:
        """Memory of the process; 0 if it is not running, or the system does not say."""
        child = self._child
        if child is None:
            return 0
        try:  # Linux only
            statm = Path(f"/proc/{child.process.pid}/statm").read_text("ascii")
            return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError, AttributeError):
            return 0

    @property
    def ready(self) -> bool:
        """Whether the process takes requests. It may still have to load the model."""
        child = self._child
        return child is not None and child.opened

    @property
    def pid(self) -> int | None:
        child = self._child
        return None if child is None else child.process.pid

    # -- handing out, under the lock --

    def _start(self) -> None:
        if self._thread is None:
            self._closing, self._failure = False, None
            self._thread = threading.Thread(
                target=self._supervise, name="edgewise-supervisor", daemon=True
            )
            self._thread.start()

    def _hand_out(self) -> None:
        child = self._child
        if child is None or not child.opened:
            return
        if self._suspects:
            if not self._running:
                self._give(child, self._suspects.popleft())
                self._on_trial = True
            return
        if self._on_trial and self._running:
            return
        self._on_trial = False
        while self._waiting:
            self._give(child, self._waiting.popleft())

    def _give(self, child: _Child, call: _ProcessCall) -> None:
        self._running[call.number] = call
        child.outbox.put(call.packed)
        call.packed = b""

    def _key(self, call: _ProcessCall) -> bytes:
        return self._memory.key(call.identity(self.facts.model if self.facts else ""))

    def _down(self, wait: float) -> RuntimeDown:
        return RuntimeDown(
            f"{self.trouble}; it is started again in {wait:.0f} s", retry_after_s=wait
        )

    # -- on the supervisor's thread --

    def _supervise(self) -> None:
        """Start, read, bury, again. Only this thread does: on Linux the process dies with it."""
        while True:
            try:
                child = self._spawn()
            except (OSError, RuntimeError) as error:  # the second: there may be no more threads
                self._stop(ModelNotFound(f"the local model's process did not start: {error}"))
                return
            said = self._follow(child)
            with self._lock:
                self._child = None
                if self._closing or self._failure is not None:
                    self._stop(self._failure or GenerationFailed("the local model was closed"))
                    return
                if self.facts is None:
                    words = said.strip().rpartition("\n")[2] or child.how_it_ended()
                    self._stop(ModelNotFound(f"the local model's process did not start: {words}"))
                    return
                self._bury(child, said)
                pause = self._down_until - time.monotonic()
                if pause > 0:
                    self._changed.wait_for(lambda: self._closing, pause)
                if self._closing:
                    self._stop(GenerationFailed("the local model was closed"))
                    return
                self.restarts += 1

    def _spawn(self) -> _Child:
        child = _Child(self._start_process())
        child.outbox.put(_framed(json.dumps(sys.path).encode()))
        child.outbox.put(_framed(pickle.dumps(self._opening)))
        threading.Thread(target=child.write, name="edgewise-to-model", daemon=True).start()
        with self._lock:
            self._child = child
            if self._closing:
                child.outbox.put(None)
        return child

    def _follow(self, child: _Child) -> str:
        """Read all that a process says, until its end. Returns its last words."""
        process = child.process
        assert process.stdout is not None and process.stderr is not None
        with process.stdout as source, process.stderr as last:
            try:
                while len(head := source.read(HEADER.size)) == HEADER.size:
                    number, kind, length, size = HEADER.unpack(head)
                    if length > MOST_JSON or size > MOST_RAW:
                        raise ValueError("a frame is too large")
                    told, state = source.read(length), source.read(size)
                    child.frames += 1
                    self._hear(child, number, (kind, told, state))
            except NONSENSE:
                process.kill()
            child.outbox.put(None)
            try:
                process.wait(CLOSING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return last.read(MOST_SAID).decode("utf-8", "replace")

    def _hear(self, child: _Child, number: int, frame: _Frame) -> None:
        kind, told, _ = frame
        if not number:
            self._hear_of_model(child, kind, told)
            return
        call = self._running.get(number)
        if call is None:
            return
        if kind == BEGUN:
            call.begun = True
            return
        if kind == ERROR:  # one that was called off has measured something, too
            self.learn(json.loads(told).get("facts", {}))
        try:
            wanted = call.brings(kind, told)
        except GenerationFailed as error:
            call.channel.queue.put(error)
            self.leave(call)
            wanted = False
        if wanted:
            call.channel.queue.put(frame)
        if kind == ITEM:
            return
        with self._lock:
            del self._running[number]
            if kind == END and call.blamable:  # a model that loads may still crash at every request
                self._streak, self.trouble = 0, ""
                self._streak_keys.clear()
            self._hand_out()

    def _hear_of_model(self, child: _Child, kind: int, told: bytes) -> None:
        with self._lock:
            if kind == ERROR:
                self._failure = as_error(json.loads(told))
            elif kind == LOADED:
                child.loaded = self._was_loaded = True
            elif kind != ALIVE:
                self.learn(json.loads(told)["facts"])
                child.opened = True
                if self._was_loaded and self._streak <= FREE_RESTARTS:
                    load = _ProcessCall("load", left=True)
                    load.pack()
                    self._give(child, load)
                self._hand_out()
            self._changed.notify_all()

    def _bury(self, child: _Child, said: str) -> None:
        """The process crashed: whose fault was it, and who goes on?"""
        running = [call for call in self._running.values() if call.blamable or not call.left]
        self._running.clear()
        how = child.how_it_ended()
        self._streak += 1
        log.warning(
            "the process of the local model %s ended (%s; crash %d since its last answer) with %d "
            "requests in it; it is started again%s",
            self.facts.model if self.facts else "",
            how,
            self._streak,
            len(running),
            "".join(f"\n{place}" for place in _PLACE.findall(said)[:MOST_PLACES]),
        )
        # What it had not begun, or had no model for, was no reason to die.
        accused = [call for call in running if call.begun and child.loaded]
        others = [call for call in running if not (call.left or call in accused)]
        again = [call for call in accused if not call.left and len(accused) > 1]
        for call in (*again, *others):
            call.pack_again()
        self._suspects.extendleft(reversed(again))
        (self._suspects if self._on_trial else self._waiting).extendleft(reversed(others))
        if len(accused) == 1:
            self._blame(accused[0], how)
        else:
            self._suspect([call for call in accused if call.left], how)
        self._on_trial = False
        over = self._streak - FREE_RESTARTS - 1
        pause = 0.0 if over < 0 else min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(over, 20))
        # Whoever kills it does so again, whatever we do. One that is killed while it loads for
        # somebody may be too large for this machine, if the system does not say otherwise: that
        # gets worse by haste.
        if child.was_killed and (child.loaded or not running or child.had_memory()):
            pause = min(pause, PATIENCE_S)
        self._down_until = time.monotonic() + pause
        if pause > PATIENCE_S:
            self.trouble = f"the local model's process keeps crashing ({how})"
            # Then it is the model or the machine, not these requests.
            self._memory.forget(self._streak_keys)
            self._streak_keys.clear()
            self._fail_all(self._down(pause))

    def _suspect(self, calls: Iterable[_ProcessCall], how: str) -> None:
        """Nobody reads these any more, so they do not run again. The second time they are to blame.

        Else whoever sends such a request and leaves could end the process at will.
        """
        for call in calls:
            key = self._key(call)
            if self._suspicions.left_s(key):
                self._blame(call, how)
            self._suspicions.remember(key)

    def _blame(self, call: _ProcessCall, how: str) -> None:
        if call.blamable:
            key = self._key(call)
            self._memory.remember(key)
            self._streak_keys.append(key)
        call.channel.queue.put(
            RuntimeCrashed(f"the local model's process crashed on this request ({how})")
        )

    def _stop(self, error: EdgewiseError) -> None:
        with self._lock:
            self._thread = self._child = None
            self._failure = error
            self._on_trial = False
            self._fail_all(error)
            self._changed.notify_all()

    def _fail_all(self, error: EdgewiseError) -> None:
        for call in (*self._running.values(), *self._suspects, *self._waiting):
            call.channel.queue.put(error)
        for line in (self._suspects, self._waiting):
            line.clear()
        self._running.clear()
        self._on_trial = False


def _start_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        python_child("-m", model_process.__name__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        process_group=None if sys.platform == "win32" else 0,  # Ctrl-C is not for it
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )


@dataclass(eq=False, slots=True)
class _Child:
    """One life of the process."""

    process: subprocess.Popen[bytes]
    outbox: SimpleQueue[bytes | None] = field(default_factory=SimpleQueue)
    frames: int = 0
    opened: bool = False
    loaded: bool = False
    hung: bool = False
    killed_before: int | None = field(default_factory=lambda: _killed_for_memory())

    def had_memory(self) -> bool:
        """Whether the system has ended nothing for lack of memory while it lived."""
        return self.killed_before is not None and self.killed_before == _killed_for_memory()

    def write(self) -> None:
        """On a thread of its own: a process that hangs reads nothing, and nobody may wait for it.

        Closing the pipe tells the process to end.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError), self.process.stdin as pipe:
            while (frame := self.outbox.get()) is not None:
                pipe.write(frame)
                pipe.flush()

    def end_hanging(self) -> None:
        """It makes no progress: ask it where, then end it."""
        self.hung = True
        if sys.platform != "win32":
            self.process.send_signal(signal.SIGABRT)  # its fault handler writes the stack
        timer = threading.Timer(ABORTING_S, self.process.kill)
        timer.daemon = True
        timer.start()

    def go_on(self) -> None:
        """If somebody stopped it (SIGSTOP, a debugger), it goes on: nobody else would notice."""
        if sys.platform == "linux":
            stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            with contextlib.suppress(OSError):  # it has ended
                if os.waitid(os.P_PID, self.process.pid, stopped) is not None:
                    log.warning("the local model's process was stopped by a signal; it goes on")
                    self.process.send_signal(signal.SIGCONT)

    @property
    def was_killed(self) -> bool:
        """By a signal that no runtime sends itself."""
        return not self.hung and -(self.process.returncode or 0) in _FROM_OUTSIDE

    def how_it_ended(self) -> str:
        code = self.process.returncode
        if self.hung:
            return f"it made no progress for {LOOK_S * HANGS_AFTER:g} s"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
        return f"exit code {code}" if code else "its connection ended"


def _killed_for_memory() -> int | None:
    """How many processes of this machine were, since it started; None where nobody says."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


# -- a request to it -------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _ProcessCall:
    """One request to the process, until its reader leaves and the process is done with it."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    channel: Channel[_Frame] = field(default_factory=Channel)
    number: int = field(default_factory=itertools.count(1).__next__)
    packed: bytes = b""  # until the process has it
    begun: bool = False  # the process has it
    told: list[bytes] = field(default_factory=list)  # the items that its reader gets
    repeated: int = 0  # how many of them this run has brought
    continued: int = 0  # how many of them this run was given as its beginning
    left: bool = False  # nobody reads it any more

    def identity(self, model: str) -> Iterator[bytes]:
        """What makes two requests the same, as far as a crash is concerned."""
        yield model.encode()
        first = self.arguments[0] if self.arguments else None
        if isinstance(first, CallToWrite):
            yield from (first.prompt.encode(), first.grammar.encode())
        elif not isinstance(first, Request):  # sound, texts, a picture
            yield pickle.dumps(first)
        if not isinstance(first, Request):
            return
        yield repr(first.messages).encode("utf-8", "replace")
        yield from (image.data for message in first.messages for image in message.images)
        if first.response_format is not None:
            yield repr(first.response_format.schema).encode("utf-8", "replace")

    @property
    def blamable(self) -> bool:
        return bool(self.arguments)

    def pack(self) -> None:
        """Make ready to be sent. Raises GenerationFailed for values that only exist here."""
        try:
            self.packed = self._packed(self.arguments, self.options)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise GenerationFailed(
                f"the request cannot be handed to the local model's process: {error}"
            ) from error

    def pack_again(self) -> None:
        """The same after a crash: an answer in words goes on where it was, others begin again."""
        request = self.arguments[0] if self.arguments else None
        rest = request.device_tokens - len(self.told) if isinstance(request, Request) else 0
        self.repeated, self.begun = 0, False
        if (
            self.method != "generate"
            or not isinstance(request, Request)
            or request.response_format is not None
            or rest < 1
            or not self.told
        ):
            self.packed = self._packed(self.arguments, self.options)
            return
        self.repeated = self.continued = len(self.told)
        text = self.options.get("already", "") + "".join(map(_text_of, self.told))
        # The state behind the prompt came with the first token.
        options = {**self.options, "already": text, "prompt_layer": 0}
        self.packed = self._packed((replace(request, max_tokens=rest),), options)

    def _packed(self, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> bytes:
        return _framed(pickle.dumps((self.number, self.method, arguments, options)))

    def brings(self, kind: int, told: bytes) -> bool:
        """Whether the reader has not had this yet. Raises if a second run took another course."""
        same = True
        if kind == ITEM:
            self.repeated += 1
            if self.repeated > len(self.told):
                self.told.append(told)
                return True
            same = _text_of(told) == _text_of(self.told[self.repeated - 1])
        elif kind == END:
            same = self.repeated >= len(self.told)
        if not same:
            raise GenerationFailed(
                "the local model's process crashed, and the answer came out differently when it "
                "was written again"
            )
        return kind != ITEM


def _framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def _text_of(told: bytes) -> str:
    return str(json.loads(told)[0])


# -- what crashed it before ------------------------------------------------------------------------


class CrashMemory:
    """Salted hashes of requests that crashed a runtime: so many, for so long, never on disk."""

    def __init__(
        self,
        most: int = REMEMBERED,
        seconds: float = REMEMBERED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._salt = secrets.token_bytes(16)
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._seen)

    def key(self, parts: Iterable[bytes]) -> bytes:
        digest = hashlib.blake2b(key=self._salt, digest_size=16)
        for part in parts:
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.digest()

    def remember(self, key: bytes) -> None:
        with self._lock:
            self._seen.pop(key, None)
            self._seen[key] = self._clock()
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)

    def forget(self, keys: Iterable[bytes]) -> None:
        with self._lock:
            for key in keys:
                self._seen.pop(key, None)

    def left_s(self, key: bytes) -> float:
        """How long a request is still refused; 0 if it is not."""
        with self._lock:
            since = self._seen.get(key)
            if since is None:
                return 0.0
            left = since + self._seconds - self._clock()
            if left <= 0:
                del self._seen[key]
            return max(0.0, left)


_MEMORY = CrashMemory()  # of this process: a model that is opened again still knows


# -- what it says ----------------------------------------------------------------------------------


def as_error(told: Mapping[str, Any]) -> EdgewiseError:
    """The error that the process met, as it would be raised here."""
    words, tokens = str(told.get("words", "")), told.get("tokens")
    if tokens is not None:
        return ContextExceeded(int(tokens[0]), int(tokens[1]), counted=bool(tokens[2]))
    kind = getattr(errors, str(told.get("error", "")), None)
    if not (isinstance(kind, type) and issubclass(kind, EdgewiseError)):
        kind = GenerationFailed
    error = kind.__new__(kind)
    Exception.__init__(error, words)
    return error


def as_token(told: Any, state: bytes) -> Token:
    text, logprob, margin, entropy, has_evidence, alternatives = told
    return Token(
        str(text),
        float(logprob),
        float(margin),
        float(entropy),
        has_evidence=bool(has_evidence),
        alternatives=tuple((str(name), float(chance)) for name, chance in alternatives),
        state=_floats(state),
    )


def as_finish(told: Any, state: bytes, continued: int = 0) -> Finish:
    """`continued`: so many tokens of the answer were given to this run as a part of its prompt."""
    reason, prompt, written, cached, passes, estimated = told
    return Finish(
        reason,
        int(prompt) - continued,
        int(written) + continued,
        int(cached),
        estimated=bool(estimated) or continued > 0,
        passes=int(passes),
        state=_floats(state),
    )


def as_heard(told: Any) -> Heard:
    return Heard(
        start=float(told["start"]),
        end=float(told["end"]),
        text=str(told["text"]),
        words=tuple(
            Word(
                str(word["text"]),
                float(word["start"]),
                float(word["end"]),
                None if word["probability"] is None else float(word["probability"]),
                glued=bool(word["glued"]),
            )
            for word in told["words"]
        ),
        mean_logprob=float(told["mean_logprob"]),
        no_speech=float(told["no_speech"]),
        compression_ratio=float(told["compression_ratio"]),
        temperature=float(told["temperature"]),
        language=str(told["language"]),
    )


def as_embedded(told: Any, rows: bytes, texts: int) -> Embedded:
    numbers = floats_in(rows)
    size, rest = divmod(len(numbers), texts)
    windows = tuple(int(each) for each in told["windows"])
    if rest or len(windows) != texts:
        raise ValueError("not one vector for each text")
    vectors = tuple(numbers[each * size : (each + 1) * size] for each in range(texts))
    return Embedded(vectors, windows, int(told["tokens"]))


def as_sight(told: Any) -> Sight:
    lines = tuple(Line(*_scored(each, "text")) for each in told["lines"])
    things = tuple(Thing(*_scored(each, "name")) for each in told["things"])
    return Sight(lines=lines, things=things, width=int(told["width"]), height=int(told["height"]))


def _scored(told: Any, name: str) -> tuple[str, float, tuple[tuple[float, float], ...]]:
    box = tuple((float(x), float(y)) for x, y in told["box"])
    return str(told[name]), float(told["score"]), box


def _floats(state: bytes) -> Any:
    return floats_in(state) if state else None
