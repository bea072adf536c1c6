"""Cases of the bench: the generator's examples, before they are written as prompt and answer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

from training.conversation_cases import COUNTS, as_case, conversation_cases, main, write_cases
from training.generate import as_line, examples

from edgewise.calls.prompt import render_conversation, render_reply
from edgewise.types.messages import ToolCall
from edgewise_bench.calls.conversations import SETS, read_conversations
from tests.training.worlds import family_world


def test_a_case_holds_all_that_the_prompt_and_the_answer_are_written_from(tmp_path: Path) -> None:
    for name in SETS:
        family_world().forget()
        made = list(examples(family_world(), None, Random(name), 12, name))
        path = tmp_path / f"{name}.jsonl.gz"
        assert write_cases(path, (as_case(name, example) for example in made)) == 12
        for example, case in zip(made, read_conversations(path), strict=True):
            row = json.loads(as_line(example))
            assert render_conversation(case.tools, case.messages, case.context) == row["prompt"]
            calls = [ToolCall(called, given) for called, given in case.expected]
            assert render_reply(calls, case.asks) == row["answer"]


def test_the_same_seed_makes_the_same_file_and_no_case_is_there_twice(tmp_path: Path) -> None:
    files = []
    for name in ("one.gz", "two.gz"):
        cases = conversation_cases(family_world(), None, 5, dict.fromkeys(SETS, 8))
        write_cases(tmp_path / name, cases)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    found = read_conversations(tmp_path / "one.gz")
    assert Counter(case.set for case in found) == dict.fromkeys(SETS, 8)
    assert len({repr((case.messages, case.context)) for case in found}) == len(found)


def test_the_script_writes_every_set_of_the_bench(tmp_path: Path) -> None:
    assert tuple(COUNTS) == SETS
    out = tmp_path / "few.jsonl.gz"
    assert main(["--count", "2", "--out", str(out)]) == 0
    found = read_conversations(out)
    assert Counter(case.set for case in found) == dict.fromkeys(SETS, 2)
    assert all(len(case.messages) > 1 for case in found if case.kind.startswith("dialogue_change"))
