"""An engine that says only at the end how sure it is. Once calibrated, that number decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from edgewise import Engine, parts
from edgewise.calibrate import rows
from edgewise.calibrate.rows import Question
from edgewise.calibrations import calibration_of
from edgewise.decide.calibration import CHAT
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud, ScriptedBackend
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Finished, Switched, TextDelta, Token
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.server.conftest import cloud as cloud

FACTS = DeviceFacts(
    backend="cactus",
    model="smol",
    quantisation="",
    context_tokens=2048,
    evidence=False,
    rates=True,
)


def _rated(text: str, confidence: float) -> ScriptedBackend:
    token = Token(text, has_evidence=False)
    return ScriptedBackend([(token,)], facts=FACTS, confidence=confidence)


class Knowing(ScriptedBackend):
    """Right when it says that it is sure, most of the time."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(["."], facts=FACTS)
        self._known = {each.prompt: (at, each) for at, each in enumerate(questions)}

    @override
    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        at, question = self._known[request.messages[-1].content]
        sure, lucky = at % 2 == 0, at % 10 == 3
        answer = question.accepted[0] if sure != lucky else "no idea"
        yield Token(str(answer), has_evidence=False)
        yield Finish(output_tokens=1, confidence=0.8 if sure else 0.3)


def _questions(most: int | None = None) -> list[Question]:
    """Of many kinds, all with a plain answer."""
    kinds = [f"kind {number}" for number in range(10)]
    return [
        Question(
            kind=kinds[at % 10],
            prompt=f"Name word {at}.",
            accepted=(f"answer{at}",),
            rule="mention",
        )
        for at in range(200)
    ]


@pytest.fixture
def calibrated(run: Run, monkeypatch: pytest.MonkeyPatch) -> Settings:
    backend = Knowing(_questions())
    monkeypatch.setattr(rows, "builtin_questions", _questions)
    monkeypatch.setattr(parts, "open_backend", lambda settings: backend)
    told = run("calibrate", "--builtin", "--model", "smol@cactus", "--yes", "--json").json
    assert told["score"] == "the runtime's own confidence"
    assert Path(told["file"]).name == "smol@cactus.json"
    assert told["auroc"] > 0.8
    return Settings.load()


def test_calibrate_makes_a_chance_of_it_and_the_gate_uses_that(
    calibrated: Settings, cloud: LoopbackCloud
) -> None:
    cloud.always("Paris.")
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}, data_dir=calibrated.data_dir
    )
    found = calibration_of(settings, FACTS, CHAT)
    assert found.at_end and found.verified
    with Engine(settings, backend=_rated("In Paris.", 0.8)) as engine:
        kept = engine.complete("Where?")
        promised = engine.complete("Where?", max_error=0.4)
    assert (kept.source, kept.decision.code) == ("local", "kept_confident")
    assert kept.confidence_verified and kept.confidence is not None and kept.confidence > 0.7
    assert promised.source == "local", "its errors were counted"
    with Engine(settings, backend=_rated("In Lyon.", 0.3)) as engine:
        left = engine.complete("Where?")
        events = list(engine.stream("Where?"))
    assert (left.source, left.text) == ("cloud", "Paris.")
    shown = [each.source for each in events if isinstance(each, TextDelta)]
    assert set(shown) == {"cloud"}, "a stream waits for the end: nothing is known before"
    assert isinstance(events[0], Switched) and isinstance(events[-1], Finished)


def test_uncalibrated_it_is_shown_and_decides_nothing(cloud: LoopbackCloud, tmp_path: Path) -> None:
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}, data_dir=tmp_path
    )
    with Engine(settings, backend=_rated("In Lyon.", 0.05)) as engine:
        kept = engine.complete("Where?")
        promised = engine.complete("Where?", max_error=0.2)
    assert (kept.source, kept.decision.code) == ("local", "kept_unjudged")
    assert (kept.confidence, kept.confidence_verified) == (0.05, False)
    assert kept.decision.calibration == "uncalibrated" and not kept.needs_cloud_handoff
    assert promised.decision.code == "handoff_risk_unreachable"


def test_an_answer_without_the_number_is_not_trusted(
    calibrated: Settings, cloud: LoopbackCloud
) -> None:
    cloud.always("Paris.")
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}, data_dir=calibrated.data_dir
    )
    silent = ScriptedBackend([(Token("In Lyon.", has_evidence=False),)], facts=FACTS)
    with Engine(settings, backend=silent) as engine:
        assert engine.complete("Where?").source == "cloud"


def test_what_says_nothing_is_not_asked_for_a_quarter_of_an_hour(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ScriptedBackend(["."], facts=replace(FACTS, backend="geniex", rates=False))
    monkeypatch.setattr(parts, "open_backend", lambda settings: silent)
    told = run("calibrate", "--builtin", "--model", "smol@geniex")
    assert told.code and "geniex says nothing about how sure it is" in told.err
    assert not silent.requests


def test_labelled_rows_correct_what_the_builtin_ones_found(
    calibrated: Settings, run: Run, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    lines = [
        json.dumps({"prompt": each.prompt, "answer": each.accepted[0]}) for each in _questions()
    ]
    rows.write_text("\n".join(lines), "utf-8")
    told = run("calibrate", str(rows), "--model", "smol@cactus", "--yes", "--json").json
    assert Path(told["file"]).name == "smol@cactus.json"
    found = calibration_of(calibrated, FACTS, CHAT)
    assert found.at_end and found.name.startswith("smol@cactus+own.")


def test_labelled_rows_alone_need_the_builtin_ones_first(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "open_backend", lambda settings: _rated("In Paris.", 0.8))
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "\n".join(f'{{"prompt": "{at}?", "answer": "a"}}' for at in range(100)), "utf-8"
    )
    told = run("calibrate", str(rows), "--model", "smol@cactus")
    assert told.code and "first run calibrate --builtin" in told.err
