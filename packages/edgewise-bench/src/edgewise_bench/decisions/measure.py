"""Asks a local model all decisions of some suites; one JSON line for each, written at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.flows.judge import read_question
from edgewise.local.backend import ChatBackend
from edgewise.parts import Parts
from edgewise.settings import Settings
from edgewise.tasks import space_of
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Choice, Message, Question, Request, YesNo
from edgewise_bench.decisions.judge import judge, judge_learnt, judged_rows
from edgewise_bench.decisions.suites import Suite, in_turns

STATES = (
    "I was charged twice for the order of last Tuesday. Please give me my money back today.",
    "The app closes as soon as I open the calendar, and I have lost an appointment by it.",
    "What would forty seats cost us for a year, and do you give a discount to schools?",
)


def measure_all(
    settings: Settings,
    suites: Sequence[Suite],
    path: Path,
    data: Path | None,
    done: Callable[[], None],
    *,
    most: int | None = None,
) -> dict[str, float]:
    """Ask, judge, learn: the figures of `edgewise bench decide`."""
    parts = Parts(settings)
    try:
        backend = parts.backend()
        measure(backend, suites, path, done, most=most)
        found = judge(judged_rows(read_rows(path), suites))
        found |= times(backend) | {"order_changes": float(order_changes(suites))}
        if data is not None and (space := space_of(parts)):
            embedder = parts.embedder()
            found |= judge_learnt(data, lambda texts: embedder.embed(texts).vectors, space)
        return found
    finally:
        parts.close()


def measure(
    backend: ChatBackend,
    suites: Sequence[Suite],
    path: Path,
    done: Callable[[], None],
    *,
    most: int | None = None,
) -> None:
    """Rows that the file already has are not asked again."""
    known = {(row["suite"], row["state"]) for row in read_rows(path)}
    left = [one for one in in_turns(suites) if (one[0].name, one[1][0]) not in known]
    with path.open("a", encoding="utf-8") as file:
        for suite, (state, label) in left[:most]:
            row = {"suite": suite.name, "state": state, "label": label}
            file.write(json.dumps(row | _asked(backend, suite, state)) + "\n")
            file.flush()
            done()


def times(backend: ChatBackend) -> dict[str, float]:
    """Processor time of one more question about a state that has been read."""
    choice = Choice({"billing": "payments", "delivery": None, "technical": None, "sales": None})
    found: dict[str, list[float]] = {"cpu_s_yes_no": [], "cpu_s_choice": []}
    for state in STATES:
        for name, question in (
            ("", YesNo("Is it written in English?")),
            ("cpu_s_yes_no", YesNo("Does the customer want money back?")),
            ("cpu_s_choice", choice),
        ):
            request = Request(
                messages=(Message("user", state),), task="decide", questions={"q": question}
            )
            began = time.process_time()
            read_question(backend, request)
            if name:
                found[name].append(time.process_time() - began)
    return {name: median(values) for name, values in found.items()}


def order_changes(suites: Sequence[Suite]) -> int:
    """How many questions a device would read otherwise if the caller had turned the options."""
    changed = 0
    for suite in suites:
        question = suite.question
        if not isinstance(question, Choice):
            continue
        told = dict(zip(question.options, question.described, strict=True))
        turned = Choice(dict(reversed(told.items())), question.ask)
        read = [_prompts(suite, one) for one in (question, turned)]
        changed += read[0] != read[1]
    return changed


def _prompts(suite: Suite, question: Question) -> list[Request]:
    device = ScriptedBackend.deciding({})
    asked = {suite.name: question}
    request = Request(messages=(Message("user", suite.rows[0][0]),), questions=asked, id="same")
    read_question(device, request)
    return [replace(one, questions={}) for one in device.requests]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Each decision once, although two runs may have written it at the same time."""
    lines = _lines(path) if path.exists() else ()
    return list({(row["suite"], row["state"]): row for row in lines}.values())


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def _asked(backend: ChatBackend, suite: Suite, state: str) -> dict[str, Any]:
    asked = {suite.name: suite.question}
    request = Request(messages=(Message("user", state),), task="decide", questions=asked)
    began = time.process_time()
    reading = read_question(backend, request)
    return {
        "kind": type(suite.question).__name__,
        "one_way": [dict(each) for each in reading.one_way],
        "mass": reading.mass,
        "input_tokens": reading.input_tokens,
        "cached_tokens": reading.cached_tokens,
        "cpu_s": time.process_time() - began,
    }
