from __future__ import annotations

import numpy as np
import pytest
from training.call_samples import Sample
from training.call_table import Table, source_folds, tool_folds

from tests.training.made_samples import made_samples


def test_no_tool_is_both_fitted_on_and_judged() -> None:
    samples = [
        Sample(({},), (True,), True, 0.0, frozenset({f"t{number % 9}", f"t{number % 7}"}), "")
        for number in range(63)
    ]
    judged_by = np.zeros(len(samples), dtype=int)
    for fitted, judged in tool_folds(samples, 4, "seed"):
        seen = set().union(*(samples[row].tools for row in np.flatnonzero(fitted)))
        owners = {min(samples[row].tools) for row in np.flatnonzero(judged)}
        assert not seen & owners
        judged_by += judged
    assert set(judged_by) == {1}


def test_mixed_sources_are_one_fold() -> None:
    assert len(source_folds(made_samples(40))) == 3


def test_a_feature_that_would_count_the_wrong_way_is_left_out() -> None:
    samples = made_samples()
    flipped = [
        Sample(one.features, (not one.right[0],), not one.exact, one.logprob) for one in samples
    ]
    table = Table.of(flipped, none=False, names=("call_surety", "fit"))
    assert set(table.fit(["call_surety", "fit"]).weights) == {"fit"}
    table = Table.of(samples, none=False, names=("call_surety", "fit"))
    assert table.fit(["call_surety"]).weights["call_surety"] > 0


@pytest.mark.parametrize("name", ["left", "twice", "shared", "cues", "weak"])
def test_what_is_left_over_or_used_too_often_never_speaks_for_a_call(name: str) -> None:
    samples = [
        Sample(({name: float(number % 2)},), (bool(number % 2),), True, 0.0) for number in range(40)
    ]
    table = Table.of(samples, none=False, names=(name,))
    assert table.fit([name]).weights == {}
    against = [Sample(one.features, (not one.right[0],), True, 0.0) for one in samples]
    assert Table.of(against, none=False, names=(name,)).fit([name]).weights[name] < 0
