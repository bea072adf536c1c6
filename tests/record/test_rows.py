"""Secrets are masked in linear time, and how much of a text is kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.record import rows
from edgewise.record.ledger import Ledger
from edgewise.record.report import Audit
from edgewise.record.rows import (
    ERROR_CHARS,
    MASK,
    SEARCHED_CHARS,
    STORED_CHARS,
    WORD_CHARS,
    bounded_text,
    mask_secrets,
    masked_start,
    short_error,
    stored_texts,
)
from edgewise.types.messages import Message, Request, ToolCall
from tests.record.ledger_cases import asking, replying

# Put together here so that no scanner takes this file for a leak.
BODY = "Ab3dEf6hIj9lMn2pQr5tUv8x"
HEX = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"Incorrect API key provided: sk-{BODY}. See the docs.", BODY),
        (f"Incorrect API key provided: {BODY}. See the docs.", BODY),
        (f"Incorrect API key provided: sk-pro************{BODY[-4:]}.", BODY[-4:]),
        (f"headers: {{'Authorization': 'Bearer {BODY}'}}", BODY),
        (f"authorization: basic {BODY}", BODY),
        (f"Authorization={BODY}", BODY),
        (f"sent bearer {BODY} and got 401", BODY),
        (f"sent bearer bearer {BODY} and got 401", BODY),
        (f"authorization: token bearer {BODY}", BODY),
        (f'{{"x-goog-api-key": "{BODY}"}}', BODY),
        (f"x-api-key: {BODY}", BODY),
        (f"GET /v1beta/models?key={BODY}&alt=sse failed", BODY),
        (f"GET /v1beta/models?alt=sse&key=AIza{BODY}", BODY),
        (f"cannot reach https://ann:{BODY}@proxy.example/v1", BODY),
        (f"password='{BODY}'", BODY),
        (f"the token gsk_{BODY} has expired", BODY),
        (f"the token xai-{BODY} has expired", BODY),
        (f"hf_{BODY} may not read this repository", BODY),
        (f"sk-ant-api03-{BODY}-{BODY}AA", BODY),
        (f"jwt eyJ{BODY}.eyJ{BODY}.{BODY} expired", BODY),
        (f"jwt eyJ{BODY}.{BODY} of two parts", BODY),
        (f"a cookie of x-eyJ{BODY}.eyJ{BODY}.{BODY} expired", BODY),
        (f"session_eyJ{BODY}.eyJ{BODY}.{BODY} expired", BODY),
        (f"x-keyJar-eyJ{BODY}.eyJ{BODY}.{BODY} expired", BODY),
        (f"eyJ-eyJ{BODY}.eyJ{BODY}.{BODY} expired", BODY),
        (f"{{'jwt':'eyJ{BODY}.eyJ{BODY}.{BODY}'}}", BODY),
        (f"an unnamed key {HEX} was refused", HEX),
        (f"an unnamed key {BODY}{BODY} was refused", BODY),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    masked = mask_secrets(text)
    assert secret not in masked
    assert MASK in masked
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "connection refused by api.example.com:443 after 2.0 s",
        "no weights for 'Qwen3-0.6B-Instruct-GGUF-Q4_K_M-with-a-long-name'; run: edgewise pull",
        "HTTP 429: Rate limit reached for gpt-5-nano on tokens per minute: limit 200000",
        "the prompt needs 9000 tokens, the context window holds 4096",
        "missing bearer token",
        "no API key is set for 'openai'",
        "task-force, risk-averse, disk-based and ask-me-anything-at-all are words",
        "keyJsonSchema.properties and my-keyJournalEntries.first are names",
        "eyJ-eyJ-eyJ-eyJ-eyJ is no token",
        "request 123e4567-e89b-12d3-a456-426614174000 failed",
        "",
    ],
)
def test_an_ordinary_error_stays_as_it_is(text: str) -> None:
    assert mask_secrets(text) == text


def test_an_error_is_cut_after_it_was_masked_so_that_half_a_key_cannot_stay() -> None:
    text = "x" * (ERROR_CHARS - 12) + f" sk-{BODY}"
    stored = short_error(text)
    assert len(stored) <= ERROR_CHARS
    assert BODY[:4] not in stored


def test_an_error_becomes_one_line() -> None:
    assert short_error("first\n  second\r\n\tthird ") == "first second third"


@given(st.text(max_size=2_000))
def test_an_error_of_any_text_is_short(text: str) -> None:
    assert len(short_error(text)) <= ERROR_CHARS


@given(
    before=st.text(alphabet="abc =:'\"{}\n", max_size=40),
    after=st.text(alphabet="abc =:'\"{}\n", max_size=40),
)
def test_a_key_is_masked_whatever_stands_around_it(before: str, after: str) -> None:
    assert BODY not in mask_secrets(f"{before} sk-{BODY} {after}")


LETTERS = st.sampled_from("aZ09_-.*:=/@&?#'\"{}[],; \t\n\u00a0é文\ud800")
WORDS = st.sampled_from(
    ["eyJ", "sk-", "://", "bearer", "key", "authorization", "[masked]", MASK[:-1], "?key=", "token"]
)
SECRETS = [
    f"sk-{BODY}",
    f"hf_{BODY}",
    f"eyJ{BODY}.eyJ{BODY}.{BODY}",
    f"x-eyJ{BODY}.{BODY}",
    f"https://ann:{BODY}@proxy.example/v1",
    f"api_key={BODY}",
    f"bearer {BODY}",
    HEX,
]


def texts() -> st.SearchStrategy[str]:
    return st.lists(LETTERS | WORDS, max_size=60).map("".join)


@given(before=texts(), secret=st.sampled_from(SECRETS), after=texts())
def test_no_secret_stays_in_place_in_any_text(before: str, secret: str, after: str) -> None:
    masked = mask_secrets(f"{before} {secret} {after}")
    assert BODY not in masked and HEX not in masked


@given(text=texts())
def test_masking_a_second_time_changes_nothing(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@given(before=texts(), secret=st.sampled_from(SECRETS), most=st.integers(0, 300))
def test_no_half_of_a_secret_is_left_where_a_text_is_cut(
    before: str, secret: str, most: int
) -> None:
    kept, left_out = masked_start(f"{before} {secret} and more", most)
    assert left_out >= 0
    assert all(BODY[n : n + 6] not in kept for n in range(len(BODY) - 6))
    assert "0123456789" not in kept


def test_a_cut_says_how_much_is_left_out_and_keeps_whole_words() -> None:
    text = "one two three four five"
    assert masked_start(text, 11) == ("one two", len(text) - len("one two"))
    assert masked_start(text, len(text)) == (text, 0)
    assert masked_start(text, 0) == ("", len(text))
    assert masked_start("word" * 10_000, 30_000) == ("word" * 6_500, 40_000 - 30_000 + WORD_CHARS)


@pytest.mark.parametrize("key", [f"sk-{BODY}", f"eyJ{BODY}.eyJ{BODY}.{BODY}", HEX])
@pytest.mark.parametrize("filler", [" ", "x ", "x", "文", "\n"])
@pytest.mark.parametrize("inside", [2, 5, 12, 20])
def test_half_a_key_at_the_end_of_what_is_searched_is_not_shown(
    key: str, filler: str, inside: int
) -> None:
    """Spaces are squeezed, so the end of the searched part may be shown."""
    start = SEARCHED_CHARS - inside - 1
    text = (filler * SEARCHED_CHARS)[:start] + " " + key + " and so on"
    assert key[:inside][4:] not in short_error(text) or inside <= 5
    assert key[:inside] not in short_error(text)
    assert short_error(text).endswith("…")


def test_an_error_without_any_space_is_cut_too() -> None:
    assert short_error("x" * 300_000) == "x" * (ERROR_CHARS - 1) + "…"
    assert short_error("x" * ERROR_CHARS) == "x" * ERROR_CHARS


def test_a_huge_page_is_cut() -> None:
    page = ("<p>key " * 50_000) + "a" * 300_000 + "bearer " * 50_000
    assert len(short_error(page)) == ERROR_CHARS


CHARS = 8_000
TOO_STEEP = 8.0
BEGINNINGS = (
    "authorization", "authorization:", "authorization: bearer ", "authorization=\"basic ",
    "bearer ", "bearer", "api_key", "api key provided: ", "client-secret=", "secret", "secret:  ",
    "password='", "?key=", "&sig=", "://", "://a", "://a:", "://a:b", "sk-", "sk-aaaaaaa", "hf_",
    "AKIA", "ya29.", "github_pat_", "eyJ", "-eyJ", "_eyJ", "eyJ-", "eyJaaaaaaaa", "eyJaaaaaaaa.",
)  # fmt: skip
RUNS = ("a", "1", "a1", "A-", "_", "-", ".", "*", ":", "@", "a:", "a@", '"', "=", " ", "\n", "\t ",
        "\u00a0", "[masked]", "[masked", "é", "文")  # fmt: skip
OPENINGS = ("", "eyJ", "://a:", "sk-", "authorization: bearer", "secret=")


def pumps() -> list[tuple[str, str]]:
    """What stands first, and what is repeated behind it."""
    alone = [("", each) for each in BEGINNINGS]
    return alone + [(opening, each) for opening in OPENINGS for each in RUNS]


def seconds(work: Callable[[str], object], text: str) -> float:
    """The best of a few, to ignore what else the machine does."""
    best = float("inf")
    for _ in range(4):
        started = time.process_time()
        work(text)
        best = min(best, time.process_time() - started)
    return best


def growth(work: Callable[[str], object], opening: str, pump: str) -> float:
    """How much longer four times the text takes; measured again if it seems too much."""
    short = opening + pump * (CHARS // len(pump))
    long = opening + pump * (4 * CHARS // len(pump))
    for _ in range(3):
        ratio = seconds(work, long) / max(seconds(work, short), 1e-6)
        if ratio <= TOO_STEEP:
            break
    return ratio


@pytest.mark.parametrize("pattern", rows._SECRETS, ids=lambda each: each.pattern[:40])
def test_no_pattern_takes_more_than_linear_time(pattern: re.Pattern[str]) -> None:
    def replaced(text: str) -> str:
        return pattern.sub("x", text)

    steep = {
        (opening, pump): round(found, 1)
        for opening, pump in pumps()
        if (found := growth(replaced, opening, pump)) > TOO_STEEP
    }
    assert not steep


@pytest.mark.parametrize("pump", ["-eyJ", "eyJ-", "x-eyJaaaaaaaa", "://a:b@", "secret=abcd ", "a1"])
def test_nor_do_all_of_them_together(pump: str) -> None:
    assert growth(mask_secrets, "", pump) <= TOO_STEEP


def test_an_error_takes_no_longer_however_long_it_is() -> None:
    assert growth(short_error, "", "-eyJ") <= 2.5


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
