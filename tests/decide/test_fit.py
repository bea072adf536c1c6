"""Fit: a request that the device cannot take is refused before it wastes time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.policy import (
    Capacity,
    drop_oldest,
    estimate_tokens,
    find_late_hearing,
    find_misfit,
    outside_script,
)
from edgewise.types.messages import Image, Message, Request, Tool

DEVICE = Capacity(context_tokens=100)
QUICK = Capacity(
    context_tokens=2048, prompt_tokens_per_second=200.0, output_tokens_per_second=100.0
)


def ask(text: str = "Hello", **options: Any) -> Request:
    return Request(messages=(Message("user", text),), **options)


def test_a_short_question_fits() -> None:
    assert find_misfit(ask(), DEVICE) is None


def test_images_and_tools_need_a_model_that_takes_them() -> None:
    seen = Request(messages=(Message("user", "What is this?", images=(Image(b"png"),)),))
    handy = ask(tools=(Tool("alarm"),), tool_choice="required")
    image, tool = find_misfit(seen, DEVICE), find_misfit(handy, DEVICE)
    assert image is not None and tool is not None
    assert (image.code, tool.code) == ("images_unsupported", "tools_unsupported")
    able = Capacity(context_tokens=100, images=True, tools=True)
    assert find_misfit(seen, able) is None
    assert find_misfit(handy, able) is None
    assert find_misfit(ask(tools=(Tool("alarm"),)), DEVICE) is None, "it may answer in words"


def test_a_prompt_that_cannot_possibly_fit_is_refused_unless_it_may_be_truncated() -> None:
    long = "word " * 1000
    misfit = find_misfit(ask(long), DEVICE)
    assert misfit is not None
    assert (misfit.code, misfit.soft) == ("context_exceeded", False)
    allowed = find_misfit(ask(long, truncate=True), DEVICE)
    assert allowed is not None and allowed.soft


@pytest.mark.parametrize(("deadline", "late"), [(5000, False), (100, True)])
def test_a_deadline_is_compared_with_the_measured_speed(deadline: float, late: bool) -> None:
    misfit = find_misfit(ask(max_tokens=100, deadline_ms=deadline), QUICK)
    assert (misfit is not None) == late
    if misfit:
        assert misfit.code == "deadline" and misfit.soft


def test_no_deadline_is_judged_before_any_speed_was_measured() -> None:
    assert find_misfit(ask(deadline_ms=1), DEVICE) is None
    assert find_late_hearing(ask(deadline_ms=1), 60.0, None) is None


def test_hearing_is_late_when_the_rest_of_the_sound_would_end_after_the_deadline() -> None:
    minute = ask(deadline_ms=10_000)
    assert find_late_hearing(minute, 60.0, 0.1) is None
    assert find_late_hearing(ask(), 60.0, 100.0) is None, "no deadline"
    assert find_late_hearing(minute, 0.0, 100.0) is None, "a file that hides its length"
    late = find_late_hearing(minute, 60.0, 0.1, spent_s=4.1)
    assert late is not None and (late.code, late.soft) == ("deadline", True)
    assert "10,100 ms in all, with 60 s of sound to go" in late.reason


@given(
    st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=12),
    st.integers(1, 400),
)
def test_truncation_keeps_the_system_prompt_and_the_newest_words(
    texts: list[str], room: int
) -> None:
    turns = [Message("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(texts)]
    messages = [Message("system", "Be brief."), *turns]
    tokens = estimate_tokens(messages)
    kept = drop_oldest(messages, tokens, room)
    assert kept[0] == messages[0]
    assert turns[-1].content.endswith(kept[-1].content)
    if tokens <= room:
        assert kept == tuple(messages)
    middle = kept[1:-1]
    assert list(middle) == turns[len(turns) - 1 - len(middle) : -1]


@pytest.mark.parametrize(
    "text",
    [
        "Where do penguins live?",
        "Où est la bibliothèque ? Đường Nguyễn Huệ",  # Latin letters: not told apart, as documented
        "The angle is θ, and cos θ = 0.5.",
        "1234 + 5678 = ?!",
        "",
    ],
)
def test_latin_letters_pass_for_an_english_model(text: str) -> None:
    assert not outside_script(text, ("en",))


@pytest.mark.parametrize(
    "text", ["Где живут пингвины?", "ペンギンはどこに住んでいますか", "أين تعيش البطاريق"]
)
def test_other_scripts_are_outside_an_english_model(text: str) -> None:
    assert outside_script(text, ("en",))


def test_models_with_many_languages_or_other_scripts_are_not_judged() -> None:
    assert not outside_script("Где живут пингвины?", ())
    assert not outside_script("Где живут пингвины?", ("en", "ru"))
