"""`edgewise demo`: a few real requests, answered on this machine and routed live."""

from __future__ import annotations

import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from edgewise import parts
from edgewise.cli import options
from edgewise.cli.call import EXAMPLES, call_line, read_tools
from edgewise.cli.render import COLOURS, Waiting, console, print_json, show_answer, summary
from edgewise.cli.setup import (
    Beside,
    at_a_terminal,
    choose_model,
    ensure_function_model,
    ensure_transcriber,
)
from edgewise.cli.streams import command, warnings_last
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, LocalError, ModelNotFound, StoreError
from edgewise.local.catalogue import PackagePart, SideFile, row_named
from edgewise.local.fetch import fetch_side_files
from edgewise.local.store import ModelStore
from edgewise.parts import is_elsewhere
from edgewise.settings import DEFAULT_MODEL, Settings
from edgewise.testing import Answer, LoopbackCloud
from edgewise.types.messages import RequestOptions

STAND_IN = "stand-in"
_KEY_NAME = "EDGEWISE_DEMO_KEY"
_BUDGET = "$0.000001/day"
_GOLD = "What is the chemical symbol for gold?"
_CHESS = "Who won the chess world championship in 1972?"
_FRANCE = "What is the capital of France?"


@dataclass(frozen=True, slots=True)
class Scene:
    """One request. `flags` and `before` are how a shell says the same as `options`."""

    title: str
    words: str
    calls: bool = False
    options: RequestOptions = field(default_factory=lambda: RequestOptions())
    flags: str = ""
    before: str = ""
    offline: bool = False

    def line(self) -> str:
        """What to type for it, where this demo was started."""
        if self.calls:
            return command(f'call "{self.words}" --tools {EXAMPLES}')
        flags = f"{self.flags} " if self.flags else ""
        return f'{self.before}{command("ask")} {flags}"{self.words}"'


HEARD = "Ten seconds of somebody who speaks"
HEARS = "moonshine-tiny"
SAMPLE = SideFile(
    "beckett.wav",
    318_978,
    PackagePart("useful-moonshine-onnx==20251121", "moonshine_onnx/assets/beckett.wav", 318_978),
    "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
)

# With a threshold of 1 every answer counts as doubtful: what happens then is the point.
SCENES = (
    Scene(
        "Two function calls in one request",
        "Set an alarm for 6:30 and text Maria that I'm on my way",
        calls=True,
    ),
    Scene("None of the functions fits: no call", "Who painted the Mona Lisa?", calls=True),
    Scene("A question it can answer: kept", _GOLD),
    Scene(
        "In doubt: handed off to the stand-in cloud",
        _CHESS,
        options={"threshold": 0.9},
        flags="--threshold 0.9",
    ),
    Scene(
        "In doubt, but private: it stays",
        _FRANCE,
        options={"threshold": 1.0, "private": True},
        flags="--private --threshold 1",
    ),
    Scene(
        "In doubt, but the budget is spent: it stays",
        _FRANCE,
        options={"threshold": 1.0, "budget_key": "demo"},
        flags="--threshold 1",
        before=f"EDGEWISE_BUDGETS='{_BUDGET}' ",
    ),
    Scene(
        "In doubt, but the cloud is out of reach: it stays",
        _FRANCE,
        options={"threshold": 1.0},
        flags="--threshold 1",
        offline=True,
    ),
)


@click.command()
@click.option("--yes", is_flag=True, help="On a machine without a model: get the proposed one.")
@options.as_json
def demo(yes: bool, as_json: bool) -> None:
    """Answer a few requests on this machine, and show what was decided about each.

    The cloud is a stand-in that runs here: nothing leaves this machine, and nobody pays. Your
    keys and your ledger are not touched. Above each answer is the line that asks for it.

    \b
    edgewise demo
    edgewise demo --json | jq '.[].source'
    """
    loaded = Settings.load(max_tokens=48)
    settings = choose_model(loaded, yes=yes, fetches=False)
    asked = loaded.model != settings.model and (yes or at_a_terminal())
    # The small model first: it shows something while the large one comes.
    settings = ensure_function_model(settings, leave_for=[settings.model])
    replies: list[dict[str, Any]] = []
    with (
        Beside(settings) as coming,
        warnings_last(),
        _stand_in(settings) as (cloud, pretend),
        ExitStack() as opened,
    ):
        engine = opened.enter_context(Engine(pretend))
        chats = False
        if not _has_function_model(settings) or _is_here(settings):
            engine.parts.backend()  # without a model there is nothing to show
        if not as_json:
            _introduce(settings)
        for scene in SCENES:
            if scene.calls and not _has_function_model(settings):
                continue
            if not scene.calls and not chats:
                replies += _heard(engine, settings, as_json)
                chats, pretend = True, _with_chat_model(pretend, coming)
                if asked and pretend.model == settings.model:
                    loaded.remember("model", settings.model)
                engine = opened.enter_context(Engine(pretend))
            if scene.offline:
                cloud.stop()
            if not as_json:
                console().say()
                console().say((scene.title, "bold"))
                console().say(("$ ", "dim"), scene.line(), to_copy=True)
            answer = _one_call if scene.calls else _one
            outcome = answer(engine, scene, as_json)
            about = {"title": scene.title, "question": scene.words, "command": scene.line()}
            replies.append(about | outcome)
    if as_json:
        print_json(replies)
    else:
        _conclude(replies)


def _is_here(settings: Settings) -> bool:
    try:
        return bool(ModelStore(settings.models_dir).find(settings.model))
    except LocalError:
        return False


def _with_chat_model(settings: Settings, coming: Beside) -> Settings:
    """Settings whose chat model is here. If it cannot be fetched, another one that is."""
    try:
        coming.wait()
    except StoreError as error:
        console(stderr=True).say((f"Not fetched: {error}", "yellow"))
        unnamed = settings.with_changes(model=DEFAULT_MODEL)
        settings, _ = parts.choose_model(unnamed, may_fetch=False)
    if is_elsewhere(settings.model) or _is_here(settings):
        return settings
    raise ModelNotFound(f"there is no model to show the rest with; run {command('setup')}")


@contextmanager
def _stand_in(settings: Settings) -> Iterator[tuple[LoopbackCloud, Settings]]:
    """A cloud on this machine, and the settings for it. The money is pretended: no real ledger."""
    with LoopbackCloud() as cloud, tempfile.TemporaryDirectory() as folder:
        cloud.always(Answer(text="Bobby Fischer, who beat Boris Spassky in Reykjavik."))
        provider = {
            "protocol": "cactus_cloud",
            "base_url": cloud.cactus_url,
            "model": STAND_IN,
            "key_env": _KEY_NAME,
        }
        pretend = settings.with_changes(
            chain=(STAND_IN,),
            providers={STAND_IN: provider},
            environment={**settings.environment, _KEY_NAME: "pretended"},
            budgets=(f"demo: {_BUDGET}",),
            policy="prefer_local",
            handoff="automatic",
            data_dir=Path(folder),
        )
        yield cloud, pretend


def _has_function_model(settings: Settings) -> bool:
    try:
        ModelStore(settings.models_dir).find(settings.function_model)
    except LocalError:
        return False
    return True


def _introduce(settings: Settings) -> None:
    row = row_named(settings.model)
    named = f"{row.name} ({row.installed_quantisation})" if row else settings.model
    words = f" · device: {named} · cloud: a stand-in on this machine, at pretend prices"
    console().say(("edgewise", "bold"), words)


def _heard(engine: Engine, settings: Settings, as_json: bool) -> list[dict[str, Any]]:
    """Ten seconds of somebody who speaks, if what hears is installed."""
    if find_spec("av") is None or find_spec("onnxruntime") is None:
        return []
    folder = settings.cache_dir / "samples"
    try:
        with Waiting(console(stderr=True), "getting what hears"):
            settings = ensure_transcriber(settings.with_changes(speech_model=HEARS))
            if not (folder / SAMPLE.name).is_file() and settings.fetch_default_model:
                folder.mkdir(parents=True, exist_ok=True)
                fetch_side_files([SAMPLE], folder)
        with (
            Waiting(console(stderr=True), "listening"),
            Engine(engine.settings.with_changes(speech_model=HEARS)) as ears,
        ):
            reply = ears.transcribe(folder / SAMPLE.name)
    except (EdgewiseError, OSError):
        return []  # the next scenes need none of it
    line = command(f"transcribe --model {HEARS} {shlex.quote(str(folder / SAMPLE.name))}")
    if not as_json:
        console().say()
        console().say((HEARD, "bold"))
        console().say(("$ ", "dim"), line, to_copy=True)
        console().say(reply.text)
        console().print(summary(reply))
    return [{"title": HEARD, "question": SAMPLE.name, "command": line} | reply.to_dict()]


def _one(engine: Engine, scene: Scene, as_json: bool) -> dict[str, Any]:
    screen = console()
    try:
        if as_json:
            with Waiting(console(stderr=True), scene.title):
                return engine.complete(scene.words, **scene.options).to_dict()
        reply = show_answer(engine.stream(scene.words, **scene.options), screen, screen)
    except EdgewiseError as error:
        return _refused(error, as_json)
    screen.print(summary(reply))
    if reply.decision.code.startswith("kept"):  # else the arrows above the answer have said why
        screen.say((f"  {reply.decision.code}: {reply.decision.reason}", "dim"))
    return reply.to_dict()


def _refused(error: EdgewiseError, as_json: bool) -> dict[str, Any]:
    """A refusal is a result too: a clear error instead of a wrong answer."""
    if not as_json:
        console().say(("refused: ", "yellow"), str(error), (f" [{error.code}]", "dim"))
    return {"success": False, "error": str(error), "code": error.code}


PATIENT_MS = 60_000.0


def _one_call(engine: Engine, scene: Scene, as_json: bool) -> dict[str, Any]:
    """One request for function calls. Nothing is run."""
    screen = console()
    try:
        with Waiting(console(stderr=True), scene.title):
            # However slow this machine is: the stand-in cloud knows no calls.
            reply = engine.call(scene.words, read_tools(EXAMPLES), deadline_ms=PATIENT_MS)
    except EdgewiseError as error:
        return _refused(error, as_json)
    if not as_json:
        for made in reply.calls:
            screen.say((call_line(made), COLOURS[made.source]))
        if not reply.calls:
            screen.say(("(no call)", "magenta"))
        screen.print(summary(reply))
        screen.say((f"  {reply.decision.code}: {reply.decision.reason}", "dim"))
    return reply.to_dict()


def _conclude(replies: list[dict[str, Any]]) -> None:
    count = Counter(reply["source"] for reply in replies if reply["success"])
    screen = console()
    screen.say()
    screen.say(
        f"{len(replies)} requests · {count['local']} answered on the device · "
        f"{count['cloud'] + count['mixed']} by the stand-in cloud"
    )
    screen.say()
    for line, words in (
        (command("chat"), "talk to it"),
        (command("auth set gemini"), "a real cloud for what it doubts"),
        (command("serve"), "OpenAI's, Anthropic's and Ollama's APIs here"),
        (command("setup"), "another model for this machine"),
        (command("doctor"), "extras for speech, pictures and search: their sizes and commands"),
    ):
        screen.say(line, (f"   # {words}", "dim"), to_copy=True)
