"""Hostile requests: drawn from a seed, of every family, and judged against a scripted server."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.server.serve import running
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise_bench.campaigns.attacks import FAMILIES, OPEN, Privacy, Target, make_attack
from edgewise_bench.campaigns.schemas import SHAPES, hostile_schema
from edgewise_bench.campaigns.uploads import PICTURES, SOUNDS, png, silent_flac
from edgewise_bench.campaigns.watch import MARK

# Their models are not scripted here, or they wait for minutes.
SLOW = ("sound", "pictures", "embeddings", "large", "websocket")
QUICK = tuple(family for family in FAMILIES if family not in SLOW)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    settings = Settings.load(
        {},
        data_dir=tmp_path_factory.mktemp("data"),
        server={"port": 0, "header_s": 2.0, "body_s": 2.0, "drain_s": 1.0},
    )
    with running(settings, backend=ScriptedBackend.confident("Paris.")) as url:
        yield Target.at(url)


def test_the_same_number_of_the_same_seed_is_the_same_attack() -> None:
    one, again = make_attack(3, 17), make_attack(3, 17)
    assert (one.family, one.name) == (again.family, again.name)
    names = {make_attack(3, number).name for number in range(60)}
    assert len(names) > 20
    assert names != {make_attack(4, number).name for number in range(60)}


def test_every_family_and_every_shape_is_drawn() -> None:
    drawn = {make_attack(0, number).family for number in range(150)}
    assert drawn == set(FAMILIES)
    assert sum(weight for weight, _ in FAMILIES.values()) == 100
    kinds = {hostile_schema(random.Random(number))[0] for number in range(600)}
    assert {"bent", *(shape.__name__.strip("_") for shape in SHAPES)} <= kinds


@pytest.mark.parametrize("family", QUICK)
def test_no_attack_of_a_family_gets_an_answer_of_5xx(target: Target, family: str) -> None:
    for number in range(4):
        attack = make_attack(11, number, (family,))
        answer = attack.send(target)
        assert answer.status < 500 or answer.code == "no_key", (attack, answer)
        assert not answer.late, attack


def test_a_private_attack_says_so_and_carries_the_marker() -> None:
    rng = random.Random(1)
    for _ in range(40):
        privacy = Privacy.drawn(rng)
        assert privacy.marker.startswith(MARK)
        said = " ".join((*privacy.headers, *privacy.headers.values(), *privacy.metadata.values()))
        assert "priva" in said.lower()
    assert OPEN.marker == ""
    assert make_attack(0, 5, private=True).name.endswith("private")


def test_an_answer_tells_the_id_of_its_row(target: Target) -> None:
    asked = [{"role": "user", "content": "Where?"}]
    for stream in (False, True):
        body = {"model": "local", "messages": asked, "stream": stream}
        answer = target.post("/v1/chat/completions", body)
        assert answer.status == 200 and len(answer.ids) == 1


def test_silence_unfolds_and_a_picture_has_the_pixels_that_it_names() -> None:
    av, pillow = pytest.importorskip("av"), pytest.importorskip("PIL.Image")
    with av.open(io.BytesIO(silent_flac(600))) as file:
        samples = sum(frame.samples for frame in file.decode(audio=0))
    assert abs(samples / 16_000 - 600) < 5
    assert len(silent_flac(600)) < 3_000
    with pillow.open(io.BytesIO(png(700, 300))) as picture:
        picture.load()
        assert picture.size == (700, 300)


@pytest.mark.parametrize("table", [SOUNDS, PICTURES], ids=["sounds", "pictures"])
def test_every_hostile_file_can_be_made_and_fits_into_a_body(table: dict[str, object]) -> None:
    limit = Settings().server.body_bytes
    for name, make in table.items():
        assert callable(make)
        assert len(make(random.Random(2))) < limit, name


def test_a_connection_that_is_refused_is_no_answer(tmp_path: Path) -> None:
    answer = Target("127.0.0.1", 1).post("/healthz", {})
    assert (answer.status, answer.late) == (0, False)
