"""Function calls in a conversation: follow-ups, known facts, questions back, several rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Conversation, Engine, Message
from edgewise.errors import InvalidRequest
from edgewise.local.backend import TokenStream
from edgewise.testing import LoopbackCloud, ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import ToolCall
from edgewise.types.replies import CallReply, TextDelta
from edgewise.types.tokens import Token
from tests.calls.gbnf_walker import Grammar
from tests.flows.calling import TOOLS, calls, settings_for, tool

READS_TURNS = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")
BOOK = tool(
    "book_table",
    "Book a table at a restaurant.",
    restaurant={"type": "string"},
    people={"type": "integer"},
    date={"type": "string"},
)
ASKS = "ask book_table: people, date"
EARLIER = (
    Message("user", "Set a timer for 5 minutes"),
    Message("assistant", "", tool_calls=(ToolCall("set_timer", {"minutes": 5}, id="a"),)),
    Message("tool", "done", tool_call_id="a"),
)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always("Said by the cloud.")
        yield server


def reader(*answers: str, **options: Any) -> ScriptedFunctionModel:
    options.setdefault("logprobs", [[-0.001]] * len(answers))
    return ScriptedFunctionModel(answers, facts=READS_TURNS, **options)


def ask(cloud: LoopbackCloud, device: Any, prompt: Any, tools: Any, **options: Any) -> CallReply:
    with Engine(settings_for(cloud), function_model=device) as engine:
        return engine.call(prompt, tools, **options)


def test_a_follow_up_reads_what_was_called_before(cloud: LoopbackCloud) -> None:
    device = reader('set_timer {"minutes":10}')
    reply = ask(cloud, device, [*EARLIER, Message("user", "make it ten")], TOOLS)
    assert [dict(call.arguments) for call in reply.calls] == [{"minutes": 10}]
    told = device.asked[0].prompt
    assert '<|im_start|>assistant\nset_timer {"minutes":5}<|im_end|>\n' in told
    assert told.endswith("<|im_start|>user\nmake it ten<|im_end|>\n<|im_start|>assistant\n")
    assert told.startswith(device.asked[0].prefix), "the tools come first, so they stay cached"
    assert "five" not in device.asked[0].prefix


def test_a_model_that_reads_one_message_gets_one(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel(['set_timer {"minutes":10}'])
    ask(cloud, device, [*EARLIER, Message("user", "make it ten")], TOOLS)
    assert 'minutes":5' not in device.asked[0].prompt


def test_a_value_from_an_earlier_turn_is_not_made_up(cloud: LoopbackCloud) -> None:
    turns = [Message("user", "Will it rain in Tromsø?"), Message("assistant", "Yes.")]
    again = Message("user", "And the weather there tomorrow?")
    call = 'get_weather {"location":"Tromsø"}'
    kept = ask(cloud, reader(call), [*turns, again], TOOLS, policy="local_only")
    assert kept.calls[0].complaints == ()
    alone = ask(cloud, reader(call), [again], TOOLS, policy="local_only")
    assert (alone.calls, alone.needs) == ((), ("location",))


def test_known_facts_are_told_to_every_model(cloud: LoopbackCloud) -> None:
    facts = {"date": "2026-11-16", "place": "Narvik", "entities": [{"name": "Desk Lamp"}]}
    device = reader('get_weather {"location":"Narvik"}')
    reply = ask(cloud, device, "What is the weather here?", TOOLS, context=facts)
    assert reply.calls[0].complaints == ()
    assert "place: Narvik\n" in device.asked[0].prompt
    assert "date: Mon 2026-11-16; Tue 11-17" in device.asked[0].prompt
    assert "  Desk Lamp" in device.asked[0].prompt
    ask(cloud, None, "What is the weather here?", TOOLS, context=facts, policy="cloud_only")
    told: Any = cloud.requests[-1].body["messages"]
    assert told[0]["role"] == "system" and "place: Narvik" in told[0]["content"]


def test_names_come_out_as_the_list_spells_them(cloud: LoopbackCloud) -> None:
    turn_off = tool("turn_off", "Turn something off", area={"type": "string"})
    facts = {"entities": [{"name": "Hob", "area": "Kitchen"}]}
    device = reader('turn_off {"area":"kitchen"}')
    reply = ask(cloud, device, "everything off in the kitchen", [turn_off], context=facts)
    (call,) = reply.calls
    assert (dict(call.arguments), call.complaints) == ({"area": "Kitchen"}, ())
    assert "listed:area" in call.repairs


def test_what_is_no_mapping_is_refused(cloud: LoopbackCloud) -> None:
    wrong: Any = ["Narvik"]
    with pytest.raises(InvalidRequest, match="context must be a mapping"):
        ask(cloud, reader("none"), "Here?", TOOLS, context=wrong)


def test_a_missing_value_is_asked_for_and_the_answer_completes_the_call(
    cloud: LoopbackCloud,
) -> None:
    complete = 'book_table {"restaurant":"Maaemo","people":4,"date":"2026-11-20"}'
    device = reader(ASKS, complete, "none")
    booked: list[dict[str, Any]] = []

    def book_table(restaurant: str, people: int, date: str) -> str:
        """Book a table at a restaurant."""
        booked.append({"restaurant": restaurant, "people": people, "date": date})
        return "booked"

    chat = ScriptedBackend.confident("Your table is booked.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        talk = Conversation(engine, tools=[book_table], context={"date": "2026-11-16"})
        first = talk.ask("Book a table at Maaemo")
        assert isinstance(first, CallReply)
        assert (first.needs, first.tool_calls) == (("people", "date"), ())
        assert first.text == "How many people, and what is the date?"
        assert (first.source, first.finish_reason) == ("local", "stop")
        assert [one.code for one in first.complaints] == ["question"]
        assert not booked
        last = talk.ask("For four, on the 20th of November 2026")
    assert booked == [{"restaurant": "Maaemo", "people": 4, "date": "2026-11-20"}]
    assert last.text == "Your table is booked."
    assert "How many people, and what is the date?" in device.asked[1].prompt
    assert cloud.requests == []


def test_a_required_value_that_was_made_up_is_asked_for(cloud: LoopbackCloud) -> None:
    invents = 'book_table {"restaurant":"Maaemo","people":2,"date":"2031-05-05"}'
    device = reader(invents, logprobs=[[-0.4]])
    reply = ask(cloud, device, "Book a table for two at Maaemo", [BOOK], policy="local_only")
    assert (reply.calls, reply.needs) == ((), ("date",))
    assert reply.text == "What is the date?"
    older = ScriptedFunctionModel([invents], logprobs=[[-0.4]])
    reply = ask(cloud, older, "Book a table for two at Maaemo", [BOOK], policy="local_only")
    assert reply.needs == (), "a model that does not ask is not made to"


@pytest.mark.parametrize(("deposit", "needs"), [(0, ()), (250, ("deposit",))])
def test_a_zero_goes_without_saying(
    cloud: LoopbackCloud, deposit: int, needs: tuple[str, ...]
) -> None:
    rent = tool("rent", "Rent a boat", boat={"type": "string"}, deposit={"type": "integer"})
    device = reader(f'rent {{"boat":"Havhest","deposit":{deposit}}}', logprobs=[[-0.4]])
    reply = ask(cloud, device, "Rent the Havhest", [rent], policy="local_only")
    assert (bool(reply.calls), reply.needs) == (not needs, needs)


@pytest.mark.parametrize(("surety", "asked"), [(-1.2, False), (-0.001, True)])
def test_numbers_that_were_said_are_not_asked_for_in_doubt(
    cloud: LoopbackCloud, surety: float, asked: bool
) -> None:
    number = {"type": "integer"}
    roots = tool("roots", "Roots of a quadratic equation", a=number, b=number, c=number)
    answers = ["ask roots: b, c", 'roots {"a":5,"b":20,"c":-25}']
    device = reader(*answers, logprobs=[[surety], [-1.0]])
    request = "Find the roots for the coefficients 5, 20 and -25"
    reply = ask(cloud, device, request, [roots], policy="local_only")
    assert reply.needs == (("b", "c") if asked else ())
    assert [call.arguments for call in reply.calls] == (
        [] if asked else [{"a": 5, "b": 20, "c": -25}]
    )


class Hesitant(ScriptedFunctionModel):
    """Says with its first token that it might have asked instead."""

    @override
    def write_call(self, prompt: str, **options: Any) -> TokenStream:
        first = True
        for item in super().write_call(prompt, **options):
            if first and isinstance(item, Token):
                item = replace(item, alternatives=(("ask", -1.5),))
            first = False
            yield item


@pytest.mark.parametrize(("surety", "asked"), [(-0.5, True), (-0.001, False)])
def test_a_likely_question_is_written_where_the_call_is_in_doubt(
    cloud: LoopbackCloud, surety: float, asked: bool
) -> None:
    answers = ['set_timer {"minutes":5}', 'set_timer {"minutes":5}', "ask set_timer: minutes"]
    logprobs = [[surety], [surety], [-0.001]]
    device = Hesitant(answers, logprobs=logprobs, facts=READS_TURNS)
    reply = ask(cloud, device, "Set a timer, I have 5 eggs", TOOLS, policy="local_only")
    assert reply.needs == (("minutes",) if asked else ())
    assert bool(reply.calls) != asked
    if asked:
        last = Grammar(device.asked[-1].grammar)
        assert last.accepts("ask set_timer: minutes")
        assert not last.accepts('set_timer {"minutes":5}') and not last.accepts("none")


def test_one_value_does_not_serve_two_parameters(cloud: LoopbackCloud) -> None:
    rename = tool(
        "rename_file", "Rename a file", path={"type": "string"}, new_name={"type": "string"}
    )
    same = 'rename_file {"path":"scan.pdf","new_name":"scan.pdf"}'
    reply = ask(cloud, reader(same), "rename scan.pdf", [rename], policy="local_only")
    assert (reply.calls, reply.needs) == ((), ("new_name",))
    twice = ask(cloud, reader(same), "rename scan.pdf to scan.pdf", [rename], policy="local_only")
    assert [call.name for call in twice.calls] == ["rename_file"]


def test_a_question_streams_as_the_devices_own_words(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), function_model=reader(ASKS)) as engine:
        events = list(engine.stream("Book a table at Maaemo", tools=[BOOK]))
    (delta,) = [event for event in events if isinstance(event, TextDelta)]
    assert (delta.text, delta.source) == ("How many people, and what is the date?", "local")


def test_a_question_the_device_is_unsure_of_goes_to_the_cloud(cloud: LoopbackCloud) -> None:
    cloud.always(
        calls(ToolCall("book_table", {"restaurant": "Maaemo", "people": 2, "date": "today"}))
    )
    reply = ask(cloud, reader(ASKS, logprobs=[[-3.0]]), "Book a table at Maaemo for two", [BOOK])
    assert (reply.source, reply.needs) == ("cloud", ())
    assert [call.name for call in reply.calls] == ["book_table"]


def test_one_part_is_called_while_the_other_is_asked_about(cloud: LoopbackCloud) -> None:
    device = reader(f'set_timer {{"minutes":5}}\n{ASKS}')
    words = "Set a timer for 5 minutes and book a table at Maaemo"
    reply = ask(cloud, device, words, [*TOOLS, BOOK], policy="local_only")
    assert [call.name for call in reply.calls] == ["set_timer"]
    assert reply.needs == ("people", "date")
    assert reply.to_dict()["needs"] == ["people", "date"]


def test_what_was_found_leads_to_the_next_call(cloud: LoopbackCloud) -> None:
    def find_number(name: str) -> str:
        """Find a person's phone number."""
        return "555 0134"

    dialled = []

    def dial(number: str) -> None:
        """Dial a phone number."""
        dialled.append(number)

    first, then = 'find_number {"name":"Ada"}', 'dial {"number":"555 0134"}'
    device = reader(first, "ask dial: number", then, "none")
    chat = ScriptedBackend.confident("I am calling Ada.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        reply = Conversation(engine, tools=[find_number, dial]).ask("Find Ada's number and dial it")
    assert dialled == ["555 0134"]
    assert reply.text == "I am calling Ada."
    assert "<|im_start|>tool\n555 0134<|im_end|>\n<|im_start|>assistant\n" in device.asked[2].prompt


@pytest.mark.parametrize(
    "again", ['set_timer {"minutes":5}', 'get_weather {"location":"Atlantis"}']
)
def test_a_call_that_was_made_or_is_doubtful_is_not_made_after_results(
    cloud: LoopbackCloud, again: str
) -> None:
    reply = ask(cloud, reader(again, logprobs=[[-3.0]]), EARLIER, TOOLS)
    assert (reply.calls, reply.source) == ((), "local")
    assert cloud.requests == []


def test_who_reads_no_results_is_not_asked_after_them(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel(['set_timer {"minutes":6}'])
    chat = ScriptedBackend.confident("The timer runs.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        assert engine.complete(EARLIER, tools=TOOLS).text == "The timer runs."
    assert device.asked == []


def test_calls_need_the_words_of_somebody(cloud: LoopbackCloud) -> None:
    for turns in ([Message("assistant", "Hello")], [*EARLIER, Message("assistant", "Done.")]):
        with pytest.raises(InvalidRequest, match="last message"):
            ask(cloud, reader("none"), turns, TOOLS)
