"""`edgewise chat`: one history on both sides, its commands, and stopping without leaving."""

from __future__ import annotations

import pytest

from edgewise.testing import Answer, LoopbackCloud, Status
from tests.cli.conftest import Open, Ran, Run


def talk(run: Run, *lines: str, options: tuple[str, ...] = ()) -> Ran:
    return run("chat", *options, stdin="\n".join(lines) + "\n")


@pytest.mark.real_model
def test_one_history_goes_on_across_both_sides(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    cloud.script("Pablo Picasso painted it.", "In Málaga.")
    ran = talk(
        run,
        "Who painted Guernica?",
        "/policy local_only",
        "Say yes.",
        "/policy cloud_only",
        "Where was he born?",
        "/history",
        options=("--policy", "prefer_cloud", "--max-tokens", "8"),
    )
    assert ran.code == 0
    last = cloud.requests[-1].body["messages"]
    assert [message["role"] for message in last] == ["user", "assistant"] * 2 + ["user"]
    assert last[1]["content"] == "Pablo Picasso painted it."
    local_answer = last[3]["content"]
    assert local_answer.strip()
    assert last[4]["content"] == "Where was he born?"
    page = ran.out.rpartition("you > /history\n")[2]
    assert page.startswith(
        "user: Who painted Guernica?\nassistant (cloud): Pablo Picasso painted it."
    )
    assert f"assistant (local): {local_answer}" in page
    assert "assistant (cloud): In Málaga." in page


@pytest.mark.real_model
def test_the_switch_to_the_cloud_is_shown_where_it_happens(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    cloud.always(Answer(text="Utzon."))
    ran = talk(run, "Who built it?", "/why", options=("--threshold", "1"))
    lines = ran.out.splitlines()
    asked = lines.index("you > Who built it?")
    assert lines[asked + 1].startswith("→ cloud: confidence ")
    assert lines[asked + 2] == "Utzon."
    assert lines[asked + 3].startswith("└ cloud · ")
    reasons = lines[lines.index("you > /why") + 1 :]
    assert reasons[0].startswith("handoff_low_confidence: ")
    assert "handed_off" in reasons[2]
    assert "openai/" in reasons[3]


@pytest.mark.real_model
def test_private_turns_stay_here_and_are_forgotten_before_anything_leaves_again(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    ran = talk(
        run,
        "Public one.",
        "/private",
        "My secret is a walrus.",
        "/private",
        "Public two.",
        options=("--policy", "prefer_cloud", "--max-tokens", "4"),
    )
    assert ran.code == 0
    assert "private: nothing leaves the device" in ran.out
    assert "no longer private; what was said meanwhile is forgotten" in ran.out
    first, second = cloud.requests
    contents = [message["content"] for message in second.body["messages"]]
    assert (contents[0], contents[-1], len(contents)) == ("Public one.", "Public two.", 3)
    assert "walrus" not in str(first.body) + str(second.body)


def test_new_forgets_everything_but_the_system_prompt(run: Run, cloud: LoopbackCloud) -> None:
    talk(run, "One.", "/new", "Two.", options=("--cloud", "--system", "Be brief."))
    contents = [message["content"] for message in cloud.requests[-1].body["messages"]]
    assert contents == ["Be brief.", "Two."]


def test_commands_answer_for_themselves(run: Run) -> None:
    ran = talk(
        run, "/policy", "/policy nope", "/why", "/history", "/nope", "/help", "", "/quit", "x"
    )
    assert ran.code == 0
    for words in (
        "policy: prefer_local (or cloud_only, local_only, prefer_cloud)",
        "nothing called 'nope' in edgewise.policies",
        "nothing asked yet",
        "nothing said yet",
        "no command /nope; /help lists them",
        "/private       on: nothing leaves the device",
    ):
        assert words in ran.out
    assert "you > x" not in ran.out, "it went on after /quit"


def test_an_error_does_not_end_the_conversation(run: Run, cloud: LoopbackCloud) -> None:
    cloud.script(Status(400, message="[b]no[/b]"), "Back.")
    ran = talk(run, "One.", "Two.", options=("--cloud",))
    assert ran.code == 0
    assert "[b]no[/b]" in ran.out
    assert "[cloud_rejected]" in ran.out
    assert "\nBack.\n" in ran.out


def test_json_is_one_object_for_each_line_whatever_it_was(run: Run, cloud: LoopbackCloud) -> None:
    cloud.script("First.", Status(400))
    ran = talk(
        run,
        "One.",
        "Two.",
        "/why",
        "/policy",
        "/policy nope",
        "/private",
        "Three.",
        "/private",
        "/history",
        "/nope",
        "/help",
        "/new",
        "/quit",
        "never",
        options=("--cloud", "--json"),
    )
    assert (ran.code, ran.err) == (0, "")
    one, two, why, policy, nope, private, three, public, history, unknown, help_, new = ran.lines
    assert (one["response"], one["source"]) == ("First.", "cloud")
    assert (two["success"], two["code"]) == (False, "cloud_rejected")
    assert why["decision"]["code"] == "policy_cloud_only"
    assert why["id"] == one["id"]
    assert policy["policy"] == "cloud_only"
    assert (nope["success"], nope["code"]) == (False, "bad_settings")
    assert private == {"success": True, "private": True}
    assert three["code"] == "private"
    assert public["private"] is False
    assert [message["content"] for message in history["messages"]] == ["One.", "First."]
    assert (unknown["success"], unknown["code"]) == (False, "usage")
    assert "history" in help_["commands"]
    assert new["success"] is True


def test_nothing_on_standard_input_is_a_conversation_without_turns(run: Run) -> None:
    assert run("chat", stdin="").code == 0
    ran = run("chat", "--json", stdin="")
    assert (ran.code, ran.out) == (0, "")


def test_ctrl_c_stops_an_answer_and_not_the_conversation(
    cloud: LoopbackCloud, terminal: Open
) -> None:
    cloud.script(Answer(text="word " * 400, delay_between_s=0.05), "Second.")
    shown = terminal("chat", "--cloud")
    shown.wait_for("you >")
    shown.press("One.\n")
    shown.wait_for("word word")
    shown.press("\x03")
    shown.wait_for("you >", times=2)
    shown.press("Two.\n")
    shown.wait_for("you >", times=3)
    shown.press("\x04")
    assert shown.finish() == 0
    assert "stopped" in shown.text
    assert "Second." in shown.text
    messages = cloud.requests[-1].body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"].startswith("word"), "what was shown is remembered"
    assert len(messages[1]["content"]) < 400 * 5


def test_ctrl_c_at_the_prompt_asks_once_and_then_leaves(terminal: Open) -> None:
    shown = terminal("chat", "--cloud")
    shown.wait_for("you >")
    shown.press("half a line\x03")
    shown.wait_for("you >", times=2)
    shown.press("\x03")
    assert shown.finish() == 130
    assert "Ctrl-C again, or Ctrl-D, leaves." in shown.text
    assert "Traceback" not in shown.text


def test_the_line_can_be_edited(cloud: LoopbackCloud, terminal: Open) -> None:
    shown = terminal("chat", "--cloud")
    shown.wait_for("you >")
    shown.press("ne.\x1b[D\x1b[D\x1b[DO\n")  # three times left, then the missing letter
    shown.wait_for("you >", times=2)
    shown.press("\x1b[A\n")  # up: the line before
    shown.wait_for("you >", times=3)
    shown.press("\x04")
    assert shown.finish() == 0
    assert [seen.body["messages"][-1]["content"] for seen in cloud.requests] == ["One.", "One."]
