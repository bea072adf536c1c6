"""Finds one value in text that was read: the total, the date, a number, an address."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_UNIT = r"(?:[$€£¥]|usd|eur|gbp|chf)"
_MONEY = rf"(?:{_UNIT} ?)?\d{{1,3}}(?:[ ,.']?\d{{3}})*[.,]\d{{2}}(?: ?{_UNIT})?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|"
    rf"\d{{1,2}}\.? {_MONTH}\.?,? \d{{4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}}"
)
_CODE = r"[a-z]{0,4}[-/#]?\d[\w/-]*"


@dataclass(frozen=True, slots=True)
class Field:
    """`labels` stand before the value, on its line or the one above."""

    pattern: str
    labels: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()
    not_after: tuple[str, ...] = ()  # labels that contain one of ours and mean something else


FIELDS: Mapping[str, Field] = {
    "total": Field(
        _MONEY,
        ("grand total", "total due", "amount due", "total", "to pay", "balance due", "sum"),
        ("amount", "grand total", "sum", "total amount", "amount due", "total price", "how much",
         "total sum", "total cost", "final price"),
        ("sub total", "subtotal", "sub-total", "total tax", "total vat"),
    ),
    "subtotal": Field(_MONEY, ("subtotal", "sub total", "sub-total", "net"), ("sub total", "net")),
    "tax": Field(_MONEY, ("vat", "tax", "gst", "mwst"), ("vat", "sales tax", "gst")),
    "date": Field(
        _DATE, ("date", "issued", "dated"), ("when", "invoice date", "issue date"), ("due date",)
    ),
    "due date": Field(_DATE, ("due date", "payment due", "due"), ("deadline", "payment date")),
    "time": Field(r"\d{1,2}[:.]\d{2}(?::\d{2})?(?: ?[ap]\.?m\.?)?", ("time",)),
    "invoice number": Field(
        _CODE, ("invoice number", "invoice no", "invoice #", "invoice"), ("invoice no",)
    ),
    "order number": Field(_CODE, ("order number", "order no", "order #", "order"), ("order id",)),
    "phone number": Field(
        r"\+?\d[\d ()/.-]{6,}\d", ("phone", "tel", "mobile", "call"),
        ("phone", "telephone number", "telephone", "number to call"),
    ),
    "email": Field(
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", (), ("e-mail", "email address", "e-mail address")
    ),
    "website": Field(
        r"(?:https?://|www\.)[^\s,;]+", (), ("url", "web address", "web site", "link", "homepage")
    ),
}  # fmt: skip


def field_named(words: str) -> str:
    """The field that a noun means; empty where it means none."""
    noun = words.strip().lower()
    return next((name for name, one in FIELDS.items() if noun in (name, *one.other_words)), "")


def find_field(rows: Sequence[str], name: str) -> tuple[str, int]:
    """(the value as it is written, how many values competed); ("", 0) where there is none."""
    field = FIELDS[name]
    labelled = [value for label in field.labels for value in _after_label(rows, label, field)]
    if labelled:
        first = _longest_label(rows, field)
        return labelled[0], len(set(first or labelled[:1]))
    alone = [found[0] for row in rows for found in re.finditer(field.pattern, row, re.IGNORECASE)]
    if field.labels and name not in ("date", "time", "phone number"):
        return "", 0  # an amount without its label could be any amount
    return (alone[0], len(set(alone))) if alone else ("", 0)


def _longest_label(rows: Sequence[str], field: Field) -> list[str]:
    for label in field.labels:
        values = list(_after_label(rows, label, field))
        if values:
            return values
    return []


def _after_label(rows: Sequence[str], label: str, field: Field) -> list[str]:
    found = []
    for number, row in enumerate(rows):
        place = re.search(rf"\b{re.escape(label)}(?!\w)", row, re.IGNORECASE)
        if place is None or any(word in row.lower() for word in field.not_after):
            continue
        rest = row[place.end() :]
        value = re.search(rf"(?<![\w.,])(?:{field.pattern})", rest, re.IGNORECASE)
        if value is None and not re.search(r"\d", rest) and number + 1 < len(rows):
            value = re.match(rf"\W*(?:{field.pattern})$", rows[number + 1].strip(), re.IGNORECASE)
        if value is not None:
            found.append(value[0].strip(" :"))
    return found
