"""What each part of the pipeline adds, on validation requests for tools the caller never saw.

    python -m training.ablate --cases toolcalls_valid.jsonl.gz --limit 100 --out ablation.json

free       the model alone
grammar    its answer under the grammar of the schemas
copying    the same, and free text limited to words that follow each other in the request
settled    grammar, then values normalised, grounded and filled in code
no_refusal, no_rewriting   all of it, but calls are made where `none` is likelier; but an unlikely
           answer is not written again with fewer tools or words
pipeline   all of it: intents split, doubtful calls written again, made-up text copied

Cases are those of the feasibility run, or lines of `training.generate`.
`--foreign` asks each request for one call once more, with one tool of another case in place of its
own: then `none` is right.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from edgewise import Engine, Settings, Tool
from edgewise.calls.prompt import render_prompt
from edgewise.errors import EdgewiseError
from edgewise.flows import call as flow
from edgewise.grammar.tools import compile_grammar
from edgewise.local.backend import CallToWrite
from edgewise.settings import DEFAULT_FUNCTION_MODEL
from edgewise.types.replies import Token
from training.call_samples import read_prompt
from training.other_cases import read
from training.rows import read_examples
from training.score import Call, exact, f1, read_calls

Answer = Callable[[str, Sequence[Tool]], "list[Call] | None"]


def written(engine: Engine, *, grammar: bool, copy: bool = False) -> Answer:
    def answer(text: str, tools: Sequence[Tool]) -> list[Call] | None:
        rules = compile_grammar(tools, text, copy=copy) if grammar else ""
        prompt = render_prompt(tuple(tools), text)
        stream = engine.parts.function_model().write_call(
            CallToWrite(prompt, grammar=rules, max_tokens=400)
        )
        return read_calls("".join(item.text for item in stream if isinstance(item, Token)))

    return answer


def called(engine: Engine, *without: tuple[str, object]) -> Answer:
    """`without`: names in the flow, and what takes their place."""

    def answer(text: str, tools: Sequence[Tool]) -> list[Call] | None:
        with ExitStack() as patched:
            for name, other in without:
                patched.enter_context(patch.object(flow, name, other))
            reply = engine.call(text, tools, policy="local_only")
        return [(call.name, dict(call.arguments)) for call in reply.calls]

    return answer


def never(*_: object, **__: object) -> bool:
    return False


def foreign(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests for one call with the first tool of the case before: no call is right."""
    return [
        {**row, "tools": before["tools"][:1], "calls": []}
        for before, row in pairwise(rows)
        if len(row["calls"]) == 1
        and before["tools"][0]["name"] not in {tool["name"] for tool in row["tools"]}
    ]


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".gz":
        yield from read(path)
        return
    for line in read_examples(path):
        query, tools = read_prompt(line["prompt"])
        wanted = read_calls(line["answer"]) or ()
        calls = [{"name": name, "arguments": given} for name, given in wanted]
        yield {"query": query, "tools": [asdict(tool) for tool in tools], "calls": calls}


def score(answer: Answer, rows: Sequence[dict[str, Any]], name: str) -> dict[str, float]:
    right, partial = 0, 0.0
    for number, row in enumerate(rows, start=1):
        tools = [
            Tool(tool["name"], tool.get("description", ""), tool.get("parameters", {}))
            for tool in row["tools"]
        ]
        wanted = [(call["name"], call["arguments"]) for call in row["calls"]]
        try:
            got = answer(row["query"], tools)
        except EdgewiseError:
            got = None
        right += exact(got, wanted)
        partial += f1(got, wanted)
        sys.stderr.write(f"\r{name}: {number} of {len(rows)}")
    sys.stderr.write("\n")
    return {"exact": round(right / len(rows), 4), "f1": round(partial / len(rows), 4)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--foreign", action="store_true")
    parser.add_argument("--parts", nargs="*", help="only these")
    parser.add_argument(
        "--model", default=DEFAULT_FUNCTION_MODEL, help="the caller: a name or a file"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    rows = list(islice(read_cases(options.cases), options.limit))
    rows = foreign(rows) if options.foreign else rows
    place = options.out.parent / "ablation"
    settings = Settings.load(data_dir=place, threads=1, function_model=options.model)
    with Engine(settings) as engine:
        parts: dict[str, Answer] = {
            "free": written(engine, grammar=False),
            "grammar": written(engine, grammar=True),
            "copying": written(engine, grammar=True, copy=True),
            "settled": called(engine, ("MOST_RETRIES", 0)),
            "no_refusal": called(engine, ("none_is_likelier", never)),
            "no_rewriting": called(engine, ("DOUBTED", -math.inf)),
            "pipeline": called(engine),
        }
        found = {
            name: score(answer, rows, name)
            for name, answer in parts.items()
            if name in (options.parts or parts)
        }
    options.out.write_text(
        json.dumps({"cases": len(rows), "model": options.model, **found}, indent=1)
    )
    sys.stdout.write(options.out.read_text() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
