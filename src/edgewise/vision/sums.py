"""Which of the sums on a receipt is its total: by its label, and by whether the sums agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Role = Literal["total", "subtotal", "tax", "rounding", "cash", "change", "card", "off", "item"]

_UNIT = r"(?:[$€£¥₹]|rm|rp\.?|usd|eur|gbp|chf|sgd|myr)"
# With cents; or in thousands, as where there are none. A reader puts blanks after commas.
_SUM = re.compile(
    rf"(?<![\w,])(?<!\d\.)-?(?:{_UNIT} ?)?-?(?P<sum>\d{{1,3}}(?:[,.' ]\d{{3}})*[.,] ?\d{{2}}"
    rf"|\d{{1,3}}(?:[.,]\d{{3}})+|\d+[.,] ?\d{{2}})(?!\d|[.,]\d|\s?%|[/:-]\d)(?: ?{_UNIT}\b)?",
    re.IGNORECASE,
)
# The first that fits says what a row is: what only contains the word "total" comes before it.
_ROLES: tuple[tuple[Role, str], ...] = (
    ("item", r"total\W*(?:no\.? of )?(?:items?|qty|quantity|points)|\bqty\b"),
    ("off", r"discount|\bdisc\b|saving|you saved|coupon|voucher"),
    ("rounding", r"\bround(?:ing|ed)?\b(?!.*total)|\badj(?:ustment)?\b"),
    ("subtotal",
     r"sub\W*total|\bexcl|before (?:tax|vat|gst)|\bnett?\b(?! ?total)(?!.*payable)|taxable"),
    ("total", r"\btotal.*\bincl|\bincl.*\btotal"),
    ("tax", r"\b(?:vat|tax|gst|sst|mwst|iva|ppn|tva|hst|pst)\b|service charge"),
    ("change", r"\bchange\b|kembali|r[üu]ckgeld|\bbalance\b(?! due)"),
    ("cash", r"\bcash\b|\btender|\bpaid\b|\bgiven\b|tunai|\bbar\b|amount paid|payment"),
    ("card", r"\bvisa\b|master ?card|\bcard\b|\bdebit\b|\bcredit\b|\bamex\b|\beftpos\b|\bqris\b"),
    ("total",
     r"total|\bto pay\b|amount (?:due|payable)|balance due|\bpayable\b|\bsumme?\b|\bamount\b|"
     r"\bdue\b|jumlah"),
)  # fmt: skip
# Among totals, how plainly a label says that this is what is to be paid.
_PLAIN = (
    (3.0, r"grand|to pay|payable|amount due|total due|balance due|rounded|\btotal (?:rm|eur|usd)"),
    (2.5, r"\bincl"),
    (2.0, r"total|summe?\b|jumlah"),
    (1.0, r""),
)
_NEAR = 0.011  # sums that are this near are one: cents are rounded


@dataclass(frozen=True, slots=True)
class Sum:
    """One sum as it is written. `row` counts the rows from 0."""

    written: str
    value: float
    role: Role
    plain: float
    row: int


@dataclass(frozen=True, slots=True)
class Total:
    """The sum that is most likely the total. `evidence` is what speaks for it, for the score.

    labelled  how plainly its label says so, up to 3
    agree     how many equations with other sums hold: subtotal + tax, cash - change, the items
    against   how many do not, of those that could be tried
    repeated  whether it stands twice, as on the row of the card
    margin    how far the next likely sum is behind
    """

    written: str
    row: int
    evidence: Mapping[str, float]


def sums_of(rows: Sequence[str]) -> list[Sum]:
    """The sums of the rows, and what each is by its label, on its row or alone on the one above."""
    found: list[Sum] = []
    above = ""
    for number, row in enumerate(rows):
        places = list(_SUM.finditer(row))
        label = _SUM.sub(" ", row)
        if not places:
            above = row
            continue
        bare = not re.search(r"[^\W\d_]{2,}", re.sub(_UNIT, "", label, flags=re.IGNORECASE))
        said = above if bare and above else label
        role = _role(said)
        for place in places[-1:]:  # the last is the row's own; before it stand prices of one
            value = _value(place["sum"])
            found.append(Sum(place[0].strip(), value, role, _plain(said, role), number))
        above = ""
    return found


def find_total(rows: Sequence[str]) -> Total | None:
    """None if there is no sum at all, or none that could be a total."""
    sums = sums_of(rows)
    ranked = sorted(
        ((_rank(one, sums), one) for one in sums if one.value > 0), key=lambda pair: -pair[0]
    )
    if not ranked or ranked[0][0] <= 0:
        return None
    best, total = ranked[0]
    others = [rank for rank, one in ranked if not _near(one.value, total.value)]
    agree, against = _equations(total.value, sums)
    same = [one for one in sums if _near(one.value, total.value)]
    return Total(
        total.written,
        total.row,
        {
            "labelled": max(one.plain for one in same),
            "agree": float(min(2, agree)),
            "against": float(min(2, against)),
            "repeated": float(len(same) > 1),
            "margin": min(4.0, best - max(others, default=0.0)),
        },
    )


def _rank(one: Sum, sums: Sequence[Sum]) -> float:
    agree, against = _equations(one.value, sums)
    same = [other for other in sums if _near(other.value, one.value)]
    labelled = max(other.plain for other in same)
    largest = max(other.value for other in sums if other.role not in ("cash", "change"))
    paid = 0.5 * any(other.role in ("card", "cash") for other in same)
    wrong = {"change": 2.0, "tax": 2.0, "off": 2.0, "rounding": 2.0, "subtotal": 1.0, "cash": 0.5}
    # A plain total of no cash and no equations is still one; its own row counts a little more.
    return (
        labelled
        + 1.2 * min(2, agree)
        - 0.8 * min(2, against)
        + paid
        + 0.5 * (one.value >= largest - _NEAR)
        + 0.1 * one.plain
        - wrong.get(one.role, 0.0)
        - 1.0 * (labelled == 0)
    )


def _equations(total: float, sums: Sequence[Sum]) -> tuple[int, int]:
    """(how many hold if this is the total, how many do not)."""
    values = {
        role: [one.value for one in sums if one.role == role]
        for role in ("subtotal", "tax", "cash", "change", "rounding", "off", "card")
    }
    tried: list[bool] = []
    small = [0.0, *values["rounding"], *(-value for value in values["rounding"])]
    if values["subtotal"] and values["tax"]:
        tried.append(
            any(
                _near(base + tax + more, total)
                for base in values["subtotal"]
                for tax in values["tax"]
                for more in (*small, *(-value for value in values["off"]))
            )
        )
    if values["cash"] and values["change"]:
        paid = [(cash, change) for cash in values["cash"] for change in values["change"]]
        tried.append(any(_near(cash - change, total) for cash, change in paid))
    elif values["card"]:
        tried.append(any(_near(value, total) for value in values["card"]))
    items = [one.value for one in sums if one.role == "item" and not _near(one.value, total)]
    if len(items) > 1:
        whole = sum(items)
        taxes = [0.0, *values["tax"], *(-value for value in values["off"])]
        # Items are often missed by the reader: that they do not add up says little.
        if any(_near(whole + tax + more, total) for tax in taxes for more in small):
            tried.append(True)
    return sum(tried), len(tried) - sum(tried)


def _role(label: str) -> Role:
    words = label.lower()
    return next((role for role, pattern in _ROLES if re.search(pattern, words)), "item")


def _plain(label: str, role: Role) -> float:
    if role != "total":
        return 0.0
    return next(plain for plain, pattern in _PLAIN if re.search(pattern, label.lower()))


def _value(written: str) -> float:
    """Whatever parts its thousands; two digits after the last mark are cents."""
    digits = re.sub(r"\D", "", written)
    cents = re.search(r"[.,] ?\d{2}$", written) is not None
    return int(digits) / 100 if cents else float(int(digits))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEAR
