"""Make training data in rounds beside the training: generate, tokenise, pack, announce."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from training import pack

log = logging.getLogger("training")


def wait_for_base(keep: Path, name: str, until: float) -> Path:
    """Join the base from its pieces as soon as all have arrived."""
    base = keep / name
    while not base.exists():
        missing = pack.missing_pieces(keep / "base", name)
        if not missing:
            try:
                pack.join(keep / "base", name, base)
                break
            except ValueError as error:  # a piece is still being copied
                log.info("%s", error)
        if time.monotonic() > until:
            raise TimeoutError(f"pieces of the base never came: {missing}")
        time.sleep(0.5)
    return base


def feed(keep: Path, data: Mapping[str, Any], base_name: str, until: float) -> None:
    """All rounds, one after another. A failed one is logged and tried once more at the end."""
    for number, plan in [*enumerate(data["rounds"]), *enumerate(data["rounds"])]:
        if (keep / "rows" / f"round-{number}.done").exists():
            continue
        begin = time.monotonic()
        try:
            _round(keep, number, plan, data, base_name, until)
        except Exception:  # the next round may work, and training must not stop
            log.exception("round %d of the data failed", number)
        else:
            log.info("round %d of the data: ready after %.0f s", number, time.monotonic() - begin)


def _round(
    keep: Path,
    number: int,
    plan: Mapping[str, Any],
    data: Mapping[str, Any],
    base_name: str,
    until: float,
) -> None:
    folder = keep / "data" / f"round-{number}"
    workers = str(data.get("workers", 15))
    options = ["--count", str(plan["count"]), "--seed", str(plan["seed"]), "--workers", workers]
    # Anything else: options of the generator, say where the public sources lie.
    given = (*data.get("arguments", ()), *plan.get("arguments", ()))
    options += [str(value).replace("{keep}", str(keep)) for value in given]
    module = str(data.get("module", "training.generate"))
    patience = float(data.get("patience", 600))  # a pool whose workers die at once never returns
    _run([module, *options, "--out", str(folder)], keep / "generate.log", patience)
    log.info("round %d of the data: generated", number)
    base = wait_for_base(keep, base_name, until)
    options = ["--base", str(base), "--source", str(folder), "--out", str(keep / "rows")]
    options += ["--workers", workers, "--length", str(data.get("length", 2048))]
    _run(["training.rows", *options], keep / "generate.log", patience)
    (keep / "rows" / f"round-{number}.done").touch()


def _run(arguments: Sequence[str], log_path: Path, patience: float) -> None:
    """A module in its own process, with less claim to the cores than training.

    `timeout` ends its whole process group, workers included.
    """
    command = [
        "timeout",
        "-k",
        "5",
        str(patience),
        "nice",
        "-n",
        "10",
        "env",
        "RAYON_NUM_THREADS=1",
        "TOKENIZERS_PARALLELISM=false",
    ]
    with log_path.open("a") as output:
        subprocess.run(
            [*command, sys.executable, "-m", *arguments],
            check=True,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def ready_rounds(keep: Path) -> int:
    return len(list((keep / "rows").glob("round-*.done")))
