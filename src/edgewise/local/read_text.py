"""Reads text in pictures, through RapidOCR; its PP-OCRv6 models travel in the same wheel."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, GenerationFailed
from edgewise.local.backend import DeviceFacts
from edgewise.types.sights import Line, Sight

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

MODEL = "pp-ocrv6-small"
LEAST_SIDE = 48  # a smaller picture gets a margin: the finder's strides need some room
MOST_TIMES = 4  # as long as wide, or the other way round: the finder enlarges the shorter side to
# 736 pixels, and a strip would become a picture of gigabytes


class TextReader:
    """One set of models, loaded when first used; calls wait for each other."""

    def __init__(self, *, threads: int) -> None:
        self._threads = threads
        self._engine: Any = None
        self._lock = threading.Lock()
        self._facts = DeviceFacts(
            backend="rapidocr", model=MODEL, quantisation="FP32", context_tokens=1, images=True
        )

    def facts(self) -> DeviceFacts:
        return self._facts

    def look(self, pixels: PictureArray) -> Sight:
        height, width = pixels.shape[:2]
        with self._lock:
            engine = self._loaded()
            try:
                found = engine(_with_margin(pixels)[:, :, ::-1])  # it wants blue first
            except Exception as error:  # a runtime in C++ under a library in Python: anything
                raise GenerationFailed(f"{MODEL} broke off: {error}") from error
        texts = found.txts or ()
        boxes = found.boxes if found.boxes is not None else ()
        lines = tuple(
            Line(str(text), float(score), tuple((float(x), float(y)) for x, y in box))
            for text, score, box in zip(texts, found.scores or (), boxes, strict=True)
            if str(text).strip()
        )
        return Sight(lines=lines, width=width, height=height)

    def close(self) -> None:
        with self._lock:
            self._engine = None

    def _loaded(self) -> Any:
        if self._engine is None:
            try:
                import rapidocr  # noqa: PLC0415 - with OpenCV and ONNX Runtime, a second to load
            except ImportError as error:
                raise ExtraMissing("vision", "rapidocr") from error
            self._engine = rapidocr.RapidOCR(
                params={
                    "Global.log_level": "critical",
                    "EngineConfig.onnxruntime.intra_op_num_threads": self._threads,
                    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                }
            )
        return self._engine


def _with_margin(pixels: PictureArray) -> PictureArray:
    height, width = pixels.shape[:2]
    least = max(LEAST_SIDE, max(height, width) // MOST_TIMES)
    below, right = max(0, least - height), max(0, least - width)
    if not below and not right:
        return pixels
    import numpy as np  # noqa: PLC0415

    return np.pad(pixels, ((0, below), (0, right), (0, 0)), mode="edge")
