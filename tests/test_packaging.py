"""Files for machines that no test can start: Docker, compose, systemd, launchd, the workflow.

Each is read as its own tool reads it, and what it says about edgewise is compared with the code.
"""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from edgewise.cli.main import cli
from edgewise.server.access import KEY_VARIABLE, OPEN_PATHS
from edgewise.settings import ServerSettings, Settings

ROOT = Path(__file__).parents[1]
SERVER = ServerSettings()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, rest) of each, with continued lines joined and comments left out."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.M)
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, rest) for name, rest in lines]


def last_stage() -> list[tuple[str, str]]:
    lines = dockerfile()
    return lines[max(number for number, (name, _) in enumerate(lines) if name == "FROM") :]


def one(name: str) -> str:
    (rest,) = [rest for found, rest in last_stage() if found == name]
    return rest


def docker_variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in one("ENV").split())


def edgewise_accepts(words: list[str]) -> None:
    """Raises click.UsageError where a command or an option does not exist. Nothing runs."""
    command: click.Command = cli
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(context, name)
        assert found, name
        command = found
    # click keeps the help option of the first context, and other tests print it.
    named = click.Context(command, help_option_names=["-h", "--help"])
    command.make_parser(named).parse_args(list(words))


def known_variables() -> set[str]:
    server = {f"EDGEWISE_SERVER_{name.upper()}" for name in ServerSettings.__dataclass_fields__}
    others = {f"EDGEWISE_{name.upper()}" for name in Settings.__dataclass_fields__}
    return {*server, *others, "EDGEWISE_HOME"}


# -- Docker -----------------------------------------------------------------------------------


def test_the_image_copies_what_is_there_and_nothing_else_is_sent() -> None:
    copied = [
        source
        for name, rest in dockerfile()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    sent = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text("utf-8"), re.M)
    assert sorted(copied) == sorted(sent)
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_installs_extras_that_exist() -> None:
    (extras,) = [rest.partition("=")[2] for name, rest in dockerfile() if name == "ARG"]
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    assert "server" in extras.split(",")


def test_the_container_is_nobody_and_keeps_its_data_in_a_volume() -> None:
    order = [name for name, _ in last_stage()]
    assert one("USER") == "edgewise" and order.index("USER") < order.index("CMD")
    assert docker_variables()["EDGEWISE_HOME"] == one("VOLUME") == one("WORKDIR") == "/data"
    assert "useradd" in " ".join(rest for name, rest in last_stage() if name == "RUN")


def test_the_container_serves_where_it_says_and_is_asked_how_it_is() -> None:
    edgewise_accepts(json.loads(one("CMD")))
    assert json.loads(one("ENTRYPOINT")) == ["edgewise"]
    assert one("EXPOSE") == str(SERVER.port)
    address = f"http://127.0.0.1:{SERVER.port}/healthz"
    assert address in one("HEALTHCHECK") and "/healthz" in OPEN_PATHS
    (code,) = re.findall(r'"-c", "(.*)"\]', one("HEALTHCHECK"))
    compile(code, "HEALTHCHECK", "exec")


def test_the_container_listens_to_others_only_with_a_key() -> None:
    variables = docker_variables()
    assert variables["EDGEWISE_SERVER_HOST"] == "0.0.0.0"
    assert KEY_VARIABLE not in variables  # an image has no secrets; the server insists on one
    ours = {name for name in variables if name.startswith("EDGEWISE_")}
    assert ours <= known_variables()


def test_compose_joins_both_with_the_same_port_name_and_key() -> None:
    ours, theirs = COMPOSE["services"]["edgewise"], COMPOSE["services"]["open-webui"]
    variables = ours["environment"]
    assert {name for name in variables if name.startswith("EDGEWISE_")} <= known_variables()
    assert variables["EDGEWISE_SERVER_HOSTS"] in COMPOSE["services"]
    port = SERVER.port
    assert theirs["environment"]["OPENAI_API_BASE_URL"] == f"http://edgewise:{port}/v1"
    assert theirs["environment"]["OPENAI_API_KEY"] == variables[KEY_VARIABLE]
    assert variables[KEY_VARIABLE].startswith(f"${{{KEY_VARIABLE}:?")  # nothing starts without it
    assert ours["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert "OPENAI_BASE_URL" not in variables  # the server would call itself
    assert (ROOT / "deploy" / ours["build"] / "Dockerfile").exists()
    for service in (ours, theirs):
        assert all(volume.partition(":")[0] in COMPOSE["volumes"] for volume in service["volumes"])
        assert all(published.startswith("127.0.0.1:") for published in service["ports"])


# -- services ---------------------------------------------------------------------------------


def unit() -> RawConfigParser:
    parser = RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read(ROOT / "deploy/edgewise.service", "utf-8")
    return parser


def test_the_unit_of_systemd_starts_a_real_command_and_waits_for_its_end() -> None:
    service = unit()["Service"]
    program, *words = service["ExecStart"].split()
    assert program == "%h/.local/bin/edgewise"
    edgewise_accepts(words)
    assert int(service["TimeoutStopSec"]) > SERVER.drain_s
    assert service["NoNewPrivileges"] == service["RestrictNamespaces"] == "yes"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    written = (ROOT / "deploy/edgewise.service").read_text("utf-8")
    copy = tmp_path / "edgewise.service"
    copy.write_text(written.replace("%h/.local/bin/edgewise", sys.executable), "utf-8")
    told = subprocess.run(
        ["systemd-analyze", "verify", "--user", copy],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")  # it names unknown keys, and returns 0


def test_the_agent_of_launchd_starts_a_real_command_and_waits_for_its_end() -> None:
    path = ROOT / "deploy/edgewise.serve.plist"
    agent = plistlib.loads(path.read_bytes())
    assert agent["Label"] == path.stem
    shell, flag, line = agent["ProgramArguments"]
    assert (shell, flag) == ("/bin/sh", "-c")
    (words,) = re.findall(r'^exec "\$HOME/\.local/bin/edgewise" (.*?) 2>>', line)
    edgewise_accepts(words.split())
    assert agent["ExitTimeOut"] > SERVER.drain_s
    assert agent["Umask"] == 0o077


# -- the workflow -----------------------------------------------------------------------------


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in WORKFLOW["jobs"].items():
        for step in job["steps"]:
            yield name, step


def test_the_workflow_runs_targets_that_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    called = {
        word for _, step in steps() for word in re.findall(r"make (\w+)", step.get("run", ""))
    }
    assert called == {"test", "docs", "dist"}
    assert called <= targets


def test_the_workflow_tests_every_python_that_we_name() -> None:
    named = {
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    }
    for job in ("test", "windows"):
        assert set(WORKFLOW["jobs"][job]["strategy"]["matrix"]["python"]) == named
    machines = {*WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["os"]}
    machines |= {WORKFLOW["jobs"]["windows"]["runs-on"]}
    assert {name.partition("-")[0] for name in machines} == {"ubuntu", "macos", "windows"}


def test_windows_runs_the_commands_of_the_page() -> None:
    page = (ROOT / "docs/guide/install.md").read_text("utf-8")
    (block,) = re.findall(r"```powershell\n(.*?)```", page, re.S)
    run = [step["run"] for job, step in steps() if job == "windows" and "run" in step]
    # On the runner `py` would take its newest Python, not the one of the matrix.
    assert (
        run[: len(block.splitlines())] == block.replace("py -m venv", "python -m venv").splitlines()
    )
    for line in run:
        if command := re.match(r"\.venv\\Scripts\\edgewise (.*)", line):
            edgewise_accepts(command[1].split())
        for folder in re.findall(r"\btests/\w+", line):
            assert (ROOT / folder).is_dir()


def test_an_sdist_holds_what_builds_the_wheel_and_no_more() -> None:
    built = PROJECT["tool"]["hatch"]["build"]["targets"]
    assert built["sdist"]["only-include"] == ["src", "CHANGELOG.md"]
    assert built["wheel"]["packages"] == ["src/edgewise"]
