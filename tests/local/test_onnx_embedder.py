"""The embedder with its real weights: order, length, windows, and the plain runtime beside it."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from edgewise.errors import Cancelled, ExtraMissing, GenerationFailed, ModelNotFound
from edgewise.extras import install_command
from edgewise.local import onnx_embedder
from edgewise.local.backend import nothing
from edgewise.local.onnx_embedder import OVERLAP_TOKENS, OnnxEmbedder, open_backend, windows_of
from edgewise.local.store import InstalledModel

WORDS = ["penguin", "harbour", "yeast", "violin", "glacier", "invoice", "sparrow", "lemon"]


@pytest.fixture(scope="module")
def embedder(default_embedder: InstalledModel) -> Iterator[OnnxEmbedder]:
    backend = open_backend(default_embedder, threads=1)
    yield backend
    backend.close()


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


def plainly(model: InstalledModel, text: str) -> Any:
    """The reference: one text, nothing around it, the runtime called as its manual says."""
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(model.path.parent / "tokenizer.json"))
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model.path), options)
    ids = numpy.array([tokenizer.encode(text).ids])
    ones, zeros = numpy.ones_like(ids), numpy.zeros_like(ids)
    feeds = {"input_ids": ids, "attention_mask": ones, "token_type_ids": zeros}
    mean = session.run(None, feeds)[0][0].mean(axis=0)
    return mean / numpy.linalg.norm(mean)


@pytest.mark.real_model
def test_meaning_is_nearer_than_wording(embedder: OnnxEmbedder) -> None:
    question, near, far = embedder.embed(
        ["Where do penguins live?", "Antarctica is home to many birds.", "Where do I pay the bill?"]
    ).vectors
    assert cosine(question, near) > cosine(question, far) + 0.2


@pytest.mark.real_model
def test_vectors_are_those_of_the_plain_runtime(
    embedder: OnnxEmbedder, default_embedder: InstalledModel
) -> None:
    texts = ["A short one.", "A somewhat longer sentence about harbours and glaciers, and lemons."]
    for text, vector in zip(texts, embedder.embed(texts).vectors, strict=True):
        assert numpy.allclose(vector, plainly(default_embedder, text), atol=1e-5)


@pytest.mark.real_model
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    texts=some.lists(
        some.lists(some.sampled_from(WORDS), min_size=1, max_size=40), min_size=1, max_size=6
    )
)
def test_order_is_kept_lengths_are_one_and_company_changes_nothing(
    embedder: OnnxEmbedder, texts: list[list[str]]
) -> None:
    sentences = [" ".join(words) for words in texts]
    together = embedder.embed(sentences).vectors
    for sentence, vector in zip(sentences, together, strict=True):
        assert math.isclose(cosine(vector, vector), 1.0, abs_tol=1e-5)
        (alone,) = embedder.embed([sentence]).vectors
        assert max(abs(a - b) for a, b in zip(alone, vector, strict=True)) < 1e-5


@given(tokens=some.integers(0, 5000), most=some.integers(OVERLAP_TOKENS + 1, 600))
def test_windows_cover_every_token_and_overlap(tokens: int, most: int) -> None:
    cuts = windows_of(tokens, most)
    assert cuts[0][0] == 0
    assert cuts[-1][1] == tokens
    for (_, last), (first, _) in pairwise(cuts):
        assert last - first >= OVERLAP_TOKENS
    if tokens > most:
        assert {last - first for first, last in cuts} == {most}, "all windows are full"


@pytest.mark.real_model
def test_the_end_of_a_long_text_counts(embedder: OnnxEmbedder) -> None:
    beginning = "The orchard gave apples and pears in autumn. " * 60
    found = embedder.embed([beginning, beginning + "Penguins live on the ice of Antarctica. " * 60])
    (question,) = embedder.embed(["Where do penguins live?"]).vectors
    without, with_penguins = found.vectors
    assert found.windows[0] > 1
    assert found.windows[1] > found.windows[0]
    assert cosine(question, with_penguins) > cosine(question, without) + 0.2


@pytest.mark.real_model
def test_long_work_pauses_between_batches_and_ends_where_it_is_told(embedder: OnnxEmbedder) -> None:
    calls = 0

    def pause() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Cancelled("the client left")

    with pytest.raises(Cancelled):
        embedder.embed(["harbour glacier lemon " * 2000], pause=pause)
    assert calls == 2, "a single text: its windows are batches too"


@pytest.mark.real_model
@pytest.mark.parametrize(
    "text",
    ["Grüß the harbour, lemons!\n" * 40, "x" * 300, " " * 90, "é́" * 70, "日本語ひらがな。" * 30],
    ids=lambda text: text[:8],
)
def test_a_text_read_in_pieces_has_the_same_tokens(
    embedder: OnnxEmbedder, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = embedder._loaded().tokenizer
    monkeypatch.setattr(onnx_embedder, "MOST_PIECE", 50)
    monkeypatch.setattr(onnx_embedder, "_PIECE", onnx_embedder.pieces_of(50))
    whole = tokenizer.encode(text, add_special_tokens=False).ids
    assert onnx_embedder._tokens(tokenizer, [text, "end"], nothing)[0] == whole


@pytest.mark.real_model
def test_texts_without_a_single_known_token_have_a_vector(embedder: OnnxEmbedder) -> None:
    (vector,) = embedder.embed(["\u200b"]).vectors
    assert math.isclose(cosine(vector, vector), 1.0, abs_tol=1e-5)


@pytest.mark.real_model
def test_facts_name_the_space_before_anything_is_loaded(default_embedder: InstalledModel) -> None:
    backend = open_backend(default_embedder, threads=1)
    assert backend.facts().space == "all-minilm-l6-v2@int8-384"
    assert backend.facts().languages == ("en",)


@pytest.mark.real_model
def test_it_works_again_after_it_was_closed(default_embedder: InstalledModel) -> None:
    backend = open_backend(default_embedder, threads=1)
    before = backend.embed(["one"]).vectors
    backend.close()
    assert backend.embed(["one"]).vectors == before


def test_a_missing_runtime_is_said_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    model = InstalledModel("any", Path("model.onnx"), "INT8", "", 0)
    with pytest.raises(ExtraMissing, match=re.escape(install_command("embed"))):
        open_backend(model, threads=1)


@pytest.mark.real_model
def test_a_file_that_is_not_weights_is_refused(
    default_embedder: InstalledModel, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    backend = open_backend(replace(default_embedder, path=tmp_path / "model.onnx"), threads=1)
    with pytest.raises(ModelNotFound, match="does not load"):
        backend.embed(["anything"])


@pytest.mark.real_model
def test_a_runtime_that_breaks_off_is_our_error(
    default_embedder: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = open_backend(default_embedder, threads=1)
    real = backend._loaded()
    monkeypatch.setattr(backend, "_loaded", lambda: replace(real, begin=10**9))
    with pytest.raises(GenerationFailed, match="broke off"):
        backend.embed(["anything"])
