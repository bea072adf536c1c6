from __future__ import annotations

import pytest

from edgewise_bench.speech.deferral import Curve, defer
from edgewise_bench.speech.fit import fit_speech, spearman
from edgewise_bench.speech.traces import Trace, TracedSegment

SAID = "one two three four"
GOOD = [True, False, True, True, False, True, True, True]


def trace(name: str, good: list[bool], voice: str = "v") -> Trace:
    """Segments of four words, heard right or all wrong, with a feature that knows it."""
    segments = tuple(
        TracedSegment(
            start=float(number),
            end=number + 1.0,
            text=SAID if right else "x y z w",
            looping=False,
            features={"mean_word": 0.9 if right else 0.3, "flat": 1.0},
            errors=0 if right else 4,
            words=4,
        )
        for number, right in enumerate(good)
    )
    errors = sum(each.errors for each in segments)
    text = " ".join([SAID] * len(good))
    return Trace(name, voice, "human", None, "", text, 10.0, 1.0, segments, errors, 4 * len(good))


TRACES = {f"d{n}@clean": trace(f"d{n}", GOOD) for n in range(3)}
PERFECT = {key: [SAID] * len(GOOD) for key in TRACES}


def confidences(right: float, wrong: float) -> dict[tuple[str, int], float]:
    return {
        (key, number): right if good else wrong
        for key in TRACES
        for number, good in enumerate(GOOD)
    }


def test_a_confidence_that_knows_is_an_oracle_and_one_that_knows_nothing_is_chance() -> None:
    knowing = defer(TRACES, PERFECT, confidences(0.9, 0.1))
    assert knowing.gain == pytest.approx(1.0, abs=0.05)
    assert knowing.ours.rates[0] == pytest.approx(0.25)
    assert knowing.ours.rates[-1] == 0.0
    assert defer(TRACES, PERFECT, confidences(0.1, 0.9)).gain < 0.0


def test_a_larger_model_that_is_no_better_leaves_no_way_to_go() -> None:
    same = {key: [each.text for each in found.segments] for key, found in TRACES.items()}
    assert defer(TRACES, same, confidences(0.9, 0.1)).gain == 0.0


def test_the_area_is_the_mean_rate() -> None:
    assert Curve((0.0, 0.5, 1.0), (0.4, 0.2, 0.0)).area == pytest.approx(0.2)


def test_a_fit_judges_each_voice_by_what_it_learned_from_the_others() -> None:
    traces = [trace(f"{voice}-{n}", GOOD, voice) for voice in "abcd" for n in range(3)]
    data, judged = fit_speech(traces, "mine")
    assert data["report"]["segment_error_auroc"] == 1.0
    assert data["report"]["segments"] == len(judged) == 96
    assert data["chance"]["weights"]["mean_word"] > 0 > data["error"]["weights"]["mean_word"]
    assert data["chance"]["weights"]["flat"] == 0
    with pytest.raises(ValueError, match="too few"):
        fit_speech(traces[:1], "mine")


def test_rank_correlation_is_of_order_alone() -> None:
    assert spearman([1, 2, 3], [10, 100, 1000]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 1, 1], [3, 2, 1]) == 0.0
