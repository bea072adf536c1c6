"""Words as they are compared: without case, accents, punctuation or endings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_ENDINGS = (
    ("ies", "y"), ("sses", "ss"), ("ings", ""), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""),
    ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("s", ""), ("e", ""),
)  # fmt: skip


def fold(text: str) -> str:
    """Lower case without accents: `Älvsjö` becomes `alvsjo`."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in apart if not unicodedata.combining(letter)).casefold()


def spaced(text: str) -> str:
    """The folded words with single spaces between and around: ` new york `, to search in."""
    inner = _NOT_ALPHANUMERIC.sub(" ", fold(text.replace("'", "").replace("\u2019", ""))).strip()
    return f" {inner} " if inner else " "


def words(text: str) -> list[str]:
    return spaced(text).split()


def name_words(name: str) -> list[str]:
    """The words in an identifier: `maxPrice_eur` has three."""
    return words(_CAMEL.sub(" ", name))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word without its ending. Crude on purpose: it only has to bring inflections together.

    Values are compared by it, so it cuts less than `narrow.stem`, for which `add` is `create`.
    """
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            root = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed", "ings") and len(root) > 3 and root[-1] == root[-2]:
                root = root[:-1]
            return root.removesuffix("e") if len(root) > 3 else root
    return word


def stems(text: str) -> list[str]:
    return [stem(word) for word in words(text)]


def tokens(text: str) -> list[tuple[str, int, int]]:
    """Each word's stem with where it stands."""
    return [(stem("".join(words(match.group()))), *match.span()) for match in WORD.finditer(text)]


def locate(phrase: str, among: Sequence[tuple[str, int, int]]) -> tuple[int, int] | None:
    """Where the words of a phrase stand side by side in a tokenised text, inflected or not."""
    wanted = [root for root, _, _ in tokens(phrase)]
    if not wanted:
        return None
    for index in range(len(among) - len(wanted) + 1):
        if among[index][0] == wanted[0]:
            here = among[index : index + len(wanted)]
            if [root for root, _, _ in here] == wanted:
                return here[0][1], here[-1][2]
    return None


def distance(first: Sequence[str], second: Sequence[str], limit: int) -> int:
    """How many edits lie between two texts (a swap of neighbours counts one), `limit + 1` if more.

    Only the diagonal band of width `limit` is computed, so the cost is linear in the length.
    """
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before: dict[int, int] = {}
    row = {column: column for column in range(min(limit, len(second)) + 1)}
    for line in range(1, len(first) + 1):
        older, before, row = before, row, {}
        for column in range(max(0, line - limit), min(len(second), line + limit) + 1):
            if column == 0:
                row[0] = line
                continue
            same = first[line - 1] == second[column - 1]
            best = min(
                before.get(column, limit) + 1,
                row.get(column - 1, limit) + 1,
                before.get(column - 1, limit) + (not same),
            )
            if line > 1 and column > 1 and _swapped(first, second, line, column):
                best = min(best, older.get(column - 2, limit) + 1)
            row[column] = best
        if min(row.values()) > limit:
            return limit + 1
    return min(row.get(len(second), limit + 1), limit + 1)


def _swapped(first: Sequence[str], second: Sequence[str], line: int, column: int) -> bool:
    return first[line - 1] == second[column - 2] and first[line - 2] == second[column - 1]
