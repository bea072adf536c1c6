"""Models that outlive a command: a process of the user keeps them loaded for the next one.

`ask`, `call` and `chat` do everything themselves: policy, budgets, the cloud, the ledger. Only
the model is elsewhere. It is asked through a Unix socket that nobody but the user can open
(where there are none: on loopback, with a token), in the frames of `model_process`. A running
`edgewise serve` lends the models that it has; for others a helper starts by itself, and ends some
minutes after it was last asked. Where neither can be had, a command loads the model itself.

    python -m edgewise.local.warm FILE        the helper; its socket or its address is in FILE
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import importlib
import io
import json
import os
import pickle
import secrets
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from typing_extensions import override

from edgewise import __version__
from edgewise.children import child_environment, python_child
from edgewise.errors import ModelNotFound
from edgewise.local.catalogue import free_memory
from edgewise.local.isolated import NONSENSE, IsolatedModel
from edgewise.local.model_process import (
    ERROR,
    HEADER,
    LENGTH,
    ModelService,
    read_pickle,
    told_error,
    without_cores,
)
from edgewise.local.models import needed_bytes
from edgewise.local.store import InstalledModel

START_S = 20.0  # for a helper to listen
ANSWER_S = 5.0  # for it to say whether it has a model
FIRST_S = 30.0  # that a helper waits for whoever started it
LOOK_S = 1.0  # how often it looks whether its time is over
MOST_HELLO = 65_536
LONGEST_PATH = 100  # bytes of a socket's: systems allow 104 or 108
_PEER = struct.Struct("3i")  # pid, uid, gid


# -- where the sockets are -------------------------------------------------------------------------


def folder() -> Path:
    """Only the user may look into it. Raises OSError if somebody else could."""
    user = os.getuid() if hasattr(os, "getuid") else None  # Windows: the folder is the user's
    of_user = Path(f"/run/user/{user}")
    named = "edgewise" if user is None else f"edgewise-{user}"
    place = of_user / "edgewise" if of_user.is_dir() else Path(tempfile.gettempdir()) / named
    place.mkdir(mode=0o700, exist_ok=True)
    status = place.lstat()  # a link may lead anywhere
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{place} is no folder")
    if user is not None and (status.st_uid != user or status.st_mode & 0o077):
        raise PermissionError(f"{place} is open to others")
    return place


def home_mark(data_dir: Path) -> str:
    """Who may share models: the same home, the same Python, the same code."""
    code = Path(__file__).parents[1]
    files = (each for room in ("local", "types") for each in (code / room).glob("*.py"))
    newest = max((each.stat().st_mtime_ns for each in files), default=0)
    told = (str(data_dir.absolute()), sys.executable, __version__, str(code), newest)
    return hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()


def _has_unix_sockets() -> bool:
    return hasattr(socket, "AF_UNIX")


def _listen(place: Path) -> tuple[socket.socket, str]:
    """A socket at this place, and the token that whoever connects must know."""
    if _has_unix_sockets():
        if len(os.fsencode(place)) > LONGEST_PATH:
            raise OSError(f"{place} is too long for a socket")
        place.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(place))
        place.chmod(0o600)
        token = ""
    else:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        token = secrets.token_hex(32)
    listener.listen(16)
    if token:  # last: whoever finds the file can connect
        text = json.dumps({"port": listener.getsockname()[1], "token": token})
        place.touch(0o600)
        place.write_text(text, "ascii")
    return listener, token


def _connect(place: Path) -> tuple[socket.socket, str]:
    """Raises OSError if nobody listens there."""
    if _has_unix_sockets():
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: Any = str(place)
        token = ""
    else:
        try:
            told = json.loads(place.read_text("ascii"))
            address, token = ("127.0.0.1", int(told["port"])), str(told["token"])
        except (ValueError, LookupError, TypeError) as error:
            raise OSError(f"{place} is no address") from error
        line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        line.settimeout(ANSWER_S)
        line.connect(address)
        if not _is_own(line):
            raise PermissionError("another user listens there")
    except OSError:
        line.close()
        raise
    return line, token


def _is_own(line: socket.socket) -> bool:
    """Whether the other end is this user's, where the system says."""
    peer = getattr(socket, "SO_PEERCRED", None)  # Linux; elsewhere the folder is the lock
    if peer is None or line.family != socket.AF_UNIX:
        return True
    _, user, _ = _PEER.unpack(line.getsockopt(socket.SOL_SOCKET, peer, _PEER.size))
    return bool(user == os.getuid())


def _ask(place: Path, hello: Mapping[str, Any]) -> tuple[socket.socket, dict[str, Any]]:
    """Say what is wanted; the connection, and the answer. Raises OSError."""
    line, token = _connect(place)
    try:
        body = json.dumps({**hello, "token": token}).encode()
        line.sendall(LENGTH.pack(len(body)) + body)
        with line.makefile("rb", buffering=0) as source:  # not a byte more than the answer
            size = LENGTH.unpack(_exactly(source, LENGTH.size))[0]
            if size > MOST_HELLO:
                raise OSError("the answer is too long")
            told = json.loads(_exactly(source, size))
        if not isinstance(told, dict):
            raise OSError("the answer makes no sense")
        line.settimeout(None)
        return line, told
    except OSError:
        line.close()
        raise
    except ValueError as error:
        line.close()
        raise OSError(str(error)) from error


def _exactly(source: Any, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.read(size - len(found))
        if not more:
            raise OSError("the connection ended")
        found += more
    return found


# -- a command that borrows ------------------------------------------------------------------------


def warming(opener: Callable[..., Any], data_dir: Path, keep_s: float) -> Callable[..., Any]:
    """The same opener for a model that stays loaded for `keep_s` after this command.

    Whatever keeps the model from being elsewhere, it is opened here, as without this.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        return opener

    @functools.wraps(opener)
    def open_warm(model: InstalledModel, **options: Any) -> Any:
        with contextlib.suppress(OSError, ModelNotFound):
            projector = model.projector and model.projector.absolute()
            model = replace(model, path=model.path.absolute(), projector=projector)
            start = functools.partial(borrow, folder(), home_mark(data_dir), keep_s, model, options)
            return IsolatedModel(opener, model, start=start, **options)
        return opener(model, **options)

    return open_warm


class Borrowed:
    """What `Supervisor` needs of a process, for one that was there before and stays."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self.pid = pid
        self.returncode: int | None = None
        self.stdin: Any = _Sending(line)
        self.stdout: Any = line.makefile("rb")
        self.stderr: Any = io.BytesIO()

    def wait(self, timeout: float | None = None) -> int:
        self.kill()
        self.returncode = 0
        return 0

    def kill(self) -> None:
        """Leave it. What runs for us ends there."""
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()

    def send_signal(self, number: int) -> None:
        self.kill()


class _Sending(io.RawIOBase):
    """Closing it tells the other side that nothing more comes."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @override
    def write(self, data: Any) -> int:
        self._line.sendall(data)
        return len(data)

    @override
    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_WR)
        super().close()


def borrow(
    place: Path, mark: str, keep_s: float, model: InstalledModel, options: Mapping[str, Any]
) -> Borrowed:
    """A connection to whoever lends this model; the helper is started if nobody does.

    Raises OSError. TimeoutError: one is there and does not answer (stopped, or short of memory).
    """
    hello = {"want": "model", "keep_s": keep_s, **facts_of(model, options)}
    for server in sorted(place.glob(f"serve-*-{mark}")):
        with contextlib.suppress(OSError):
            line, told = _ask(server, hello)
            if told.get("ok"):
                return Borrowed(line, int(told["pid"]))
            line.close()
    helper = place / f"helper-{mark}"
    process: subprocess.Popen[bytes] | None = None
    for _ in range(round(START_S / 0.05)):
        try:
            line, told = _ask(helper, hello)
            return Borrowed(line, int(told["pid"]))
        except TimeoutError:
            raise
        except OSError:
            if process is not None and process.poll() not in (None, 0):
                raise  # 0: another one was there first
            process = process or _start_helper(helper)
            time.sleep(0.05)
    raise OSError("the helper does not answer")


def facts_of(model: InstalledModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for a model to be the same."""
    facts = {"path": str(model.path), "projector": str(model.projector or "")}
    return facts | {"context_tokens": options["context_tokens"], "settings": settings_in(options)}


def settings_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among them that change what a model says, or where it computes."""
    others = ("context_tokens", "slots", "threads")
    return {name: value for name, value in options.items() if name not in others}


def _start_helper(place: Path) -> subprocess.Popen[bytes]:
    windows = getattr(subprocess, "DETACHED_PROCESS", 0)
    process = subprocess.Popen(
        python_child("-m", __name__, str(place)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=place.parent,
        env=child_environment(),
        start_new_session=True,  # Ctrl-C and the end of the terminal are not for it
        creationflags=windows | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    # It may end before this process does, and should not stay as a zombie.
    threading.Thread(target=process.wait, name="edgewise-helper", daemon=True).start()
    return process


# -- whoever lends ---------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Lender:
    """Answers whoever connects. `lend` is a context manager that gives the model for an opening.

    has     whether there is such a model here, from what a command says of it
    status  what `edgewise warm` shows
    """

    place: Path
    kind: str
    lend: Callable[[Any, float], contextlib.AbstractContextManager[Any]]
    has: Callable[[Mapping[str, Any]], bool]
    status: Callable[[], list[dict[str, Any]]]
    stop: Callable[[], None] | None = None
    _token: str = ""
    _listener: socket.socket | None = None
    _services: list[ModelService] = field(default_factory=list)

    def open(self) -> None:
        """Raises OSError."""
        self._listener, self._token = _listen(self.place)

    def serve(self, over: Callable[[], bool]) -> None:
        """Until it is over, or closed."""
        assert self._listener is not None
        self._listener.settimeout(LOOK_S)
        while not over():
            try:
                line, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for words."""
        return any(each.busy for each in list(self._services))

    def close(self) -> None:
        self.place.unlink(missing_ok=True)
        if self._listener is not None:
            self._listener.close()

    def _answer(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError, *NONSENSE):
            line.settimeout(ANSWER_S)
            if not _is_own(line):
                return
            with line.makefile("rb") as source, line.makefile("wb") as output:
                (size,) = LENGTH.unpack(_exactly(source, LENGTH.size))
                hello = json.loads(_exactly(source, size)) if size <= MOST_HELLO else {}
                # Before anything else of it is believed: what follows may be a pickle.
                if not hmac.compare_digest(str(hello.get("token", "")), self._token):
                    return
                wanted = hello["want"]
                told: dict[str, Any] = {"pid": os.getpid(), "kind": self.kind, "ok": True}
                if wanted == "status":
                    told["models"] = self.status()
                elif wanted == "stop":
                    told["ok"] = self.stop is not None
                else:
                    told["ok"] = self.has(hello)
                body = json.dumps(told).encode()
                output.write(LENGTH.pack(len(body)) + body)
                output.flush()
                if wanted == "stop" and self.stop is not None:
                    self.stop()
                elif wanted == "model" and told["ok"]:
                    line.settimeout(None)
                    self._serve_model(source, output, float(hello["keep_s"]))

    def _serve_model(self, source: BinaryIO, output: BinaryIO, keep_s: float) -> None:
        paths, opening = read_pickle(source), read_pickle(source)
        if paths is None or opening is None:
            return
        try:
            # A plug-in may lie where only the command looks.
            sys.path.extend(each for each in json.loads(paths) if each not in sys.path)
            with self.lend(pickle.loads(opening), keep_s) as model:
                service = ModelService(model, output)
                self._services.append(service)
                try:
                    service.serve(source)
                finally:
                    self._services.remove(service)
        except Exception as error:  # noqa: BLE001 - the other process raises it
            text = json.dumps(told_error(error)).encode()
            output.write(HEADER.pack(0, ERROR, len(text), 0) + text)
            output.flush()


@dataclass(eq=False, slots=True)
class _Kept:
    """A model in the helper, and for how long."""

    model: Any
    name: str
    file: tuple[int, int]  # size and time of the weights when it was opened
    users: int = 0
    keep_s: float = 0.0
    last: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.last + self.keep_s - time.monotonic()


class Shelf:
    """The models of the helper, by what was asked to open them."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()

    @contextlib.contextmanager
    def lend(self, opening: Any, keep_s: float) -> Iterator[Any]:
        module, name, arguments, options = opening
        key = repr((module, name, arguments, sorted(options.items()))).encode()
        weights: InstalledModel = arguments[0]
        with self._lock:
            status = weights.path.stat()
            file = status.st_size, status.st_mtime_ns
            kept = self._kept.get(key)
            if kept is not None and kept.file != file:  # written anew: whoever uses it goes on
                del self._kept[key]
                kept = None
            if kept is None:
                self._make_room(weights, options)
                opener = getattr(importlib.import_module(module), name)
                kept = _Kept(opener(*arguments, **options), weights.name, file)
                self._kept[key] = kept
            kept.users += 1
            kept.keep_s = keep_s
        try:
            yield kept.model
        finally:
            with self._lock:
                kept.users -= 1
                kept.last = time.monotonic()

    def _make_room(self, weights: InstalledModel, options: Mapping[str, Any]) -> None:
        """What nobody uses leaves, the least recently used first, where memory is short."""
        needed = needed_bytes(weights, options["context_tokens"], options.get("slots", 1))
        for key, kept in sorted(self._kept.items(), key=lambda each: each[1].last):
            free = free_memory()
            if free is not None and free < needed and not kept.users:
                self._kept.pop(key).model.close()

    def is_over(self) -> bool:
        """Let go what has had its time. Whether nothing is left, and nobody is about to ask."""
        if not self._lock.acquire(blocking=False):
            return False  # a model is being opened; whoever comes meanwhile is heard
        try:
            over = [key for key, kept in self._kept.items() if not kept.users and kept.left_s <= 0]
            for key in over:
                self._kept.pop(key).model.close()
            return not self._kept and time.monotonic() - self._began > FIRST_S
        finally:
            self._lock.release()

    def status(self) -> list[dict[str, Any]]:
        """Also while a model is being opened, which holds the lock for seconds."""
        return [
            {"model": each.name, "users": each.users, "ends_in_s": max(0.0, each.left_s)}
            for each in list(self._kept.values())
        ]


def main() -> None:
    """The helper. Ends with 0 if there is one already."""
    from filelock import FileLock, Timeout  # noqa: PLC0415

    os.umask(0o077)
    without_cores()
    place = Path(sys.argv[1])
    lock = FileLock(f"{place}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return
    shelf, stopped = Shelf(), threading.Event()
    lender = Lender(place, "helper", shelf.lend, lambda _: True, shelf.status, stopped.set)

    def over() -> bool:
        # Who is told to stop, or can no longer be found, lets an answer end.
        unwanted = stopped.is_set() or not place.exists()
        return shelf.is_over() or (unwanted and not lender.busy)

    with lock:
        lender.open()
        lender.serve(over)
        lender.close()
    os._exit(0)  # threads of a runtime may still wait for work


# -- who lends, for people -------------------------------------------------------------------------


def lenders() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every helper and server of this user that lends models, with what it says of itself.

    Of one that does not answer there is only its kind.
    """
    for place in sorted((*folder().glob("serve-*"), *folder().glob("helper-*"))):
        if place.suffix == ".lock":
            continue
        try:
            line, told = _ask(place, {"want": "status"})
        except TimeoutError:  # stopped, or short of memory
            yield place, {"kind": place.name.partition("-")[0]}
            continue
        except OSError:
            place.unlink(missing_ok=True)  # of one that was killed
            continue
        line.close()
        yield place, told


def stop_helper(place: Path) -> bool:
    """Whether it ends, after the answer that it is at: a server does not for this."""
    line, told = _ask(place, {"want": "stop"})
    line.close()
    return bool(told.get("ok"))


if __name__ == "__main__":
    main()
