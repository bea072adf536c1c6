"""Quotations, addresses, codes, names and places."""

from __future__ import annotations

import pytest

from edgewise.calls.values.text import find_values

KINDS = ("quoted", "email", "url", "code", "name", "place")


def literals(text: str) -> list[tuple[str, str]]:
    return [(found.kind, found.value) for found in find_values(text) if found.kind in KINDS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('reply "See you at 5" to her', [("quoted", "See you at 5")]),
        ("say 'it's fine' twice", [("quoted", "it's fine")]),
        ("tell them “merci beaucoup”", [("quoted", "merci beaucoup")]),
        ("don't say it's over", []),
        ("write to ana.b@mail.example.", [("email", "ana.b@mail.example")]),
        ("open https://docs.example/a?b=1, now", [("url", "https://docs.example/a?b=1")]),
        ("pay INV-2024-00871", [("code", "INV-2024-00871")]),
        ("device a7f3-99 is offline", [("code", "a7f3-99")]),
        ("delete /srv/x.csv", [("code", "/srv/x.csv")]),
        ("open notes_final.md", [("code", "notes_final.md")]),
        ("a well-known and/or 20kg thing at 7pm", []),
        ("text Marta about it", [("name", "Marta")]),
        (
            "fly to Rio de Janeiro with Ana Maria",
            [("name", "Rio de Janeiro"), ("name", "Ana Maria")],
        ),
        ("is it raining in San Sebastián?", [("place", "San Sebastián")]),
        ("weather in oslo tomorrow", [("place", "oslo")]),
        ("call Dr. Okafor near Kings Cross", [("name", "Dr. Okafor"), ("place", "Kings Cross")]),
        ("Remind me. Please I'm late", []),
    ],
)
def test_what_is_copied_as_it_stands_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert literals(text) == expected
