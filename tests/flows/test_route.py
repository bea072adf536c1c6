"""One story of routing for every task: what a policy is asked, who answers, and why."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from edgewise import Engine, Settings, plugins
from edgewise.decide.policy import Misfit, Plan, Policy, Question
from edgewise.errors import (
    CloudClosed,
    CloudError,
    CloudFailed,
    ContextExceeded,
    EdgewiseError,
    GenerationFailed,
    ModelNotFound,
)
from edgewise.flows.route import Draft, Flow, route
from edgewise.testing import ScriptedTranscriber, heard
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Event, Switched, TextDelta
from tests.flows.hearing_clouds import HearingCloud
from tests.flows.test_see import Stage
from tests.speech.made_voice import silence, voice, wav

TALK = wav(silence(0.5), voice(5.0), silence(0.5))
NO_KEY = CloudClosed("no key", code="no_key")
DOUBTFUL = [[heard("mumble mumble", 0.6, 4.4, 0.1)]]


class Asking:
    """A policy that records its question, then decides like another."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Plan:
        self.questions.append(question)
        return self.policy(question)


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Replaces every policy that an engine loads."""
    real = plugins.load
    asking = Asking(real("policies", "prefer_local"))

    def load(group: Any, name: str) -> Any:
        return asking if group == "policies" else real(group, name)

    monkeypatch.setattr(plugins, "load", load)
    return asking


def hearing(tmp_path: Path, cloud: HearingCloud) -> Engine:
    settings = Settings.load(data_dir=tmp_path)
    return Engine(settings, transcriber=ScriptedTranscriber(DOUBTFUL), cloud=cloud)


def test_an_application_that_routes_transcripts_judges_its_own_cloud(
    policy: Asking, tmp_path: Path
) -> None:
    with hearing(tmp_path, HearingCloud(shut=NO_KEY)) as engine:
        signalled = engine.transcribe(TALK, handoff="signal")
        asked = engine.transcribe(TALK, request_id="automatic")
    assert [each.cloud_closed for each in policy.questions] == ["", "no_key"]
    assert signalled.decision.code == "signalled_low_confidence" and not signalled.degraded
    assert (asked.decision.code, asked.decision.degraded_code) == ("kept_in_doubt", "no_key")


def test_live_captions_tell_the_policy_whether_the_cloud_is_open(
    policy: Asking, tmp_path: Path
) -> None:
    cloud = HearingCloud(shut=NO_KEY)
    with hearing(tmp_path, cloud) as engine, engine.listen() as live:
        live.process(voice(3.0))
        live.process(silence(2.0))
        assert {each.cloud_closed for each in policy.questions} == {"no_key"}
        cloud.shut = None
        live.process(voice(3.0))
        live.process(silence(2.0))
        transcript = live.stop()
    assert policy.questions[-1].cloud_closed == "", "asked again for every utterance"
    assert [segment.error for segment in transcript.segments] == ["no_key", ""]
    assert cloud.segments == [1]


def test_live_captions_of_an_application_that_routes_ask_no_cloud(
    policy: Asking, tmp_path: Path
) -> None:
    cloud = HearingCloud(shut=NO_KEY)
    with hearing(tmp_path, cloud) as engine, engine.listen(handoff="signal") as live:
        live.process(voice(3.0))
        live.process(silence(2.0))
        transcript = live.stop()
    assert {each.cloud_closed for each in policy.questions} == {""}
    assert not cloud.asked and transcript.segments[0].error == ""
    assert transcript.decision.code == "signalled_low_confidence"


@pytest.mark.parametrize("policy_name", ["prefer_local", "local_only"])
def test_a_skill_that_is_not_installed_is_told_as_a_missing_model(policy_name: str) -> None:
    stage = Stage(reader=ModelNotFound("edgewise pull it"))
    stage.cloud.shut = NO_KEY
    with pytest.raises(ModelNotFound, match="edgewise pull it"):
        stage.ask("What does the sign say?", policy=policy_name)


class Played(Flow):
    """A task whose two sides do as scripted."""

    def __init__(self, request: Request, device: Any, cloud: CloudError | None, shut: bool) -> None:
        self.draft = Draft(request=request, attempts=[], started=0.0)
        self.policy = plugins.load("policies", request.policy)
        self.clock = lambda: 0.0
        self.cloud = HearingCloud(shut=NO_KEY if shut else None)
        self.device, self.failure = device, cloud
        self.did: list[str] = []

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        self.did.append("device")
        if isinstance(self.device, EdgewiseError):
            raise self.device
        self.draft.doubted = self.device == "unsure"
        if not (self.draft.doubted and plan.may_hand_off):
            yield TextDelta("device", "local")
            return False
        return True

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        self.did.append("cloud")
        if self.failure is not None:
            raise self.failure
        yield TextDelta("cloud", "cloud")

    @override
    def fall_back(self) -> Iterator[Event]:
        self.did.append("fell back")
        if isinstance(self.device, EdgewiseError):
            raise self.device
        yield TextDelta("device", "local")

    @override
    def doubt(self) -> str:
        return "unsure"

    @override
    def surety(self) -> str:
        return "sure"


@given(
    policy=st.sampled_from(["local_only", "prefer_local", "prefer_cloud", "cloud_only"]),
    handoff=st.sampled_from(["automatic", "signal"]),
    private=st.booleans(),
    device=st.sampled_from(
        ["sure", "unsure", GenerationFailed("broke off"), ContextExceeded(9, 8)]
    ),
    cloud=st.sampled_from([None, CloudFailed("500")]),
    shut=st.booleans(),
    misfit=st.sampled_from([None, Misfit("late", "late", soft=True), Misfit("image", "image")]),
)
def test_every_request_is_answered_once_or_refused_with_a_reason(
    policy: str,
    handoff: Any,
    private: bool,
    device: Any,
    cloud: CloudError | None,
    shut: bool,
    misfit: Misfit | None,
) -> None:
    request = Request(
        messages=(Message("user", "hi"),), policy=policy, handoff=handoff, private=private
    )
    flow = Played(request, device, cloud, shut)
    flow.misfit = None if policy == "cloud_only" else misfit
    events: list[Event] = []
    try:
        events.extend(route(flow))
    except EdgewiseError as error:
        assert str(error)
        if policy != "cloud_only" and device in ("sure", "unsure"):
            assert misfit is not None and not misfit.soft, "only what does not fit is refused"
    else:
        shown = [event for event in events if isinstance(event, TextDelta)]
        assert len(shown) == (0 if flow.draft.signalled else 1), "one answer"
        assert flow.draft.code and flow.draft.reason, "a decision has a code and a reason"
    check_sides(flow, nothing_leaves=policy == "local_only" or private or shut)
    if any(isinstance(event, Switched) and event.to == "local" for event in events):
        assert flow.draft.degraded_code and flow.draft.code == "fallback_local"


def check_sides(flow: Played, *, nothing_leaves: bool) -> None:
    if nothing_leaves or flow.request.handoff == "signal":
        assert "cloud" not in flow.did, "not where nothing may leave, or the application routes"
    if flow.request.policy == "cloud_only":
        assert not {"device", "fell back"} & set(flow.did)
    assert flow.did.count("cloud") <= 1 and flow.did.count("fell back") <= 1
