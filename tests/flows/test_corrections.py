from __future__ import annotations

import pytest

from edgewise.errors import CloudFailed
from edgewise.flows.transcribe import AT_ONCE, Corrections
from edgewise.types.messages import Audio, Message, Request
from edgewise.types.replies import Attempt
from tests.flows.hearing_clouds import HearingCloud

REQUEST = Request(messages=(Message("user", "a file"),), task="transcribe", budget_key="app")
SOUND = Audio(b"RIFF", "audio/wav", 1.0)


def make(cloud: HearingCloud, journal: list[Attempt] | None = None) -> Corrections:
    return Corrections(cloud, REQUEST, journal if journal is not None else [], patience_s=None)


def test_each_answer_says_which_segment_it_is_about_and_is_told_once() -> None:
    corrections = make(HearingCloud({n: f"text {n}" for n in range(10)}))
    for number in range(10):
        corrections.send(number, SOUND)
    found = corrections.wait()
    assert sorted((each.segment, each.text) for each in found) == [
        (n, f"text {n}") for n in range(10)
    ]
    assert corrections.arrived() == corrections.stop() == []
    assert corrections.outstanding == 0


def test_sending_never_waits_and_no_more_than_a_few_go_at_once() -> None:
    cloud = HearingCloud(late=frozenset(range(20)))
    corrections = make(cloud)
    for number in range(20):
        corrections.send(number, SOUND)
    assert corrections.outstanding == 20
    cloud.release()
    assert len(corrections.wait()) == 20
    assert cloud.most_busy <= AT_ONCE
    corrections.stop()


def test_a_failure_is_an_answer_too() -> None:
    corrections = make(HearingCloud(otherwise=CloudFailed("500")))
    corrections.send(3, SOUND)
    (found,) = corrections.wait()
    assert (found.segment, found.text) == (3, "")
    assert isinstance(found.error, CloudFailed)
    corrections.stop()


def test_waiting_has_a_limit_and_stopping_reports_what_was_broken_off() -> None:
    journal: list[Attempt] = []
    corrections = make(HearingCloud(late=frozenset({0, 1, 2, 3})), journal)
    for number in range(5):
        corrections.send(number, SOUND)
    assert corrections.wait(limit_s=0.05) == []
    left = corrections.stop()
    assert sorted(each.segment for each in left) == [0, 1, 2, 3, 4]
    assert {each.error.code for each in left if each.error} == {"cancelled"}
    assert {attempt.outcome for attempt in journal} == {"cancelled"}
    assert len(journal) == AT_ONCE, "what had not begun was never sent"


def test_what_is_asked_carries_the_sound_the_words_before_and_the_requests_rules() -> None:
    cloud = HearingCloud()
    corrections = make(cloud)
    corrections.send(7, SOUND, words_before="as I said")
    corrections.wait()
    corrections.stop()
    (asked,) = cloud.asked
    assert (asked.id, asked.part, asked.budget_key) == (REQUEST.id, "s7.", "app")
    assert asked.messages == (Message("user", "as I said", audio=(SOUND,)),)


@pytest.mark.parametrize("text", ["", "  two\n lines  "])
def test_text_is_one_line(text: str) -> None:
    corrections = make(HearingCloud({0: text}))
    corrections.send(0, SOUND)
    assert corrections.wait()[0].text == " ".join(text.split())
    corrections.stop()
