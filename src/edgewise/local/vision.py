"""The device's vision skills: text (RapidOCR) and objects (SSD-MobileNetV3)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import DeviceFacts, LazyModel, VisionBackend
from edgewise.local.catalogue import GRAPH_TEXT, OBJECT_FINDER
from edgewise.local.store import InstalledModel
from edgewise.types.replies import Box, Line, Sight, Thing
from edgewise.vision.question import CLASSES

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

FindModel = Callable[[str], InstalledModel]

# The text reader.
TEXT_MODEL = "pp-ocrv6-small"
LEAST_SIDE = 48  # a smaller picture gets a margin: the detector's strides need some room
MOST_TIMES = 4  # ratio of the sides: the detector enlarges the shorter side to 736 pixels, and a
# narrow strip would become a picture of gigabytes
# Which way up a page is.
MOST_VOTES = 12  # of its lines, the longest
LONG = 1.5  # times as wide as high, or as high as wide; the reader turns lines that are as high
SURE_LINE = 0.9
CLEAR = 0.2  # of all votes; a way that has fewer is not tried
MANY = 3  # lines without a vote: words that were read letter by letter

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
                best = _Reading.of(engine, pixels, 0)
                for turns in best.turns_to_try():
                    best = max(best, _Reading.of(engine, pixels, turns), key=_Reading.standing)
            except Exception as error:  # a C++ runtime under a Python library may raise anything
                raise self._broke_off(error) from error
        lines = tuple(replace(line, box=_turned_back(line, best, pixels)) for line in best.lines)
        return Sight(lines=lines, width=width, height=height, upright=best.is_upright())

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


@dataclass(frozen=True, slots=True)
class _Reading:
    """Lines read in a picture that was turned to the left by `turns` quarters.

    votes  letters that stand upright (0), or would after 1, 2 or 3 quarters more. The reader puts
           each line upright by itself, so its scores do not tell; how lines lie on the page does.
    """

    turns: int
    lines: tuple[Line, ...]
    votes: tuple[float, ...]

    @classmethod
    def of(cls, engine: Any, pixels: PictureArray, turns: int) -> _Reading:
        import numpy as np  # noqa: PLC0415

        turned = _with_margin(np.rot90(pixels, turns))[:, :, ::-1]  # it takes blue first
        found = engine(turned, use_det=True, use_cls=True, use_rec=True)
        boxes = found.boxes if found.boxes is not None else ()
        lines = tuple(
            Line(str(text), float(score), tuple((float(x), float(y)) for x, y in box))
            for text, score, box in zip(found.txts or (), found.scores or (), boxes, strict=True)
            if str(text).strip()
        )
        return cls(turns, lines, _votes(engine, turned, lines))

    def standing(self) -> float:
        return self.votes[0] - max(self.votes[1:])

    def is_upright(self) -> bool:
        """As most of its lines say. One line alone has no order; a few short ones say nothing."""
        if len(self.lines) < 2:
            return True
        return self.standing() > 0 or (not any(self.votes) and len(self.lines) < MANY)

    def turns_to_try(self) -> tuple[int, ...]:
        """None if it surely stands; else the ways that its lines speak for."""
        if len(self.lines) == 1 and self.lines[0].score > SURE_LINE:
            return ()  # it was read, whichever way up it stands
        if not any(self.votes):  # of words that are read letter by letter: then each way
            return () if self.is_upright() else (1, 3, 2)
        clear = CLEAR * sum(self.votes)
        if self.standing() > clear:
            return ()
        return tuple(turns for turns in (1, 2, 3) if self.votes[turns] > clear)


def _votes(engine: Any, turned: PictureArray, lines: Sequence[Line]) -> tuple[float, ...]:
    import numpy as np  # noqa: PLC0415

    votes = [0.0] * 4
    for line in sorted(lines, key=lambda line: -len(line.text))[:MOST_VOTES]:
        left, top = (max(0, int(min(corner[side] for corner in line.box))) for side in (0, 1))
        right, low = (int(max(corner[side] for corner in line.box)) + 1 for side in (0, 1))
        cut = turned[top:low, left:right]
        long = max(cut.shape[:2]) >= LONG * min(cut.shape[:2])
        if not long or len(line.text) < 2 or not cut.size:
            continue
        lies = cut.shape[0] > cut.shape[1]
        level = np.ascontiguousarray(np.rot90(cut) if lies else cut)
        ((side, sure),) = engine(level, use_det=False, use_cls=True, use_rec=False).cls_res
        head = float(sure if "180" in str(side) else 1 - sure)  # the chance that it stands on it
        weight = len(line.text) * line.score
        votes[lies] += weight * (1 - head)
        votes[lies + 2] += weight * head
    return tuple(votes)


def _turned_back(line: Line, reading: _Reading, pixels: PictureArray) -> Box:
    """Its corners in the picture as it was given; the first is still where the text begins."""
    height, width = pixels.shape[:2]
    match reading.turns:
        case 1:
            return tuple((width - y, x) for x, y in line.box)
        case 2:
            return tuple((width - x, height - y) for x, y in line.box)
        case 3:
            return tuple((y, height - x) for x, y in line.box)
    return line.box


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
