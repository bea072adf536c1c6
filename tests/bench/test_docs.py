"""The figures on the pages are those in the files; EDGEWISE_WRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from edgewise.bench.caller import TARGETS as caller_targets
from edgewise.bench.overhead import TARGETS as overhead_targets
from edgewise.bench.overhead import verdicts

ROOT = Path(__file__).parents[2]
WRITE = bool(os.environ.get("EDGEWISE_WRITE_DOCS"))  # read before tests clear the environment
SHIPPED = ROOT / "src/edgewise/calibrations/smollm2-135m-instruct-q8_0.json"

REPORT = {
    "questions": "Questions",
    "accuracy": "Share answered rightly",
    "auroc": "AUROC of the confidence",
    "auroc_mean_logprob": "AUROC of the mean log-probability alone",
    "auroc_within_kind": "AUROC among questions of the same kind",
    "auroc_early": "AUROC of the early score at `hold_tokens`",
    "ece": "Calibration error (15 bins of equal mass)",
    "kept_share": "Share kept at the default threshold",
    "kept_accuracy": "Right among the kept",
    "handed_off_accuracy": "Right among the handed off",
    "agreement": "Decisions at `hold_tokens` that are those of the whole answer",
    "tokens_before_decision": "Tokens before the decision, mean",
    "tokens_wasted_per_handoff": "Tokens generated in vain for each handoff, mean",
}


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def weights() -> str:
    data = read(SHIPPED)
    names = sorted({*data["early"]["weights"], *data["final"]["weights"]})
    rows = [
        (f"`{name}`", *(data[part]["weights"].get(name, "") for part in ("early", "final")))
        for name in names
    ]
    rows += [("bias", data["early"]["bias"], data["final"]["bias"])]
    cuts = ", ".join(
        f"`{name}` {data[name]}"
        for name in ("hold_tokens", "threshold", "drop_below", "keep_above")
    )
    return table(("Feature", "`early`", "`final`"), rows) + f"\n\nBeside them: {cuts}."


def curve() -> str:
    head = ("Threshold", "Kept on the device", "Right among the kept", "Right among the handed off")
    names = ("threshold", "kept_share", "kept_accuracy", "handed_off_accuracy")
    return table(head, [tuple(f"{row[n]:.2f}" for n in names) for row in read(SHIPPED)["curve"]])


def report() -> str:
    found = read(SHIPPED)["report"]
    rows = [(words, f"{found[name]:,.4g}") for name, words in REPORT.items()]
    return table(("Out of fold", ""), rows)


def bins() -> str:
    rows = [
        (f"{row['confidence']:.2f}", f"{row['accuracy']:.2f}", "▇" * round(20 * row["accuracy"]))
        for row in read(SHIPPED)["bins"]
    ]
    return table(("Mean confidence", "Right", ""), rows)


def overhead() -> str:
    return scorecard("overhead", overhead_targets)


def caller() -> str:
    if not (ROOT / "benchmarks/caller.json").exists():
        return "Not measured yet: the weights that ship are still being trained."
    return scorecard("caller", caller_targets)


def scorecard(name: str, wanted: Mapping[str, tuple[str, float]]) -> str:
    card = read(ROOT / f"benchmarks/{name}.json")
    metrics, targets = card["metrics"], verdicts(card["metrics"], wanted)
    rows = [(f"`{name}`", f"{metrics[name]:,.4g}", targets.get(name, "")) for name in metrics]
    versions = ", ".join(f"{name} {version}" for name, version in card["versions"].items())
    made = f"`{card['command']}` on {card['date'][:10]}: {versions}."
    return table(("Metric", "Value", "Target"), rows) + f"\n\n{made}"


@pytest.mark.parametrize(
    ("page", "part", "make"),
    [
        ("confidence.md", "weights", weights),
        ("confidence.md", "curve", curve),
        ("confidence.md", "report", report),
        ("confidence.md", "bins", bins),
        ("benchmarks.md", "overhead", overhead),
        ("benchmarks.md", "caller", caller),
    ],
)
def test_figures_on_the_page_are_those_in_the_file(
    page: str, part: str, make: Callable[[], str]
) -> None:
    path = ROOT / "docs" / page
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    before, _, rest = path.read_text("utf-8").partition(begin)
    shown, _, after = rest.partition(end)
    if WRITE:
        path.write_text(f"{before}{begin}\n{make()}\n{end}{after}", "utf-8")
        return
    assert shown.strip() == make()


def test_the_saved_scorecard_of_the_calibration_is_that_of_the_shipped_file() -> None:
    card = read(ROOT / "benchmarks/calibration.json")
    shipped = read(SHIPPED)["report"]
    assert set(card["metrics"]) == set(shipped)
    assert all(abs(card["metrics"][name] - value) < 0.005 for name, value in shipped.items())
