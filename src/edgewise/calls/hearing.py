"""How surely the words were heard that became an argument, and which words these are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.calls.schema import parameters, required, support
from edgewise.calls.values.numbers import ONES, TENS, TOKEN
from edgewise.calls.values.text import read_request
from edgewise.calls.values.words import fold
from edgewise.types.messages import Tool, ToolCall, Word

LEAST_LOSS = 0.05  # of an argument's support that makes a word one of its words
LONGEST_HINT = 400  # characters; a transcriber takes no more than about two hundred tokens


@dataclass(frozen=True, slots=True)
class Doubt:
    """The word that a call hangs on and that was heard least surely."""

    argument: str
    word: Word
    chance: float


def least_heard(call: ToolCall, tool: Tool, heard: Sequence[Word]) -> Doubt | None:
    """The least sure of the words that became an argument; None if all of them are certain.

    A word is an argument's if without it the rest of the words support the argument less. So "ten"
    belongs to 10, "off" to `false`, and each word of a message to the message. What the cloud has
    heard is certain.
    """
    fields = parameters(tool.parameters)

    def supported(words: Iterable[Word]) -> Mapping[str, float]:
        read = read_request(text_of(words))
        return {
            name: support(value, name, fields.get(name, {}), tool.parameters, read).score
            for name, value in call.arguments.items()
        }

    whole = supported(heard)
    unsure = [(word.probability, place) for place, word in enumerate(heard)
              if word.probability is not None]  # fmt: skip
    for chance, place in sorted(unsure):
        without = supported((*heard[:place], *heard[place + 1 :]))
        for name, score in whole.items():
            if score - without[name] >= LEAST_LOSS:
                return Doubt(name, heard[place], chance)
    return None


def text_of(words: Iterable[Word]) -> str:
    return "".join(f"{'' if word.glued else ' '}{word.text}" for word in words).strip()


def as_heard(call: ToolCall, doubt: Doubt, threshold: float) -> ToolCall:
    """The call, no surer than its words; in doubt where that is too little."""
    if call.confidence is not None:
        call = replace(call, confidence=call.confidence * doubt.chance)
    if (doubt.chance if call.confidence is None else call.confidence) >= threshold:
        return call
    why = f"{doubt.word.text!r} was heard at {doubt.chance:.2f}"
    return replace(call, doubt=f"{call.doubt}; {why}" if call.doubt else f"{call.name}: {why}")


def hint_of(tools: Sequence[Tool]) -> str:
    """The words that tools listen for, for a transcriber: their choices, most of them names."""
    found: dict[str, None] = {}
    for tool in tools:
        for schema in parameters(tool.parameters).values():
            choices = schema.get("enum")
            for choice in choices if isinstance(choices, list | tuple) else ():
                if isinstance(choice, str) and any(letter.isalpha() for letter in choice):
                    found[choice.replace("_", " ")] = None
    hint = ""
    for choice in found:
        longer = f"{hint}, {choice}" if hint else choice
        if len(longer) > LONGEST_HINT:
            break
        hint = longer
    return hint


# -- choices that were said ------------------------------------------------------------------------


LIKENESS = 0.75  # of the letters, from which on another spelling may be a choice
LEAST_LETTERS = 5  # of a choice that may be heard as something else
_EDIT = 2  # letters that a wrong one costs, when spellings compete for the same words
_SOUNDS = (("ch", "k"), ("ck", "k"), ("qu", "kw"), ("ph", "f"), ("c", "k"), ("z", "s"), ("y", "i"))
_SHORT = {"oz": "ounce", "ounces": "ounce", "lb": "pound", "ft": "foot"}
_SPELLED = {
    **{str(value): word for word, value in ONES.items()},
    **{
        str(tens + value): f"{word} {one}".strip()
        for word, tens in TENS.items()
        for one, value in {"": 0, **ONES}.items()
        if value < 10 and one != "zero" and word != "fourty"
    },
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of a parameter, and the words of the request that say it."""

    name: str
    value: str
    start: int
    end: int
    worth: int
    letters: int


def said_choices(tool: Tool, text: str, taken: Iterable[str] = ()) -> list[Choice]:
    """The choices of a tool's parameters that the words say, also where they were misheard.

    Where several could be meant by the same words, the longest and most alike counts: "medium most"
    is a medium roast, and no medium cup. The words of `taken` are other values'.
    """
    words = _sounds_of(text)
    free = [True] * len(words)
    for value in taken:
        _claim(_sounds_of(value), words, free)
    found: list[Choice] = []
    for name, schema in parameters(tool.parameters).items():
        choices = schema.get("enum")
        for value in choices if isinstance(choices, list | tuple) else ():
            if isinstance(value, str):
                found += _places(name, value, words)
    said: list[Choice] = []
    for one in sorted(found, key=lambda each: (each.worth, each.letters), reverse=True):
        if all(free[one.start : one.end]):
            said.append(one)
            free[one.start : one.end] = [False] * (one.end - one.start)
    return said


def _places(name: str, value: str, words: Sequence[str]) -> Iterator[Choice]:
    from rapidfuzz.distance import Levenshtein  # noqa: PLC0415 - only for words that were heard

    wanted = _sounds_of(value.replace("_", " "))
    letters = "".join(wanted)
    most = int((1 - LIKENESS) * len(letters)) if len(letters) >= LEAST_LETTERS else 0
    for count in range(max(1, len(wanted) - 1), len(wanted) + 2) if letters else ():
        for start in range(len(words) - count + 1):
            heard = "".join(words[start : start + count])
            edits = Levenshtein.distance(letters, heard, score_cutoff=most)
            if edits <= most:
                worth = len(letters) - _EDIT * edits
                yield Choice(name, value, start, start + count, worth, len(letters))


def _claim(value: Sequence[str], words: Sequence[str], free: list[bool]) -> None:
    for start in range(len(words) - len(value) + 1) if value else ():
        if list(words[start : start + len(value)]) == list(value):
            free[start : start + len(value)] = [False] * len(value)


def _sounds_of(text: str) -> list[str]:
    """The words as they sound, roughly: numbers in words, one letter for one sound."""
    found: list[str] = []
    for token in TOKEN.findall(fold(text)):
        spelled = _SPELLED.get(token) or _SHORT.get(token, token)
        for word in spelled.split():
            for letters, sound in _SOUNDS:
                word = word.replace(letters, sound)
            plain = re.sub(r"(.)\1+", r"\1", re.sub(r"[\W_]", "", word))
            found += [plain] if plain else []
    return found


def with_choices(call: ToolCall, tool: Tool, text: str) -> ToolCall:
    """The call with the choices that were said, and without those that were not.

    A transcriber writes "light rose" for a light roast, and a small model overlooks one of six
    choices. What the model chose stays where the words say it. Changes: `heard:ARGUMENT`.
    """
    fields = parameters(tool.parameters)
    listed = {
        name for name, schema in fields.items() if isinstance(schema.get("enum"), list | tuple)
    }
    others = [value for name, value in call.arguments.items() if name not in listed]
    said = said_choices(tool, text, [value for value in others if isinstance(value, str)])
    by_name: dict[str, set[str]] = {}
    for one in said:
        by_name.setdefault(one.name, set()).add(one.value)
    found, changed = dict(call.arguments), []
    for name in listed:
        choices, before = by_name.get(name, set()), call.arguments.get(name)
        if before in choices or len(choices) > 1 or isinstance(before, list):
            continue
        if choices:
            found[name] = next(iter(choices))
        elif isinstance(before, str) and name not in required(tool.parameters) and said:
            alone = said_choices(_only(tool, name), text)
            if not any(one.value == before for one in alone):
                continue  # it was understood from other words
            del found[name]  # its words are another choice's
        else:
            continue
        changed.append(f"heard:{name}")
    if not changed:
        return call
    order = dict.fromkeys([*(name for name in fields if name in found), *found])
    arguments = {name: found[name] for name in order}
    return replace(call, arguments=arguments, repairs=(*call.repairs, *changed))


def call_of_choices(tool: Tool, text: str) -> ToolCall | None:
    """The call that the choices in the words make by themselves; None if something is missing."""
    call = with_choices(ToolCall(tool.name, {}, source="local"), tool, text)
    return call if call.arguments.keys() >= {*required(tool.parameters)} else None


def _only(tool: Tool, name: str) -> Tool:
    """The tool with one parameter."""
    return replace(tool, parameters={"properties": {name: parameters(tool.parameters)[name]}})
