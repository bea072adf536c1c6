"""The device's skills with pictures: one row each, opened when a question first needs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from edgewise.errors import ExtraMissing
from edgewise.local.backend import VisionBackend
from edgewise.local.model_store import InstalledModel
from edgewise.local.name_objects import ObjectFinder
from edgewise.local.read_text import TextReader
from edgewise.local.vision_models import OBJECT_FINDER

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
