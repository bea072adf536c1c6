"""Make training data in rounds beside the training: generate, tokenise, pack, announce."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training import pack
from training.sweep import bases_of

log = logging.getLogger("training")


@dataclass(frozen=True, slots=True)
class Task:
    """Generate one round of data or, with a base, make it that base's rows."""

    number: int
    base: str = ""
    again: bool = False


def arrived(keep: Path, name: str) -> bool:
    """Whether a base is there; it is joined as soon as all its pieces are."""
    base = keep / name
    if not base.exists() and not pack.missing_pieces(keep / "base", name):
        try:
            pack.join(keep / "base", name, base)
        except ValueError as error:  # a piece is still being copied
            log.info("%s", error)
    return base.exists()


def rows_folder(keep: Path, base: str) -> Path:
    return keep / "rows" / Path(base).stem


def feed(keep: Path, plan: Mapping[str, Any], until: float) -> None:
    """All rounds for all bases, whatever can be done first. A failed task is tried once more."""
    tasks = [task for task in _tasks(plan) if not _mark(keep, task).exists()]
    while tasks and time.monotonic() < until:
        task = next((task for task in tasks if _possible(keep, task)), None)
        if task is None:  # bases are still on their way
            time.sleep(0.5)
            continue
        tasks.remove(task)
        what, begin = f"round {task.number} {task.base or 'of the data'}", time.monotonic()
        try:
            _rows(keep, task, plan) if task.base else _generate(keep, task, plan)
            _mark(keep, task).touch()
        except Exception:  # the next task may work, and training must not stop
            log.exception("%s: failed", what)
            if not task.again:
                tasks.append(replace(task, again=True))
        else:
            log.info("%s: ready after %.0f s", what, time.monotonic() - begin)


def _tasks(plan: Mapping[str, Any]) -> Iterator[Task]:
    rounds = bases_of(plan)
    for number in range(len(plan["data"]["rounds"])):
        yield Task(number)
        for base, wanted in rounds.items():
            if number < wanted:
                yield Task(number, base)


def _mark(keep: Path, task: Task) -> Path:
    """The empty file that says a task is done."""
    folder = rows_folder(keep, task.base) if task.base else keep / "data"
    return folder / f"round-{task.number}.done"


def _possible(keep: Path, task: Task) -> bool:
    return not task.base or (_mark(keep, Task(task.number)).exists() and arrived(keep, task.base))


def _generate(keep: Path, task: Task, plan: Mapping[str, Any]) -> None:
    data = plan["data"]
    round_ = data["rounds"][task.number]
    options = ["--count", str(round_["count"]), "--seed", str(round_["seed"])]
    options += ["--workers", _workers(plan), "--out", str(keep / "data" / f"round-{task.number}")]
    # Anything else: options of the generator, say where the public sources lie.
    given = (*data.get("arguments", ()), *round_.get("arguments", ()))
    options += [str(value).replace("{keep}", str(keep)) for value in given]
    _run([str(data.get("module", "training.generate")), *options], keep, data)


def _rows(keep: Path, task: Task, plan: Mapping[str, Any]) -> None:
    out = rows_folder(keep, task.base)
    out.mkdir(parents=True, exist_ok=True)
    options = ["--base", str(keep / task.base), "--out", str(out)]
    options += ["--source", str(keep / "data" / f"round-{task.number}")]
    options += ["--length", str(plan["data"].get("length", 2048)), "--workers", _workers(plan)]
    _run(["training.rows", *options], keep, plan["data"])


def _workers(plan: Mapping[str, Any]) -> str:
    return str(plan["data"].get("workers", 15))


def _run(arguments: Sequence[str], keep: Path, data: Mapping[str, Any]) -> None:
    """A module in its own process, with less claim to the cores than training.

    `timeout` ends its whole process group, workers included.
    """
    command = [
        "timeout",
        "-k",
        "5",
        str(data.get("patience", 600)),  # a pool whose workers die at once never returns
        "nice",
        "-n",
        "10",
        "env",
        "RAYON_NUM_THREADS=1",
        "TOKENIZERS_PARALLELISM=false",
    ]
    with (keep / "generate.log").open("a") as output:
        subprocess.run(
            [*command, sys.executable, "-m", *arguments],
            check=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def ready_rounds(keep: Path, base: str) -> int:
    return len(list(rows_folder(keep, base).glob("round-*.done")))
