"""A home's list of devices: read from tables and prompts, and the only source of names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.home import (
    MOST_TOLD,
    Home,
    home_facts,
    intent_tools,
    is_aimed,
    lacks_target,
    offered_in,
    read_home,
    read_overview,
    take_from_list,
)
from edgewise.types.messages import Tool, ToolCall

TOOLS = {tool.name: tool for tool in intent_tools()}
FACTS: dict[str, Any] = {
    "entities": [
        {"name": "Reading Lamp", "domain": "light", "area": "Study"},
        {"name": "Study Blind", "domain": "cover", "area": "Study", "device_class": "blind"},
        {"name": "Attic", "domain": "light", "area": "Attic"},
        {"name": "Cellar Door", "domain": "lock", "area": "Cellar"},
        {"name": "Remote", "domain": "binary_sensor", "class": "battery"},
        {"name": "Remote", "domain": "binary_sensor", "class": "connectivity"},
        {"name": "Smoke", "domain": "binary_sensor", "class": "smoke", "area": "Cellar"},
        {"name": "Radio", "domain": "media_player", "area": "Cellar"},
        {"name": "Boiler", "domain": "sensor", "class": "temperature"},
        {"name": "Sunset", "domain": "scene"},
    ],
    "areas": [
        {"name": "Study", "floor": "Upper Floor"},
        {"name": "Attic", "floor": "Upper Floor"},
        {"name": "Cellar", "floor": "Basement"},
        {"name": "Garage", "floor": "Basement"},
    ],
}
# As Home Assistant 2026 writes it into the system prompt of a language model.
PROMPT = """You are a voice assistant for Home Assistant.
When controlling Home Assistant always call the intent tools.
Static Context: An overview of the areas and the devices in this smart home:
- names: Reading Lamp, desk light
  domain: light
  areas: Study, Library
- names: 'Boiler'
  domain: sensor
  state: '54'
  attributes:
    device_class: temperature
    unit_of_measurement: °C
- names: A lamp with a name that is so long that the writer of YAML
    folds it
  domain: light
- names: Cellar Door
  domain: lock

You are in area Study (floor Upper Floor) and all generic commands should target this area."""


def home(here: str = "") -> Home:
    found = read_home({**FACTS, **({"area": here} if here else {})})
    assert found is not None
    return found


def fitted(text: str, tool: str, here: str = "", **written: Any) -> dict[str, Any]:
    call = take_from_list(ToolCall(tool, written), TOOLS[tool], home(here), text)
    return dict(call.arguments)


def test_an_overview_in_a_system_prompt_is_a_list_of_devices() -> None:
    found = read_home({}, ["Be brief.", PROMPT])
    assert found is not None
    lamp, boiler, folded, door = found.entities
    assert (lamp.names, lamp.domain, lamp.areas) == (
        ("Reading Lamp", "desk light"),
        "light",
        ("Study", "Library"),
    )
    assert (boiler.name, boiler.kind) == ("Boiler", "temperature")
    assert folded.name == "A lamp with a name that is so long that the writer of YAML folds it"
    assert door.areas == ()
    assert found.here == "Study"


def test_an_alias_means_the_device() -> None:
    found = read_home({}, [PROMPT])
    assert found is not None
    call = ToolCall("HassTurnOn", {"name": "desk light"})
    call = take_from_list(call, TOOLS["HassTurnOn"], found, "turn on the desk light")
    assert dict(call.arguments) == {"name": "Reading Lamp", "domain": "light"}


def test_a_prompt_without_a_list_is_no_home() -> None:
    assert read_home({}, ["You help with recipes.\n- names are fun"]) is None
    assert read_home({"people": [{"name": "Ada", "age": 36}]}) is None


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("turn on the reading lamp", "HassTurnOn", {"name": "Reading Lamp", "domain": "light"}),
        ("study lights off", "HassTurnOff", {"area": "Study", "domain": "light"}),
        ("turn off all lights in the house", "HassTurnOff", {"domain": "light"}),
        ("lights on the upper floor on", "HassTurnOn", {"floor": "Upper Floor", "domain": "light"}),
        ("turn on the attic", "HassTurnOn", {"name": "Attic", "domain": "light"}),
        ("turn on the attic lights", "HassTurnOn", {"area": "Attic", "domain": "light"}),
        ("close the blinds", "HassTurnOff", {"name": "Study Blind", "domain": "cover"}),
        ("unlock the cellar door", "HassTurnOff", {"name": "Cellar Door", "domain": "lock"}),
        ("sunset please", "HassTurnOn", {"name": "Sunset", "domain": "scene"}),
        ("next song in the cellar", "HassMediaNext", {"area": "Cellar"}),
        (
            "is the remote's battery low?",
            "HassGetState",
            {
                "name": "Remote",
                "domain": "binary_sensor",
                "device_class": "battery",
                "state": "on",
            },
        ),
        (
            "is the remote offline?",
            "HassGetState",
            {
                "name": "Remote",
                "domain": "binary_sensor",
                "device_class": "connectivity",
                "state": "off",
            },
        ),
        (
            "is there any smoke in the cellar",
            "HassGetState",
            {
                "area": "Cellar",
                "domain": "binary_sensor",
                "device_class": "smoke",
                "state": "on",
            },
        ),
        ("are all doors locked", "HassGetState", {"domain": "lock", "state": "locked"}),
        (
            "how hot is the boiler",
            "HassGetState",
            {"name": "Boiler", "domain": "sensor", "device_class": "temperature"},
        ),
    ],
)
def test_the_target_comes_from_the_words_and_the_list(
    text: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert fitted(text, tool) == arguments


def test_what_the_list_does_not_have_is_dropped_and_asked_for() -> None:
    for made_up in ({"name": "toaster"}, {"name": "Reading Lamp II"}, {"area": "Moon"}):
        call = take_from_list(
            ToolCall("HassTurnOn", made_up), TOOLS["HassTurnOn"], home(), "turn on the toaster"
        )
        assert dict(call.arguments) == {}
        assert call.repairs == tuple(f"home:{name}" for name in made_up)
        assert lacks_target(call, TOOLS["HassTurnOn"])
    assert not lacks_target(ToolCall("HassMediaNext", {}), TOOLS["HassMediaNext"])


# A flat with two lights, two locks and a blind in the study; the list may lack the rest.
UNKNOWN = (
    ("turn on the bed light", "HassTurnOn"),
    ("turn the bed light on", "HassTurnOn"),
    ("bed light on please", "HassTurnOn"),
    ("turn on the light by the bed", "HassTurnOn"),
    ("turn off the lights in the sauna", "HassTurnOff"),
    ("turn on the pool lights", "HassTurnOn"),
    ("turn off all the pool lights", "HassTurnOff"),
    ("turn off the lights upstairs", "HassTurnOff"),
    ("set the bed light to 50%", "HassLightSet"),
    ("turn on the toaster", "HassTurnOn"),
    ("turn on the toaster in the study", "HassTurnOn"),
    ("unlock the back door", "HassTurnOff"),
    ("unlock the back door in the cellar", "HassTurnOff"),
    ("unlock the door", "HassTurnOff"),
    ("unlock the doors", "HassTurnOff"),
    ("unlock all the doors", "HassTurnOff"),
    ("unlock everything", "HassTurnOff"),
    ("open the garage door", "HassTurnOn"),
    ("unlock two doors", "HassTurnOff"),
    ("turn on two lights", "HassTurnOn"),
    ("open the window", "HassTurnOn"),
    ("set the shutters to 50%", "HassSetPosition"),
    ("turn on the light", "HassTurnOn"),
    ("turn on the lights in here", "HassTurnOn"),
    ("turn on all lights but the reading lamp", "HassTurnOn"),
    ("turn off all the lights except the attic", "HassTurnOff"),
    ("lights on except the study", "HassTurnOn"),
    ("turn off everything apart from the radio", "HassTurnOff"),
    ("turn off the lights but leave the reading lamp", "HassTurnOff"),
)


@pytest.mark.parametrize(("text", "tool"), UNKNOWN)
@pytest.mark.parametrize(
    "written", [{}, {"domain": "light"}, {"name": "Reading Lamp"}, {"name": "Gate", "area": "Hall"}]
)
def test_a_name_that_is_not_listed_is_never_widened_to_its_kind(
    text: str, tool: str, written: dict[str, Any]
) -> None:
    flat = {**FACTS, "entities": [*FACTS["entities"], {"name": "Gate", "domain": "lock"}]}
    found = read_home(flat)
    assert found is not None
    call = take_from_list(ToolCall(tool, written), TOOLS[tool], found, text)
    assert not {"name", "area", "floor", "domain", "device_class"} & set(call.arguments)
    assert lacks_target(call, TOOLS[tool])


@pytest.mark.parametrize(
    "text",
    [
        "unlock the office cellar door",
        "unlock the neighbour's cellar door",
        "unlock the second cellar door",
        "unlock the other cellar door",
        "unlock cellar door 2",
        "unlock the cellar door of the guest house",
        "unlock the cellar door in the shed",
    ],
)
def test_a_lock_is_not_opened_for_a_name_that_only_ends_like_its_own(text: str) -> None:
    assert fitted(text, "HassTurnOff", name="Cellar Door", domain="lock") == {}


@pytest.mark.parametrize(
    "text",
    [
        "please unlock the cellar door now",
        "could you unlock my cellar door for me",
        "unlock the cellar door in the cellar",
        "unlock the cellar door in ten minutes",
        "turn off the reading lamp and unlock the cellar door",
    ],
)
def test_words_that_name_nothing_keep_no_lock_closed(text: str) -> None:
    found = fitted(text, "HassTurnOff", name="Cellar Door", domain="lock")
    assert found["name"] == "Cellar Door"


@pytest.mark.parametrize("here", ["", "Study"])
@pytest.mark.parametrize(
    "text",
    [
        "turn off light 7",
        "turn off the lights in room 5",
        "turn off the 2nd light",
        "turn off 2 lights",
    ],
)
def test_a_number_may_be_a_name_that_is_not_listed(text: str, here: str) -> None:
    assert fitted(text, "HassTurnOff", here, domain="light") == {}
    assert fitted("turn off the lights at 7", "HassTurnOff", here)["domain"] == "light"
    assert fitted("set the study lights to 50 %", "HassLightSet", here)["area"] == "Study"


@pytest.mark.parametrize("here", ["Study", "Cellar"])
def test_a_room_that_is_only_assumed_is_no_target_for_what_is_not_listed(here: str) -> None:
    for text in ("turn on the toaster", "turn on the bed light", "turn it on"):
        assert fitted(text, "HassTurnOn", here) == {}
    assert fitted("turn on the light", "HassTurnOn", here, domain="light")["domain"] == "light"


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("turn on all the lights", "HassTurnOn", {"domain": "light"}),
        ("turn on every light in the house", "HassTurnOn", {"domain": "light"}),
        ("lights off", "HassTurnOff", {"domain": "light"}),
        ("please turn the lights off now", "HassTurnOff", {"domain": "light"}),
        ("could you switch off the lights before bed", "HassTurnOff", {"domain": "light"}),
        ("turn off the lights in the study", "HassTurnOff", {"domain": "light", "area": "Study"}),
        ("turn on the light in the attic", "HassTurnOn", {"domain": "light", "area": "Attic"}),
        ("turn on the reading light", "HassTurnOn", {"domain": "light", "name": "Reading Lamp"}),
        ("turn on the tv", "HassTurnOn", {"domain": "media_player", "name": "Radio"}),
        ("unlock the door", "HassTurnOff", {"domain": "lock", "name": "Cellar Door"}),
        ("lock the cellar door", "HassTurnOn", {"domain": "lock", "name": "Cellar Door"}),
        ("open all the covers", "HassTurnOn", {"domain": "cover", "name": "Study Blind"}),
        (
            "open the blinds in the study",
            "HassTurnOn",
            {"domain": "cover", "device_class": "blind", "area": "Study"},
        ),
    ],
)
def test_all_of_a_kind_are_meant_where_the_words_say_so(
    text: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert fitted(text, tool) == arguments


def test_without_a_list_locks_and_covers_are_named_all_the_same() -> None:
    tool = TOOLS["HassTurnOff"]
    for domain in ("lock", ["lock"], "cover", "valve", "alarm_control_panel"):
        assert lacks_target(ToolCall(tool.name, {"domain": domain}), tool, listed=False)
        named = {"domain": domain, "name": "back door"}
        assert not lacks_target(ToolCall(tool.name, named), tool, listed=False)
    for anything in ({}, {"domain": "light"}):
        assert not lacks_target(ToolCall(tool.name, anything), tool, listed=False)


SHADES: dict[str, Any] = {
    "entities": [
        {"name": f"{room} {noun}", "domain": domain, "area": room, "device_class": kind}
        for room in ("Study", "Attic")
        for noun, domain, kind in (
            ("Shutter", "cover", "shutter"),
            ("Gate", "cover", "gate"),
            ("Door", "lock", ""),
        )
    ]
}


@pytest.mark.parametrize(
    ("text", "kind", "lacks"),
    [
        ("all shutters forty percent open", "shutter", False),
        ("open every shutter in the house", "shutter", False),
        ("shutters everywhere to 40 percent", "shutter", False),
        ("open the shutters", "shutter", True),
        ("open all gates", "gate", True),
        ("unlock all doors", "", True),
    ],
)
def test_all_of_what_lets_nobody_in_may_be_moved(text: str, kind: str, lacks: bool) -> None:
    listed = read_home(SHADES)
    assert listed is not None
    tool = TOOLS["HassTurnOff" if not kind else "HassTurnOn"]
    written = {"domain": "cover", "device_class": kind} if kind else {"domain": "lock"}
    call = take_from_list(ToolCall(tool.name, written), tool, listed, text)
    assert lacks_target(call, tool, text=text) is lacks
    assert lacks_target(ToolCall(tool.name, written), tool, listed=False, text=text) is lacks
    if not lacks:
        assert dict(call.arguments) == written
        other = ToolCall(tool.name, {"domain": "cover", "deviceClass": kind})
        assert not lacks_target(other, tool, text=text)


def test_of_several_rooms_each_call_keeps_its_own() -> None:
    text = "turn on the lights in the study and the cellar"
    assert fitted(text, "HassTurnOn", area="cellar")["area"] == "Cellar"
    assert fitted(text, "HassTurnOn", area="study")["area"] == "Study"


def test_a_room_that_is_not_named_is_where_the_speaker_is() -> None:
    assert fitted("turn on the lights", "HassTurnOn", "Cellar")["area"] == "Cellar"
    assert "area" not in fitted("turn on all the lights", "HassTurnOn", "Cellar")
    assert "area" not in fitted("turn on the lights", "HassTurnOn")


def test_a_device_may_be_described_by_its_room_and_kind() -> None:
    named = fitted("turn on the lamp in the study", "HassTurnOn", name="Reading Lamp")
    assert named == {"name": "Reading Lamp", "area": "Study", "domain": "light"}
    # All of them are meant, or nothing of it was said.
    assert "name" not in fitted("turn on all lamps in the study", "HassTurnOn", name="Reading Lamp")
    assert fitted("turn on the toaster", "HassTurnOn", name="Reading Lamp") == {}


def test_slots_take_the_shape_of_the_tool() -> None:
    """Home Assistant's own tools take lists of domains, and say which device classes there are."""
    many = {"type": "array", "items": {"type": "string"}}
    kinds = {"type": "array", "items": {"type": "string", "enum": ["curtain", "garage"]}}
    fields = {"name": {"type": "string"}, "domain": many, "device_class": kinds}
    tool = Tool("assist__HassTurnOff", "", {"type": "object", "properties": fields})
    call = take_from_list(ToolCall(tool.name, {}), tool, home(), "close the blinds")
    assert dict(call.arguments) == {"name": "Study Blind", "domain": ["cover"]}
    fields |= {"area": {"type": "string"}}
    call = take_from_list(ToolCall(tool.name, {}), tool, home(), "shut the blinds in the study")
    assert dict(call.arguments) == {"domain": ["cover"], "area": "Study"}
    [told] = offered_in(home(), [tool], ["close the blinds"])
    assert "close covers" in told.description


def test_a_call_for_a_room_that_nobody_named_is_not_aimed() -> None:
    tool = TOOLS["HassMediaNext"]
    call = ToolCall("HassMediaNext", fitted("next song", "HassMediaNext", "Cellar"))
    assert dict(call.arguments) == {"area": "Cellar"}
    assert not is_aimed(call, tool, "next song")
    assert is_aimed(call, tool, "next song in the cellar")


def test_amounts_are_bare_numbers() -> None:
    assert fitted("study to 40%", "HassLightSet", brightness="40%")["brightness"] == 40
    assert fitted("study to maximum brightness", "HassLightSet")["brightness"] == 100
    assert fitted("make the study red", "HassLightSet", color="red") == {
        "area": "Study",
        "color": "red",
    }


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("set a timer for an hour and a half", "HassStartTimer", {"hours": 1, "minutes": 30}),
        ("90 minute timer", "HassStartTimer", {"minutes": 90}),
        (
            "take 5 minutes off the 1 hour timer",
            "HassDecreaseTimer",
            {"minutes": 5, "start_hours": 1},
        ),
        ("stop the pasta timer", "HassCancelTimer", {"name": "pasta"}),
        ("pause my timer", "HassPauseTimer", {}),
    ],
)
def test_a_length_beside_the_word_timer_says_which_timer(
    text: str, tool: str, arguments: dict[str, Any]
) -> None:
    assert fitted(text, tool, name="timer") == arguments


def test_the_sort_of_media_is_no_part_of_its_name() -> None:
    asked = fitted("play the Blue Harbour album on the radio", "HassMediaSearchAndPlay")
    assert asked == {"name": "Radio", "search_query": "Blue Harbour", "media_class": "album"}
    # A title that is also a room.
    asked = fitted("play The Cellar", "HassMediaSearchAndPlay", "Study")
    assert asked == {"area": "Study", "search_query": "The Cellar"}


def test_a_question_is_never_offered_a_tool_that_switches() -> None:
    everything = list(TOOLS.values())
    names = {tool.name for tool in offered_in(home(), everything, ["are all lights on?"])}
    assert "HassGetState" in names
    assert names.isdisjoint({"HassTurnOn", "HassTurnOff", "HassLightSet", "HassSetPosition"})
    both = ["is the cellar door locked", "turn on the light"]
    names = {tool.name for tool in offered_in(home(), everything, both)}
    assert {"HassTurnOn", "HassGetState"} <= names


def test_the_function_model_is_told_the_rows_that_may_be_meant() -> None:
    many = [{"name": f"Lamp {n}", "domain": "light", "area": "Hall"} for n in range(100)]
    found = read_home({"entities": [*many, *FACTS["entities"]], "areas": FACTS["areas"]})
    assert found is not None
    told = found.told("is the cellar door locked")
    assert len(told["entities"]) <= MOST_TOLD
    assert told["entities"][0] == {"name": "Cellar Door", "domain": "lock", "area": "Cellar"}


def test_a_file_is_a_table_a_list_of_states_or_an_overview() -> None:
    assert home_facts(json.dumps(FACTS)) == FACTS
    states = [
        {
            "entity_id": "cover.blind",
            "state": "open",
            "attributes": {"friendly_name": "Study Blind", "device_class": "blind"},
        }
    ]
    found = read_home(home_facts(json.dumps(states)))
    assert found is not None
    assert (found.entities[0].name, found.entities[0].domain, found.entities[0].kind) == (
        "Study Blind",
        "cover",
        "blind",
    )
    assert len(home_facts(PROMPT)["entities"]) == 4
    for text in ("", "[]", '{"a": 1}', "nothing", "[1, 2"):
        with pytest.raises(ValueError, match="lists no device"):
            home_facts(text)


@given(st.text(), st.text(max_size=40), st.sampled_from(sorted(TOOLS)), st.text(max_size=12))
def test_no_text_breaks_it(prompt: str, request: str, tool: str, name: str) -> None:
    list(read_overview(prompt))
    text = f"{request} Reading Lamp study {name}"
    call = take_from_list(ToolCall(tool, {"name": name}), TOOLS[tool], home(), text)
    listed = {one for entity in home().entities for one in entity.names}
    if "Timer" not in tool and "area" in TOOLS[tool].parameters["properties"]:
        assert call.arguments.get("name", "Attic") in listed
    assert offered_in(home(), list(TOOLS.values()), [request])
