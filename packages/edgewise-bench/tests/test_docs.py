"""The figures on the pages are those in the files; EDGEWISE_WRITE_DOCS=1 writes them anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgewise_bench.calls.bfcl import PUBLISHED, PUBLISHED_TITLE
from edgewise_bench.calls.cases import OWN_CASES
from edgewise_bench.calls.conversations import TARGETS as conversation_targets
from edgewise_bench.calls.function_model import TARGETS as function_model_targets
from edgewise_bench.calls.spoken import TARGETS as spoken_targets
from edgewise_bench.campaigns.agent_traces import TARGETS as traces_targets
from edgewise_bench.campaigns.forward import TARGETS as forward_targets
from edgewise_bench.campaigns.hostile import TARGETS as hostile_targets
from edgewise_bench.campaigns.kills import TARGETS as kills_targets
from edgewise_bench.campaigns.memory import worst_requests
from edgewise_bench.campaigns.money import TARGETS as money_targets
from edgewise_bench.campaigns.privacy import TARGETS as privacy_targets
from edgewise_bench.campaigns.soak import TARGETS as soak_targets
from edgewise_bench.campaigns.team import TARGETS as team_targets
from edgewise_bench.chat import families, held_out
from edgewise_bench.chat.engines import ENGINES
from edgewise_bench.chat.engines import TARGETS as engine_targets
from edgewise_bench.chat.isolate import TARGETS as isolate_targets
from edgewise_bench.chat.overhead import TARGETS as overhead_targets
from edgewise_bench.chat.serve import TARGETS as serve_targets
from edgewise_bench.clients.measure import TARGETS as clients_targets
from edgewise_bench.commands.warm import TARGETS as warm_targets
from edgewise_bench.embed import TARGETS as embed_targets
from edgewise_bench.routing.frozen import PAIRS
from edgewise_bench.routing.frozen import TARGETS as frozen_targets
from edgewise_bench.scale.capacity import TASKS, plan
from edgewise_bench.scale.gateway import TARGETS as gateway_targets
from edgewise_bench.scale.measure import TARGETS as scale_targets
from edgewise_bench.scale.request_cost import TARGETS as request_targets
from edgewise_bench.scale.throughput import REPLICAS
from edgewise_bench.scorecard import verdicts
from edgewise_bench.vision.measure import TARGETS as see_targets

ROOT = Path(__file__).parents[3]
RESULTS = Path(__file__).parents[1] / "results"
WRITE = bool(os.environ.get("EDGEWISE_WRITE_DOCS"))  # read before tests clear the environment
SHIPPED = ROOT / "src/edgewise/calibrations/smollm2-135m-instruct-q8_0.json"

CAMPAIGNS = {
    "kills": kills_targets,
    "money": money_targets,
    "hostile": hostile_targets,
    "privacy": privacy_targets,
    "team": {**team_targets, **gateway_targets},
    "soak": soak_targets,
}
PROMISED = (
    *("promised_share", "kept_share", "kept_accuracy"),
    *("strangers_promised", "strangers_kept", "strangers_kept_accuracy"),
)
OF_KINDS = {"auroc", "auroc_within_kind", "ece"}
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
    "same_kept": "Kept at `hold_tokens` or in the end, that are kept at both",
    "tokens_before_decision": "Tokens before the decision, mean",
    "tokens_wasted_per_handoff": "Tokens generated in vain for each handoff, mean",
}
OWN_TRACES = {
    "rows": "Rows that fitted nothing",
    "accuracy": "Right",
    "auroc": "AUROC",
    "auroc_mean_logprob": "AUROC, mean log-probability",
    "auroc_gain": "Difference",
    "ece": "ECE",
    "ece_floor": "ECE by chance",
    "aurc": "AURC",
    "coverage_at_5": "Coverage at 5 % risk",
    "coverage_at_10": "at 10 %",
    "coverage_at_20": "at 20 %",
    "handoff_share": "Handed off",
    "kept_accuracy": "Right among the kept",
    **{f"risk_violations_{error}": f"Violations at {error} %" for error in (1, 5, 10, 20)},
}
TOOLS_HEAD = {
    "f1": "F1",
    "unflagged_f1": "F1, unflagged",
    "exact": "Exact",
    "argument_accuracy": "Arguments",
    "false_call_rate": "False calls",
    "local_share": "Local calls",
    "latency_ms_p50": "p50 ms",
    "latency_ms_p95": "p95 ms",
    "hackathon_score": "Hackathon",
}
SURE_HEAD = {
    "auroc": "AUROC",
    "aurc": "AURC",
    "coverage_95": "Coverage at 95 %",
    "ece": "ECE",
    **{f"rescued_f1_sent_{share}": f"F1, {share} % sent" for share in (10, 20, 30, 50)},
    "split_broken_rate": "Split wrongly",
    "overhead_ms_p50": "Own code, p50 ms",
}
RULES = {"bound": "at the bound", "cut": "one cut-off", "early": "boundaries"}
SAVINGS = ("agreement", "lost", "slipped", "tokens", "wasted")
FROZEN_HEAD = {
    "weak": "Weak",
    "strong": "Strong",
    "apgr": "APGR",
    "apgr_low": "from",
    "apgr_high": "to",
    "apgr_other_seeds": "Seeds 1 to 3",
    "apgr_oracle": "Oracle",
    "cpt50": "CPT50",
    "cpt80": "CPT80",
    "auroc_weak": "AUROC, weak",
    "auroc_gain": "AUROC, gain",
}


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def curve() -> str:
    head = ("Threshold", "Kept on the device", "Right among the kept", "Right among the handed off")
    names = ("threshold", "kept_share", "kept_accuracy", "handed_off_accuracy")
    return table(head, [tuple(f"{row[n]:.2f}" for n in names) for row in read(SHIPPED)["curve"]])


def report() -> str:
    found = read(SHIPPED)["report"]
    rows = [
        (
            words,
            f"{found[name]:,.4g}",
            f"{found[f'kinds_{name}']:,.4g}" if name in OF_KINDS else "",
        )
        for name, words in REPORT.items()
    ]
    return table(("Out of fold", "Rows held out", "Whole kinds held out"), rows)


def own_traces() -> str:
    found = own_figures()
    tasks = [task for task in ("chat", "call", "speech") if f"{task}_auroc" in found]
    rows = [
        (words, *(_with_interval(found, f"{task}_{name}") for task in tasks))
        for name, words in OWN_TRACES.items()
    ]
    return table(("", *tasks), rows)


def own_figures() -> dict[str, float]:
    path = RESULTS / "routing.json"
    return dict(read(path)["metrics"]) if path.exists() else {}


def calibration() -> str:
    both = ("accuracy", "auroc", "ece", "ece_by_chance")
    traces = [f"traces_{each}" for each in ("questions", *both)]
    risks = [f"{each}_{risk}" for each in PROMISED for risk in (10, 20)]
    wanted = held_out.TARGETS | families.TARGETS
    evidence = ("auroc", "auroc_words", "auroc_logprob", "ece", "cut")
    unseen = [
        f"unseen_{each}" for each in ("families", "questions", "accuracy", "confidence", *evidence)
    ]
    unseen += ["refit_gain", "refit_gain_error", "refit_families_better"]
    return scorecard(
        "calibration",
        wanted,
        ["measured", "families", *risks, *unseen, "questions", *both, *traces],
    )


def by_family() -> str:
    """Worst first: what a stated 10 % is worth for a family that nobody had measured."""
    card = read(RESULTS / "calibration.json")
    metrics, start = card["metrics"], "stranger_error_10_"
    names = [name.removeprefix(start) for name in metrics if name.startswith(start)]
    rows = [
        (
            name.replace("_", " "),
            f"{100 * metrics[f'stranger_promised_10_{name}']:.0f} %",
            f"{100 * metrics[f'stranger_kept_10_{name}']:.1f} %",
            f"{100 * metrics[start + name]:.1f} %",
        )
        for name in names
    ]
    head = ("Family that was left out", "Promised anything", "Kept", "Wrong among the kept")
    return f"{table(head, rows)}\n\n{made(card)}"


def by_life() -> str:
    """Worst first: what the confidence says of families that it has never seen."""
    card = read(RESULTS / "calibration.json")
    metrics, start = card["metrics"], "unseen_confidence_"
    names = [name.removeprefix(start) for name in metrics if name.startswith(start)]
    gaps = {name: metrics[start + name] - metrics[f"unseen_right_{name}"] for name in names}
    rows = [
        (
            name.replace("_", " "),
            f"{metrics[f'unseen_questions_{name}']:.0f}",
            f"{metrics[f'unseen_right_{name}']:.2f}",
            f"{metrics[start + name]:.2f}",
            f"{gaps[name]:+.2f}",
        )
        for name in sorted(names, key=gaps.__getitem__, reverse=True)
    ]
    head = ("Family", "Answers", "Right", "Mean confidence", "Too sure by")
    return f"{table(head, rows)}\n\n{made(card)}"


def workload() -> str:
    card = read(RESULTS / "cost.json")
    metrics = card["metrics"]
    sorts = {"calls": "function calls", "speech": "speech", "tasks": "short tasks"}
    sorts |= {"chat": "chat", "exam": "exam questions"}
    cheaper = [f"times_cheaper_at_{goal}" for goal in (90, 95, 99)]
    names = ["device_quality", "cloud_usd", *cheaper, "quality_at_5_times"]
    rows = [
        (words, f"{metrics[f'{sort}_rows']:,.0f}", *figures(metrics, f"{sort}_", names))
        for sort, words in sorts.items()
    ]
    rows.append(("**all, one threshold**", "", *figures(metrics, "", names)))
    head = ("", "Rows", "Right on the device", "Cloud alone, $ per 1,000")
    reached = ("Times cheaper at 90 %", "at 95 %", "at 99 %", "Quality at 5 times")
    return f"{table((*head, *reached), rows)}\n\n{made(card)}"


def cost() -> str:
    found = own_figures()
    head = ("", "Quality", "Sent", "gemini-2.5-flash-lite", "gpt-5", "Times cheaper")
    cloud = [f"${found[f'cost_cloud_usd_{name}']:.4f}" for name in ("gemini", "openai")]
    rows: list[tuple[object, ...]] = [
        ("device only", f"{found['cost_local_quality']:.3f}", "0", "$0", "$0", ""),
        ("cloud only", f"{found['cost_cloud_quality']:.3f}", "1", *cloud, "1"),
    ]
    for percent in (10, 20, 30, 40, 50, 60):
        name = f"cost_hybrid_{percent}"
        rows.append(
            (
                f"both, threshold 0.{percent}",
                f"{found[f'{name}_quality']:.3f}",
                f"{found[f'{name}_sent']:.2f}",
                *(f"${found[f'{name}_usd_{who}']:.4f}" for who in ("gemini", "openai")),
                f"{found[f'{name}_times_cheaper']:.2f}",
            )
        )
    bounds = ", ".join(
        f"{found[f'cost_times_cheaper_at_{percent}']:.2f} times at {percent} %"
        for percent in (100, 95, 90, 80)
    )
    return (
        table(head, rows)
        + f"\n\n{found['cost_rows']:,.0f} questions. Five times cheaper is "
        + f"{found['cost_5x_quality_of_cloud']:.0%} of the cloud's quality; of that quality, "
        + f"{bounds}."
    )


def _with_interval(found: Mapping[str, float], name: str) -> str:
    value = f"{found[name]:,.4g}"
    if f"{name}_low" not in found:
        return value
    return f"{value} ({found[f'{name}_low']:.3f} to {found[f'{name}_high']:.3f})"


def overhead() -> str:
    also = ("cpu_ratio", "evidence_ratio", "handoff_ms_p50", "held_kept_share", "ledger_ms_p50")
    return scorecard("overhead", overhead_targets, also)


def isolate() -> str:
    also = ("empty_process_mb", "first_token_extra_ms", "restart_first_token_ms_p50")
    return scorecard("isolate", isolate_targets, also)


def engines() -> str:
    """A column for each engine, and what holds for all of them below."""
    if not (RESULTS / "engines.json").exists():
        return "Not measured yet."
    card = read(RESULTS / "engines.json")
    metrics, targets = card["metrics"], verdicts(card["metrics"], engine_targets)
    ran = [name for name in ENGINES if f"{name}_memory_mb" in metrics]
    of_one = {name: name.removeprefix(f"{ran[1]}_") for name in metrics if name.startswith(ran[1])}
    rows = [
        (f"`{short}`", *(_figure(metrics, f"{name}_{short}") for name in ran))
        for short in of_one.values()
    ]
    shared = [(f"`{name}`", f"{metrics[name]:,.4g}", target) for name, target in targets.items()]
    both = table(("Metric", *(f"`{name}`" for name in ran)), rows)
    return f"{both}\n\n{table(('Metric', 'Value', 'Target'), shared)}\n\n{made(card)}"


def _figure(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:,.4g}" if name in metrics else ""


def capacity() -> str:
    metrics = read(RESULTS / "scale.json")["metrics"]
    rows = [
        (
            f"`{task}`",
            f"{metrics[f'{task}_cpu_s']:.3g}",
            f"{1 / metrics[f'{task}_cpu_s']:.3g}",
            f"{metrics[f'{task}_mb']:,.0f}",
        )
        for task in TASKS
    ]
    return table(("Task", "Processor s", "Requests/s of a core", "Memory, MB"), rows)


def ledgers() -> str:
    metrics = read(RESULTS / "scale.json")["metrics"]
    rows = []
    for name, title in (("sqlite", "SQLite"), ("postgres", "PostgreSQL")):
        waits = [
            ", ".join(
                f"{metrics[f'{name}_{processes}_reserve_settle_ms_{each}']:.1f}"
                for each in ("p50", "p99", "worst")
            )
            for processes in (1, 4)
        ]
        rows.append((title, *waits, f"{metrics[f'{name}_4_pairs_per_second']:,.0f}"))
    head = (
        "",
        *(f"{each}: p50, p99, worst" for each in ("One process", "Four")),
        "Pairs/s of four",
    )
    return table(head, rows)


def predictions() -> str:
    metrics = read(RESULTS / "scale.json")["metrics"]
    rows = []
    for number in REPLICAS:
        name = f"{number}_replicas" if number > 1 else "1_replica"
        told = (metrics[f"{each}_per_second_{name}"] for each in ("predicted", "requests"))
        ratio = metrics[f"predicted_over_measured_{name}"]
        rows.append((number, *(f"{each:,.0f}" for each in told), f"{ratio:.2f}"))
    return table(("Replicas", "Predicted/s", "Measured/s", "Predicted over measured"), rows)


def fleets() -> str:
    metrics = read(RESULTS / "scale.json")["metrics"]
    rows = []
    for task in ("chat", "call", "embed"):
        for share in (0.0, 0.3) if task != "embed" else (0.0,):
            found = [plan(metrics, task, machines, 8, share) for machines in (1, 10, 100)]
            shown = [
                f"{each.per_second:,.0f}{' (the database is full)' if each.store_bound else ''}"
                for each in found
            ]
            rows.append((f"`{task}`", f"{share:.0%}", *shown, f"{found[-1].pairs_per_second:,.0f}"))
    head = ("Task", "Handed off", "1 machine", "10", "100", "Reservations/s of 100")
    return table(head, rows)


def function_model() -> str:
    if not (RESULTS / "caller.json").exists():
        return "Not measured yet: the weights that ship are still being trained."
    return scorecard("caller", function_model_targets)


def embed() -> str:
    speeds = ("texts_per_second", "texts_per_second_plain", "search_ms_p50", "search_ms_p99")
    found = ("recall_at_1", "recall_at_5", "lexical_recall_at_5", "int8_vectors_cosine_least")
    return scorecard("embed", embed_targets, (*speeds, *found, "search_agreement_at_10"))


def find() -> str:
    ways = ("_at_1", "_at_5", "_at_1_meaning_only", "_at_1_bm25")
    kinds = ("meaning", "exact", "exact_in_words", "everyday")
    card = read(RESULTS / "find.json")
    rows = [(f"`{kind}`", *figures(card["metrics"], kind, ways)) for kind in kinds]
    return f"{table(('Questions', *(f'`…{way}`' for way in ways)), rows)}\n\n{made(card)}"


def conversations() -> str:
    if not (RESULTS / "conversations.json").exists():
        return "Not measured yet."
    return scorecard("conversations", conversation_targets)


def see() -> str:
    shares = ("accuracy_kept", "share_handed_off", "accuracy_all")
    also = [f"{kind}{each}" for kind in ("", "text_", "objects_") for each in shares]
    return scorecard("see", see_targets, ["questions", *also, "ece", "auroc", "ms_p50"])


def tools() -> str:
    if not (RESULTS / "tools.json").exists():
        return "Not measured yet."
    card = read(RESULTS / "tools.json")
    metrics = card["metrics"]
    stems = [Path(word).stem for word in card["command"].split() if word.endswith(".json")]
    stems = stems or [OWN_CASES.stem]
    files = {stem: f"{stem}_" for stem in stems} if len(stems) > 1 else {stems[0]: ""}
    systems = {
        "regex_": "regex only",
        "raw_": "raw local model",
        "": "full local pipeline",
        "hybrid_": f"hybrid, {card['versions'].get('cloud')}",
    }
    rows = [
        (stem, title, *figures(metrics, f"{prefix}{system}", TOOLS_HEAD))
        for stem, prefix in files.items()
        for system, title in systems.items()
        if f"{prefix}{system}f1" in metrics
    ]
    sure = [(stem, *figures(metrics, prefix, SURE_HEAD)) for stem, prefix in files.items()]
    first = table(("File", "System", *TOOLS_HEAD.values()), rows)
    return f"{first}\n\n{table(('File', *SURE_HEAD.values()), sure)}\n\n{made(card)}"


def bfcl() -> str:
    """A column for each caller, and for each run what its confidence is worth."""
    paths = [RESULTS / f"{name}.json" for name in ("bfcl", "bfcl_live", "bfcl_large")]
    cards = [read(path) for path in paths]
    small = [card for card in cards if not is_large(card)]
    large = [card for card in cards if is_large(card)]
    newest = cards[0]["versions"]["edgewise"]
    rows = [
        (f"`{name}`", told_by(small, name, newest), told_by(large, name, newest), published)
        for name, published in PUBLISHED.items()
    ]
    head = ("Percent right", "`edgewise-caller`", "`edgewise-caller-large`", PUBLISHED_TITLE)
    names = ("cases", "auroc", "aurc", "coverage_95", "latency_ms_p50", "latency_ms_p95")
    runs = [(str(n), *figures(card["metrics"], "", names)) for n, card in enumerate(cards, 1)]
    beside = table(("Run", *(f"`{name}`" for name in names)), runs)
    commands = "\n".join(f"{n}. {made(card)}" for n, card in enumerate(cards, 1))
    return f"{table(head, rows)}\n\n{beside}\n\n{commands}"


def told_by(cards: Iterable[Mapping[str, Any]], name: str, newest: str) -> str:
    """The figure of the run that has it; with its release, where that is an older one."""
    card = next((each for each in cards if name in each["metrics"]), None)
    if card is None:
        return ""
    release = card["versions"]["edgewise"]
    figure = figures(card["metrics"], "", [name])[0]
    return str(figure) if release == newest else f"{figure} (release {release})"


def is_large(card: Mapping[str, Any]) -> bool:
    return "edgewise-caller-large" in card["command"]


def merged(cards: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    return {name: value for card in cards for name, value in card["metrics"].items()}


def serve() -> str:
    if not (RESULTS / "serve.json").exists():
        return "Not measured yet."
    ratios = [f"{each}_ratio_{n}" for n in (1, 4, 16) for each in ("throughput", "cpu")]
    streams = ("cloud_streams_left_behind", "memory_mb_before_streams", "memory_mb_with_streams")
    return scorecard("serve", serve_targets, (*ratios, "overhead_ms_p50", *streams))


def request() -> str:
    cpu = [f"{which}{kind}_cpu_ms" for which in ("", "before_") for kind in ("request", "stream")]
    return scorecard("request", request_targets, (*cpu, "request_cpu_ms_64_clients"))


def campaign(name: str) -> str:
    if not (RESULTS / f"{name}.json").exists():
        return "Not measured yet."
    card = read(RESULTS / f"{name}.json")
    metrics, targets = card["metrics"], verdicts(card["metrics"], CAMPAIGNS[name])
    rows = [(f"`{each}`", in_words(metrics[each]), target) for each, target in targets.items()]
    return table(("Metric", "Value", "Target"), rows) + f"\n\n{made(card)} {all_of(name)}"


def memory() -> str:
    if not (RESULTS / "memory.json").exists():
        return "Not measured yet."
    card = read(RESULTS / "memory.json")
    metrics = card["metrics"]
    keys = ("idle_mb", "peak_mb", "kept_mb", "status", "seconds")
    rows = [
        (each.says, *(f"{metrics[f'{key}_{each.name}']:,.0f}" for key in keys))
        for each in worst_requests(1_000_000)
        if f"peak_mb_{each.name}" in metrics
    ]
    head = ("Request", "MB before", "Peak MB", "Kept MB", "Status", "Seconds")
    return table(head, rows) + f"\n\n{made(card)}"


def figures(metrics: Mapping[str, float], prefix: str, names: Iterable[str]) -> list[str]:
    found = [metrics.get(f"{prefix}{name}") for name in names]
    return ["" if value is None else in_words(value) for value in found]


def in_words(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.4g}"


def made(card: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in card["versions"].items())
    return f"`{card['command']}` on {card['date'][:10]}: {versions}."


def all_of(name: str) -> str:
    place = (RESULTS / f"{name}.json").relative_to(ROOT).as_posix()
    return f"All figures: [{name}.json](../../{place})."


def of_scale() -> str:
    """Its targets; the plan of docs/guide/scaling.md shows most of the other figures."""
    card = read(RESULTS / "scale.json")
    metrics = card["metrics"]
    rows = [
        (f"`{each}`", f"{metrics[each]:,.4g}", target)
        for each, target in verdicts(metrics, scale_targets).items()
    ]
    return table(("Metric", "Value", "Target"), rows) + f"\n\n{made(card)} {all_of('scale')}"


def scorecard(
    name: str, wanted: Mapping[str, tuple[str, float]], also: Iterable[str] | None = None
) -> str:
    """Every metric; with `also` those with a target and the ones named, and where the rest is."""
    card = read(RESULTS / f"{name}.json")
    metrics, targets = card["metrics"], verdicts(card["metrics"], wanted)
    shown = [*metrics] if also is None else [each for each in metrics if each in {*targets, *also}]
    rows = [(f"`{each}`", f"{metrics[each]:,.4g}", targets.get(each, "")) for each in shown]
    rest = "" if also is None else f" {all_of(name)}"
    return f"{table(('Metric', 'Value', 'Target'), rows)}\n\n{made(card)}{rest}"


def forward() -> str:
    return scorecard("forward", {**forward_targets, **traces_targets})


def proof() -> str:
    """The few figures of the README; the pages of docs/notes have all of them."""
    cards = {
        name: read(RESULTS / f"{name}.json")
        for name in ("tools", "bfcl", "calibration", "overhead", "kills")
    }
    calls, berkeley, sure, own, killed = (card["metrics"] for card in cards.values())
    called = (
        "Exact function calls on the device: 30 public cases, 139 of an assistant",
        f"{calls['hackathon_30_exact']:.0%}, {calls['assistant_dev_exact']:.0%}",
    )
    leaderboard = (
        f"Berkeley leaderboard, `simple_python`: our 135M model; {PUBLISHED_TITLE}",
        f"{berkeley['simple_python']:.1f} %; {PUBLISHED['simple_python']} %",
    )
    kept = (
        "Answers kept at `--max-error 10%`, and right among them (`standard`, "
        f"{sure['measured']:,.0f} questions of {sure['families']:.0f} families)",
        f"{sure['kept_share_10']:.0%}, {sure['kept_accuracy_10']:.0%}",
    )
    broken = sure["families_broken_10"] * sure["families"]
    promised = (
        f"Families of questions, of {sure['families']:.0f}, that break those 10 % when nobody had "
        "measured them; share of their questions that is promised anything",
        f"{broken:.0f}; {sure['strangers_promised_10']:.0%}",
    )
    speed = (
        "Speed beside the bare runtime, with confidence, gate and ledger at work",
        f"{own['tokens_per_second_ratio']:.2f}",
    )
    lost = killed["rows_lost"] + killed["rows_doubled"] + killed["budget_off_microdollars"]
    booked = (
        f"Rows lost or doubled, and micro-dollars off, after {killed['kills']:,.0f} kills",
        f"{lost:.0f}",
    )
    made_by = ("tools", "bfcl", "calibration", "calibration", "overhead", "kills")
    rows = [
        (what, value.replace("%", " %").replace("  %", " %"), f"`{cards[name]['command']}`")
        for (what, value), name in zip(
            (called, leaderboard, kept, promised, speed, booked), made_by, strict=True
        )
    ]
    return table(("On two cores of an AMD EPYC", "", "Printed by"), rows)


def routing_metrics(needed: str) -> Mapping[str, float] | None:
    path = RESULTS / "routing.json"
    metrics: Mapping[str, float] = read(path)["metrics"] if path.exists() else {}
    return metrics if needed in metrics else None


def early() -> str:
    metrics = routing_metrics("early_tokens_at_50")
    if metrics is None:
        return "Not measured yet: `edgewise bench routing --save`."
    end = [f"{metrics[f'tokens_{name}_end']:,.4g}" for name in ("before_decision", "wasted")]
    rows: list[tuple[object, ...]] = [("0.5", "in the end", "1", "0", "0", *end)]
    for at in (30, 40, 50):
        for rule, words in RULES.items():
            told = [f"{metrics[f'{rule}_{name}_at_{at}']:,.4g}" for name in SAVINGS]
            rows.append((f"0.{at // 10}", words, *told))
    head = ("Threshold", "Decided", "Agreement", "Lost", "Slipped", "Tokens", "Wasted")
    names = ("early_agreement", "tokens_wasted_early", "tokens_wasted_end")
    spans = (f"`{n}` {metrics[f'{n}_low']:.4g} to {metrics[f'{n}_high']:.4g}" for n in names)
    return table(head, rows) + f"\n\nAt 0.5, 95 % intervals: {', '.join(spans)}."


def frozen() -> str:
    metrics = routing_metrics("mmlu_apgr")
    if metrics is None:
        return "Not measured yet."
    sets = {"mmlu": "MMLU", "gsm8k": "GSM8K", **{name: " to ".join(PAIRS[name]) for name in PAIRS}}
    rows = [(title, *figures(metrics, f"{name}_", FROZEN_HEAD)) for name, title in sets.items()]
    reached = verdicts(metrics, frozen_targets)
    beside = "; ".join(f"`{name}` {words}" for name, words in reached.items())
    priced = [
        (
            sets[name],
            *figures(metrics, f"{name}_", ("cpt100", "dollars_at_strong_quality")),
            *figures(metrics, f"{name}_", ("dollars_strong", "training_rows_left_out")),
        )
        for name in PAIRS
    ]
    head = (
        "LLMRouter's pair",
        "Sent for the strong model's quality",
        "Dollars per million tokens",
        "Strong alone",
        "Training rows left out",
    )
    first = table(("Set", *FROZEN_HEAD.values()), rows)
    end = made(read(RESULTS / "routing.json"))
    return f"{first}\n\nTargets: {beside}.\n\n{table(head, priced)}\n\n{end}"


@pytest.mark.parametrize(
    ("page", "part", "make"),
    [
        ("notes/confidence-fit.md", "early", early),
        ("../README.md", "proof", proof),
        ("notes/confidence-fit.md", "curve", curve),
        ("notes/confidence-fit.md", "report", report),
        ("notes/confidence-fit.md", "own traces", own_traces),
        ("notes/routing.md", "frozen", frozen),
        ("notes/routing.md", "workload", workload),
        ("notes/routing.md", "cost", cost),
        ("notes/confidence-fit.md", "calibration", calibration),
        ("notes/confidence-fit.md", "by family", by_family),
        ("notes/confidence-fit.md", "by life", by_life),
        ("notes/benchmarks.md", "overhead", overhead),
        ("notes/benchmarks.md", "isolate", isolate),
        ("notes/benchmarks.md", "warm", partial(scorecard, "warm", warm_targets)),
        ("notes/benchmarks.md", "clients", lambda: scorecard("clients", clients_targets)),
        ("notes/campaigns.md", "forward", forward),
        ("notes/runtimes.md", "engines", engines),
        ("notes/calls.md", "caller", function_model),
        ("notes/calls.md", "tools", tools),
        ("notes/calls.md", "bfcl", bfcl),
        ("notes/calls.md", "conversations", conversations),
        ("notes/calls.md", "spoken", partial(scorecard, "spoken", spoken_targets)),
        ("notes/senses.md", "embed", embed),
        ("notes/senses.md", "find", find),
        ("notes/benchmarks.md", "serve", serve),
        ("notes/benchmarks.md", "request", request),
        ("notes/benchmarks.md", "scale", of_scale),
        ("guide/scaling.md", "ledgers", ledgers),
        ("guide/scaling.md", "capacity", capacity),
        ("guide/scaling.md", "predictions", predictions),
        ("guide/scaling.md", "fleets", fleets),
        ("notes/senses.md", "see", see),
        ("notes/campaigns.md", "kills", partial(campaign, "kills")),
        ("notes/campaigns.md", "money", partial(campaign, "money")),
        ("notes/campaigns.md", "hostile", partial(campaign, "hostile")),
        ("notes/campaigns.md", "privacy", partial(campaign, "privacy")),
        ("notes/campaigns.md", "team", partial(campaign, "team")),
        ("notes/campaigns.md", "memory", memory),
        ("notes/campaigns.md", "soak", partial(campaign, "soak")),
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
    card = read(RESULTS / "calibration_fit.json")
    shipped = read(SHIPPED)["report"]
    assert set(card["metrics"]) == set(shipped)
    assert all(abs(card["metrics"][name] - value) < 0.005 for name, value in shipped.items())
