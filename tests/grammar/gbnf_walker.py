"""Reads the GBNF we write, draws random answers from it, and says whether it accepts one."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cached_property

TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:[^"\\]|\\.)*")|(?P<set>\[(?:[^\]\\]|\\.)*\])'
    r"|(?P<name>[a-z][a-z0-9]*)|(?P<mark>[()|?*])|(?P<times>\{\d+(?:,\d*)?\}))"
)
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|U([0-9a-f]{8})|(.))", re.DOTALL)
LETTER = r"\\x[0-9a-f]{2}|\\U[0-9a-f]{8}|\\.|."
WITHOUT_END = 10**9
DEEP = 40  # from here on the shortest way out is taken
SAMPLES = "aZ09 é東'/,.:{}[]\u00a0_-"


@dataclass(frozen=True, eq=False)
class Node:
    kind: str  # literal, set, name, sequence, choice, repeat
    text: str = ""
    parts: tuple[Node, ...] = ()
    low: int = 0
    high: int = 0
    ranges: tuple[tuple[str, str], ...] = ()


class Grammar:
    def __init__(self, text: str) -> None:
        self.rules: dict[str, Node] = {}
        for line in text.splitlines():
            name, _, body = line.partition(" ::= ")
            assert name not in self.rules, f"rule {name} twice"
            tokens = tokenise(body)
            self.rules[name] = parse_choice(tokens)
            assert not tokens, tokens

    @cached_property
    def _heights(self) -> dict[str, int]:
        """How many rules the shortest answer of each goes through."""
        heights = dict.fromkeys(self.rules, WITHOUT_END)
        while True:
            now = {name: 1 + height(node, heights) for name, node in self.rules.items()}
            if now == heights:
                return heights
            heights = now

    def draw(self, rng: random.Random) -> str:
        return "".join(self._draw(self.rules["root"], rng, 0))

    def _draw(self, node: Node, rng: random.Random, depth: int) -> list[str]:
        match node.kind:
            case "literal":
                return [node.text]
            case "set":
                letters = [letter for letter in ALPHABET if matches(node, letter)]
                return [rng.choice(letters) if letters else rng.choice(rng.choice(node.ranges))]
            case "name":
                return self._draw(self.rules[node.text], rng, depth + 1)
            case "choice":
                options = list(node.parts)
                if depth > DEEP:
                    options.sort(key=lambda part: height(part, self._heights))
                    options = options[:1]
                return self._draw(rng.choice(options), rng, depth)
            case "repeat":
                short = min(node.high, node.low + (3 if depth <= DEEP else 0))
                rare = rng.random() < 0.02 and node.high < WITHOUT_END
                count = rng.randint(node.low, node.high if rare else short)
                inner = node.parts[0]
                return [text for _ in range(count) for text in self._draw(inner, rng, depth)]
            case _:
                return [text for part in node.parts for text in self._draw(part, rng, depth)]

    def accepts(self, text: str) -> bool:
        return len(text) in Match(self, text).ends(self.rules["root"], 0)


class Match:
    """Where each part of a grammar can end in a text."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self._grammar = grammar
        self._text = text
        self._known: dict[tuple[Node, int], set[int]] = {}

    def ends(self, node: Node, start: int) -> set[int]:
        key = (node, start)
        if key not in self._known:
            self._known[key] = self._find(node, start)
        return self._known[key]

    def _find(self, node: Node, start: int) -> set[int]:
        match node.kind:
            case "literal":
                found = self._text.startswith(node.text, start)
                return {start + len(node.text)} if found else set()
            case "set":
                found = start < len(self._text) and matches(node, self._text[start])
                return {start + 1} if found else set()
            case "name":
                return self.ends(self._grammar.rules[node.text], start)
            case "choice":
                return set().union(*(self.ends(part, start) for part in node.parts))
            case "repeat":
                return self._repeated(node, start)
            case _:
                reached = {start}
                for part in node.parts:
                    reached = self._all(part, reached)
                return reached

    def _repeated(self, node: Node, start: int) -> set[int]:
        reached, found = {start}, set[int]()
        for count in range(node.high + 1):
            found |= reached if count >= node.low else set()
            reached = self._all(node.parts[0], reached)
            if not reached:
                break
        return found

    def _all(self, node: Node, starts: set[int]) -> set[int]:
        return {end for start in starts for end in self.ends(node, start)}


def height(node: Node, heights: dict[str, int]) -> int:
    match node.kind:
        case "literal" | "set":
            return 0
        case "name":
            return heights[node.text]
        case "choice":
            return min(height(part, heights) for part in node.parts)
        case "repeat":
            return height(node.parts[0], heights) if node.low else 0
        case _:
            return max(height(part, heights) for part in node.parts)


def matches(node: Node, letter: str) -> bool:
    inside = any(low <= letter <= high for low, high in node.ranges)
    return inside != (node.text == "^")


def tokenise(body: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while position < len(body.rstrip()):
        found = TOKEN.match(body, position)
        assert found and found.lastgroup, body[position : position + 40]
        tokens.append((found.lastgroup, found.group(found.lastgroup)))
        position = found.end()
    return tokens


def parse_choice(tokens: list[tuple[str, str]]) -> Node:
    options = [parse_sequence(tokens)]
    while tokens and tokens[0] == ("mark", "|"):
        tokens.pop(0)
        options.append(parse_sequence(tokens))
    return options[0] if len(options) == 1 else Node("choice", parts=tuple(options))


def parse_sequence(tokens: list[tuple[str, str]]) -> Node:
    parts: list[Node] = []
    while tokens and tokens[0] not in (("mark", "|"), ("mark", ")")):
        kind, text = tokens.pop(0)
        if kind == "times":
            low, comma, high = text[1:-1].partition(",")
            most = int(high or low) if high or not comma else WITHOUT_END
            parts.append(Node("repeat", parts=(parts.pop(),), low=int(low), high=most))
        elif kind == "mark" and text in "?*":
            most = 1 if text == "?" else WITHOUT_END
            parts.append(Node("repeat", parts=(parts.pop(),), low=0, high=most))
        elif (kind, text) == ("mark", "("):
            parts.append(parse_choice(tokens))
            assert tokens.pop(0) == ("mark", ")")
        else:
            parts.append(parse_atom(kind, text))
    assert parts, "an empty alternative"
    return Node("sequence", parts=tuple(parts))


def parse_atom(kind: str, text: str) -> Node:
    if kind != "set":
        return Node(kind, plain(text[1:-1]) if kind == "literal" else text)
    inner = text[1:-1]
    negated = inner.startswith("^")
    letters = re.findall(f"({LETTER})(?:-({LETTER}))?", inner[negated:])
    ranges = tuple((plain(low), plain(high or low)) for low, high in letters)
    return Node("set", "^" if negated else "", ranges=ranges)


def plain(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if number := found.group(1) or found.group(2):
            return chr(int(number, 16))
        return {"n": "\n", "r": "\r", "t": "\t"}.get(found.group(3), found.group(3))

    return ESCAPE.sub(one, text)


ALPHABET = [*map(chr, range(32, 127)), *SAMPLES]
