"""Our grammars (GBNF) on llguidance, for runtimes without a grammar of their own.

llguidance cuts text into lexemes first, and the longest one wins. llama.cpp does not: after
`[a-z]+` there may come "ing". So a grammar is translated letter by letter, each a lexeme of its
own. Then both allow the same tokens. (Its own translator, `gbnf_to_lark`, keeps longer lexemes.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from edgewise.errors import GenerationFailed
from edgewise.local.decoder import Rules

_SYMBOL = re.compile(
    r"""\s*(?:(?P<comment>\#[^\n]*)|(?P<rule>[\w-]+)\s*::=|"(?P<text>(?:\\.|[^"\\])*)"
    |\[(?P<letters>(?:\\.|[^\]\\])*)\]|(?P<name>[\w-]+)|(?P<times>\{\d+(?:,\d*)?\}|[*+?])
    |(?P<other>[()|.]))""",
    re.VERBOSE | re.DOTALL,
)
_LETTER = re.compile(
    r"""\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([\\"\[\]nrt]))|(.)""", re.DOTALL
)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
# Otherwise only one way to cut a forced text into tokens would be allowed.
_HEAD = '%llguidance {"no_forcing": true}\nstart: rule_root\n'
# Of llguidance's work, far above what our largest grammars take: where it ends, an error does too.
_LIMITS: dict[str, Any] = {
    "max_items_in_row": 50_000,
    "initial_lexer_fuel": 5_000_000,
    "step_lexer_fuel": 1_000_000,
    "step_max_items": 500_000,
    "max_grammar_size": 2_000_000,
}
_LONGEST = 1_000_000  # letters of a grammar


class GuidedGrammar(Rules):
    """What may be written next, by a matcher of llguidance's."""

    def __init__(self, matcher: Any, size: int, ends: frozenset[int], *, runtime: str) -> None:
        self._matcher, self._size, self._ends, self._runtime = matcher, size, ends, runtime
        self._mask: npt.NDArray[np.bool_] | None = None

    @classmethod
    def read(
        cls, tokenizer: Any, ends: frozenset[int], text: str, *, runtime: str
    ) -> GuidedGrammar:
        """`tokenizer` is llguidance's view of a vocabulary."""
        import llguidance  # noqa: PLC0415 - the vocabulary has loaded it

        unread = GenerationFailed(f"{runtime} could not read the grammar")
        try:
            lark = to_lark(text)
        except ValueError as error:
            raise unread from error
        matcher: Any = llguidance.LLMatcher(
            tokenizer,
            llguidance.LLMatcher.grammar_from_lark(lark),
            log_level=0,  # it would print the words of the request
            limits=llguidance.LLParserLimits(**_LIMITS),
        )
        if matcher.is_error():
            raise unread
        return cls(matcher, int(tokenizer.vocab_size), ends, runtime=runtime)

    def again(self) -> GuidedGrammar:
        """The same grammar from where this one stands, on its own."""
        matcher = self._matcher.deep_copy()
        return GuidedGrammar(matcher, self._size, self._ends, runtime=self._runtime)

    @override
    def allowed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if len(tokens) == 1 and self._mask is None and int(tokens[0]) not in self._ends:
            fits = self._matcher.validate_tokens([int(tokens[0])]) == 1
            self._check()
            return np.array([fits])
        if self._mask is None:
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            self._check()
            self._mask = np.unpackbits(bits, count=self._size, bitorder="little").astype(np.bool_)
            self._mask[list(self._ends)] = self._matcher.is_accepting()
        return self._mask[tokens]

    @override
    def accept(self, token: int) -> None:
        self._mask = None
        if token not in self._ends:
            self._matcher.consume_token(token)
            self._check()

    @override
    def close(self) -> None:
        self._mask = None

    @override
    def none_left(self) -> GenerationFailed:
        return GenerationFailed(f"{self._runtime}: the grammar allows no token")

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GenerationFailed(f"{self._runtime}: the grammar is too large to follow")


def to_lark(grammar: str) -> str:
    """The same grammar as llguidance reads it. Raises ValueError if it is none."""
    if len(grammar) > _LONGEST:
        raise ValueError("too long")
    return _HEAD + " ".join(_symbols(grammar.rstrip())) + "\n"


def _symbols(grammar: str) -> Iterator[str]:
    place = 0
    while place < len(grammar):
        found = _SYMBOL.match(grammar, place)
        if found is None:
            raise ValueError(f"nothing known at letter {place}")
        place = found.end()
        kind, symbol = found.lastgroup, found[found.lastgroup or 0]
        if kind == "rule":
            yield f"\n{_name(symbol)}:"
        elif kind == "name":
            yield _name(symbol)
        elif kind == "text":
            yield _text(symbol)
        elif kind == "letters":
            yield _letters(symbol)
        elif kind != "comment":
            yield _ANY if symbol == "." else symbol


_ANY = "/(?s:.)/"


def _name(rule: str) -> str:
    # Lower case: a name in capitals would be a lexeme. Names that differ in that stay different.
    return "rule_" + re.sub(r"[A-Z-]", lambda found: f"_{ord(found[0])}", rule)


def _text(quoted: str) -> str:
    letters = [f"/\\u{{{ord(letter):x}}}/" for letter, _ in _spelt(quoted)]
    return f"({' '.join(letters)})" if letters else '""'


def _letters(inside: str) -> str:
    excluding = inside.startswith("^")
    spelt = list(_spelt(inside[excluding:]))
    ranges = "".join(
        "-" if letter == "-" and plain and 0 < place < len(spelt) - 1 else f"\\u{{{ord(letter):x}}}"
        for place, (letter, plain) in enumerate(spelt)
    )
    return f"/[{'^' * excluding}{ranges}]/"


def _spelt(text: str) -> Iterator[tuple[str, bool]]:
    """Each letter, and whether it stands for itself."""
    for found in _LETTER.finditer(text):
        number = found[1] or found[2] or found[3]
        if number:
            yield chr(int(number, 16)), False
        elif found[4]:
            yield _NAMED.get(found[4], found[4]), False
        elif found[5] == "\\":
            raise ValueError("an unknown escape")
        else:
            yield found[5], True
