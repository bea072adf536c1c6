"""Homes to talk about: floors, rooms, devices, and the ways to call them."""

# ruff: noqa: E501 (tables read better with one entry a line)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from training.splits import share_of

HELD_OUT = 0.15  # of the rooms, device names and ways to ask, for validation

_ROOMS = {
    "Ground Floor": ("Kitchen", "Living Room", "Hallway", "Dining Room", "Study", "Pantry", "Lounge",
                     "Porch", "Utility Room", "Conservatory", "Cloakroom", "Den", "Music Room"),
    "First Floor": ("Bedroom", "Bathroom", "Nursery", "Guest Room", "Landing", "Office", "Library",
                    "Dressing Room", "Kids Room", "Master Bedroom", "Sewing Room", "Ensuite"),
    "Attic": ("Loft", "Studio", "Playroom", "Hobby Room"),
    "Basement": ("Cellar", "Workshop", "Laundry Room", "Garage", "Wine Cellar", "Gym", "Boiler Room"),
    "Outside": ("Garden", "Terrace", "Driveway", "Balcony", "Greenhouse", "Shed", "Pool House"),
}  # fmt: skip
_FLOOR_NAMES = {
    "Ground Floor": ("Ground Floor", "Downstairs", "Main Floor"),
    "First Floor": ("First Floor", "Upstairs", "Upper Floor", "Second Floor"),
    "Attic": ("Attic", "Top Floor"),
    "Basement": ("Basement", "Lower Level"),
    "Outside": ("Outside",),
}
# Names by kind of device; `{}` is the room.
_NAMES = {
    "light": ("Desk Lamp", "Floor Lamp", "Reading Light", "Ceiling Light", "Fairy Lights", "{} Light",
              "{} Lamp", "Bedside Lamp", "Spotlights", "Night Light", "LED Strip", "Chandelier",
              "Mirror Light", "Piano Lamp", "Shelf Light", "Lantern", "Stair Lights", "Pendant",
              "Aquarium Light", "Cabinet Lights", "Salt Lamp", "Wall Sconce"),
    "switch": ("Coffee Maker", "Kettle", "{} Plug", "Heater Plug", "Water Pump", "Christmas Tree",
               "Electric Blanket", "Towel Warmer", "Fountain", "Printer", "Dehumidifier",
               "Bug Zapper", "Charger", "Sprinkler", "Rice Cooker", "Air Purifier"),
    "fan": ("Ceiling Fan", "{} Fan", "Tower Fan", "Extractor", "Desk Fan", "Ventilator"),
    "cover": ("{} Blind", "{} Curtains", "Roller Shutter", "Garage Door", "Skylight Blind", "Awning",
              "Left Curtain", "Right Curtain", "Patio Shutter", "Side Gate"),
    "climate": ("{} Thermostat", "Radiator", "Air Conditioner", "Underfloor Heating", "Heat Pump"),
    "media_player": ("{} Speaker", "TV", "Soundbar", "Kitchen Radio", "Record Player", "Projector",
                     "Big Screen", "Stereo", "Echo Pot", "Boombox"),
    "lock": ("Front Door", "Back Door", "Side Door", "Gate", "{} Door", "Mailbox", "Safe"),
    "vacuum": ("Dusty", "Robo", "Rosalind", "Crumbs", "Hoover Bot", "Sir Sweeps", "Zippy"),
    "scene": ("Movie Night", "Good Morning", "Dinner Party", "Focus Time", "Sunset", "Bedtime Story",
              "Away Mode", "Rainy Sunday", "Game Night", "Romantic"),
    "script": ("Water the Plants", "Feed the Fish", "Leaving Home", "Wake the Kids", "Fire Drill",
               "Close Everything", "Panic Button", "Start the Day"),
    "binary_sensor": ("{} Window", "{} Motion", "{} Leak", "{} Smoke Alarm", "Patio Window",
                      "Washing Machine Leak", "Fridge Door", "Baby Monitor", "Cat Flap"),
    "sensor": ("{} Temperature", "{} Humidity", "Phone", "Remote", "Doorbell", "Tablet", "Freezer"),
}  # fmt: skip
_CLASSES = {
    "Blind": "blind", "Curtain": "curtain", "Shutter": "shutter", "Garage": "garage", "Gate": "gate",
    "Awning": "awning", "Window": "window", "Motion": "motion", "Leak": "moisture",
    "Smoke": "smoke", "Door": "door", "Monitor": "sound", "Flap": "opening",
    "Temperature": "temperature", "Humidity": "humidity", "Phone": "battery", "Remote": "battery",
    "Doorbell": "battery", "Tablet": "battery", "Freezer": "temperature",
}  # fmt: skip

# Other words for a device, as long as no other device of the home could be meant.
_ALIASES = {
    "Desk Lamp": ("lamp on the desk", "lamp over the desk", "desk light"),
    "Floor Lamp": ("standing lamp", "lamp on the floor"),
    "Reading Light": ("lamp for reading", "reading lamp"),
    "Ceiling Light": ("light on the ceiling", "lamp on the ceiling"),
    "Bedside Lamp": ("lamp by the bed", "lamp next to the bed", "bedside light"),
    "Mirror Light": ("light over the mirror", "lamp above the mirror"),
    "Piano Lamp": ("lamp on the piano", "light on the piano"),
    "Shelf Light": ("light on the shelf", "lamp on the shelf"),
    "Stair Lights": ("lights on the stairs", "lights along the stairs"),
    "Aquarium Light": ("light in the aquarium", "fish tank light"),
    "Cabinet Lights": ("lights in the cabinet", "lights inside the cabinet"),
    "Night Light": ("little light for the night",),
    "LED Strip": ("strip of LEDs", "light strip"),
    "Coffee Maker": ("coffee machine",),
    "Electric Blanket": ("heated blanket",),
    "Christmas Tree": ("tree", "lit tree"),
    "Air Conditioner": ("air con", "AC"),
    "Underfloor Heating": ("floor heating", "heating under the floor"),
    "Ceiling Fan": ("fan on the ceiling",),
    "Desk Fan": ("fan on the desk", "little fan on the desk"),
    "Record Player": ("turntable",),
    "TV": ("telly", "television"),
    "Garage Door": ("door of the garage",),
    "Front Door": ("door at the front",),
    "Back Door": ("door at the back",),
    "Water Pump": ("pump for the water",),
    "Roller Shutter": ("shutter", "rolling shutter"),
}

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    domain: str
    area: str
    kind: str = ""  # its device class

    def row(self, classes: bool) -> dict[str, str]:
        found = {"name": self.name, "domain": self.domain, "area": self.area}
        return {**found, "class": self.kind} if classes and self.kind else found


@dataclass(slots=True)
class Home:
    """`floors` has the floor of each room; `here` is where the speaker is, if that is known."""

    floors: dict[str, str]
    devices: list[Device]
    here: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def rooms(self) -> list[str]:
        """The rooms that the listener is told of."""
        if "areas" in self.told:
            return list(self.floors)
        known = {device.area for device in self.devices}
        return [room for room in self.floors if room in known]


def in_split(things: Sequence[Thing], valid: bool) -> list[Thing]:
    """The part of some texts that a split may use."""
    return [one for one in things if (share_of(f"home {one}") < HELD_OUT) == valid] or list(things)


def other_words(device: Device, home: Home, valid: bool) -> list[str]:
    """Ways to call a device without its name; none where another one has a word of them."""
    words = in_split(_ALIASES.get(device.name, ()), valid)
    taken = {word for other in home.devices if other is not device for word in _words(other.name)}
    own = set(_words(device.name))
    return [
        one for one in words if not (set(_words(one)) - _COMMON) & (taken - own) and own - taken
    ]


def _words(text: str) -> list[str]:
    return [word.rstrip("s") for word in text.lower().split()]


_COMMON = frozenset(
    [
        "the",
        "on",
        "over",
        "by",
        "in",
        "next",
        "to",
        "of",
        "for",
        "a",
        "at",
        "above",
        "along",
        "inside",
        "under",
        "little",
        "light",
        "lamp",
    ]
)


def build_home(rng: Random, valid: bool) -> Home:
    """A home of three to seven rooms on one to three floors; no two devices share name and room."""
    levels = rng.sample(list(_ROOMS), rng.randint(1, 3))
    floors: dict[str, str] = {}
    for level in levels:
        rooms = in_split(_ROOMS[level], valid)
        named = rng.choice(_FLOOR_NAMES[level])
        for room in rng.sample(rooms, min(len(rooms), rng.randint(1, 3))):
            floors[room] = named
    names: set[str] = set()
    devices: list[Device] = []
    domains = list(_NAMES)
    weights = (8, 3, 2, 3, 2, 3, 2, 1, 1.5, 1.5, 2, 2)
    for _ in range(rng.randint(6, 18)):
        domain = rng.choices(domains, weights)[0]
        area = "" if domain in ("scene", "script") else rng.choice(list(floors))
        if area in _ROOMS["Outside"] and domain in ("climate", "vacuum", "fan"):
            continue
        name = rng.choice(in_split(_NAMES[domain], valid)).format(area)
        if name in names:
            continue
        names.add(name)
        devices.append(Device(name, domain, area, _class_of(name, domain)))
    home = Home(floors, devices)
    if rng.random() < 0.4:
        home.here = rng.choice(list(floors))
    home.told = _facts(home, rng)
    return home


def _class_of(name: str, domain: str) -> str:
    """The device class by the last word of the name: a "Garage Temperature" is a temperature."""
    if domain not in ("cover", "binary_sensor", "sensor"):
        return ""
    if domain == "cover" and name == "Garage Door":
        return "garage"
    words = name.replace("Curtains", "Curtain").replace(" Alarm", "").split()
    return _CLASSES.get(words[-1], "")


def within(room: str) -> str:
    """ "in the kitchen", "on the terrace"."""
    on = ("Terrace", "Balcony", "Porch", "Landing", "Driveway")
    return f"{'on' if room in on else 'in'} the {room.lower()}"


def _facts(home: Home, rng: Random) -> dict[str, Any]:
    """What is told of a home: its devices, often its rooms, and where the speaker is."""
    classes = rng.random() < 0.6
    facts: dict[str, Any] = {"entities": [device.row(classes) for device in home.devices]}
    if rng.random() < 0.7:
        facts["areas"] = [{"name": room, "floor": floor} for room, floor in home.floors.items()]
    if home.here:
        facts["area"] = home.here
    if rng.random() < 0.5:
        facts = dict(reversed(facts.items()))
    return facts
