"""Two sets of answers to the same cases: which share of them is right, and how sure is the gap.

    python -m training.compare shipped.Q8_0.valid.jsonl.gz nl.IQ4_NL.valid.jsonl.gz

The files are those that `training.worker` publishes. The interval is of the paired difference: most
cases are answered alike by both, so it is far narrower than that of either share.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LIKELY = 1.96  # standard errors that a 95 % interval reaches to either side


def read_predictions(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def compare(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], key: str
) -> dict[str, float]:
    """Both means, their difference and its 95 % interval, in points."""
    if len(before) < 2:
        raise ValueError("one case says nothing")
    if [row["expected"] for row in before] != [row["expected"] for row in after]:
        raise ValueError("these are answers to different cases")
    gains = [100 * (float(b[key]) - float(a[key])) for a, b in zip(before, after, strict=True)]
    mean = sum(gains) / len(gains)
    spread = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1) / len(gains))
    return {
        "cases": len(gains),
        "before": round(100 * sum(float(row[key]) for row in before) / len(before), 2),
        "after": round(100 * sum(float(row[key]) for row in after) / len(after), 2),
        "gain": round(mean, 2),
        "lowest": round(mean - LIKELY * spread, 2),
        "highest": round(mean + LIKELY * spread, 2),
        "better": sum(gain > 0 for gain in gains),
        "worse": sum(gain < 0 for gain in gains),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    before = read_predictions(options.before)
    for path in options.after:
        after = read_predictions(path)
        for key in ("exact", "f1"):
            sys.stdout.write(f"{path.name} {key}: {json.dumps(compare(before, after, key))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
