"""What the patterns find, what they leave alone, and that a hostile text costs no more."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.personal_data import Found, find, joined
from edgewise.types.messages import KINDS, as_kinds
from tests.cloud.planted import PLANTED, cards, ibans

# Put together here, so that no file holds what scanners take for a key.
GOOGLE = "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"
TOKEN = (
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
WIDE = "".join(chr(ord(digit) + 0xFEE0) for digit in "4111111111111111")  # full-width digits
WIDE_MAIL = "ann\uff20example\uff0eorg"


def seen(text: str) -> list[tuple[str, str]]:
    return [(found.kind, text[found.start : found.end]) for found in find(text, KINDS)]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("mail bob.o'hara+x@mail.example.co.uk.", "EMAIL", "bob.o'hara+x@mail.example.co.uk"),
        ("an josé@exämple.de!", "EMAIL", "josé@exämple.de"),
        ("<mailto:ann@example.org>", "EMAIL", "ann@example.org"),
        ("?to=ann@example.org&x=1", "EMAIL", "ann@example.org"),
        (f"{'a' * 100}@example.org", "EMAIL", f"{'a' * 100}@example.org"),
        ('to "john doe"@example.org', "EMAIL", '"john doe"@example.org'),
        ("bo\u200bb@example.org", "EMAIL", "bo\u200bb@example.org"),
        (f"to {WIDE_MAIL}!", "EMAIL", WIDE_MAIL),
        (r"Hello\nann@example.org\n", "EMAIL", "ann@example.org"),
        (r"by jos\u00e9@example.org", "EMAIL", r"jos\u00e9@example.org"),
        ("?to=ann%40example.org", "EMAIL", "ann%40example.org"),
        (r"ann\_lee@example.org", "EMAIL", r"ann\_lee@example.org"),
        (r"paid:\n4111111111111111\nend", "CARD", "4111111111111111"),
        (r"4111\u00a01111\u00a01111%201111", "CARD", r"4111\u00a01111\u00a01111%201111"),
        (r"\tDE89370400440532013000", "IBAN", "DE89370400440532013000"),
        (r"\n+49 171 2345678", "PHONE", "+49 171 2345678"),
        (r"\n10.1.2.3\n", "IP", "10.1.2.3"),
        (r"\nsk-proj-abcdefghijklmnop1234", "KEY", "sk-proj-abcdefghijklmnop1234"),
        ("card 4111 1111-1111 1111, thanks", "CARD", "4111 1111-1111 1111"),
        ("4111\u00a01111\u20111111\u202f1111", "CARD", "4111\u00a01111\u20111111\u202f1111"),
        (f"{WIDE} ok", "CARD", WIDE),
        ("卡号4111111111111111。", "CARD", "4111111111111111"),
        ("3782 822463 10005 exp 12/29", "CARD", "3782 822463 10005"),
        ("12 4111 1111 1111 1111 123", "CARD", "4111 1111 1111 1111"),
        ("4111111111111111 12abc", "CARD", "4111111111111111"),
        ("IBAN: DE89 3704 0044 0532 0130 00.", "IBAN", "DE89 3704 0044 0532 0130 00"),
        ("gb82west12345698765432", "IBAN", "gb82west12345698765432"),
        ("call +49 (0)171 234-5678 now", "PHONE", "+49 (0)171 234-5678"),
        ("(212) 555-0123", "PHONE", "(212) 555-0123"),
        ("Tel.: 5551234567", "PHONE", "5551234567"),
        ("0171 2345678", "PHONE", "0171 2345678"),
        ("06 12 34 56 78", "PHONE", "06 12 34 56 78"),
        ("from 192.168.1.10:8080", "IP", "192.168.1.10"),
        ("at [fe80::1ff:fe23:4567:890a]:443", "IP", "fe80::1ff:fe23:4567:890a"),
        ("2001:db8::8a2e:370:7334.", "IP", "2001:db8::8a2e:370:7334"),
        ("key=sk-proj-abcdefghijklmnop1234", "KEY", "sk-proj-abcdefghijklmnop1234"),
        ("AKIAIOSFODNN7EXAMPLE.", "KEY", "AKIAIOSFODNN7EXAMPLE"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ", "KEY", "ghp_0123456789abcdefghijABCDEFGHIJ"),
        ("xoxb-123456789012-abcdef", "KEY", "xoxb-123456789012-abcdef"),
        (GOOGLE, "KEY", GOOGLE),
        (f"Bearer {TOKEN}.", "KEY", TOKEN),
        (f"token_{TOKEN}", "KEY", TOKEN),
        ("at 10.1\u200b.2.3 now", "IP", "10.1\u200b.2.3"),
        # Called a letter or a mark, and nothing is seen of it.
        ("at 10.1\ufe0f.2.3 now", "IP", "10.1\ufe0f.2.3"),
        ("4111\u034f11111111\u31641111", "CARD", "4111\u034f11111111\u31641111"),
        ("bo\U000e0101b@example.org", "EMAIL", "bo\U000e0101b@example.org"),
        ("at fe80::1ff:\u2060fe23:4567:890a", "IP", "fe80::1ff:\u2060fe23:4567:890a"),
        ("sk-proj-abc\u200bdefghijklmnop1234", "KEY", "sk-proj-abc\u200bdefghijklmnop1234"),
        ("AKIA\u200dIOSFODNN7EXAMPLE", "KEY", "AKIA\u200dIOSFODNN7EXAMPLE"),
        (r"AKIA\u200dIOSFODNN7EXAMPLE", "KEY", r"AKIA\u200dIOSFODNN7EXAMPLE"),
        ("x\u200b+49 171 2345678", "PHONE", "+49 171 2345678"),
        ("?card=4111+1111+1111+1111&x=1", "CARD", "4111+1111+1111+1111"),
        ("?to=%2B49+171+2345678", "PHONE", "%2B49+171+2345678"),
        ("?iban=DE89+3704+0044+0532+0130+00", "IBAN", "DE89+3704+0044+0532+0130+00"),
        ("4111    1111    1111    1111", "CARD", "4111    1111    1111    1111"),
        ("call 00442079460958", "PHONE", "00442079460958"),
        ("call 212 555 0123.", "PHONE", "212 555 0123"),
        ("IBANDE89370400440532013000", "IBAN", "DE89370400440532013000"),
        ("card4111111111111111", "CARD", "4111111111111111"),
        (r"ada\\\\u0040example.org", "EMAIL", r"ada\\\\u0040example.org"),
        (r"\ud835\udfd2111 1111 1111 1111", "CARD", r"\ud835\udfd2111 1111 1111 1111"),
        ("ada%252540example.org", "EMAIL", "ada%252540example.org"),
        ("ada&#64;example.org", "EMAIL", "ada&#64;example.org"),
        ("ada&amp;#x40;example.org", "EMAIL", "ada&amp;#x40;example.org"),
        ("4111&nbsp;1111&nbsp;11111111", "CARD", "4111&nbsp;1111&nbsp;11111111"),
        ("\x1b[31m4111 1111 1111 1111\x1b[0m", "CARD", "4111 1111 1111 1111"),
        ("\x1b[1;32m+49 171\x1b[0m 2345678", "PHONE", "+49 171\x1b[0m 2345678"),
        (r"\\u001b[31m10.20.30.40\\u001b[0m", "IP", "10.20.30.40"),
    ],
)
def test_a_value_is_found_as_it_is_written(text: str, kind: str, value: str) -> None:
    assert seen(text) == [(kind, value)]


@pytest.mark.parametrize("depth", range(6))
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("CARD", "4111 1111 1111 1111"),
        ("IBAN", "DE89370400440532013000"),
        ("PHONE", "+49 171 2345678"),
        ("IP", "10.20.30.40"),
        ("KEY", "AKIAIOSFODNN7EXAMPLE"),
    ],
)
def test_a_value_is_found_in_json_that_stands_in_json(kind: str, value: str, depth: int) -> None:
    """As results of tools are: the body of an answer, in it a log, in it a line."""
    text = f"first line\n{value}\tand more"
    for _ in range(depth):
        text = json.dumps({"body": text})
    assert seen(text) == [(kind, value)]


@pytest.mark.parametrize("end", ["\n-----END RSA PRIVATE KEY-----", ""])
def test_a_private_key_is_found_whole_even_if_it_is_cut_off(end: str) -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC{end}"
    assert seen(f"here: {key}") == [("KEY", key)]


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112 has a wrong check digit",
        "DE89370400440532013001 too",
        "10 20 30 40 50 60 70 80 90 10 20 30",
        "1700000000000 is a time, 2024-11-16 12:30:45 too",
        "v1.2.3, 1.2.3.4.5, 127.0.0.1, ::1, 300.1.1.1",
        "Bad::Face and std::vector",
        "a@b, @someone, user@localhost",
        "an sk-learn model, hf_hub_download",
        "x4111111111111111y in a hash",
        "order 123456789, 42 %, 3.14159265358979",
        "212 555 0123 4567 is a row, 00123456 a number, 10+20+30 a sum",
    ],
)
def test_what_only_looks_alike_is_left_alone(text: str) -> None:
    assert seen(text) == []


@given(cards(), st.integers(0, 18), st.integers(1, 9))
def test_a_card_with_one_wrong_digit_is_none(card: str, place: int, more: int) -> None:
    places = [index for index, character in enumerate(card) if character.isdigit()]
    place = places[place % len(places)]
    wrong = card[:place] + str((int(card[place]) + more) % 10) + card[place + 1 :]
    assert ("CARD", wrong) not in seen(wrong)


@given(ibans(), st.integers(0, 21), st.integers(1, 9))
def test_an_account_with_one_wrong_digit_is_none(iban: str, place: int, more: int) -> None:
    places = [index for index, character in enumerate(iban) if character.isdigit()]
    place = places[place % len(places)]
    wrong = iban[:place] + str((int(iban[place]) + more) % 10) + iban[place + 1 :]
    assert not [kind for kind, _ in seen(wrong) if kind == "IBAN"]


@given(st.text(max_size=30), PLANTED, st.text(max_size=30))
def test_a_planted_value_is_always_covered(
    before: str, planted: tuple[str, str], after: str
) -> None:
    kind, value = planted
    text = f"{before} , {value} ; {after}"
    assert _covers(text, value, len(before) + 3), (kind, value)
    escaped = json.dumps(f"{before}\n{value}\n{after}")  # as results of tools are written
    assert _covers(escaped, json.dumps(value)[1:-1], len(json.dumps(before)) + 1), (kind, value)


def _covers(text: str, value: str, start: int) -> bool:
    covered = {place for found in find(text, KINDS) for place in range(found.start, found.end)}
    return covered.issuperset(range(start, start + len(value)))


def test_only_the_kinds_that_are_asked_for_are_found() -> None:
    text = "ann@example.org 4111111111111111"
    assert [found.kind for found in find(text, ["CARD"])] == ["CARD"]
    assert find(text, []) == []


def test_what_overlaps_is_one_value_of_the_longest_kind() -> None:
    assert joined([Found(0, 4, "NAME"), Found(2, 9, "EMAIL"), Found(9, 12, "IP")]) == [
        Found(0, 9, "EMAIL"),
        Found(9, 12, "IP"),
    ]


HOSTILE = (
    "a", "1", "1 ", "111 ", "@", "a@", "a@b.", "eyJ", "-eyJaaaaaaaa", "eyJaaaaaaaaaa.", "sk-",
    "-----BEGIN PRIVATE KEY-----", "0171 99999999 ", "DE11 ", ":", "f:", "1.", "+1", "tel ",
    '"@b.cc', "\\n", "\\u00a0", "1%20", "%", "4111\u200b", "0123-", "é", "(",
    "4111 1111 1111 1112 ", "\\", "%25", "&amp;", "\x1b[1;", "\\ud835",
)  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_grows_no_faster_than_the_text(piece: str) -> None:
    """Sixteen times the text may take 64 times as long: of a quadratic search it is 256."""

    def seconds(length: int) -> float:
        text = piece * (length // len(piece)) + "x"
        taken = []
        for _ in range(3):
            start = time.process_time()
            find(text, KINDS)
            taken.append(time.process_time() - start)
        return min(taken)

    assert seconds(160_000) < 64 * max(seconds(10_000), 0.0005)


@pytest.mark.parametrize(
    ("given_kinds", "names"),
    [
        (True, ("ALL",)),
        (False, ()),
        ("yes", ("ALL",)),
        ("email, card", ("EMAIL", "CARD")),
        (["CARD", "card"], ("CARD",)),
    ],
)
def test_kinds_are_named_in_several_ways(given_kinds: object, names: tuple[str, ...]) -> None:
    assert as_kinds(given_kinds) == names  # type: ignore[arg-type]


def test_what_is_no_name_of_a_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="E-MAIL"):
        as_kinds("e-mail")
