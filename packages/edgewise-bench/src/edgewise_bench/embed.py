"""Measures embedding: speed, agreement with the plain runtime, retrieval, and exact search."""

from __future__ import annotations

import math
import re
import tempfile
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy

from edgewise import parts
from edgewise.errors import ModelNotFound
from edgewise.flows.embed import as_int8
from edgewise.folder_search import IndexStore, KnownFile, Scan
from edgewise.local.backend import EmbedBackend
from edgewise.local.catalogue import REFERENCE_EMBEDDER
from edgewise.local.onnx_embedder import windows_of
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.settings import Settings
from edgewise.types.embeddings import Embeddings, Passage
from edgewise.types.replies import Decision

TARGETS: dict[str, tuple[str, float]] = {"cosine_agreement": (">=", 0.999)}
DIMENSIONS = 384
BEST = 10

Step = Callable[[], None]
Score = Callable[[int, int], float]  # of a question and a passage, by their numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How much is measured."""

    repeats: int = 3
    vectors: int = 100_000
    queries: int = 200

    @property
    def steps(self) -> int:
        return 2 * self.repeats + 3


QUICK = Rounds(repeats=1, vectors=5_000, queries=20)


def measure_embed(settings: Settings, rounds: Rounds, step: Step) -> dict[str, float]:
    """One thread as the settings say; the reference runs in the same process, on the same texts."""
    pairs = read_pairs()
    store = ModelStore(settings.models_dir)
    backend = parts.open_embedder(settings)
    plain = PlainRuntime(store.find(settings.embed_model), settings.threads)
    texts = bench_texts(pairs)
    metrics = _speed(backend, plain, texts, rounds, step)
    metrics |= _agreement(backend, plain, texts, settings, store)
    step()
    metrics |= _retrieval(backend, pairs)
    step()
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        metrics |= search_times(Path(folder) / "index.sqlite3", rounds)
    step()
    backend.close()
    return metrics


def bench_texts(pairs: Sequence[Pair]) -> list[str]:
    """Questions, passages, and four texts that are longer than the window."""
    passages = [pair.passage for pair in pairs]
    long = [" ".join(passages[start : start + 15 + start]) for start in (0, 5, 10, 15)]
    return [pair.question for pair in pairs] + passages + long


class PlainRuntime:
    """The reference: ONNX Runtime as its manual calls it, one text at a time, nothing shared."""

    def __init__(self, model: InstalledModel, threads: int) -> None:
        import onnxruntime  # noqa: PLC0415  # loads when it is measured
        import tokenizers  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        folder = model.path.parent
        self._session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._window = model.row.context_tokens - 2 if model.row else 254

    def vector(self, text: str) -> Any:
        """Long texts, as docs/guide/embeddings.md: the mean of their windows, length 1 again."""
        first, *ids, last = self._tokenizer.encode(text).ids
        cuts = windows_of(len(ids), self._window)
        rows = [self._run([first, *ids[start:end], last]) for start, end in cuts]
        mean = numpy.mean(rows, axis=0)
        return mean / numpy.linalg.norm(mean)

    def _run(self, ids: list[int]) -> Any:
        given = numpy.array([ids])
        feeds = {
            "input_ids": given,
            "attention_mask": numpy.ones_like(given),
            "token_type_ids": numpy.zeros_like(given),
        }
        mean = self._session.run(None, feeds)[0][0].mean(axis=0)
        return mean / numpy.linalg.norm(mean)


def _speed(
    backend: EmbedBackend, plain: PlainRuntime, texts: list[str], rounds: Rounds, step: Step
) -> dict[str, float]:
    """Taking turns, so that a busy machine slows both; short texts and long ones together."""
    backend.embed(texts[:2])
    plain.vector(texts[0])
    ours, theirs, tokens = [], [], 0
    for _ in range(rounds.repeats):
        begun = time.perf_counter()
        tokens = backend.embed(texts).tokens
        ours.append(time.perf_counter() - begun)
        step()
        begun = time.perf_counter()
        for text in texts:
            plain.vector(text)
        theirs.append(time.perf_counter() - begun)
        step()
    singles = []
    for text in texts[:20]:
        begun = time.perf_counter()
        backend.embed([text])
        singles.append(time.perf_counter() - begun)
    return {
        "texts": len(texts),
        "texts_per_second": len(texts) / median(ours),
        "texts_per_second_plain": len(texts) / median(theirs),
        "tokens_per_second": tokens / median(ours),
        "one_question_ms_p50": 1000 * median(singles),
    }


def _agreement(
    backend: EmbedBackend,
    plain: PlainRuntime,
    texts: list[str],
    settings: Settings,
    store: ModelStore,
) -> dict[str, float]:
    made = backend.embed(texts)
    same = [cosine(v, plain.vector(t)) for v, t in zip(made.vectors, texts, strict=True)]
    rounded = []
    for vector in made.vectors:
        whole, scale = as_int8(vector)
        rounded.append(cosine(vector, array("f", (value * scale for value in whole))))
    metrics = {
        "windowed_texts": sum(count > 1 for count in made.windows),
        "cosine_agreement": min(same),
        "int8_vectors_cosine_least": min(rounded),
    }
    try:
        original = PlainRuntime(store.find(REFERENCE_EMBEDDER), settings.threads)
    except ModelNotFound:
        return metrics  # `edgewise pull all-minilm-l6-v2-fp32` adds the next two
    full = [cosine(v, original.vector(t)) for v, t in zip(made.vectors, texts, strict=True)]
    return metrics | {"fp32_weights_cosine_least": min(full), "fp32_weights_cosine": fmean(full)}


def cosine(one: Any, other: Any) -> float:
    a, b = numpy.asarray(one, numpy.float64), numpy.asarray(other, numpy.float64)
    return float(a @ b / (numpy.linalg.norm(a) * numpy.linalg.norm(b)))


def _retrieval(backend: EmbedBackend, pairs: list[Pair]) -> dict[str, float]:
    questions = backend.embed([pair.question for pair in pairs]).vectors
    passages = backend.embed([pair.passage for pair in pairs]).vectors
    whole = [as_int8(vector)[0] for vector in passages]
    found = {
        "": ranks(len(pairs), lambda q, p: cosine(questions[q], passages[p])),
        "int8_": ranks(len(pairs), lambda q, p: cosine(questions[q], whole[p])),
        "lexical_": ranks(len(pairs), lexical_score(pairs)),
    }
    metrics: dict[str, float] = {"retrieval_passages": len(pairs)}
    for name, places in found.items():
        metrics[f"{name}recall_at_1"] = recall_at(places, 1)
        metrics[f"{name}recall_at_5"] = recall_at(places, 5)
        metrics[f"{name}mrr"] = mean_reciprocal_rank(places)
    return metrics


def search_times(path: Path, rounds: Rounds) -> dict[str, float]:
    """Random vectors in the index's own file: loading them, and searching them again and again."""
    chance = numpy.random.default_rng(0)
    rows = _directions(chance, rounds.vectors)
    _fill(path, rows)
    store = IndexStore(path)
    begun = time.perf_counter()
    scan = Scan.of(*store.vectors())
    loading = time.perf_counter() - begun
    store.close()
    times, plain_times, agreeing = [], [], []
    for query in _directions(chance, rounds.queries):
        wanted = array("f", query.tolist())
        begun = time.perf_counter()
        found = scan.nearest(wanted, BEST)
        times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        exact = numpy.argsort(-(rows @ query))[:BEST].tolist()
        plain_times.append(time.perf_counter() - begun)
        agreeing.append(len({number - 1 for number, _ in found} & set(exact)) / BEST)
    return {
        "search_vectors": rounds.vectors,
        "search_ms_p50": 1000 * median(times),
        "search_ms_p99": 1000 * sorted(times)[int(0.99 * (len(times) - 1))],
        "search_float32_sorted_ms_p50": 1000 * median(plain_times),
        "search_agreement_at_10": fmean(agreeing),
        "search_load_ms": 1000 * loading,
    }


def _directions(chance: Any, count: int) -> Any:
    rows = chance.standard_normal((count, DIMENSIONS), dtype=numpy.float32)
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def _fill(path: Path, rows: Any) -> None:
    scales = numpy.abs(rows).max(axis=1) / 127
    whole = numpy.round(rows / scales[:, None]).astype(numpy.int8)
    made = Embeddings(
        id="bench",
        text="",
        source="local",
        decision=Decision(policy="local_only", handoff="automatic", code="", reason=""),
        space=f"random@int8-{DIMENSIONS}",
        vectors=tuple(array("b", row.tobytes()) for row in whole),
        scales=tuple(scales.tolist()),
    )
    store = IndexStore(path)
    store.put(KnownFile("random", 0, 0, ""), [Passage(1, 1, "")] * len(rows), made)
    store.close()


@dataclass(frozen=True, slots=True)
class Pair:
    passage: str
    question: str


def read_pairs() -> list[Pair]:
    text = (resources.files("edgewise_bench") / "retrieval_set.txt").read_text("utf-8")
    return [Pair(*(part.strip() for part in block.split("\n? "))) for block in text.split("\n\n")]


def ranks(count: int, score: Score) -> list[int]:
    """The place of each question's own passage among all, from 1; ties count against it."""
    found = []
    for question in range(count):
        own = score(question, question)
        others = (score(question, passage) for passage in range(count) if passage != question)
        found.append(1 + sum(other >= own for other in others))
    return found


def recall_at(places: Sequence[int], most: int) -> float:
    return sum(place <= most for place in places) / len(places)


def mean_reciprocal_rank(places: Sequence[int]) -> float:
    return sum(1 / place for place in places) / len(places)


def lexical_score(pairs: Sequence[Pair]) -> Score:
    """The baseline: words in common, rare ones counting more."""
    score = bm25([pair.passage for pair in pairs])
    scores = [score(pair.question) for pair in pairs]
    return lambda question, passage: scores[question][passage]


def bm25(texts: Sequence[str]) -> Callable[[str], list[float]]:
    """What each text scores for a query, with the usual numbers."""
    documents = [Counter(_words(text)) for text in texts]
    seen = Counter(word for document in documents for word in document)
    mean = sum(document.total() for document in documents) / max(1, len(documents))

    def weigh(document: Counter[str], word: str) -> float:
        weight = math.log(1 + (len(texts) - seen[word] + 0.5) / (seen[word] + 0.5))
        length = 0.25 + 0.75 * document.total() / mean
        return weight * document[word] * 2.2 / (document[word] + 1.2 * length)

    def score(query: str) -> list[float]:
        return [sum(weigh(document, word) for word in _words(query)) for document in documents]

    return score


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
