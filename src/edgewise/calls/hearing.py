"""How surely the words were heard that became an argument, and which words these are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgewise.calls.schema import parameters, support
from edgewise.calls.values.text import read_request
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
