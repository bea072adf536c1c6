"""What real people do to a sentence: case, slips, missing punctuation, fillers, politeness."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from training.contexts import context_sentence
from training.rephrase import rephrase
from training.sample import Clause, Piece
from training.wording import is_imperative, lower_first

_GREETINGS = (
    "Hi, ", "Hey, ", "Hello, ", "Hi there, ", "hey ", "Good morning! ", "Hello! ", "Hey there! ",
    "Quick question: ", "Ok so ", "Good evening, ", "Listen, ", "Dear assistant, ", "Morning! ",
    "Okay, ", "Hmm, ", "Ah, ", "One more thing: ", "Next one: ", "Sorry, ", "Well, ", "Help! ",
    "Hi! ", "Hello again. ", "By the way, ", "Real quick: ", "Oh, ", "Now, ",
    "So, ", "Alright, ", "Hey assistant, ", "yo ", "Right, ", "um, ",
)  # fmt: skip
_ASKING = (
    "Please ", "please ", "Can you ", "Could you ", "Could you please ", "can you please ",
    "I need you to ", "I'd like you to ", "I want you to ", "Would you ", "Can you help me ",
    "would you please ", "Kindly ", "Go ahead and ", "Help me ", "You should ", "Let's ",
    "I want to ", "I need to ", "I'd like to ", "I would like to ", "Is it possible to ",
)  # fmt: skip
_QUESTION_STARTS = ("can you", "could you", "would you", "is it possible")
_THANKS = (
    " please", " Thanks!", " Thanks.", " Thank you!", " thx", " Thank you.", ", please", " asap",
    " Cheers.", " Much appreciated.", " Ta!", " now", " when you get a chance", " for me",
    " No rush.", " It's urgent.", " Appreciate it!", " Thanks a lot.", " ty", " thank you", " !",
    " Can you do that?", " That's all.", " Got it?", " Thanks in advance!",
    " pls", " Many thanks!", " if you can", " right away",
)  # fmt: skip
_FILLERS = ("um ", "uh ", "like ", "you know ", "er ", "so ", "well ")
_WORD = re.compile(r"[A-Za-z]{4,}")
_NEIGHBOURS = dict(
    zip("qwertyuiopasdfghjklzxcvbnm", "wertyuiopqsdfghjkla" + "xcvbnmz", strict=True)
)

Change = Callable[[list[Piece], Random], list[Piece]]


def add_noise(clauses: Sequence[Clause], pieces: list[Piece], rng: Random) -> list[Piece]:
    """The pieces of a whole request, changed as people would; values follow where copied."""
    if rng.random() < 0.5:
        pieces = rephrase(pieces, rng)
    if rng.random() < 0.32:
        pieces = be_polite(pieces, rng)
    if rng.random() < 0.13:
        pieces = add_context(pieces, rng)
    if rng.random() < 0.09:
        pieces = make_slips(pieces, rng)
        if rng.random() < 0.3:
            pieces = make_slips(pieces, rng)
    chance = rng.random()
    if chance < 0.1:
        return speak(clauses, pieces, rng)
    if chance < 0.2:
        return lower_everything(clauses, pieces)
    if chance < 0.35:
        pieces = drop_last_mark(pieces)
    elif chance < 0.5:
        pieces = capitalise(pieces)
    return pieces


def be_polite(pieces: list[Piece], rng: Random) -> list[Piece]:
    """A greeting, a polite opening or thanks, where they fit the grammar."""
    first = pieces[0]
    chance = rng.random()
    if first.text.startswith(("- ", "* ", "1")):
        return pieces
    if not first.slot and is_imperative(first.text) and chance < 0.5:
        opening = rng.choice(_ASKING)
        pieces = [replace(first, text=opening + lower_first(first.text)), *pieces[1:]]
        if opening.lower().startswith(_QUESTION_STARTS) and rng.random() < 0.7:
            pieces = _end_with(pieces, "?")
        return pieces
    if chance < 0.75:
        greeting = rng.choice(_GREETINGS)
        text = first.text if first.slot or greeting[-2:-1] in "!:" else lower_first(first.text)
        return [Piece(greeting), replace(first, text=text), *pieces[1:]]
    thanks = rng.choice(_THANKS)
    last = pieces[-1].text.rstrip()
    if thanks[1].isupper() and last[-1:] not in ".?!":
        thanks = "." + thanks
    if not thanks[1].isupper() and last[-1:] in ".?!":
        return pieces
    return [*pieces, Piece(thanks)]


def _end_with(pieces: list[Piece], mark: str) -> list[Piece]:
    last = pieces[-1]
    if last.slot:
        return [*pieces, Piece(mark)]
    if "." in last.text[:-1] or "?" in last.text:
        return pieces
    return [*pieces[:-1], replace(last, text=last.text.rstrip(" .!") + mark)]


def add_context(pieces: list[Piece], rng: Random) -> list[Piece]:
    """A sentence that has nothing to do with the call, before or after it."""
    sentence = context_sentence(rng)
    if rng.random() < 0.7:
        first = pieces[0]
        text = first.text if first.slot else first.text[:1].upper() + first.text[1:]
        return [Piece(sentence + " "), replace(first, text=text), *pieces[1:]]
    closed = pieces[-1].text.rstrip()[-1:] in ".?!"
    return [*pieces, Piece(("" if closed else ".") + " " + sentence)]


def make_slips(pieces: list[Piece], rng: Random) -> list[Piece]:
    """One or two typing slips in words that are no values."""
    places = [
        (index, match)
        for index, piece in enumerate(pieces)
        if not piece.slot
        for match in _WORD.finditer(piece.text)
    ]
    if not places:
        return pieces
    changed = list(pieces)
    index, match = rng.choice(places)
    text = changed[index].text
    slip = _slip(match[0], rng)
    changed[index] = replace(
        changed[index], text=text[: match.start()] + slip + text[match.end() :]
    )
    return changed


def _slip(word: str, rng: Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 2:
        return word[:at] + word[at] + word[at:]
    return word[:at] + _NEIGHBOURS.get(word[at].lower(), word[at]) + word[at + 1 :]


def lower_everything(clauses: Sequence[Clause], pieces: list[Piece]) -> list[Piece]:
    """All in lower case; values that are copied follow."""
    for clause in clauses:
        clause.values = {name: said.lowered() for name, said in clause.values.items()}
    return [replace(piece, text=piece.text.lower()) for piece in pieces]


def speak(clauses: Sequence[Clause], pieces: list[Piece], rng: Random) -> list[Piece]:
    """As a recogniser would write it: lower case, no punctuation, sometimes a filler."""
    # A list is spoken with "and": without its commas it could not be told apart.
    listed = [Piece(" and ", ",") if piece.slot == "," else piece for piece in pieces]
    lowered = lower_everything(clauses, listed)
    spoken = [
        piece if piece.slot else replace(piece, text=_unpunctuated(piece.text)) for piece in lowered
    ]
    if rng.random() < 0.3:
        spoken.insert(0, Piece(rng.choice(_FILLERS)))
    if rng.random() < 0.2:
        spoken = _hesitate(spoken, rng)
    return spoken


def _hesitate(pieces: list[Piece], rng: Random) -> list[Piece]:
    """A filler between two words that are no value."""
    places = [
        (index, match.end())
        for index, piece in enumerate(pieces)
        if not piece.slot
        for match in re.finditer(r"\w ", piece.text)
    ]
    if not places:
        return pieces
    index, at = rng.choice(places)
    text = pieces[index].text
    changed = replace(pieces[index], text=text[:at] + rng.choice(_FILLERS[:2]) + text[at:])
    return [*pieces[:index], changed, *pieces[index + 1 :]]


def _unpunctuated(text: str) -> str:
    return re.sub(r"[.,;:!?\"—]+(?=\s|$)|\n", " ", text).replace("  ", " ")


def drop_last_mark(pieces: list[Piece]) -> list[Piece]:
    last = pieces[-1]
    return pieces if last.slot else [*pieces[:-1], replace(last, text=last.text.rstrip(".?! "))]


def capitalise(pieces: list[Piece]) -> list[Piece]:
    """A capital letter and a full stop, as in careful writing."""
    first = pieces[0]
    if not first.slot:
        pieces = [replace(first, text=first.text[:1].upper() + first.text[1:]), *pieces[1:]]
    if pieces[-1].text.rstrip()[-1:] not in ".?!\"'":
        pieces = [*pieces, Piece(".")]
    return pieces
