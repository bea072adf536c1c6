"""What each step of a call is worth, for the answer and for the decision to keep it.

    python -m training.steps --cases toolcalls_valid.jsonl.gz --limit 600 --memo answers.pickle

Every step is switched off by itself, over the same requests. Each request is asked on the device
alone, and again where a cloud could be asked (the handoff is signalled). The model's answers are
kept in the memo: a step that changes no prompt costs no second run. Time plays no part.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from edgewise import Engine, Settings, Tool
from edgewise.calls import check, normalize
from edgewise.flows import call as flow
from edgewise.flows.call import Calling
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.parts import open_function_model
from edgewise.types.messages import ToolCall
from edgewise.types.replies import Finish, Intent, Token
from edgewise_bench.calls.stand_in_cloud import StandInCloud
from training.other_cases import read
from training.score import exact

LONG_MS = 10_000_000


class Memo:
    """Fulfils `CallBackend` with another one, which is asked once for each prompt and grammar."""

    def __init__(self, inner: CallBackend, path: Path) -> None:
        self._inner, self._path = inner, path
        self._known: dict[Any, list[Token | Finish]] = {}
        if path.exists():
            self._known = pickle.loads(path.read_bytes())

    def facts(self) -> DeviceFacts:
        return self._inner.facts()

    def write_call(self, call: CallToWrite) -> TokenStream:
        key = (call.prompt, call.grammar, call.max_tokens)
        if key not in self._known:
            self._known[key] = list(self._inner.write_call(call))
            if len(self._known) % 20 == 0:
                self.close()
        yield from self._known[key]

    def close(self) -> None:
        self._path.write_bytes(pickle.dumps(self._known))


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of a request: right on the device alone; kept, and right then."""

    right: bool
    kept: bool
    kept_right: bool
    calls: str


def never(*_: object, **__: object) -> bool:
    return False


def as_given(arguments: Any, *_: object) -> Any:
    return arguments, ()


def one_intent(text: str, _: object) -> tuple[Intent, ...]:
    return (Intent(text, 0, len(text), text),)


def in_turn(calls: Sequence[ToolCall], _: object, words: Sequence[object]) -> tuple[int, ...]:
    return tuple(min(number, len(words) - 1) for number in range(len(calls)))


def unnormalized(call: ToolCall, tool: Tool | None, *_: object, **__: object) -> ToolCall:
    return call if tool else replace(call, complaints=("unknown_tool",))


Patches = Sequence[tuple[object, str, object]]
RETRIES = ("_write_again", "_again", "_call_if_said", "_ask_if_likely",
           "_ask_for_made_up", "_may_retry")  # fmt: skip
VALUES = ("write_moments", "date_moments", "prefer_grounded", "fill_missing", "as_said",
          "plain_hours", "drop_made_up")  # fmt: skip
STEPS: Mapping[str, Patches] = {
    "every complaint as a doubt": [(flow, "GATE", frozenset())],
    "doubt: weak_fit": [(flow, "GATE", check.GATE - {"weak_fit"})],
    "held_back": [(check, "held_back", never), (flow, "held_back", never)],
    **{name.strip("_"): [(flow, name, never)] for name in RETRIES if hasattr(flow, name)},
    "none_is_likelier": [(flow, "none_is_likelier", never)],
    "normalize": [(flow, "normalize", unnormalized)],
    **{f"normalize: {name}": [(normalize, name, as_given)] for name in VALUES},
    "split": [(flow, "split", one_intent)],
    "assign": [(flow, "assign", in_turn)],
    "ask_for_targets": [(Calling, "ask_for_targets", never)],
}  # fmt: skip


def ask(engine: Engine, row: Mapping[str, Any]) -> Asked:
    tools = [
        Tool(one["name"], one.get("description", ""), one.get("parameters", {}))
        for one in row["tools"]
    ]
    wanted = [(call["name"], call["arguments"]) for call in row["calls"]]
    alone = engine.call(row["query"], tools, policy="local_only", deadline_ms=LONG_MS)
    routed = engine.call(row["query"], tools, handoff="signal", deadline_ms=LONG_MS)
    calls, kept = ([(one.name, dict(one.arguments)) for one in reply.calls]
                   for reply in (alone, routed))  # fmt: skip
    stays = not routed.cloud_handoff
    return Asked(exact(calls, wanted), stays, stays and exact(kept, wanted), repr(calls))


def without(
    step: Patches, settings: Settings, model: CallBackend, rows: Sequence[Mapping[str, Any]]
) -> list[Asked]:
    """What becomes of the requests without a step."""
    with ExitStack() as stack:
        for home, name, other in step:
            stack.enter_context(patch.object(home, name, other))
        cloud = StandInCloud(0)
        engine = stack.enter_context(Engine(settings, function_model=model, cloud=cloud))
        return [ask(engine, row) for row in rows]


def interval(gains: Sequence[int], rounds: int = 2000) -> str:
    """The paired bootstrap of a mean, 95 %, in points."""
    dice, size = random.Random(0), len(gains)
    means = sorted(sum(dice.choices(gains, k=size)) / size for _ in range(rounds))
    low, high = (100 * means[int(part * rounds)] for part in (0.025, 0.975))
    return f"[{low:+.1f}, {high:+.1f}]"


def told(name: str, base: Sequence[Asked], other: Sequence[Asked]) -> str:
    """One row of the table in docs/notes/function-steps.md."""
    pairs, size = list(zip(base, other, strict=True)), len(base)
    gains = [one.right - two.right for one, two in pairs]
    right, rest = (100 * sum(one.right for one in each) / size for each in (base, other))
    wrong, more = (sum(one.kept and not one.kept_right for one in each) for each in (base, other))
    kept, stay = (sum(one.kept for one in each) for each in (base, other))
    cells = (name, sum(one.calls != two.calls for one, two in pairs), f"{right:.1f} / {rest:.1f}",
             interval(gains), f"{kept} / {stay}", f"{wrong} / {more}")  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def tables(settings: Settings, model: CallBackend, rows: Sequence[Mapping[str, Any]],
           names: Sequence[str]) -> Iterator[str]:  # fmt: skip
    base = without((), settings, model, rows)
    yield f"{len(rows)} requests; each pair is with and without the step\n"
    yield "| Step | Changed | Exact, % | Gain, 95 % | Kept | Kept wrong |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        yield told(name, base, without(STEPS[name], settings, model, rows))


def main(arguments: Sequence[str] | None = None,
         opened: Callable[[Settings], CallBackend] = open_function_model) -> int:  # fmt: skip
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--memo", type=Path, required=True)
    parser.add_argument("--steps", nargs="*", choices=list(STEPS), default=list(STEPS))
    options = parser.parse_args(arguments)
    rows = list(read(options.cases))
    rows = [rows[number * len(rows) // options.limit] for number in range(options.limit)]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(data_dir=Path(folder), threads=1, policy="prefer_local")
        memo = Memo(opened(settings), options.memo)
        for line in tables(settings, memo, rows, options.steps):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        memo.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
