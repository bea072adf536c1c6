"""A stand-in for `cactus.bindings.cactus` 2.2.2: the functions that we call, with its signatures.

The binding's licence is proprietary, so tests do not install it. This one follows what it does:
`cactus_complete` blocks, ignores what the callback returns, drops bytes that are no UTF-8, raises
RuntimeError for an error code, and reads the engine's JSON. The last words decide what it says.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CONFIDENCE = 0.92


class Engine:
    """What the native library would keep."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.stop = threading.Event()
        self.let_go = threading.Event()
        self.confidence: float | None = CONFIDENCE

    def cactus_init(
        self, model_path: str, corpus_dir: str | None = None, cache_index: bool = False
    ) -> int:
        if not (Path(model_path) / "config.txt").exists():
            raise RuntimeError("Failed to initialize model")
        self.log.append(("init", model_path))
        return 7

    def cactus_destroy(self, model: int) -> None:
        self.log.append("destroy")

    def cactus_reset(self, model: int) -> None:
        self.log.append("reset")
        self.stop.clear()

    def cactus_stop(self, model: int) -> None:
        self.log.append("stop")
        self.stop.set()

    def cactus_complete(
        self,
        model: int,
        messages: Sequence[dict[str, str]],
        options: dict[str, Any] | None = None,
        tools: object = None,
        callback: Callable[[str, int], object] | None = None,
        pcm_data: bytes | None = None,
    ) -> Any:
        self.log.append((list(messages), options))
        words, most = messages[-1]["content"], (options or {})["max_tokens"]
        if "too long" in words:
            raise RuntimeError("context exceeds graph-bundle full-context capacity")
        if "fail" in words:
            raise RuntimeError("Completion failed")
        if "no JSON" in words:
            return json.loads('{"success": tru')
        smile = [b"A smile: ", b"\xf0\x9f", b"\x98\x80", b" it is"]
        pieces = smile if "smile" in words else [b"Paris", b" is", b" a", b" city", b"."]
        endless, deaf = "for ever" in words, "deaf" in words
        said: list[bytes] = []
        while len(said) < min(most, 10**6 if endless or deaf else len(pieces)):
            said.append(pieces[len(said) % len(pieces)])
            if callback is not None:
                callback(said[-1].decode("utf-8", errors="ignore"), len(said))
            if (self.stop.is_set() and not deaf) or self.let_go.is_set():
                break
            time.sleep(0.001 if endless or deaf else 0)
        return {
            "success": True,
            "error": None,
            "cloud_handoff": "cloud" in words,
            "response": b"".join(said).decode("utf-8", errors="ignore"),
            "function_calls": [],
            "confidence": self.confidence,
            "prefill_tokens": 12,
            "decode_tokens": len(said),
        }
