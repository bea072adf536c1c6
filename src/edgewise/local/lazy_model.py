"""What the runtimes for speech, vectors and pictures share: facts, and weights that load late."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Generic, TypeVar

from edgewise.errors import GenerationFailed
from edgewise.local.backend import DeviceFacts
from edgewise.local.forks import abandon, forget_at_fork

Loaded = TypeVar("Loaded")

MEMORY_S = 300.0  # of sound: what a transcriber heard before that hardly counts for its speed


class LazyModel(ABC, Generic[Loaded]):
    """One model, loaded when first used. Whoever uses it holds the lock."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._model: Loaded | None = None
        self._forked = False
        forget_at_fork(self)

    def facts(self) -> DeviceFacts:
        return self._facts

    def close(self) -> None:
        """Free the model. The next request loads it again."""
        with self._lock:
            self._model = None

    def _forget(self) -> None:
        abandon(self._model)
        self._lock, self._model, self._forked = threading.Lock(), None, True

    @abstractmethod
    def _load(self) -> Loaded:
        """Raises ExtraMissing or ModelNotFound."""

    def _loaded(self) -> Loaded:
        if self._model is None and self._forked:
            # OpenMP hangs on a thread that used it before the fork; it works on a new one.
            with ThreadPoolExecutor(1, "edgewise-load") as pool:
                self._model = pool.submit(self._load).result()
        elif self._model is None:
            self._model = self._load()
        return self._model

    def _broke_off(self, error: Exception) -> GenerationFailed:
        return GenerationFailed(f"{self._facts.model} broke off: {error}")


class LazyTranscriber(LazyModel[Loaded]):
    """A speech model that measures how fast it is.

    In this moving average long sound counts more than short: some models work as long on one
    second as on thirty. The error that this makes for a short sound is small in seconds.
    """

    def __init__(self, facts: DeviceFacts) -> None:
        super().__init__(facts)
        self._worked_s = self._heard_s = 0.0

    def _took(self, worked_s: float, heard_s: float) -> None:
        """Count one sound. Loading the model is not part of `worked_s`."""
        kept = math.exp(-heard_s / MEMORY_S)
        self._worked_s = kept * self._worked_s + worked_s
        self._heard_s = kept * self._heard_s + heard_s
        if self._heard_s:
            factor = self._worked_s / self._heard_s
            self._facts = replace(self._facts, real_time_factor=factor)
