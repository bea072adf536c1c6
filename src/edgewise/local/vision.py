"""The device's skills with pictures: text (RapidOCR) and objects (SSD-MobileNetV3)."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, GenerationFailed, ModelNotFound
from edgewise.local.backend import DeviceFacts, VisionBackend
from edgewise.local.store.catalogue import GRAPH_TEXT, OBJECT_FINDER
from edgewise.local.store.store import InstalledModel
from edgewise.types.pictures import (
    Line,
    Sight,
    Thing,
)
from edgewise.vision.question import CLASSES

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray


SIDE = 320  # what the network looks at
LEAST_SCORE = 0.3  # below it, everything is found everywhere
OVERLAP = 0.45  # boxes of one kind that share more than this are one object


class ObjectFinder:
    """One network, loaded when first used; calls wait for each other."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        self._path = model.path
        self._threads = threads
        self._network: Any = None
        self._lock = threading.Lock()
        self._facts = DeviceFacts(
            backend="opencv",
            model=model.name,
            quantisation=model.quantisation,
            context_tokens=1,
            images=True,
        )

    def facts(self) -> DeviceFacts:
        return self._facts

    def look(self, pixels: PictureArray) -> Sight:
        height, width = pixels.shape[:2]
        with self._lock:
            cv2, network = self._loaded()
            try:
                blob = cv2.dnn.blobFromImage(
                    pixels, 1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5), swapRB=False
                )
                network.setInput(blob)
                found = network.forward()
                things = tuple(_things(cv2, found.reshape(-1, 7), width, height))
            except cv2.error as error:
                raise GenerationFailed(f"{self._facts.model} broke off: {error}") from error
        return Sight(things=things, width=width, height=height)

    def close(self) -> None:
        with self._lock:
            self._network = None

    def _loaded(self) -> tuple[Any, Any]:
        try:
            import cv2  # noqa: PLC0415 - only objects in pictures need it
        except ImportError as error:
            raise ExtraMissing("vision", "opencv-python-headless") from error
        if self._network is None:
            cv2.setNumThreads(self._threads)
            text = self._path.parent / GRAPH_TEXT
            try:
                self._network = cv2.dnn.readNetFromTensorflow(str(self._path), str(text))
            except cv2.error as error:
                raise ModelNotFound(f"{str(self._path)!r} is no object finder: {error}") from error
        return cv2, self._network


def _things(cv2: Any, rows: Any, width: int, height: int) -> list[Thing]:
    """Best first, without those that lie on a better one of their kind."""
    likely = [row for row in rows if row[2] >= LEAST_SCORE and int(row[1]) in CLASSES]
    boxes = [
        [
            float(row[3]) * width,
            float(row[4]) * height,
            float(row[5] - row[3]) * width,
            float(row[6] - row[4]) * height,
        ]
        for row in likely
    ]
    if not boxes:
        return []
    kept = cv2.dnn.NMSBoxesBatched(
        boxes, [float(row[2]) for row in likely], [int(row[1]) for row in likely], 0.0, OVERLAP
    )
    things = []
    for index in kept:
        x, y, wide, high = boxes[int(index)]
        corners = ((x, y), (x + wide, y), (x + wide, y + high), (x, y + high))
        row = likely[int(index)]
        things.append(Thing(CLASSES[int(row[1])], float(row[2]), corners))
    return sorted(things, key=lambda thing: -thing.score)


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


FindModel = Callable[[str], InstalledModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRow:
    """`model` is the name in the store; empty where the weights come with the package."""

    name: str
    answers: str
    backend: str
    package: str
    model: str = ""


SKILLS: tuple[SkillRow, ...] = (
    SkillRow(
        name="reads text",
        answers="What does it say? What is the total, the date …? Is this a receipt, a menu …?",
        backend="rapidocr (PP-OCRv6 small)",
        package="rapidocr",
    ),
    SkillRow(
        name="names objects",
        answers="Is there a dog? How many people? Which of these: cup, cat, car? (80 kinds)",
        backend="opencv (SSD-MobileNetV3, COCO)",
        package="cv2",
        model=OBJECT_FINDER,
    ),
)


def open_skill(name: str, find_model: FindModel, *, threads: int) -> VisionBackend:
    """A skill, not yet loaded. Raises ExtraMissing or ModelNotFound where it cannot be had."""
    row = next(row for row in SKILLS if row.name == name)
    if importlib.util.find_spec(row.package) is None:
        raise ExtraMissing("vision", row.package)
    if not row.model:
        return TextReader(threads=threads)
    return ObjectFinder(find_model(row.model), threads=threads)
