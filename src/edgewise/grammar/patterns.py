"""Turns a regular expression of a JSON Schema into grammar rules with one way at a time.

llama.cpp follows every way through a grammar at once, so a pattern such as `((a?){50}){50}` stalls
it. Here a pattern first becomes a deterministic automaton. Its states are the rules, and each
character leads out of a state in one way. The size of the automaton and the work are limited.
`Matcher` follows the same states through a text, for what somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from edgewise.errors import InvalidRequest, SchemaUnsupported
from edgewise.grammar.tools import PLAIN, escaped, literal

LONGEST_PATTERN = 500  # characters
MOST_STATES = 600  # of the automaton of one pattern
MOST_STEPS = 600_000  # of work on all automata of a schema: about a third of a second
STATE_STEPS = 20  # the cost of making one state
DEEPEST_GROUP = 40

Ranges = tuple[tuple[int, int], ...]  # code points, both ends included; sorted, not touching

_EVERYTHING: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip
_LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0x00}

_SHORT = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r"}
MOST_ESCAPES = 16  # of characters that can only be written as \uXXXX, in one place


def united(*many: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pair for ranges in many for pair in ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def common(one: Ranges, other: Ranges) -> Ranges:
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return united(tuple((low, high) for low, high in pairs if low <= high))


def without(ranges: Ranges) -> Ranges:
    """Every character but these."""
    gaps, start = [], 0
    for low, high in ranges:
        gaps.append((start, low - 1))
        start = high + 1
    gaps.append((start, 0x10FFFF))
    return common(tuple((low, high) for low, high in gaps if low <= high), _EVERYTHING)


# What a JSON string holds unescaped; quote and backslash have their own escapes.
_AS_IT_IS = common(PLAIN, without(((0x22, 0x22), (0x5C, 0x5C))))


class Characters(NamedTuple):
    """One of these characters."""

    ranges: Ranges


class Concat(NamedTuple):
    parts: tuple[Part, ...]


class Either(NamedTuple):
    parts: tuple[Part, ...]


class Repeat(NamedTuple):
    part: Part
    least: int
    most: int | None


class Anchor(NamedTuple):
    sign: str


Part = Characters | Concat | Either | Repeat | Anchor

_ANYTHING = Repeat(Characters(_EVERYTHING), 0, None)


class _Parser:
    """Reads the part of ECMAScript's regular expressions that an automaton can follow."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0

    def whole(self) -> Part:
        found = self._either(0)
        if self._at < len(self._text):
            raise self._unreadable("a ) without its (")
        options = found.parts if isinstance(found, Either) else (found,)
        return Either(tuple(map(self._anchored, options)))

    def _anchored(self, option: Part) -> Part:
        """Without ^ it may begin with anything, without $ it may end with anything."""
        parts = option.parts if isinstance(option, Concat) else (option,)
        starts = bool(parts) and parts[0] == Anchor("^")
        ends = bool(parts) and parts[-1] == Anchor("$")
        inner = parts[1 if starts else 0 : len(parts) - 1 if ends else len(parts)]
        if any(map(_has_anchor, inner)):
            raise SchemaUnsupported("^ and $ are only understood at its ends")
        before = () if starts else (_ANYTHING,)
        after = () if ends else (_ANYTHING,)
        return Concat((*before, *inner, *after))

    def _either(self, depth: int) -> Part:
        if depth > DEEPEST_GROUP:
            raise SchemaUnsupported(f"more than {DEEPEST_GROUP} groups in one another")
        options = [self._sequence(depth)]
        while self._take("|"):
            options.append(self._sequence(depth))
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _sequence(self, depth: int) -> Part:
        parts: list[Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(self._atom(depth)))
        return Concat(tuple(parts))

    def _repeated(self, part: Part) -> Part:
        bounds = self._quantifier()
        if bounds is None:
            return part
        if isinstance(part, Anchor):
            raise self._unreadable("nothing to repeat")
        self._take("?")  # greedy or not: the same texts match
        if self._quantifier() is not None:
            raise self._unreadable("a repetition of a repetition")
        least, most = bounds
        if most is not None and least > most:
            raise self._unreadable(f"{{{least},{most}}} is upside down")
        if max(least, most or 0) > MOST_STATES:
            raise SchemaUnsupported(f"it repeats more than {MOST_STATES} times")
        return Repeat(part, least, most)

    def _quantifier(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if not self._text.startswith("{", self._at):
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, 0)].partition(",")
        if not _is_count(least) or not (most == "" or _is_count(most)):
            return None  # a brace like any other character
        self._at = end + 1
        if not comma:
            return int(least), int(least)
        return int(least), int(most) if most else None

    def _atom(self, depth: int) -> Part:
        letter = self._next()
        if letter in "^$":
            return Anchor(letter)
        if letter == ".":
            return Characters(without(_LINE_ENDS))
        if letter == "(":
            return self._group(depth)
        if letter == "[":
            return Characters(self._class())
        if letter == "\\":
            return Characters(self._writable(self._escape(in_class=False)))
        if letter in "*+?":
            raise self._unreadable(f"{letter} with nothing to repeat")
        return Characters(self._writable(_one(ord(letter))))

    def _group(self, depth: int) -> Part:
        if self._take("?"):
            if self._text.startswith("<", self._at) and self._text[self._at + 1 :][:1].isalpha():
                end = self._text.find(">", self._at)
                if end < 0:
                    raise self._unreadable("a name without its >")
                self._at = end + 1
            elif not self._take(":"):
                raise SchemaUnsupported("it looks ahead or behind, or sets flags")
        inner = self._either(depth + 1)
        if not self._take(")"):
            raise self._unreadable("a ( without its )")
        return inner

    def _class(self) -> Ranges:
        negative = self._take("^")
        found: list[Ranges] = []
        while not self._take("]"):
            low = self._member()
            high = low
            if self._text.startswith("-", self._at) and self._text[self._at + 1 :][:1] not in (
                "]",
                "",
            ):
                self._at += 1
                high = self._member()
                if not (_is_one(low) and _is_one(high) and low[0][0] <= high[0][0]):
                    raise self._unreadable("a range that is upside down")
                low = ((low[0][0], high[0][0]),)
            found.append(low)
        ranges = united(*found)
        return self._writable(without(ranges) if negative else ranges)

    def _writable(self, ranges: Ranges) -> Ranges:
        ranges = common(ranges, _EVERYTHING)
        if not ranges:
            raise self._unreadable("there is a place for no character at all")
        return ranges

    def _member(self) -> Ranges:
        letter = self._next("a [ without its ]")
        return self._escape(in_class=True) if letter == "\\" else _one(ord(letter))

    def _escape(self, *, in_class: bool) -> Ranges:
        letter = self._next("a \\ at its end")
        classes = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
        if letter in classes:
            return classes[letter]
        if letter.lower() in classes:
            return without(classes[letter.lower()])
        if letter == "b" and in_class:
            return _one(0x08)
        if letter in "xu":
            return _one(self._hexadecimal(letter))
        if letter in _CONTROLS and not self._text[self._at :][:1].isdigit():
            return _one(_CONTROLS[letter])
        if letter.isalnum():
            raise SchemaUnsupported(f"\\{letter} is not understood")
        return _one(ord(letter))

    def _hexadecimal(self, kind: str) -> int:
        if kind == "u" and self._take("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            count = 2 if kind == "x" else 4
            digits = self._text[self._at : self._at + count].ljust(count)
            self._at += count
        if not 0 < len(digits) <= 6 or not set(digits) <= set("0123456789abcdefABCDEF"):
            raise self._unreadable(f"\\{kind} without its digits")
        return min(int(digits, 16), 0x110000)

    def _next(self, missing: str = "it ends too early") -> str:
        if self._at >= len(self._text):
            raise self._unreadable(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def _unreadable(self, why: str) -> InvalidRequest:
        return InvalidRequest(f"cannot be read: {why}")


def _is_count(text: str) -> bool:
    return 0 < len(text) <= 9 and text.isascii() and text.isdigit()


def _one(point: int) -> Ranges:
    return ((point, point),)


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _has_anchor(part: Part) -> bool:
    match part:
        case Anchor():
            return True
        case Concat(parts) | Either(parts):
            return any(map(_has_anchor, parts))
        case Repeat(inner):
            return _has_anchor(inner)
    return False


class Work:
    """The work that may still be done for one schema."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise SchemaUnsupported("it can be read in too many ways")


@dataclass(slots=True)
class _Network:
    """States that are left without a character (`free`) or by one of some characters (`moves`)."""

    work: Work
    free: list[list[int]] = field(default_factory=list)
    moves: list[tuple[Ranges, int] | None] = field(default_factory=list)

    def state(self) -> int:
        self.work.spend(STATE_STEPS)
        if len(self.free) >= 4 * MOST_STATES:
            raise SchemaUnsupported(f"it has more than {MOST_STATES} states")
        self.free.append([])
        self.moves.append(None)
        return len(self.free) - 1

    def add(self, part: Part, start: int) -> int:
        """The state in which `part`, read from `start`, ends."""
        self.work.spend(1)  # a repetition of nothing makes no state
        match part:
            case Characters(ranges):
                # A state has one move: `start` may already have another.
                here, end = self.state(), self.state()
                self.free[start].append(here)
                self.moves[here] = (ranges, end)
                return end
            case Concat(parts):
                for each in parts:
                    start = self.add(each, start)
                return start
            case Either(parts):
                end = self.state()
                for each in parts:
                    self.free[self.add(each, start)].append(end)
                return end
            case Repeat(inner, least, most):
                return self._repeat(inner, least, most, start)
        raise AssertionError("anchors are taken away before")

    def closed(self, states: set[int]) -> frozenset[int]:
        """These states and all that are reached from them without a character."""
        found, waiting = set(states), list(states)
        while waiting:
            state = waiting.pop()
            self.work.spend(1)
            for each in self.free[state]:
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return frozenset(found)

    def ways(self, states: frozenset[int]) -> dict[frozenset[int], Ranges]:
        """What is reached from any of these states, and by which characters."""
        edges = [move for state in states if (move := self.moves[state])]
        # Between two neighbouring cuts, all characters lead to the same states.
        cuts = sorted(
            {cut for ranges, _ in edges for low, high in ranges for cut in (low, high + 1)}
        )
        targets: dict[int, set[int]] = {}
        places = {cut: number for number, cut in enumerate(cuts)}
        for ranges, target in edges:
            for low, high in ranges:
                self.work.spend(places[high + 1] - places[low])
                for number in range(places[low], places[high + 1]):
                    targets.setdefault(number, set()).add(target)
        ways: dict[frozenset[int], list[tuple[int, int]]] = {}
        for number, reached in targets.items():
            ways.setdefault(self.closed(reached), []).append((cuts[number], cuts[number + 1] - 1))
        return {reached: united(tuple(ranges)) for reached, ranges in ways.items()}

    def _repeat(self, inner: Part, least: int, most: int | None, start: int) -> int:
        for _ in range(least):
            start = self.add(inner, start)
        end = self.state()
        if most is None:
            # A separate state, so that nothing before it is repeated.
            again = self.state()
            self.free[start].append(again)
            self.free[self.add(inner, again)].append(again)
            self.free[again].append(end)
            return end
        self.free[start].append(end)
        for _ in range(most - least):
            start = self.add(inner, start)
            self.free[start].append(end)
        return end


@dataclass(frozen=True, slots=True)
class Automaton:
    """A pattern as states: which characters lead to which state. State 0 is the first."""

    moves: list[list[tuple[Ranges, int]]]
    final: set[int]


def automaton(
    pattern: str, shortest: int = 0, longest: int | None = None, work: Work | None = None
) -> Automaton:
    """The texts that match a pattern and have the required length. `work` is for a whole schema.

    Raises InvalidRequest if it cannot be read or no text matches, SchemaUnsupported if it exceeds
    the limits of this file.
    """
    network, start, end = _read(pattern, work)
    counted = max(shortest, longest or 0)  # beyond this, all lengths are equal
    first = (network.closed({start}), 0)  # states of the network, and a length
    numbers = {first: 0}
    waiting = [first]
    moves: list[list[tuple[Ranges, int]]] = []
    final: set[int] = set()
    for states, length in waiting:  # grows while it is read
        if end in states and length >= shortest:
            final.add(len(moves))
        found = []
        ways = network.ways(states) if longest is None or length < longest else {}
        for targets, ranges in ways.items():
            after = (targets, min(length + 1, counted))
            if after not in numbers:
                if len(numbers) >= MOST_STATES:
                    raise SchemaUnsupported(f"it has more than {MOST_STATES} states")
                numbers[after] = len(numbers)
                waiting.append(after)
            found.append((ranges, numbers[after]))
        moves.append(found)
    return _useful(Automaton(moves, final))


class Matcher:
    """Finds a pattern in texts, in time that grows with the lengths of both at most.

    Raises InvalidRequest if the pattern cannot be read, SchemaUnsupported if it exceeds the limits
    of this file or the work that is left.
    """

    def __init__(self, pattern: str, work: Work | None = None) -> None:
        self._network, self._start, self._end = _read(pattern, work)

    def found_in(self, text: str) -> bool:
        network = self._network
        states = network.closed({self._start})
        for letter in text:
            moves = [move for state in states if (move := network.moves[state])]
            network.work.spend(sum(len(ranges) for ranges, _ in moves))
            point = ord(letter)
            reached = {
                target
                for ranges, target in moves
                if any(low <= point <= high for low, high in ranges)
            }
            if not reached:
                return False
            states = network.closed(reached)
        return self._end in states


def _read(pattern: str, work: Work | None) -> tuple[_Network, int, int]:
    """The network of a pattern, and its first and its last state."""
    if len(pattern) > LONGEST_PATTERN:
        raise SchemaUnsupported(f"it is longer than {LONGEST_PATTERN} characters")
    network = _Network(work or Work())
    start = network.state()
    return network, start, network.add(_Parser(pattern).whole(), start)


def _useful(whole: Automaton) -> Automaton:
    """Only the states from which an end can be reached."""
    before: dict[int, set[int]] = {}
    for state, ways in enumerate(whole.moves):
        for _, target in ways:
            before.setdefault(target, set()).add(state)
    useful, waiting = set(whole.final), list(whole.final)
    while waiting:
        for state in before.get(waiting.pop(), ()):
            if state not in useful:
                useful.add(state)
                waiting.append(state)
    if 0 not in useful:
        raise InvalidRequest("no text fits it")
    numbers = {state: number for number, state in enumerate(sorted(useful))}
    moves = [
        [(ranges, numbers[target]) for ranges, target in whole.moves[state] if target in useful]
        for state in sorted(useful)
    ]
    return Automaton(moves, {numbers[state] for state in whole.final})


def string_rules(found: Automaton, new_name: Callable[[], str]) -> dict[str, str]:
    """Grammar rules by name for a JSON string without its first quote; the first is the start."""
    names = [new_name() for _ in found.moves]
    rules = {}
    for state, ways in enumerate(found.moves):
        options = [f"{_written(ranges)} {names[target]}" for ranges, target in ways]
        if state in found.final:
            options.append(r'"\""')
        rules[names[state]] = " | ".join(options)
    return rules


def _written(ranges: Ranges) -> str:
    """One of these characters, as JSON writes it inside a string."""
    options = []
    plain = common(ranges, _AS_IT_IS)
    if plain:
        ends = ("-".join(_in_class(point) for point in sorted(set(pair))) for pair in plain)
        options.append(f"[{''.join(ends)}]")
    points = [point for point in _SHORT if common(ranges, _one(point))]
    options += [literal("\\" + _SHORT[point]) for point in points]
    if not options:
        few = [point for low, high in ranges for point in range(low, min(high, low + 32) + 1)]
        options = [literal(escaped(chr(point))) for point in few[:MOST_ESCAPES]]
    return options[0] if len(options) == 1 else f"({' | '.join(options)})"


def _in_class(point: int) -> str:
    if chr(point).isascii() and chr(point).isalnum():
        return chr(point)
    return f"\\x{point:02x}" if point < 0x100 else f"\\U{point:08x}"
