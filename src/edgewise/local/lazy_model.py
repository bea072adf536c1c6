"""What the runtimes for speech, vectors and pictures share: facts, and weights that load late."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from edgewise.errors import GenerationFailed
from edgewise.local.backend import DeviceFacts

Loaded = TypeVar("Loaded")


class LazyModel(ABC, Generic[Loaded]):
    """One model, loaded when first used. Whoever uses it holds the lock."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._model: Loaded | None = None

    def facts(self) -> DeviceFacts:
        return self._facts

    def close(self) -> None:
        """Free the model. The next request loads it again."""
        with self._lock:
            self._model = None

    @abstractmethod
    def _load(self) -> Loaded:
        """Raises ExtraMissing or ModelNotFound."""

    def _loaded(self) -> Loaded:
        if self._model is None:
            self._model = self._load()
        return self._model

    def _broke_off(self, error: Exception) -> GenerationFailed:
        return GenerationFailed(f"{self._facts.model} broke off: {error}")
