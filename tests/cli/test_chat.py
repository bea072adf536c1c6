"""`edgewise chat`: one history on both sides, its commands, and stopping without leaving."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.local.store import InstalledModel
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
        "there is no policy 'nope'",
        "nothing asked yet",
        "nothing said yet",
        "no command /nope; /help lists them",
        "/private   on: nothing leaves the device",
        "/save      FILE: write the conversation to a file",
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


def test_private_on_is_never_taken_for_off(run: Run, cloud: LoopbackCloud) -> None:
    ran = talk(
        run, "/private on", "/private on", "My secret.", "/private yes", "/private off",
        "/private off", options=("--cloud", "--json"),
    )  # fmt: skip
    one, again, kept, wrong, off, still = ran.lines
    assert one == again == {"success": True, "private": True}
    assert kept["code"] == "private" and not cloud.requests
    assert "/private takes on or off" in wrong["error"]
    assert off["private"] is still["private"] is False


def test_a_system_prompt_of_a_private_time_is_forgotten_with_it(
    run: Run, cloud: LoopbackCloud
) -> None:
    cloud.script("Yes.")
    ran = talk(
        run, "/private on", "/system My secret is a walrus.", "/private off", "Say yes.",
        options=("--cloud", "--json"),
    )  # fmt: skip
    _, _, off, reply = ran.lines
    assert off == {"success": True, "private": False, "forgotten": 1}
    assert reply["source"] == "cloud"
    assert "walrus" not in str(cloud.requests[0].body)
    cloud.script("Yes.")
    talk(run, "/private off", "Say yes.", options=("--cloud", "--private", "--system", "Walrus."))
    assert "Walrus" not in str(cloud.requests[1].body)


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


def test_the_line_can_be_edited_and_comes_back_in_the_next_run(
    cloud: LoopbackCloud, terminal: Open, own_home: Path
) -> None:
    shown = terminal("chat", "--cloud")
    shown.wait_for("you >")
    shown.press("ne.\x1b[D\x1b[D\x1b[DO\r")  # three times left, then the missing letter
    shown.wait_for("└ cloud")
    shown.press("/private\r")
    shown.wait_for("nothing leaves the device")
    shown.press("A secret walrus.\r")
    shown.wait_for("[private]")
    shown.press("\x04")
    assert shown.finish() == 0
    history = own_home / "data" / "chat-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "One." in history.read_text() and "walrus" not in history.read_text()
    again = terminal("chat", "--cloud")
    again.wait_for("you >")
    again.press("\x1b[A\x1b[A\r")  # up, past /private
    again.wait_for("└ cloud")
    again.press("\x04")
    assert again.finish() == 0
    assert [seen.body["messages"][-1]["content"] for seen in cloud.requests] == ["One.", "One."]


def test_commands_complete_and_a_message_may_have_several_lines(
    cloud: LoopbackCloud, terminal: Open, own_home: Path
) -> None:
    shown = terminal("chat", "--cloud", "--no-history")
    shown.wait_for("you >")
    shown.press("/pol\t")
    shown.wait_for("/policy")
    shown.press(" prefer_c\t")
    shown.wait_for("loud")
    shown.press("\r")
    shown.wait_for("policy: prefer_cloud")
    shown.press('"""One\r')
    shown.wait_for("...")
    shown.press('two."""\r')
    shown.wait_for("└ cloud")
    shown.press("Three\x1b\rfour.\r")  # Esc, Enter
    shown.wait_for("└ cloud", times=2)
    shown.press("/exit\r")
    assert shown.finish() == 0
    said = [seen.body["messages"][-1]["content"] for seen in cloud.requests]
    assert said == ["One\ntwo.", "Three\nfour."]
    assert not (own_home / "data" / "chat-history").exists()


def test_the_prompt_is_loaded_only_for_a_person_at_a_terminal() -> None:
    program = "import sys, edgewise.cli.chat; print('prompt_toolkit' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n"


def test_the_system_prompt_can_be_changed_on_the_way(run: Run, cloud: LoopbackCloud) -> None:
    ran = talk(
        run, "/system", "/system Be brief.", "One.", "/system", "/system -", "Two.",
        options=("--cloud",),
    )  # fmt: skip
    assert "no system prompt" in ran.out and ran.out.count("system: Be brief.") == 2
    first, second = (seen.body["messages"] for seen in cloud.requests)
    assert [message["content"] for message in first] == ["Be brief.", "One."]
    assert second[0]["role"] == "user"


def test_a_conversation_is_saved_and_goes_on_in_another_run(
    run: Run, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.script("Goethe.", "In 1749.")
    file = tmp_path / "talk.json"
    ran = talk(run, "Who wrote Faust?", f"/save {file}", "/save", options=("--cloud",))
    assert f"saved: {file}" in ran.out and "/save needs the name of a file" in ran.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ran = talk(run, f"/load {file}", "When was he born?", options=("--cloud",))
    assert "loaded: 2 messages" in ran.out
    sent = [message["content"] for message in cloud.requests[-1].body["messages"]]
    assert sent == ["Who wrote Faust?", "Goethe.", "When was he born?"]


def test_only_a_saved_conversation_is_loaded_or_written_over(run: Run, tmp_path: Path) -> None:
    other, gone, odd = tmp_path / "diary.txt", tmp_path / "gone", tmp_path / "odd.json"
    other.write_text("Dear diary")
    odd.write_text('{"format": "edgewise chat", "messages": [{"role": "boss"}]}')
    ran = talk(run, f"/save {other}", f"/load {other}", f"/load {gone}", f"/load {odd}")
    for words in (
        f"{other} is something else already; choose another name",
        f"{other} is no conversation that /save wrote",
        f"{gone} cannot be read: No such file or directory",
        f"{odd} is damaged: LookupError",
    ):
        assert words in ran.out
    assert other.read_text() == "Dear diary"


def test_private_turns_stay_private_in_a_saved_conversation(
    run: Run, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    file = tmp_path / "talk.json"
    rows = [
        {"role": "user", "content": "Public."},
        {"role": "assistant", "content": "Yes.", "source": "cloud"},
        {"role": "user", "content": "My secret is a walrus.", "private": True},
        {"role": "assistant", "content": "A walrus.", "source": "local", "private": True},
    ]
    file.write_text(json.dumps({"format": "edgewise chat", "messages": rows}))
    ran = talk(run, f"/load {file}", "Repeat it.", "/private", "Say yes.", options=("--cloud",))
    assert "loaded: 4 messages; some are private, so nothing leaves the device" in ran.out
    assert "[private]" in ran.out, "the first question could not leave"
    (seen,) = cloud.requests
    assert [message["content"] for message in seen.body["messages"]] == [
        "Public.",
        "Yes.",
        "Say yes.",
    ]


def test_the_model_is_named_and_others_only_if_there_are_some(run: Run, no_model: Path) -> None:
    ran = talk(run, "/model", options=("--policy", "cloud_only", "--model", "tiny"))
    assert "model: tiny" in ran.out + ran.err
    assert "installed" not in ran.out + ran.err


@pytest.mark.real_model
def test_another_model_goes_on_with_the_same_conversation(
    run: Run, default_model: InstalledModel
) -> None:
    ran = talk(
        run, "Say yes.", "/model nosuch", f"/model {default_model.path}", "Again.", "/history",
        "/model", options=("--local", "--max-tokens", "4", "--json"),
    )  # fmt: skip
    first, unknown, switched, second, history, shown = ran.lines
    assert (unknown["success"], unknown["code"]) == (False, "no_local_model")
    assert switched["model"] == shown["model"] == str(default_model.path)
    assert (first["model"], second["model"]) == (default_model.name, default_model.path.stem)
    assert len(history["messages"]) == 4
