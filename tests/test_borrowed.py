"""Another runtime with the very same bits: its confidence is borrowed, and called so everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import Engine
from edgewise.calibrations import calibration_of, model_key, own_path, shipped_document
from edgewise.calls.check import CALLS
from edgewise.cli.doctor import _without_calibration
from edgewise.cli.render import summary
from edgewise.decide.calibration import CHAT
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud, ScriptedBackend
from edgewise.types.replies import Finished, Switched
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.server.conftest import Serving
from tests.server.conftest import cloud as cloud
from tests.server.conftest import serving as serving

PLAIN = "smollm2-135m-instruct-q8_0"
FACTS = DeviceFacts(
    backend="onnx", model="smollm2-135m-instruct", quantisation="Q8_0", context_tokens=2048
)
SAME = replace(FACTS, same_bits_as=PLAIN)


def test_a_chat_model_on_onnx_is_not_at_home() -> None:
    assert model_key(FACTS) == f"{PLAIN}@onnx"
    assert calibration_of(Settings(), FACTS, CHAT).name == "transfer", "its bits are unknown"


def test_only_the_same_bits_borrow_and_nothing_is_promised() -> None:
    found = calibration_of(Settings(), SAME, CHAT)
    home = calibration_of(Settings(), replace(FACTS, backend="llama_cpp"), CHAT)
    assert found.name == f"{PLAIN}:borrowed" and not found.verified and home.verified
    assert found.threshold == home.threshold and found.final == home.final
    assert home.measured.risk and not found.measured.risk, "nobody has counted its errors"
    assert home.with_state is not None and found.with_state is not None
    assert not found.with_state.verified and not found.with_state.measured.risk
    calls = replace(SAME, model="edgewise-caller", same_bits_as="edgewise-caller-q8_0")
    assert calibration_of(Settings(), calls, CALLS).name.endswith(":borrowed")
    stranger = calibration_of(Settings(), replace(SAME, same_bits_as="stranger-q8_0"), CHAT)
    assert stranger.name == "transfer", "what is unverified itself is not lent"


def test_a_file_of_the_engine_comes_first(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    path = own_path(settings, model_key(SAME), "chat")
    path.parent.mkdir(parents=True)
    document = dict(shipped_document(PLAIN, "chat") or {}) | {"name": f"{PLAIN}@onnx+own.1"}
    path.write_text(json.dumps(document), "utf-8")
    found = calibration_of(settings, SAME, CHAT)
    assert found.verified and found.name == f"{PLAIN}@onnx+own.1" and found.measured.risk


def test_replies_say_borrowed_and_a_stated_risk_leaves(
    cloud: LoopbackCloud, own_home: Path, run: Run
) -> None:
    cloud.always("Paris.")
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url},
        data_dir=own_home / "data",
    )
    with Engine(settings, backend=ScriptedBackend.confident("In Paris.", facts=SAME)) as engine:
        kept = engine.complete("Where?")
        promised = engine.complete("Where?", max_error=0.2)
    assert (kept.source, kept.confidence_verified) == ("local", False)
    assert kept.decision.calibration == f"{PLAIN}:borrowed"
    assert kept.decision.reason.startswith("borrowed confidence 0.")
    assert "(borrowed)" in repr(kept) and "(borrowed)" in summary(kept).plain
    assert promised.decision.code == "handoff_risk_unreachable", "it never claims a risk"
    with Engine(settings, backend=ScriptedBackend.doubtful("Lyon?", facts=SAME)) as engine:
        switched, *_, last = engine.stream("Where?")
    assert isinstance(switched, Switched) and isinstance(last, Finished)
    assert not switched.confidence_verified and "borrowed confidence" in switched.reason


def test_the_ledger_and_why_say_so(run: Run) -> None:
    with Engine(backend=ScriptedBackend.confident("In Paris.", facts=SAME)) as engine:
        engine.complete("Where?")
    assert "(borrowed)" in run("ledger", "--last", "1").out
    told = run("why", "--last").out
    assert "o borrowed confidence" in told and "same bits in another runtime" in told
    assert "what the final score weighed" in told, "the file that lent it is found"
    assert run("why", "--last", "--json").json["verified"] is False


def test_the_server_says_so(serving: Serving) -> None:
    served = serving(ScriptedBackend.confident("In Paris.", facts=SAME))
    whole = served.chat()
    assert whole.headers["x-edgewise-confidence-verified"] == "borrowed"
    report = whole.json()["edgewise"]
    assert report["confidence_verified"] is False
    assert report["decision"]["calibration"].endswith(":borrowed")
    assert served.metric('edgewise_confidence_count{verified="borrowed"}') == 1


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (SAME, "none of onnx: borrowed from smollm2-135m-instruct-q8_0"),
        (FACTS, "learnt from other models"),
        (replace(FACTS, evidence=False, backend="geniex"), "geniex says nothing"),
        (replace(FACTS, evidence=False, rates=True, backend="cactus"), "cactus's own confidence"),
    ],
)
def test_doctor_says_what_a_confidence_is_worth(facts: DeviceFacts, words: str) -> None:
    assert words in _without_calibration(facts, calibration_of(Settings(), facts, CHAT))
