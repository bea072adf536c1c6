"""The quickest runtime for a model on this machine: measured once, and remembered.

Some twenty short passes on each runtime that is installed say which one is it. The choice belongs
to the weights, the machine and the releases it was made with. If one of these is another, the model
runs on llama.cpp until somebody measures again. A model keeps its own name, whatever runs it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgewise import plugins
from edgewise.errors import EdgewiseError, LocalError
from edgewise.local.backend import CallToWrite, DeviceFacts
from edgewise.local.catalogue import Progress, silent
from edgewise.local.store import (
    LLAMA_CPP,
    InstalledModel,
    ModelStore,
    runtime_named,
    runtime_names,
)
from edgewise.types.messages import Message, Request, Tool
from edgewise.types.replies import Finish

PASSES = 20
WORTH_CHANGING = 0.9  # of llama.cpp's time: what is hardly quicker is not worth another runtime
SAME_ANSWERS = 0.8  # share of the calls that must be llama.cpp's
ANSWER_TOKENS = 16  # of a chat model's pass
FILE = "runtimes.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was measured of one model, and which runtime it is run by since then.

    milliseconds  of a pass, by runtime: the mean of the quicker half
    left_out      runtimes that were not measured, or may not be chosen, and why
    """

    model: str
    runtime: str  # empty: llama.cpp
    calibration: str
    milliseconds: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    machine: str = ""
    releases: Mapping[str, str] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """How many times as quick as llama.cpp."""
        before = self.milliseconds.get(LLAMA_CPP, 0.0)
        after = self.milliseconds.get(self.runtime or LLAMA_CPP, 0.0)
        return before / after if before and after else 1.0

    def outdated(self, model: InstalledModel) -> str:
        """What is not as it was when this was measured; empty if all is."""
        if self.sha256 != model.sha256:
            return "the weights are others"
        if self.machine != machine_name():
            return "it was another machine"
        for package, release in self.releases.items():
            if (now := _release(package)) != release:
                return f"{package} was {release or 'not here'}, and is {now or 'gone'}"
        return ""


def machine_name() -> str:
    """Processor and cores: what runs quickest on one need not on another."""
    text = ""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    family = re.findall(r"^(?:cpu family|model|stepping)\s*:\s*(\d+)$", text, re.MULTILINE)[:3]
    processor = named[1].strip() if named else platform.processor()
    parts = (platform.system(), platform.machine(), processor, ".".join(family))
    return ", ".join(part for part in (*parts, f"{os.cpu_count()} cores") if part)


def _release(package: str) -> str:
    """Empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


# -- what is remembered ----------------------------------------------------------------------------


def read_choices(folder: Path) -> dict[str, Choice]:
    """By model. A file that cannot be read is as none: everything then runs on llama.cpp."""
    try:
        rows = json.loads((folder / FILE).read_text("utf-8"))
        return {name: Choice(**row) for name, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember(folder: Path, choice: Choice) -> None:
    _write(folder, {**read_choices(folder), choice.model: choice})


def forget(folder: Path) -> int:
    """Every choice. Returns how many there were."""
    known = read_choices(folder)
    if known:
        _write(folder, {})
    return len(known)


def _write(folder: Path, choices: Mapping[str, Choice]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may be the first in the data folder
    half = folder / f"{FILE}.{os.getpid()}.part"
    text = json.dumps({name: asdict(choice) for name, choice in choices.items()}, indent=1)
    half.write_text(text + "\n", "utf-8")
    half.replace(folder / FILE)


def on_quickest(folder: Path, store: ModelStore, model: InstalledModel) -> InstalledModel:
    """The model on the runtime that was chosen for it here; else as it is."""
    if model.runtime or not model.sha256 or model.projector is not None:
        return model
    choice = read_choices(folder).get(model.name)
    if choice is None or not choice.runtime:
        return model
    with suppress(EdgewiseError):  # the runtime's copy of the weights is gone
        if not choice.outdated(model):
            found = store.find(f"{model.name}@{choice.runtime}")
            return replace(found, name=model.name)
    return model


def why_outdated(folder: Path, model: InstalledModel) -> str:
    """Why the choice for this model no longer counts; empty if it does, or if there is none."""
    choice = read_choices(folder).get(model.name)
    return choice.outdated(model) if choice is not None else ""


# -- what is measured ------------------------------------------------------------------------------


def candidates(
    store: ModelStore, model: InstalledModel, progress: Progress = silent
) -> Iterator[tuple[str, InstalledModel | str]]:
    """Every runtime that is installed, with the model for it, or why there is none.

    A model is converted where that keeps every bit and takes seconds. What rounds the weights anew
    takes minutes, and needs a calibration of its own: it is measured if it is there.
    """
    yield LLAMA_CPP, model
    for name in runtime_names():
        if name not in plugins.names("local_backends"):
            continue
        try:
            runtime = runtime_named(name)
            if runtime.convert is None:
                continue  # it keeps its own models
            runtime.require()
            named = runtime.quantisation
            same = named is not None and named(model.path, model.quantisation) == model.quantisation
            wanted = f"{model.name}@{name}"
            yield name, store.pull(wanted, progress) if same else store.find(wanted)
        except EdgewiseError as error:
            yield name, str(error)


def measure(
    open_model: Callable[[InstalledModel], Any],
    model: InstalledModel,
    *,
    calls: bool,
    passes: int = PASSES,
    step: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, list[str], DeviceFacts]:
    """Milliseconds of a short pass, the answers, and what the model says of itself."""
    backend = open_model(model)
    try:
        seconds, answers = [], []
        for number in range(passes + 1):  # the first one loads the weights
            started = clock()
            answers.append("".join(_pass(backend, number, calls=calls)))
            seconds.append(clock() - started)
            step()
        quicker = sorted(seconds[1:])[: max(1, passes // 2)]
        return 1000 * statistics.fmean(quicker), answers[1:], backend.facts()
    finally:
        backend.close()


def _pass(backend: Any, number: int, *, calls: bool) -> Iterator[str]:
    if calls:
        stream = backend.write_call(_call(backend.facts(), _REQUESTS[number % len(_REQUESTS)]))
    else:
        question = _QUESTIONS[number % len(_QUESTIONS)]
        stream = backend.generate(
            Request(messages=(Message("user", question),), max_tokens=ANSWER_TOKENS, temperature=0)
        )
    for item in stream:
        if not isinstance(item, Finish):
            yield item.text


def _call(facts: DeviceFacts, text: str) -> CallToWrite:
    from edgewise.calls.draft import draft_answers  # noqa: PLC0415 - only to measure
    from edgewise.calls.formats import format_named  # noqa: PLC0415
    from edgewise.calls.prompt import Told  # noqa: PLC0415

    form = format_named(facts.call_format, facts.chat_template, None)
    return CallToWrite(
        form.prompt(_TOOLS, text, Told({}, (), ())),
        grammar=form.grammar(_TOOLS, text, copy=False, calls="any"),
        max_tokens=64,
        drafts=tuple(map(form.draft, draft_answers(text, _TOOLS))),
        prefix=form.prefix(_TOOLS),
    )


def choose(
    model: InstalledModel,
    every: Sequence[tuple[str, InstalledModel | str]],
    open_model: Callable[[InstalledModel], Any],
    judged_by: Callable[[DeviceFacts], tuple[str, str]],
    *,
    calls: bool,
    passes: int = PASSES,
    step: Callable[[str, int], None] = lambda name, most: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Choice:
    """Measure the `candidates`, and choose.

    `judged_by` says by what calibration the answers of a model would be judged, and why they could
    not be judged as well as on llama.cpp, if so: then it is not chosen. `step` hears of each pass.
    """
    found: dict[str, float] = {}
    left_out: dict[str, str] = {}
    judges: dict[str, str] = {}
    usual: list[str] = []
    most = (passes + 1) * sum(not isinstance(other, str) for _, other in every)
    for name, here in every:
        if isinstance(here, str):
            left_out[name] = here
            continue
        named = replace(here, name=model.name)
        try:
            took, answers, facts = measure(
                open_model,
                named,
                calls=calls,
                passes=passes,
                step=partial(step, name, most),
                clock=clock,
            )
        except LocalError as error:
            if name == LLAMA_CPP:
                raise
            left_out[name] = str(error)
            continue
        found[name] = took
        judges[name], worse = judged_by(facts)
        usual = usual or answers
        same = sum(one == other for one, other in zip(usual, answers, strict=True))
        if name != LLAMA_CPP and (worse or (calls and same < SAME_ANSWERS * passes)):
            left_out[name] = worse or f"{same} of {passes} calls are llama.cpp's"
    packages = {"xllamacpp"}
    for name, _ in every:
        packages |= {runtime_named(name).package} if name != LLAMA_CPP else set()
    free = {name: took for name, took in found.items() if name not in left_out}
    best = min(free, key=free.__getitem__)
    if best != LLAMA_CPP and found[best] > WORTH_CHANGING * found[LLAMA_CPP]:
        best = LLAMA_CPP
    return Choice(
        model=model.name,
        runtime="" if best == LLAMA_CPP else best,
        calibration=judges[best],
        milliseconds=found,
        left_out=left_out,
        sha256=model.sha256,
        machine=machine_name(),
        releases={package: _release(package) for package in sorted(packages)},
    )


def _tool(name: str, description: str, **kinds: str) -> Tool:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": list(kinds)}
    return Tool(name, description, schema)


_TOOLS = (
    _tool("start_timer", "Start a countdown", minutes="integer"),
    _tool("get_forecast", "Weather forecast for a place", place="string"),
    _tool("write_note", "Write a note", text="string"),
    _tool("dim_light", "Dim the light of a room", room="string", percent="integer"),
)
_REQUESTS = (
    "start a timer for 6 minutes", "what will the weather be like in Bergen?",
    "note that the bins go out on Monday", "dim the light in the study to 40 percent",
    "forecast for Turin please", "a 25 minute timer", "write down: buy two lemons",
    "bedroom light at 15 percent", "will it rain in Cork?", "timer for 3 minutes",
    "make a note to call the dentist", "kitchen lights to 70 percent",
    "how is the weather in Quito", "count down 50 minutes", "note: the spare key is with Ines",
    "set the hall light to 5 percent", "weather in Izmir", "start an 18 minute timer",
    "write a note that the rehearsal is at six", "porch light 90 percent",
    "what is the capital of Chile?",
)  # fmt: skip
_QUESTIONS = (
    "What is the chemical symbol for gold?", "Name three colours.", "How many legs has a spider?",
    "What is 12 plus 30?", "Translate 'good morning' into French.", "What is the capital of Peru?",
    "Which planet is the largest?", "What do bees make?", "Write a short greeting.",
    "What is the opposite of cold?", "How many days has a week?", "Who wrote Hamlet?",
    "What is ice made of?", "Name a fruit that is yellow.", "What is 9 times 7?",
    "In which continent is Kenya?", "What do plants need to grow?", "How do you spell 'necessary'?",
    "What is the past tense of 'go'?", "Which month follows April?", "What is a triangle?",
)  # fmt: skip
