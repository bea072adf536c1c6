"""Receipts, drawn in ten layouts: five to fit on, five to report on. Sums agree, as in shops."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from edgewise_bench.vision.cases import SeeCase, spoil

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

    from edgewise.types.replies import Sight

Half = Literal["fit", "test"]
_SHOPS = ("CORNER SHOP", "Green Market", "BLUE CAFE", "City Books", "HILL BAKERY", "Sun Pharmacy")
_GOODS = (
    "Milk 1L", "Bread", "Coffee", "Apples kg", "Soap", "Cheese", "Rice 5kg", "Tea", "Honey",
    "Eggs 12", "Butter", "Pasta", "Tomatoes", "Orange juice", "Batteries AA", "Notebook A5",
)  # fmt: skip
_ENDS = ("Thank you", "Please come again", "Goods sold are not returnable", "Have a nice day")
_ASKED = ("What is the total?", "How much is the receipt?", "What is the total on the receipt?")


@dataclass(slots=True)
class _Sums:
    items: list[tuple[str, int, Decimal]]
    tax_percent: int
    subtotal: Decimal
    tax: Decimal
    total: Decimal
    cash: Decimal
    change: Decimal
    chance: random.Random
    written: Callable[[Decimal], str] = str


# (left, right, scale of the letters); right is empty where a row has one text
_Row = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class _Drawn:
    rows: list[_Row] = field(default_factory=list)
    leader: str = " "
    fixed: bool = False  # letters of one width, as thermal printers have them


def receipt_cases(count: int, seed: int, half: Half) -> list[SeeCase]:
    layouts = LAYOUTS[half]
    cases = []
    for number in range(count):
        name = f"receipt-{half}-{seed}-{number}"
        chance = random.Random(name)
        sums = _shopping(chance)
        drawn, truth = layouts[number % len(layouts)](sums)
        question, draw = chance.choice(_ASKED), _drawer(drawn, name)
        cases.append(SeeCase(name, question, "sum", (f"{truth:.2f}",), draw, group="receipts"))
    return cases


def _shopping(chance: random.Random) -> _Sums:
    goods = chance.sample(_GOODS, chance.randint(1, 7))
    items = [
        (name, chance.choice((1, 1, 1, 2, 3)), Decimal(chance.randrange(50, 4000)) / 100)
        for name in goods
    ]
    subtotal = sum((count * price for _, count, price in items), Decimal())
    percent = chance.choice((5, 6, 7, 10, 19))
    tax = (subtotal * percent / 100).quantize(Decimal("0.01"))
    total = subtotal + tax
    steps = (Decimal(0), 5 - total % 5, 10 - total % 10, 50 - total % 50)
    cash = total + chance.choice(steps)
    return _Sums(items, percent, subtotal, tax, total, cash, cash - total, chance)


def _head(sums: _Sums) -> list[_Row]:
    chance = sums.chance
    day = f"{chance.randrange(1, 29):02}/{chance.randrange(1, 13):02}/2026"
    rows = [(chance.choice(_SHOPS), "", 1.2), (f"{chance.randrange(1, 200)} High Street", "", 1.0)]
    rows += [(f"Date {day}", f"{chance.randrange(8, 21)}:{chance.randrange(10, 60)}", 1.0)]
    if chance.random() < 0.5:
        rows.append((f"Receipt no {chance.randrange(10_000, 999_999)}", "", 1.0))
    return rows


def _lines(sums: _Sums, shape: Callable[[Decimal], str] = "{:.2f}".format) -> list[_Row]:
    return [
        (f"{count} x {name}" if count > 1 else name, shape(count * price), 1.0)
        for name, count, price in sums.items
    ]


def _paid(sums: _Sums, cash: str = "CASH", change: str = "CHANGE") -> list[_Row]:
    if sums.chance.random() < 0.25:
        return [(sums.chance.choice(("VISA", "Mastercard")), f"{sums.total:.2f}", 1.0)]
    return [(cash, f"{sums.cash:.2f}", 1.0), (change, f"{sums.change:.2f}", 1.0)]


def _end(sums: _Sums) -> list[_Row]:
    return [(sums.chance.choice(_ENDS), "", 1.0)]


def _plain(sums: _Sums) -> tuple[_Drawn, Decimal]:
    rows = [*_head(sums), *_lines(sums), ("SUBTOTAL", f"{sums.subtotal:.2f}", 1.0),
            (f"TAX {sums.tax_percent}%", f"{sums.tax:.2f}", 1.0),
            ("TOTAL", f"{sums.total:.2f}", 1.0), *_paid(sums), *_end(sums)]  # fmt: skip
    return _Drawn(rows, fixed=True), sums.total


def _dotted(sums: _Sums) -> tuple[_Drawn, Decimal]:
    rows = [*_head(sums), *_lines(sums), ("Total before tax", f"{sums.subtotal:.2f}", 1.0),
            ("VAT", f"{sums.tax:.2f}", 1.0), ("Amount due", f"{sums.total:.2f}", 1.1),
            *_paid(sums, "Cash tendered", "Change due"), *_end(sums)]  # fmt: skip
    return _Drawn(rows, leader="."), sums.total


def _dollars(sums: _Sums) -> tuple[_Drawn, Decimal]:
    shape = "${:.2f}".format
    rows = [*_head(sums), *_lines(sums, shape), ("Sub Total", shape(sums.subtotal), 1.0),
            ("Sales tax", shape(sums.tax), 1.0), ("Total", shape(sums.total), 1.5),
            ("Total items", str(len(sums.items)), 1.0), *_end(sums)]  # fmt: skip
    return _Drawn(rows), sums.total


def _euros(sums: _Sums) -> tuple[_Drawn, Decimal]:
    def shape(sum_: Decimal) -> str:
        return f"{sum_:.2f}".replace(".", ",") + " EUR"

    rows = [*_head(sums), *_lines(sums, shape), ("Total", shape(sums.total), 1.2),
            (f"incl. VAT {sums.tax_percent}%", shape(sums.tax), 1.0),
            ("Net", shape(sums.subtotal), 1.0), ("Given", shape(sums.cash), 1.0),
            ("Change", shape(sums.change), 1.0), *_end(sums)]  # fmt: skip
    return _Drawn(rows, fixed=sums.chance.random() < 0.5), sums.total


def _below(sums: _Sums) -> tuple[_Drawn, Decimal]:
    rows: list[_Row] = [*_head(sums), *_lines(sums)]
    for label, amount in (("Sub-total", sums.subtotal), ("GST", sums.tax), ("TOTAL", sums.total)):
        rows += [(label, "", 1.0), ("", f"{amount:.2f}", 1.0)]
    return _Drawn([*rows, *_paid(sums), *_end(sums)]), sums.total


def _decoys(sums: _Sums) -> tuple[_Drawn, Decimal]:
    off = (sums.total / 10).quantize(Decimal("0.01"))
    due = sums.total - off
    rows = [*_head(sums), *_lines(sums), ("Total", f"{sums.total:.2f}", 1.0),
            ("Total discount", f"-{off:.2f}", 1.0), ("Total to pay", f"{due:.2f}", 1.2),
            ("Card", f"{due:.2f}", 1.0), ("Total savings", f"{off:.2f}", 1.0),
            *_end(sums)]  # fmt: skip
    return _Drawn(rows), due


def _quantities(sums: _Sums) -> tuple[_Drawn, Decimal]:
    lines: list[_Row] = []
    for name, count, price in sums.items:
        lines += [(name, "", 1.0), (f"  {count} @ {price:.2f}", f"{count * price:.2f}", 1.0)]
    rows = [*_head(sums), *lines, ("Total qty", str(sum(n for _, n, _ in sums.items)), 1.0),
            ("Total excl. tax", f"{sums.subtotal:.2f}", 1.0),
            (f"Tax @ {sums.tax_percent}%", f"{sums.tax:.2f}", 1.0),
            ("GRAND TOTAL", f"{sums.total:.2f}", 1.3), *_paid(sums), *_end(sums)]  # fmt: skip
    return _Drawn(rows, fixed=True), sums.total


def _rounded(sums: _Sums) -> tuple[_Drawn, Decimal]:
    due = (sums.total * 20).quantize(Decimal(1)) / 20
    cash = due + (10 - due % 10)
    rows = [*_head(sums), *_lines(sums), ("Total Sales (Excl GST)", f"{sums.subtotal:.2f}", 1.0),
            (f"GST {sums.tax_percent}%", f"{sums.tax:.2f}", 1.0),
            ("Total Sales (Incl GST)", f"{sums.total:.2f}", 1.0),
            ("Rounding adj", f"{due - sums.total:.2f}", 1.0), ("Total RM", f"{due:.2f}", 1.2),
            ("Cash", f"{cash:.2f}", 1.0), ("Change", f"{cash - due:.2f}", 1.0),
            *_end(sums)]  # fmt: skip
    return _Drawn(rows, fixed=sums.chance.random() < 0.5), due


def _payable(sums: _Sums) -> tuple[_Drawn, Decimal]:
    shape = "RM {:.2f}".format
    rows = [*_head(sums), *_lines(sums), ("Items", str(len(sums.items)), 1.0),
            ("Amount", shape(sums.subtotal), 1.0), ("SST", shape(sums.tax), 1.0),
            ("Nett total payable", shape(sums.total), 1.1),
            *_paid(sums, "Paid", "Balance"), *_end(sums)]  # fmt: skip
    return _Drawn(rows, leader="."), sums.total


def _summary(sums: _Sums) -> tuple[_Drawn, Decimal]:
    rows = [*_head(sums), *_lines(sums), ("TOTAL", f"{sums.total:.2f}", 1.4), *_paid(sums),
            ("TAX SUMMARY", "", 1.0), ("Net total", f"{sums.subtotal:.2f}", 1.0),
            ("Total tax", f"{sums.tax:.2f}", 1.0), *_end(sums)]  # fmt: skip
    return _Drawn(rows, fixed=True), sums.total


LAYOUTS: dict[Half, tuple[Callable[[_Sums], tuple[_Drawn, Decimal]], ...]] = {
    "fit": (_plain, _dollars, _below, _quantities, _payable),
    "test": (_dotted, _euros, _decoys, _rounded, _summary),
}


# -- what a reader makes of worse ones -------------------------------------------------------------


_MISREAD = str.maketrans({"0": "8", "1": "7", "3": "8", "5": "6", "6": "5", "8": "3", "9": "0"})
_LETTERS = str.maketrans({"o": "0", "O": "0", "l": "1", "t": "f", "T": "7", "a": "e", "A": "4"})


def damaged(sight: Sight, chance: random.Random) -> Sight:
    """As of a crumpled or faded receipt: lines are missed, letters and digits misread.

    A reader's score falls where it misreads, but not always.
    """
    much = chance.choice((0.05, 0.1, 0.2, 0.3))
    lines = []
    for line in sight.lines:
        if chance.random() < much / 2:
            continue
        text, score = line.text, line.score
        if chance.random() < much:
            place = chance.randrange(len(text))
            table = _MISREAD if text[place].isdigit() else _LETTERS
            worse = text[:place] + text[place].translate(table) + text[place + 1 :]
            score = score * chance.uniform(0.75, 1.0) if worse != text else score
            text = worse
        lines.append(replace(line, text=text, score=score))
    return replace(sight, lines=tuple(lines))


# -- how they are drawn ----------------------------------------------------------------------------


def _drawer(drawn: _Drawn, seed: str) -> Callable[[], Pixels]:
    return lambda: spoil(_draw(drawn, random.Random(seed)), random.Random(f"{seed}/spoil"), 0.35)


def _draw(drawn: _Drawn, chance: random.Random) -> Pixels:
    image, draw = importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageDraw")
    size = chance.choice((15, 18, 22, 28))
    columns = chance.randint(30, 42)
    pitch = 0.58 * size
    width = int(pitch * columns + 3 * size)
    grey = chance.randrange(215, 256)
    pixels = image.new("RGB", (width, int(1.55 * size * (len(drawn.rows) + 2.5))), (grey,) * 3)
    pen, ink = draw.Draw(pixels), (chance.randrange(90),) * 3
    top = 1.2 * size
    for left, right, scale in drawn.rows:
        _row(pen, drawn, (left, right), (1.5 * size, top, width - 1.5 * size), (size * scale, ink))
        top += 1.5 * size * max(1.0, scale)
    turned: Pixels = pixels.rotate(
        chance.uniform(-2.5, 2.5), expand=True, fillcolor=(grey,) * 3, resample=2
    )
    return turned


def _row(
    pen: Any,
    drawn: _Drawn,
    texts: tuple[str, str],
    place: tuple[float, float, float],
    look: tuple[float, Any],
) -> None:
    left, right = texts
    (begin, top, end), (size, ink) = place, look
    if drawn.fixed:
        _fixed(pen, left, (begin, top), look)
        _fixed(pen, right, (end - 0.58 * size * len(right), top), look)
        return
    face = importlib.import_module("PIL.ImageFont").load_default(size)
    pen.text((begin, top), left, font=face, fill=ink)
    edge = end - face.getlength(right)
    pen.text((edge, top), right, font=face, fill=ink)
    dots = int((edge - begin - face.getlength(left)) / max(1.0, face.getlength("."))) - 2
    if drawn.leader == "." and left and right and dots > 0:
        start = begin + face.getlength(left) + face.getlength(".") / 2
        pen.text((start, top), "." * dots, font=face, fill=ink)


def _fixed(pen: Any, text: str, place: tuple[float, float], look: tuple[float, Any]) -> None:
    size, ink = look
    face = importlib.import_module("PIL.ImageFont").load_default(size)
    for number, letter in enumerate(text):
        space = 0.58 * size - face.getlength(letter)
        pen.text(
            (place[0] + 0.58 * size * number + space / 2, place[1]), letter, font=face, fill=ink
        )
