"""Schemas that once ended, bloated or stalled the process, sent to a server of its own process."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from edgewise.local.store import InstalledModel
from edgewise_bench.campaigns.schemas import TOO_MUCH, UNSPELT, bent_schema
from tests.conftest import MODELS_DIR

pytestmark = pytest.mark.real_model

SERVE = """
import sys
from edgewise import Settings
from edgewise.server.serve import running

settings = Settings.load(
    {}, cache_dir=sys.argv[1], data_dir=sys.argv[2], threads=1, fetch_default_model=False,
    server={"port": 0, "drain_s": 1.0},
)
with running(settings) as url:
    print(url, flush=True)
    sys.stdin.read()
"""
# More of them: HOSTILE_SCHEMAS=5000 python -m pytest tests/server/test_hostile_schemas.py -s
ROUNDS = int(os.environ.get("HOSTILE_SCHEMAS", "150"))
MOST_MB = 150  # that all of these together may add to the process


class Child:
    def __init__(self, data: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(MODELS_DIR.parent), str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"EDGEWISE_MODEL": "tiny"},  # whatever this machine has chosen
        )
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        self.http = httpx2.Client(base_url=url, timeout=250)

    def chat(self, **body: Any) -> httpx2.Response:
        asked = [{"role": "user", "content": "Answer as JSON."}]
        whole = {"model": "local", "messages": asked, "max_tokens": 24, **body}
        return self.http.post("/v1/chat/completions", content=json.dumps(whole))

    def held(self, schema: Any, **body: Any) -> httpx2.Response:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        return self.chat(response_format=form, **body)

    def is_well(self) -> bool:
        """Alive, and the next good request is served."""
        answer = self.chat(max_tokens=2)
        return self._process.poll() is None and answer.status_code == 200

    def peak_mb(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status")
        if not status.exists():  # only Linux tells
            return 0
        lines = dict(line.split(":", 1) for line in status.read_text("ascii").splitlines())
        return int(lines["VmHWM"].split()[0]) // 1024

    def end(self) -> None:
        self.http.close()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def child(
    default_model: InstalledModel,
    default_function_model: InstalledModel,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Child]:
    started = Child(tmp_path_factory.mktemp("data"))
    try:
        assert started.is_well()
        yield started
    finally:
        started.end()


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_a_400_that_names_the_limit(child: Child, name: str) -> None:
    schema, words = TOO_MUCH[name]
    before = child.peak_mb()
    for whole in (schema, {"type": "object", "properties": {"x": schema}, "required": ["x"]}):
        if "$defs" not in schema or whole is schema:
            answer = child.held(whole)
            assert answer.status_code == 400, answer.text
            assert words in answer.json()["error"]["message"]
    assert child.is_well()
    assert child.peak_mb() - before <= MOST_MB


@pytest.mark.parametrize("name", UNSPELT)
def test_what_the_vocabulary_lacks_is_written_all_the_same(child: Child, name: str) -> None:
    schema, value = UNSPELT[name]
    for temperature in (0.0, 1.5):
        answer = child.held(schema, temperature=temperature, max_tokens=60)
        assert answer.status_code == 200, answer.text
        assert json.loads(answer.json()["choices"][0]["message"]["content"]) == value
    assert child.is_well()


def test_a_tool_can_be_given_the_same_values(child: Child) -> None:
    odd = ["\x04", "\U00050000", ["\U00050000"], {"\x1d\U00050000": "\U00050000"}]
    for value in odd:
        schema = {"type": "object", "properties": {"x": {"enum": [value]}}, "required": ["x"]}
        tool = {"type": "function", "function": {"name": "do_it", "parameters": schema}}
        asked = [{"role": "user", "content": "Do it now, please, do it with x."}]
        answer = child.chat(messages=asked, tools=[tool], tool_choice="required")
        assert answer.status_code in (200, 400), answer.text
    assert child.is_well()


def is_valid(schema: Any, text: str) -> bool:
    value = json.loads(text)
    try:
        validator = jsonschema_rs.validator_for(schema)
    except ValueError:  # half a surrogate pair in a name, or a pattern in our own words
        return True
    return bool(validator.is_valid(value))


def test_no_schema_of_many_ends_the_process(child: Child) -> None:
    rng = random.Random(15)
    before, count = child.peak_mb(), Counter[str]()
    for number in range(ROUNDS):
        schema = bent_schema(rng)
        answer = child.held(schema, max_tokens=16, temperature=rng.choice([0, 1.5]))
        assert answer.status_code in (200, 400), (number, schema, answer.text)
        count["answered" if answer.status_code == 200 else "refused"] += 1
        if answer.status_code == 200 and "oneOf" not in json.dumps(schema):
            choice = answer.json()["choices"][0]
            if choice["finish_reason"] == "stop":
                count["finished"] += 1
                assert is_valid(schema, choice["message"]["content"]), (schema, answer.text)
    assert min(count["finished"], count["refused"]) > ROUNDS // 10, "the runtime saw too few"
    assert child.is_well()
    assert child.peak_mb() - before <= MOST_MB
    sys.stdout.write(f"{ROUNDS} schemas: {dict(count)}, {child.peak_mb() - before} MB more\n")
