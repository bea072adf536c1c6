"""The Cactus engine in this process, over its own Python binding: `PATH@cactus`.

PATH is a folder that `cactus convert` or `cactus download` made. The engine tells no
log-probabilities; with the end of an answer it says how sure it is. Only a calibration of this
model on this engine can say what that number is worth. Its own handoff to its own cloud is off:
whether an answer leaves the device is decided here. Tested on a stand-in, not run on hardware.
"""

from __future__ import annotations

import math
import os
from importlib import import_module
from typing import Any

from typing_extensions import override

from edgewise.errors import (
    ContextExceeded,
    GenerationFailed,
    LocalError,
    ModelNotFound,
    SchemaUnsupported,
)
from edgewise.extras import pip_command
from edgewise.local.backend import DeviceFacts, LocalRuntime
from edgewise.local.chat_prompt import plain_turns
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Request
from edgewise.types.replies import Finish
from edgewise_engines.native import NativeModel, Run


def open_backend(model: InstalledModel, *, threads: int, context_tokens: int) -> CactusModel:
    """Raises ModelNotFound without the binding, its library or the model.

    The engine chooses its threads itself.
    """
    try:
        binding = import_module("cactus.bindings.cactus")  # loads its library
    except ImportError as error:
        how = pip_command("cactus-compute==2.2.2")
        raise ModelNotFound(f"Cactus is not installed: {how}") from error
    except (RuntimeError, AttributeError, OSError) as error:
        words = str(error).strip().split("\n", 1)[0]
        raise ModelNotFound(f"the native library of Cactus does not load: {words}") from error
    if not model.path.is_dir():
        raise ModelNotFound(
            f"no model of Cactus in {model.path}: name the folder that `cactus download` made"
        )
    return CactusModel(binding, model, context_tokens)


class CactusModel(NativeModel):
    """One folder of weights in the Cactus engine."""

    def __init__(self, binding: Any, model: InstalledModel, context_tokens: int) -> None:
        super().__init__(
            DeviceFacts(
                backend="cactus",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=context_tokens,
                evidence=False,
                rates=True,
            )
        )
        self._binding = binding
        self._path = os.fspath(model.path)

    @override
    def _check(self, request: Request, already: str) -> None:
        if request.response_format is not None:
            raise SchemaUnsupported("Cactus cannot enforce a schema")
        if already:
            raise GenerationFailed("Cactus cannot go on where a text broke off")

    @override
    def _load(self) -> Any:
        return self._binding.cactus_init(self._path)

    @override
    def _free(self, handle: Any) -> None:
        self._binding.cactus_destroy(handle)

    @override
    def _stop(self, handle: Any, run: Run) -> None:
        self._binding.cactus_stop(handle)  # what the callback returns is ignored

    @override
    def _answer(self, handle: Any, request: Request, already: str, run: Run) -> tuple[str, Finish]:
        self._binding.cactus_reset(handle)  # nothing of the request before, maybe another's
        options = {
            "max_tokens": request.device_tokens,
            "temperature": request.temperature,
            "stop_sequences": list(request.stop),
            "auto_handoff": False,
        }
        messages = [dict(turn) for turn in plain_turns(request.messages)]

        def say(piece: str, token: int) -> None:
            if run.stopped.is_set():  # told before it began, so it may have missed that
                self._binding.cactus_stop(handle)
            run.say(piece)

        told = self._binding.cactus_complete(handle, messages, options, callback=say)
        if not isinstance(told, dict) or "response" not in told:
            raise GenerationFailed("Cactus sent what cannot be read")
        if told.get("cloud_handoff"):
            raise GenerationFailed("Cactus sent the request to its own cloud, though told not to")
        if not told.get("success", True):
            raise self._named(RuntimeError(told.get("error") or "no answer"))
        written = int(told.get("decode_tokens") or 0)
        end = Finish(
            "length" if written >= request.device_tokens else "stop",
            input_tokens=int(told.get("prefill_tokens") or 0),
            output_tokens=written,
            confidence=_chance(told.get("confidence")),
        )
        return str(told["response"] or ""), end

    @override
    def _named(self, error: Exception) -> LocalError:
        if isinstance(error, ValueError):  # no JSON
            return GenerationFailed("Cactus sent what cannot be read")
        room = self._facts.context_tokens
        if "context" in str(error).lower() and "exceed" in str(error).lower():
            return ContextExceeded(room + 1, room, counted=False)
        return super()._named(error)


def _chance(value: Any) -> float | None:
    """Its confidence, if it is one."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) and 0 <= value <= 1 else None


RUNTIME = LocalRuntime(
    title="Cactus",
    package="cactus-compute",
)
