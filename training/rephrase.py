"""Other words for the same request: verbs, contractions and set phrases, never in values."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

from training.sample import Piece

# These are verbs only where an order begins.
_VERBS = {
    "find": ("look up", "search for", "locate", "dig up", "look for", "hunt down"),
    "show me": ("display", "let me see", "give me", "bring up", "pull up"),
    "give me": ("show me", "get me", "let me have", "provide"),
    "tell me": ("let me know", "say", "inform me"),
    "calculate": ("compute", "work out", "figure out", "determine", "calc"),
    "compute": ("calculate", "work out", "figure out"),
    "work out": ("calculate", "figure out", "compute"),
    "create": ("make", "set up", "add"),
    "book": ("reserve", "arrange", "get me"),
    "schedule": ("plan", "set up", "arrange", "put in"),
    "turn on": ("switch on", "power on", "activate", "put on"),
    "turn off": ("switch off", "power off", "shut off", "deactivate", "kill"),
    "switch on": ("turn on", "put on", "activate"),
    "switch off": ("turn off", "shut off", "deactivate"),
    "remove": ("delete", "take out", "get rid of"),
    "delete": ("remove", "erase", "get rid of"),
    "convert": ("change", "transform"),
    "start": ("begin", "kick off", "get going with"),
    "get": ("fetch", "retrieve", "pull up", "get me", "grab"),
    "retrieve": ("get", "fetch", "look up", "pull up", "get me", "find", "show me", "give me"),
    "check": ("look up", "verify", "see about"),
    "list": ("show me", "name", "list out", "enumerate"),
    "send": ("dispatch", "send off", "send out"),
    "search for": ("look for", "find", "hunt for"),
    "search": ("look through", "go through"),
    "look up": ("find", "check", "search for"),
    "estimate": ("roughly work out", "assess", "approximate"),
    "set": ("put", "adjust", "change"),
    "update": ("change", "edit", "modify"),
    "play": ("put on", "start playing", "stream"),
    "analyze": ("analyse", "examine", "look into"),
    "compare": ("contrast", "weigh up"),
    "generate": ("make", "produce", "come up with"),
    "increase": ("raise", "turn up", "bump up"),
    "decrease": ("lower", "turn down", "reduce"),
    "record": ("note down", "log", "put down"),
    "save": ("store", "keep"),
    "pause": ("halt", "hold"),
}
_PHRASES = {
    "what's": ("what is", "whats", "tell me what's"),
    "what is": ("what's", "whats"),
    "how's": ("how is",),
    "who's": ("who is",),
    "where's": ("where is",),
    "i'd like": ("I would like", "I want", "I'd love"),
    "i want": ("I'd like", "I wanna have", "I wish for"),
    "i need": ("I require", "I want", "I could use", "we need"),
    "i'm": ("I am", "im"),
    "i've": ("I have", "ive"),
    "don't": ("do not", "dont"),
    "doesn't": ("does not", "doesnt"),
    "it's": ("it is", "its"),
    "can you": ("could you", "are you able to", "would you", "will you"),
    "could you": ("can you", "would you"),
    "please": ("pls", "kindly", "if you would"),
    "right now": ("at the moment", "currently", "just now"),
    "how much is": ("what does it come to for", "how much would be", "what is"),
    "i have to": ("I need to", "I must", "I've got to"),
    "i need to": ("I have to", "I must", "I want to"),
    "how many": ("what number of", "how many"),
    "how long": ("how much time", "how long"),
    "going to": ("gonna", "about to"),
    "because": ("since", "cause", "as"),
    "maybe": ("perhaps", "possibly"),
    "want to": ("wanna", "would like to"),
}


def _pattern(words: dict[str, tuple[str, ...]]) -> str:
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


_ORDER = re.compile(
    rf"(?P<lead>^|please |can you |could you |would you |need to |want to |like to |, then |"
    rf"[.?!] )(?P<words>{_pattern(_VERBS)})\b(?= [a-z{{]| $)"
    r"(?! (?:out|me|us|up|down|off|on|it|in|value|of)\b)",
    re.IGNORECASE,
)
_SAID = re.compile(rf"\b(?:{_pattern(_PHRASES)})\b(?!')", re.IGNORECASE)


def rephrase(pieces: list[Piece], rng: Random) -> list[Piece]:
    """The same with some of its words exchanged, each with an even chance."""

    def other(words: str, options: dict[str, tuple[str, ...]]) -> str:
        if rng.random() < 0.4:
            return words
        chosen = rng.choice(options[words.lower()])
        if words[:1].isupper():
            return chosen[:1].upper() + chosen[1:]
        return chosen

    changed: list[Piece] = []
    for place, piece in enumerate(pieces):
        if piece.slot:
            changed.append(piece)
            continue
        text = _SAID.sub(lambda match: other(match[0], _PHRASES), piece.text)
        # Only the first piece begins a sentence at its own beginning.
        if place == 0 or ". " in text or "lease " in text or " to " in text or "you " in text:
            text = _ORDER.sub(
                lambda match: (
                    match["lead"] + other(match["words"], _VERBS)
                    if match["lead"] or not place  # noqa: B023
                    else match[0]
                ),
                text,
            )
        changed.append(replace(piece, text=text))
    return changed
