"""Requests with pictures: kept, handed off, described, refused; always with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy
import pytest

from edgewise import plugins
from edgewise.decide.calibration import CHAT, Calibration, Measured, RiskRow, Score
from edgewise.errors import (
    CloudClosed,
    CloudTimeout,
    DeviceBusy,
    DoesNotFit,
    ExtraMissing,
    GenerationFailed,
    LocalError,
    ModelNotFound,
)
from edgewise.flows import see
from edgewise.flows.chat import ChatNeeds
from edgewise.local.backend import ChatBackend, DeviceFacts, VisionBackend
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Image, Message, Request, ResponseFormat
from edgewise.types.replies import (
    Attempt,
    Finished,
    Line,
    SeenReply,
    Sight,
    Switched,
    Thing,
)
from tests.flows.clouds import PlayedCloud

CALIBRATION = Calibration(
    name="test",
    threshold=0.8,
    scores={
        "whole": Score({"doubt": -10.0}, 3.0),
        "row": Score({"doubt": -10.0}, 3.0),
        "thing": Score({"score": 10.0}, -5.0),
        "present": Score({"score": 10.0}, -5.0),
    },
    numbers={"empty": 0.5},
)
SIGN = "What does the sign say?"
BEYOND = "Why is she laughing?"


class ScriptedEye:
    """`takes_s` of the stage's clock for each picture."""

    def __init__(self, sight: Sight, error: LocalError | None = None, takes_s: float = 0.0) -> None:
        self.sight, self.error, self.looked = sight, error, 0
        self.takes_s = takes_s

    def facts(self) -> DeviceFacts:
        return DeviceFacts(backend="scripted", model="eye-1", quantisation="", context_tokens=1)

    def look(self, pixels: Any) -> Sight:
        self.looked += 1
        if self.error is not None:
            raise self.error
        return self.sight

    def close(self) -> None:
        pass


class Blank:
    """So many pictures with nothing in them."""

    notes: tuple[str, ...] = ("a note",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self._count):
            yield numpy.zeros((40, 40, 3), numpy.uint8)


def reads(text: str, score: float = 0.99) -> Sight:
    box = ((0.0, 0.0), (99.0, 0.0), (99.0, 30.0), (0.0, 30.0))
    return Sight(lines=(Line(text, score, box),) if text else ())


class Stage:
    """Vision skills, a cloud, and the result of a request."""

    def __init__(
        self,
        reader: ScriptedEye | LocalError | None = None,
        finder: ScriptedEye | LocalError | None = None,
        cloud: PlayedCloud | None = None,
        model: ScriptedBackend | None = None,
    ) -> None:
        self.model = model
        self.vision_skills = {
            "reads text": reader or ScriptedEye(reads("NO ENTRY")),
            "names objects": finder or ScriptedEye(Sight(things=(Thing("dog", 0.95),))),
        }
        self.cloud = cloud or PlayedCloud()
        self.attempts: list[Attempt] = []
        self.events: list[Any] = []

    def skill(self, name: str) -> VisionBackend:
        vision_skill = self.vision_skills[name]
        if isinstance(vision_skill, LocalError):
            raise vision_skill
        return vision_skill

    def clock(self) -> float:
        eyes = [one for one in self.vision_skills.values() if isinstance(one, ScriptedEye)]
        return sum(one.looked * one.takes_s for one in eyes)

    def chat(self, policy: str) -> ChatNeeds:
        def backend() -> ChatBackend:
            if self.model is None:
                raise ModelNotFound("edgewise pull something")
            return self.model

        return ChatNeeds(
            backend=backend,
            cloud=self.cloud,
            policy=plugins.load("policies", policy),
            calibration=lambda _: CHAT.uncalibrated,
            patience_s=2.0,
            clock=lambda: 0.0,
        )

    def ask(self, question: str, *, pictures: int = 1, **options: Any) -> SeenReply:

        parts = see.SeeNeeds(
            skill=self.skill,
            cloud=self.cloud,
            policy=plugins.load("policies", options.get("policy", "prefer_local")),
            calibration=lambda vision_skill: CALIBRATION,
            patience_s=2.0,
            clock=self.clock,
            chat=self.chat(options.get("policy", "prefer_local")),
        )
        images = (Image(b"x"),) * pictures
        request = Request(messages=(Message("user", question, images=images),), **options)
        flow = see.answer(request, Blank(pictures), parts, self.attempts, live=True)
        self.events = list(flow)
        last = self.events[-1]
        assert isinstance(last, Finished) and isinstance(last.reply, SeenReply)
        return last.reply


RATES = "Country  Minutes  Price\nThailand  120  15.00\nPeru  90  12.00"
MINUTES = "How many minutes for Thailand?"


def rates(score: float = 0.99) -> ScriptedEye:
    rows = RATES.split("\n")
    boxes = [((0.0, y), (99.0, y), (99.0, y + 30), (0.0, y + 30)) for y in (0.0, 50.0, 100.0)]
    lines = (Line(row, score, box) for row, box in zip(rows, boxes, strict=True))
    return ScriptedEye(Sight(lines=tuple(lines)))


def test_the_chat_model_answers_from_what_was_read() -> None:
    stage = Stage(reader=rates(), model=ScriptedBackend.confident("120"))
    reply = stage.ask(MINUTES)
    assert (reply.text, reply.source, reply.skill) == ("120", "local", "reads text")
    assert reply.decision.code == "kept_confident" and not stage.cloud.asked
    assert reply.sights[0].lines[1].text == "Thailand  120  15.00"
    assert stage.model is not None
    (told,) = stage.model.requests
    assert RATES in told.messages[-1].content and MINUTES in told.messages[-1].content
    assert not told.has_images
    assert [attempt.model for attempt in reply.attempts] == ["eye-1", stage.model.facts().model]


def test_an_answer_from_rows_that_may_be_misread_is_in_doubt() -> None:
    stage = Stage(reader=rates(score=0.6), model=ScriptedBackend.confident("120"))
    reply = stage.ask(MINUTES)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")
    assert stage.cloud.asked[0].has_images, "the cloud gets the picture, not what was read"
    alone = Stage(reader=rates(score=0.6), model=ScriptedBackend.confident("120"))
    kept = alone.ask(MINUTES, policy="local_only")
    assert (kept.text, kept.needs_cloud_handoff) == ("120", True)
    assert kept.confidence is not None and kept.confidence < 0.5


MANY: Any = {"pictures": 20, "deadline_ms": 5000}


def slow(sight: Sight) -> ScriptedEye:
    return ScriptedEye(sight, takes_s=2.0)


def test_pictures_are_looked_at_until_the_deadline_and_what_was_not_is_said() -> None:
    stage = Stage(reader=slow(reads("NO ENTRY")))
    reply = stage.ask(SIGN, policy="local_only", **MANY)
    eye = stage.vision_skills["reads text"]
    assert isinstance(eye, ScriptedEye) and eye.looked == 3, "after six seconds it was late"
    assert len(reply.sights) == 3 and "Image 4" not in reply.text, "nobody knows what is in it"
    assert reply.notes[-1] == "3 of 20 images were looked at: the time was up (5000 ms)"
    assert (reply.degraded, reply.decision.degraded_code) == (True, "deadline")
    assert reply.needs_cloud_handoff and reply.confidence == 0.0
    assert "3 of 20 images" in reply.decision.reason


def test_what_was_not_looked_at_in_time_goes_to_the_cloud_where_it_may() -> None:
    stage = Stage(reader=slow(reads("NO ENTRY")))
    reply = stage.ask(SIGN, **MANY)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")
    assert "3 of 20 images" in reply.decision.reason


def test_a_description_within_a_deadline_is_of_the_pictures_that_were_seen() -> None:
    stage = Stage(reader=slow(reads("NO ENTRY")), finder=slow(Sight(things=(Thing("dog", 0.95),))))
    reply = stage.ask(BEYOND, policy="local_only", **MANY)
    looked = [one.looked for one in stage.vision_skills.values() if isinstance(one, ScriptedEye)]
    assert sorted(looked) == [1, 3] and "dog" in reply.text and "NO ENTRY" in reply.text
    assert reply.degraded and reply.notes[-1].startswith("1 of 20 images"), "by both skills"
    assert len(reply.sights) == 1


def test_the_chat_model_says_that_not_all_was_read_in_time() -> None:
    eye = rates()
    eye.takes_s = 2.0
    stage = Stage(reader=eye, model=ScriptedBackend.confident("120"))
    reply = stage.ask(MINUTES, policy="local_only", **MANY)
    assert (reply.text, reply.source) == ("120", "local")
    assert (reply.degraded, reply.decision.degraded_code) == (True, "deadline")
    assert reply.confidence is not None and reply.confidence <= 0.01
    assert reply.notes[-1].startswith("3 of 20 images")


def test_one_picture_is_looked_at_however_late_it_is() -> None:
    stage = Stage(reader=slow(reads("NO ENTRY")))
    reply = stage.ask(SIGN, deadline_ms=1.0)
    assert (reply.source, reply.degraded, reply.notes) == ("local", False, ("a note",))


def test_that_it_is_not_there_is_in_doubt_however_sure_the_model_is() -> None:
    stage = Stage(reader=rates(), model=ScriptedBackend.confident("It does not say."))
    assert stage.ask("How many minutes for Laos?").source == "cloud"
    alone = Stage(reader=rates(), model=ScriptedBackend.confident("It does not say."))
    kept = alone.ask("How many minutes for Laos?", policy="local_only")
    assert kept.text == "It does not say."
    assert kept.confidence is not None and kept.confidence <= 0.1


@pytest.mark.parametrize("model", [None, ScriptedBackend.confident("Because.")])
def test_what_the_text_is_not_about_goes_to_the_cloud_at_once(
    model: ScriptedBackend | None,
) -> None:
    stage = Stage(reader=rates(), model=model)
    question = BEYOND if model else MINUTES
    reply = stage.ask(question)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_no_device_skill")
    assert model is None or not model.requests


def test_the_pictures_are_read_once_however_they_are_told() -> None:
    reader = rates()
    reply = Stage(reader=reader, model=ScriptedBackend.confident("x")).ask(
        BEYOND, policy="local_only"
    )
    assert "No skill of the device" in reply.text and "Thailand" in reply.text
    assert reader.looked == 1


def test_a_sure_answer_is_kept_and_names_its_skill() -> None:
    stage = Stage()
    reply = stage.ask(SIGN)
    assert (reply.text, reply.source, reply.skill) == ("NO ENTRY", "local", "reads text")
    assert reply.decision.code == "kept_confident"
    assert "reads text" in reply.decision.reason
    assert reply.confidence is not None and reply.confidence > 0.8
    assert reply.decision.features["doubt"] == pytest.approx(0.01)
    assert reply.notes == ("a note",)
    assert not stage.cloud.asked
    assert reply.to_dict()["skill"] == "reads text"
    assert reply.to_dict()["sights"][0]["lines"][0]["text"] == "NO ENTRY"


def test_a_doubtful_answer_is_handed_off_before_it_is_shown() -> None:
    stage = Stage(ScriptedEye(reads("N0 ENTPY", 0.6)))
    reply = stage.ask(SIGN)
    assert (reply.text, reply.source, reply.skill) == ("The cloud knows.", "cloud", "")
    assert reply.decision.code == "handoff_low_confidence"
    assert reply.confidence is not None and reply.confidence < 0.8
    assert [one.outcome for one in reply.attempts] == ["handed_off", "answered"]
    assert isinstance(stage.events[0], Switched)
    assert stage.cloud.patience == [2.0]


def test_what_no_skill_answers_goes_to_the_cloud_unlooked_at() -> None:
    stage = Stage()
    reply = stage.ask(BEYOND)
    assert reply.source == "cloud"
    assert reply.decision.code == "handoff_no_device_skill"
    assert "no device skill" in reply.decision.reason
    assert stage.cloud.patience == [None], "what the device could tell instead is no answer"
    assert not reply.sights


def test_on_the_device_alone_it_says_what_it_sees_and_that_this_is_no_answer() -> None:
    reply = Stage().ask(BEYOND, policy="local_only")
    assert reply.source == "local" and reply.degraded
    assert reply.decision.code == reply.decision.degraded_code == "no_device_skill"
    assert reply.confidence == 0.0 and reply.needs_cloud_handoff
    assert "No skill of the device answers this" in reply.text
    assert "NO ENTRY" in reply.text and "1 dog" in reply.text
    assert reply.skill == "reads text, names objects"
    assert len(reply.attempts) == 2


def test_what_is_in_this_picture_is_answered_from_what_the_skills_saw() -> None:
    reply = Stage().ask("What is in this picture?", policy="local_only")
    assert (reply.text, reply.source) == ("1 dog; text: NO ENTRY.", "local")
    assert reply.skill == "reads text, names objects"
    assert not reply.degraded, "it is an answer"
    assert reply.decision.code == "policy_local_only"
    assert reply.needs_cloud_handoff, "in doubt: it is seldom all that a picture shows"
    assert 0.3 < (reply.confidence or 0.0) <= 0.5
    two = Stage().ask("What do you see?", policy="local_only", pictures=2)
    assert two.text == "Image 1: 1 dog; text: NO ENTRY.\nImage 2: 1 dog; text: NO ENTRY."


def test_a_description_goes_to_the_cloud_if_it_may() -> None:
    reply = Stage().ask("What is in this picture?")
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")


def test_a_description_needs_only_one_of_the_skills() -> None:
    alone = Stage(finder=ExtraMissing("vision", "opencv")).ask(
        "Describe this picture", policy="local_only"
    )
    assert (alone.text, alone.skill) == ("Text: NO ENTRY.", "reads text")
    nothing = Stage(ScriptedEye(Sight()), ScriptedEye(Sight()))
    told = nothing.ask("What is this?", policy="local_only")
    assert told.text == "Nothing that the device recognises."
    assert (told.confidence or 0.0) < 0.1


def test_when_the_ferry_leaves_is_read_from_the_timetable() -> None:
    reply = Stage(ScriptedEye(reads("Ferry to Oslo 14:30"))).ask("When does the ferry leave?")
    assert (reply.text, reply.source, reply.skill) == ("14:30", "local", "reads text")
    assert reply.decision.code == "kept_confident"
    guessed = Stage(ScriptedEye(reads("Concert 19:00"))).ask(
        "When does the ferry leave?", policy="local_only"
    )
    assert guessed.text == "19:00" and guessed.needs_cloud_handoff, "a guess, in doubt"
    none = Stage().ask("When does the ferry leave?", policy="local_only")
    assert none.text == "The text has no time that is surely meant: none."


def test_a_private_question_stays_and_says_why_it_is_second_best() -> None:
    stage = Stage()
    reply = stage.ask(BEYOND, private=True)
    assert reply.source == "local"
    assert reply.decision.degraded_code == "private"
    assert not stage.cloud.asked


def test_a_private_doubtful_answer_is_told_in_doubt() -> None:
    reply = Stage(ScriptedEye(reads("N0 ENTPY", 0.6))).ask(SIGN, private=True)
    assert (reply.text, reply.decision.code) == ("N0 ENTPY", "kept_in_doubt")
    assert reply.degraded and reply.decision.degraded_code == "private"


def test_the_cloud_failing_leaves_the_devices_answer() -> None:
    broken = PlayedCloud((), error=CloudTimeout("too slow", provider="p"))
    reply = Stage(ScriptedEye(reads("N0 ENTPY", 0.6)), cloud=broken).ask(SIGN)
    assert (reply.text, reply.source, reply.decision.code) == (
        "N0 ENTPY",
        "local",
        "fallback_local",
    )
    assert reply.degraded and reply.decision.degraded_code == "cloud_timeout"
    assert reply.attempts[0].outcome == "answered"


def test_the_cloud_failing_on_a_question_beyond_the_device_leaves_what_it_sees() -> None:
    broken = PlayedCloud((), error=CloudTimeout("too slow", provider="p"))
    reply = Stage(cloud=broken).ask(BEYOND)
    assert reply.source == "local" and "NO ENTRY" in reply.text
    assert reply.decision.degraded_code == "cloud_timeout"


def test_prefer_cloud_asks_the_cloud_first_and_the_device_when_it_is_shut() -> None:
    assert Stage().ask(SIGN, policy="prefer_cloud").source == "cloud"
    shut = PlayedCloud(shut=CloudClosed("no key", code="no_key"))
    reply = Stage(cloud=shut).ask(SIGN, policy="prefer_cloud")
    assert (reply.text, reply.decision.degraded_code) == ("NO ENTRY", "no_key")


def test_cloud_only_never_looks() -> None:
    reader = ScriptedEye(reads("NO ENTRY"))
    assert Stage(reader).ask(SIGN, policy="cloud_only").source == "cloud"
    assert reader.looked == 0
    shut = PlayedCloud(shut=CloudClosed("no key", code="no_key"))
    with pytest.raises(CloudClosed):
        Stage(cloud=shut).ask(SIGN, policy="cloud_only")


@pytest.mark.parametrize(
    ("question", "code"), [(SIGN, "low_confidence"), (BEYOND, "no_device_skill")]
)
def test_an_application_that_routes_is_only_told(question: str, code: str) -> None:
    stage = Stage(ScriptedEye(reads("N0", 0.4)))
    reply = stage.ask(question, handoff="signal")
    assert reply.signalled and reply.text == ""
    assert reply.decision.code == f"signalled_{code}"
    assert not stage.cloud.asked


def test_without_the_extra_the_cloud_answers_or_the_refusal_says_what_to_install() -> None:
    missing = ExtraMissing("vision", "rapidocr")
    reply = Stage(missing).ask(SIGN)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_missing_extra")
    with pytest.raises(DoesNotFit, match=r"\[vision\]"):
        Stage(missing).ask(SIGN, policy="local_only")
    with pytest.raises(DoesNotFit, match="rapidocr"):
        Stage(missing, missing).ask(BEYOND, policy="local_only")


def test_a_skill_that_breaks_off_hands_off_where_it_may() -> None:
    broken = ScriptedEye(Sight(), GenerationFailed("broke off"))
    reply = Stage(broken).ask(SIGN)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_local_failed")
    with pytest.raises(GenerationFailed):
        Stage(broken).ask(SIGN, policy="local_only")


def test_a_description_that_breaks_off_hands_off_where_it_may() -> None:
    busy = ScriptedEye(reads(""), DeviceBusy("64 wait already"))
    reply = Stage(busy, busy).ask("What is in this picture?")
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_busy")
    with pytest.raises(DeviceBusy):  # so that a server can say when to come again
        Stage(busy, busy).ask("What is in this picture?", policy="local_only")


def test_json_is_not_what_skills_write() -> None:
    reply = Stage().ask(SIGN, response_format=ResponseFormat())
    assert reply.decision.code == "handoff_schema_unsupported"


def test_every_picture_is_looked_at() -> None:
    reader = ScriptedEye(reads("EXIT"))
    reply = Stage(reader).ask(SIGN, pictures=3)
    assert reader.looked == 3 and len(reply.sights) == 3
    assert "Image 3: EXIT" in reply.text


def test_a_threshold_of_the_request_decides() -> None:
    assert Stage().ask(SIGN, threshold=0.999).source == "cloud"
    doubtful = Stage(ScriptedEye(reads("N0", 0.4))).ask(SIGN, threshold=0.0)
    assert doubtful.source == "local"


RISK = Measured(
    risk={"whole": (RiskRow(0.9, 200, 4), RiskRow(0.8, 400, 20))}, risk_rows=1000
)  # proves 10 %, not 1 %


def test_a_stated_risk_is_kept_or_the_cloud_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CALIBRATION", replace(CALIBRATION, measured=RISK))
    kept = Stage().ask(SIGN, max_error=0.1)
    assert (kept.source, kept.decision.threshold) == ("local", 0.8)
    assert kept.decision.reason.endswith(
        "is high enough for an error of at most 10 % with probability 90 % on requests like those "
        "measured"
    )
    sent = Stage().ask(SIGN, max_error=0.01)
    assert (sent.source, sent.decision.code) == ("cloud", "handoff_risk_unreachable")
    closed = PlayedCloud(shut=CloudClosed("no key", code="no_key"))
    stays = Stage(cloud=closed).ask(SIGN, max_error=0.01)
    assert (stays.text, stays.decision.code) == ("NO ENTRY", "risk_unreachable")
    assert stays.degraded and stays.needs_cloud_handoff
    beyond = Stage().ask(BEYOND, max_error=0.1)
    assert (beyond.decision.code, beyond.decision.objective) == ("handoff_no_device_skill", "")
