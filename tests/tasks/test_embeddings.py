"""Embedding through the engine: where vectors come from, in which space, and what is refused."""

from __future__ import annotations

import math
from collections import UserList
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgewise import Engine, Settings
from edgewise.errors import (
    CloudClosed,
    DoesNotFit,
    ExtraMissing,
    GenerationFailed,
    InvalidRequest,
    ModelNotFound,
    SpaceMismatch,
)
from edgewise.flows.embed import MOST_TEXTS
from edgewise.local.backend import EmbedBackend
from edgewise.local.store import InstalledModel
from edgewise.testing import Answer, LoopbackCloud, ScriptedEmbedder, Status
from edgewise.types.embeddings import EmbedOptions

HERE = "scripted@none-32"
THERE = "openai/text-embedding-3-small-3"
Make = Callable[..., Engine]


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture
def make(cloud: LoopbackCloud, tmp_path: Path) -> Iterator[Make]:
    made: list[Engine] = []

    def maker(embedder: EmbedBackend | None = None, key: str = "k", **settings: object) -> Engine:
        given = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": cloud.openai_url}
        home = tmp_path / f"home{len(made)}"
        loaded = Settings.load(
            given,
            data_dir=home,
            cache_dir=home,
            config_dir=home,
            fetch_default_model=False,
            **settings,  # type: ignore[arg-type]
        )
        made.append(Engine(loaded, embedder=embedder))
        return made[-1]

    yield maker
    for engine in made:
        engine.close()


def three_numbers(cloud: LoopbackCloud, *vectors: tuple[float, float, float]) -> None:
    cloud.always(Answer(vectors=vectors))


def test_the_device_embeds_whatever_it_can(make: Make, cloud: LoopbackCloud) -> None:
    found = make(ScriptedEmbedder()).embed(["one", "two words"])
    assert (found.source, found.space, found.dimensions) == ("local", HERE, 32)
    assert found.decision.code == "embedded_local"
    assert found.confidence is None
    assert found.text_codes == ((), ())
    assert found.usage.input_tokens == 3
    assert not cloud.requests


def test_one_text_may_come_alone(make: Make) -> None:
    assert len(make(ScriptedEmbedder()).embed("just this").vectors) == 1


def test_order_and_number_are_kept(make: Make) -> None:
    engine = make(ScriptedEmbedder())
    texts = [f"text number {number}" for number in range(10)]
    assert engine.embed(texts).vectors == tuple(engine.embed(text).vectors[0] for text in texts)


def test_texts_may_be_any_sequence(make: Make) -> None:
    assert len(make(ScriptedEmbedder()).embed(UserList(["one", "two"])).vectors) == 2


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "no text"),
        (["good", " \n"], "text 2 is empty"),
        (["good", 3], "texts.1.: expected text, got 3"),
    ],
)
def test_what_is_not_a_text_is_refused(make: Make, texts: list[str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        make(ScriptedEmbedder()).embed(texts)


def test_doubts_are_stated_per_text(make: Make) -> None:
    found = make(ScriptedEmbedder(window=3)).embed(["short", "longer than three words", "пингвин"])
    assert found.text_codes == ((), ("windowed",), ("language_outside_model",))
    assert found.windows == (1, 2, 1)
    assert found.codes == ("language_outside_model", "windowed")
    assert found.confidence is None


def test_int8_states_its_scale(make: Make) -> None:
    engine = make(ScriptedEmbedder())
    exact, rounded = engine.embed("some words").vectors[0], engine.embed("some words", int8=True)
    (whole,), (scale,) = rounded.vectors, rounded.scales
    assert whole.typecode == "b"
    assert max(map(abs, whole)) == 127
    assert all(abs(w * scale - e) <= scale / 2 + 1e-9 for w, e in zip(whole, exact, strict=True))


def test_the_json_has_plain_numbers(make: Make) -> None:
    found = make(ScriptedEmbedder()).embed(["one"]).to_dict()
    assert found["success"]
    assert found["space"] == HERE
    assert found["response"] is None
    assert len(found["vectors"][0]) == 32
    assert all(isinstance(value, float) for value in found["vectors"][0])


def test_without_a_local_model_the_cloud_embeds_and_its_space_is_named(
    make: Make, cloud: LoopbackCloud
) -> None:
    three_numbers(cloud, (3.0, 0.0, 4.0))
    found = make().embed("hello")
    assert found.decision.code == "handoff_no_local_model"
    assert (found.source, found.space, found.dimensions) == ("cloud", THERE, 3)
    assert found.vectors[0].tolist() == pytest.approx([0.6, 0.0, 0.8])
    assert found.usage.cost_microdollars >= 0
    assert found.windows == (0,)


def test_without_the_extra_the_cloud_embeds(
    make: Make, cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> EmbedBackend:
        raise ExtraMissing("embed", "onnxruntime")

    three_numbers(cloud, (1.0, 0.0, 0.0))
    engine = make()
    monkeypatch.setattr(engine.parts, "embedder", missing)
    assert engine.embed("hello").decision.code == "handoff_missing_extra"
    with pytest.raises(DoesNotFit, match=r"\[embed\]"):
        engine.embed("hello", policy="local_only")


def test_long_lists_are_sent_in_batches_and_stay_in_order(make: Make, cloud: LoopbackCloud) -> None:
    engine = make()
    texts = [f"text {number}" for number in range(MOST_TEXTS + 5)]
    found = engine.embed(texts, policy="cloud_only")
    assert len(cloud.requests) == 2
    assert len(found.vectors) == len(texts)
    assert found.vectors[-1] == engine.embed(texts[-1], policy="cloud_only").vectors[0]
    assert len({attempt.backend for attempt in found.attempts}) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (EmbedOptions(policy="local_only"), ModelNotFound),
        (EmbedOptions(private=True), ModelNotFound),
        (EmbedOptions(policy="cloud_only", private=True), CloudClosed),
    ],
)
def test_what_may_not_leave_does_not(
    make: Make, cloud: LoopbackCloud, options: EmbedOptions, error: type[Exception]
) -> None:
    with pytest.raises(error):
        make().embed("a secret", **options)
    assert not cloud.requests


def test_a_spent_budget_keeps_the_cloud_shut(make: Make, cloud: LoopbackCloud) -> None:
    engine = make(budgets=["$0/day"])
    with pytest.raises(CloudClosed) as caught:
        engine.embed("word " * 20_000, policy="cloud_only")
    assert caught.value.code == "budget_spent"
    assert not cloud.requests


def test_cloud_only_without_a_key_says_so(make: Make) -> None:
    with pytest.raises(CloudClosed, match="no cloud provider that embeds has a key"):
        make(ScriptedEmbedder(), key="").embed("hello", policy="cloud_only")


def test_prefer_cloud_falls_back_to_the_device_as_a_whole(make: Make, cloud: LoopbackCloud) -> None:
    cloud.always(Status(500))
    found = make(ScriptedEmbedder()).embed(["a", "b"], policy="prefer_cloud")
    assert (found.source, found.space) == ("local", HERE)
    assert found.degraded
    assert found.decision.code == "fallback_local"
    assert found.decision.degraded_code == "cloud_server_error"


def test_no_result_mixes_spaces_when_the_cloud_fails_half_way(
    make: Make, cloud: LoopbackCloud
) -> None:
    cloud.script(Answer(), *[Status(500)] * 5)
    texts = [f"text {number}" for number in range(MOST_TEXTS + 5)]
    found = make(ScriptedEmbedder()).embed(texts, policy="prefer_cloud")
    assert {len(vector) for vector in found.vectors} == {32}
    assert (len(found.vectors), found.space) == (len(texts), HERE)


def test_a_device_that_fails_hands_off_unless_a_space_is_named(
    make: Make, cloud: LoopbackCloud
) -> None:
    three_numbers(cloud, (1.0, 0.0, 0.0))
    engine = make(ScriptedEmbedder(fail=True))
    found = engine.embed("hello")
    assert (found.decision.code, found.space) == ("handoff_local_failed", THERE)
    assert [attempt.outcome for attempt in found.attempts] == ["generation_failed", "answered"]
    with pytest.raises(GenerationFailed):
        engine.embed("hello", space=HERE)


def test_a_named_space_is_kept(make: Make, cloud: LoopbackCloud) -> None:
    three_numbers(cloud, (1.0, 0.0, 0.0))
    engine = make(ScriptedEmbedder())
    assert engine.embed("hello", space=HERE).space == HERE
    assert engine.embed("hello", space=THERE).space == THERE


@pytest.mark.parametrize(
    ("space", "policy", "words"),
    [
        ("gte-small@fp32-384", "prefer_local", "edgewise pull gte-small"),
        ("gte-small@fp32-384", "local_only", "edgewise pull gte-small"),
        (HERE, "cloud_only", "Embed the whole collection again"),
        ("mistral/mistral-embed-1024", "prefer_local", "that provider's key"),
    ],
)
def test_another_space_is_refused_before_anything_is_sent(
    make: Make, cloud: LoopbackCloud, space: str, policy: str, words: str
) -> None:
    with pytest.raises(SpaceMismatch, match=words):
        make(ScriptedEmbedder()).embed("hello", space=space, policy=policy)
    assert not cloud.requests


def test_a_provider_that_answers_in_another_space_is_refused(
    make: Make, cloud: LoopbackCloud
) -> None:
    three_numbers(cloud, (1.0, 0.0, 0.0))
    with pytest.raises(SpaceMismatch, match=THERE):
        make().embed("hello", space="openai/text-embedding-3-small-1536", policy="cloud_only")


def test_dimensions_the_device_does_not_have_are_the_clouds(
    make: Make, cloud: LoopbackCloud
) -> None:
    three_numbers(cloud, (1.0, 0.0, 0.0))
    engine = make(ScriptedEmbedder())
    assert engine.embed("hello", dimensions=32).source == "local"
    assert engine.embed("hello", dimensions=3).decision.code == "handoff_other_space"
    with pytest.raises(DoesNotFit, match="not of 3 numbers"):
        engine.embed("hello", dimensions=3, private=True)


def test_signal_leaves_the_routing_to_the_application(make: Make, cloud: LoopbackCloud) -> None:
    found = make().embed("hello", handoff="signal")
    assert found.signalled
    assert found.decision.code == "signalled_no_local_model"
    assert found.vectors == ()
    assert not cloud.requests


def test_the_ledger_has_it_and_claims_no_savings(make: Make) -> None:
    engine = make(ScriptedEmbedder())
    found = engine.embed("hello there")
    row = engine.ledger.get(found.id)
    assert row is not None
    assert (row["task"], row["source"], row["cost_avoided_microdollars"]) == ("embed", "local", 0)
    assert row["prompt_text"] is None


@pytest.mark.real_model
def test_the_default_model_embeds(default_embedder: InstalledModel) -> None:
    with Engine(Settings.load(threads=1)) as engine:
        found = engine.embed(["Where do penguins live?", "Penguins live in Antarctica."])
    assert found.space == "all-minilm-l6-v2@int8-384"
    one, other = found.vectors
    assert math.fsum(a * b for a, b in zip(one, other, strict=True)) > 0.6
