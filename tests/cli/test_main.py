"""The command itself: exit codes, errors in words and in JSON, help, and what is not imported."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import pytest

from edgewise import __version__, plugins
from edgewise.cli.main import EXIT_CODES, cli, command_helps, exit_code, wants_json
from edgewise.errors import EdgewiseError, GenerationFailed
from edgewise.extras import install_command, package_command
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import SCRIPT, Run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("list", "models"),
        ("run", "ask"),
        ("install", "pull"),
        ("login", "auth"),
        ("aks", "ask"),
        ("rm", "models --remove"),
        ("stop", "warm --stop"),
        ("help", "--help"),
        ("version", "--version"),
    ],
)
def test_words_of_other_programs_are_understood(run: Run, word: str, meant: str) -> None:
    ran = run(word)
    assert ran.code == 2
    assert f"No such command {word!r}. Did you mean {meant}?" in ran.err


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").out == f"edgewise, version {__version__}\n"


def test_the_version_loads_nothing_heavy() -> None:
    heavy = "rich numpy httpx httpx2 xllamacpp openai anthropic google.genai keyring sqlite3"
    program = (
        "import sys\n"
        "from edgewise.cli.main import main\n"
        "try:\n    main(['--version'])\n"
        "except SystemExit:\n    pass\n"
        f"print([name for name in {heavy.split()!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.splitlines() == [f"edgewise, version {__version__}", "[]"], ran.stderr


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    ran = run()
    assert ran.code in (0, 2)  # click 8.1 and later ones differ
    assert "Start with:  edgewise demo" in ran.out + ran.err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_lists_every_command_with_a_sentence(run: Run, flag: str) -> None:
    ran = run(flag)
    assert ran.code == 0
    for name, sentence in command_helps().items():
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", ran.out, re.MULTILINE)


def every_command(command: click.Command = cli, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command and group, as the words that call it."""
    if isinstance(command, click.Group):
        context = click.Context(command, help_option_names=["-h", "--help"])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield (*path, name)
            yield from every_command(below, *path, name)


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_command_says_what_it_does_and_takes_json(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words, "-h")
    assert ran.code == 0
    usage, _, rest = ran.out.partition("\n\n")
    assert usage.startswith(f"Usage: edgewise {' '.join(words)}")
    description, _, options = rest.partition("\nOptions:")
    assert len(description.split()) >= 6
    assert words[0] == "bench" or f"edgewise {' '.join(words)}" in description, "no example"
    assert "\nCommands:" in options or "--json" in options


def test_a_mistyped_command_gets_a_suggestion(run: Run) -> None:
    ran = run("aks", "hello")
    assert ran.code == 2
    assert "No such command 'aks'. Did you mean ask?" in ran.err


def test_an_unknown_option_under_json_is_json_too(run: Run) -> None:
    ran = run("ask", "--json", "--nope", "hi")
    assert ran.code == 2
    assert ran.json["success"] is False
    assert ran.json["code"] == "usage"
    assert "--nope" in ran.json["error"]
    assert ran.err == ""


def test_json_after_a_double_dash_is_a_word_of_the_question() -> None:
    assert wants_json(["ask", "--json", "--", "hi"])
    assert not wants_json(["ask", "--", "--json"])


def test_an_error_is_one_line_with_its_code(run: Run) -> None:
    ran = run("ask", "--cloud", "hi")
    assert ran.out == ""
    assert re.fullmatch(r"edgewise: .*edgewise auth set.* \[no_key\]\n", ran.err)


def test_an_error_under_json_is_an_object_on_standard_output(run: Run) -> None:
    ran = run("ask", "--cloud", "--json", "hi")
    assert ran.code == 4
    assert set(ran.json) == {"success", "error", "code"}
    assert ran.json["success"] is False
    assert ran.json["code"] == "no_key"
    assert ran.err == ""


def test_an_error_of_the_operating_system_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    @click.command()
    def broken() -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr(cli, "get_command", lambda _context, _name: broken)
    ran = run("models")
    assert ran.code == 1
    assert ran.err == "edgewise: [Errno 13] Permission denied: '/somewhere' [system]\n"


# -- one of each exit code ----------------------------------------------------------------------


def test_exit_0_when_all_went_well(script: Run) -> None:
    assert script("models").code == 0


def test_exit_1_when_it_failed(script: Run) -> None:
    ran = script("auth", "remove", "gemini")
    assert (ran.code, ran.err) == (1, "edgewise: there is no stored key for gemini [failed]\n")


def test_exit_2_for_wrong_usage_and_wrong_settings(script: Run, own_home: Path) -> None:
    assert script("ask", "--nope").code == 2
    (own_home / "config").mkdir(parents=True)
    (own_home / "config" / "config.toml").write_text("threads = ")
    ran = script("models")
    assert ran.code == 2
    assert "config.toml" in ran.err
    assert "[bad_settings]" in ran.err


@pytest.mark.real_model
def test_exit_3_when_it_fits_neither_side(script: Run, default_model: object) -> None:
    ran = script("ask", "--json", stdin="word " * 12_000)
    assert ran.code == 3
    assert ran.json["code"] == "does_not_fit"


def test_exit_4_when_the_cloud_fails(script: Run) -> None:
    assert script("ask", "--cloud", "hi").code == 4


def test_exit_5_when_there_is_no_such_model(script: Run) -> None:
    ran = script("pull", "smollm2-135")
    assert ran.code == 5
    assert "did you mean smollm2-135m-instruct" in ran.err


def test_exit_6_when_weights_cannot_be_had(script: Run, no_model: Path) -> None:
    ran = script("pull")
    assert ran.code == 6
    assert "[store_failed]" in ran.err


def test_exit_7_when_the_ledger_cannot_be_opened(script: Run, own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "data").write_text("not a folder")
    ran = script("ledger", "--json")
    assert ran.code == 7
    assert ran.json["code"] == "ledger_unavailable"


# 10 is in test_ask.py, where signalling is.


def test_exit_130_when_stopped_in_the_middle_of_an_answer(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="word " * 400, delay_between_s=0.05))
    process = subprocess.Popen(
        [SCRIPT, "ask", "--cloud", "Talk."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(4) == b"word"
    process.send_signal(2)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.decode().endswith("stopped\n")
    assert "Traceback" not in err.decode()
    assert len(out) < 400 * 5
    cloud.wait_for(lambda server: server.disconnects == 1)


def test_stopped_under_json_is_json(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(delay_first_s=30))
    process = subprocess.Popen(
        [SCRIPT, "ask", "--cloud", "--json", "Talk."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    cloud.wait_for(lambda server: bool(server.requests), timeout=30)
    process.send_signal(2)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out) == {"success": False, "error": "stopped", "code": "cancelled"}


def test_every_kind_of_error_has_a_code_and_the_page_lists_them_all() -> None:
    assert exit_code(GenerationFailed("x")) == exit_code(EdgewiseError("x")) == 1
    table = re.findall(r"^\| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    codes = {0, 1, 10, 130} | {code for _, code in EXIT_CODES}
    assert sorted(map(int, table)) == sorted(codes)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Says which commands other packages add, by their entry points."""

    def plug(**values: str) -> None:
        points = [EntryPoint(name, value, "edgewise.commands") for name, value in values.items()]
        for module in (importlib.metadata, plugins):
            monkeypatch.setattr(module, "entry_points", EntryPoints(points).select)
        forget()

    def forget() -> None:
        for known in (plugins._installed, plugins._points, plugins.load):
            known.cache_clear()

    yield plug
    forget()


def test_without_its_package_bench_says_what_to_install(
    run: Run, plugged: Callable[..., None]
) -> None:
    plugged()
    ran = run("bench", "overhead", "--json")
    assert ran.code == 2
    assert ran.json["code"] == "usage"
    assert package_command("edgewise-bench") in ran.json["error"]
    assert "Not installed: edgewise bench says how." in run("--help").out


def test_without_its_package_deploy_names_the_extra(run: Run, plugged: Callable[..., None]) -> None:
    plugged()
    ran = run("deploy", "plan.toml", "--json")
    assert (ran.code, ran.json["code"]) == (1, "missing_extra")
    assert ran.json["error"].startswith("edgewise-cluster is not installed: it comes with ")
    assert install_command("cluster") in ran.json["error"]
    assert "Not installed: edgewise deploy says how." in run("--help").out


def test_another_package_adds_a_command(run: Run, plugged: Callable[..., None]) -> None:
    plugged(greet="tests.cli.test_main:greet")
    assert run("greet", "Ada").out == "Hello Ada\n"
    assert re.search(r"^  greet", run("--help").out, re.MULTILINE)
    assert "Did you mean greet?" in run("gret").err


@pytest.mark.parametrize("value", ["no_such_module:greet", "tests.cli.test_main:NOT_A_COMMAND"])
def test_a_broken_plug_in_breaks_only_its_own_command(
    run: Run, plugged: Callable[..., None], value: str
) -> None:
    plugged(greet=value)
    for words in (("--help",), ("--version",), ("completion", "bash")):
        assert run(*words).code == 0
    ran = run("greet")
    assert ran.code == 2
    assert "plug-in" in ran.err


def test_the_version_looks_for_no_plug_in() -> None:
    program = (
        "import sys\n"
        "from edgewise.cli.main import main\n"
        "try:\n    main(['--version'])\n"
        "except SystemExit:\n    print('edgewise.plugins' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "False"


@click.command()
@click.argument("name")
def greet(name: str) -> None:
    click.echo(f"Hello {name}")


NOT_A_COMMAND = "greet"
