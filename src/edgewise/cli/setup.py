"""`edgewise setup`: reads this machine, proposes a model for it, gets it, remembers it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.render import Screen, console, download_bar, megabytes, print_json
from edgewise.cli.streams import command
from edgewise.errors import SettingsError, StoreError
from edgewise.local.store.catalogue import ModelRow, ladder, row_named
from edgewise.local.store.ladder import fits, propose, read_machine
from edgewise.local.store.store import ModelStore
from edgewise.settings import Settings

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
    terminal, nothing is fetched unless you say --yes. The function model is fetched too.

    \b
    edgewise setup
    edgewise setup --yes
    edgewise setup --model large
    """
    settings = Settings.load()
    plan = Plan(settings, model)
    side = console(stderr=True)
    if not as_json:
        plan.show(console())
    accepted = yes or (at_a_terminal() and not as_json and _agree("Do it?"))
    if accepted:
        plan.carry_out()
    if as_json:
        print_json(plan.to_dict() | {"done": accepted})
        return
    if accepted:
        side.say((f"Done. {plan.name} is remembered in {settings.file}", "green"))
        if plan.overruled:
            side.say((f"EDGEWISE_MODEL={plan.overruled} rules as long as it is set", "yellow"))
    else:
        side.say(f"Nothing was changed. {command('setup --yes')} does it.")


class Plan:
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
                wanted = str(_own_file(self._store, wanted))
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


def choose_model(settings: Settings, policy: str | None = None, *, yes: bool = False) -> Settings:
    """Where nobody has named a model yet: the same proposal, once, before the first answer.

    At a terminal it is a question, and the answer is remembered; a No is remembered as `tiny`.
    Elsewhere the best installed rung is used, else `tiny`, and one line says how to choose.
    """
    named = "model" in settings.named or settings.backend != "llama_cpp"
    if named or (policy or settings.policy) == "cloud_only":
        return settings
    side = console(stderr=True)
    if settings.fetch_default_model and (yes or at_a_terminal()):
        plan = Plan(settings)
        plan.show(side)
        try:
            if yes or _agree(f"Use {plan.name}?"):
                return plan.carry_out()
            settings.remember("model", "tiny")
            return settings.with_changes(model="tiny")
        except (StoreError, SettingsError, OSError) as error:
            side.say((f"Not set up: {error}", "yellow"))
    rung = best_installed(settings)
    side.say((f"No model is chosen yet; using {rung}. To choose: {command('setup')}", "dim"))
    return settings.with_changes(model=rung)


def best_installed(settings: Settings) -> str:
    """The highest installed rung that fits into memory, else the lowest, else `tiny`."""
    here = {model.name for model in ModelStore(settings.models_dir).installed()}
    rungs = [rung for rung, row in ladder().items() if row.name in here]
    machine = read_machine(settings.cache_dir)
    fitting = [rung for rung in rungs if fits(ladder()[rung], machine, here)]
    return (fitting[-1:] or rungs[:1] or ["tiny"])[0]


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


def _own_file(store: ModelStore, name: str) -> Path:
    """The user's own GGUF file, by a path that is right in any folder."""
    return store.find(name).path.absolute()
