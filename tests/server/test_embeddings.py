from __future__ import annotations

import base64
import json
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import openai
import pytest
from typing_extensions import override

from edgewise.errors import ExtraMissing
from edgewise.local import onnx_embedder
from edgewise.local.backend import nothing
from edgewise.server import wire
from edgewise.testing import LoopbackCloud, ScriptedEmbedder, Status
from edgewise.types.embeddings import Embedded
from tests.conftest import MODELS_DIR
from tests.server.conftest import Serving
from tests.server.served import wait_until
from tests.server.test_disconnects import clean


def test_a_text_becomes_a_vector_and_its_space_is_named(serving: Serving) -> None:
    served = serving(embedder=ScriptedEmbedder())
    made = served.openai().embeddings.create(model="auto", input="a small boat")
    (row,) = made.data
    assert len(row.embedding) == 32 and row.index == 0
    assert sum(value * value for value in row.embedding) == pytest.approx(1)
    assert (made.model, made.edgewise["space"]) == ("local/scripted", "scripted@none-32")
    assert made.usage.prompt_tokens == made.usage.total_tokens == 3
    assert made.edgewise["decision"]["code"] == "embedded_local"


def test_texts_keep_their_order_and_base64_is_the_same_numbers(serving: Serving) -> None:
    served = serving(embedder=ScriptedEmbedder())
    asked = {"model": "local", "input": ["one", "two"]}
    plain = served.http.post("/v1/embeddings", json=asked).json()
    coded = served.http.post("/v1/embeddings", json={**asked, "encoding_format": "base64"}).json()
    assert [row["index"] for row in plain["data"]] == [0, 1]
    assert plain["data"][0]["embedding"] != plain["data"][1]["embedding"]
    for left, right in zip(plain["data"], coded["data"], strict=True):
        assert array("f", base64.b64decode(right["embedding"])).tolist() == left["embedding"]


def test_the_cloud_is_asked_by_name_and_for_dimensions_the_device_lacks(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(embedder=ScriptedEmbedder())
    client = served.openai()
    named = client.embeddings.create(model="cloud/openai", input="a boat")
    assert named.edgewise["source"] == "cloud" and named.model.startswith("cloud/openai/")
    wider = client.embeddings.create(model="auto", input="a boat", dimensions=8)
    assert len(wider.data[0].embedding) == 8
    assert wider.edgewise["decision"]["code"] == "handoff_other_space"
    assert wider.edgewise["space"].endswith("-8")
    here = client.embeddings.create(model="auto", input="a boat", dimensions=32)
    assert here.edgewise["source"] == "local"
    assert len(cloud.requests) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": []},
        {"input": ""},
        {"input": [[1, 2, 3]]},
        {"input": [1, 2, 3]},
        {"input": 5},
        {},
        {"input": "a", "dimensions": 0},
        {"input": "a", "encoding_format": "int8"},
        {"input": ["a"] * 2049},
        {"input": ["a" * 600_001] * 2},
        {"input": "a", "metadata": {"privacy": "perhaps"}},
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_embedded_is_refused_by_name(serving: Serving, wrong: Any) -> None:
    served = serving(embedder=ScriptedEmbedder())
    answer = served.http.post("/v1/embeddings", json={"model": "auto", **wrong})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/api/embed", "/api/embeddings"])
def test_too_much_text_is_refused_at_ollamas_door_too(serving: Serving, path: str) -> None:
    served = serving(embedder=ScriptedEmbedder())
    asked = {"model": "auto", "input": "a" * 1_200_001, "prompt": "a" * 1_200_001}
    answer = served.http.post(path, json=asked)
    assert answer.status_code == 400 and "1,200,000 characters" in answer.text


class EndlessEmbedder(ScriptedEmbedder):
    """Is never done with a text that says so, as an embedder with a book."""

    rounds = 0

    @override
    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        while texts == ["endless"]:
            self.rounds += 1
            pause()
            time.sleep(0.001)
        return super().embed(texts, pause=pause)


def test_who_leaves_frees_the_embedder_and_until_then_others_have_their_turns(
    serving: Serving,
) -> None:
    embedder = EndlessEmbedder()
    served = serving(embedder=embedder)
    body = b'{"model": "local", "input": "endless"}'
    connection = served.raw()
    connection.sendall(
        b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    wait_until(lambda: embedder.rounds > 2)
    other = served.openai().embeddings.create(model="local", input="a small boat")
    assert other.data[0].embedding
    connection.close()
    clean(served)
    assert served.state.engine.ledger.recent()[0]["error_code"] == "cancelled"


def test_private_texts_stay_and_a_foreign_space_is_refused(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(embedder=ScriptedEmbedder())
    private = {"x-edgewise-privacy": "private"}
    asked = {"model": "auto", "input": "mine", "dimensions": 8}
    assert served.http.post("/v1/embeddings", json=asked, headers=private).status_code == 400
    other = {"model": "local", "input": "mine", "metadata": {"space": "other@int8-9"}}
    refused = served.http.post("/v1/embeddings", json=other)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "space_mismatch")
    for space in ("other@int8-9", "gemini/some-embedding-8"):
        asked = {"model": "auto", "input": "mine", "metadata": {"space": space}}
        assert served.http.post("/v1/embeddings", json=asked).status_code == 400
    assert not cloud.requests


def test_many_texts_are_asked_in_batches_of_one_provider(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(embedder=ScriptedEmbedder())
    texts = [f"text {number}" for number in range(200)]
    made = served.openai().embeddings.create(model="cloud", input=texts)
    assert [row.index for row in made.data] == list(range(200))
    assert len(cloud.requests) == 3


def test_a_missing_extra_is_not_implemented_and_says_what_to_install(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise ExtraMissing("embed", "onnxruntime")

    monkeypatch.setattr(onnx_embedder, "require_runtime", missing)
    served = serving()
    with pytest.raises(openai.APIStatusError) as caught:
        served.openai().embeddings.create(model="local", input="a boat")
    assert caught.value.status_code == 501
    assert "comes with the extra 'embed'; `edgewise doctor` says there how" in caught.value.message
    assert caught.value.code == "missing_extra"


def test_a_cloud_that_fails_is_a_fault_of_the_cloud(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(embedder=ScriptedEmbedder())
    cloud.always(Status(400))
    with pytest.raises(openai.BadRequestError):
        served.openai().embeddings.create(model="cloud", input="a boat")
    assert served.metric('edgewise_requests_total{code="cloud_rejected",endpoint="embeddings"') == 1


def test_embedding_is_in_the_ledger_without_its_text(serving: Serving) -> None:
    served = serving(embedder=ScriptedEmbedder())
    made = served.openai().embeddings.create(model="auto", input="a secret boat")
    row = served.state.engine.ledger.get(made.edgewise["id"])
    assert row is not None and row["task"] == "embed" and row["prompt_text"] is None


@pytest.mark.real_model
def test_the_real_embedder_puts_like_beside_like(serving: Serving) -> None:
    settings = {"cache_dir": MODELS_DIR.parent, "threads": 1, "fetch_default_model": False}
    served = serving(settings=settings)
    if not (MODELS_DIR / "all-minilm-l6-v2").is_dir():
        pytest.skip("run `edgewise pull all-minilm-l6-v2` first")
    texts = ["A cat sat on the mat.", "A kitten rested on the rug.", "Interest rates rose."]
    made = served.openai().embeddings.create(model="local", input=texts)
    cat, kitten, rates = (row.embedding for row in made.data)
    near = sum(a * b for a, b in zip(cat, kitten, strict=True))
    far = sum(a * b for a, b in zip(cat, rates, strict=True))
    assert near > far + 0.3


def test_many_vectors_are_written_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the encoder writes, no other thread runs, and the event loop is one."""
    lengths: list[int] = []
    dumps = json.dumps

    def noting(value: object, **options: Any) -> str:
        text = dumps(value, **options)
        lengths.append(len(text))
        return text

    monkeypatch.setattr("edgewise.server.wire.json.dumps", noting)
    vectors = [{"index": number, "embedding": [0.25] * 40} for number in range(2_048)]
    for value in ({"data": vectors, "model": "é"}, {"embeddings": [[0.5] * 40] * 2_048}):
        lengths.clear()
        written = wire.to_json(value)
        assert json.loads(written) == value
        assert b" " not in written
        assert max(lengths) < 1_000
