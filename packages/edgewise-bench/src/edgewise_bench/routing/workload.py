"""What hybrid answers cost, on a workload of what people ask an assistant.

Each part of the workload has rows that were really answered by our models: how sure the device was,
how good its answer is, and what the cloud would charge. Its share of the requests is an assumption,
which the user may change. The cloud is perfect, unless recorded outcomes of a strong model are
given: then the exam questions have those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy

from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices
from edgewise_bench.chat import held_out
from edgewise_bench.chat.held_out import Judged
from edgewise_bench.questions.public import FIRM, read_public_questions
from edgewise_bench.routing.metrics import Numbers
from edgewise_bench.routing.rows import FUNCTION_MODEL, TRANSCRIBER, call_rows, read_speech
from edgewise_bench.speech.fit import fit_speech

# An assistant is told to do things more often than it is asked to know them; transcription is what
# voice requests begin with. Exam questions are the hard tail. Nobody published such shares for
# hybrid assistants: they are ours, and `--shares` changes them.
SHARES = {"calls": 0.40, "speech": 0.15, "tasks": 0.20, "chat": 0.20, "exam": 0.05}
TASKS = {
    *("rewriting", "extraction", "summarising", "classification", "translation"),
    *("correcting", "instructions", "reading", "knowing code", "choices"),
}
HARD = {"public"}
STANDARD = "qwen2.5-coder-1.5b-instruct-q4_k_m"
ANSWERS = ProviderConfig(name="openai", protocol="openai", model="gpt-5")
TRANSCRIPTS = ProviderConfig(name="openai", protocol="openai", model="gpt-4o-mini-transcribe")
# Five tools as JSON and a request; a call with two or three arguments.
CALL_TOKENS = (365, 40)
SHARES_OF_QUALITY = (90, 95, 99)
FIVE_TIMES = 5.0
TARGETS = {"times_cheaper_at_95": (">=", FIVE_TIMES)}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one sort: confidence, quality of the device and of the cloud, price in dollars."""

    confidence: Numbers
    device: Numbers
    cloud: Numbers
    dollars: Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """A workload: the rows of its parts, each with its share of all requests."""

    weight: Numbers
    part: Part

    def curve(self) -> list[tuple[float, float, float]]:
        """(quality, dollars, share sent) as the threshold rises; first nothing is sent."""
        part, weight = self.part, self.weight
        order = numpy.argsort(part.confidence, kind="stable")  # the least sure are sent first
        gain = (weight * (part.cloud - part.device))[order].cumsum()
        spent, sent = (weight * part.dollars)[order].cumsum(), weight[order].cumsum()
        start = float((weight * part.device).sum())
        # Rows of one confidence are sent together.
        last = numpy.append(numpy.diff(part.confidence[order]) > 0, True)
        steps = zip(start + gain[last], spent[last], sent[last], strict=True)
        return [(start, 0.0, 0.0), *((float(q), float(d), float(s)) for q, d, s in steps)]


def measure(parts: Mapping[str, Part], shares: Mapping[str, float]) -> dict[str, float]:
    """Figures of each part, and of all together under one threshold."""
    found = {f"share_{name}": shares[name] for name in parts}
    for name, part in parts.items():
        whole = Rows(numpy.full(len(part.device), 1 / len(part.device)), part)
        found |= {f"{name}_{key}": value for key, value in figures(whole).items()}
        found[f"{name}_rows"] = float(len(part.device))
    return figures(mixed(parts, shares)) | found


def mixed(parts: Mapping[str, Part], shares: Mapping[str, float]) -> Rows:
    total = sum(shares[name] for name in parts)
    weights = [
        numpy.full(len(part.device), shares[name] / total / len(part.device))
        for name, part in parts.items()
    ]
    columns = (
        numpy.concatenate([getattr(part, column) for part in parts.values()])
        for column in ("confidence", "device", "cloud", "dollars")
    )
    return Rows(numpy.concatenate(weights), Part(*columns))


def figures(rows: Rows) -> dict[str, float]:
    """Dollars are for a thousand requests."""
    curve = rows.curve()
    cloud = float((rows.weight * rows.part.cloud).sum())
    price = float((rows.weight * rows.part.dollars).sum())
    found = {"device_quality": curve[0][0], "cloud_quality": cloud, "cloud_usd": 1000 * price}
    for goal in SHARES_OF_QUALITY:
        paid = min((spent for good, spent, _ in curve if good >= goal / 100 * cloud), default=price)
        # Where nothing need be sent, a figure stands for "as often as you like".
        found[f"times_cheaper_at_{goal}"] = min(1000.0, price / paid) if paid else 1000.0
    five = [step for step in curve if step[1] <= price / FIVE_TIMES]
    best = max(five)
    found["quality_at_5_times"] = best[0] / cloud if cloud else 0.0
    found["sent_at_5_times"] = best[2]
    return found


# -- the parts -------------------------------------------------------------------------------------


def open_parts(traces: Path, strong: Mapping[int, float] | None = None) -> dict[str, Part]:
    """From the published outcomes; `strong` scores exam questions by their place among them."""
    prices = LibraryPrices()
    judged = held_out.read_held_out(held_out.path_of(traces, STANDARD)).traces
    exam = [row for row in judged if row.family in HARD]
    return {
        "calls": published_calls(traces),
        "speech": published_speech(traces, prices),
        "tasks": chat_part([row for row in judged if row.family in TASKS], prices),
        "chat": chat_part([row for row in judged if row.family not in TASKS | HARD], prices),
        "exam": exam_part(exam, strong, prices),
    }


def chat_part(rows: Sequence[Judged], prices: LibraryPrices) -> Part:
    cost = [prices.cost(ANSWERS, row.input_tokens, row.output_tokens) / 1e6 for row in rows]
    return Part(
        numpy.array([row.kinds for row in rows]),
        numpy.array([row.right for row in rows], dtype=numpy.float64),
        numpy.ones(len(rows)),
        numpy.array(cost),
    )


def exam_part(
    rows: Sequence[Judged], strong: Mapping[int, float] | None, prices: LibraryPrices
) -> Part:
    part = chat_part(rows, prices)
    if strong is None:
        return part
    known = numpy.array(sorted(place for place in strong if place < len(rows)))
    cloud = numpy.array([strong[place] for place in known])
    return Part(part.confidence[known], part.device[known], cloud, part.dollars[known])


def call_part(confidence: Sequence[float], quality: Sequence[float]) -> Part:
    dollars = LibraryPrices().cost(ANSWERS, *CALL_TOKENS) / 1e6
    count = len(confidence)
    return Part(
        numpy.array(confidence, dtype=numpy.float64),
        numpy.array(quality, dtype=numpy.float64),
        numpy.ones(count),
        numpy.full(count, dollars),
    )


def published_calls(traces: Path) -> Part:
    rows = call_rows(traces / f"{FUNCTION_MODEL}.jsonl.gz")
    return call_part(rows.confidence.tolist(), rows.right.tolist())


def published_speech(traces: Path, prices: LibraryPrices) -> Part:
    """Segments; quality is the share of words that are right."""
    _, judged = fit_speech(read_speech(traces / f"{TRANSCRIBER}.jsonl.gz"), TRANSCRIBER)
    seconds = [each.segment.end - each.segment.start for each in judged]
    cost = [prices.cost(TRANSCRIPTS, 0, 0, audio_seconds=length) / 1e6 for length in seconds]
    return Part(
        numpy.array([each.chance for each in judged]),
        numpy.array([1 - each.segment.rate for each in judged]),
        numpy.ones(len(judged)),
        numpy.array(cost),
    )


def strong_scores(scores: Mapping[str, float], folder: Path) -> dict[int, float]:
    """By place among the exam questions; `scores` are by reference, as `frozen_scores` has them."""
    asked = [each for each in read_public_questions(folder) if each.question.kind in FIRM]
    found = {}
    for place, each in enumerate(asked):
        if (score := scores.get(f"public:{each.reference}")) is not None:
            found[place] = score
    return found
