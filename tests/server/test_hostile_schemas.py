"""Schemas that once ended, bloated or stalled the process, sent to a server of its own process."""

from __future__ import annotations

import json
import os
import random
import string
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from edgewise.local.store.store import InstalledModel
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

Schema = dict[str, Any]
TOO_MUCH: dict[str, tuple[Schema, str]] = {
    "a number of 19 digits": (
        {"type": "integer", "minimum": 9223372036854775807},
        "minimum has more than 15 digits",
    ),
    "a pattern that can be read in many ways": (
        {"type": "string", "pattern": "^((a?){50}){50}b$"},
        "states",
    ),
    "a pattern with an escape of the runtime's own": (
        {"type": "string", "pattern": r"^\U00050000$"},
        r"\U is not understood",
    ),
    "three thousand optional properties": (
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}},
        "more than 1,000 schemas",
    ),
    "twenty thousand choices": (
        {"enum": [f"value {n}" for n in range(20_000)]},
        "more than 20,000 values",
    ),
    "itself and nothing else": (
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "refers to itself",
    ),
    "a length of a million": (
        {"type": "string", "minLength": 1_000_000},
        "minLength is more than 2,000",
    ),
    "a keyword that nobody knows": ({"type": "object", "propertyNames": {}}, "propertyNames"),
}
# Bytes that the default model's vocabulary does not have: no token may be asked to write them.
UNSPELT: dict[str, tuple[Schema, Any]] = {
    **{
        f"a pattern of {code:#04x}": (
            {"type": "string", "pattern": f"^\\u{code:04x}$"},
            chr(code),
        )
        for code in (0x04, 0x06, 0x13, 0x14, 0x16, 0x1D)
    },
    "a pattern of an empty plane": ({"type": "string", "pattern": "^\U00050000$"}, "\U00050000"),
    "a choice of an empty plane": ({"enum": ["\U00050000"]}, "\U00050000"),
    "a name of an empty plane": (
        {"properties": {"\U00050000": {"const": 1}}, "required": ["\U00050000"]},
        {"\U00050000": 1},
    ),
}


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


def hostile(rng: random.Random, depth: int = 3) -> Any:
    """A schema with something odd in it: large, empty, contradictory, circular, unspellable."""
    odd = rng.choice(["\x04", "\U00050000", "\ud800", '"', "\\", "é", "", "a" * 300])
    large = rng.choice([0, 1, -1, 3, 10**6, 2**63, -(10**30), 1e300, 0.1])
    leaves: list[Any] = [
        {"type": "integer", "minimum": large, "maximum": rng.choice([large, 5, 10**18])},
        {"type": "number", "exclusiveMinimum": large},
        {"type": "string", "minLength": rng.choice([0, 2, large]), "maxLength": rng.choice([2, 9])},
        {"pattern": rng.choice([f"^{odd}$", odd, f"[^{odd}]", f"({odd}|{odd})*"])},
        {"type": "string", "pattern": "".join(rng.choices(string.printable, k=12))},
        {"type": "string", "pattern": f"^((a?){{{rng.randint(1, 60)}}}){{{rng.randint(1, 60)}}}$"},
        {"enum": [odd, large, None, [odd], {odd: odd}][: rng.randint(0, 5)]},
        {"const": {odd: [odd]}},
        {"$ref": rng.choice(["#", "#/$defs/a", "#/properties/x", "nowhere"])},
        rng.choice([True, False, None, 7, [], {}]),
    ]  # fmt: skip
    if depth == 0:
        return rng.choice(leaves)
    inner = [hostile(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    names = [rng.choice(["x", odd, f"k{number}"]) for number in range(len(inner))]
    return rng.choice(
        [
            *leaves,
            {"type": "object", "properties": dict(zip(names, inner, strict=True)),
             "required": rng.choice([[], names[:1], [odd]])},
            {"type": "array", "items": hostile(rng, depth - 1), "minItems": rng.choice([0, 2, 99])},
            {"type": "array", "prefixItems": inner},
            {rng.choice(["anyOf", "oneOf", "allOf"]): inner},
            {"type": "object", "additionalProperties": hostile(rng, depth - 1)},
            {"$defs": {"a": hostile(rng, depth - 1)}, "$ref": "#/$defs/a"},
            {"type": rng.choice([["string", "null"], "object", [], "odd", None]), "items": inner},
        ]
    )  # fmt: skip


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
        schema = hostile(rng)
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
