"""The pool of chat models: an engine's own, and pulled ones that requests name.

A model is loaded when it is first asked. Together they stay within a limit of memory: the one that
was used least recently leaves, never one that is at work or pinned. One that is to be kept for a
time leaves when nobody has asked it for so long.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from edgewise.errors import DeviceBusy, GenerationFailed, LocalError, StoreError
from edgewise.local.backend import ChatBackend, DeviceFacts, Generation, TokenStream, nothing
from edgewise.local.catalogue import free_memory
from edgewise.local.gguf import cache_bytes_of
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.types.messages import Request

SHARE_OF_FREE = 0.8  # of the memory that was free before the first model
BUFFERS = 100_000_000  # bytes that a runtime needs besides weights and context


def needed_bytes(model: InstalledModel, context_tokens: int, slots: int) -> int:
    """An estimate of the memory that a loaded model takes: weights, context, buffers."""
    try:
        per_token = cache_bytes_of(model.path)
    except StoreError:  # another runtime's file
        per_token = 0
    return model.bytes + per_token * context_tokens * slots + BUFFERS


class ChatModels:
    """Every chat model of one engine that was opened by name. Thread-safe.

    Without a limit in bytes they may fill most of the memory that is free before the first one.
    """

    def __init__(self, store: ModelStore, limit_bytes: int | None = None) -> None:
        self._store = store
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._models: dict[str, PooledModel] = {}
        self._turns = itertools.count(1)

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the models in memory, the least recently used first."""
        with self._lock:
            return tuple(each.name for each in self._by_use() if each.is_loaded)

    def known(self, name: str) -> PooledModel | None:
        """The model of this name, if anybody has asked for it."""
        with self._lock:
            return self._models.get(name)

    def open(
        self, name: str, open_model: Callable[[], ChatBackend], *, own: bool = False
    ) -> PooledModel:
        """The model of this name, not yet loaded. `own`: the engine's own, which is tried whatever
        it needs. Raises what `open_model` raises."""
        with self._lock:
            opening = self._opening.setdefault(name, threading.Lock())
        # Opening may start a process: only whoever wants this model waits for it.
        with opening:
            if (found := self._models.get(name)) is None:
                backend = open_model()  # not loaded; whatever is wrong with it is said now
                needed = self._needed(name, backend.facts())
                found = PooledModel(self, backend, open_model, needed, own=own)
                with self._lock:
                    self._models[name] = found
            return found

    def _needed(self, name: str, facts: DeviceFacts) -> int:
        try:
            model = self._store.find(name)
        except LocalError:  # another runtime has its own models: nobody knows how large
            return 0
        return needed_bytes(model, facts.context_tokens, facts.slots)

    @contextlib.contextmanager
    def using(self, model: PooledModel) -> Generator[ChatBackend]:
        """While inside, a model may be loaded, and stays where it is."""
        with self._lock:
            leaving = [] if model.is_loaded else self._make_room(model)
            model.is_loaded, model.last_used = True, next(self._turns)
            model.users += 1
        try:
            yield model.opened(leaving)
        finally:
            with self._lock:
                model.users = max(0, model.users - 1)  # a fork has counted anew
                model.last_used = next(self._turns)
                model.is_loaded = model.users > 0 or model.is_open
            self._part(model)

    def keep(self, model: PooledModel, seconds: float) -> None:
        """How long it stays after it was asked last; 0: it leaves when its work is done."""
        with self._lock:
            model.keep_s = seconds
        self._part(model)

    def pin(self, model: PooledModel, pinned: bool) -> None:
        """Whether it stays, whatever others need and however long nobody asks."""
        with self._lock:
            model.pinned = pinned
        self._part(model)

    def _part(self, model: PooledModel) -> None:
        """Let it go, now or when its time is up."""
        with self._lock:
            if model.leaves is not None:
                model.leaves.cancel()
                model.leaves = None
            stays = model.users or model.pinned or not model.is_open or math.isinf(model.keep_s)
            model.until = math.inf  # unless it leaves, as said below
            if stays:
                return
            if model.keep_s > 0:
                model.until = time.time() + model.keep_s
                model.leaves = threading.Timer(model.keep_s, self._leave, (model, model.last_used))
                model.leaves.daemon = True
                model.leaves.start()
                return
        self._leave(model, model.last_used)

    def _leave(self, model: PooledModel, last_used: int) -> None:
        with self._lock:
            idle = not model.users and not model.pinned and model.last_used == last_used
            leaving = model.leave() if idle else None
            model.keep_s = math.inf if idle else model.keep_s  # whoever asks next says anew
        if leaving is not None:
            leaving.close()

    def _make_room(self, model: PooledModel) -> list[ChatBackend]:
        """Take out the least recently used until this one fits. What they had is to be closed.

        Nothing leaves in vain: if it would not fit, it is refused first.
        """
        limit = self._find_limit()
        over = self._taken() + model.needed - limit
        leaving: list[PooledModel] = []
        for other in self._by_use():
            in_use = other.users or other.pinned
            if over > 0 and other.is_loaded and other.needed and not in_use:
                leaving.append(other)
                over -= other.needed
        if over > 0:
            self._refuse(model, limit)
        return [each for other in leaving if (each := other.leave()) is not None]

    def _refuse(self, model: PooledModel, limit: int) -> None:
        wanted = f"{model.name} needs about {_gigabytes(model.needed)} of memory"
        if model.needed > limit and not model.own:  # the engine's own is tried, come what may
            words = f"{_gigabytes(limit)} may be used (model_memory_bytes)"
            raise GenerationFailed(f"{wanted}, and {words}")
        if busy := [each.name for each in self._models.values() if each.users and each.needed]:
            raise DeviceBusy(f"{wanted}, and {', '.join(busy)} is at work")
        pinned = [each.name for each in self._models.values() if each.pinned and each.needed]
        if pinned and not model.own:
            raise GenerationFailed(f"{wanted}, and {', '.join(pinned)} is pinned")

    def _find_limit(self) -> int:
        if self._limit is None:  # once: what is loaded later does not show in what is free
            free = free_memory()
            self._limit = sys.maxsize if free is None else int(SHARE_OF_FREE * free)
        return self._limit

    def _by_use(self) -> list[PooledModel]:
        return sorted(self._models.values(), key=lambda each: each.last_used)

    def _taken(self) -> int:
        return sum(each.needed for each in self._models.values() if each.is_loaded)

    def close(self) -> None:
        with self._lock:
            models = list(self._models.values())
            self._models.clear()
        for model in models:
            if model.leaves is not None:
                model.leaves.cancel()
            model.close()

    def forget(self) -> None:
        """In a forked child: whoever was opening or using a model is in the parent."""
        self._lock, self._opening = threading.Lock(), {}
        for model in self._models.values():
            model.users, model.opening, model.leaves = 0, threading.Lock(), None


class PooledModel:
    """A chat model that leaves memory when another one needs it, and comes back when asked."""

    def __init__(
        self,
        pool: ChatModels,
        backend: ChatBackend,
        open_model: Callable[[], ChatBackend],
        needed: int,
        *,
        own: bool,
    ) -> None:
        self._pool = pool
        self._open_model = open_model
        self._backend: ChatBackend | None = backend
        self.opening = threading.Lock()
        self._facts = backend.facts()
        self.name = self._facts.model
        self.needed = needed
        self.own = own  # the engine's own, which is tried whatever it needs
        self.is_loaded = False
        self.users = 0
        self.last_used = 0
        self.pinned = False
        self.keep_s = math.inf  # after its last use
        self.until = math.inf  # Unix seconds: when it leaves, if nobody asks it before
        self.leaves: threading.Timer | None = None

    def keep(self, seconds: float) -> None:
        """See `ChatModels.keep`."""
        self._pool.keep(self, seconds)

    def pin(self, pinned: bool = True) -> None:
        """See `ChatModels.pin`."""
        self._pool.pin(self, pinned)

    def facts(self) -> DeviceFacts:
        backend = self._backend  # another thread may take it away at any time
        if backend is not None:
            self._facts = backend.facts()
        return self._facts

    def generate(self, request: Request, *, already: str = "", **layers: int) -> Generation:
        running: list[TokenStream] = []
        stopped = threading.Event()

        def abort() -> None:
            stopped.set()
            for stream in running:
                # A runtime without `abort` is left at its next token: a generator that runs on
                # another thread cannot be closed from here.
                getattr(stream, "abort", nothing)()

        def tokens() -> TokenStream:
            with self._pool.using(self) as backend:
                stream = backend.generate(request, already=already, **layers)
                running.append(stream)
                with contextlib.closing(stream):
                    if stopped.is_set():
                        raise GenerationFailed("called off")
                    for item in stream:
                        if stopped.is_set():
                            raise GenerationFailed("called off")
                        yield item

        return Generation(tokens(), abort)

    def load(self) -> None:
        """Load the weights now; a runtime that cannot be told loads them with the next request."""
        with self._pool.using(self) as backend:
            load: Callable[[], object] | None = getattr(backend, "load", None)
            if load is not None:
                load()

    def count_tokens(self, request: Request) -> int | None:
        """None if the runtime cannot count."""
        with self._pool.using(self) as backend:
            count = getattr(backend, "count_tokens", None)
            return None if count is None else int(count(request))

    @property
    def is_open(self) -> bool:
        return self._backend is not None

    def opened(self, leaving: Sequence[ChatBackend] = ()) -> ChatBackend:
        """The runtime, opened if need be, after those that make room for it are closed."""
        with self.opening:
            for other in leaving:
                other.close()
            if self._backend is None:
                self._backend = self._open_model()
            return self._backend

    def leave(self) -> ChatBackend | None:
        """Give the runtime away, for the caller to close. Whoever asks next opens another."""
        self.facts()
        backend, self._backend, self.is_loaded = self._backend, None, False
        return backend

    def close(self) -> None:
        """Free its memory. Whoever asks it next loads it again."""
        backend = self.leave()
        if backend is not None:
            backend.close()

    def __getattr__(self, name: str) -> Any:
        """What a runtime has besides, as long as it is open."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._backend, name)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
