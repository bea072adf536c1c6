"""Policies: every combination of fit and cloud, written out."""

from __future__ import annotations

import pytest

from edgewise.decide.policy import (
    Misfit,
    Plan,
    Policy,
    Question,
    cloud_only,
    local_only,
    prefer_cloud,
    prefer_local,
)

HARD = Misfit("images_unsupported", "no eyes")
SOFT = Misfit("deadline", "too slow", soft=True)
OPEN = Question()
SHUT = Question(cloud_closed="no_key", cloud_closed_reason="no key")


def with_misfit(question: Question, misfit: Misfit) -> Question:
    return Question(
        misfit=misfit,
        cloud_closed=question.cloud_closed,
        cloud_closed_reason=question.cloud_closed_reason,
    )


@pytest.mark.parametrize(
    ("policy", "question", "first", "may_hand_off", "backup", "degraded"),
    [
        (local_only, OPEN, "local", False, False, ""),
        (local_only, SHUT, "local", False, False, ""),
        (local_only, with_misfit(OPEN, HARD), None, False, False, ""),
        (local_only, with_misfit(OPEN, SOFT), "local", False, False, ""),
        (prefer_local, OPEN, "local", True, False, ""),
        (prefer_local, SHUT, "local", False, False, ""),
        (prefer_local, with_misfit(OPEN, HARD), "cloud", False, False, ""),
        (prefer_local, with_misfit(OPEN, SOFT), "cloud", False, True, ""),
        (prefer_local, with_misfit(SHUT, HARD), None, False, False, "no_key"),
        (prefer_local, with_misfit(SHUT, SOFT), "local", False, False, "no_key"),
        (prefer_cloud, OPEN, "cloud", False, True, ""),
        (prefer_cloud, SHUT, "local", False, False, "no_key"),
        (prefer_cloud, with_misfit(OPEN, HARD), "cloud", False, False, ""),
        (prefer_cloud, with_misfit(SHUT, HARD), None, False, False, "no_key"),
        (cloud_only, OPEN, "cloud", False, False, ""),
        (cloud_only, SHUT, None, False, False, ""),
        (cloud_only, with_misfit(OPEN, HARD), "cloud", False, False, ""),
    ],
)
def test_plans(
    policy: Policy,
    question: Question,
    first: str | None,
    may_hand_off: bool,
    backup: bool,
    degraded: str,
) -> None:
    plan = policy(question)
    assert (plan.first, plan.may_hand_off, plan.local_backup, plan.degraded_code) == (
        first,
        may_hand_off,
        backup,
        degraded,
    )
    assert plan.reason and plan.code


def test_a_refusal_names_both_reasons() -> None:
    plan: Plan = prefer_local(with_misfit(SHUT, HARD))
    assert "no eyes" in plan.reason and "no key" in plan.reason
