"""Personal data to plant in texts: random, but with the right check digits."""

from __future__ import annotations

from hypothesis import strategies as st

_GAPS = st.sampled_from(["", " ", "-", "\u00a0", "\u2011", ".", " - "])
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "0123456789"


@st.composite
def cards(draw: st.DrawFn) -> str:
    start, length = draw(st.sampled_from([("4", 16), ("51", 16), ("37", 15), ("6011", 16)]))
    body = start + draw(st.text(_DIGITS, min_size=20, max_size=20))
    body = body[: length - 1]
    for check in _DIGITS:
        if _luhn(body + check):
            break
    digits, gap = body + check, draw(_GAPS)
    cuts = (4, 10) if length == 15 else (4, 8, 12)
    pieces = [digits[a:b] for a, b in zip((0, *cuts), (*cuts, None), strict=True)]
    return gap.join(pieces)


def _luhn(digits: str) -> bool:
    doubled = [int(one) * (1 + place % 2) for place, one in enumerate(reversed(digits))]
    return sum(one // 10 + one % 10 for one in doubled) % 10 == 0


@st.composite
def ibans(draw: st.DrawFn) -> str:
    account = draw(st.text(_DIGITS, min_size=18, max_size=18))
    check = 98 - int(f"{account}131400") % 97
    iban, gap = f"DE{check:02d}{account}", draw(st.sampled_from(["", " ", "\u00a0"]))
    return gap.join(iban[place : place + 4] for place in range(0, len(iban), 4))


_WORDS = st.text(_LETTERS + _DIGITS, min_size=1, max_size=12)
EMAILS = st.builds(
    lambda name, more, host: f"{name}.{more}@{host}.example.org", _WORDS, _WORDS, _WORDS
)
PHONES = st.builds(
    lambda gap, area, number: f"+49{gap}{area}{gap}{number}",
    st.sampled_from([" ", "-", ""]),
    st.integers(150, 179),
    st.integers(1_000_000, 9_999_999),
)
ADDRESSES = st.one_of(
    st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    st.ip_addresses(v=6, network="2001:db8::/32").map(str),
)
KEYS = st.builds(
    lambda start, rest: start + rest,
    st.sampled_from(["sk-", "ghp_", "AKIA", "xoxb-"]),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=16, max_size=16),
)
PLANTED = st.one_of(
    st.tuples(st.just("EMAIL"), EMAILS),
    st.tuples(st.just("CARD"), cards()),
    st.tuples(st.just("IBAN"), ibans()),
    st.tuples(st.just("PHONE"), PHONES),
    st.tuples(st.just("IP"), ADDRESSES),
    st.tuples(st.just("KEY"), KEYS),
)
