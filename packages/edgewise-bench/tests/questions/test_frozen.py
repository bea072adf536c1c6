"""The questions that are shipped are those that the generator prints."""

from __future__ import annotations

import gzip
from importlib import resources
from pathlib import Path

from edgewise.calibrate.rows import FILE, builtin_calls, builtin_questions, family_of
from edgewise_bench.questions import frozen
from edgewise_bench.questions.kinds import builtin
from edgewise_bench.questions.kinds.calls import make_builtin_calls


def test_the_shipped_file_is_what_the_generator_writes(tmp_path: Path) -> None:
    shipped = resources.files("edgewise.calibrate") / FILE
    frozen.main(str(tmp_path / "again.gz"))
    again = gzip.decompress((tmp_path / "again.gz").read_bytes())
    assert gzip.decompress(shipped.read_bytes()) == again, (
        "python -m edgewise_bench.questions.frozen src/edgewise/calibrate/questions.jsonl.gz"
    )


def test_what_is_read_back_is_what_was_made() -> None:
    made = builtin.make_builtin_questions()
    assert builtin_questions() == made
    assert builtin_questions(150) == made[:150]
    assert builtin_calls() == make_builtin_calls()
    assert {each.kind: family_of(each.kind) for each in made} == {
        each.kind: builtin.family_of(each.kind) for each in made
    }
    assert family_of("natural_qa", "public") == "public"
