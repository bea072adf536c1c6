"""The device's vision skills: text (RapidOCR) and objects (SSD-MobileNetV3)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import DeviceFacts, LazyModel, VisionBackend
from edgewise.local.catalogue import GRAPH_TEXT, OBJECT_FINDER
from edgewise.local.store import InstalledModel
from edgewise.types.pictures import Line, Sight, Thing
from edgewise.vision.question import CLASSES

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

FindModel = Callable[[str], InstalledModel]

# The text reader.
TEXT_MODEL = "pp-ocrv6-small"
LEAST_SIDE = 48  # a smaller picture gets a margin: the detector's strides need some room
MOST_TIMES = 4  # ratio of the sides: the detector enlarges the shorter side to 736 pixels, and a
# narrow strip would become a picture of gigabytes

# The object finder.
SIDE = 320  # pixels of the network's input
LEAST_SCORE = 0.3  # below it, everything is found everywhere
OVERLAP = 0.45  # boxes of one kind with more overlap are one object


def open_skill(
    name: str,
    find_model: FindModel,
    *,
    threads: int,
    placed: Callable[[Callable[..., VisionBackend]], Callable[..., VisionBackend]] = lambda one: (
        one
    ),
) -> VisionBackend:
    """A skill, not yet loaded. Raises ExtraMissing or ModelNotFound if it is not available.

    `placed` may put it into a process of its own.
    """
    reads = name == "reads text"
    package = "rapidocr" if reads else "cv2"
    if importlib.util.find_spec(package) is None:
        raise ExtraMissing("vision", package)
    if reads:  # its weights come with the package
        return placed(TextReader)(threads=threads)
    return placed(ObjectFinder)(find_model(OBJECT_FINDER), threads=threads)


class TextReader(LazyModel[Any]):
    """Reads the text in a picture; calls wait for each other."""

    def __init__(self, *, threads: int) -> None:
        super().__init__(
            DeviceFacts(
                backend="rapidocr",
                model=TEXT_MODEL,
                quantisation="FP32",
                context_tokens=1,
                images=True,
            )
        )
        self._threads = threads

    def look(self, pixels: PictureArray) -> Sight:
        height, width = pixels.shape[:2]
        with self._lock:
            engine = self._loaded()
            try:
                found = engine(_with_margin(pixels)[:, :, ::-1])  # it takes blue first
            except Exception as error:  # a C++ runtime under a Python library may raise anything
                raise self._broke_off(error) from error
        texts = found.txts or ()
        boxes = found.boxes if found.boxes is not None else ()
        lines = tuple(
            Line(str(text), float(score), tuple((float(x), float(y)) for x, y in box))
            for text, score, box in zip(texts, found.scores or (), boxes, strict=True)
            if str(text).strip()
        )
        return Sight(lines=lines, width=width, height=height)

    @override
    def _load(self) -> Any:
        try:
            import rapidocr  # noqa: PLC0415 - with OpenCV and ONNX Runtime, a second to load
        except ImportError as error:
            raise ExtraMissing("vision", "rapidocr") from error
        return rapidocr.RapidOCR(
            params={
                "Global.log_level": "critical",
                "EngineConfig.onnxruntime.intra_op_num_threads": self._threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            }
        )


class ObjectFinder(LazyModel[Any]):
    """Finds everyday objects in a picture; calls wait for each other."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        super().__init__(
            DeviceFacts(
                backend="opencv",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=1,
                images=True,
            )
        )
        self._path = model.path
        self._threads = threads

    def look(self, pixels: PictureArray) -> Sight:
        height, width = pixels.shape[:2]
        with self._lock:
            network = self._loaded()
            import cv2  # noqa: PLC0415  # installed with what was just loaded

            try:
                blob = cv2.dnn.blobFromImage(
                    pixels, 1 / 127.5, (SIDE, SIDE), (127.5, 127.5, 127.5), swapRB=False
                )
                network.setInput(blob)
                found = network.forward()
                things = tuple(_things(cv2, found.reshape(-1, 7), width, height))
            except cv2.error as error:
                raise self._broke_off(error) from error
        return Sight(things=things, width=width, height=height)

    @override
    def _load(self) -> Any:
        try:
            import cv2  # noqa: PLC0415 - only objects in pictures need it
        except ImportError as error:
            raise ExtraMissing("vision", "opencv-python-headless") from error
        cv2.setNumThreads(self._threads)
        text = self._path.parent / GRAPH_TEXT
        try:
            return cv2.dnn.readNetFromTensorflow(str(self._path), str(text))
        except cv2.error as error:
            raise ModelNotFound(f"{str(self._path)!r} is no object finder: {error}") from error


def _with_margin(pixels: PictureArray) -> PictureArray:
    height, width = pixels.shape[:2]
    least = max(LEAST_SIDE, max(height, width) // MOST_TIMES)
    below, right = max(0, least - height), max(0, least - width)
    if not below and not right:
        return pixels
    import numpy as np  # noqa: PLC0415

    return np.pad(pixels, ((0, below), (0, right), (0, 0)), mode="edge")


def _things(cv2: Any, rows: Any, width: int, height: int) -> list[Thing]:
    """Best first, without those that overlap a better one of their kind."""
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
