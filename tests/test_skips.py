"""On CI a skip is a failure, unless its reason is one that no package mends."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.conftest import without_bad_skip


def report(outcome: Literal["passed", "skipped"], reason: str) -> pytest.TestReport:
    longrepr = ("a_test.py", 3, f"Skipped: {reason}") if outcome == "skipped" else None
    where = ("a_test.py", 3, "test_it")
    return pytest.TestReport("a_test.py::test_it", where, {}, outcome, longrepr, "call")


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("no Chromium on this machine", "failed"),
        ("langchain_openai is not installed", "failed"),
        ("run `edgewise pull moonshine-tiny` first", "failed"),
        ("training needs torch; serving does not", "skipped"),
        ("mounting a small disk is not permitted here", "skipped"),
    ],
)
def test_on_ci_only_what_cannot_be_installed_is_skipped(reason: str, outcome: str) -> None:
    found = without_bad_skip(report("skipped", reason), on_ci=True)
    assert found.outcome == outcome
    assert without_bad_skip(report("skipped", reason), on_ci=False).outcome == "skipped"


def test_a_test_that_passed_stays_so() -> None:
    assert without_bad_skip(report("passed", ""), on_ci=True).outcome == "passed"
