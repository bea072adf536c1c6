"""Make validation cases of a second manner: those of the feasibility run, in our prompt format.

    python -m training.other_cases --cases toolcalls_valid.jsonl.gz --out other_valid.jsonl

Laid beside the seeds on the lent machine, they are answered after every run of the sweep.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.calls.prompt import render_answer, render_prompt
from edgewise.types.messages import Tool, ToolCall


def convert(row: dict[str, Any]) -> dict[str, Any]:
    tools = [
        Tool(tool["name"], tool.get("description", ""), tool.get("parameters", {}))
        for tool in row["tools"]
    ]
    calls = [ToolCall(call["name"], call["arguments"]) for call in row["calls"]]
    return {
        "prompt": render_prompt(tools, row["query"]),
        "answer": render_answer(calls),
        "kind": str(row["src"]).partition(":")[0],
        "source": "other",
    }


def read(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    cases = [convert(row) for row in read(options.cases)]
    with options.out.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    sys.stdout.write(f"{len(cases)} cases\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
