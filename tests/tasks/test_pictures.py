"""Pictures through the whole engine, with the real reader: answers, refusals, and what leaves."""

from __future__ import annotations

import importlib.util
import io
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as Pillow

from edgewise import Engine, Image, Message, Settings
from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.extras import install_command
from edgewise.local import vision as vision_skills
from edgewise.tasks import sees
from edgewise.testing import LoopbackCloud, ScriptedBackend
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.replies import SeenReply
from tests.pictures import as_file, one_pixel, page

RECEIPT = page("CORNER SHOP RECEIPT", "Milk  1.20", "Total  3.50", "Cash 5.00", "Change 1.50")


@pytest.fixture(scope="module")
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


@pytest.fixture(scope="module")
def engine(cloud: LoopbackCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    from tests.conftest import MODELS_DIR

    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    settings = Settings.load(
        environment,
        threads=1,
        data_dir=tmp_path_factory.mktemp("data"),
        cache_dir=MODELS_DIR.parent,
        config_dir=tmp_path_factory.mktemp("config"),
    )
    with Engine(settings) as one:
        yield one


def seen(engine: Engine, question: str, *images: Image, **options: object) -> SeenReply:
    reply = engine.complete(question, images=images, **options)  # type: ignore[call-overload]
    assert isinstance(reply, SeenReply)
    return reply


@pytest.mark.real_model
def test_the_device_reads_a_value_and_says_which_skill_it_was(engine: Engine) -> None:
    reply = seen(engine, "What is the total?", Image(as_file(RECEIPT)))
    assert (reply.text, reply.source, reply.skill) == ("3.50", "local", "reads text")
    assert reply.confidence is not None and reply.confidence > 0.8
    assert reply.decision.calibration == "pp-ocrv6-small"
    assert reply.usage.cost_microdollars == 0
    assert reply.model == "pp-ocrv6-small"


@pytest.mark.real_model
def test_the_timetable_says_when_the_ferry_leaves(engine: Engine) -> None:
    sign = Image(as_file(page("Ferry to Oslo", "departs 14:30", "Adults 12.50")))
    leaves = seen(engine, "When does the ferry leave?", sign, policy="local_only")
    assert (leaves.text, leaves.skill) == ("14:30", "reads text")
    shown = seen(engine, "What is in this picture?", sign, policy="local_only")
    assert "Ferry to Oslo / departs 14:30 / Adults 12.50" in shown.text
    assert shown.needs_cloud_handoff and not shown.degraded


@pytest.mark.real_model
def test_a_question_beyond_it_is_handed_off_with_every_picture(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    images = [Image(as_file(Pillow.new("RGB", (40, 30), colour))) for colour in ("red", "blue")]
    reply = seen(engine, "Which one looks warmer?", *images)
    assert reply.source == "cloud"
    assert reply.decision.code == "handoff_no_device_skill"
    assert str(cloud.requests[-1].body).count("data:image/png;base64,") == 2
    assert reply.usage.cost_microdollars > 0


@pytest.mark.real_model
def test_an_animation_is_read_by_its_first_frame_and_that_is_said(engine: Engine) -> None:
    frames = [page("EXIT", width=200), page("ENTRY", width=200)]
    data = as_file(frames[0], "GIF", save_all=True, append_images=frames[1:])
    reply = seen(engine, "What does it say?", Image.from_bytes(data, "sign.gif"), threshold=0.0)
    assert reply.text == "EXIT"
    assert reply.notes == ("image 1 (sign.gif): only the first frame was looked at",)


@pytest.mark.real_model
def test_a_question_without_pictures_goes_on_about_the_last_ones(engine: Engine) -> None:
    history = [
        Message("user", "Is this a receipt?", images=(Image(as_file(RECEIPT)),)),
        Message("assistant", "Yes."),
        Message("user", "What is the total?"),
    ]
    reply = engine.complete(history, policy="local_only")
    assert reply.text == "3.50"


@pytest.mark.real_model
def test_one_pixel_has_no_text(engine: Engine) -> None:
    reply = seen(engine, "What does it say?", Image(one_pixel()), policy="local_only")
    assert "no text" in reply.text


def test_a_bad_picture_is_refused_and_the_engine_lives_on(engine: Engine) -> None:
    good = Image(one_pixel())
    for bad in (Image(b""), Image(b"<svg/>"), Image(as_file(RECEIPT)[:300])):
        with pytest.raises(InvalidRequest, match="image 2"):
            engine.complete("What does it say?", images=[good, bad])
    with pytest.raises(InvalidRequest, match="private network"):
        engine.complete("What does it say?", images=[Image.from_url("http://127.0.0.1:9/x.png")])
    with pytest.raises(InvalidRequest, match="20 are the most"):
        engine.complete("What does it say?", images=[good] * 21)
    many = [Image.from_url("http://127.0.0.1:9/x.png")] * 500
    for tools in ([], [{"name": "look", "description": "Looks."}]):
        with pytest.raises(InvalidRequest, match="500 images"):  # counted before one is fetched
            engine.complete("What does it say?", images=many, tools=tools)
        with pytest.raises(InvalidRequest, match="image 1"):
            engine.complete("What does it say?", images=[Image(b"<svg/>")], tools=tools)
    assert engine.ledger.seen("nothing") is False


def test_a_chat_model_that_sees_gets_the_pictures_itself(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("A red square.", facts=replace(SCRIPTED_FACTS, images=True))
    settings = Settings.load(data_dir=tmp_path)
    wide = Image(as_file(Pillow.new("RGB", (3000, 600), "red"), "WEBP"))
    with Engine(settings, backend=backend) as engine:
        reply = engine.complete("What is this?", images=[wide])
    assert (reply.text, reply.source) == ("A red square.", "local")
    (image,) = backend.requests[0].messages[0].images
    assert image.media_type in ("image/png", "image/jpeg"), "formats that llama.cpp reads"
    assert max(Pillow.open(io.BytesIO(image.data)).size) == 1024


def test_which_chat_models_see() -> None:
    assert sees(Settings(model="smolvlm-256m-instruct"), None)
    assert sees(Settings(model="/my/model.gguf", projector="/my/mmproj.gguf"), None)
    assert not sees(Settings(), None)
    assert not sees(Settings(model="smolvlm-256m-instruct"), ScriptedBackend.confident("x"))


def test_without_the_extra_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=re.escape(install_command("vision"))):
        vision_skills.open_skill("reads text", lambda name: None, threads=1)  # type: ignore


SUM = """
import io, resource, sys
from PIL import Image as Pillow
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from edgewise.tasks import OpenedPictures, settled
from edgewise.settings import Settings
from edgewise.types.messages import Image, Message, Request

class Host:
    settings = Settings()
    check_wanted = staticmethod(lambda: None)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

file = io.BytesIO()
Pillow.new("L", (5000, 5000)).save(file, "PNG")
images = (Image(file.getvalue()),) * 4
request = settled(Host, Request(messages=(Message("user", "Read it.", images=images),)))
before = resident()
print([pixels.shape for pixels in OpenedPictures(Host, request)], resident() - before < 60_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_four_large_pictures_take_the_memory_of_one_and_give_it_back() -> None:
    """As pixels they are 400 MB; as files, 100 KB."""
    ran = subprocess.run(
        [sys.executable, "-c", SUM, str(700_000_000)], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == f"{[(2000, 2000, 3)] * 4} True", ran.stderr


BOMB = """
import resource, struct, sys, zlib
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image
from edgewise.vision.pictures import open_picture

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

for side in (20_000, 60_000):
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side + 1) * 2000, 9)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    data = b"\\x89PNG\\r\\n\\x1a\\n" + body
    try:
        open_picture(Image(data))
    except InvalidRequest as error:
        print("refused:", error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on memory there")
def test_bombs_are_refused_within_a_small_memory() -> None:
    assert resource.RLIMIT_AS
    ran = subprocess.run(
        [sys.executable, "-c", BOMB, str(1_000_000_000)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.count("refused:") == 2, ran.stderr
