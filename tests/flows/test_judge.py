"""Decisions: the device reads typed questions, the doubtful ones leave together."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from edgewise import Choice, CloudClosed, Engine, InvalidRequest, QuestionLike, Score, YesNo
from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudUnreachable
from edgewise.record.ledger import Ledger
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Finish, Judged

MAIL = "I was charged twice. Give me my money back, now!"
TEAM = Choice({"billing": "payments", "tech": None, "sales": None}, "Which team?")
QUESTIONS: dict[str, QuestionLike] = {
    "refund": YesNo("Does the customer want money back?"),
    "team": TEAM,
    "anger": Score(["calm", "annoyed", "furious"], "How angry?"),
}
SURE: dict[str, Any] = {
    "refund": 0.98,
    "team": {"billing": 0.97, "tech": 0.02, "sales": 0.01},
    "anger": {"0": 0.01, "1": 0.02, "2": 0.97},
}
IN_DOUBT = {"billing": 0.4, "tech": 0.3, "sales": 0.3}


class ScriptedJudge:
    """A cloud that answers typed questions."""

    def __init__(
        self,
        chances: Mapping[str, Mapping[str, float]],
        *,
        fails: bool = False,
        shut: CloudClosed | None = None,
        guessed: bool = False,
    ) -> None:
        self.chances, self.fails, self.shut, self.guessed = chances, fails, shut, guessed
        self.requests: list[Request] = []

    def closed(self, request: Request) -> CloudClosed | None:
        return self.shut

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        self.requests.append(request)
        if self.fails:
            raise CloudUnreachable("no network")
        told = {name: self.chances[name] for name in request.questions if name in self.chances}
        yield Judged(told, guessed=self.guessed)
        yield Finish()
        journal.append(Attempt(place="cloud", backend="judge", model="j", outcome="answered"))


def engine(device: Any, cloud: Any, tmp_path: Any, **changes: Any) -> Engine:
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    given: dict[str, Any] = {"threshold": 0.5} | changes
    return Engine(backend=device, cloud=cloud, ledger=ledger, **given)


CLOUD = {
    "refund": {"true": 0.9, "false": 0.1},
    "team": {"billing": 0.1, "tech": 0.8, "sales": 0.1},
    "anger": {"0": 0.5, "1": 0.5, "2": 0.0},
}


def test_sure_answers_stay_on_the_device(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend.deciding(SURE), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS)
    assert answers.source == "local"
    assert [each.value for each in answers.values()] == [True, "billing", pytest.approx(1.96)]
    assert {each.code for each in answers.values()} == {"kept_confident"}
    assert cloud.requests == []


def test_only_the_doubtful_questions_leave_and_each_answer_says_who_gave_it(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend.deciding(SURE | {"team": IN_DOUBT}), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS)
    assert [list(one.questions) for one in cloud.requests] == [["team"]]
    assert cloud.requests[0].state == MAIL
    assert [each.source for each in answers.values()] == ["local", "cloud", "local"]
    assert answers["team"].value == "tech"
    assert answers["team"].confidence is None  # nobody has measured what the cloud's is worth
    assert answers["team"].code == "handoff_low_confidence"
    assert "is below" in answers["team"].reason
    assert answers.source == "mixed"


def test_several_doubtful_questions_leave_in_one_call(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    doubtful: dict[str, Any] = {"refund": 0.55, "team": IN_DOUBT, "anger": SURE["anger"]}
    with engine(ScriptedBackend.deciding(doubtful), cloud, tmp_path) as asked:
        asked.decide(MAIL, QUESTIONS)
    assert [list(one.questions) for one in cloud.requests] == [["refund", "team"]]


def test_a_private_decision_never_leaves(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend.deciding({"team": IN_DOUBT}), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": TEAM}, private=True)
    assert cloud.requests == []
    assert answers["team"].doubted
    assert answers["team"].source == "local"


def test_without_the_cloud_the_doubtful_answers_stand_and_the_reply_says_so(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD, fails=True)
    with engine(ScriptedBackend.deciding(SURE | {"team": IN_DOUBT}), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS)
    assert answers.degraded
    assert answers["team"].value == "billing"
    assert (answers["team"].source, answers["team"].code) == ("local", "fallback_local")
    assert answers["refund"].code == "kept_confident"


def test_what_the_cloud_refuses_keeps_the_devices_answer_in_doubt(tmp_path: Any) -> None:
    cloud = ScriptedJudge({"team": CLOUD["team"]})
    doubtful: dict[str, Any] = {"refund": 0.55, "team": IN_DOUBT, "anger": SURE["anger"]}
    with engine(ScriptedBackend.deciding(doubtful), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS)
    assert answers["team"].source == "cloud"
    assert (answers["refund"].source, answers["refund"].doubted) == ("local", True)
    assert answers["refund"].code == "question_refused"
    assert answers.degraded


def test_chances_that_are_none_are_no_answer(tmp_path: Any) -> None:
    cloud = ScriptedJudge({"team": {"billing": 0.2, "tech": 0.1, "sales": 0.1}})
    with engine(ScriptedBackend.deciding({"team": IN_DOUBT}), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": TEAM})
    assert answers["team"].source == "local"
    assert answers.decision.degraded_code == "cloud_malformed"


def test_a_chat_models_guess_is_called_unverified(tmp_path: Any) -> None:
    cloud = ScriptedJudge({"team": {"billing": 0.0, "tech": 1.0, "sales": 0.0}}, guessed=True)
    with engine(ScriptedBackend.deciding({"team": IN_DOUBT}), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": TEAM})
    assert answers["team"].confidence is None
    assert "unverified" in answers["team"].reason


def test_the_application_routes_only_what_is_in_doubt(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    device = ScriptedBackend.deciding(SURE | {"team": IN_DOUBT})
    with engine(device, cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS, handoff="signal")
    assert cloud.requests == []
    assert answers.cloud_handoff
    assert (answers["team"].value, answers["team"].source) == (None, "none")
    assert answers["team"].code == "signalled_low_confidence"
    assert answers["refund"].value is True


def test_no_error_is_promised_for_a_question_that_nobody_measured(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend.deciding(SURE), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": TEAM}, max_error=0.1)
        alone = asked.decide(MAIL, {"team": TEAM}, max_error=0.1, policy="local_only")
    assert answers["team"].source == "cloud"
    assert alone["team"].doubted
    assert "promise" in alone["team"].reason


@pytest.mark.parametrize("order", list(itertools.permutations(["billing", "tech", "sales"])))
def test_the_order_of_the_options_changes_nothing(order: tuple[str, ...], tmp_path: Any) -> None:
    device = ScriptedBackend.deciding(SURE)
    with engine(device, ScriptedJudge(CLOUD), tmp_path) as asked:
        asked.decide(MAIL, {"team": Choice(order, "Which team?")}, policy="local_only")
        asked.decide(MAIL, {"team": Choice(sorted(order), "Which team?")}, policy="local_only")
    said = [one.messages for one in device.requests]
    assert said[:2] == said[2:]


def test_a_question_with_one_option_is_certain_and_reads_nothing(tmp_path: Any) -> None:
    device = ScriptedBackend.deciding({})
    with engine(device, ScriptedJudge(CLOUD), tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": Choice(["billing"])})
    assert (answers["team"].value, answers["team"].confidence) == ("billing", 1.0)
    assert device.requests == []


def test_two_hundred_and_fifty_five_options_are_read_in_groups(tmp_path: Any) -> None:
    names = [f"option {number:03}" for number in range(255)]
    script = dict.fromkeys(names, 0.0001) | {"option 177": 0.95}
    device = ScriptedBackend.deciding({"which": script})
    with engine(device, ScriptedJudge({}), tmp_path) as asked:
        answers = asked.decide(MAIL, {"which": Choice(names)}, policy="local_only")
    assert answers["which"].value == "option 177"
    assert sum(answers["which"].probabilities.values()) == pytest.approx(1)
    assert max(len(one.labels) for one in device.requests) <= 26


def test_a_device_without_labels_hands_the_whole_decision_off(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend(["words"]), cloud, tmp_path) as asked:
        answers = asked.decide(MAIL, {"team": TEAM})
    assert answers["team"].code == "handoff_questions_unsupported"


def test_a_decision_is_one_row_of_its_own_task_in_the_ledger(tmp_path: Any) -> None:
    with engine(ScriptedBackend.deciding(SURE), ScriptedJudge(CLOUD), tmp_path) as asked:
        answers = asked.decide(MAIL, QUESTIONS)
        (row,) = asked.ledger.recent(5)
    assert (row["id"], row["task"], row["source"]) == (answers.id, "decide", "local")


def test_an_empty_state_is_refused(tmp_path: Any) -> None:
    with (
        engine(ScriptedBackend.deciding(SURE), ScriptedJudge(CLOUD), tmp_path) as asked,
        pytest.raises(InvalidRequest, match="state: it is empty"),
    ):
        asked.decide("  ", QUESTIONS)


def test_without_a_threshold_no_unmeasured_answer_is_kept_where_it_may_leave(tmp_path: Any) -> None:
    cloud = ScriptedJudge(CLOUD)
    with engine(ScriptedBackend.deciding(SURE), cloud, tmp_path, threshold=None) as asked:
        answers = asked.decide(MAIL, {"team": TEAM})
        alone = asked.decide(MAIL, {"team": TEAM}, private=True)
    assert answers["team"].source == "cloud"
    assert (alone["team"].source, alone["team"].doubted) == ("local", True)
