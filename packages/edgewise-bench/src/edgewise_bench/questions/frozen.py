"""Writes the file of questions that edgewise ships: those of seed 0, and the requests for calls.

python -m edgewise_bench.questions.frozen src/edgewise/calibrate/questions.jsonl.gz
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.builtin import family_of, make_builtin_questions
from edgewise_bench.questions.kinds.calls import make_builtin_calls

_USUAL = {field.name: field.default for field in fields(Question) if field.default is not MISSING}


def frozen() -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in _rows())
    return "".join(f"{line}\n" for line in lines).encode()


def _rows() -> Iterator[Mapping[str, Any]]:
    for question in make_builtin_questions():
        told = {name: value for name, value in asdict(question).items()
                if name not in _USUAL or value != _USUAL[name]}  # fmt: skip
        yield {"family": family_of(question.kind), **told}
    for call in make_builtin_calls():
        tools = [{"name": tool.name, "description": tool.description,
                  "parameters": dict(tool.parameters)} for tool in call.tools]  # fmt: skip
        yield {"prompt": call.prompt, "tools": tools, "calls": call.calls}


def main(path: str) -> None:
    Path(path).write_bytes(gzip.compress(frozen(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
