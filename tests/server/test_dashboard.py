"""The dashboard in a real browser: what it shows, how it is used, and that it needs nobody else."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.assembly import parts
from edgewise.errors import ExtraMissing
from edgewise.speech import chunks
from edgewise.testing import (
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
    word_tokens,
)
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, pause, spoken
from tests.pictures import one_pixel
from tests.server.browser import Browser, chromium
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.speech.made_voice import wav

SURE = word_tokens("Paris is the capital of France.", logprob=-0.01, margin=6.0, entropy=0.05)
UNSURE = word_tokens("Perhaps it is Lyon, who knows.", logprob=-2.5, margin=0.1, entropy=2.5)
READY = "document.querySelectorAll('#model option').length > 1"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """The browser, at its usual size; a test that leaves errors on the console fails."""
    browser.errors.clear()
    browser.asked.clear()
    browser.look()
    yield browser
    assert browser.errors == []
    browser.open("about:blank")


@pytest.fixture
def busy(serving: Serving, cloud: LoopbackCloud) -> Served:
    """A server with a little history: eight sure answers, four in doubt."""
    cloud.always("Paris.")
    answers = [SURE, SURE, UNSURE] * 4 + [SURE]
    served = serving(
        ScriptedBackend(answers, delay_s=0.001),
        function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']),
        settings={"budgets": ["$1/day"]},
    )
    for _ in range(12):
        assert served.chat().status_code == 200
    return served


def opened(page: Browser, served: Served, where: str = "") -> Browser:
    page.open(f"{served.url}/{where}")
    page.wait(READY)
    return page


def test_it_shows_the_figures_and_asks_nobody_else(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed tr').length === 12")
    assert page.text("#share") == "67 %"
    assert page.text("#requests") == "12"
    assert "healthy" in page.text("#providers") and "left" in page.text("#budgets")
    assert page.run("document.querySelectorAll('#timeline svg rect').length") > 0
    assert page.run("document.querySelectorAll('#latency svg circle').length") > 0
    assert page.outside(busy.url) == []


def test_the_feed_and_the_figures_follow_a_request(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed tr').length === 12")
    threading.Thread(target=busy.chat).start()
    page.wait("document.querySelectorAll('#feed tr').length === 13")
    assert "device" in page.text("#feed tr:first-child .by")
    page.wait("document.querySelector('#requests').textContent === '13'")
    assert "Answered by device" in page.text("#feed-news")
    page.click("#pause")
    threading.Thread(target=busy.chat).start()
    page.wait("document.querySelector('#pause').textContent.includes('1 new')")
    page.click("#pause")
    page.wait("document.querySelectorAll('#feed tr').length === 14")


def test_a_request_opens_in_full_and_closes_with_escape(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelector('#feed .when')")
    assert page.text("#feed .badge") == "unverified", "nobody calibrated the scripted model"
    page.click("#feed .when")
    page.wait("document.querySelector('#detail').open && document.querySelector('#detail dl')")
    assert "handoff_low_confidence" in page.text("#detail-body")
    assert "It left for the cloud: its unverified confidence of " in page.text("#detail-body")
    assert ", unverified (threshold" in page.text("#detail-body")
    assert "What is the capital" not in page.text("#detail-body")
    page.press("Escape")
    page.wait("!document.querySelector('#detail').open")


def handed_off(page: Browser) -> int:
    found = re.search(r"(\d+) of 12", page.text("#outcome"))
    assert found
    return int(found[1])


def test_dragging_the_threshold_changes_what_would_have_happened(
    page: Browser, busy: Served
) -> None:
    opened(page, busy)
    page.wait("document.querySelector('#histogram input')")
    page.run("document.querySelector('#histogram').scrollIntoView({block: 'center'})")
    assert handed_off(page) == 4 and "as it was" in page.text("#outcome")
    box = page.run(
        "(() => { const b = document.querySelector('#histogram input').getBoundingClientRect();"
        " return [b.x, b.y + b.height / 2, b.width, Number("
        "document.querySelector('#histogram input').value)] })()"
    )
    left, middle, width, value = box
    at = left + 12 + (width - 24) * value
    page.mouse("mousePressed", at, middle)
    page.mouse("mouseMoved", left + width - 14, middle)
    page.mouse("mouseReleased", left + width - 14, middle)
    page.wait("Number(document.querySelector('#histogram input').value) > 0.97")
    assert handed_off(page) == 12 and "+8" in page.text("#outcome")
    assert "100 %" in page.run(
        "document.querySelector('#histogram input').getAttribute('aria-valuetext')"
    )
    page.run("document.querySelector('#histogram input').focus()")
    page.press("Home")
    page.wait("document.querySelector('#histogram input').value === '0'")
    assert handed_off(page) == 0
    page.press("ArrowRight")
    assert page.run("document.querySelector('#histogram input').value") == "0.01"


def test_the_playground_streams_and_says_who_answered(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend([SURE], delay_s=0.15))
    opened(page, served, "#playground")
    page.click("#prompt")
    page.write("What is the capital of France?")
    page.click("#send")
    page.wait("document.querySelector('.turn.assistant .said')?.textContent.startsWith('Paris')")
    seen = page.text(".turn.assistant .said")
    assert seen != "Paris is the capital of France."  # it is still being written
    page.wait("document.querySelector('.turn.assistant .facts')?.textContent.includes('sure')")
    assert page.text(".turn.assistant .said") == "Paris is the capital of France."
    assert "device" in page.text(".turn.assistant .who")
    page.run("document.querySelector('#model').value = 'cloud'")
    cloud.always("From the cloud.")
    page.click("#prompt")
    page.write("Again?")
    page.click("#send")
    page.wait("document.querySelector('.turn.cloud .facts')?.textContent")
    assert "From the cloud." in page.text(".turn.cloud .said")


def test_the_playground_offers_tools_and_takes_their_results(page: Browser, busy: Served) -> None:
    opened(page, busy, "#playground")
    page.click("#with-tools")
    page.click("#prompt")
    page.write("Set a timer for 5 minutes.")
    page.click("#send")
    page.wait("document.querySelector('.call pre')")
    assert page.text(".call pre") == 'set_timer({"minutes": 5})'
    page.click(".call input")
    page.write("running")
    page.click(".call button")
    page.wait("document.querySelectorAll('.turn.assistant .facts').length === 2")
    page.wait("document.querySelectorAll('.turn.assistant .facts')[1].textContent")


def test_the_playground_sends_images(
    page: Browser, serving: Serving, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always("A red square.")
    picture = tmp_path / "red.png"
    picture.write_bytes(one_pixel())
    opened(page, serving(), "#playground")
    page.choose_file("#images", picture)
    page.wait("document.querySelector('#pictures img')")
    page.run("document.querySelector('#model').value = 'cloud'")
    page.click("#prompt")
    page.write("What is this?")
    page.click("#send")
    page.wait("document.querySelector('.turn.cloud .facts')?.textContent")
    sent: Any = cloud.requests[-1].body
    assert "image" in str(sent["messages"])
    assert page.run("document.querySelectorAll('.turn.user img').length") == 1


def test_a_fault_is_shown_where_it_happened(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Status(400))
    opened(page, serving(), "#playground")
    page.run("document.querySelector('#model').value = 'cloud'")
    page.click("#prompt")
    page.write("What is this?")
    page.click("#send")
    page.wait("document.querySelector('.turn .facts .error')?.textContent")
    page.errors.clear()  # the browser itself logs every status above 399


def test_it_can_be_used_with_the_keyboard_alone(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.run("document.activeElement.blur()")
    page.press("Tab")
    assert page.run("document.activeElement.className") == "skip"
    page.press("Tab", 2)
    assert page.run("document.activeElement.dataset.page") == "playground"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) != "none"
    page.press("Enter")
    page.wait("!document.querySelector('#playground').hidden")
    assert page.run("document.activeElement.id") == "playground-title"
    page.press("Tab", 3)  # New conversation, the conversation, the message
    assert page.run("document.activeElement.id") == "prompt"


def test_every_control_has_a_name_and_every_part_a_heading(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelector('#feed .when')")
    nameless = page.run(
        """[...document.querySelectorAll('button, input, select, textarea, a, [role=img]')]
        .filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') ||
            e.labels?.length || e.title)).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    for landmark in ("header", "nav[aria-label]", "main", "html[lang]"):
        assert page.run(f"document.querySelectorAll('{landmark}').length") == 1
    assert page.run(
        "[...document.querySelectorAll('section')].every((s) => s.querySelector('h1, h2'))"
    )
    assert page.run("document.querySelectorAll('[aria-live=polite]').length") >= 2


CONTRAST = """(() => {
  const value = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map((v) => {
    v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c }
    return 'rgb(255, 255, 255)' };
  return [...document.querySelectorAll('main *:not(option), header *:not(option)')].filter((e) =>
    e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
    && !e.closest('svg') && !e.classList.contains('only-read')).map((e) => {
      const [a, b] = [value(getComputedStyle(e).color), value(behind(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 80)] })
    .filter(([ratio]) => ratio < 4.5) })()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_in_light_and_in_dark(page: Browser, busy: Served, dark: bool) -> None:
    page.look(dark=dark)
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed tr').length === 12")
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(19, 21, 22)" if dark else "rgb(247, 247, 245)")
    page.run("document.getAnimations().forEach((each) => each.finish())")
    assert page.run(CONTRAST) == []
    page.run("location.hash = 'playground'")
    page.wait("!document.querySelector('#playground').hidden")
    assert page.run(CONTRAST) == []


def test_the_chosen_colours_go_before_the_systems(page: Browser, busy: Served) -> None:
    page.look(dark=True)
    opened(page, busy)
    page.run(
        "(() => { const t = document.querySelector('#theme'); t.value = 'light';"
        " t.dispatchEvent(new Event('change')) })()"
    )
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(247, 247, 245)"
    page.run("localStorage.clear()")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_runs_off_a_narrow_screen(page: Browser, busy: Served, width: int) -> None:
    page.look(width=width, height=800)
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed tr').length === 12")
    for name in ("overview", "playground", "captions"):
        page.run(f"location.hash = '{name}'")
        page.wait(f"!document.querySelector('#{name}').hidden")
        assert page.run("document.documentElement.scrollWidth") <= width, name


def test_a_server_with_a_key_asks_for_it_once(page: Browser, serving: Serving) -> None:
    served = serving(key="the right one")
    page.open(f"{served.url}/")
    page.wait("document.querySelector('#key-dialog').open")
    page.write("the wrong one")
    page.press("Enter")
    page.wait("document.querySelector('#key-note').textContent.includes('not the right')")
    page.wait("document.querySelector('#key-dialog').open")
    page.write("the right one")
    page.press("Enter")
    page.wait(READY)
    page.wait("document.querySelector('#connection-words').textContent === 'Live'")
    assert not any("the right one" in each for each in page.asked)
    page.errors.clear()  # the browser itself logs every 401
    page.run("sessionStorage.clear()")


def test_captions_of_a_file_appear_while_it_plays(
    page: Browser,
    serving: Serving,
    cloud: LoopbackCloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "VoiceActivity", LoudnessActivity)
    cloud.always("what was really said")
    sound = tmp_path / "talk.wav"
    sound.write_bytes(wav(spoken(100, 101, 102), pause(0.9), spoken(700, 701, 702), pause(0.9)))
    opened(page, serving(transcriber=LevelTranscriber()), "#captions")
    page.choose_file("#sound", sound)
    page.wait("document.querySelector('#caption-state').textContent === 'Listening.'")
    page.wait("document.querySelector('#caption-text').textContent.includes('w101')")
    page.wait("document.querySelector('#caption-text .cloud')?.textContent.includes('really')")
    assert "The device heard" in page.run("document.querySelector('#caption-text .cloud').title")
    page.wait("document.querySelector('#caption-state').textContent === 'Not listening.'")


def test_captions_say_what_to_install_where_nothing_can_hear(
    page: Browser, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise ExtraMissing("speech", "faster-whisper")

    monkeypatch.setattr(parts, "open_transcriber", missing)
    opened(page, serving(), "#captions")
    page.click("#listen")  # a beep, from the browser's pretended microphone
    page.wait("document.querySelector('#caption-state').textContent.includes('edgewise[speech]')")
