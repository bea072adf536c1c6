"""Clients that others wrote for decisions, unchanged, over HTTP against our server.

Those that the development extra does not bring are in one of the Pythons that
EDGEWISE_EXAMPLES_PYTHON names (`make clients`).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cloud.decisions import by_name_payload
from edgewise.testing import ScriptedBackend
from tests.cloud.test_adapters_decisions import asked
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.server.test_examples import python_with, run

SCRIPT: dict[str, float | dict[str, float]] = {
    "refund": 0.96,
    "team": {"billing": 0.9, "tech": 0.1},
    "anger": {"0": 0.2, "1": 0.8},
}
# What every client is asked to ask, in its own words; each prints the same three lines.
SAID = ["refund 0.96", "team billing 0.90", "anger 0.80"]
PRINTED = """
print(f"refund {refund:.2f}")
print(f"team {team.choice} {team.probabilities['billing']:.2f}")
print(f"anger {anger.score:.2f}")
"""
TYPESAFE = """
import sys
from typesafe_sdk import Box, Choice, Noul, Score, TypeSafeClient, TypeSafeUnprocessableEntityError
with TypeSafeClient(
    api_key="any", base_url=sys.argv[1], model="auto", compression="zstd"
) as client:
    # Packed from 1,024 bytes on.
    made = client.system_one({"mail": "Charged twice. " * 100}, {
        "refund": Noul(instructions="Do they want money back?"),
        "team": Choice(instructions="Who?", criteria={"billing": "payments", "tech": None}),
        "anger": Score(instructions="How angry?", criteria=["calm", "furious"]),
    })
    refund, team, anger = made.nouls["refund"].noul, made.choices["team"], made.scores["anger"]
    assert client.models.list().models[0].name == "auto"
    try:
        client.system_one("state", {"logo": Box(instructions="Where is the logo?")})
        raise SystemExit("a question about a picture was taken")
    except TypeSafeUnprocessableEntityError as error:
        assert "questions.logo.type: expected one of noul, choice, score" in str(error), error
"""
JEV_LITE = """
import os, sys
from jev_lite import Choice, Noul, OpenAIDecisions, Score, TypeSafe
base = sys.argv[1]
kind = OpenAIDecisions if sys.argv[2] == "decisions" else TypeSafe
base += "/v1" if sys.argv[2] == "decisions" else ""
with kind(api_key="any", base_url=base, model="auto") as client:
    made = client.system_one.create(state={"mail": "Charged twice."}, questions={
        "refund": Noul(instructions="Do they want money back?"),
        "team": Choice(instructions="Who?", criteria={"billing": "payments", "tech": None}),
        "anger": Score(instructions="How angry?", criteria=["calm", "furious"]),
    })
    refund, team, anger = made.answers["refund"].noul, made.answers["team"], made.answers["anger"]
"""
SYSTEMONE = """
import sys
from systemone import Choice, Client, Noul, Score
with Client(sys.argv[1], api_key="any") as client:
    made = client.system_one({"mail": "Charged twice."}, {
        "refund": Noul("Do they want money back?"),
        "team": Choice("Who?", {"billing": "payments", "tech": None}),
        "anger": Score("How angry?", ["calm", "furious"]),
    })
    refund, team, anger = made.nouls["refund"].noul, made.choices["team"], made.scores["anger"]
"""


@pytest.fixture
def served(serving: Serving) -> Served:
    return serving(ScriptedBackend.deciding(SCRIPT), settings={"threshold": 0.0})


@pytest.mark.parametrize(
    ("package", "script", "more"),
    [
        ("typesafe_sdk", TYPESAFE, ()),
        ("jev_lite", JEV_LITE, ("systemone",)),
        ("jev_lite", JEV_LITE, ("decisions",)),
        ("systemone", SYSTEMONE, ()),
    ],
    ids=["typesafe-sdk", "jev-lite", "jev-lite over decisions", "systemone-client"],
)
def test_a_client_reads_the_answers_as_its_own(
    served: Served, package: str, script: str, more: tuple[str, ...]
) -> None:
    told = run(python_with(package), "-c", script + PRINTED, served.url, *more)
    assert told.splitlines() == SAID


def test_what_leaves_by_name_is_what_typesafes_own_schema_takes() -> None:
    sent = json.dumps({"model": "jev-latest", **by_name_payload(asked())})
    script = (
        "import sys\n"
        "from typesafe_sdk._schemas.models import SystemOneRequest\n"
        "read = SystemOneRequest.model_validate_json(sys.argv[1])\n"
        "print(*(each.root.type for each in read.questions.values()))"
    )
    assert run(python_with("typesafe_sdk"), "-c", script, sent).split() == [
        "noul",
        "choice",
        "score",
    ]


def test_openais_client_reads_the_answers_as_its_own(served: Served) -> None:
    made = served.openai().decisions.create(
        model="auto",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "Charged twice."}]}],
        questions=[
            {"type": "predicate", "name": "refund", "instructions": "They want money back."},
            {
                "type": "choice",
                "name": "team",
                "instructions": "Who?",
                "choices": [{"value": "billing", "description": "payments"}, {"value": "tech"}],
            },
            {
                "type": "score",
                "name": "anger",
                "instructions": "How angry?",
                "levels": [{"label": "calm"}, {"label": "furious"}],
            },
        ],
    )
    refund, team, anger = made.answers
    assert refund.probability == pytest.approx(0.96)
    assert (team.choice, team.probabilities[0].probability) == ("billing", pytest.approx(0.9))
    assert anger.score == pytest.approx(0.8) and anger.probabilities[1].label == "furious"
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    assert made.edgewise["answers"][0]["source"] == "local"


def test_jevbench_runs_all_its_relations(served: Served, tmp_path: Path) -> None:
    """Its one worked case: each of its 50 relations is asked once, option order among them."""
    report = tmp_path / "report.json"
    run(
        *(python_with("jevbench"), "-m", "jevbench", "eval", "--suite", "examples", "--no-cache"),
        *("--url", f"{served.url}/v1/systemone", "--model", "auto", "--out", str(report)),
        JEVBENCH_API_KEY="any",
    )
    written = report.read_text("utf-8")
    told = json.loads(written)
    assert not told.get("errors"), written[:2000]
    assert served.metric("edgewise_requests_total{") >= 40
