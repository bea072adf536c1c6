"""What a frame file holds, once parsed: tools, their parameters and the ways people ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["str", "int", "float", "bool"]
NumberKind = Literal["plain", "percent", "fraction", "money", "year"]


@dataclass(frozen=True, slots=True)
class Choice:
    """One value and the ways to say it. `verbatim` means the call copies what was said."""

    value: Any
    said: tuple[str, ...]
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """Values written out in the frame. `closed` ones are an enum of the schema."""

    options: tuple[Choice, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Pool:
    """A shared pool of values, with the form the call wants (`iso`, `24h`, `min`, `s` or "")."""

    name: str
    form: str = ""


@dataclass(frozen=True, slots=True)
class Number:
    """A range of numbers and how they are said."""

    low: float
    high: float
    step: float | None = None
    unit: str = ""
    kind: NumberKind = "plain"
    integral: bool = True


@dataclass(frozen=True, slots=True)
class Flag:
    """Phrases that mean yes and phrases that mean no."""

    yes: tuple[str, ...]
    no: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A small dictionary: keys with their possible values."""

    keys: tuple[str, ...]
    values: Choices | Number


@dataclass(frozen=True, slots=True)
class Objects:
    """A list of objects: how one entry is said, and its fields."""

    forms: tuple[Template, ...]
    fields: dict[str, Parameter]


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day split into whole numbers; the words for the hour say the minute as well."""

    part: Literal["hour", "minute"]

    def of(self, time: str) -> int:
        hour, minute = time.split(":")
        return int(hour if self.part == "hour" else minute)


Values = Choices | Pool | Number | Flag | Pairs | Objects | Clock


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool; a dot in the name makes it a field of an object."""

    name: str
    required: bool
    kind: Kind
    values: Values
    description: str = ""
    counts: tuple[int, int] | None = None  # of items, where it is a list


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a template: plain text, a slot, or text that stands only if `name` is present."""

    text: str = ""
    slot: str = ""
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """One way to ask."""

    parts: tuple[Part, ...]

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.slot for part in self.parts if part.slot))

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset(part.condition for part in self.parts if part.condition)


@dataclass(slots=True)
class Frame:
    """One tool with its requests. `utterances` are whole sentences from public sources."""

    name: str
    description: str
    domain: str
    source: str = "frames"
    parameters: dict[str, Parameter] = field(default_factory=dict)
    templates: list[Template] = field(default_factory=list)
    generic: list[Template] = field(default_factory=list)
    incomplete: list[Template] = field(default_factory=list)
    near_misses: list[Template] = field(default_factory=list)
    utterances: list[tuple[Template, dict[str, Any]]] = field(default_factory=list)

    @property
    def required(self) -> list[str]:
        return [name for name, parameter in self.parameters.items() if parameter.required]

    @property
    def silent(self) -> list[str]:
        """Parameters no words of their own speak of: the minute of a clock."""
        clock = Clock("minute")
        return [name for name, parameter in self.parameters.items() if parameter.values == clock]

    @property
    def clock_hour(self) -> str:
        """The parameter whose words say the whole time; "" where there is none."""
        named = (name for name, one in self.parameters.items() if one.values == Clock("hour"))
        return next(named, "")
