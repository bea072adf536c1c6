"""A new user's own requests: thumbs one by one, a promise that grows, and one that is refuted.

The calibration of these tests promises 10 % from a confidence of 0.8 on, to requests like those it
was measured on. Whether this user's are like those, only verdicts can say.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from edgewise import AsyncEngine, Engine, Settings
from edgewise.decide.families import CHOOSING, GRID, Evidence, Verdict
from edgewise.errors import InvalidRequest, LedgerUnavailable
from edgewise.local.backend import TokenStream
from edgewise.monitor.audit import MOST_WAITING, Device, is_drawn, open_auditor
from edgewise.monitor.drift import FRESH_S, Verdicts
from edgewise.record.ledger import Ledger
from edgewise.record.report import Said
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, word_tokens
from edgewise.types.messages import Image, Request
from edgewise.types.replies import Event, Finished, Reply, Switched, TextDelta
from tests.test_stated_risk import CHAT, TEN

SURE = word_tokens("It is in Paris I think so", logprob=-0.01, margin=6.0, entropy=0.05)
LESS = word_tokens("It is in Lyon I think so", logprob=-0.6, margin=2.0, entropy=0.5)
UNSURE = word_tokens("It is in Nice I think so", logprob=-2.5, margin=0.1, entropy=2.5)
LIFTED = "an error of at most 10 % with probability 90 %, proven by"


@pytest.fixture
def calibration(tmp_path: Path) -> str:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CHAT))
    return str(path)


@pytest.fixture
def settings(tmp_path: Path, calibration: str) -> Settings:
    return Settings.load({}, data_dir=tmp_path / "data", calibration=calibration)


@pytest.fixture
def routed(tmp_path: Path, calibration: str) -> Iterator[Settings]:
    """With a cloud that is open."""
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="It is in Paris I think so"))
        environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": cloud.openai_url}
        yield Settings.load(environment, data_dir=tmp_path, calibration=calibration)


def engine_of(settings: Settings, *answers: Any, **parts: Any) -> Engine:
    return Engine(settings, backend=ScriptedBackend(answers or [SURE]), **parts)


def judge(engine: Engine, count: int, right: bool = True, key: str = "") -> Reply:
    """So many requests, each with a thumb; what the next one is told."""
    for _ in range(count):
        engine.feedback(engine.complete("Where?", max_error=0.1, budget_key=key).id, right=right)
    return engine.complete("Where?", max_error=0.1, budget_key=key)


# -- the story -------------------------------------------------------------------------------------


def test_a_new_user_gets_a_promise_of_their_own_keeps_more_and_loses_it_when_it_is_wrong(
    settings: Settings,
) -> None:
    with engine_of(settings) as engine:
        # Day one: all that is known was measured on other people's questions.
        first = engine.complete("Where?", max_error=0.1)
        assert (first.decision.threshold, first.decision.objective) == (0.8, TEN)
        (outlook,) = engine.parts.verdicts.outlooks()
        missing = outlook.learnt.missing
        assert str(outlook) == (
            f"with {missing} more right verdicts 10 % can be promised here (on answers from 0.90 "
            "on; others do not count yet); today 100 % of these requests stay on the device"
        )

        # Thumbs, one by one. One before the last nothing has changed.
        assert judge(engine, missing - 1).decision.objective == TEN
        (outlook,) = engine.parts.verdicts.outlooks()
        assert str(outlook).startswith("with 1 more right verdict 10 %")

        # The promise appears, and the decision says what it rests on.
        proven = judge(engine, 1)
        assert proven.decision.objective == f"{LIFTED} {missing} verdicts of this workload"
        assert proven.decision.reason.endswith(proven.decision.objective)
        assert (proven.decision.code, proven.decision.threshold) == ("kept_confident", GRID[9])
        judge(engine, CHOOSING)

    # It outlives the program. With less sure answers that are judged it falls, and lets those stay
    # that the calibration gave up on.
    with engine_of(settings, LESS) as engine:
        kept = judge(engine, CHOOSING)
        assert kept.confidence is not None and kept.confidence < 0.8
        assert (kept.decision.code, kept.needs_cloud_handoff) == ("kept_confident", False)

    # What is asked changes, and the answers are wrong: the proof is void.
    with engine_of(settings) as engine:
        refuted = judge(engine, 30, right=False)
        assert refuted.needs_cloud_handoff
        assert refuted.decision.degraded_code
        assert "30 say wrong" in str(engine.parts.verdicts.outlooks()[0])
        count = missing + 2 * CHOOSING + 30
        assert refuted.decision.objective == (
            f"{TEN} is not promised: {count} verdicts of this workload refute it here"
        )


def test_what_verdicts_refute_leaves_although_the_calibration_promises_it(routed: Settings) -> None:
    with engine_of(routed) as engine:
        for _ in range(40):
            reply = engine.complete("Where?", max_error=0.1)
            if reply.source == "cloud":
                break
            engine.feedback(reply.id, right=False)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_risk_unproven")
    assert reply.decision.reason.startswith(f"{TEN} is not promised: ")


def test_whoever_judges_only_sure_answers_says_so_and_proves_nothing_of_others(
    settings: Settings,
) -> None:
    with engine_of(settings, LESS, *[SURE] * 80) as engine:
        less = engine.complete("Where?", max_error=0.1)
        with pytest.raises(InvalidRequest, match="above"):
            engine.feedback(less.id, right=True, above=0.9)
        engine.feedback(less.id, right=True)
        for _ in range(60):
            reply = engine.complete("Where?", max_error=0.1)
            engine.feedback(reply.id, right=True, above=0.9)
        (outlook,) = engine.parts.verdicts.outlooks()
        assert outlook.learnt.threshold == GRID[9], "the strictest of the grid from 0.9 on"
        assert outlook.to_dict()["worth_judging"] < GRID[9], "what comes next"


# -- what has left, answered by the device afterwards ----------------------------------------------

RIGHT_HERE = word_tokens("It is 42 I think so", logprob=-0.01, margin=6.0, entropy=0.05)
WRONG_HERE = word_tokens("It is 17 I think so", logprob=-2.5, margin=0.1, entropy=2.5)
LONG_HERE = word_tokens(
    " ".join(f"word{number}" for number in range(60)), logprob=-2.5, margin=0.1, entropy=2.5
)
CIRCLES_HERE = word_tokens("It is 42 " + "I think " * 60, logprob=-0.01, margin=6.0, entropy=0.05)
ASK = "How many is that?"
PROVES_NOTHING = CHAT | {"risk": {"whole": [[0.9, 200, 100]], "stream": [[0.9, 200, 100]]}}


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Settings]:
    """An open cloud that says 42, audits, and a calibration that proves nothing to anybody."""
    path = tmp_path / "nothing.json"
    path.write_text(json.dumps(PROVES_NOTHING))
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="It is 42."))
        environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": cloud.openai_url}
        yield Settings.load(
            environment, data_dir=tmp_path, calibration=str(path), audit_share=1.0, max_error=0.1
        )


def audited(engine: Engine) -> list[Said]:
    assert engine.parts.auditor is not None and engine.parts.auditor.wait(30), "an audit hangs"
    return engine.ledger.verdicts("")


def scripted(engine: Engine) -> ScriptedBackend:
    assert isinstance(engine.parts._backend, ScriptedBackend)
    return engine.parts._backend


def spent_on_audits(engine: Engine) -> int:
    return engine.ledger.report().audits.spent_microdollars


def test_a_new_user_for_whom_nothing_is_proven_pays_for_no_verdict_and_keeps_more_in_the_end(
    counted: Settings,
) -> None:
    # Half of this user's questions are easy: the device is sure of them, and right.
    answers = [RIGHT_HERE, WRONG_HERE] * 200
    with engine_of(counted, *answers) as engine:
        first = engine.complete(ASK)
        assert (first.source, first.decision.code) == ("cloud", "handoff_risk_unreachable")
        assert [each.place for each in first.attempts] == ["cloud"], "nobody waited for the device"

        # Afterwards, when it has nothing else to do, the device answers too.
        (said,) = audited(engine)
        assert (said.id, said.judged_by, said.right) == (f"{first.id}/device", "audit", True)
        assert (said.above, said.calibration) == (0.0, "mine")
        assert said.confidence is not None and said.confidence > 0.9

        spent = first.usage.cost_microdollars
        asked = 0
        while asked < 200:
            asked += 1
            reply = engine.complete(ASK)
            if reply.source == "local":
                break
            spent += reply.usage.cost_microdollars
            audited(engine)

        # The promise appears. All that was paid for are the answers that the user has.
        assert (reply.text, reply.decision.code) == ("It is 42 I think so", "kept_confident")
        assert f"{LIFTED} {asked} verdicts of this workload" in reply.decision.objective
        assert asked < 100
        assert spent_on_audits(engine) == 0
        audited(engine)
        assert engine.ledger.report().spent_microdollars == spent + spent_on_audits(engine)

        # What the device is not sure of leaves as before, and is compared: with what it has
        # written already.
        generated = scripted(engine).generated
        left = engine.complete(ASK)
        assert (left.source, left.decision.code) == ("cloud", "handoff_low_confidence")
        *_, said = audited(engine)
        assert (said.id, said.right, said.confidence) == (
            f"{left.id}/device",
            False,
            left.confidence,
        )
        assert scripted(engine).generated == generated + len(WRONG_HERE)
        (outlook,) = engine.parts.verdicts.outlooks()
        assert str(outlook).startswith("10 % can be promised here: ")


def test_a_cloud_that_says_something_else_never_lets_anything_stay(counted: Settings) -> None:
    wrong = word_tokens("It is 17 I think so", logprob=-0.01, margin=6.0, entropy=0.05)
    with engine_of(counted, wrong) as engine:
        for _ in range(60):
            assert engine.complete(ASK).source == "cloud"
            audited(engine)
        (outlook,) = engine.parts.verdicts.outlooks()
    assert (outlook.wrong, outlook.learnt.verdicts, outlook.learnt.threshold) == (60, 60, None)


def test_what_stays_and_what_leaves_is_drawn_alike_and_counts_at_every_threshold(
    routed: Settings,
) -> None:
    settings = routed.with_changes(audit_share=1.0, max_error=0.1)
    less = word_tokens("It is in Paris I think so", logprob=-0.6, margin=2.0, entropy=0.5)
    with engine_of(settings, SURE, less) as engine:
        kept, left = engine.complete("Where?"), engine.complete("Where?")
        assert (kept.source, left.source) == ("local", "cloud")
        said = {each.id: each for each in audited(engine)}
    assert {name: each.above for name, each in said.items()} == {
        kept.id: 0.0,
        f"{left.id}/device": 0.0,
    }
    assert said[f"{left.id}/device"].confidence == left.confidence


def test_both_halves_prove_nothing_false_where_one_alone_would() -> None:
    """Of these users' answers a calibration keeps four fifths, wrong in 15 %; of the less sure ones
    2 % are wrong. So 12.4 % are wrong from 0.5 on, and from no threshold at most 10 %."""

    def is_proven(random: Random, *, both: bool) -> bool:
        evidence = Evidence(0.1)
        for _ in range(150):
            kept = both and random.random() < 0.8
            sure = random.uniform(0.8, 0.99) if kept else random.uniform(0.5, 0.8)
            evidence.add(Verdict(sure, random.random() >= (0.15 if kept else 0.02)))
        return evidence.threshold(0.1) is not None

    random = Random(1)
    assert sum(is_proven(random, both=True) for _ in range(30)) <= 3
    assert sum(is_proven(random, both=False) for _ in range(30)) >= 20


def test_while_what_stayed_cannot_be_audited_what_left_proves_nothing(routed: Settings) -> None:
    """Or a promise would rest on one half of the requests."""
    budget = "$0.000001/day"
    settings = routed.with_changes(audit_share=1.0, audit_budget=budget, max_error=0.1)
    less = word_tokens("It is in Paris I think so", logprob=-0.6, margin=2.0, entropy=0.5)
    with engine_of(settings, less, SURE, less) as engine:
        sources = [engine.complete("Where?").source]
        assert len(audited(engine)) == 1
        sources += [engine.complete("Where?").source for _ in range(4)]
        assert len(audited(engine)) == 1
        assert engine.parts.auditor is not None and engine.parts.auditor.lost == 4
    assert sources == ["cloud", "local", "cloud", "cloud", "cloud"]


def test_a_share_of_what_left_is_drawn_before_anybody_knows_what_comes_of_it(
    counted: Settings,
) -> None:
    draws = Random(5)
    with engine_of(
        counted.with_changes(audit_share=0.25), *[RIGHT_HERE, WRONG_HERE] * 40
    ) as engine:
        parts = engine.parts
        device = Device(parts.backend, lambda model, name: parts.calibration(model, other=name))
        needed = counted.with_changes(audit_share=0.25), parts.ledger, parts.cloud, parts.embedder
        parts.auditor = open_auditor(*needed, parts.verdicts, draws.random, device)
        parts.recorder.watchers = [parts.auditor.watch]
        ids = [engine.complete(ASK).id for _ in range(40) if audited(engine) is not None]
        said = {each.id for each in audited(engine)}
    again = Random(5)
    assert said == {f"{each}/device" for each in ids if again.random() < 0.25}
    assert 0 < len(said) < 20


def test_a_stream_that_left_is_compared_too(counted: Settings) -> None:
    with engine_of(counted, RIGHT_HERE) as engine:
        *_, last = engine.stream(ASK)
        assert isinstance(last, Finished) and last.reply.source == "cloud"
        (said,) = audited(engine)
    assert (said.id, said.right) == (f"{last.reply.id}/device", True)


def test_an_answer_that_was_cut_off_is_written_again_to_its_end(routed: Settings) -> None:
    settings = routed.with_changes(audit_share=1.0, max_error=0.1)
    with engine_of(settings, LONG_HERE) as engine:
        *_, last = engine.stream("Where?")
        assert isinstance(last, Finished) and last.reply.source == "cloud"
        audited(engine)
        assert scripted(engine).closed_early == 1
        again = scripted(engine).requests[-1]
        assert (len(scripted(engine).requests), again.policy) == (2, "local_only")
        assert 60 < scripted(engine).generated < 2 * 60
        assert engine.ledger.report().requests == 1, "the user has asked once"


def test_an_answer_that_goes_in_circles_leaves_anyway_and_teaches_nothing(
    counted: Settings,
) -> None:
    with engine_of(counted, CIRCLES_HERE) as engine:
        engine.complete(ASK)
        assert audited(engine) == []
        assert scripted(engine).started == 1


@pytest.mark.parametrize(
    "options",
    [
        {"private": True},
        {"policy": "local_only"},
        {"policy": "cloud_only"},
        {"max_error": None, "threshold": 0.99},
        {"handoff": "signal"},
        {"response_format": {"type": "object", "properties": {"count": {"type": "integer"}}}},
    ],
    ids=["private", "local_only", "cloud_only", "no_risk", "signal", "typed"],
)
def test_nothing_else_is_answered_afterwards(counted: Settings, options: dict[str, Any]) -> None:
    with engine_of(counted.with_changes(max_error=None), WRONG_HERE) as engine:
        engine.complete(ASK, **({"max_error": 0.1} | options))
        said = audited(engine)
        request = engine.parts.request(ASK, **({"max_error": 0.1} | options))
        assert request.private or not is_drawn(request)
    assert not any(each.id.endswith("/device") for each in said)


@pytest.mark.parametrize(
    "options",
    [{"tools": [{"name": "count"}]}, {"images": [Image.from_bytes(b"")]}],
    ids=["tools", "images"],
)
def test_nor_is_what_has_more_than_words(counted: Settings, options: dict[str, Any]) -> None:
    with engine_of(counted, WRONG_HERE) as engine:
        reply = engine.complete(ASK)
        audited(engine)
        auditor, before = engine.parts.auditor, len(scripted(engine).requests)
        assert auditor is not None and before == 1
        auditor.watch(engine.parts.request(ASK, **options), reply)
        assert len(audited(engine)) == before == len(scripted(engine).requests)


def test_nothing_is_answered_afterwards_without_a_share(counted: Settings) -> None:
    with engine_of(counted.with_changes(audit_share=0.0), RIGHT_HERE) as engine:
        assert engine.complete(ASK).source == "cloud"
        assert scripted(engine).requests == []


def test_a_thumb_on_the_clouds_answer_is_not_one_on_the_devices(counted: Settings) -> None:
    wrong = word_tokens("It is 17 I think so", logprob=-0.01, margin=6.0, entropy=0.05)
    with engine_of(counted, wrong) as engine:
        reply = engine.complete(ASK)
        audited(engine)
        engine.feedback(reply.id, right=True)
        said = {each.id: (each.confidence is None, each.right) for each in audited(engine)}
    assert said == {reply.id: (True, True), f"{reply.id}/device": (False, False)}


# -- and no user waits for it ----------------------------------------------------------------------


def hold(engine: Engine) -> Generator[Event, None, None]:
    """A user's stream that is at work on the device."""
    stream = engine.stream(ASK, policy="local_only", threshold=0.0)
    next(stream)
    return stream


def test_while_the_device_has_users_all_wait_and_too_many_are_dropped(counted: Settings) -> None:
    with engine_of(counted.with_changes(max_error=None), RIGHT_HERE) as engine:
        stream = hold(engine)
        for _ in range(40):
            assert engine.complete(ASK, max_error=0.1).source == "cloud"
        auditor = engine.parts.auditor
        assert auditor is not None and not auditor.wait(0.05)
        assert len(scripted(engine).requests) == 1, "only the user's"
        lost = auditor.lost
        assert lost >= 40 - MOST_WAITING - 1
        list(stream)
        assert len(audited(engine)) == 40 - lost


def test_a_user_whom_the_cloud_answers_leaves_the_device_free(counted: Settings) -> None:
    with engine_of(counted, RIGHT_HERE) as engine:
        stream = engine.stream(ASK)
        first = next(stream)
        assert isinstance(first, Switched) and first.to == "cloud"
        engine.complete(ASK)
        assert len(audited(engine)) == 1, "although the stream is still open"
        stream.close()


def test_a_user_who_comes_interrupts_it_and_it_begins_again(counted: Settings) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(ScriptedBackend):
        @override
        def generate(
            self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
        ) -> TokenStream:
            for token in super().generate(request, already=already):
                yield token
                if len(self.requests) == 1:
                    begun.set()
                    assert go_on.wait(30)

    settings = counted.with_changes(max_error=None)
    with Engine(settings, backend=Slow([RIGHT_HERE])) as engine:
        engine.complete(ASK, max_error=0.1)
        assert begun.wait(30)
        stream = hold(engine)
        go_on.set()
        assert not audited_soon(engine), "it has stopped, and waits"
        list(stream)
        (said,) = audited(engine)
        assert said.right
        assert len(scripted(engine).requests) == 3


def audited_soon(engine: Engine) -> bool:
    assert engine.parts.auditor is not None
    return engine.parts.auditor.wait(0.2)


def test_a_forked_child_does_not_wait_for_its_parents_users(counted: Settings) -> None:
    with engine_of(counted.with_changes(max_error=None), RIGHT_HERE) as engine:
        stream = hold(engine)
        engine.parts.forget()
        stream.close()
        engine.complete(ASK, max_error=0.1)
        assert len(audited(engine)) == 1


def test_closing_drops_what_waits_for_the_device_and_does_not_hang(counted: Settings) -> None:
    engine = engine_of(counted.with_changes(max_error=None), RIGHT_HERE)
    stream = hold(engine)
    for _ in range(3):
        engine.complete(ASK, max_error=0.1)
    auditor = engine.parts.auditor
    assert auditor is not None
    auditor.close()
    assert auditor.wait(30) and auditor.lost == 3
    assert engine.ledger.verdicts("") == []
    list(stream)
    engine.close()


# -- what a verdict proves, and for whom -----------------------------------------------------------


def test_a_key_is_a_workload_and_learns_nothing_from_another(settings: Settings) -> None:
    # Sixty equal requests are a drift, which would be told besides.
    with engine_of(settings.with_changes(on_drift="report")) as engine:
        assert LIFTED in judge(engine, 60, key="ann").decision.objective
        assert engine.complete("Where?", max_error=0.1, budget_key="bob").decision.objective == TEN
        assert engine.complete("Where?", max_error=0.1).decision.objective == TEN


def test_another_calibration_begins_anew(settings: Settings, tmp_path: Path) -> None:
    with engine_of(settings) as engine:
        judge(engine, 60)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(CHAT | {"name": "fitted-again"}))
    with engine_of(settings.with_changes(calibration=str(other))) as engine:
        assert engine.complete("Where?", max_error=0.1).decision.objective == TEN


def test_verdicts_on_what_was_kept_prove_nothing_of_what_left(routed: Settings) -> None:
    """Only answers from the threshold on stay while a cloud is open, so nobody judged the rest."""
    with engine_of(routed) as engine:
        kept = judge(engine, 60)
        assert kept.decision.kept_from == kept.decision.threshold
        assert kept.decision.threshold is not None and kept.decision.threshold >= 0.8
        assert LIFTED in kept.decision.objective


def test_a_verdict_on_the_clouds_answer_says_nothing_of_the_device(routed: Settings) -> None:
    with engine_of(routed, UNSURE) as engine:
        left = judge(engine, 40)
        (said, *_) = engine.ledger.verdicts("")
    assert (left.source, said.right, said.confidence) == ("cloud", True, None)
    assert left.decision.objective == TEN


def test_a_second_verdict_replaces_the_first_but_no_program_overrules_a_person(
    settings: Settings,
) -> None:
    with engine_of(settings) as engine:
        reply = engine.complete("Where?", check=lambda reply: "Paris" in reply.text)
        verdicts = engine.parts.verdicts

        def now() -> tuple[bool, str]:
            (said,) = engine.ledger.verdicts("")
            return said.right, said.judged_by

        assert now() == (True, "check")
        verdicts.say(reply.id, False, "audit")
        assert now() == (False, "audit")
        engine.feedback(reply.id, right=True)
        assert now() == (True, "person")
        verdicts.say(reply.id, False, "audit")
        assert now() == (True, "person")
        engine.feedback(reply.id, right=False)
        assert now() == (False, "person")


def test_a_verdict_that_was_changed_takes_its_proof_back(settings: Settings) -> None:
    with engine_of(settings) as engine:
        assert LIFTED in judge(engine, 60).decision.objective
        for said in engine.ledger.verdicts("")[:20]:
            engine.feedback(said.id, right=False)
        assert LIFTED not in engine.complete("Where?", max_error=0.1).decision.objective


def test_nothing_is_learnt_from_private_requests_unless_that_is_allowed(
    settings: Settings,
) -> None:
    with engine_of(settings) as engine:
        reply = engine.complete("Where?", private=True, check=lambda _: True)
        with pytest.raises(InvalidRequest, match="private, and nothing is learnt"):
            engine.feedback(reply.id, right=True)
        assert engine.ledger.verdicts("") == []
    with engine_of(settings.with_changes(learn_from_private=True)) as engine:
        engine.feedback(reply.id, right=True)
        assert len(engine.ledger.verdicts("")) == 1


def test_the_cloud_in_an_audit_says_whether_it_agrees(routed: Settings) -> None:
    settings = routed.with_changes(audit_share=1.0)
    with engine_of(settings) as engine:
        reply = engine.complete("Where?")
        assert engine.parts.auditor is not None and engine.parts.auditor.wait(30)
        (said,) = engine.ledger.verdicts("")
    assert (said.id, said.right, said.judged_by) == (reply.id, True, "audit")


# -- streams, many at once, an event loop ----------------------------------------------------------


def test_a_stream_under_ones_own_promise_shows_nothing_before_the_whole_is_judged(
    routed: Settings,
) -> None:
    late = (*SURE[:6], *(replace(each, logprob=-9.0) for each in SURE[:6]))
    with engine_of(routed) as engine:
        judge(engine, 60)
    with engine_of(routed, late) as engine:
        *events, last = engine.stream("Where?", max_error=0.1)
    assert isinstance(last, Finished) and LIFTED in last.reply.decision.objective
    shown = "".join(each.text for each in events if isinstance(each, TextDelta))
    assert (last.reply.source, shown) == ("cloud", "It is in Paris I think so")


def test_a_stream_that_was_shown_early_teaches_nothing_while_it_might_have_left(
    routed: Settings,
) -> None:
    with engine_of(routed) as engine:
        *_, last = engine.stream("Where?")
        assert isinstance(last, Finished) and last.reply.source == "local"
        engine.feedback(last.reply.id, right=True)
        assert engine.ledger.verdicts("")[0].above is None
        assert engine.parts.verdicts.outlooks()[0].learnt.verdicts == 0
    alone = routed.with_changes(policy="local_only")
    with engine_of(alone) as engine:
        *_, last = engine.stream("Where?")
        assert isinstance(last, Finished)
        engine.feedback(last.reply.id, right=True)
        assert engine.ledger.verdicts("")[-1].above == 0.0


def test_many_at_once_lose_no_verdict(settings: Settings) -> None:
    async def all_of_them() -> None:
        async with AsyncEngine(settings, backend=ScriptedBackend([SURE])) as engine:
            replies = await asyncio.gather(
                *(engine.complete("Where?", check=lambda _: True) for _ in range(20))
            )
            await asyncio.gather(*(engine.feedback(one.id, right=False) for one in replies))
            said = engine.engine.ledger.verdicts("")
            assert len(said) == 20 and not any(each.right for each in said)
            assert engine.engine.parts.verdicts.outlooks()[0].learnt.verdicts == 20

    asyncio.run(all_of_them())


def test_what_another_process_says_is_known_soon(settings: Settings) -> None:
    clock = 100.0
    with engine_of(settings) as engine, engine_of(settings) as other:
        reply = other.complete("Where?")
        verdicts = Verdicts(settings, engine.ledger, lambda: clock)
        assert verdicts.outlooks()[0].learnt.verdicts == 0
        other.feedback(reply.id, right=True)
        assert verdicts.outlooks()[0].learnt.verdicts == 0, "read a moment ago"
        clock += FRESH_S
        assert verdicts.outlooks()[0].learnt.verdicts == 1


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_wrong_verdict_is_one_line(settings: Settings) -> None:
    with engine_of(settings) as engine:
        for bad, words in (("nobody", "no such request"), (7, "no such request"), ("", "no such")):
            with pytest.raises(InvalidRequest, match=words):
                engine.feedback(bad, right=True)  # type: ignore[arg-type]
        reply = engine.complete("Where?")
        with pytest.raises(InvalidRequest, match="right: expected True or False"):
            engine.feedback(reply.id, right="yes")  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="check: must return True or False"):
            engine.complete("Where?", check=lambda _: "yes")  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            engine.complete("Where?", check=lambda _: bool(1 / 0))
        assert engine.ledger.verdicts("") == []


def test_a_locked_ledger_refuses_the_verdict_aloud(settings: Settings) -> None:
    ledger = Ledger(settings.ledger_path, busy_s=0.05)
    with engine_of(settings, ledger=ledger) as engine:
        reply = engine.complete("Where?")
        with lock_of(ledger.path):
            with pytest.raises(LedgerUnavailable, match="locked"):
                engine.feedback(reply.id, right=True)
            checked = engine.complete("Where?", check=lambda _: True)
            assert "locked" in checked.unrecorded, "the answer matters more"
        assert engine.ledger.verdicts("") == []


def test_a_refuted_promise_does_not_come_back_while_the_ledger_is_away(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_of(settings) as engine:
        refuted = judge(engine, 30, right=False)

        def away(_: str) -> Any:
            raise LedgerUnavailable("away")

        monkeypatch.setattr(engine.ledger, "verdicts", away)
        engine.parts.verdicts._known[""].read_at -= FRESH_S  # time passes
        again = engine.complete("Where?", max_error=0.1)
        assert again.decision.objective == refuted.decision.objective


class lock_of:
    """Another process that holds the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def test_threads_that_ask_and_judge_agree_with_the_ledger(settings: Settings) -> None:
    with engine_of(settings) as engine:
        threads = [threading.Thread(target=judge, args=(engine, 10)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert engine.parts.verdicts.outlooks()[0].learnt.verdicts == 40
