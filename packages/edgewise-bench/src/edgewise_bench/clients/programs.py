"""The clients: how each is installed, set up and told to mend a file without asking anybody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from edgewise.children import python_child
from edgewise.extras import pip_command
from edgewise_bench.clients.script import Step

# Leading spaces, a line end after the last word and capitals in a name: what a repair would change.
FILE = "Greeting.py"
WRONG = '    return "Helo, " + name\n'
RIGHT = '    return "Hello, " + name\n'
HEAD = "def greet(name):\n"
ORDER = f"Fix the spelling mistake in {FILE}: the greeting is Hello."
DONE = "The greeting is spelled rightly now."
VERSION_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client works: a home of its own, a repository in it, the server, its program."""

    home: Path
    url: str
    program: str = ""

    @property
    def work(self) -> Path:
        return self.home / "work"

    @property
    def file(self) -> str:
        return str(self.work / FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client.

    program    its name on PATH, or "" for a library, which runs in a process of ours
    package    what has to be installed, with the installer's name
    words      of its command line, after the program
    variables  of its environment, beside those that all get
    files      its settings
    steps      what the cloud calls, by the names of tools that it may have
    last       the cloud's last words
    typed      what the cloud says where JSON is wanted, as which model should answer
    """

    name: str
    provider: Literal["openai", "anthropic", "gemini"]
    installer: Literal["npm", "pip"]
    package: str
    program: str = ""
    words: Callable[[Place], Sequence[str]]
    variables: Callable[[Place], Mapping[str, str]] = lambda _: {}
    files: Callable[[Place], Mapping[str, str]] = lambda _: {}
    steps: Callable[[Place], Sequence[Step]] = lambda _: ()
    last: str = DONE
    typed: str = ""

    def find(self, folder: Path | None) -> str | None:
        """The program: in this folder, where an installer put it, or on PATH. None: nowhere."""
        if not self.program:
            return python_child()[0] if self._library() else None
        places = () if folder is None else (folder / "node_modules/.bin", *folder.glob("*/bin"))
        inside = os.pathsep.join(map(str, places))
        return (inside and shutil.which(self.program, path=inside)) or shutil.which(self.program)

    def version(self, program: str, environment: Mapping[str, str]) -> str:
        if not self.program:
            return self._library()
        said = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_S,
            check=False,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
        ).stdout.split()
        return next((word for word in said if word[:1].isdigit()), "unknown")

    def _library(self) -> str:
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""

    def how(self, folder: Path | None) -> str:
        """The command that installs it where it is looked for."""
        place = folder or Path("FOLDER")
        if self.installer == "npm":
            return f"npm install --prefix {place} {self.package}"
        if not self.program:
            return pip_command(self.package)
        own = place / self.package
        return f"python -m venv {own} && {own}/bin/pip install {self.package}"


def environment(place: Place) -> dict[str, str]:
    """What every client gets: a home of its own, and a proxy that refuses what is not ours."""
    home = str(place.home)
    return {
        "PATH": os.pathsep.join((str(Path(place.program).parent), os.defpath, *_node())),
        "HOME": home,
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_CACHE_HOME": f"{home}/.cache",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), place.url),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
    }


def _node() -> list[str]:
    return [str(Path(found).parent) for name in ("node", "git") if (found := shutil.which(name))]


# -- agents ----------------------------------------------------------------------------------------


def _claude_steps(place: Place) -> Sequence[Step]:
    edit = {"file_path": place.file, "old_string": WRONG, "new_string": RIGHT}
    return ({"Read": {"file_path": place.file}}, {"Edit": {**edit, "replace_all": False}})


CLAUDE_CODE = Client(
    name="claude_code",
    provider="anthropic",
    installer="npm",
    package="@anthropic-ai/claude-code",
    program="claude",
    words=lambda _: ("-p", ORDER, "--dangerously-skip-permissions"),
    variables=lambda place: {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_AUTH_TOKEN": "any",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "local",  # titles
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",  # else it does not skip permissions for root
    },
    steps=_claude_steps,
)


def _codex_config(place: Place) -> Mapping[str, str]:
    lines = (
        'model = "auto"',
        'model_provider = "edgewise"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.edgewise]",
        'name = "edgewise"',
        f'base_url = "{place.url}/v1"',
        'wire_api = "responses"',
    )
    return {".codex/config.toml": "\n".join(lines) + "\n"}


def _codex_steps(place: Place) -> Sequence[Step]:
    look = f"cat {FILE}"
    mend = f"cat > {FILE} <<'END'\n{HEAD}{RIGHT}END\n"
    return tuple(
        {
            "exec_command": {"cmd": command, "workdir": str(place.work), "yield_time_ms": 10_000},
            "shell_command": {"command": command, "workdir": str(place.work)},
            "shell": {"command": ["bash", "-c", command], "workdir": str(place.work)},
        }
        for command in (look, mend)
    )


CODEX = Client(
    name="codex",
    provider="openai",
    installer="npm",
    package="@openai/codex",
    program="codex",
    words=lambda _: ("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", ORDER),
    files=_codex_config,
    steps=_codex_steps,
)


def _opencode_config(place: Place) -> Mapping[str, str]:
    config = {
        "provider": {
            "edgewise": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "edgewise",
                "options": {"baseURL": f"{place.url}/v1", "apiKey": "any"},
                "models": {"auto": {"name": "auto"}, "local": {"name": "local"}},
            }
        },
        "model": "edgewise/auto",
        "small_model": "edgewise/local",
        "autoupdate": False,
        "share": "disabled",
    }
    return {".config/opencode/opencode.json": json.dumps(config)}


def _opencode_steps(place: Place) -> Sequence[Step]:
    edit = {"filePath": place.file, "oldString": WRONG, "newString": RIGHT}
    return ({"read": {"filePath": place.file}}, {"edit": edit})


OPENCODE = Client(
    name="opencode",
    provider="openai",
    installer="npm",
    package="opencode-ai",
    program="opencode",
    words=lambda _: ("run", "--auto", ORDER),
    variables=lambda _: {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
    files=_opencode_config,
    steps=_opencode_steps,
)


def _qwen_settings(_place: Place) -> Mapping[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    return {".qwen/settings.json": json.dumps(settings)}


def _qwen_steps(place: Place) -> Sequence[Step]:
    edit = {"file_path": place.file, "old_string": WRONG, "new_string": RIGHT}
    return ({"read_file": {"file_path": place.file}}, {"edit": edit})


QWEN_CODE = Client(
    name="qwen_code",
    provider="openai",
    installer="npm",
    package="@qwen-code/qwen-code",
    program="qwen",
    words=lambda _: ("--yolo", "-p", ORDER),
    variables=lambda place: {
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_MODEL": "auto",
    },
    files=_qwen_settings,
    steps=_qwen_steps,
)


def _gemini_settings(_place: Place) -> Mapping[str, str]:
    settings = {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _gemini_steps(place: Place) -> Sequence[Step]:
    edit = {"file_path": place.file, "old_string": WRONG, "new_string": RIGHT}
    return (
        {"read_file": {"file_path": place.file}},
        {"replace": {**edit, "instruction": "Mend the spelling."}},
    )


GEMINI_CLI = Client(
    name="gemini_cli",
    provider="gemini",
    installer="npm",
    package="@google/gemini-cli",
    program="gemini",
    words=lambda _: ("--yolo", "--skip-trust", "-p", ORDER),
    variables=lambda place: {
        "GEMINI_API_KEY": "any",
        "GOOGLE_GEMINI_BASE_URL": place.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    files=_gemini_settings,
    steps=_gemini_steps,
    typed='{"complexity_reasoning": "One word.", "complexity_score": 5}',
)

# It has no tools: the cloud writes the whole file.
AIDER = Client(
    name="aider",
    provider="openai",
    installer="pip",
    package="aider-chat",
    program="aider",
    words=lambda place: (
        *("--model", "openai/auto", "--openai-api-key", "any"),
        *("--openai-api-base", f"{place.url}/v1"),
        *("--edit-format", "whole", "--yes-always", "--no-auto-commits", "--no-check-update"),
        *("--analytics-disable", "--no-show-model-warnings", "--no-gitignore", "--no-pretty"),
        *("--message", ORDER, FILE),
    ),
    last=f"{FILE}\n```\n{HEAD}{RIGHT}```\n",
)


# -- libraries -------------------------------------------------------------------------------------


def _library(name: str, package: str, provider: Literal["openai", "anthropic"]) -> Client:
    def steps(place: Place) -> Sequence[Step]:
        # Beside the text: a whole number for a number, one that the schema does not know, a null.
        more: dict[str, Any] = {"mode": 420, "size": 10_000, "note": None, "unknown": ["1", 1, 1.0]}
        return ({"write_file": {"path": FILE, "text": HEAD + RIGHT, **more}},)

    return Client(
        name=name,
        provider=provider,
        installer="pip",
        package=package,
        words=lambda place: python_child(
            "-m", "edgewise_bench.clients.libraries", name, place.url, str(place.work)
        )[1:],
        steps=steps,
    )


CLIENTS = {
    client.name: client
    for client in (
        CLAUDE_CODE,
        CODEX,
        OPENCODE,
        QWEN_CODE,
        AIDER,
        GEMINI_CLI,
        _library("openai_chat", "openai", "openai"),
        _library("openai_responses", "openai", "openai"),
        _library("anthropic_messages", "anthropic", "anthropic"),
    )
}
LIBRARIES = tuple(name for name, client in CLIENTS.items() if not client.program)
AGENTS = tuple(name for name, client in CLIENTS.items() if client.program)
