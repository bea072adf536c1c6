"""Requests that hold an action back, and requests in other languages with numbers in words.

"Don't set it", "should I set it?", "set it, no wait, never mind": the answer is `none`. What only
sounds like it ("don't forget to set it") is called, and so is what is asked for beside it.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

from training.example import Example, written
from training.frame_types import Frame
from training.frames_parser import parse_text
from training.noise import capitalise, drop_last_mark, lower_everything
from training.offer import offer
from training.sample import Clause, Piece, sample_clause
from training.values import Said
from training.wording import is_imperative, lower_first
from training.world import World, tool_count

_NEGATED = (
    "don't {}", "Please don't {}", "do not {}", "don't {} yet", "please do not {} today",
    "I don't want you to {}", "There is no need to {}", "you shouldn't {}", "never {}",
    "whatever you do, don't {}", "no need to {} now", "I'd rather you didn't {}",
)  # fmt: skip
_WEIGHED = (
    "should I {}?", "I might {} later", "maybe I should {}", "I'm not sure if I should {}",
    "do you think I should {}?", "what happens if I {}?", "I'm wondering whether to {}",
    "would it be a good idea to {}?", "I was going to {} but I don't know", "shall I {}?",
)  # fmt: skip
_TAKEN_BACK = (
    "{}, no wait, never mind", "{}. Never mind.", "{} - actually don't", "{}... forget it",
    "{}. No, don't.", "{}, scratch that", "{}, but not yet", "{} - on second thought, no",
)  # fmt: skip
_WANTED = (
    "don't forget to {}", "please don't forget to {}", "why don't you {}", "could you {}",
    "make sure to {}", "I don't mind the wait, just {}", "no rush, but {}",
    "would you mind if I {}",
)  # fmt: skip
_BESIDE = (", but don't {}", ", and please don't {} yet", ". Don't {}.", " - no need to {} though")
_LOOKS_UP = re.compile(
    r"(?:get|find|search|look|check|show|list|read|fetch|tell|count|calculate|compute|convert|"
    r"compare|describe|explain|translate|track|estimate|what|how|which|who|when|where|is|are)\b",
    re.IGNORECASE,
)
_END = re.compile(r"[.?!\s]+$")


def held(world: World, rng: Random) -> Example | None:
    """An action that is negated, weighed or taken back, now and then beside one that is wanted."""
    clause = sample_clause(world.frame(rng), rng)
    if not _is_action(clause):
        return None
    chance = rng.random()
    if chance < 0.2:
        return _finish(world, rng, [clause], _around(rng.choice(_WANTED), clause), "held_wanted")
    if chance < 0.35:
        others = world.others([clause.frame], 1, rng, most=0.3)
        other = sample_clause(others[0], rng) if others else None
        if other is None or not _is_action(other):
            return None
        after = _around(rng.choice(_BESIDE), other)
        pieces = [*_without_end(clause.pieces), *after]
        return _finish(world, rng, [clause], pieces, "held_beside", unwanted=[other.frame])
    weighed = chance < 0.6 and not _LOOKS_UP.match(clause.text)
    manner = _WEIGHED if weighed else _TAKEN_BACK if chance > 0.8 else _NEGATED
    pieces = _around(rng.choice(manner), clause)
    return _finish(world, rng, [], pieces, "held", unwanted=[clause.frame])


def _is_action(clause: Clause) -> bool:
    first = clause.pieces[0]
    plain = not first.slot and is_imperative(first.text)
    return plain and "n't" not in clause.text and " not " not in clause.text


def _around(manner: str, clause: Clause) -> list[Piece]:
    """The clause's own words inside of a manner of speaking."""
    before, _, after = manner.partition("{}")
    pieces = _without_end(clause.pieces)
    if before:
        pieces = [Piece(lower_first(pieces[0].text)), *pieces[1:]]
    return [Piece(before), *pieces, Piece(after)]


def _without_end(pieces: list[Piece]) -> list[Piece]:
    last = pieces[-1]
    return pieces if last.slot else [*pieces[:-1], Piece(_END.sub("", last.text))]


def _finish(
    world: World,
    rng: Random,
    clauses: list[Clause],
    pieces: list[Piece],
    kind: str,
    *,
    unwanted: list[Frame] | None = None,
) -> Example:
    pieces = [piece for piece in pieces if piece.text]
    chance = rng.random()
    if chance < 0.2:
        pieces = lower_everything(clauses, pieces)
    elif chance < 0.5:
        pieces = capitalise(pieces)
    elif chance < 0.7:
        pieces = drop_last_mark(pieces)
    needed = [(clause.frame, [clause.values]) for clause in clauses]
    needed += [(frame, []) for frame in unwanted or ()]
    styled, offered = offer(world, rng, needed, tool_count(rng, len(needed)))
    calls = [styled[id(clause.frame)].call(clause.values) for clause in clauses]
    source = (clauses[0].frame if clauses else needed[0][0]).source
    parts = [clause.text for clause in clauses]
    return Example(written(pieces), offered, calls, kind, source, parts)


# -- other languages -------------------------------------------------------------------------------

_TOOLS = """
domain rooms_and_clocks

tool set_heating | Set the temperature of the heating.
  degrees* int 5..30 | Degrees Celsius
> set the heating to {degrees} degrees

tool start_timer | Start a countdown timer.
  minutes* int 2..90 | Minutes
> start a timer for {minutes} minutes

tool set_volume | Set the volume of the speaker.
  percent* int 2..99 | Volume in percent
> set the volume to {percent} percent

tool dim_lights | Dim the lights.
  percent* int 2..99 | Brightness in percent
> dim the lights to {percent} percent
"""
_ASKED: dict[str, dict[str, tuple[str, ...]]] = {
    "de": {
        "set_heating": ("Stell die Heizung auf {} Grad", "{} Grad bitte", "mach es {} Grad warm"),
        "start_timer": ("Stell einen Timer auf {} Minuten", "Timer für {} Minuten"),
        "set_volume": ("Lautstärke auf {} Prozent", "mach die Musik auf {} Prozent"),
        "dim_lights": ("Dimm das Licht auf {} Prozent", "Licht auf {} Prozent bitte"),
    },
    "fr": {
        "set_heating": ("Mets le chauffage à {} degrés", "{} degrés s'il te plaît"),
        "start_timer": ("Lance un minuteur de {} minutes", "minuteur {} minutes"),
        "set_volume": ("Mets le volume à {} pour cent", "volume à {} pour cent"),
        "dim_lights": ("Baisse la lumière à {} pour cent", "lumière à {} pour cent"),
    },
    "es": {
        "set_heating": ("Pon la calefacción a {} grados", "{} grados por favor"),
        "start_timer": ("Pon un temporizador de {} minutos", "temporizador de {} minutos"),
        "set_volume": ("Pon el volumen al {} por ciento", "volumen al {} por ciento"),
        "dim_lights": ("Baja las luces al {} por ciento", "luces al {} por ciento"),
    },
    "it": {
        "set_heating": ("Imposta il riscaldamento a {} gradi", "{} gradi per favore"),
        "start_timer": ("Imposta un timer di {} minuti", "timer di {} minuti"),
        "set_volume": ("Volume al {} per cento", "metti il volume al {} per cento"),
        "dim_lights": ("Abbassa le luci al {} per cento", "luci al {} per cento"),
    },
}  # fmt: skip
_WORDS = {
    "de": ("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
           "sechzehn siebzehn achtzehn neunzehn",
           "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"),
    "fr": ("deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize "
           "dix-sept dix-huit dix-neuf", "vingt trente quarante cinquante soixante"),
    "es": ("dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
           "dieciséis diecisiete dieciocho diecinueve",
           "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa"),
    "it": ("due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici "
           "quindici sedici diciassette diciotto diciannove",
           "venti trenta quaranta cinquanta sessanta settanta ottanta novanta"),
}  # fmt: skip
LANGUAGES = tuple(_ASKED)


def in_words_of(number: int, language: str) -> str:
    """25 in German is "fünfundzwanzig"; for what it cannot say (French from 70), the digits."""
    small, tens = (each.split() for each in _WORDS[language])
    if 2 <= number < 20:
        return small[number - 2]
    ten, unit = divmod(number, 10)
    if not (20 <= number < 100 and ten - 2 < len(tens)):
        return str(number)
    word = tens[ten - 2]
    if not unit:
        return word
    one = {"de": "ein", "fr": "un", "es": "uno", "it": "uno"}[language]
    one = one if unit == 1 else small[unit - 2]
    if language == "de":
        return f"{one}und{word}"
    if language == "fr":
        return f"{word} et un" if unit == 1 else f"{word}-{one}"
    if language == "it":
        return (word[:-1] if one[0] in "uo" else word) + ("tré" if one == "tre" else one)
    accents = {"dos": "dós", "tres": "trés", "seis": "séis"}
    return f"veinti{accents.get(one, one)}" if ten == 2 else f"{word} y {one}"


@cache
def _frames() -> tuple[Frame, ...]:
    return tuple(parse_text(_TOOLS, "other languages").frames)


def elsewhere(world: World, rng: Random) -> Example | None:
    """A short order of a home in German, French, Spanish or Italian, its number in words."""
    language, frame = rng.choice(LANGUAGES), rng.choice(_frames())
    (name,) = frame.parameters
    number = rng.randint(2, 30 if name == "degrees" else 90)
    before, _, after = rng.choice(_ASKED[language][frame.name]).partition("{}")
    said = in_words_of(number, language) if rng.random() < 0.8 else str(number)
    pieces = [Piece(before), Piece(said, name), Piece(after)]
    clause = Clause(frame, [piece for piece in pieces if piece.text], {name: Said(number, said)})
    others = [other for other in _frames() if other is not frame]
    pieces = clause.pieces if rng.random() < 0.5 else lower_everything([clause], clause.pieces)
    count = rng.randint(0, len(others))
    needed = [(frame, [clause.values])]
    styled, offered = offer(world, rng, needed, count + 1, others=rng.sample(others, count))
    call = styled[id(frame)].call(clause.values)
    return Example(written(pieces), offered, [call], "elsewhere", "frames", [clause.text])
