"""The gate: short answers are judged whole, long ones once; a request's threshold counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import CHAT, Boundaries, Reading, Score
from edgewise.decide.gate import HELD_TOKENS, SHORT_TOKENS, Gate, Verdict, decided_after

# Its score is the first margin itself (as a logit), which makes chances easy to write down.
PLAIN = CHAT.uncalibrated.with_scores(
    early=Score({"first_margin": 1.0}, 0.0), final=Score({"first_margin": 1.0}, 0.0)
)
SURE, UNSURE, HOPELESS = 5.0, 0.3, -5.0


def reading(logit: float, tokens: int = 1) -> Reading:
    return Reading(tokens=tokens, first_margin=logit)


END = "So it is."


@pytest.mark.parametrize("logit", [SURE, UNSURE, HOPELESS])
def test_nothing_is_decided_on_an_answer_that_may_still_be_short(logit: float) -> None:
    gate = Gate(PLAIN, 0.5)
    for held in range(SHORT_TOKENS):
        assert gate.judge(reading(logit, held), held, END) is Verdict.HOLD


@pytest.mark.parametrize(
    ("text", "held", "decided"),
    [
        (END, SHORT_TOKENS, True),
        ('He said: "So it is."', SHORT_TOKENS, True),
        ("- one\n", SHORT_TOKENS, True),
        ("So it is", SHORT_TOKENS, False),
        ("It costs 3.5", HELD_TOKENS - 1, False),
        ("So it is", HELD_TOKENS, True),
    ],
)
def test_a_long_answer_is_judged_at_a_sentences_end_or_at_the_bound(
    text: str, held: int, decided: bool
) -> None:
    for logit, verdict in ((SURE, Verdict.KEEP), (HOPELESS, Verdict.HAND_OFF)):
        found = Gate(PLAIN, 0.5).judge(reading(logit, held), held, text)
        assert found is (verdict if decided else Verdict.HOLD)


def test_early_and_late_are_one_scale() -> None:
    gate, seen = Gate(PLAIN, 0.5), reading(UNSURE, HELD_TOKENS)
    assert gate.judge(seen, HELD_TOKENS) is gate.judge_whole(seen) is Verdict.KEEP
    beyond = Gate(PLAIN, gate.confidence(seen) + 0.01)
    assert beyond.judge(seen, HELD_TOKENS) is beyond.judge_whole(seen) is Verdict.HAND_OFF


@pytest.mark.parametrize(
    "words", [["Yes."], ["word "] * 60, [*["word "] * 29, "end.", *["word "] * 9]]
)
def test_a_replay_decides_where_the_gate_does(words: list[str]) -> None:
    gate, text, found = Gate(PLAIN, 0.5), "", None
    for held, word in enumerate(words[:-1], start=1):  # the last one ends it
        text += word
        if gate.judge(reading(SURE, held), held, text) is not Verdict.HOLD:
            found = held
            break
    assert decided_after(words) == found


def test_threshold_zero_never_holds_anything_back() -> None:
    assert Gate(PLAIN, 0.0).judge(reading(HOPELESS), 1) is Verdict.KEEP
    assert Gate(PLAIN, 0.0).judge(Reading(), 0) is Verdict.KEEP


def test_a_model_without_evidence_is_held_to_the_bound_then_handed_off() -> None:
    gate = Gate(PLAIN, 0.5)
    assert gate.judge(Reading(), 3) is Verdict.HOLD
    assert gate.judge(Reading(), HELD_TOKENS) is Verdict.HAND_OFF
    assert gate.confidence(Reading()) == 0.0


@given(st.floats(-10, 10), st.floats(0, 1), st.integers(1, 300), st.text(max_size=20))
def test_hold_is_bounded_whatever_the_scores(
    logit: float, threshold: float, held: int, text: str
) -> None:
    gate = Gate(PLAIN, threshold)
    verdict = gate.judge(reading(logit, held), held, text)
    if held >= HELD_TOKENS:
        assert verdict is not Verdict.HOLD
    if verdict is Verdict.KEEP:
        assert gate.confidence(reading(logit, held)) >= threshold
    if verdict is Verdict.HAND_OFF:
        assert gate.confidence(reading(logit, held)) < threshold


def test_stop_zero_says_which_states_behind_a_prompt_are_hopeless() -> None:
    both = replace(
        PLAIN.with_scores(before=Score({"before": 1.0}, 0.0)),
        boundaries=Boundaries((0.5,), ({0: (0.2, 1.0)},)),
    )
    hopeless, unsure = Reading(tokens=1, before=-2.0), Reading(tokens=1, before=-1.0)
    assert Gate(both, 0.5).skips(hopeless) and not Gate(both, 0.5).skips(unsure)
    assert Gate(both, 0.9).skips(hopeless), "what is hopeless at 0.5 is so at 0.9"
    assert not Gate(both, 0.4).skips(hopeless)
    assert not Gate(both, 0.0).skips(hopeless)
    assert not Gate(both, 0.5).skips(Reading(tokens=1)), "a runtime without states"
    assert not Gate(replace(both, boundaries=Boundaries()), 0.5).skips(hopeless)
