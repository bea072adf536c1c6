"""Where a conversation goes on, as far as its turns say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgewise.decide.policy import (
    CACHED_S,
    LEAST_CACHED,
    MOST_KNOWN,
    CacheRates,
    Sessions,
    find_chore,
    find_no_progress,
)
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Attempt, Decision, Reply

DECISION = Decision(policy="prefer_local", handoff="automatic", code="", reason="")
LONG = "Read this. " * LEAST_CACHED
ASKED = Message("user", "Mend the greeting.")
NOTE = Message("system", "The file is open.")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def called(arguments: str = "a.py") -> Message:
    call = ToolCall("read", {"path": arguments}, id="c1")
    return Message("assistant", tool_calls=(call,))


def told(words: str = "def greet(): ...") -> Message:
    return Message("tool", words, tool_call_id="c1")


def reply(source: Any, **attempt: Any) -> Reply:
    told = {"place": "cloud", "backend": "openai", "model": "m", "outcome": "answered", **attempt}
    attempts = (Attempt(**told),) if attempt else ()
    return Reply(id="", text="", source=source, decision=DECISION, attempts=attempts)


def answered(source: str, *messages: Message, clock: Clock | None = None) -> Sessions:
    sessions = Sessions(clock or Clock())
    sessions.watch(Request(messages=messages), reply(source))
    return sessions


def found(sessions: Sessions, *messages: Message, **options: Any) -> str:
    misfit, _ = sessions.find(Request(messages=messages, **options))
    assert misfit is None or misfit.soft, "the device answers if the cloud cannot"
    return misfit.code if misfit else ""


@pytest.mark.parametrize("source", ["cloud", "mixed"])
def test_the_results_of_a_clouds_calls_go_to_the_cloud_however_late(source: str) -> None:
    clock = Clock()
    sessions = answered(source, ASKED, clock=clock)
    clock.now += 100 * CACHED_S
    assert found(sessions, ASKED, called(), told()) == "session"
    assert found(sessions, ASKED, called(), told(), NOTE) == "session"


def test_those_of_the_devices_calls_and_of_unknown_ones_are_the_policys_affair() -> None:
    assert found(answered("local", ASKED), ASKED, called(), told()) == ""
    assert found(Sessions(), ASKED, called(), told()) == ""
    other = Message("user", "Mend the other greeting.")
    assert found(answered("cloud", ASKED), other, called(), told()) == ""
    mine = answered("cloud", ASKED)
    assert found(mine, ASKED, called(), told(), owner="somebody else") == ""


def test_the_latest_answer_of_a_conversation_counts() -> None:
    sessions = answered("cloud", ASKED)
    sessions.watch(Request(messages=(ASKED, called(), told())), reply("local"))
    assert found(sessions, ASKED, called(), told(), called("b.py"), told()) == ""


def test_a_long_beginning_is_worth_its_cache_for_some_minutes() -> None:
    clock = Clock()
    begun, more = Message("user", LONG), (Message("assistant", "Done."), ASKED)
    sessions = answered("cloud", begun, clock=clock)
    assert found(sessions, begun, *more) == "session"
    clock.now += CACHED_S + 1
    assert found(sessions, begun, *more) == ""
    short = answered("cloud", ASKED)
    assert found(short, ASKED, *more) == "", "nobody keeps a short beginning"


def test_staying_is_weighed_with_the_price_of_reading_it_again() -> None:
    begun, more = Message("user", LONG), (Message("assistant", "Done."), ASKED)  # 2,800 tokens
    prices = {"dear": CacheRates(5, 0.5, 25), "same": CacheRates(5, 5, 25)}

    def stays(lane: str, messages: tuple[Message, ...] = more, **attempt: Any) -> bool:
        sessions = Sessions(Clock(), lambda name, _: prices.get(name))
        sessions.watch(Request(messages=(begun,)), reply("cloud", backend=lane, **attempt))
        return found(sessions, begun, *messages) == "session"

    assert stays("dear") and stays("unknown")
    assert not stays("same"), "a provider without a price for its cache loses nothing"
    assert not stays("dear", output_tokens=4_000), "an answer as long as the last costs more"
    assert not stays("dear", (more[0], Message("user", LONG))), "so does a long question"


def test_a_provider_that_reads_it_all_again_keeps_nothing() -> None:
    turns = [Message("user", LONG), Message("assistant", "Done."), ASKED]
    for cached, code in ((2_000, "session"), (0, "")):
        sessions = Sessions(Clock())
        sessions.watch(Request(messages=tuple(turns[:1])), reply("cloud", output_tokens=9))
        again = reply("cloud", output_tokens=9, cached_tokens=cached)
        sessions.watch(Request(messages=tuple(turns)), again)
        assert found(sessions, *turns, Message("assistant", "Yes."), ASKED) == code


def test_the_provider_that_has_begun_is_asked_first() -> None:
    sessions = Sessions(Clock())
    sessions.watch(Request(messages=(ASKED,)), reply("cloud", backend="second", output_tokens=9))
    loop = Request(messages=(ASKED, called(), told()))
    assert sessions.find(loop).lane == "second"
    assert sessions.find(replace(loop, deadline_ms=9.0)) == (None, "second")
    assert sessions.find(replace(loop, policy="local_only")).lane == ""
    short = Request(messages=(ASKED, Message("assistant", "Done."), ASKED))
    assert sessions.find(short).lane == "", "the chain's order counts where nothing is lost"


def test_who_says_where_it_goes_is_not_told_otherwise() -> None:
    for options in ({"threshold": 0.0}, {"policy": "local_only"}, {"handoff": "signal"}):
        assert found(answered("cloud", ASKED), ASKED, called(), told(), **options) == "", options


def test_beginnings_are_forgotten_in_the_end() -> None:
    sessions = answered("cloud", ASKED)
    for number in range(MOST_KNOWN):
        sessions.watch(Request(messages=(Message("user", str(number)),)), reply("cloud"))
    assert found(sessions, ASKED, called(), told()) == ""
    last = Message("user", str(MOST_KNOWN - 1))
    assert found(sessions, last, called(), told()) == "session"


CODEX = '{"output": "no", "metadata": {"exit_code": 2, "duration_seconds": 0.1}}'
GEMINI = "Command: ls b\nOutput: (empty)\nExit Code: 2"
CIRCLES = {
    "the same call and result": (ASKED, called(), told(), called(), told()),
    "errors": (ASKED, called(), told("Error: no a.py"), called("b"), told('{"error": "no"}')),
    "errors of a shell": (ASKED, called(), told("Exit code 1\nno"), called("b"), told(CODEX)),
    "errors in tags": (ASKED, called(), told("<tool_use_error>no"), called("b"), told(GEMINI)),
    "a circle of two": (
        ASKED,
        *(called("a"), told(), called("b"), told("x")) * 2,
        called("a"),
        told(),
    ),
}
GOOD = '{"output": "Error handling", "metadata": {"exit_code": 0}}'
PROGRESS = {
    "another result": (ASKED, called(), told("waiting"), called(), told("ready")),
    "another call": (ASKED, called(), told(), called("b.py"), told()),
    "read again once": (ASKED, *(called("a"), told(), called("b"), told("x")) * 2),
    "a command that went well": (ASKED, called(), told("Exit code 0"), called("b"), told(GOOD)),
    "words about errors": (ASKED, called(), told("errors: 0"), called("b"), told("errors: 0.")),
    "one error": (ASKED, called(), told("Error: no a.py"), called("b.py"), told()),
    "the user said something": (ASKED, called(), told(), ASKED, called(), told()),
    "a new question": (ASKED, called(), told(), called(), told(), ASKED),
    "a result that nobody asked for": (ASKED, ASKED, ASKED, told()),
}


@pytest.mark.parametrize("messages", CIRCLES.values(), ids=CIRCLES)
def test_an_agent_that_turns_in_circles_needs_the_cloud(messages: tuple[Message, ...]) -> None:
    misfit = find_no_progress(messages)
    assert misfit is not None and (misfit.code, misfit.soft) == ("no_progress", True)
    assert found(Sessions(), *messages) == "no_progress"


@pytest.mark.parametrize("messages", PROGRESS.values(), ids=PROGRESS)
def test_an_agent_that_gets_on_is_left_alone(messages: tuple[Message, ...]) -> None:
    assert find_no_progress(messages) is None


DIFF = "diff --git a/x b/x\n@@ -1 +1 @@\n-old\n+new\n"
CHORES = [
    ("title", "You are a title generator.", "Fix the parser, please"),
    ("title", "", "Write a short title for this conversation:\n\nuser: Fix the parser"),
    ("title", "Extract three words as a title of the coding session. Say JSON.", "Fix the parser"),
    ("title", "", "### Task\nGenerate an emoji and a title for the chat history.\nuser: hi"),
    ("topic", "Does the user begin a new topic? Provide JSON.", "And now the lexer"),
    ("topic", "", "Generate one to three tags for the main themes of the chat history: hi"),
    ("commit", "", f"Write a commit message for these changes.\n\n{DIFF}"),
    ("summary", "", "Summarize the conversation above in two sentences."),
]


@pytest.mark.parametrize(("chore", "system", "said"), CHORES)
def test_small_work_around_a_conversation_is_known_by_its_shape(
    chore: str, system: str, said: str
) -> None:
    messages = [Message("system", system)] if system else []
    messages.append(Message("user", said))
    assert find_chore(messages, tools=False) == chore
    assert find_chore(messages, tools=True) == "", "an agent that works has tools"
    assert find_chore([*messages, Message("user", "x" * 6_000)], tools=False) == ""


@pytest.mark.parametrize(
    "said",
    [
        "Fix the title of the page in src/App.py",
        "What is the title of Melville's book about a whale?",
        "Write a commit message guide for our team",
        "Summarize the plot of Hamlet",
        "Is there a new song by this band?",
        "",
    ],
)
def test_what_people_ask_for_is_no_small_work(said: str) -> None:
    assert find_chore([Message("user", said)], tools=False) == ""


def test_after_a_result_of_a_tool_an_agent_works() -> None:
    said = [Message("user", "Write a title for this conversation"), Message("tool", "ok")]
    assert find_chore(said, tools=False) == find_chore([], tools=False) == ""
