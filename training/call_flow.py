"""Cases through the engine's own flow: rewritten, settled, withheld, and only then judged.

    python -m training.call_flow --cases valid-00000.jsonl --out answers.jsonl.gz

answers each case with the shipped caller as the engine would, and keeps every answer that the model
wrote on the way. `training.fit_calls --kept answers.jsonl.gz` goes through the flow again with
those answers and needs no model. About 0.6 cases a second on one core; it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from edgewise import plugins
from edgewise.calibrations import calibration_of
from edgewise.calls.check import CALLS
from edgewise.cloud.provider import Chunk
from edgewise.decide.calibration import Calibration, Features, Score
from edgewise.errors import CloudClosed, EdgewiseError, GenerationFailed
from edgewise.flows import call as call_functions
from edgewise.flows.call import CallNeeds, CallRules
from edgewise.flows.route import unwatched
from edgewise.grammar.tools import ASK, NO_CALL
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.parts import open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Request, Tool
from edgewise.types.replies import CallReply, Finish, Token
from training.call_samples import Asked, Sample, lines, read_asked, right_calls, tools_of
from training.score import exact, read_calls

Answers = dict[str, dict[str, Any]]  # by prompt
FACTS = DeviceFacts(
    backend="kept",
    model="edgewise-caller",
    quantisation="Q8_0",
    context_tokens=4096,
    call_format="conversation",
)


@dataclass(slots=True)
class KeptFunctionModel:
    """Writes what was kept of an answer to the same prompt; no model is asked."""

    answers: Answers

    def facts(self) -> DeviceFacts:
        return FACTS

    def write_call(self, call: CallToWrite) -> TokenStream:
        row = self.answers.get(call.prompt)
        if row is None:
            raise GenerationFailed("this prompt was not kept")
        yield from kept_tokens(row)
        yield Finish("stop", 0, len(row["tokens"]))

    def close(self) -> None:
        """Nothing is open."""


def kept_tokens(row: Mapping[str, Any]) -> Iterator[Token]:
    told = zip(row["tokens"], row["logprobs"], row["runners_up"], strict=True)
    for place, (text, logprob, other) in enumerate(told):
        first = {NO_CALL: row["none"], ASK: row.get("ask")} if place == 0 else {}
        likely = tuple((word, chance) for word, chance in first.items() if chance is not None)
        yield Token(text, logprob, logprob - other, alternatives=likely)


@dataclass(slots=True)
class KeepingFunctionModel:
    """The real caller; its answers are noted by prompt, the first to each."""

    function_model: CallBackend
    answers: Answers

    def facts(self) -> DeviceFacts:
        return self.function_model.facts()

    def write_call(self, call: CallToWrite) -> TokenStream:
        written: list[Token] = []
        for item in self.function_model.write_call(call):
            if isinstance(item, Token):
                written.append(item)
            else:
                self.answers.setdefault(call.prompt, kept_row(call.prompt, written))
            yield item

    def close(self) -> None:
        self.function_model.close()


def kept_row(prompt: str, written: Sequence[Token]) -> dict[str, Any]:
    first = dict(written[0].alternatives) if written else {}
    none = [chance for text, chance in first.items() if text.strip() == NO_CALL]
    asks = [chance for text, chance in first.items() if text.strip() == ASK]
    return {
        "prompt": prompt,
        "tokens": [token.text for token in written],
        "logprobs": [round(token.logprob, 6) for token in written],
        "runners_up": [round(token.logprob - token.margin, 6) for token in written],
        "none": max(none, default=None),
        "ask": max(asks, default=None),
    }


class _ShutCloud:
    def closed(self, request: Request) -> CloudClosed | None:
        return CloudClosed("no cloud in this measurement")

    def stream(self, *_: object, **__: object) -> Generator[Chunk, None, None]:
        raise CloudClosed("no cloud in this measurement")


class _NoRecord:
    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        return {}

    def note(self, outcomes: object) -> None:
        """Every case is answered as if it were the first."""


Told = dict[float, Mapping[str, float]]  # what each confidence was said of


@dataclass(frozen=True)
class NotingScore(Score):
    """A score that remembers what it said, and of what."""

    told: Told = field(default_factory=dict)

    @override
    def of(self, features: Features) -> float:
        chance = Score.of(self, features)
        if isinstance(features, Mapping):  # as those of calls are
            self.told[chance] = features
        return chance


def noting(calibration: Calibration) -> tuple[Calibration, Told]:
    """The same calibration, and what it will say."""
    told: Told = {}
    scores = {
        name: NotingScore(score.weights, score.bias, score.map, told)
        for name, score in calibration.scores.items()
    }
    return replace(calibration, scores=scores), told


def answer(
    asked: Asked,
    function_model: CallBackend,
    calibration: Calibration,
    *,
    rules: CallRules | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> CallReply:
    """As the engine answers where no cloud may be asked; dates are those of a fixed day.

    Without `rules`, retries have all the time they want: a busy machine must not change answers.
    """
    parts = CallNeeds(
        function_model=lambda: function_model,
        cloud=_ShutCloud(),
        policy=plugins.load("policies", "local_only"),
        calibration=lambda _: calibration,
        rules=rules or CallRules(deadline_ms=math.inf),
        patience_s=1.0,
        clock=clock,
        today=lambda: datetime.date(2026, 1, 15),
        record=_NoRecord(),
    )
    request = Request(
        messages=asked.messages, tools=asked.tools, context=asked.context, policy="local_only"
    )
    return unwatched(call_functions.answer(request, parts, []))


def flow_samples(
    cases: Iterable[Mapping[str, Any]], answers: Answers, calibration: Calibration
) -> Iterator[Sample]:
    """What the flow made of each case whose answer was kept.

    Calls with made-up values stay calls: a question takes its confidence from the call that it
    replaces, so a calibration has to know such calls.
    """
    function_model = KeptFunctionModel(answers)
    rules = CallRules(deadline_ms=math.inf, ask_for_made_up=False)
    for case in cases:
        asked = read_asked(case["prompt"])
        row = answers.get(asked.read_prompt)
        if row is None or not row["tokens"]:
            continue
        noted, told = noting(calibration)
        expected = read_calls(case["answer"]) or []
        try:
            reply = answer(asked, function_model, noted, rules=rules)
        except EdgewiseError:
            yield Sample((), (), False, sum(row["logprobs"]), source=str(case["source"]))
            continue
        yield _sample(reply, told, expected, row, case, asked.tools)


def _sample(
    reply: CallReply,
    told: Told,
    expected: Sequence[Any],
    row: Mapping[str, Any],
    case: Mapping[str, Any],
    tools: Sequence[Tool],
) -> Sample:
    calls = reply.calls
    needs = sorted(name for tool, asked in expected if tool == ASK for name in asked["needs"])
    expected = [one for one in expected if one[0] != ASK]
    asked_rightly = sorted(reply.needs) == needs
    features = [dict(told.get(call.confidence or 0.0, {})) for call in calls]
    right = list(right_calls(calls, case["answer"])) if calls else []
    least = reply.confidence or 0.0
    withheld = None
    if least not in {call.confidence for call in calls}:  # of a part that no tool serves
        if least in told:
            features.append(dict(told[least]))
            right.append(len(expected) <= len(calls) and asked_rightly)
        else:
            withheld = least
    return Sample(
        tuple(features),
        tuple(right),
        asked_rightly
        and exact([(call.name, dict(call.arguments)) for call in calls], list(expected)),
        sum(row["logprobs"]),
        tools_of(case["answer"], "".join(row["tokens"]), tools),
        str(case["source"]),
        withheld,
    )


def read_kept(path: Path) -> Answers:
    return {row["prompt"]: row for row in lines(path)} if path.exists() else {}


def write_kept(answers: Answers, path: Path) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in answers.values())
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=None)
    options = parser.parse_args(arguments)
    settings = Settings.load()
    answers = read_kept(options.out)
    function_model = KeepingFunctionModel(open_function_model(settings), answers)
    calibration = calibration_of(settings, function_model.facts(), CALLS)
    try:
        for number, case in enumerate(lines(options.cases)):
            if options.limit is not None and number >= options.limit:
                break
            asked = read_asked(case["prompt"])
            if asked.read_prompt not in answers:
                answer(asked, function_model, calibration)
            if number % 20 == 19:
                write_kept(answers, options.out)
                sys.stderr.write(f"{number + 1} cases, {len(answers)} answers\n")
    finally:
        write_kept(answers, options.out)
        function_model.close()


if __name__ == "__main__":
    main()
