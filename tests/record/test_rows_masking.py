"""What looks like a secret does not reach the disk; what does not, stays readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.record.rows import ERROR_CHARS, MASK, mask_secrets, short_error

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


def test_a_huge_page_is_masked_in_linear_time() -> None:
    page = ("<p>key " * 50_000) + "a" * 300_000 + "bearer " * 50_000
    assert len(short_error(page)) == ERROR_CHARS
