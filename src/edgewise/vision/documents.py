"""Kinds of papers and the words that give them away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MONEY = r"(?:[$€£¥]\s?\d|\d+[.,]\d\d\b)"


@dataclass(frozen=True, slots=True)
class Cues:
    """`telling`: patterns, each of which counts one. `foreign`: those of another kind."""

    telling: tuple[str, ...]
    foreign: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()


DOCUMENTS: Mapping[str, Cues] = {
    "receipt": Cues(
        (
            r"\breceipt\b", r"\btotal\b", r"\bsub-?total\b", r"\b(?:cash|card|visa|mastercard)\b",
            r"\bchange\b", r"\b(?:vat|tax)\b", r"\bthank you\b", r"\bcashier\b|\bterminal\b",
            _MONEY + r"[\s\S]*" + _MONEY,
        ),
        (r"\binvoice\b", r"\bbill to\b", r"\bdue date\b|\bpayment due\b"),
        ("till receipt", "sales receipt"),
    ),
    "invoice": Cues(
        (
            r"\binvoice\b", r"\bbill(?:ed)? to\b", r"\bdue\b", r"\binvoice (?:no|number|#)",
            r"\b(?:iban|bic|swift|account no)", r"\bquantity\b|\bqty\b", r"\bunit price\b",
            r"\btotal\b", r"\b(?:vat|tax)\b",
        ),
        (r"\breceipt\b", r"\bcashier\b", r"\bchange\b"),
        ("bill",),
    ),
    "menu": Cues(
        (
            r"\bmenu\b", r"\bstarters?\b|\bappeti[sz]ers?\b", r"\bmains?\b|\bmain courses?\b",
            r"\bdesserts?\b", r"\b(?:soup|salad|pasta|pizza|burger|fish|chicken|steak)\b",
            r"\b(?:coffee|tea|wine|beer|drinks)\b", _MONEY + r"[\s\S]*" + _MONEY,
        ),
        (r"\breceipt\b", r"\binvoice\b", r"\btotal\b"),
    ),
    "business card": Cues(
        (
            r"[\w.+-]+@[\w-]+\.\w+", r"\+?\d[\d ()/-]{7,}\d", r"\bwww\.|https?://|\.com\b",
            r"\b(?:manager|director|engineer|consultant|ceo|founder|sales|dr|phd)\b",
            r"\b(?:phone|tel|mobile|fax|e-?mail)\b",
        ),
        (r"\binvoice\b", r"\breceipt\b", r"\btotal\b"),
    ),
    "letter": Cues(
        (
            r"\bdear\b", r"\b(?:sincerely|regards|faithfully|love)\b", r"\byours\b",
            r"\bi am writing\b|\bwe are writing\b", r"\bsigned?\b",
        ),
        (r"\btotal\b", r"\bqty\b"),
    ),
    "ticket": Cues(
        (
            r"\bticket\b", r"\badmit one\b", r"\bseat\b", r"\brow\b", r"\bgate\b|\bplatform\b",
            r"\bdeparture\b|\barrival\b|\bboarding\b", r"\bvalid\b",
        ),
        (r"\binvoice\b",),
    ),
}  # fmt: skip


def count_cues(text: str, kind: str) -> tuple[int, int]:
    """(how many cues speak for this kind of paper, how many against it)."""
    cues, words = DOCUMENTS[kind], text.lower()
    telling = sum(bool(re.search(pattern, words)) for pattern in cues.telling)
    foreign = sum(bool(re.search(pattern, words)) for pattern in cues.foreign)
    return telling, foreign
