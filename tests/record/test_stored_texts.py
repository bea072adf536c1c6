"""What is kept of long texts, and that what is not kept is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.record.audits import Audit
from edgewise.record.ledger import Ledger
from edgewise.record.rows import STORED_CHARS, bounded_text, stored_texts
from edgewise.types.messages import Message, Request, ToolCall
from tests.record.ledger_cases import asking, replying

KEY = "sk-" + "Ab3dEf6hIj9lMn2pQr5tUv8x"
LONG = "word " * 50_000  # 250,000 characters


def talk(*texts: str) -> Request:
    return Request(id="r", messages=tuple(Message("user", text) for text in texts), store_text=True)


def kept(request: Request) -> list[str]:
    return [each["content"] for each in json.loads(stored_texts(request, None)["prompt_text"])]


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    stored = bounded_text(LONG)
    assert stored.endswith("word [50,006 more characters are not stored]")
    assert len(stored) < STORED_CHARS + 100
    assert bounded_text(LONG[:STORED_CHARS]) == LONG[:STORED_CHARS]


@pytest.mark.parametrize("inside", range(0, len(KEY) + 2, 3))
def test_a_key_at_the_cut_is_not_left_in_half(inside: int) -> None:
    text = LONG[: STORED_CHARS - inside - 1] + " " + KEY + " " + LONG
    stored = bounded_text(text)
    assert KEY[3:7] not in stored


def test_all_messages_share_the_room_and_the_latest_come_first() -> None:
    first, second, third = kept(talk(LONG, LONG[:150_000], "What now?"))
    assert third == "What now?"
    assert second == LONG[:150_000]
    assert 40_000 < len(first) < 50_100 and first.endswith("more characters are not stored]")
    beginning, last = kept(talk(LONG, LONG))
    assert beginning == "[250,000 more characters are not stored]"
    assert last.startswith("word word")


def test_replies_tool_calls_and_audits_are_bounded_too(tmp_path: Path) -> None:
    call = ToolCall(id="1", name="note", arguments={"text": LONG})
    row = stored_texts(talk("hi"), replying("r", text=LONG, tool_calls=(call,)))
    for name in ("reply_text", "tool_calls_text"):
        assert len(row[name]) < STORED_CHARS + 100
        assert row[name].endswith("more characters are not stored]")
    ledger = Ledger(tmp_path / "ledger.db")
    audit = Audit(
        id="a", request_id="a", task="chat", model="m", calibration="c", confidence=0.9,
        threshold=0.5, share=1.0, agree=1.0, judged_by="exact", cost_microdollars=0, features={},
        cloud_text=LONG,
    )  # fmt: skip
    ledger.record_audit(audit)
    (found,) = ledger.audits()
    assert found.cloud_text is not None and len(found.cloud_text) < STORED_CHARS + 100


def test_a_failed_request_keeps_its_prompt_and_no_reply(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.record_failure(asking("r", store_text=True), ValueError("no"), ())
    ledger.record_failure(asking("s", store_text=False), ValueError("no"), ())
    rows = {name: ledger.get(name) or {} for name in ("r", "s")}
    assert "capital" in rows["r"]["prompt_text"] and rows["r"]["reply_text"] is None
    assert rows["s"]["task"] and rows["s"]["prompt_text"] is None
