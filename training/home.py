"""Requests to a home: devices and rooms are looked up in the list that comes with the request."""

# ruff: noqa: E501 (tables read better with one entry a line)

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from edgewise.calls.prompt import render_tools
from edgewise.types.messages import Message, Tool, ToolCall
from training import naming
from training.dialogues import called_turns
from training.example import Example
from training.frame_types import Frame
from training.home_world import Device, Home, build_home, in_split, other_words, within
from training.houses import pick_house
from training.number_forms import in_words
from training.styles import StyledTool
from training.word_pools import from_pool
from training.world import World

Slots = dict[str, Any]
# What a value is looked up or read as; the first words of each are the plainest.
_DESCRIBED = {
    "name": ("Device, as it is listed", "Which device", "The device by its name"),
    "area": ("Room", "In which room", "Part of the home"),
    "floor": ("Floor", "Storey of the home"),
    "domain": ("Kind of device, such as light or cover", "What kind of devices"),
    "device_class": ("Finer kind, such as window or curtain", "Class within the kind"),
    "brightness": ("How bright, 0 to 100", "Percent of full brightness"),
    "color": ("Color by name", "Which color"),
    "position": ("How far open: 0 is closed, 100 is open", "Percent open"),
    "temperature": ("Degrees wanted", "Wanted temperature"),
    "state": ("State to look for: on, off, open, closed, locked, unlocked",
              "State asked about; sensors are on when they report something", "State asked about"),
    "volume_level": ("How loud, 0 to 100", "Volume in percent"),
    "search_query": ("What to look for and play", "Title, artist or station"),
    "media_class": ("What sort of media: album, artist, playlist, podcast, movie", "Sort of media"),
    "hours": ("Hours it runs", "Hours"),
    "minutes": ("Minutes it runs", "Minutes"),
    "seconds": ("Seconds it runs", "Seconds"),
    "timer_name": ("What the timer is for", "Name given to the timer"),
    "item": ("What to note", "Entry of the list"),
    "list_name": ("Which list", "List"),
    "place": ("Which town", "Where"),
    "message": ("What to say", "Text to read out"),
}  # fmt: skip
_WHOLE = ("brightness", "position", "volume_level", "hours", "minutes", "seconds")
_WHERE = ("name", "area", "floor", "domain", "device_class")
# Tools: how they are described, their parameters, and which of those are required.
_TOOLS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "turn_on": (("Switch something on or open it", "Turn devices on, open covers, run scenes and scripts", "Switches devices on"), _WHERE, ()),
    "turn_off": (("Switch something off or close it", "Turn devices off or close covers", "Switches devices off"), _WHERE, ()),
    "light_set": (("Change how bright a light is, or its color", "Dim or color lights"), ("name", "area", "floor", "brightness", "color"), ()),
    "set_position": (("Move a blind, curtain or other cover", "Open a cover part of the way"), (*_WHERE, "position"), ("position",)),
    "climate_set_temperature": (("Set a thermostat", "How warm it shall be"), ("name", "area", "floor", "temperature"), ("temperature",)),
    "climate_get_temperature": (("How warm it is indoors", "Read a thermometer in the home"), ("name", "area", "floor"), ()),
    "get_state": (("Report or check what a device is doing", "Look up how devices are"), (*_WHERE, "state"), ()),
    "media_pause": (("Pause what is playing", "Pause a player"), ("name", "area"), ()),
    "media_resume": (("Go on playing", "Resume a player"), ("name", "area"), ()),
    "media_next": (("Play the next one", "Skip ahead"), ("name", "area"), ()),
    "media_previous": (("Play the one before", "Skip back"), ("name", "area"), ()),
    "set_volume": (("Change how loud a player is", "Loudness of a player"), ("name", "area", "volume_level"), ("volume_level",)),
    "media_play": (("Play music, films or radio", "Find something to play and play it"), ("name", "area", "search_query", "media_class"), ("search_query",)),
    "vacuum_start": (("Let a robot vacuum clean", "Send out the robot cleaner"), ("name", "area", "floor"), ()),
    "vacuum_return": (("Send a robot vacuum home", "Let the robot cleaner dock"), ("name", "area"), ()),
    "lock_door": (("Lock a door", "Lock up"), ("name", "area"), ()),
    "unlock_door": (("Unlock a door",), ("name", "area"), ()),
    "start_timer": (("Set a kitchen timer", "Begin a countdown"), ("hours", "minutes", "seconds", "timer_name"), ()),
    "cancel_timer": (("Stop a countdown", "Delete a running timer"), ("timer_name", "area"), ()),
    "timer_status": (("How long a timer still runs", "Time left on a timer"), ("timer_name", "area"), ()),
    "shopping_list_add": (("Note something to buy", "Put something on the shopping list"), ("item",), ("item",)),
    "list_add_item": (("Put something on one of the lists", "New entry of a list"), ("item", "list_name"), ("item", "list_name")),
    "list_complete_item": (("Tick off an entry of a list", "Mark something on a list as done"), ("item", "list_name"), ("item", "list_name")),
    "announce": (("Say something on all speakers", "Make an announcement at home"), ("message",), ("message",)),
    "cancel_request": (("For a request that is taken back", "Nothing is to be done after all"), (), ()),
    "current_time": (("What time it is", "Tell the time"), (), ()),
    "current_date": (("Which day it is", "Tell the date"), (), ()),
    "get_weather": (("Weather outside", "What the weather is like"), ("place",), ()),
}  # fmt: skip
_ON = ("turn on {}", "switch on {}", "{} on", "turn {} on", "put {} on", "can you turn on {}",
       "I need {} on", "please switch {} on", "get {} going", "activate {}", "{} on please",
       "could you turn {} on", "power up {}", "let's have {} on")  # fmt: skip
_OFF = ("turn off {}", "switch off {}", "{} off", "turn {} off", "shut off {}", "kill {}",
        "can you switch {} off", "please turn {} off", "deactivate {}", "cut {}", "{} off please",
        "I don't need {} any more", "put {} out", "I want {} off")  # fmt: skip
_LIGHT_ON = ("light up {}", "it's too dark in {}", "give me some light in {}", "illuminate {}",
             "I can't see a thing in {}")  # fmt: skip
_OPEN = ("open {}", "open up {}", "raise {}", "pull up {}", "could you open {}", "{} open please")
_CLOSE = ("close {}", "shut {}", "lower {}", "pull down {}", "can you close {}", "let {} down")
_RUN = ("run {}", "start {}", "activate {}", "launch {}", "trigger {}", "{} please", "it's {} time")
_BRIGHT = ("set {t} to {v}", "dim {t} to {v}", "{t} at {v}", "{t} to {v} brightness", "brightness of {t} {v}",
           "make {t} {v} bright", "bring {t} to {v}", "I want {t} at {v}", "turn {t} down to {v}",
           "put the brightness of {t} at {v}")  # fmt: skip
_IN_WORDS = (
    ("set {} to full brightness", 100), ("{} to maximum brightness", 100), ("{} as bright as it gets", 100),
    ("{} to half brightness", 50), ("dim {} by half, to half brightness", 50),
)  # fmt: skip
_COLOR = ("make {t} {v}", "set {t} to {v}", "turn {t} {v}", "change {t} to {v}", "{t} in {v} please",
          "I'd like {t} {v}", "color {t} {v}")  # fmt: skip
_POSITION = ("set {t} to {v}", "open {t} to {v}", "move {t} to {v}", "{t} to {v}", "put {t} at {v}",
             "{t} {v} open", "leave {t} {v} open")  # fmt: skip
_WARM = ("set {t} to {v}", "make it {v} in {t}", "heat {t} to {v}", "{t} {v} please", "{t} to {v}",
         "I want {v} in {t}", "change {t} to {v}", "warm {t} up to {v}")  # fmt: skip
_HOW_WARM = ("how warm is it {}", "what's the temperature {}", "temperature {}", "is it cold {}",
             "tell me how hot it is {}", "how many degrees is it {}", "how cold is it {}")  # fmt: skip
_QUIET = ("set {t} to {v}", "volume of {t} to {v}", "{t} volume {v}", "turn {t} down to {v}",
          "put {t} on {v} volume", "make {t} {v} loud", "turn the volume of {t} to {v}")  # fmt: skip
_MEDIA = {
    "media_pause": ("pause {}", "stop {} for a moment", "hold {}", "pause what's on {}", "{} pause"),
    "media_resume": ("resume {}", "continue on {}", "go on playing on {}", "unpause {}", "play again on {}"),
    "media_next": ("next song on {}", "skip this one on {}", "next track, {}", "play the next one on {}", "skip on {}"),
    "media_previous": ("previous song on {}", "go back one on {}", "play the last one again on {}", "back a track on {}"),
}  # fmt: skip
_PLAY = ("play {q} on {t}", "put {q} on {t}", "I want to hear {q} on {t}", "start {q} on {t}", "{q} on {t} please",
         "can {t} play {q}")  # fmt: skip
_CLEAN = (
    "vacuum {}",
    "clean {}",
    "hoover {}",
    "let the vacuum do {}",
    "{} needs cleaning",
    "vacuum {} please",
)
_NOUNS = {"light": "lights", "switch": "switches", "fan": "fans", "cover": "covers",
          "media_player": "speakers"}  # fmt: skip
_COVER_NOUNS = {
    "blind": "blinds",
    "curtain": "curtains",
    "shutter": "shutters",
    "awning": "awnings",
}
_COLORS = ("red", "blue", "green", "warm white", "purple", "orange", "pink", "turquoise", "yellow",
           "cold white", "violet")  # fmt: skip
_STATES = {
    "light": (("on", "on"), ("off", "off")),
    "switch": (("on", "on"), ("running", "on"), ("off", "off")),
    "fan": (("on", "on"), ("off", "off"), ("running", "on")),
    "cover": (("open", "open"), ("closed", "closed"), ("shut", "closed")),
    "lock": (("locked", "locked"), ("unlocked", "unlocked")),
    "media_player": (("playing", "playing"), ("paused", "paused"), ("on", "on"), ("off", "off")),
    "vacuum": (("cleaning", "cleaning"), ("docked", "docked")),
    "window": (("open", "on"), ("closed", "off")),
    "door": (("open", "on"), ("closed", "off")),
    "motion": (("triggered", "on"), ("detecting something", "on")),
    "moisture": (("wet", "on"), ("dry", "off")),
    "smoke": (("going off", "on"),),
}
_ASK_STATE = ("is {t} {s}", "is {t} {s}?", "can you check if {t} is {s}", "tell me whether {t} is {s}",
              "I think {t} is {s}, right?", "did I leave {t} {s}?", "check that {t} is {s}")  # fmt: skip
_ASK_ANY = ("are any {n} {s}{w}", "is there a {n1} {s}{w}?", "are there {n} {s}{w}?", "which {n} are {s}{w}",
            "any {n} {s}{w}?", "are all {n} {s}{w}?", "how many {n} are {s}{w}?")  # fmt: skip
_ITEMS = ("oat milk", "two lemons", "dishwasher tablets", "a birthday card", "cat litter", "light bulbs",
          "basil", "sparkling water", "bin bags", "rye bread", "batteries", "plasters")  # fmt: skip
_TASKS = ("call the plumber", "water the ferns", "renew the library card", "iron the shirts",
          "return the parcel", "descale the kettle", "book the dentist", "sort the photos")  # fmt: skip
_LISTS = (
    "Chores",
    "Hardware Store",
    "Holiday",
    "Pharmacy",
    "Party",
    "Weekend",
    "Garden Jobs",
    "Packing",
)
_MESSAGES = ("lunch is on the table", "we are leaving in ten minutes", "please tidy your rooms",
             "the taxi is here", "somebody left the gate open", "it's time for bed")  # fmt: skip
_MEDIA_ITEMS = (
    ("the album {}", "album", ("Blue Harbour", "Night Trains", "Salt and Rust", "Paper Moons")),
    ("the playlist {}", "playlist", ("Slow Cooking", "Run Faster", "Rain", "Old Friends", "Sunday Jazz")),
    ("the podcast {}", "podcast", ("Two Left Feet", "Deep Field", "The Long Table", "Bugs at Dawn")),
    ("the movie {}", "movie", ("The Quiet Bay", "Northern Lines", "Glass Garden", "Seven Crows")),
    ("something by {}", "artist", ("Ida Maren", "The Tall Poppies", "Kofi Adjei", "Lunar Choir")),
    ("{}", "", ("some jazz", "Radio Wave", "rain sounds", "classical music", "bossa nova")),
)  # fmt: skip
_TIMER_NAMES = ("eggs", "bread", "laundry", "tea", "lasagna", "nap", "homework", "rice")
_NEVER = (
    "never mind",
    "forget that",
    "oh, leave it",
    "cancel that, I changed my mind",
    "no, stop, forget it",
)


@dataclass(frozen=True, slots=True)
class Said:
    """Words, the tool they ask for and what it is called with."""

    text: str
    tool: str
    slots: Slots


class _Speaker:
    """Somebody in a home who asks for things there."""

    def __init__(self, home: Home, rng: Random, valid: bool) -> None:
        self.home, self.rng, self.valid = home, rng, valid

    def way(self, forms: tuple[str, ...]) -> str:
        return self.rng.choice(in_split(forms, self.valid))

    def device(self, *domains: str) -> Device | None:
        able = [device for device in self.home.devices if device.domain in domains]
        return self.rng.choice(able) if able else None

    def called(self, device: Device) -> str:
        """A device as people call it: its listed name, mostly small, with an article or not."""
        name = device.name if device.name.isupper() else device.name.lower()
        if device.domain in ("vacuum", "scene", "script"):
            return device.name if self.rng.random() < 0.5 else device.name.lower()
        others = other_words(device, self.home, self.valid)
        if others and self.rng.random() < 0.3:
            return f"the {self.rng.choice(others)}"
        lead = self.rng.choice(("the ", "the ", "the ", "", "my "))
        if self.rng.random() < 0.2 and device.area and device.area.lower() not in name:
            return f"{lead or 'the '}{name} {within(device.area)}"
        return lead + name

    def target(self, domain: str, noun: str, kind: str = "") -> tuple[str, Slots] | None:
        """Some devices of one kind: in a room, on a floor, here, or everywhere."""
        rng, home = self.rng, self.home
        slots: Slots = {"domain": domain, **({"device_class": kind} if kind else {})}
        chance = rng.random()
        if chance < 0.55:
            room = rng.choice(home.rooms)
            low = room.lower()
            forms: tuple[str, ...] = (f"the {low} {noun}", f"the {noun} {within(room)}", f"{low} {noun}",
                     f"all {noun} {within(room)}", f"all the {low} {noun}")  # fmt: skip
            return rng.choice(forms), {"area": room, **slots}
        if chance < 0.72 and "areas" in home.told:
            floor = rng.choice(list(home.floors.values()))
            low = floor.lower()
            where = low if low in ("downstairs", "upstairs", "outside") else f"on the {low}"
            where = f"in the {low}" if low in ("attic", "basement") else where
            return rng.choice((f"the {noun} {where}", f"all {noun} {where}")), {
                "floor": floor,
                **slots,
            }
        if chance < 0.85 and home.here:
            forms = (
                f"the {noun}",
                f"the {noun} in here",
                f"the {noun} in this room",
                f"these {noun}",
            )
            return rng.choice(forms), {"area": home.here, **slots}
        forms = (f"all the {noun}", f"every one of the {noun} in the house", f"all {noun} everywhere",
                 f"all {noun} in the house")  # fmt: skip
        return rng.choice(forms), slots

    def place(self) -> tuple[str, Slots]:
        """A room, a floor, or where the speaker is."""
        home, rng = self.home, self.rng
        if home.here and rng.random() < 0.3:
            return rng.choice(("here", "this room")), {"area": home.here}
        room = rng.choice(home.rooms)
        return f"the {room.lower()}", {"area": room}

    def percent(self) -> tuple[str, int]:
        value = self.rng.choice((5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 35, 65))
        said = self.rng.choice((f"{value}%", f"{value} percent", f"{in_words(value)} percent"))
        return said, value


def _switch(who: _Speaker) -> Said | None:
    on = who.rng.random() < 0.5
    tool, forms = ("turn_on", _ON) if on else ("turn_off", _OFF)
    if who.rng.random() < 0.5:
        device = who.device("light", "switch", "fan", "media_player", "climate")
        if device is None:
            return None
        return Said(who.way(forms).format(who.called(device)), tool, _by_name(device))
    domain = who.rng.choice(("light", "light", "light", "light", "switch", "fan"))
    if domain == "light" and on and who.rng.random() < 0.15:
        words, slots = who.place()
        if words == "here":
            return None
        return Said(who.way(_LIGHT_ON).format(words), tool, {**slots, "domain": "light"})
    found = who.target(domain, _NOUNS[domain])
    return Said(who.way(forms).format(found[0]), tool, found[1]) if found else None


def _by_name(device: Device) -> Slots:
    return {"name": device.name}


def _cover(who: _Speaker) -> Said | None:
    opens = who.rng.random() < 0.5
    tool, forms = ("turn_on", _OPEN) if opens else ("turn_off", _CLOSE)
    device = who.device("cover")
    if device is None:
        return None
    if who.rng.random() < 0.5:
        return Said(who.way(forms).format(who.called(device)), tool, _by_name(device))
    noun = _COVER_NOUNS.get(device.kind)
    found = who.target("cover", noun, device.kind) if noun else None
    return Said(who.way(forms).format(found[0]), tool, found[1]) if found else None


def _scene(who: _Speaker) -> Said | None:
    device = who.device("scene", "script")
    if device is None:
        return None
    name = who.called(device)
    words = who.rng.choice((f"{name} {device.domain}", f"the {name} {device.domain}", name))
    return Said(
        who.way(_RUN).format(words), "turn_on", {"name": device.name, "domain": device.domain}
    )


def _light(who: _Speaker) -> Said | None:
    color = who.rng.random() < 0.35
    value: Any
    if color:
        said = value = who.rng.choice(_COLORS)
    else:
        said, value = who.percent()
    key = "color" if color else "brightness"
    device = who.device("light")
    if device and who.rng.random() < 0.55:
        words, slots = who.called(device), _by_name(device)
    else:
        found = who.target("light", "lights")
        if found is None:
            return None
        words, slots = found
        slots.pop("domain")
    text = who.way(_COLOR if color else _BRIGHT).format(t=words, v=said)
    if not color and who.rng.random() < 0.12:
        form, value = who.rng.choice(_IN_WORDS)
        text = form.format(words)
    return Said(text, "light_set", {**slots, key: value})


def _position(who: _Speaker) -> Said | None:
    device = who.device("cover")
    if device is None:
        return None
    said, value = who.percent()
    words, slots = who.called(device), _by_name(device)
    noun = _COVER_NOUNS.get(device.kind)
    if noun and who.rng.random() < 0.4:
        found = who.target("cover", noun, device.kind)
        if found:
            words, slots = found
    return Said(
        who.way(_POSITION).format(t=words, v=said), "set_position", {**slots, "position": value}
    )


def _warm(who: _Speaker) -> Said | None:
    value = who.rng.choice((17, 18, 19, 20, 21, 22, 23, 19.5, 20.5, 21.5, 24))
    said = who.rng.choice((f"{value} degrees", f"{value}°", f"{value} degrees"))
    device = who.device("climate")
    if device and who.rng.random() < 0.4:
        words, slots = who.called(device), _by_name(device)
        forms = ("set {t} to {v}", "{t} to {v}", "change {t} to {v}", "put {t} on {v}")
        text = who.way(forms).format(t=words, v=said)
    else:
        words, slots = who.place()
        if words == "here":
            return None
        text = who.way(_WARM).format(t=words, v=said)
    return Said(text, "climate_set_temperature", {**slots, "temperature": value})


def _how_warm(who: _Speaker) -> Said | None:
    if who.home.here and who.rng.random() < 0.3:
        where, slots = "here", {"area": who.home.here}
    else:
        room = who.rng.choice(who.home.rooms)
        where, slots = within(room), {"area": room}
    return Said(who.way(_HOW_WARM).format(where), "climate_get_temperature", slots)


def _state(who: _Speaker) -> Said | None:
    device = who.device("light", "switch", "fan", "cover", "lock", "media_player", "vacuum",
                        "binary_sensor", "sensor")  # fmt: skip
    if device is None:
        return None
    if device.domain == "sensor" and device.kind:
        words = {"battery": "the battery of {}", "temperature": "the temperature of {}",
                 "humidity": "the humidity of {}"}[device.kind]  # fmt: skip
        name = f"the {device.name.lower()}"
        if device.kind in device.name.lower():
            words = "{}"
        forms = ("what's {}", "tell me {}", "how is {}", "what is {} right now")
        slots = {"name": device.name, "domain": "sensor", "device_class": device.kind}
        return Said(who.way(forms).format(words.format(name)), "get_state", slots)
    states = _STATES.get(device.kind) or _STATES.get(device.domain)
    if states is None or (device.domain == "binary_sensor" and device.kind not in _STATES):
        return None
    said, state = who.rng.choice(states)
    words = who.called(device)
    slots = {"name": device.name, "domain": device.domain, "state": state}
    if device.kind:
        slots["device_class"] = device.kind
    noun = {"window": "window", "door": "door", "light": "light"}.get(device.kind or device.domain)
    if noun and who.rng.random() < 0.5:
        del slots["name"]
        where = ""
        if who.rng.random() < 0.7:
            room = who.rng.choice(who.home.rooms)
            where, slots["area"] = f" {within(room)}", room
        text = who.way(_ASK_ANY).format(n=f"{noun}s", n1=noun, s=said, w=where)
        return Said(text, "get_state", slots)
    text = who.way(_ASK_STATE).format(t=words, s=said)
    if device.name.endswith("s"):  # "are the fairy lights on"
        text = re.sub(r"\bis\b", "are", text, count=1)
    return Said(text, "get_state", slots)


def _media(who: _Speaker) -> Said | None:
    tool = who.rng.choice(list(_MEDIA))
    words, slots = _player(who)
    return Said(who.way(_MEDIA[tool]).format(words), tool, slots) if words else None


def _player(who: _Speaker) -> tuple[str, Slots]:
    device = who.device("media_player")
    if device and who.rng.random() < 0.6:
        return who.called(device), _by_name(device)
    room = who.rng.choice(who.home.rooms)
    return f"the {room.lower()} speakers", {"area": room}


def _volume(who: _Speaker) -> Said | None:
    words, slots = _player(who)
    said, value = who.percent()
    return Said(
        who.way(_QUIET).format(t=words, v=said), "set_volume", {**slots, "volume_level": value}
    )


def _play(who: _Speaker) -> Said | None:
    words, slots = _player(who)
    form, kind, names = who.rng.choice(_MEDIA_ITEMS)
    name = who.rng.choice(in_split(names, who.valid))
    query = name.removeprefix("some ")
    more = {"media_class": kind} if kind else {}
    text = who.way(_PLAY).format(q=form.format(name), t=words)
    return Said(text, "media_play", {**slots, "search_query": query, **more})


def _vacuum(who: _Speaker) -> Said | None:
    device = who.device("vacuum")
    if device and who.rng.random() < 0.5:
        if who.rng.random() < 0.4:
            forms: tuple[str, ...] = (
                "send {} home",
                "{} back to the base",
                "{} should go charge",
                "dock {}",
            )
            return Said(
                who.way(forms).format(who.called(device)), "vacuum_return", _by_name(device)
            )
        forms = ("start {}", "let {} clean", "send {} out", "get {} going", "{} should clean now")
        return Said(who.way(forms).format(who.called(device)), "vacuum_start", _by_name(device))
    room = who.rng.choice(who.home.rooms)
    return Said(who.way(_CLEAN).format(f"the {room.lower()}"), "vacuum_start", {"area": room})


def _lock(who: _Speaker) -> Said | None:
    device = who.device("lock")
    if device is None:
        return None
    locks = who.rng.random() < 0.6
    forms = (
        ("lock {}", "please lock {}", "lock up {}") if locks else ("unlock {}", "can you unlock {}")
    )
    return Said(
        who.way(forms).format(who.called(device)),
        "lock_door" if locks else "unlock_door",
        _by_name(device),
    )


def _timer(who: _Speaker) -> Said | None:
    rng = who.rng
    parts: Slots = {}
    words: list[str] = []
    for unit, most in rng.choice(((("minute", 59),), (("hour", 5),), (("second", 59),),
                                  (("hour", 3), ("minute", 50)), (("minute", 20), ("second", 50)))):  # fmt: skip
        value = rng.randint(1, most)
        parts[f"{unit}s"] = value
        words.append(
            f"{in_words(value) if rng.random() < 0.3 else value} {unit}{'s' * (value > 1)}"
        )
    length = " and ".join(words) if rng.random() < 0.6 else " ".join(words)
    forms = ("set a timer for {}", "timer for {}", "start a {} timer", "time {}", "count down {}")
    text = who.way(forms).format(length)
    if "start a" in text:
        text = f"start a timer, {length}"
    if rng.random() < 0.4:
        parts["timer_name"] = rng.choice(in_split(_TIMER_NAMES, who.valid))
        text += rng.choice((" for the {}", " called {}", ", name it {}")).format(
            parts["timer_name"]
        )
    return Said(text, "start_timer", parts)


def _running_timer(who: _Speaker) -> Said | None:
    name = who.rng.choice(in_split(_TIMER_NAMES, who.valid))
    tool, forms = who.rng.choice((
        ("cancel_timer", ("cancel the {} timer", "stop the timer for the {}", "delete the {} timer")),
        ("timer_status", ("how long does the {} timer still run", "how much is left for the {}",
                          "check the {} timer")),
    ))  # fmt: skip
    return Said(who.way(forms).format(name), tool, {"timer_name": name})


def _lists(who: _Speaker) -> Said | None:
    rng = who.rng
    if rng.random() < 0.35:
        item = rng.choice(in_split(_ITEMS, who.valid))
        forms: tuple[str, ...] = ("put {} on the shopping list", "we need {}, shopping list", "shopping list: {}",
                 "add {} to the groceries", "we're out of {}, put it on the shopping list")  # fmt: skip
        return Said(who.way(forms).format(item), "shopping_list_add", {"item": item})
    task, name = rng.choice(in_split(_TASKS, who.valid)), rng.choice(in_split(_LISTS, who.valid))
    if rng.random() < 0.6:
        forms = (
            "add {i} to the {n} list",
            "put {i} on my {n} list",
            "{n} list: {i}",
            "{i} goes on the {n} list",
        )
        tool = "list_add_item"
    else:
        forms = (
            "tick off {i} on the {n} list",
            "{i} is done, take it off the {n} list",
            "mark {i} done on my {n} list",
        )
        tool = "list_complete_item"
    shown = name if rng.random() < 0.4 else name.lower()
    return Said(
        who.way(forms).format(i=task, n=shown),
        tool,
        {"item": task, "list_name": name if shown == name else shown},
    )


def _talk(who: _Speaker) -> Said | None:
    rng = who.rng
    choice = rng.random()
    if choice < 0.4:
        message = rng.choice(in_split(_MESSAGES, who.valid))
        forms = (
            "announce that {}",
            "tell everyone {}",
            "say {} on all speakers",
            "let everybody know that {}",
        )
        return Said(who.way(forms).format(message), "announce", {"message": message})
    if choice < 0.6:
        city = from_pool("city", rng)
        return Said(who.way(("what's the weather in {}", "weather {} please", "will it rain in {}")).format(city),
                    "get_weather", {"place": city})  # fmt: skip
    if choice < 0.75:
        return Said(who.way(_NEVER), "cancel_request", {})
    if choice < 0.88:
        return Said(
            who.way(("what's the time now", "how late is it", "time please")), "current_time", {}
        )
    return Said(
        who.way(("which day is it today", "what's today's date please", "date please")),
        "current_date",
        {},
    )


_ASKERS: tuple[tuple[float, Callable[[_Speaker], Said | None]], ...] = (
    (22, _switch), (8, _cover), (5, _scene), (11, _light), (5, _position), (6, _warm), (4, _how_warm),
    (14, _state), (6, _media), (4, _volume), (5, _play), (3, _vacuum), (2, _lock), (4, _timer),
    (2, _running_timer), (4, _lists), (4, _talk),
)  # fmt: skip


def home(world: World, rng: Random) -> Example | None:
    """One or two wishes in a home; now and then for a device that is not there, or a follow-up."""
    place = build_home(rng, world.valid)
    who = _Speaker(place, rng, world.valid)
    first = _wish(who) if place.rooms else None
    if first is None:
        return None
    chance = rng.random()
    if chance < 0.07:
        return _not_there(who, first, rng)
    wishes = [first]
    if chance > 0.78 and first.tool not in ("cancel_request", "get_state"):
        second = _wish(who)
        if (
            second
            and second.tool not in ("cancel_request", "get_state")
            and second.slots != first.slots
        ):
            wishes.append(second)
    text = rng.choice((" and ", ", and ", " and then ", ", then ")).join(
        wish.text for wish in wishes
    )
    make, tools = _style(rng, [wish.tool for wish in wishes])
    turns: list[Message] = []
    if len(wishes) == 1 and "area" in first.slots and chance < 0.16:
        others = [room for room in place.rooms if room != first.slots["area"]]
        if others:
            room = rng.choice(others)
            turns = called_turns(rng, text, [make(first)])
            forms = (
                "and in the {}",
                "the {} too",
                "now the same in the {}",
                "also the {} please",
                "and the {}?",
            )
            text = rng.choice(forms).format(room.lower())
            wishes = [Said(text, first.tool, {**first.slots, "area": room})]
    calls = [make(wish) for wish in wishes]
    texts = [wish.text for wish in wishes]
    kind = "home_follow_up" if turns else "home" if len(calls) == 1 else "home_several"
    return Example(_spoken(text, rng), tools, calls, kind, "home", texts, place.told, turns)


def _wish(who: _Speaker) -> Said | None:
    weights = [weight for weight, _ in _ASKERS]
    asker = who.rng.choices([one for _, one in _ASKERS], weights)[0]
    return asker(who)


def _not_there(who: _Speaker, wish: Said, rng: Random) -> Example | None:
    """The device that is named is not in the list: nothing can be called."""
    name = wish.slots.get("name")
    known = [device for device in who.home.devices if device.name == name]
    if not known or wish.tool in ("get_weather", "media_play"):
        return None
    gone = known[0]
    words = set(gone.name.lower().split())
    if any(words & set(d.name.lower().split()) for d in who.home.devices if d is not gone):
        return None  # another device could be meant
    facts = dict(who.home.told)
    facts["entities"] = [row for row in facts["entities"] if row["name"] != gone.name]
    if not facts["entities"]:
        return None
    _, tools = _style(rng, [wish.tool])
    return Example(_spoken(wish.text, rng), tools, [], "home_not_there", "home", [wish.text], facts)


def _spoken(text: str, rng: Random) -> str:
    """Case and marks as people type or as speech comes out."""
    if rng.random() < 0.35:
        text = text[0].upper() + text[1:]
        if text[-1] not in "?.!":
            text += rng.choice(
                (".", ".", "!", "?") if text.startswith(("Can ", "Could ")) else (".", "!", "")
            )
    if rng.random() < 0.12:
        polite = () if "please" in text.lower() else ("please ",)
        text = rng.choice(("hey, ", "ok, ", "um, ", *polite)) + text[0].lower() + text[1:]
    return text


def _style(rng: Random, needed: list[str]) -> tuple[Callable[[Said], ToolCall], list[StyledTool]]:
    """The tools of a home in one manner, and how a wish becomes a call of them."""
    house = pick_house(rng)
    prefix = rng.choice(("", "", "home_", "assist_", "intent_", "house_"))
    wordy = rng.choice((0, 1, 1))
    names = {
        "name": rng.choice(("name", "name", "name", "entity", "device")),
        "area": rng.choice(("area", "area", "area", "room")),
        "domain": rng.choice(("domain", "domain", "domain", "kind")),
        "timer_name": "name",
        "list_name": rng.choice(("name", "list", "list_name")),
    }
    chosen = list(dict.fromkeys(needed))
    rest = [name for name in _TOOLS if name not in chosen]
    chosen += rng.sample(rest, rng.choice((1, 3, 5, 8, 11, 15, 22)))
    rng.shuffle(chosen)
    tools, keys = {}, {}
    for name in chosen:
        descriptions, parameters, required = _TOOLS[name]
        keys[name] = {
            one: naming.parameter_name(names.get(one, one), house.case, False, rng)
            for one in parameters
        }
        properties = {}
        for one in parameters:
            kind = "integer" if one in _WHOLE else "number" if one == "temperature" else "string"
            described = (
                {"description": rng.choice(_DESCRIBED[one])} if wordy and rng.random() < 0.9 else {}
            )
            properties[keys[name][one]] = {"type": kind, **described}
        schema = {
            "type": "object",
            "properties": properties,
            "required": [keys[name][one] for one in required],
        }
        written = naming.tool_name(prefix + name, "home", house.case, False, rng)
        tools[name] = Tool(written, rng.choice(descriptions), schema)

    def make(wish: Said) -> ToolCall:
        arguments = {
            keys[wish.tool][one]: wish.slots[one]
            for one in _TOOLS[wish.tool][1]
            if one in wish.slots
        }
        return ToolCall(tools[wish.tool].name, arguments, source="local")

    return make, [
        StyledTool(Frame(name, tool.description, "home"), tool, {}, rendered=render_tools([tool]))
        for name, tool in tools.items()
    ]
