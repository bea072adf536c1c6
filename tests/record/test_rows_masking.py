"""What looks like a secret does not reach the disk; what does not, stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.record.rows import (
    ERROR_CHARS,
    MASK,
    SEARCHED_CHARS,
    WORD_CHARS,
    mask_secrets,
    masked_start,
    short_error,
)

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
    """Spaces are squeezed, so that the end of what was searched may come to be shown."""
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
