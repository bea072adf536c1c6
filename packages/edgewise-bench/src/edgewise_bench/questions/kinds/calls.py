"""Requests for function calls with the right calls: for a function model nobody has calibrated.

Tools, sentences and values are drawn for each row. Some rows ask for two things, and of some the
tool that would serve is not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from edgewise.calibrate.rows import Call, LabelledCall
from edgewise.types.messages import Tool

ROWS = 240  # unless fewer are asked for
MOST_OTHERS = 5  # tools beside the right ones
TWO_EVERY, NONE_EVERY = 4, 6  # rows that ask for two things, and for what no tool does
_TRIES = 20  # for a row that differs from all before

_VALUES: Mapping[str, tuple[Any, ...]] = {
    "place": ("Oslo", "Lisbon", "Nairobi", "Toronto", "Kyoto", "Lima", "Graz", "Cork", "Pune"),
    "other_place": ("Bergen", "Porto", "Mombasa", "Ottawa", "Osaka", "Cusco", "Linz", "Galway"),
    "person": ("Anna", "Marcus", "Priya", "Tomoko", "Diego", "Fatima", "Henrik", "Zoe"),
    "message": ("I am on my way", "the keys are at the desk", "dinner is ready", "call me later"),
    "few": tuple(range(2, 10)),
    "minutes": (3, 5, 8, 12, 15, 20, 25, 40, 45, 90),
    "hour": tuple(range(5, 12)),
    "percent": (10, 25, 30, 40, 60, 75, 80),
    "degrees": (17, 18, 19, 20, 21, 22, 23),
    "amount": (15, 20, 40, 75, 120, 250),
    "room": ("kitchen", "bedroom", "office", "hall", "garage"),
    "song": ("Blue Moon", "Hallelujah", "Yesterday", "Clair de Lune", "So What"),
    "thing": ("oat milk", "batteries", "bin bags", "green tea", "rye bread", "soap"),
    "word": ("bread", "window", "thank you", "good night", "station"),
    "language": ("German", "Spanish", "Japanese", "Swahili", "French"),
    "currency": ("EUR", "USD", "GBP", "JPY"),
    "other_currency": ("CHF", "SEK", "CAD", "INR"),
    "company": ("Acme", "Globex", "Initech", "Umbrella", "Hooli"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A tool, and sentences that ask for it. An argument `{name}` is the value drawn for it."""

    tool: Tool
    sentences: tuple[str, ...]
    arguments: Mapping[str, Any]

    def row(self, draw: Random) -> tuple[str, Call]:
        values = {name: draw.choice(options) for name, options in _VALUES.items()}
        given = {
            name: values[spec[1:-1]] if isinstance(spec, str) and spec[:1] == "{" else spec
            for name, spec in self.arguments.items()
        }
        return draw.choice(self.sentences).format(**values), (self.tool.name, given)


def _kind(tool: str, about: str, fields: str, /, *sentences: str, **arguments: Any) -> Kind:
    """`fields` are lines `name type: description`; all of them are required."""
    properties: dict[str, Any] = {}
    for line in filter(None, map(str.strip, fields.splitlines())):
        head, _, description = line.partition(": ")
        field, kind = head.split()
        properties[field] = {"type": kind, "description": description}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Kind(Tool(tool, about, schema), sentences, arguments)


# fmt: off
KINDS = (
    _kind("get_forecast", "Get the weather forecast of a city", "city string: Name of the city",
          "What's the weather in {place}?", "Will it rain in {place}",
          "Forecast for {place}, please", city="{place}"),
    _kind("start_timer", "Start a countdown", "minutes integer: Length in minutes",
          "Set a timer for {minutes} minutes", "Count down {minutes} minutes",
          "{minutes} minutes on the timer, please", minutes="{minutes}"),
    _kind("send_text", "Send a text message to a person",
          "recipient string: Who gets it\nbody string: What it says",
          "Text {person} that {message}", "Send {person} a message saying {message}",
          "Message {person}: {message}", recipient="{person}", body="{message}"),
    _kind("set_brightness", "Dim or brighten the lights of a room",
          "room string: Name of the room\nlevel integer: Brightness in percent",
          "Dim the {room} lights to {percent} percent", "Set the {room} to {percent}% brightness",
          "Bring the lights in the {room} to {percent} percent", room="{room}", level="{percent}"),
    _kind("set_temperature", "Set the heating of a room",
          "room string: Name of the room\ndegrees integer: Degrees Celsius",
          "Heat the {room} to {degrees} degrees", "Set the {room} to {degrees} degrees",
          "Make it {degrees} degrees in the {room}", room="{room}", degrees="{degrees}"),
    _kind("play_song", "Play a song by its title", "title string: Title of the song",
          "Play {song}", "I want to hear {song}", "Put on {song}, please", title="{song}"),
    _kind("add_to_list", "Put an item on the shopping list", "item string: What to buy",
          "Add {thing} to my shopping list", "We need {thing}, put it on the list",
          "Put {thing} on the shopping list", item="{thing}"),
    _kind("translate_word", "Translate a word or phrase into another language",
          "text string: What to translate\nlanguage string: Into which language",
          "How do you say {word} in {language}?", "Translate {word} into {language}",
          "What is {word} in {language}", text="{word}", language="{language}"),
    _kind("convert_money", "Convert an amount between currencies",
          "amount number: How much\nsource string: Code of the currency it is in\n"
          "target string: Code of the currency wanted",
          "Convert {amount} {currency} to {other_currency}",
          "How much is {amount} {currency} in {other_currency}?",
          amount="{amount}", source="{currency}", target="{other_currency}"),
    _kind("find_route", "Find the way between two places",
          "origin string: Where it begins\ndestination string: Where it ends",
          "How do I get from {place} to {other_place}?", "Route from {place} to {other_place}",
          "Directions from {place} to {other_place}, please",
          origin="{place}", destination="{other_place}"),
    _kind("book_table", "Reserve a table in a restaurant",
          "people integer: How many come\nhour integer: Hour of the day, 0 to 23",
          "Book a table for {few} at {hour} am", "A table for {few} people at {hour} am, please",
          people="{few}", hour="{hour}"),
    _kind("get_stock_price", "Get the price of a company's stock", "company string: Its name",
          "What is {company} trading at?", "Stock price of {company}",
          "How much is a share of {company}?", company="{company}"),
    _kind("roll_dice", "Roll some dice", "count integer: How many",
          "Roll {few} dice", "Throw {few} dice for me", count="{few}"),
    _kind("call_person", "Call a person on the phone", "name string: Who is called",
          "Call {person}", "Ring {person}, please", "Get {person} on the phone", name="{person}"),
)
# fmt: on


def make_builtin_calls(seed: int = 0, most: int | None = None) -> tuple[LabelledCall, ...]:
    """At most so many rows, all different; kinds take turns. The same seed makes the same rows."""
    draw = Random(seed)
    found: dict[str, LabelledCall] = {}
    for number in range(ROWS if most is None else most):
        for _ in range(_TRIES):
            row = _row(draw, number)
            if row.prompt not in found:
                found[row.prompt] = row
                break
    return tuple(found.values())


def _row(draw: Random, number: int) -> LabelledCall:
    first = KINDS[number % len(KINDS)]
    others = [kind for kind in KINDS if kind is not first]
    draw.shuffle(others)
    asked = [first, others.pop()] if number % TWO_EVERY == TWO_EVERY - 1 else [first]
    rows = [kind.row(draw) for kind in asked]
    texts = [text.rstrip("?") if place + 1 < len(rows) else text
             for place, (text, _) in enumerate(rows)]  # fmt: skip
    prompt = " and ".join(text if not place else text[0].lower() + text[1:]
                          for place, text in enumerate(texts))  # fmt: skip
    offered = [kind.tool for kind in others[: draw.randint(1, MOST_OTHERS)]]
    if len(asked) == 1 and number % NONE_EVERY == NONE_EVERY - 1:
        return LabelledCall(prompt, tuple(offered), ())
    offered += [kind.tool for kind in asked]
    draw.shuffle(offered)
    return LabelledCall(prompt, tuple(offered), tuple(call for _, call in rows))
