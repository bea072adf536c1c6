"""What a request holds back is not asked for; what only sounds like it is."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.calls.check import GATE, check_calls
from edgewise.calls.home import intent_tools
from edgewise.calls.intents import as_meant, as_written, held_back, left_wrong
from edgewise.calls.values.text import read_request
from edgewise.types.messages import Tool, ToolCall


def tool(name: str, description: str, **properties: str) -> Tool:
    fields = {field: {"type": kind} for field, kind in properties.items()}
    return Tool(name, description, {"type": "object", "properties": fields, "required": [*fields]})


TOOLS = (
    tool("cancel_order", "Cancel an order by its number", number="integer"),
    tool("set_timer", "Set a countdown timer", minutes="integer"),
    tool("play_music", "Play a song or genre", song="string"),
    tool("send_message", "Send a message to a contact", recipient="string", message="string"),
    tool("turn_off_lights", "Turn off the lights of a room", room="string"),
    tool("dim_lights", "Dim the lights to a percentage", percent="integer"),
    tool("get_weather", "Get current weather for a location", location="string"),
    tool("create_reminder", "Set a reminder", text="string"),
    tool("cancel_reminder", "Delete a reminder", text="string"),
    tool("set_alarm", "Set an alarm", hour="integer"),
    tool("find_route", "Find a route to a place", to="string"),
    tool("book_table", "Book a table at a restaurant", restaurant="string"),
    tool("send_email", "Send an email to a person", to="string", body="string"),
    tool("close_blinds", "Close the blinds of a room", room="string"),
    tool("mute", "Mute the device"),
    tool("set_mute", "Turn the sound off or on", on="boolean"),
    tool("lock_door", "Lock a door", door="string"),
    tool("set_heater", "Switch the heater of a room", room="string", state="string"),
    tool("whisper_mode", "Speak in a whisper or not", on="boolean"),
)
# A request, and a call of the device that it holds back.
HELD_BACK: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("I might want to cancel 1043 but don't do it yet", "cancel_order", dict(number=1043)),
    ("Don't cancel order 1043", "cancel_order", dict(number=1043)),
    ("Please do not cancel order 1043.", "cancel_order", dict(number=1043)),
    ("Should I cancel order 1043?", "cancel_order", dict(number=1043)),
    ("I'm thinking about cancelling 1043", "cancel_order", dict(number=1043)),
    ("What would happen if I cancelled 1043?", "cancel_order", dict(number=1043)),
    ("What happens if I cancel order 1043", "cancel_order", dict(number=1043)),
    ("Cancel order 1043. Never mind.", "cancel_order", dict(number=1043)),
    ("Cancel order 1043, no wait", "cancel_order", dict(number=1043)),
    ("Cancel order 1043 - actually don't", "cancel_order", dict(number=1043)),
    ("Cancel order 1042, no wait, 1043", "cancel_order", dict(number=1042)),
    ("Don't cancel 1042, cancel 1043", "cancel_order", dict(number=1042)),
    ("turn off the lights in the hall, don't dim them", "dim_lights", dict(percent=0)),
    (
        "Email Bob the report, but don't send it yet",
        "send_email",
        dict(to="Bob", body="the report"),
    ),
    ("Set a timer for 5 minutes. Not yet.", "set_timer", dict(minutes=5)),
    ("Set an alarm for 7, but not now", "set_alarm", dict(hour=7)),
    ("Maybe I should cancel 1043", "cancel_order", dict(number=1043)),
    ("I may want to cancel 1043 later", "cancel_order", dict(number=1043)),
    ("What if I cancelled order 1043?", "cancel_order", dict(number=1043)),
    ("Do you think I should cancel 1043?", "cancel_order", dict(number=1043)),
    ("Never turn off the lights in the hall", "turn_off_lights", dict(room="hall")),
    ("You must not cancel order 1043", "cancel_order", dict(number=1043)),
    ("I don't want you to cancel order 1043", "cancel_order", dict(number=1043)),
    ("I don't want to cancel 1043", "cancel_order", dict(number=1043)),
    ("Would it be a good idea to cancel 1043?", "cancel_order", dict(number=1043)),
    (
        "Text Tom I am late. Scratch that.",
        "send_message",
        dict(recipient="Tom", message="I am late"),
    ),
    ("Cancel 1043... hold on", "cancel_order", dict(number=1043)),
    ("Play some jazz, don't book a table at Maaemo", "book_table", dict(restaurant="Maaemo")),
    ("There's no need to cancel order 1043", "cancel_order", dict(number=1043)),
    ("I'm not sure whether I want to cancel 1043", "cancel_order", dict(number=1043)),
    ("Cancel 1043? No, don't.", "cancel_order", dict(number=1043)),
    (
        "I haven't decided, maybe cancel 1043 later, don't do anything now",
        "cancel_order",
        dict(number=1043),
    ),
    (
        "Book a table at Maaemo and set a timer for 5 minutes, but don't book it yet",
        "book_table",
        dict(restaurant="Maaemo"),
    ),
    ("Cancel order 1043. Actually, never mind.", "cancel_order", dict(number=1043)),
    ("Cancel order 1043. Oh, but please, don't do it yet!", "cancel_order", dict(number=1043)),
    ("Let me think about cancelling 1043", "cancel_order", dict(number=1043)),
    ("Let's not cancel 1043", "cancel_order", dict(number=1043)),
    ("You'd better not cancel 1043", "cancel_order", dict(number=1043)),
    ("Under no circumstances cancel 1043", "cancel_order", dict(number=1043)),
    ("No need to cancel 1043", "cancel_order", dict(number=1043)),
    ("I don't think we should cancel 1043", "cancel_order", dict(number=1043)),
    ("I didn't ask you to cancel 1043", "cancel_order", dict(number=1043)),
    ("I won't cancel 1043", "cancel_order", dict(number=1043)),
    ("Stop playing jazz", "play_music", dict(song="jazz")),
    ("Please hold off on booking a table at Maaemo", "book_table", dict(restaurant="Maaemo")),
    ("I want to cancel 1043, but not today", "cancel_order", dict(number=1043)),
    ("Cancel order 1043? I'm not sure", "cancel_order", dict(number=1043)),
    ("Is it smart to cancel 1043?", "cancel_order", dict(number=1043)),
    ("Shall I cancel 1043?", "cancel_order", dict(number=1043)),
    ("I was about to cancel 1043 but changed my mind", "cancel_order", dict(number=1043)),
    ("I wonder whether to cancel 1043", "cancel_order", dict(number=1043)),
    ("Not sure whether to cancel 1043", "cancel_order", dict(number=1043)),
    ("Ask me before cancelling 1043", "cancel_order", dict(number=1043)),
    ("Don't turn on the lights in the hall", "turn_off_lights", dict(room="hall")),
    ("don't turn the lights in the hall on yet", "turn_off_lights", dict(room="hall")),
    ("Don't switch the lights on", "turn_off_lights", dict(room="hall")),
    ("could you not turn on the lights in the hall", "turn_off_lights", dict(room="hall")),
    ("Can you please not cancel order 1043?", "cancel_order", dict(number=1043)),
    ("Unlock the front door.", "lock_door", dict(door="front")),
    ("unmute", "mute", dict()),
    ("Don't open the blinds", "close_blinds", dict(room="hall")),
    ("You shouldn't unlock the door", "lock_door", dict(door="front")),
    ("Don't remind me to call mom just yet", "cancel_reminder", dict(text="call mom")),
    ("Don't turn off the heater in the hall", "set_heater", dict(room="hall", state="off")),
    ("Don't leave the heater on in the hall", "set_heater", dict(room="hall", state="on")),
    ("Don't use the whisper mode", "whisper_mode", dict(on=True)),
)
# A request, and a call that it asks for.
ASKED_FOR: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Don't let me forget to buy milk", "create_reminder", dict(text="buy milk")),
    ("Don't forget to call mom", "create_reminder", dict(text="call mom")),
    ("Remind me not to call mom", "create_reminder", dict(text="not to call mom")),
    ("Set a reminder: don't call mom", "create_reminder", dict(text="don't call mom")),
    ("turn off the lights in the hall, don't dim them", "turn_off_lights", dict(room="hall")),
    ("Why don't you play some jazz", "play_music", dict(song="jazz")),
    ("Can you play some jazz", "play_music", dict(song="jazz")),
    ("Could you cancel order 1043?", "cancel_order", dict(number=1043)),
    ("I want to cancel 1043", "cancel_order", dict(number=1043)),
    (
        "Text Tom: don't wait for me",
        "send_message",
        dict(recipient="Tom", message="don't wait for me"),
    ),
    (
        "Tell Anna I might be late",
        "send_message",
        dict(recipient="Anna", message="I might be late"),
    ),
    (
        "I might be late, tell Anna",
        "send_message",
        dict(recipient="Anna", message="I might be late"),
    ),
    ("Don't cancel 1042, cancel 1043", "cancel_order", dict(number=1043)),
    ("Cancel order 1042, no wait, 1043", "cancel_order", dict(number=1043)),
    ("Should I take an umbrella in Oslo?", "get_weather", dict(location="Oslo")),
    (
        "I'm thinking about going to Oslo, what's the weather there",
        "get_weather",
        dict(location="Oslo"),
    ),
    ("I'm thinking about cancelling 1043. Yes, do it.", "cancel_order", dict(number=1043)),
    ("Play Don't Stop Me Now", "play_music", dict(song="Don't Stop Me Now")),
    ('Play "Don\'t Speak"', "play_music", dict(song="Don't Speak")),
    (
        "I was wondering if you could turn off the lights in the hall",
        "turn_off_lights",
        dict(room="hall"),
    ),
    ("Would it be possible to cancel order 1043?", "cancel_order", dict(number=1043)),
    ("Would you mind cancelling order 1043?", "cancel_order", dict(number=1043)),
    ("Find a route to Oslo, don't use highways", "find_route", dict(to="Oslo")),
    ("I don't want to miss my flight, set an alarm for 5", "set_alarm", dict(hour=5)),
    ("Don't worry about the rest, just cancel 1043", "cancel_order", dict(number=1043)),
    ("No, cancel 1043", "cancel_order", dict(number=1043)),
    ("Yes, cancel order 1043 now", "cancel_order", dict(number=1043)),
    ("Never mind the table, set a timer for 5 minutes", "set_timer", dict(minutes=5)),
    ("Cancel 1043 before they ship it", "cancel_order", dict(number=1043)),
    ("I can't wait, play some jazz", "play_music", dict(song="jazz")),
    ("Email Bob that we should not wait", "send_email", dict(to="Bob", body="we should not wait")),
    ("Maybe play some jazz", "play_music", dict(song="jazz")),
    ("I need to cancel 1043, not 1042", "cancel_order", dict(number=1043)),
    ("Wait for me? Ask Tom and set a timer for 5 minutes", "set_timer", dict(minutes=5)),
    ("Play jazz and set a timer for 5, no wait, 10 minutes", "set_timer", dict(minutes=10)),
    ("Play jazz and set a timer for 5, no wait, 10 minutes", "play_music", dict(song="jazz")),
    ("Let's play some jazz, don't you think?", "play_music", dict(song="jazz")),
    ("I don't know the way, find a route to Oslo", "find_route", dict(to="Oslo")),
    ("Don't remind me to call mom any more", "cancel_reminder", dict(text="call mom")),
    ("I won't be late, set an alarm for 5", "set_alarm", dict(hour=5)),
    ("Don't leave the lights in the hall on", "turn_off_lights", dict(room="hall")),
    ("Don't turn the lights on any more", "turn_off_lights", dict(room="hall")),
    ("unmute", "set_mute", dict(on=False)),
    ("unlock the back door and lock the front door", "lock_door", dict(door="front")),
    ("Could you not forget to turn off the lights", "turn_off_lights", dict(room="hall")),
    ("Don't keep the blinds open", "close_blinds", dict(room="hall")),
    ("Don't leave the heater on in the hall", "set_heater", dict(room="hall", state="off")),
    ("Stop using the whisper mode", "whisper_mode", dict(on=False)),
    ("Tell Anna I was going to call", "send_message", dict(recipient="Anna", message="call")),
    ("I'm not sure of the way, find a route to Oslo", "find_route", dict(to="Oslo")),
)


@pytest.mark.parametrize(("request_words", "name", "arguments"), HELD_BACK)
def test_what_is_negated_taken_back_or_considered_is_held_back(
    request_words: str, name: str, arguments: dict[str, Any]
) -> None:
    cue = held_back(ToolCall(name, arguments, source="local"), request_words, TOOLS)
    assert cue and cue in request_words, "the cue is said"


@pytest.mark.parametrize(("request_words", "name", "arguments"), ASKED_FOR)
def test_what_only_sounds_like_it_is_asked_for(
    request_words: str, name: str, arguments: dict[str, Any]
) -> None:
    assert held_back(ToolCall(name, arguments, source="local"), request_words, TOOLS) == ""


def test_a_tool_for_these_very_words_may_be_called() -> None:
    call = ToolCall("HassNevermind", {}, source="local")
    assert held_back(call, "never mind", intent_tools()) == ""
    lights = ToolCall("HassTurnOff", {"domain": "light"}, source="local")
    assert held_back(lights, "turn off the lights. never mind", intent_tools()) == "never mind"


def test_a_call_that_is_held_back_is_in_doubt() -> None:
    request = "I might want to cancel 1043 but don't do it yet"
    call = ToolCall("cancel_order", {"number": 1043}, source="local", confidence=0.997)
    checked = check_calls({0: [call]}, [read_request(request)], TOOLS, request=request)
    assert "held_back" in checked.of(0) & GATE
    (complaint,) = [one for one in checked.complaints if one.code == "held_back"]
    assert complaint.message == 'the words "don\'t do it yet" hold cancel_order back'
    wrote = ToolCall("cancel_order", {"number": 1043}, source="cloud")
    assert check_calls({0: [wrote]}, [read_request(request)], TOOLS, request=request).of(0) == set()


def test_how_many_calls_there_are_is_no_time() -> None:
    words = "set two timers, five and ten minutes"
    calls = [ToolCall("set_timer", {"minutes": one}, source="local") for one in (2, 5, 10)]
    checked = check_calls({0: calls}, [read_request(words)], TOOLS, request=words)
    assert ["held_back" in call.complaints for call in checked.calls[0]] == [True, False, False]
    days = tool("day_forecast", "Weather of the next days", days="integer")
    four = [ToolCall("day_forecast", {"days": 4}, source="local")]
    next_days = "forecast for the next four days"
    asked = check_calls({0: four}, [read_request(next_days)], [days], request=next_days)
    assert "held_back" not in asked.of(0), "the days are what is asked for"
    said_twice = "set two timers of two minutes"
    asked = check_calls({0: calls[:1]}, [read_request(said_twice)], TOOLS, request=said_twice)
    assert "held_back" not in asked.of(0)


def test_a_document_is_not_read_for_it() -> None:
    long = "Cancel order 1043. " + "Don't do it yet. " * 2_000
    assert held_back(ToolCall("cancel_order", {"number": 1043}), long, TOOLS) == ""


TWENTY = "text Leo I'm ten minutes late, no wait, make that twenty"
PUT_RIGHT: tuple[tuple[str, dict[str, Any], str], ...] = (
    (TWENTY, {"text": "make that twenty"}, "no wait"),
    (TWENTY, {"text": "ten minutes late"}, "no wait"),
    ("set a timer for 5 minutes, actually make it 8", {"minutes": 5}, "actually"),
    ("take me to Villach, no wait, to Wels", {"destination": "Villach"}, "no wait"),
    ("mow the front lawn, I mean the back lawn", {"area": "front"}, "I mean"),
    ("heat the oven to 200 degrees, no, 210", {"degrees": 200}, "no"),
    (TWENTY, {"text": "20 minutes late"}, ""),
    ("set a timer for 5 minutes, actually make it 8", {"minutes": 8}, ""),
    ("take me to Villach, no wait, to Wels", {"destination": "Wels"}, ""),
    ("tell Anna no, I can't come", {"to": "Anna", "text": "no, I can't come"}, ""),
    ("book a table for 2 at 6 pm, actually for 3", {"people": 3, "time": "18:00"}, ""),
    ("make it 20 degrees", {"degrees": 20}, ""),
    ("text Tom that I am sick, sorry", {"to": "Tom", "text": "I am sick"}, ""),
)  # fmt: skip


@pytest.mark.parametrize(("request_text", "arguments", "cue"), PUT_RIGHT)
def test_what_was_put_right_is_what_is_wanted(
    request_text: str, arguments: dict[str, Any], cue: str
) -> None:
    assert left_wrong(ToolCall("anything", arguments), request_text) == cue


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("text Leo I'm ten minutes late, no wait, make that twenty",
         "text Leo I'm twenty minutes late"),
        ("set a timer for 5 minutes, actually make it 8", "set a timer for 8 minutes"),
        ("dim it to 30 percent no wait make that 50", "dim it to 50 percent"),
        ("dim it to 30%, sorry, 40 percent please", "dim it to 40%"),
        ("wake me at 7, no, 8 am", "wake me at 8 am"),
        ("book a table for 2 at 6 pm, actually for 3", "book a table for 3 at 6 pm"),
        ("timer for 5 minutes, no, ten minutes. Play jazz", "timer for ten minutes. Play jazz"),
        ("pay $20, no wait, $30", "pay $30"),
        ("cancel 1042, no wait, 1043", "cancel 1043"),
    ],
)  # fmt: skip
def test_a_number_that_is_put_right_is_the_one_that_is_meant(said: str, meant: str) -> None:
    assert as_meant(said) == meant
    assert as_meant(meant) == meant


@pytest.mark.parametrize(
    "said",
    [
        "set the oven to 200 and make it 20 minutes",
        "set the oven to 200 degrees, no wait, 20 minutes",
        "table for 2 at 6 pm, no, 3",
        "tell Anna no, 5 is too late",
        "call Anna, no sorry, call Hanna Berg",
        "wake me at 6:30, no, 7",
        'write "5, no wait, 6" to Tom',
        "remind me to call mom at 5, no wait",
        "text Bob that 5 is fine, not 6",
    ],
)
def test_what_else_is_put_right_is_left_to_the_model(said: str) -> None:
    assert as_meant(said) == said


def test_a_call_with_what_was_put_right_puts_one_without_it_in_doubt() -> None:
    five, eight = (ToolCall("set_timer", {"minutes": one}, source="local") for one in (5, 8))
    words = "set a timer for 5 minutes, actually make it 8"
    checked = check_calls({0: [five, eight]}, [read_request(words)], TOOLS, request=words)
    assert ["held_back" in call.complaints for call in checked.calls[0]] == [True, False]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("turn on the light", "Turn on the light."),
        ("Turn on the light!", "Turn on the light."),
        ("how warm is it", "How warm is it?"),
        ("um could you please mute it", "Could you please mute it?"),
        ("add eggs and uh lemons", "Add eggs and lemons."),
        ("wake me at 7 p.m.", "Wake me at 7 p.m."),
        ("print report.pdf.", "Print report.pdf"),
        ("text Sam: how are you?", "Text Sam: how are you?"),
        ("stell den Wecker um 7", "Stell den Wecker um 7."),
        ('say "um, hi"', 'Say "um, hi"'),
        ("iPhone bestellen", "iPhone bestellen."),
        ("...", "..."),
    ],
)
def test_a_request_is_written_as_most_are(said: str, written: str) -> None:
    assert as_written(said) == written
    assert as_written(written) == written
