"""Questions about pictures with known answers; pictures of text, drawn as a bench runs."""

from __future__ import annotations

import importlib
import io
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from edgewise.vision.question import plural

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels


MOST_ERRORS = 0.02  # of the characters of a text that still counts as read right
_NAMES = ("Anna Berg", "Tom Hill", "Maria Costa", "Ivan Petrov", "Julia Stone", "Omar Said")
_SHOPS = ("Corner Shop", "Green Market", "Blue Cafe", "City Books", "Hill Bakery", "Sun Pharmacy")
_GOODS = ("Milk", "Bread", "Coffee", "Apples", "Soap", "Cheese", "Rice", "Tea", "Honey", "Eggs")
_SIGNS = (
    "NO PARKING", "EXIT", "Platform 4", "Push to open", "Wet floor", "Staff only", "Open 24 hours",
    "Keep left", "Mind the gap", "Fire door keep shut", "Please ring the bell", "Lost property",
    "Danger high voltage", "Reception 2nd floor", "Speed limit 30", "Do not feed the birds",
)  # fmt: skip
_SENTENCES = (
    "The meeting was moved to Thursday at noon.", "Your parcel is waiting at the front desk.",
    "Water the plants twice a week in summer.", "The library closes early on public holidays.",
    "Please return the keys before you leave.", "Trains to the coast run every twenty minutes.",
)  # fmt: skip
_HERSHEY = ("SIMPLEX", "DUPLEX", "COMPLEX", "TRIPLEX", "PLAIN")


@dataclass(frozen=True, slots=True)
class SeeCase:
    """`draw` makes the picture. `truth`: the text, value, word or classes that are right.

    unclear   classes that a picture may or may not be said to hold: naming them is no mistake
    group     of figures: "" for those of all releases, "turned" or "receipts"
    """

    name: str
    question: str
    asked: str  # as in vision.question.Wanted, or "beyond"
    truth: tuple[str, ...]
    draw: Callable[[], Pixels] = field(repr=False)
    unclear: tuple[str, ...] = ()
    group: str = ""

    @property
    def skill(self) -> str:
        if self.asked == "beyond":
            return ""
        text = ("all_text", "field", "document", "mention", "sum")
        return "reads text" if self.asked in text else "names objects"


def is_right(case: SeeCase, answer: str) -> bool:
    said = answer.strip()
    match case.asked:
        case "all_text":
            return error_rate(case.truth[0], said) <= MOST_ERRORS
        case "field":
            return _squeezed(said) == _squeezed(case.truth[0])
        case "sum":
            return re.sub(r"[^\d,.]", "", said).replace(",", ".") == case.truth[0]
        case "document" | "mention" | "present":
            return said.lower().startswith(case.truth[0])
        case "count":
            return said.split(" ")[0] == case.truth[0]
        case "choose":
            return said.rstrip(".") == case.truth[0]
        case "list":
            named = {re.sub(r"^\d+ ", "", part) for part in said.rstrip(".").split(", ")}
            known = {*case.truth, *case.unclear}
            return named <= {plural(name, n)[2:] for name in known for n in (1, 2)}
    return False


def error_rate(truth: str, said: str) -> float:
    """Characters to change, by the length of the truth; spaces and line ends do not count."""
    left, right = _squeezed(truth), _squeezed(said)
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(right, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (one != other)),
            )
    return row[-1] / max(1, len(left))


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@dataclass(frozen=True, slots=True)
class Page:
    """Rows of a drawn page, and what is true of it."""

    rows: tuple[str, ...]
    kind: str = ""
    fields: tuple[tuple[str, str], ...] = ()


def text_cases(count: int, seed: int) -> list[SeeCase]:
    """Questions about drawn pages; the picture is made when the case is looked at."""
    cases = []
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        page = chance.choice((_sign, _sign, _sentence, _receipt, _invoice, _menu, _card))(chance)
        question, asked, truth = _question(page, chance)
        style = chance.random()
        cases.append(
            SeeCase(
                name=f"text-{seed}-{number}",
                question=question,
                asked=asked,
                truth=truth,
                draw=_drawer(page.rows, f"{seed}/{number}/{style}"),
            )
        )
    return cases


def turned_cases(count: int, seed: int) -> list[SeeCase]:
    """Pages on their sides and on their heads; the questions are those of upright ones."""
    return [
        replace(case, name=f"turned-{case.name}", draw=_turner(case.draw, number), group="turned")
        for number, case in enumerate(text_cases(count, seed + 100))
    ]


def _turner(draw: Callable[[], Pixels], number: int) -> Callable[[], Pixels]:
    return lambda: draw().rotate(90 * (1 + number % 3), expand=True)


def _question(page: Page, chance: random.Random) -> tuple[str, str, tuple[str, ...]]:
    whole = ("What does it say?", "all_text", ("\n".join(page.rows),))
    if page.fields and chance.random() < 0.5:
        name, value = chance.choice(page.fields)
        return f"What is the {name}?", "field", (value,)
    if page.kind and chance.random() < 0.4:
        asked = chance.choice((page.kind, chance.choice(("receipt", "invoice", "menu"))))
        article = "an" if asked[0] in "aeiou" else "a"
        return f"Is this {article} {asked}?", "document", ("yes" if asked == page.kind else "no",)
    if chance.random() < 0.15:
        there = chance.random() < 0.5
        word = chance.choice(page.rows).split()[0] if there else "Zebra crossing"
        return f'Does it say "{word}"?', "mention", ("yes" if there else "no",)
    return whole


def _drawer(rows: tuple[str, ...], seed: str) -> Callable[[], Pixels]:
    return lambda: spoil(_draw(rows, random.Random(seed)), random.Random(seed + "/spoil"))


def _draw(rows: tuple[str, ...], chance: random.Random) -> Pixels:
    size = chance.choice((14, 18, 24, 32, 44))
    dark, light = _colours(chance)
    if chance.random() < 0.5:
        return _with_pillow(rows, size, dark, light)
    return _with_opencv(rows, size, dark, light, chance.choice(_HERSHEY))


def _colours(chance: random.Random) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    dark = (chance.randrange(60), chance.randrange(60), chance.randrange(90))
    light = (chance.randrange(190, 256), chance.randrange(190, 256), chance.randrange(170, 256))
    return (light, dark) if chance.random() < 0.2 else (dark, light)


def _with_pillow(rows: tuple[str, ...], size: int, ink: Any, paper: Any) -> Pixels:
    image, draw = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageDraw")
    face = importlib.import_module("PIL.ImageFont").load_default(size)
    width = int(max(face.getlength(row) for row in rows)) + 3 * size
    pixels: Pixels = image.new("RGB", (width, int(1.6 * size * (len(rows) + 1))), paper)
    pen = draw.Draw(pixels)
    for number, row in enumerate(rows):
        pen.text((1.5 * size, size * (0.6 + 1.6 * number)), row, font=face, fill=ink)
    return pixels


def _with_opencv(rows: tuple[str, ...], size: int, ink: Any, paper: Any, face: str) -> Pixels:
    cv2, np = importlib.import_module("cv2"), importlib.import_module("numpy")
    font = getattr(cv2, f"FONT_HERSHEY_{face}")
    scale = size / (12.0 if face == "PLAIN" else 24.0)
    thick = max(1, round(size / 16))
    width = max(cv2.getTextSize(row, font, scale, thick)[0][0] for row in rows) + 3 * size
    canvas = np.full((int(1.8 * size * (len(rows) + 1)), width, 3), paper, np.uint8)
    for number, row in enumerate(rows):
        place = (int(1.5 * size), int(size * (1.6 + 1.8 * number)))
        cv2.putText(canvas, row, place, font, scale, ink, thick, cv2.LINE_AA)
    pixels: Pixels = importlib.import_module("PIL.Image").fromarray(canvas)
    return pixels


def spoil(pixels: Pixels, chance: random.Random, most: float = 1.0) -> Pixels:
    """One or two things that happen to photographs, from hardly visible to hopeless."""
    ways = (_blur, _noise, _haze, _turn, _shrink, _compress)
    for way in chance.sample(ways, chance.choice((0, 1, 1, 2))):
        pixels = way(pixels, most * chance.random())
    return pixels


def _blur(pixels: Pixels, much: float) -> Pixels:
    return pixels.filter(importlib.import_module("PIL.ImageFilter").GaussianBlur(5 * much**1.5))


def _noise(pixels: Pixels, much: float) -> Pixels:
    np = importlib.import_module("numpy")
    grain = np.random.default_rng(int(much * 1e6)).normal(0, 140 * much, (*pixels.size[::-1], 3))
    spoilt = np.clip(np.asarray(pixels, np.float32) + grain, 0, 255).astype(np.uint8)
    made: Pixels = importlib.import_module("PIL.Image").fromarray(spoilt)
    return made


def _haze(pixels: Pixels, much: float) -> Pixels:
    grey = importlib.import_module("PIL.Image").new("RGB", pixels.size, (150, 150, 150))
    made: Pixels = importlib.import_module("PIL.Image").blend(pixels, grey, 0.4 + 0.57 * much)
    return made


def _turn(pixels: Pixels, much: float) -> Pixels:
    return pixels.rotate(24 * (much - 0.5), expand=True, fillcolor=pixels.getpixel((1, 1)))


def _shrink(pixels: Pixels, much: float) -> Pixels:
    share = 1.0 - 0.75 * much
    return pixels.resize((max(8, int(pixels.width * share)), max(8, int(pixels.height * share))))


def _compress(pixels: Pixels, much: float) -> Pixels:
    file = io.BytesIO()
    pixels.save(file, "JPEG", quality=max(2, int(40 * (1 - much))))
    opened: Pixels = importlib.import_module("PIL.Image").open(io.BytesIO(file.getvalue()))
    return opened.convert("RGB")


def _money(chance: random.Random) -> str:
    return f"{chance.randrange(1, 90)}.{chance.randrange(100):02}"


def _date(chance: random.Random) -> str:
    return f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"


def _sign(chance: random.Random) -> Page:
    return Page((chance.choice(_SIGNS),))


def _sentence(chance: random.Random) -> Page:
    return Page(tuple(chance.sample(_SENTENCES, chance.choice((1, 2)))))


def _receipt(chance: random.Random) -> Page:
    goods = [f"{one} {_money(chance)}" for one in chance.sample(_GOODS, chance.choice((2, 3)))]
    total, day = _money(chance), _date(chance)
    rows = (f"{chance.choice(_SHOPS)} RECEIPT", *goods, f"Total {total}", f"Cash {_money(chance)}",
            f"Change {_money(chance)}", f"Date {day}", "Thank you")  # fmt: skip
    return Page(rows, "receipt", (("total", total), ("date", day)))


def _invoice(chance: random.Random) -> Page:
    code, total, due = f"R-{chance.randrange(1000, 9999)}", _money(chance), _date(chance)
    rows = (f"Invoice No {code}", f"Bill to {chance.choice(_NAMES)}", f"VAT {_money(chance)}",
            f"Total {total}", f"Due date {due}")  # fmt: skip
    fields = (("invoice number", code), ("total", total), ("due date", due))
    return Page(rows, "invoice", fields)


def _menu(chance: random.Random) -> Page:
    rows = ("Menu", "Starters", f"Soup {_money(chance)}", f"Salad {_money(chance)}", "Main courses",
            f"Pasta {_money(chance)}", f"Steak {_money(chance)}", "Desserts")  # fmt: skip
    return Page(rows, "menu")


def _card(chance: random.Random) -> Page:
    name = chance.choice(_NAMES)
    mail = f"{name.split()[0].lower()}@hillandsons.com"
    phone = f"+49 30 {chance.randrange(100000, 999999)}"
    rows = (name, "Sales Manager", f"Phone {phone}", mail)
    return Page(rows, "business card", (("phone number", phone), ("email", mail)))
