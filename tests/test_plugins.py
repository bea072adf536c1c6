"""Plug-ins: the package that docs/guide/extending.md shows, really installed, found and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from edgewise import plugins
from edgewise.cloud.providers import PROVIDERS
from edgewise.settings import Settings

PAGE = Path(__file__).parent.parent / "docs" / "guide" / "extending.md"


def files_on_the_page() -> dict[str, str]:
    """Every block of the page that begins with the path of a file."""
    blocks = re.findall(
        r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S
    )
    return dict(blocks)


def install(site: Path, name: str, points: dict[str, dict[str, str]], **files: str) -> None:
    """What pip leaves behind: the files, and a dist-info folder with the entry points."""
    for path, text in files.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in points.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the subprocess's sys.path, into which pip installed the page's package."""
    source, folder = tmp_path_factory.mktemp("parrot"), tmp_path_factory.mktemp("site")
    for path, text in files_on_the_page().items():
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_text(text, "utf-8")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--quiet", "--target", folder, source],
        check=True,
    )
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the page's settings."""
    folder = tmp_path / "home"
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "config.toml").write_text(files_on_the_page()["config.toml"])
    return folder


def run(site: Path, code: str, **environment: str) -> Any:
    """What `code` leaves in `result`, from a fresh interpreter: entry points are cached."""
    script = f"import json\n{textwrap.dedent(code)}\nprint(json.dumps(result))"
    return json.loads(python(site, "-c", script, **environment))


def python(site: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        # What the page's config.toml names must count, not the tests' own choice.
        env=os.environ | {"PYTHONPATH": str(site), "EDGEWISE_MODEL": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_built_ins_are_entry_points_too() -> None:
    assert plugins.names("policies") == ["cloud_only", "local_only", "prefer_cloud", "prefer_local"]
    spoken = {name for row in PROVIDERS.values() for name in (row.protocol, row.decisions) if name}
    assert spoken == set(plugins.names("cloud_providers"))
    assert Settings().backend in plugins.names("local_backends")
    for group in ("policies", "cloud_providers", "local_backends"):
        for name in plugins.names(group):
            assert callable(plugins.load(group, name))


def test_the_package_of_the_page_is_found(site: Path) -> None:
    found = run(
        site,
        """
        from edgewise import plugins
        groups = ("policies", "cloud_providers", "local_backends", "runtimes", "ledgers")
        result = [plugins.names(group) for group in groups]
        """,
    )
    assert "impatient" in found[0] and "prefer_local" in found[0]
    assert "parrot" in found[1] and "openai" in found[1]
    assert "parrot" in found[2] and "llama_cpp" in found[2]
    assert "parrot" in found[3] and "parrot" in found[4]


ASK = """
    from edgewise import Engine
    with Engine() as engine:
        result = [
            engine.complete("pretty polly").to_dict(),
            engine.complete("pretty polly", policy="local_only").to_dict(),
            engine.complete("pretty polly", private=True).to_dict(),
        ]
        ledger = engine.parts.ledger
        result += [str(ledger.path), [row["source"] for row in ledger.recent()]]
    """


def test_an_engine_uses_the_policy_the_provider_the_backend_and_the_ledger(
    site: Path, home: Path
) -> None:
    cloud, local, private, ledger, written = run(site, ASK, EDGEWISE_HOME=str(home))

    assert cloud["response"] == "pretty polly "
    assert (cloud["source"], cloud["model"]) == ("cloud", "parrot-large")
    assert (cloud["decision"]["policy"], cloud["decision"]["code"]) == (
        "impatient",
        "policy_impatient",
    )
    assert cloud["usage"]["cost_microdollars"] > 0, "an unknown price is never taken for free"

    assert (local["source"], local["model"]) == ("local", "parrot-1")
    assert local["attempts"][0]["backend"] == "parrot"
    assert local["confidence"] > 0.5
    assert local["decision"]["calibration"] == "transfer"
    assert not local["confidence_verified"], "nobody has calibrated a parrot"

    assert (private["source"], private["decision"]["degraded_code"]) == ("local", "private")

    assert written == ["local", "local", "cloud"], "the latest first"
    assert Path(ledger).name == "perch.sqlite"
    assert Path(ledger).with_suffix(".said").read_text() == "pretty polly \n" * 3


def test_an_engine_uses_the_function_model_of_the_page(site: Path) -> None:
    reply = run(
        site,
        """
        from edgewise import Engine
        from edgewise.testing import ScriptedBackend
        from edgewise_parrot.caller import ParrotCaller

        def set_timer(minutes: int) -> None:
            "Set a timer for so many minutes."

        with Engine(backend=ScriptedBackend(["?"]), function_model=ParrotCaller()) as engine:
            asked = engine.call("set a timer for 5 minutes", [set_timer], policy="local_only")
            result = asked.to_dict()
        """,
    )
    assert [call["name"] for call in reply["tool_calls"]] == ["set_timer"]
    assert (reply["source"], reply["model"]) == ("local", "parrot-caller")


def test_the_command_line_asks_a_model_of_the_runtime_by_name(site: Path, home: Path) -> None:
    (home / "config" / "config.toml").write_text('ledger = "parrot://perch"\n')
    ask = ("-m", "edgewise", "ask", "pretty polly", "--policy", "local_only", "--json")
    told = json.loads(python(site, *ask, "--model", "parrot-1@parrot", EDGEWISE_HOME=str(home)))
    assert (told["response"], told["model"]) == ("pretty polly ", "parrot-1")
    shown = python(site, "-m", "edgewise", "doctor", "--json", EDGEWISE_HOME=str(home))
    assert "edgewise-parrot 1.0" in shown and "perch.sqlite" in shown
    (said,) = home.rglob("perch.said")
    assert said.read_text() == "pretty polly \n"


def test_what_a_provider_raises_becomes_a_reason_to_fall_back(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(
        site,
        "edgewise-clumsy",
        {"edgewise.cloud_providers": {"clumsy": "clumsy:Clumsy"}},
        **{
            "clumsy.py": textwrap.dedent(
                """
                class Clumsy:
                    def __init__(self, config):
                        self.config = config
                    def stream(self, request, wire_id):
                        raise ZeroDivisionError("dropped it")
                        yield
                    def abort(self, wire_id): ...
                    def close(self): ...
                """
            )
        },
    )
    reply = run(
        site,
        """
        from edgewise import Engine, Settings
        from edgewise.testing import ScriptedBackend
        table = {"protocol": "clumsy", "base_url": "http://127.0.0.1:9", "model": "m"}
        settings = Settings.load(chain=["mine"], providers={"mine": table})
        with Engine(settings, backend=ScriptedBackend.confident("Here.")) as engine:
            result = engine.complete("Where?", policy="prefer_cloud").to_dict()
        """,
    )
    assert (reply["response"], reply["degraded"]) == ("Here.", True)
    assert reply["decision"]["degraded_code"] == "cloud_failed"
    told = reply["attempts"][0]["error"]  # its own words may hold a key: they stay in the log
    assert told == "mine broke off: ZeroDivisionError in clumsy.py:6"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no_such_module:policy", "ModuleNotFoundError"),
        ("json:no_such_name", "AttributeError"),
        ("explodes:policy", "RuntimeError: not today"),
        ("misspelt:policy", "SyntaxError"),
    ],
)
def test_a_broken_plug_in_says_which_package_and_why(
    tmp_path: Path, value: str, complaint: str
) -> None:
    site = tmp_path / "site"
    install(
        site,
        "edgewise-broken",
        {"edgewise.policies": {"broken": value}},
        **{"explodes.py": "raise RuntimeError('not today')", "misspelt.py": "def policy(:"},
    )
    told = run(
        site,
        """
        from edgewise import Engine, EdgewiseError
        from edgewise.testing import ScriptedBackend
        with Engine(backend=ScriptedBackend.confident("Yes.")) as engine:
            result = [engine.complete("?").text]  # others are not harmed
            try:
                engine.complete("?", policy="broken")
            except EdgewiseError as error:
                result += [error.code, str(error)]
        """,
    )
    assert told[:2] == ["Yes.", "bad_settings"]
    assert "edgewise-broken" in told[2] and value in told[2] and complaint in told[2]


def test_a_name_registered_twice_is_refused_instead_of_guessed(tmp_path: Path) -> None:
    site = tmp_path / "site"
    points = {"edgewise.policies": {"local_only": "edgewise.decide.policy:cloud_only"}}
    install(site, "edgewise-impostor", points)
    told = run(
        site,
        """
        from edgewise import EdgewiseError, plugins
        try:
            plugins.load("policies", "local_only")
        except EdgewiseError as error:
            result = str(error)
        """,
    )
    assert "edgewise and edgewise-impostor" in told
