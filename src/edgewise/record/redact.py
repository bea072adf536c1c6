"""Masks what looks like a secret before a text is written to disk."""

from __future__ import annotations

import re

MASK = "[masked]"
ERROR_CHARS = 300

# Each pattern keeps its group `keep` and loses the rest. All are linear: an error text may be a
# whole HTML page.
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    for pattern, ignore_case in (
        # An Authorization header, in whatever quoting a client library printed it.
        (
            r"""(?P<keep>\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?)"""
            r"""(?:(?:bearer|basic|token|digest)\s+)?(?!\[masked\])[^\s"',;}\]]+""",
            True,
        ),
        (r"(?P<keep>\bbearer\s{1,3})(?!token\b|\[masked\])[^\s\"',;}\]]+", True),
        # api_key=…, "x-goog-api-key": "…", API key provided: …, ?key=…, password=…
        (
            r"""(?P<keep>(?:api[\s_-]?key|access[\s_-]?key|access[\s_-]?token|auth[\s_-]?token"""
            r"""|client[\s_-]?secret|secret|password|passwd|[?&](?:key|token|sig|signature))"""
            r"""(?:\s(?:provided|given|is|was))?["']?\s{0,3}[:=]\s{0,3}["']?)"""
            r"""(?!\[masked\])[^\s"',;&}\]]{4,}""",
            True,
        ),
        # user:password@host in a URL.
        (r"(?P<keep>://)[^\s/@:]+:[^\s/@]+(?=@)", False),
        # The prefixes vendors give their keys.
        (
            r"(?<![A-Za-z0-9])(?P<keep>sk-|sk_|pk_|rk_|sess-|gsk_|xai-|hf_|r8_|nvapi-|pplx-|csk-"
            r"|fw_|tgp_v1_|gh[opsur]_|github_pat_|glpat-|xox[abposr]-|ya29\.|AIza|AKIA|ASIA|AQ\.)"
            r"[A-Za-z0-9_*.\-]{8,}",
            False,
        ),
        # A JSON web token: two or three long base64 parts.
        (r"\b(?P<keep>eyJ)[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,2}", False),
        # A long run of letters and digits is a key until shown otherwise; so are hashes.
        (
            r"(?<![A-Za-z0-9])(?P<keep>)(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{32,}",
            False,
        ),
    )
)


def mask_secrets(text: str) -> str:
    """The text with everything that looks like a key or a token replaced by a mask."""
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match["keep"] + MASK, text)
    return text


def short_error(text: str) -> str:
    """An error as it may be stored: masked, on one line, at most 300 characters."""
    # Masking comes first: a key cut in half would no longer look like one.
    line = " ".join(mask_secrets(text).split())
    return line if len(line) <= ERROR_CHARS else line[: ERROR_CHARS - 1] + "…"
