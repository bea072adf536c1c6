"""The one detached process on the lent machine: data, training, evaluation, export.

    python -m training.driver --keep KEEP --minutes 27

It survives what it can: a failed run is logged and the next one starts; a dead worker is started
again. Everything it makes lies under `--keep`; `training.collect` carries it away.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

from training.feed import feed
from training.sweep import read_json, write_json

log = logging.getLogger("training")

RESTARTS = 6


def set_up_log(keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=keep / "log.txt",
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
    )


def supervise(keep: Path, plan_path: Path, minutes: float) -> None:
    begin = time.monotonic()
    until = begin + 60 * minutes
    plan = read_json(plan_path, {})
    if not (keep / "plan.json").exists():
        write_json(keep / "plan.json", plan)
    producer = threading.Thread(target=feed, args=(keep, plan, until), daemon=True)
    producer.start()
    for attempt in range(RESTARTS):
        left = until - time.monotonic()
        if left < 20:
            break
        arguments = ["--keep", str(keep), "--seconds", str(left)]
        worker = [sys.executable, "-m", "training.worker", *arguments]
        with (keep / "worker.log").open("a") as output:
            code = subprocess.run(worker, stdout=output, stderr=subprocess.STDOUT).returncode
        log.info("worker %d ended with %d", attempt, code)
        if code == 0:
            break
        _show_end(keep / "worker.log")
        time.sleep(1)
    write_json(keep / "state.json", {"state": "done", "seconds": round(time.monotonic() - begin)})
    log.info("driver: done")


def _show_end(path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines()[-25:]
    log.info("the worker's last words:\n%s", "\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--plan", type=Path, default=Path(__file__).with_name("sweep.json"))
    options = parser.parse_args()
    set_up_log(options.keep)
    for folder in ("base", "data", "rows", "out", "adapters"):
        (options.keep / folder).mkdir(parents=True, exist_ok=True)
    log.info("driver: begins, %.1f minutes", options.minutes)
    try:
        supervise(options.keep, options.plan, options.minutes)
    except Exception:  # said aloud, not lost with a detached process
        log.exception("driver: failed")
        write_json(options.keep / "state.json", {"state": "failed"})
        raise


if __name__ == "__main__":
    main()
