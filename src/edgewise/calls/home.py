"""A home in words: its list of devices and rooms, and calls whose targets are taken from it.

The list comes as a table of the context, or in a system prompt as Home Assistant writes it. Tools
with `name`, `area` and `domain` get these from the list: a device that it does not have is asked
for. English words, and the domains and device classes that Home Assistant publishes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.calls.intents import AUXILIARY, DETERMINERS, FILLERS, PERSONS, PREPOSITIONS
from edgewise.calls.schema import parameters
from edgewise.calls.values.numbers import ONES, TENS, whole
from edgewise.calls.values.text import read_request
from edgewise.calls.values.words import fold, name_words, stem, word_set, words
from edgewise.types.messages import Context, Tool, ToolCall

MOST_ENTITIES = 2_000  # that are read
MOST_TOLD = 12  # rows that the function model reads: those that the request may be about
MOST_TOOLS = 6  # of a home that has many, offered to the function model
FEW_TOOLS = 12  # are offered as they are
LONGEST_PROMPT = 400_000  # characters of a system prompt that are read
_CLASS_NAMES = frozenset({"device_class", "deviceclass"})
WHERE = ("name", "area", "floor", "domain", "device_class")
_ITEM = re.compile(r"^(\s*)- +names?: *(.*)$")
_FIELD = re.compile(r"^(\s+)(\w+): *(.*)$")
_HERE = re.compile(r"You are in area (.+?)(?: \(floor .+?\))? and all generic commands")

# What people call the kinds of devices. Device classes have their own words besides these.
_NOUNS = {
    "light": "light lights lamp lamps lighting bulb bulbs illuminate brightness",
    "fan": "fan fans",
    "switch": "switch switches outlet outlets socket sockets",
    "lock": "lock locks door doors",
    "climate": "thermostat thermostats heating",
    "media_player": "tv television speaker speakers",
    "vacuum": "vacuum vacuums",
    "scene": "scene scenes",
    "script": "script scripts",
    "valve": "valve valves",
    "person": "anyone anybody someone somebody everyone everybody nobody",
}
_COVERS = {
    "awning": "awning", "blind": "blind", "curtain": "curtain drape", "damper": "damper",
    "garage": "garage", "gate": "gate", "shade": "shade", "shutter": "shutter", "window": "window",
}  # fmt: skip
# What a binary sensor of each class reports: words for "on", and words for "off".
_REPORTS = {
    "battery": ("low empty", "normal charged full"),
    "battery_charging": ("charging", "discharging"),
    "carbon_monoxide": ("detected triggered", "clear"),
    "cold": ("cold freezing", "normal"),
    "connectivity": ("connected online", "disconnected offline"),
    "door": ("open opened", "closed shut"),
    "garage_door": ("open opened", "closed shut"),
    "gas": ("detected triggered", "clear"),
    "heat": ("hot overheating", "normal"),
    "light": ("detected", "dark"),
    "lock": ("unlocked", "locked"),
    "moisture": ("wet leaking leak flooded damp", "dry"),
    "motion": ("detected triggered moving", "clear"),
    "moving": ("moving", "stopped still"),
    "occupancy": ("occupied detected", "clear empty"),
    "opening": ("open opened", "closed shut"),
    "plug": ("plugged", "unplugged"),
    "power": ("powered", "unpowered"),
    "presence": ("home present", "away"),
    "problem": ("problem problems wrong", "ok okay fine"),
    "running": ("running", "stopped"),
    "safety": ("unsafe dangerous", "safe"),
    "smoke": ("detected triggered", "clear"),
    "sound": ("detected triggered", "clear quiet"),
    "tamper": ("tampered tampering", "clear"),
    "update": ("update updates", "current"),
    "vibration": ("vibrating detected", "still"),
    "window": ("open opened", "closed shut"),
}
_STATES = {
    "cover": {"open": "open opened", "closed": "closed shut", "opening": "opening",
              "closing": "closing"},
    "valve": {"open": "open opened", "closed": "closed shut"},
    "lock": {"locked": "locked", "unlocked": "unlocked"},
    "person": {"home": "home", "not_home": "away"},
    "media_player": {"playing": "playing", "paused": "paused", "on": "on", "off": "off"},
    "vacuum": {"cleaning": "cleaning", "docked": "docked"},
}  # fmt: skip
_ON_OFF = {"on": "on", "off": "off"}
_CLASS_WORDS = {
    "battery_charging": "battery", "carbon_monoxide": "co", "carbon_dioxide": "co2",
    "moisture": "water leak", "garage_door": "garage", "aqi": "air quality",
    "connectivity": "device", "opening": "door", "heat": "thing", "cold": "thing",
}  # fmt: skip
# Tools of a home are known by the words in their names; these say which devices they are for.
_FOR = {
    "light": ("light",), "climate": ("climate",), "media": ("media_player",),
    "volume": ("media_player",), "vacuum": ("vacuum",), "list": ("todo",),
    "weather": ("weather",), "position": ("cover", "valve"),
}  # fmt: skip
# Home Assistant's intents: what each does in the words that people ask with, and its slots. A star
# marks those that are required.
_WHERE = "name area floor domain device_class"
_TIMER = "start_hours start_minutes start_seconds name area"
_LENGTH = "hours minutes seconds"
_INTENTS = {
    "HassTurnOn": (
        "Turn or switch devices on, light up, open covers and valves, lock locks, run scenes, "
        "scripts", _WHERE),
    "HassTurnOff": ("Turn or switch devices off, close covers and valves, unlock locks", _WHERE),
    "HassGetState": (
        "Look up or check how devices are: open, closed, locked, on, low, wet; "
        "what sensors measure; where people are", f"{_WHERE} state"),
    "HassLightSet": (
        "Change the brightness of lights in percent, or their color",
        "name area floor brightness color"),
    "HassSetPosition": (
        "Move a blind, curtain, other cover or valve to a percentage", f"{_WHERE} position*"),
    "HassClimateSetTemperature": (
        "Set a thermostat: how many degrees it shall be", "name area floor temperature*"),
    "HassClimateGetTemperature": (
        "How warm, hot or cold it is in a room: the temperature indoors", "name area floor"),
    "HassMediaPause": ("Pause what is playing", "name area"),
    "HassMediaUnpause": ("Resume, unpause or continue what was playing", "name area"),
    "HassMediaNext": ("Skip to the next song, track or item", "name area"),
    "HassMediaPrevious": (
        "Go back to the previous or last song or track, replay it", "name area"),
    "HassSetVolume": (
        "Set how loud a player is: its volume in percent", "name area volume_level*"),
    "HassMediaSearchAndPlay": (
        "Play music, an album, artist, playlist, film or show by its name",
        "name area search_query* media_class"),
    "HassVacuumStart": ("Start a robot vacuum: clean a room", "name area floor"),
    "HassVacuumReturnToBase": ("Send a robot vacuum back to its base", "name area"),
    "HassStartTimer": (
        "Set or start a new timer for hours, minutes or seconds", f"{_LENGTH} name"),
    "HassCancelTimer": ("Cancel or stop one timer", _TIMER),
    "HassCancelAllTimers": ("Cancel or stop all timers", "area"),
    "HassIncreaseTimer": ("Add time to a running timer", f"{_LENGTH} {_TIMER}"),
    "HassDecreaseTimer": (
        "Take time off or remove time from a running timer", f"{_LENGTH} {_TIMER}"),
    "HassPauseTimer": ("Pause a running timer", _TIMER),
    "HassUnpauseTimer": ("Resume or continue a paused timer", _TIMER),
    "HassTimerStatus": ("How much time is left on a timer: its status", _TIMER),
    "HassShoppingListAddItem": ("Add an item to the shopping list", "item*"),
    "HassShoppingListCompleteItem": (
        "Check off, complete or delete an item of the shopping list", "item*"),
    "HassListAddItem": ("Put an item on a to-do list that is named", "item* name*"),
    "HassListCompleteItem": (
        "Check off, complete or delete an item of a to-do list that is named", "item* name*"),
    "HassGetWeather": ("Gets the current weather", "name"),
    "HassGetCurrentDate": ("Gets the current date", ""),
    "HassGetCurrentTime": ("Gets the current time", ""),
    "HassBroadcast": ("Announce or broadcast a message on all speakers", "message*"),
    "HassNevermind": ("Nothing is to be done after all: never mind, forget it", ""),
    "HassRespond": ("Greetings and questions about the assistant itself", "response"),
}  # fmt: skip
_SLOTS = {
    "name": "Name of a device or entity",
    "area": "Name of an area",
    "floor": "Name of a floor",
    "domain": "Kind of device, such as light or cover",
    "device_class": "Finer kind, such as window or curtain",
    "state": "State asked about",
    "brightness": "Percent of full brightness, 0 to 100",
    "color": "Name of a color",
    "position": "How far open in percent: 0 is closed, 100 is open",
    "temperature": "Degrees wanted",
    "volume_level": "Volume in percent, 0 to 100",
    "search_query": "Media to search for and play",
    "media_class": "Sort of media: album, artist, playlist, movie, track",
    "item": "Item of the list",
    "message": "Message to announce",
}
_WHOLE = frozenset(f"{_LENGTH} start_hours start_minutes start_seconds brightness position "
                   "volume_level".split())  # fmt: skip
_PARTS = {"hours": 3600, "minutes": 60, "seconds": 1}
_TIMER_AFTER = re.compile(r"[ -]*timers?\b", re.IGNORECASE)
_TIMER_BEFORE = re.compile(r"\btimers?(?: set)?(?: for| of)? *$", re.IGNORECASE)
_TIMER_NAME = re.compile(r"\b([^\W\d_]+) timers?\b", re.IGNORECASE)
_NO_NAME = word_set(
    """a an the my our your this that all every each any set start create make begin new stop cancel
    delete remove clear pause resume continue unpause restart status of on off from to for by add
    take increase decrease extend hour minute second hours minutes seconds kitchen timer timers"""
)
_ACTS = word_set("HassTurnOn HassTurnOff HassLightSet HassSetPosition HassVacuumStart")
_QUESTION = re.compile(
    r"(?:is|are|was|were|which|what|what's|how|where|when|who|do|does|did|any|has|have)\b",
    re.IGNORECASE,
)
_PLAY = re.compile(r"(?:please )?(?:play|put on|listen to) (.+?)[.!]?", re.IGNORECASE)
_SORTS = "album|artist|playlist|track|song|movie|podcast|channel|genre"
_SORT_LAST = re.compile(rf"(?:the )?(?P<what>.+) (?P<sort>{_SORTS})", re.IGNORECASE)
_SORT_FIRST = re.compile(rf"(?:the )?(?P<sort>{_SORTS}) (?P<what>.+)", re.IGNORECASE)
_PERCENT = re.compile(r"\d ?%|\bpercent\b", re.IGNORECASE)
_BRIGHT = word_set(
    """bright brightness brighter dim dimmer darker maximum max minimum min full half percent color
    colour red orange yellow green blue purple violet pink white cyan turquoise teal magenta gold
    brown black warm cold"""
)
_AMOUNTS = ("brightness", "position", "volume_level", "temperature")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_HOW_MUCH = {100: "maximum max highest full brightest", 50: "half", 1: "minimum min lowest dimmest"}
_REPORTING = frozenset({"sensor", "binary_sensor", "weather", "person", "todo", "calendar"})
_PLURAL = ("names", "areas", "aliases")
_SEVERAL = word_set("all every each any which many")
_EVERY = _SEVERAL | word_set("everything everywhere house home apartment")
# Kinds that let somebody in, or move what is heavy: only those that are named are acted on.
_GUARDED = frozenset({"lock", "cover", "valve", "alarm_control_panel"})
# Covers that let nobody in: all of them move where all are asked for, in so many words.
_SHADES = frozenset({"awning", "blind", "curtain", "shade", "shutter"})
_NUMBERS = frozenset({*ONES, *TENS, "hundred"})
_ALL = word_set("all every each everything everywhere")
# Besides the words of requests in general: what may be said of a kind without naming one of it.
_VERBS = word_set(
    """turn switch set put make sure light illuminate activate deactivate open close shut lock
    unlock raise lower dim brighten start stop enable disable power kill flip change adjust increase
    decrease reduce bring roll move pull draw leave keep"""
)
_PLAIN = (
    (FILLERS | DETERMINERS | PREPOSITIONS | AUXILIARY | PERSONS | _EVERY | _BRIGHT | _VERBS)
    | word_set(
        """entire whole single place flat room area everywhere here there of be want need like
        tonight today morning evening night noon midnight minute second hour percent degree level
        position space across throughout highest lowest asap immediately again bit little more less
        completely fully half way"""
    )
) - {"light"}
_PLAIN_STEMS = frozenset(map(stem, _PLAIN))
# A name does not reach beyond these. "Back" begins one ("the back door"), "two" means some of all.
_BORDERS = (DETERMINERS | PREPOSITIONS | word_set("and of")) - word_set(
    "back two three four five six seven eight nine ten"
)
# What tells one of several from the others, and what says to what a thing belongs.
_ORDINALS = word_set(
    "first second third fourth fifth last next previous other another left right upper lower"
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_BELONGS = word_set("of in behind near beside outside inside")
_NUMBERED = word_set("room number no zone")
_UNITS = word_set("percent per degrees degree")
_REASONS = word_set("and because when if so then but while before after until since for as")
_LITTLE = word_set("the a an my our your of in on at to is are and please it")
# "All but the attic" names what is not meant, and no call can say so.
_LEAVES_OUT = re.compile(
    r"\b(?:except|excluding|excepting|besides|without|apart from|aside from|other than|"
    r"(?:all|every\w*|each|lights)\b.*\bbut)\b",
    re.IGNORECASE,
)
_HERE_WORDS = ("in here", "in this room", "over here", " here ", "this room")


@dataclass(frozen=True, slots=True)
class Entity:
    """One row of the list. The first name is the one that calls use; so is the first area."""

    names: tuple[str, ...]
    domain: str = ""
    areas: tuple[str, ...] = ()
    kind: str = ""  # its device class

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def area(self) -> str:
        return self.areas[0] if self.areas else ""


@dataclass(frozen=True, slots=True)
class Mention:
    """A listed name in the request: words `start` to `end`."""

    said: str
    start: int
    end: int

    def inside(self, other: Mention) -> bool:
        return other.start <= self.start and self.end <= other.end

    def shorter(self, other: Mention) -> bool:
        return self.inside(other) and not other.inside(self)


@dataclass(frozen=True, slots=True)
class Home:
    """The devices, the floor of each area, and where the speaker is, if that is known."""

    entities: tuple[Entity, ...]
    floors: Mapping[str, str] = field(default_factory=dict)
    here: str = ""

    def told(self, text: str) -> dict[str, Any]:
        """The rows that a request may be about, as the function model reads them."""
        asked = {stem(word) for word in words(text)} - _LITTLE
        ranked = sorted(self.entities, key=lambda one: -_shared(one, asked))
        rows = [one for one in ranked if _shared(one, asked)][:MOST_TOLD] or ranked[:MOST_TOLD]
        table = [
            {"name": one.name, "domain": one.domain, "area": one.area}
            | ({"class": one.kind} if one.kind else {})
            for one in rows
        ]
        areas = [
            {"name": area, "floor": floor} if floor else {"name": area}
            for area, floor in self.floors.items()
        ]
        facts: dict[str, Any] = {"entities": table, "areas": areas[: 2 * MOST_TOLD]}
        return {**facts, "area": self.here} if self.here else facts


def read_home(context: Context, prompts: Iterable[str] = ()) -> Home | None:
    """The home of a context's tables, or else of the first system prompt that lists one."""
    rows = [row for table in _tables(context) for row in table if _is_entity(row)]
    here = context.get("area")
    here = here if isinstance(here, str) else ""
    if not rows:
        for prompt in prompts:
            rows = list(read_overview(prompt))
            if rows:
                found = _HERE.search(prompt)
                here = here or (found[1] if found else "")
                break
    entities = tuple(one for row in rows[:MOST_ENTITIES] if (one := _entity(row)) is not None)
    if not entities:
        return None
    floors = {area: "" for one in entities for area in one.areas}
    for row in (row for table in _tables(context) for row in table):
        area = row.get("area") if _is_entity(row) else row.get("name")
        if isinstance(area, str) and isinstance(row.get("floor"), str):
            floors[area] = row["floor"]
        elif isinstance(area, str) and area and not _is_entity(row):
            floors.setdefault(area, "")
    return Home(entities, floors, here)


def home_facts(text: str) -> dict[str, Any]:
    """The facts in a file about a home. Raises ValueError where it lists no device.

    JSON (an object of tables, a list of rows, or what Home Assistant's `/api/states` returns), or
    a list `- names: …` as Home Assistant writes it into prompts.
    """
    try:
        found = json.loads(text)
    except ValueError:
        found = list(read_overview(text))
    facts = {"entities": found} if isinstance(found, list) else found
    if not isinstance(facts, dict) or read_home(facts) is None:
        raise ValueError("it lists no device: a row needs a name and a domain")
    return facts


def read_overview(prompt: str) -> Iterator[dict[str, str]]:
    """The rows of a list `- names: …` with indented fields, as Home Assistant writes it.

    YAML, but only as much of it as such a list has: names may be quoted, attributes are nested,
    and a long value may go on in the next line.
    """
    row: dict[str, str] = {}
    last = ""
    for line in prompt[:LONGEST_PROMPT].splitlines():
        item, more = _ITEM.match(line), _FIELD.match(line)
        if item:
            if row:
                yield row
            row, last = {"names": _unquoted(item[2])}, "names"
        elif row and more:
            last = more[2]
            row[last] = _unquoted(more[3])
        elif row and line.startswith("  ") and line.strip() and last:
            row[last] = _unquoted(f"{row[last]} {line.strip()}")
        elif row:
            yield row
            row, last = {}, ""
    if row:
        yield row


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1]
    return text


def _tables(context: Context) -> Iterator[Sequence[Mapping[str, Any]]]:
    for value in context.values():
        if isinstance(value, list | tuple):
            yield [row for row in value if isinstance(row, Mapping)]


def _is_entity(row: Mapping[str, Any]) -> bool:
    return bool(_names(row)) and bool(_texts(row, "domain", "entity_id"))


def _names(row: Mapping[str, Any]) -> tuple[str, ...]:
    attributes = row.get("attributes")
    more = attributes if isinstance(attributes, Mapping) else {}
    return _texts(row, "names", "name") or _texts(more, "friendly_name")


def _entity(row: Mapping[str, Any]) -> Entity | None:
    names = _names(row) + _texts(row, "aliases")
    domain = "".join(_texts(row, "domain")[:1])
    domain = domain or "".join(_texts(row, "entity_id")[:1]).partition(".")[0]
    attributes = row.get("attributes")
    more = attributes if isinstance(attributes, Mapping) else {}
    kind = "".join((_texts(row, "device_class", "class") or _texts(more, "device_class"))[:1])
    areas = _texts(row, "areas", "area")
    return Entity(names, domain, areas, kind) if names else None


def _texts(row: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    """The texts of the first of these columns that says something; commas part several."""
    for key in keys:
        value = row.get(key)
        parts = value
        if isinstance(value, str):
            parts = value.split(",") if key in _PLURAL else [value]
        if isinstance(parts, list | tuple):
            found = tuple(part.strip() for part in parts if isinstance(part, str) and part.strip())
            if found:
                return found
    return ()


def _shared(one: Entity, asked: set[str]) -> int:
    """How many words of a request a row has; those of the name count twice."""
    named = {stem(word) for name in one.names for word in words(name)} - _LITTLE
    kinds = {stem(word) for word in _kind_words(one.domain, one.kind)}
    placed = {stem(word) for area in one.areas for word in words(area)}
    return 2 * len(named & asked) + len(kinds & asked) + len(placed & asked)


def _kind_words(domain: str, kind: str) -> set[str]:
    """What people call a domain, or a device class of it."""
    if domain == "cover":
        return set(_COVERS.get(kind, "cover").split())
    if domain in ("sensor", "binary_sensor"):
        return {*kind.split("_"), *_CLASS_WORDS.get(kind, "").split()} - {""}
    return set(_NOUNS.get(domain, domain.replace("_", " ")).split())


# --- one call -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    """What the words of a request say about a home."""

    text: str
    stems: tuple[str, ...]
    entities: tuple[tuple[Entity, Mention], ...]
    areas: tuple[Mention, ...]
    floors: tuple[Mention, ...]

    def has(self, listed: Iterable[str]) -> bool:
        return any(stem(word) in self.stems for word in listed)


def take_from_list(call: ToolCall, tool: Tool, home: Home, text: str) -> ToolCall:
    """The call with its target as the list has it: a device by name, or a kind in an area.

    What the list does not have is dropped. Every change is a repair `home:ARGUMENT`.
    """
    fields, written = parameters(tool.parameters), call.arguments
    if _is_timer(tool):
        arguments = _timed(call, fields, text)
    elif is_for_home(tool):
        said = _read(home, text)
        call = replace(call, arguments=_media(call.arguments, fields, said))
        meant = _target(call, tool, home, said)
        found = {
            name: fitting
            for name, value in meant.items()
            if name in fields and value and (fitting := _shaped(value, fields[name])) is not None
        }
        theirs = (*WHERE, "state") if found.get("state") else WHERE
        kept = {name: value for name, value in call.arguments.items() if name not in theirs}
        arguments = {**found, **_amounts(kept, fields, said)}
    else:
        return call
    changed = [
        name
        for name in dict.fromkeys((*written, *arguments))
        if arguments.get(name) != written.get(name)
    ]
    repairs = (*call.repairs, *(f"home:{name}" for name in changed))
    return replace(call, arguments=arguments, repairs=repairs)


def _shaped(value: str, schema: Any) -> Any:
    """A text as the schema wants it, alone or in a list; None if it is not among its choices."""
    known = schema if isinstance(schema, Mapping) else {}
    items = known.get("items")
    several = known.get("type") == "array"
    choices = (items if several and isinstance(items, Mapping) else known).get("enum")
    if isinstance(choices, list | tuple) and value not in choices:
        return None
    return [value] if several else value


def offered_in(home: Home, tools: Sequence[Tool], texts: Iterable[str]) -> list[Tool]:
    """The tools that a part of a request to a home may mean, described in everyday words."""
    meant = {tool.name for text in texts for tool in _meant(home, tools, text)}
    return explained([tool for tool in tools if tool.name in meant] or tools)


def _meant(home: Home, tools: Sequence[Tool], text: str) -> Sequence[Tool]:
    """The tools for one wish.

    A question switches nothing, and one about a listed device is for tools that look it up. A
    percentage is set, not switched on; lights are set only to a brightness or a color.
    """
    said, asks = _read(home, text), _QUESTION.match(text) is not None
    left_out: set[str] = set(_ACTS) if asks else set()
    if _PERCENT.search(text):
        left_out |= {"HassTurnOn", "HassTurnOff"}
    elif not _NUMBER.search(text) and not said.has(_BRIGHT):
        left_out.add("HassLightSet")
    kept = [tool for tool in tools if _intent(tool) not in left_out]
    about = {one.domain for one, _ in said.entities}
    if asks and about:
        kept = [tool for tool in kept if is_for_home(tool) and _serves(tool, about)] or kept
    return kept or tools


def _intent(tool: Tool) -> str:
    """A tool's name without the API that it is of: `assist__HassTurnOn`."""
    return tool.name.rpartition("__")[2]


def _serves(tool: Tool, domains: set[str]) -> bool:
    only = next((_FOR[word] for word in name_words(tool.name) if word in _FOR), ())
    return not only or not domains.isdisjoint(only)


def explained(tools: Sequence[Tool]) -> list[Tool]:
    """The tools, those of Home Assistant described in the words that people ask with."""
    known = {name: meaning for name, (meaning, _) in _INTENTS.items()}
    return [replace(tool, description=known.get(_intent(tool), tool.description)) for tool in tools]


def intent_tools(*, leave_out: Collection[str] = ()) -> tuple[Tool, ...]:
    """Home Assistant's built-in intents as tools, for whoever is not told of any."""
    return tuple(
        Tool(name, meaning, _schema(slots.split()))
        for name, (meaning, slots) in _INTENTS.items()
        if name not in leave_out
    )


def _schema(slots: Sequence[str]) -> dict[str, Any]:
    properties = {}
    for name in (slot.rstrip("*") for slot in slots):
        kind = "integer" if name in _WHOLE else "number" if name == "temperature" else "string"
        words = _SLOTS.get(name, "")
        properties[name] = {"type": kind, **({"description": words} if words else {})}
    required = [slot.rstrip("*") for slot in slots if slot.endswith("*")]
    return {"type": "object", "properties": properties, "required": required}


def is_for_home(tool: Tool) -> bool:
    """Whether a tool's target is a device: it has a name, and an area, a domain or a known kind."""
    fields, named = parameters(tool.parameters), name_words(tool.name)
    if _is_timer(tool):
        return False
    return "name" in fields and (
        "area" in fields or "domain" in fields or any(word in _FOR for word in named)
    )


def is_aimed(call: ToolCall, tool: Tool | None, text: str) -> bool:
    """Whether a call is for something that the words name: a room that was only assumed is none."""
    if tool is None or not is_for_home(tool):
        return False
    roots = tuple(stem(word) for word in words(text))
    said = any(_spans(str(call.arguments.get("area", "")), roots))
    return said or any(name in call.arguments for name in ("name", "floor", "domain"))


def lacks_target(call: ToolCall, tool: Tool, *, listed: bool = True, text: str = "") -> bool:
    """Whether a call would switch something without saying what.

    `listed`: whether there is a list of the home. Without one only what is guarded must be named,
    unless the words `text` ask for all of what lets nobody in.
    """
    where = {name: value for name, value in call.arguments.items() if name in WHERE}
    domains = where.get("domain", "")
    guarded = not _GUARDED.isdisjoint([domains] if isinstance(domains, str) else domains or ())
    classes = {str(value) for name, value in call.arguments.items() if fold(name) in _CLASS_NAMES}
    guarded = guarded and not (classes and classes <= _SHADES and not _ALL.isdisjoint(words(text)))
    placed = any(where.get(name) for name in ("name", "area", "floor"))
    if not (guarded or listed) or not _switches(tool):
        return False
    return not (placed if guarded else where)


def _looks_up(tool: Tool) -> bool:
    return "state" in parameters(tool.parameters) or "get" in name_words(tool.name)


def _is_timer(tool: Tool) -> bool:
    return not {"timer", "timers"}.isdisjoint(name_words(tool.name))


def _timed(call: ToolCall, fields: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A timer's call: how long it was set for, how much is added or taken off, its name.

    A length beside the word "timer" says which timer is meant; any other is the amount.
    """
    text = text.replace("1/2", "half").replace("1/4", "quarter")
    lengths = [one for one in read_request(text).found if one.kind == "duration"]
    arguments = {
        name: value
        for name, value in call.arguments.items()
        if name.removeprefix("start_") not in _PARTS and name != "name"
    }
    for one in lengths:
        beside = _TIMER_AFTER.match(text[one.end :]) or _TIMER_BEFORE.search(text[: one.start])
        prefix = "start_" if beside and "start_minutes" in fields else ""
        for part, value in _parts(one.value, one.text):
            if f"{prefix}{part}" in fields:
                arguments[f"{prefix}{part}"] = _typed(value, fields[f"{prefix}{part}"])
    called = _TIMER_NAME.search(text)
    given = str(call.arguments.get("name", ""))
    for name in (called[1] if called else "", given):
        inside = any(name in one.text for one in lengths)
        if name and not inside and fold(name) not in _NO_NAME and name in text:
            return {**arguments, "name": name} if "name" in fields else arguments
    return arguments


def _parts(seconds: Any, text: str) -> Iterator[tuple[str, int]]:
    """Hours, minutes and seconds, of which the largest is a unit that was said or smaller."""
    left = round(float(seconds))
    for part, size in _PARTS.items():
        if size > left or (size == 3600 and "hour" not in text and "hr" not in text):
            continue
        yield part, left // size
        left %= size


def _amounts(
    arguments: Mapping[str, Any], fields: Mapping[str, Any], said: _Said
) -> dict[str, Any]:
    """Percentages and degrees as bare numbers: "50%" is 50, and "maximum" is 100."""
    found = dict(arguments)
    for name in _AMOUNTS:
        value = found.get(name)
        if name not in fields or isinstance(value, int | float):
            continue
        digits = _NUMBER.search(str(value or ""))
        meant = next((much for much, each in _HOW_MUCH.items() if said.has(each.split())), None)
        if digits:
            found[name] = _typed(float(digits[0]), fields[name])
        elif meant is not None and (value or name == "brightness") and "color" not in found:
            found[name] = _typed(meant, fields[name])
    return found


def _media(arguments: Mapping[str, Any], fields: Mapping[str, Any], said: _Said) -> dict[str, Any]:
    """ "Play the Queen album" searches for Queen; "album" is the sort of media."""
    found = dict(arguments)
    asked = _PLAY.fullmatch(said.text.strip())
    if "search_query" not in fields or asked is None:
        return found
    wanted = asked[1]
    places = [span.said for span in said.areas] + [
        name for one, _ in said.entities if one.domain == "media_player" for name in one.names
    ]
    for _ in range(2):  # "on the TV in the kitchen"
        for place in places:
            tail = rf"(.+?) (?:on|in|at) (?:the |my )?{re.escape(place)}"
            match = re.fullmatch(tail, wanted, re.IGNORECASE)
            wanted = match[1] if match else wanted
    sort = _SORT_LAST.fullmatch(wanted) or _SORT_FIRST.fullmatch(wanted)
    if sort:
        wanted = sort["what"]
        if "media_class" in fields:
            found["media_class"] = sort["sort"].lower()
    return {**found, "search_query": wanted}


def _typed(value: float, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    plain = whole(value)
    return str(plain) if kind == "string" else plain


def _read(home: Home, text: str) -> _Said:
    roots = tuple(stem(word) for word in words(text))
    entities = [
        (one, span) for one in home.entities for name in one.names for span in _spans(name, roots)
    ]
    longest = [
        (one, span)
        for one, span in entities
        if not any(span.shorter(other) for _, other in entities)
    ]
    floors = sorted({floor for floor in home.floors.values() if floor})
    return _Said(
        text,
        roots,
        tuple(longest),
        tuple(span for area in home.floors for span in _spans(area, roots)),
        tuple(span for floor in floors for span in _spans(floor, roots)),
    )


def _spans(name: str, roots: Sequence[str]) -> Iterator[Mention]:
    wanted = tuple(stem(word) for word in words(name))
    for start in range(len(roots) - len(wanted) + 1):
        if wanted and tuple(roots[start : start + len(wanted)]) == wanted:
            yield Mention(name, start, start + len(wanted))


def _target(call: ToolCall, tool: Tool, home: Home, said: _Said) -> dict[str, str]:
    """The values of WHERE that the words mean, and the state that is asked about."""
    named = name_words(tool.name)
    only = next((_FOR[word] for word in named if word in _FOR), ())
    asks = "state" in parameters(tool.parameters)
    fits = [
        (one, span)
        for one, span in said.entities
        if (one.domain in only if only else _looks_up(tool) or one.domain not in _REPORTING)
    ]
    state_of = {one: _state(one.domain, one.kind, said) for one, _ in fits} if asks else {}
    one, span = _chosen(call, fits, said, state_of)
    found: dict[str, str] = {}
    if one is not None:
        found = {"name": one.name, "domain": one.domain, "device_class": one.kind}
        if asks:
            found["state"] = state_of.get(one, "")
        else:
            found.pop("device_class")
    numbers = parameters(tool.parameters).keys().isdisjoint(_AMOUNTS)  # else they are amounts
    taken = [span] if span else list(_spans("garage door", said.stems))
    taken += [found for text in _free_texts(call) for found in _spans(text, said.stems)]
    guarded = one is not None and one.domain in _GUARDED
    another = span is not None and guarded and _is_another(said, span, numbers=numbers)
    if _switches(tool) and (another or _LEAVES_OUT.search(said.text)):
        return {}
    area = _place(call.arguments.get("area"), said.areas, taken)
    floor = _place(call.arguments.get("floor"), said.floors, taken)
    if one is None:
        found = _group(home, said, only, asks, area)
        unknown = _unknown(said, found, area or floor, numbers=numbers) if _switches(tool) else []
        if unknown:  # "the bed light" of a list without one is not every light
            return _alike(home, unknown, found)
        found |= _described(call, home, said, found.get("domain", ""), area)
    spaced = f" {' '.join(words(said.text))} "
    pointed = any(each in spaced for each in _HERE_WORDS)
    if pointed and not (home.here or area or floor or one) and _switches(tool):
        return {}  # this room, and nobody knows which: not the whole home
    near = pointed or not (asks or said.has(_EVERY))
    assumed = near and not (area or floor or one)
    if assumed:
        area = home.here
    if one is None and "name" not in found and _switches(tool):
        return _narrowed(home, said, found, {"area": area, "floor": floor}, assumed=assumed)
    return {**found, "area": area, "floor": floor}


def _switches(tool: Tool) -> bool:
    """Whether a tool changes devices that people name: not what only looks up, plays or cleans."""
    fields, named = parameters(tool.parameters), name_words(tool.name)
    kinds = {kind for word in named for kind in _FOR.get(word, ())}
    lit_or_moved = bool(kinds) and kinds <= {"light", *_GUARDED}
    return is_for_home(tool) and not _looks_up(tool) and ("domain" in fields or lit_or_moved)


def _unknown(said: _Said, found: Mapping[str, str], placed: str, *, numbers: bool) -> list[str]:
    """The words by which a request names what the list does not have; none if it names a kind.

    `numbers`: whether they may name something, as in "light 7".
    """
    spoken = words(said.text)
    listed = _listed(said)
    nouns = {stem(word) for word in _nouns_of(found.get("domain", ""))}

    def is_plain(at: int) -> bool:
        known = at in listed or said.stems[at] in nouns or said.stems[at] in _PLAIN_STEMS
        if known or (spoken[at].isalpha() and spoken[at] not in _NUMBERS):
            return known
        if not numbers or "".join(spoken[at + 1 : at + 2]) in _UNITS:
            return True
        counted = at and (said.stems[at - 1] in nouns or spoken[at - 1] in _NUMBERED)
        return not (counted or _ORDINAL.fullmatch(spoken[at]))

    kinds = [at for at, root in enumerate(said.stems) if root in nouns and at not in listed]
    if not kinds:
        return [word for at, word in enumerate(spoken) if not is_plain(at)]
    unknown = []
    for at in kinds:
        before = at - 1
        while before >= 0 and (before in listed or spoken[before] not in _BORDERS):
            may = _may_precede(spoken, before, listed, nouns, numbers=numbers)
            unknown += [] if may else [spoken[before]]
            before -= 1
        for after in range(at + 1, len(spoken) if not placed else at + 2):
            if after >= len(spoken) or spoken[after] in _REASONS:
                break
            number = not spoken[after].isalpha()
            unknown += [] if is_plain(after) or (placed and not number) else [spoken[after]]
    return list(dict.fromkeys(unknown))


def _listed(said: _Said) -> set[int]:
    """The places of the words that name a room or a floor of the list."""
    return {at for span in (*said.areas, *said.floors) for at in range(span.start, span.end)}


def _is_another(said: _Said, span: Mention, *, numbers: bool) -> bool:
    """Whether the words around a listed name make it the name of something else: "the office front
    door", "the front door of the guest house", "garage door 2"."""
    spoken, listed = words(said.text), _listed(said)
    plain = (
        FILLERS | DETERMINERS | PREPOSITIONS | AUXILIARY | PERSONS | _EVERY | _VERBS
    ) - _ORDINALS
    before, after = span.start - 1, span.end
    if before >= 0 and before not in listed and spoken[before] not in plain | {"and", "then"}:
        return True
    if after < len(spoken) and not spoken[after].isalpha():
        return numbers
    if after >= len(spoken) or spoken[after] not in _BELONGS:
        return False
    rest = [at for at in range(after + 1, len(spoken)) if spoken[at] not in DETERMINERS]
    owner = rest[0] if rest else -1
    if owner < 0 or owner in listed or not spoken[owner].isalpha():
        return False
    return said.stems[owner] not in _PLAIN_STEMS


def _may_precede(
    spoken: Sequence[str],
    at: int,
    listed: Collection[int],
    nouns: Collection[str],
    *,
    numbers: bool,
) -> bool:
    """Whether a word before a kind is no part of a name: as the first of "switch lights off"."""
    word = spoken[at]
    if not word.isalpha():
        return not numbers
    if at in listed or stem(word) in nouns or word in FILLERS | _EVERY:
        return True
    opens = all(each in FILLERS | PERSONS | AUXILIARY | {"to"} for each in spoken[:at])
    return word in _BRIGHT | word_set("entire whole single room area") or (
        opens and word in _VERBS | PERSONS | AUXILIARY
    )


def _nouns_of(domain: str) -> set[str]:
    if domain == "cover":
        return {word for nouns in _COVERS.values() for word in nouns.split()} | {"cover", "door"}
    return set(_NOUNS.get(domain, domain).split())


def _alike(home: Home, unknown: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """The one listed device of a kind whose name has these words: "the reading light"."""
    domain, asked = found.get("domain", ""), {stem(word) for word in unknown}
    alike = [
        one
        for one in home.entities
        if one.domain == domain
        and any(asked <= {stem(word) for word in words(name)} for name in one.names)
    ]
    if domain in _GUARDED or len(alike) != 1:
        return {}
    return {"name": alike[0].name, "domain": domain}


def _narrowed(
    home: Home, said: _Said, found: dict[str, str], place: dict[str, str], *, assumed: bool
) -> dict[str, str]:
    """A kind of devices, as far as the words allow it: all of a room, all where all are meant.

    One that is alone of its kind is named. Nothing is left where one of several may be meant, or
    several that are guarded and have no room: then it is asked for.
    """
    domain, kind = found.get("domain", ""), found.get("device_class", "")
    if not domain:
        return {} if assumed else {**found, **place}
    alike = [one for one in home.entities if one.domain == domain and _is_of(one, kind)]
    here = [one for one in alike if _is_in(home, one, place)]
    if len(here) != 1 and assumed and domain in _GUARDED:
        here = here or alike
    several = _means_several(said, domain)
    placed = any(place.values())
    guarded = domain in _GUARDED and not (kind in _SHADES and said.has(_ALL))
    if len(here) == 1 and not (placed and not assumed) and (guarded or not several):
        return {"name": here[0].name, "domain": domain}
    known = bool(here) and (several or len(here) == 1)
    sure = placed and known if guarded else placed or several
    return {**found, **place} if sure else {}


def _is_of(one: Entity, kind: str) -> bool:
    """Whether a device is of a device class; where the list has none, by its name."""
    nouns = {stem(word) for word in _COVERS.get(kind, kind).split()}
    named = {stem(word) for name in one.names for word in words(name)}
    return kind in ("", one.kind) or (not one.kind and not nouns.isdisjoint(named))


def _is_in(home: Home, one: Entity, place: Mapping[str, str]) -> bool:
    area, floor = place["area"], place["floor"]
    floors = {home.floors.get(each, "") for each in one.areas}
    return (not area or area in one.areas) and (not floor or floor in floors)


def _means_several(said: _Said, domain: str) -> bool:
    nouns = {stem(word) for word in _nouns_of(domain)}
    named = [word for word in words(said.text) if stem(word) in nouns]
    return said.has(_EVERY) or any(word.endswith("s") or word == "lighting" for word in named)


def _chosen(
    call: ToolCall,
    fits: Sequence[tuple[Entity, Mention]],
    said: _Said,
    state_of: Mapping[Entity, str],
) -> tuple[Entity | None, Mention | None]:
    """The device that is named; of several the one that the call names, or whose state is asked."""
    several, kinds = said.has(_SEVERAL), [word for each in _NOUNS.values() for word in each.split()]
    rooms = [] if not said.has(kinds) else [(span.start, span.end) for span in said.areas]
    fits = [
        (one, span)
        for one, span in fits
        # "Gas" is no name in "any gas sensors", nor "Kitchen" in "the kitchen lights".
        if not (several and span.end - span.start == 1 and one.domain in _REPORTING)
        and (span.start, span.end) not in rooms
    ]
    if not fits:
        return None, None
    wanted = fold(str(call.arguments.get("name", "")))

    def rank(pair: tuple[Entity, Mention]) -> tuple[bool, int, bool, bool]:
        one, span = pair
        return (
            wanted in map(fold, one.names),
            span.end - span.start,
            bool(state_of.get(one)),
            said.has(_kind_words(one.domain, one.kind)),
        )

    return max(fits, key=rank)


def _free_texts(call: ToolCall) -> list[str]:
    return [
        value
        for name, value in call.arguments.items()
        if name not in (*WHERE, "state") and isinstance(value, str)
    ]


def _described(call: ToolCall, home: Home, said: _Said, domain: str, area: str) -> dict[str, str]:
    """The listed device that the call names and the words describe: "the bedroom fan"."""
    given = fold(str(call.arguments.get("name", "")))
    named = [one for one in home.entities if given in map(fold, one.names)]
    if not named or said.has(_SEVERAL):
        return {}
    one = named[0]
    alike = [
        other
        for other in home.entities
        if other.domain == (domain or one.domain) and area in (*other.areas, "")
    ]
    roots = {stem(word) for name in one.names for word in words(name)} - _LITTLE
    if one in alike and (len(alike) == 1 or (not domain and roots & set(said.stems))):
        return {"name": one.name, "domain": one.domain}
    return {}


def _place(given: Any, spans: Sequence[Mention], taken: Sequence[Mention]) -> str:
    """An area or floor that is said and is no part of a device's name or of another value."""
    free = [span for span in spans if not any(span.inside(other) for other in taken)]
    same = [span.said for span in free if isinstance(given, str) and fold(span.said) == fold(given)]
    return (same or [span.said for span in free] or [""])[0]


def _group(home: Home, said: _Said, only: Sequence[str], asks: bool, area: str) -> dict[str, str]:
    """Devices of one kind, by what the words call it."""
    if only:
        return {"domain": only[0]} if len(only) == 1 else _covers(said)
    if asks:
        return _asked_about(home, said, area)
    covers = _covers(said)
    locks = said.has(("lock", "unlock"))
    for domain, nouns in _NOUNS.items():
        if domain == "lock" and (covers or not locks):
            continue
        if said.has(nouns.split()):
            return {"domain": domain}
    return covers


def _covers(said: _Said) -> dict[str, str]:
    for kind, nouns in _COVERS.items():
        if said.has(nouns.split()):
            return {"domain": "cover", "device_class": kind}
    return {"domain": "cover"} if said.has(("cover",)) else {}


def _asked_about(home: Home, said: _Said, area: str) -> dict[str, str]:
    """The kind of devices whose state is asked about: one that has that state and that noun."""
    kinds = dict.fromkeys((one.domain, one.kind) for one in home.entities)
    best: tuple[float, dict[str, str]] = (0.0, {})
    for domain, kind in kinds:
        state = _state(domain, kind, said)
        noun = said.has(_kind_words(domain, kind))
        if not noun and not state:
            continue
        here = any(
            (one.domain, one.kind) == (domain, kind) and one.area == area for one in home.entities
        )
        plain = state in ("on", "off") and said.has((state,))
        score = (
            2.0 * noun
            + 1.5 * (bool(state) and not plain)
            + 1.0 * bool(state)
            + 0.2 * (domain not in _REPORTING)
            + 0.1 * here
        )
        if score > best[0]:
            found = {"domain": domain, "device_class": kind, "state": state}
            best = (score, found)
    found = best[1]
    if found and not found["state"] and found["domain"] == "binary_sensor":
        found["state"] = "on"  # "is there any motion?"
    return found if best[0] >= 2 else {}


def _state(domain: str, kind: str, said: _Said) -> str:
    """The state that the words ask about, as devices of this kind report it."""
    if domain == "sensor":
        return ""
    if domain == "binary_sensor":
        on, off = _REPORTS.get(kind, ("", ""))
        table = {"off": f"{off} off", "on": f"{on} on"}
    else:
        table = _STATES.get(domain, _ON_OFF)
    asked = set(words(said.text))
    return next((state for state, each in table.items() if asked & set(each.split())), "")
