from __future__ import annotations

import gzip
import json
from pathlib import Path

from training.other_cases import main

ROW = {
    "src": "mix:7",
    "query": "Ring me at noon",
    "tools": [{"name": "ring", "description": "Ring.", "parameters": {"type": "object"}}],
    "calls": [{"name": "ring", "arguments": {}}],
}


def test_cases_of_another_manner_are_written_in_our_prompt(tmp_path: Path) -> None:
    source, out = tmp_path / "cases.jsonl.gz", tmp_path / "other.jsonl"
    with gzip.open(source, "wt", encoding="utf-8") as file:
        file.write(json.dumps(ROW) + "\n")
    main(["--cases", str(source), "--out", str(out)])
    case = json.loads(out.read_text("utf-8"))
    assert case["kind"] == "mix"
    assert "Ring me at noon" in case["prompt"]
    assert case["answer"].startswith("ring")
