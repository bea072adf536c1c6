"""Prompts are rendered and split by the model's runtime; gold can be corrected afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from training.chat_prompts import (
    BARE,
    PromptServer,
    make_rows,
    with_gold_of_today,
    write_rows,
)
from training.fit_head import question_of
from training.trace_files import read_rows
from typing_extensions import override

from edgewise.calibrate.rows import Question, is_right

ASKED = [
    Question(kind="capitals", prompt="Capital of Peru?", accepted=("Lima",), system="Be brief."),
    *(Question(kind="capitals", prompt=f"Q{n}?", accepted=(f"A{n}",)) for n in range(40)),
]


class Letters(PromptServer):
    """A runtime whose tokens are letters."""

    def __init__(self) -> None:
        super().__init__("", None)

    @override
    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/tokenize":
            return {"tokens": [ord(letter) for letter in body["content"]]}
        turns = body["messages"]
        if turns[0]["role"] != "system":
            turns = [{"role": "system", "content": "default"}, *turns]
        rendered = "".join(f"<|im_start|>{t['role']}\n{t['content']}<|im_end|>\n" for t in turns)
        return {"prompt": rendered + "<|im_start|>assistant\n"}


def spelt(row: dict[str, Any]) -> str:
    return "".join(map(chr, row["tokens"]))


def test_a_question_is_asked_under_its_system_prompt_the_models_own_or_none() -> None:
    rows = list(make_rows(Letters(), ASKED, 0))
    assert spelt(rows[0]).startswith("<|im_start|>system\nBe brief.<|im_end|>")
    assert rows[0]["family"] == "places"
    bare = [row for row in rows if row["system"] == BARE]
    own = [row for row in rows if row["system"] == ""]
    assert bare
    assert own
    assert all(spelt(row).startswith("<|im_start|>user\nQ") for row in bare)
    assert all(spelt(row).startswith("<|im_start|>system\ndefault") for row in own)


def test_corrected_gold_reaches_rows_that_were_answered(tmp_path: Path) -> None:
    rows = list(make_rows(Letters(), ASKED, 0))
    corrected = [replace(ASKED[0], accepted=("Lima", "Ciudad de los Reyes"))]
    assert write_rows(tmp_path / "rows.gz", with_gold_of_today(rows, corrected))[0] == len(rows)
    again = read_rows(tmp_path / "rows.gz")
    assert is_right(question_of(again[0]), "Ciudad de los Reyes")
    assert [row["tokens"] for row in again] == [row["tokens"] for row in rows]
    assert again[0]["system"] == "Be brief."
    assert question_of(again[1]) == replace(ASKED[1], system=again[1]["system"])
