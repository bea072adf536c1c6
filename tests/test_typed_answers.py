"""Classes and schemas as response formats: what the models are told, and what is refused."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
from collections.abc import Callable
from typing import Annotated, Any, Generic, Self, TypedDict, TypeVar

import pytest
from pydantic import BaseModel, Field, model_validator

from edgewise.errors import InvalidRequest
from edgewise.grammar.answers import compile_answer
from edgewise.grammar.check import check_answer, tell
from edgewise.requests import as_response_format
from edgewise.types.messages import ResponseFormat


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    name: Annotated[str, Field(min_length=1, description="as on a map")]
    nearby: list[Place] = []


class Trip(BaseModel):
    place: Place
    day: datetime.date
    price: decimal.Decimal
    colour: Colour | None = None

    @model_validator(mode="after")
    def not_free(self) -> Self:
        if self.price <= 0:
            raise ValueError("a trip is not free")
        return self


@dataclasses.dataclass
class Point:
    x: int
    y: int = dataclasses.field(default=0, metadata={"description": "up"})

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ArithmeticError("left of the map")


class Named(TypedDict):
    name: str
    point: Point


Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    items: list[Item]


@dataclasses.dataclass
class Alarm:
    at: datetime.time
    on: datetime.datetime
    every: datetime.timedelta


def test_times_are_asked_of_the_device_without_a_zone_that_nobody_said() -> None:
    found = as_response_format(Alarm)
    assert found is not None and found.parse is not None
    forms = [each.get("format") for each in found.schema["properties"].values()]
    assert forms == ["time", "date-time", "duration"], "what a cloud gets"
    told = tell(found.device_schema)
    assert '"at": "HH:MM:SS"' in told and '"on": "YYYY-MM-DDTHH:MM:SS"' in told
    compile_answer(found.device_schema)
    written = '{"at": "09:00:00", "on": "2026-12-05T09:00:00", "every": "01:30:00"}'
    assert check_answer(written, found.schema).fault == ""
    assert found.parse(written) == Alarm(
        datetime.time(9),
        datetime.datetime(2026, 12, 5, 9),
        datetime.timedelta(minutes=90),
    )
    zoned = '{"at": "09:00:00Z", "on": "2026-12-05T09:00:00Z", "every": "PT90M"}'
    assert found.parse(zoned).at.tzinfo is not None, "a cloud may say one"


def made(kind: Any, text: str) -> Any:
    found = as_response_format(kind)
    assert found is not None and found.parse is not None
    compile_answer(found.schema)  # the device can hold it
    return found.parse(text)


def test_an_answer_becomes_an_instance_of_the_class() -> None:
    day = datetime.date(2026, 11, 16)
    text = '{"place":{"name":"Oslo"},"day":"2026-11-16","price":9.5,"colour":"red"}'
    trip = Trip(place=Place(name="Oslo"), day=day, price=decimal.Decimal("9.5"), colour=Colour.RED)
    assert made(Trip, text) == trip
    assert made(Point, '{"x":1,"y":2}') == Point(1, 2)
    assert made(Named, '{"name":"a","point":{"x":1}}') == {"name": "a", "point": Point(1)}
    assert made(Page[int], '{"items":[1]}') == Page[int](items=[1])


def test_the_models_are_told_names_and_descriptions() -> None:
    found = as_response_format(Point)
    assert found is not None
    assert found.schema["properties"]["y"]["description"] == "up"
    assert (found.name, found.schema["required"]) == ("Point", ["x"])
    paged = as_response_format(Page[int])
    assert paged is not None and paged.name == "Page_int_", "OpenAI takes no brackets"


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (Trip, '{"place":{"name":""}}', "$.place.name: String should have at least 1 character"),
        (Page[Point], '{"items":[{"x":1},{"x":"a"}]}', "$.items[1].x: Input should be"),
        (
            Trip,
            '{"place":{"name":"A"},"day":"2026-11-16","price":0}',
            "$: Value error, a trip is not free",
        ),
    ],
)
def test_what_does_not_validate_is_told_in_one_line(kind: Any, text: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        made(kind, text)
    assert str(raised.value).startswith(words) and "\n" not in str(raised.value)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_schemas_are_taken_bare_and_as_openai_has_them() -> None:
    assert as_response_format(SCHEMA) == ResponseFormat(SCHEMA)
    inner = {"name": "it", "schema": SCHEMA, "strict": True}
    whole = ResponseFormat(SCHEMA, "it", strict=True)
    assert as_response_format({"type": "json_schema", "json_schema": inner}) == whole
    assert as_response_format({"type": "json_schema", **inner}) == whole
    assert as_response_format({"type": "json_object"}) == ResponseFormat()
    assert as_response_format({"type": "text"}) is None
    assert as_response_format(whole) is whole


class Odd(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    call: Callable[[], int]


class Lost(TypedDict):
    place: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclasses.dataclass
class Adrift:
    place: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (int, "response_format: the class int is not a pydantic model"),
        (list[int], "response_format: expected a pydantic model"),
        ("json", "response_format: expected a pydantic model"),
        (Point(1), "response_format: expected a pydantic model"),
        (Odd, "response_format: cannot describe Odd:"),
        (Lost, "response_format: cannot describe Lost: name 'Nowhere' is not defined"),
        (Adrift, "response_format: cannot describe Adrift:"),
        ({"type": int}, "response_format: the schema is not JSON:"),
        ({"minimum": float("nan")}, "response_format: the schema is not JSON:"),
        ({"type": "json_schema"}, "response_format.schema: expected an object, got nothing"),
        ({"type": "json_schema", "json_schema": 5}, "response_format.schema: expected"),
    ],
)
def test_what_is_no_type_of_an_answer_is_refused_in_one_line(given: Any, words: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        as_response_format(given)
    assert str(raised.value).startswith(words) and "\n" not in str(raised.value)
