"""`make docs`: the site builds in strict mode, holds the reference, and fetches nothing."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import edgewise

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "docs_site.py"
SITE = runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    made = subprocess.run(
        [sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=250, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr  # names each broken link
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = re.findall(r"<(?:link|script|img|iframe)\b[^>]*https?:[^>]*>", page.read_text())
        assert not loaded, (page.name, loaded)
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )['\"]?https?:", styles)


def test_every_public_name_is_in_the_reference_with_its_docstring(site: Path) -> None:
    reference = "".join(path.read_text("utf-8") for path in (site / "reference").glob("*.html"))
    for name in dir(edgewise):
        if name != "__version__":
            assert re.search(rf'id="edgewise\.[\w.]*\b{name}"', reference), name
    assert "Answers on the device first, and hands off when it is in doubt." in reference
    for member in ("conversation.Conversation.ask", "types.messages.ChatOptions.threshold"):
        assert f'id="edgewise.{member}"' in reference, member


def test_a_link_out_of_the_pages_becomes_the_path_of_its_file() -> None:
    told = SITE["for_the_site"]
    here = ROOT / "docs"
    assert (
        told("[gate.py](../src/edgewise/decide/gate.py)", here) == "`src/edgewise/decide/gate.py`"
    )
    assert told("[why](decisions/)", here) == "[why](decisions/README.md)"
    for kept in ("[risk](risk.md#is-it-kept)", "![a picture](dashboard.png)", "[here](#tools)"):
        assert told(kept, here) == kept
    block = "```sh\n[not a link](../README.md)\n```"
    assert told(block, here) == block


# -- the recording ----------------------------------------------------------------------------

RECORDER = ROOT / "scripts" / "record_terminal.py"


def test_the_recording_is_small_still_and_real() -> None:
    text = (ROOT / "docs" / "images" / "demo.svg").read_text("utf-8")
    drawing = ElementTree.fromstring(text)
    assert len(text) < 200_000
    assert "prefers-color-scheme:dark" in text and "prefers-reduced-motion" in text
    kinds = {element.tag.rpartition("}")[2] for element in drawing.iter()}
    assert kinds == {"svg", "style", "rect", "g", "text", "tspan"}  # no script, nothing fetched
    words = "".join(drawing.itertext())
    for said in ("send_message", "Two function calls in one request", "stand-in cloud", "degraded"):
        assert said in words
    assert not re.search(r"/(?:home|root|tmp|work|Users)/", words)


@pytest.mark.skipif(sys.platform == "win32", reason="the recorder needs a pty")
def test_the_recorder_shows_each_line_while_it_was_there() -> None:
    recorder = runpy.run_path(str(RECORDER))
    pieces = [(0.0, "one\r\n"), (1.0, "\x1b[32mwai\x1b[0m"), (1.0, "\r\x1b[2Ktwo <3\r\n")]
    shown = list(recorder["frames"](pieces))
    assert shown == [
        (1.0, ["one", ""]),
        (1.0, ["one", '<tspan class="green">wai</tspan>']),
        (recorder["LAST_S"], ["one", "two &lt;3", ""]),
    ]
    drawn = recorder["svg"](shown)
    ElementTree.fromstring(drawn)
    assert "@keyframes t1{0%{opacity:0}14.29%{opacity:1}28.57%{opacity:0}}" in drawn  # "wai"
