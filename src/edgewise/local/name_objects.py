"""Names objects in pictures: SSD-MobileNetV3, trained on COCO, run by OpenCV."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, GenerationFailed, ModelNotFound
from edgewise.local.backend import DeviceFacts
from edgewise.local.model_store import InstalledModel
from edgewise.local.vision_models import GRAPH_TEXT
from edgewise.types.sights import Sight, Thing
from edgewise.vision.classes import CLASSES

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
