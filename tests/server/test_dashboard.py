"""The dashboard in a real browser: what it shows, how it is used, and that it needs nobody else."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from edgewise import parts
from edgewise.decide.drift import Drift
from edgewise.errors import ExtraMissing, LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.server.keys import KeyFile
from edgewise.speech import audio
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
    word_tokens,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, pause, spoken
from tests.pictures import one_pixel
from tests.pulled import pull
from tests.server.browser import Browser, chromium
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.server.test_in_flight import LESS_AND_LESS, StepByStep
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


def chatting(page: Browser, served: Served) -> None:
    opened(page, served, "#playground")
    page.click("#mode-chat")
    page.wait("!document.querySelector('#log').hidden")


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


def test_long_lists_are_read_again_only_where_something_has_come(
    page: Browser, busy: Served
) -> None:
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed tr').length === 12")
    before = len(page.asked)
    page.run("new Promise((done) => setTimeout(done, 11000))")  # two readings of the figures
    asked = [each.removeprefix(busy.url) for each in page.asked[before:]]
    assert "/edgewise/overview/24h" in asked
    assert not {"/edgewise/requests", "/edgewise/confidences/24h"} & set(asked)
    threading.Thread(target=busy.chat).start()
    page.wait("document.querySelectorAll('#feed tr').length === 13")
    page.wait("document.querySelector('#task option').textContent.includes('(13)')")


def test_who_asks_and_spends_is_a_table_a_trend_and_a_file(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text="Lyon.", input_tokens=900, output_tokens=900))
    served = serving(ScriptedBackend([SURE, UNSURE, SURE], delay_s=0.001))
    for key in ("kitchen", "kitchen", HOSTILE):
        served.chat(metadata={"budget_key": key})
    opened(page, served)
    page.wait("document.querySelectorAll('#usage-table tbody tr').length === 2")
    rows = "[...document.querySelectorAll('#usage-table tbody tr')].map((e) => e.textContent)"
    kitchen, other = page.run(rows)
    assert re.fullmatch(r"kitchen\$0\.\d+250 %010\$0\.\d+", kitchen)
    assert other.startswith(f"{HOSTILE}$01100 %")
    assert re.match(r"all of them\$0\.\d+367 %", page.text("#usage-table tfoot"))
    assert page.run("document.querySelectorAll('#usage-trend rect').length") == 1, "money, one day"
    choose(page, "#usage-what", "asked")
    assert page.run("document.querySelectorAll('#usage-trend rect').length") == 2, "one day"
    page.click("#usage-table tbody tr:nth-child(2) button")
    assert page.text("#usage-trend-title") == f"Trend: {HOSTILE}"
    assert page.run("document.querySelectorAll('#usage-trend rect').length") == 1, "all kept"
    choose(page, "#usage-what", "spent")
    assert page.text("#usage-trend") == "Nothing was spent in this time."
    page.click("#usage-table .asked button")  # by requests; the keyboard stays where it was
    assert page.run("document.activeElement.textContent") == "Requests"
    page.run(
        "(() => { const e = document.querySelector('#usage-find'); e.value = 'KITCH';"
        " e.dispatchEvent(new Event('input')) })()"
    )
    page.wait("document.querySelectorAll('#usage-table tbody tr').length === 1")
    assert page.text("#usage-count") == "1 of 2 keys, in whole days of UTC"
    page.run("HTMLAnchorElement.prototype.click = function () { window.saved = this.download }")
    page.click("#usage-export")
    page.wait("window.saved")
    assert page.run("window.saved") == "edgewise-key-day-24h.csv"
    for width in (390, 820, 1024, 1280):
        page.look(width=width)
        assert page.run("document.documentElement.scrollWidth") <= width
        for table in ("#usage-table", "#feed-scroll"):  # what was spent, and ✓ and ✗, are seen
            hidden = f"(e => e.scrollWidth - e.clientWidth)(document.querySelector('{table}'))"
            assert page.run(hidden) <= 0, (table, width)
    assert page.run("window.hurt") is None


def choose(page: Browser, selector: str, value: str) -> None:
    page.run(
        f"(() => {{ const e = document.querySelector('{selector}'); e.value = '{value}';"
        " e.dispatchEvent(new Event('change')) })()"
    )


def test_what_stayed_below_its_threshold_is_counted_by_its_reason(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(
        ScriptedBackend([UNSURE], delay_s=0.001), settings={"budgets": ["none: $0.000001/day"]}
    )
    cloud.always("Lyon.")
    served.chat()
    for _ in range(2):
        served.chat(metadata={"policy": "local_only"})
    served.chat(metadata={"budget_key": "none"})
    cloud.always(Status(500))
    served.chat()
    opened(page, served)
    page.wait("document.querySelector('#agreement').textContent")
    told = page.text("#agreement")
    assert told.startswith("Of the 5 that were below their threshold, 1 went to the cloud and 4")
    assert "only the device was allowed: 2" in told and "the budget is spent: 1" in told
    assert "it had an error of its own: 1" in told
    assert page.text("#degraded-note") == "it should have answered and did not:"
    assert "the budget is spent1" in page.text("#degraded-reasons")
    feed = page.text("#feed")
    assert "the cloud failed" not in feed and "cloud: the budget is spent" in feed


def test_captions_are_offered_only_where_they_can_work(
    page: Browser, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "find_spec", lambda name: None)
    opened(page, serving(), "#captions")
    page.wait("!document.querySelector('#overview').hidden")
    assert page.run("document.querySelector('#captions').hidden")
    assert page.run("document.querySelector('#captions-link').hidden")
    given = serving(transcriber=LevelTranscriber())
    opened(page, given, "#captions")
    page.wait("!document.querySelector('#captions').hidden")
    assert not page.run("document.querySelector('#captions-link').hidden")


def test_thumbs_say_whether_an_answer_was_right(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelectorAll('#feed .thumbs').length === 12")
    thumb = "#feed tr:first-child .thumb[aria-label=wrong]"
    page.click(thumb)
    page.wait(f"document.querySelector('{thumb}').getAttribute('aria-pressed') === 'true'")
    page.wait("document.querySelector('#feed-news').textContent === 'Counted as wrong.'")
    assert not page.run("document.querySelector('#detail').open"), "the row does not open"
    (said,) = busy.state.engine.ledger.verdicts("")
    assert said.id == page.run("document.querySelector('#feed tr').dataset.id")
    assert (said.right, said.judged_by) == (False, "person")
    opened(page, busy)  # anew: the server remembers it
    page.wait(f"document.querySelector('{thumb}')?.getAttribute('aria-pressed') === 'true'")


def test_a_thumb_that_was_not_recorded_says_so_and_is_taken_back(
    page: Browser, busy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise LedgerUnavailable("the ledger is away")

    opened(page, busy)
    page.wait("document.querySelectorAll('#feed .thumbs').length === 12")
    monkeypatch.setattr(busy.state.engine.ledger, "record_verdict", away)
    page.click("#feed tr:first-child .thumb[aria-label=right]")
    page.wait("!document.querySelector('#feed-trouble').hidden")
    assert "the ledger is away" in page.text("#feed-trouble")
    assert page.run("document.querySelectorAll('.thumb[aria-pressed=true]').length") == 0
    page.errors.clear()  # the browser notes the 503


def test_a_request_opens_in_full_and_closes_with_escape(page: Browser, busy: Served) -> None:
    opened(page, busy)
    page.wait("document.querySelector('#feed .when')")
    assert page.text("#feed .badge") == "unverified", "nobody calibrated the scripted model"
    page.click("#feed tr .why")  # anywhere on its row
    page.wait("document.querySelector('#detail').open && document.querySelector('#detail dl')")
    assert "handoff_low_confidence" in page.text("#detail-body")
    rows = page.run(
        "[...document.querySelectorAll('#detail tbody tr')].map((e) => e.cells[0].textContent)"
    )
    assert rows[:2] == ["device", "cloud"], "its attempts, in their order"
    assert "It left for the cloud: its unverified confidence of " in page.text("#detail-body")
    assert ", unverified (threshold" in page.text("#detail-body")
    assert "What is the capital" not in page.text("#detail-body")
    page.press("Escape")
    page.wait("!document.querySelector('#detail').open")


def handed_off(page: Browser) -> int:
    found = re.search(r"Would leave\d+ %(\d+) of 12", page.text("#outcome"))
    assert found, page.text("#outcome")
    return int(found[1])


def test_dragging_the_threshold_changes_what_would_have_happened(
    page: Browser, busy: Served
) -> None:
    opened(page, busy)
    page.wait("document.querySelector('#histogram input')")
    page.run("document.querySelector('#histogram').scrollIntoView({block: 'center'})")
    assert handed_off(page) == 4 and "as it was" in page.text("#outcome")
    left = "[...document.querySelectorAll('#histogram text[x=\"26\"]')]"
    counts = page.run(f"{left}.map((each) => each.textContent)")
    assert counts and all(each.isdigit() for each in counts), "requests are whole"
    assert "nobody has calibrated this model" in page.text("#expected")
    slider = "document.querySelector('#histogram input')"
    box = page.run(
        f"(() => {{ const s = {slider}, b = s.getBoundingClientRect();"
        " return [b.x, b.y + b.height / 2, b.width, Number(s.value), Number(s.min),"
        " Number(s.max)] })()"
    )
    left, middle, width, value, least, most = box
    assert least < value < most
    at = left + 12 + (width - 24) * (value - least) / (most - least)
    page.mouse("mousePressed", at, middle)
    page.mouse("mouseMoved", left + width - 10, middle)
    page.mouse("mouseReleased", left + width - 10, middle)
    page.wait(f"{slider}.value === {slider}.max")
    assert handed_off(page) == 12 and "+8" in page.text("#outcome")
    assert "100 %" in page.run(f"{slider}.getAttribute('aria-valuetext')")
    page.run(f"{slider}.focus()")
    page.press("Home")
    page.wait(f"{slider}.value === {slider}.min")
    assert handed_off(page) == 0
    page.press("ArrowRight")
    assert page.run(f"Number({slider}.value)") == pytest.approx(least + 0.01)
    written = f"threshold = {least + 0.01:.2f}"
    assert page.text("#write-down pre") == written
    page.run(COPIED)
    page.click("#write-down .copy")
    assert page.run("window.copied") == written


# What a copy button puts into the clipboard, which a browser without a window does not share.
COPIED = """Object.defineProperty(navigator, 'clipboard', {value: {
    writeText: async (text) => { window.copied = text } }})"""


def test_the_threshold_opens_on_most_rows_and_says_how_many_are_wrong(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always("Paris.")
    before = serving()
    for _ in range(2):
        before.chat()  # of a model that nobody has calibrated
    file = resources.files("edgewise.calibrations") / "smollm2-135m-instruct-q8_0.json"
    served = serving(
        ScriptedBackend([SURE, SURE, UNSURE]),
        settings={"calibration": str(file), "cloud_share": 0.3},
    )
    for _ in range(5):
        served.chat()
    opened(page, served)
    page.wait("document.querySelector('#histogram input')")
    groups = page.run("[...document.querySelectorAll('#task option')].map((e) => e.textContent)")
    assert groups == ["chat (5)", "chat, unverified (2)"], "two scales are never mixed"
    rows = served.http.get("/edgewise/requests").json()["requests"]
    sure = [row["confidence"] for row in rows if row["confidence_verified"]]
    at = float(page.run("document.querySelector('#histogram input').value"))
    kept = [each for each in sure if each >= at]
    wrong = sum(1 - each for each in kept)
    told = f"Among the {len(kept)} that stay, expect about {wrong:.1f} wrong answers"
    assert page.text("#expected").startswith(told)
    assert f"{len(kept)} of 5" in page.text("#outcome")
    least, most = page.run(
        "(({min, max}) => [min, max].map(Number))(document.querySelector('#histogram input'))"
    )
    assert least == pytest.approx(math.floor(20 * min(sure)) / 20), "the range is the data's"
    assert least > 0 and most - least < 1
    assert "cloud_share = 0.3, which must go" in page.text("#write-down")


def test_what_runs_is_seen_with_its_confidence_until_the_cloud_takes_over(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    looked = threading.Event()
    cloud.always(lambda _: "It is Paris." if looked.wait(60) else "late")
    device = StepByStep([LESS_AND_LESS])
    served = serving(device, settings={"patience_s": 60})
    opened(page, served)
    assert "0 running" in page.text("#queue-line")
    asking = threading.Thread(target=served.chat)
    asking.start()
    for tokens in ("1 token", "2 tokens", "3 tokens"):
        device.step.release()
        page.wait(f"document.querySelector('.run-speed span')?.textContent === '{tokens}'")
    page.wait("document.querySelector('.run .pill.local.now') && document.querySelector('.spark')")
    assert "1 running · 1 of 1 local slot busy" in page.text("#queue-line")
    assert "scripted-1" in page.text(".run-way") and "token" in page.text(".run-speed")
    assert page.run("document.querySelector('.spark .mark-line') !== null"), "the threshold"
    device.step.release(99)
    page.wait("document.querySelector('.run .arrow + .pill.cloud.now')")
    page.wait("document.querySelector('.run-way').textContent.includes('openai')")
    page.wait("document.querySelector('.spark.low')")
    for width in (390, 820, 1024, 1280):
        page.look(width=width, dark=True)
        assert page.run("document.documentElement.scrollWidth") <= width
    looked.set()
    page.wait("document.querySelector('.run.done .run-outcome')?.textContent")
    assert "in doubt" in page.text(".run-outcome")
    asking.join()
    page.wait("document.querySelectorAll('#feed tr').length === 1")
    assert "0 running" in page.text("#queue-line")


def test_an_empty_server_leads_to_the_first_request(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(environment={"OPENAI_API_KEY": ""})
    opened(page, served)
    page.wait("document.querySelector('#start').open")
    assert not page.run("document.querySelector('#figures').checkVisibility()")
    assert page.text("#base-url") == f"{served.url}/v1"
    page.run(COPIED)
    page.click(".base .copy")
    assert page.run("window.copied") == f"{served.url}/v1"
    assert f"curl {served.url}/v1/chat/completions" in page.text("#clients pre")
    page.click("#clients [role=tab]")
    for words in ("from openai", "from anthropic", "from ollama"):
        page.press("ArrowRight")
        assert words in page.text("#clients pre") and served.url in page.text("#clients pre")
    page.click("#clients .copy")
    assert "from ollama import Client" in page.run("window.copied")
    ready = page.text("#readiness")
    assert "The device is ready: scripted-1" in ready and "Clients need no key" in ready
    assert "No cloud provider has a key" in ready and "edgewise auth set openai" in ready
    page.click("#try")
    page.wait("document.querySelector('#try-result .answer')")
    assert "device Paris is the capital of France. (sure enough" in page.text("#try-result")
    page.wait("document.querySelector('#figures').checkVisibility()")
    page.run("location.hash = 'playground'")
    page.wait("!document.querySelector('#playground').hidden")
    page.click("#examples .chip")
    page.press("Enter")
    page.wait("document.querySelector('#verdict').textContent")
    assert "No cloud provider has a key" in page.text("#side-cloud")
    assert "Paris is the capital" in page.text("#side-local .side-said")


HOSTILE = "<img src=x onerror=window.hurt=1>"


def test_rows_are_filtered_searched_and_marked(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always("Paris.")
    facts = replace(SCRIPTED_FACTS, model=HOSTILE)
    served = serving(ScriptedBackend([SURE, UNSURE, UNSURE, UNSURE], facts=facts, delay_s=0.001))
    served.chat()
    served.chat()  # handed off
    served.chat(metadata={"policy": "local_only", "budget_key": HOSTILE})  # kept in doubt
    cloud.always(Status(400))
    served.chat(metadata={"budget_key": "kitchen"})  # degraded: the cloud did not answer
    served.state.engine.parts.watch.found[HOSTILE] = Drift(
        calibration=HOSTILE, reasons=("too many are wrong",)
    )
    opened(page, served)
    page.wait("document.querySelectorAll('#feed tr').length === 4")
    assert page.text("#feed-count") == "the latest 4"
    feed = "document.querySelector('#feed-scroll')"
    assert page.run(f"{feed}.scrollWidth - {feed}.clientWidth") <= 0, "✓ and ✗ are seen"
    threading.Thread(target=served.chat, kwargs={"messages": [], "model": "local"}).start()
    page.wait("document.querySelectorAll('#feed tr').length === 5")
    assert "refused" in page.text("#feed tr:first-child") and page.text("#requests") == "4"

    def choose(name: str, value: str) -> list[str]:
        page.run(
            f"(() => {{ const e = document.querySelector('#filter-{name}');"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')) }})()"
        )
        found: list[str] = page.run(
            "[...document.querySelectorAll('#feed .by')].map((e) => e.textContent)"
        )
        page.run("document.querySelector('#filters').reset()")
        page.wait("document.querySelectorAll('#feed tr').length === 5")
        return found

    assert choose("source", "cloud") == ["cloud"]
    assert sorted(choose("state", "doubt")) == ["devicein doubt", "devicein doubtdegraded"]
    assert choose("state", "degraded") == ["devicein doubtdegraded"]
    assert choose("key", HOSTILE) == ["devicein doubt"]
    assert len(choose("model", HOSTILE)) == 3 and len(choose("task", "chat")) == 4
    page.click("#search")
    page.write("KITCHEN")
    page.wait("document.querySelectorAll('#feed tr').length === 1")
    assert page.text("#feed-count") == "1 of the latest 5"
    page.click("#feed tr .why")
    page.wait("document.querySelector('#detail dl')")
    assert "Kept from the cloud by" in page.text("#detail-body")
    assert "Drift." in page.text("#drift-alarm") and HOSTILE in page.text("#drift-alarm")
    assert page.run("window.hurt") is None and page.run("document.images.length") == 0
    page.errors.clear()  # the browser itself logs every status above 399


def test_the_playground_compares_device_and_cloud_at_once(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text="Canberra, since 1913.", delay_between_s=0.4, output_tokens=7))
    served = serving(ScriptedBackend([UNSURE], delay_s=0.2))
    opened(page, served, "#playground")
    page.click("#system")
    page.write("Be brief.")
    page.click("#prompt")
    page.write("What is the capital")
    page.press("Enter", shift=True)
    page.write("of 'Australia'?")
    assert page.run("document.querySelector('#compared').textContent").startswith("One prompt")
    page.press("Enter")
    both = "[...document.querySelectorAll('.side-said')].every((e) => e.textContent)"
    page.wait(f"{both} && document.querySelectorAll('.side[aria-busy=true]').length === 2")
    page.wait("document.querySelector('#verdict').textContent")
    assert page.text("#side-local .side-said") == "Perhaps it is Lyon, who knows."
    assert page.text("#side-cloud .side-said") == "Canberra, since 1913."
    assert "Tokens7 (" in page.text("#side-cloud dl") and "Cost$0." in page.text("#side-cloud dl")
    assert "unverified" in page.text("#side-local dl") and "Cost$0C" in page.text("#side-local dl")
    assert page.text("#verdict").startswith("auto would have asked the cloud (confidence 0.")
    sent: Any = cloud.requests[-1].body
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert sent["messages"][1]["content"] == "What is the capital\nof 'Australia'?"
    page.click("#as-code summary")
    page.run(COPIED)
    page.click("#as-code .copy")
    shell = page.run("window.copied")
    assert "of '\\''Australia'\\''?" in shell and shell.startswith(f"curl {served.url}/v1/chat")
    asked = subprocess.run(["sh", "-c", f'set -- {shell}; printf %s "$6"'], capture_output=True)
    assert json.loads(asked.stdout)["messages"] == sent["messages"]
    page.click("#as-code [role=tab]")
    page.press("ArrowRight")
    ast.parse(page.text("#as-code pre"))
    assert "Be brief." in page.text("#as-code pre")


def test_the_playground_streams_and_says_who_answered(
    page: Browser, serving: Serving, cloud: LoopbackCloud
) -> None:
    # A short answer is judged whole.
    long = f"Paris is the capital of France, {' '.join(f'and{n}' for n in range(70))}."
    sure = word_tokens(long, logprob=-0.01, margin=6.0, entropy=0.05)
    served = serving(ScriptedBackend([sure], delay_s=0.05))
    chatting(page, served)
    page.click("#prompt")
    page.write("What is the capital of France?")
    page.click("#send")
    page.wait("document.querySelector('.turn.assistant .said')?.textContent.startsWith('Paris')")
    seen = page.text(".turn.assistant .said")
    assert seen.strip() != long.strip()  # it is still being written
    page.wait("document.querySelector('.turn.assistant .facts')?.textContent.includes('sure')")
    assert page.text(".turn.assistant .said").strip() == long.strip()
    page.click(".turn.assistant .thumb[aria-label=wrong]")
    page.wait("document.querySelector('.judged small').textContent === 'counted as wrong'")
    (said,) = served.state.engine.ledger.verdicts("")
    assert (said.right, said.judged_by) == (False, "person")
    assert "device" in page.text(".turn.assistant .who")
    page.run("document.querySelector('#model').value = 'cloud'")
    cloud.always("From the cloud.")
    page.click("#prompt")
    page.write("Again?")
    page.click("#send")
    page.wait("document.querySelector('.turn.cloud .facts')?.textContent")
    assert "From the cloud." in page.text(".turn.cloud .said")


def test_the_playground_decides_and_takes_a_verdict(page: Browser, serving: Serving) -> None:
    teams = {"billing": 0.7, "tech": 0.2, "sales": 0.1}
    device = ScriptedBackend.deciding({"question 1": 0.96, "question 2": teams})
    served = serving(device, settings={"threshold": 0.0})
    opened(page, served, "#playground")
    page.click("#decide-send")
    page.wait("document.querySelectorAll('#decide-shown tbody tr').length === 2")
    told = page.text("#decide-shown")
    assert "Who should take it?" in told and "billing 0.70 · tech 0.20 · sales 0.10" in told
    assert "yes 0.96 · no 0.04" in told and "2 of 2 kept on the device" in told
    page.click("#decide-shown .thumb")
    page.wait("document.querySelector('#decide-shown').textContent.includes('counted as right')")
    page.run("document.querySelector('#decide-questions').value = '?'")
    page.click("#decide-send")
    page.wait("document.querySelectorAll('#decide-shown tbody tr').length === 1")


def test_the_playground_offers_tools_and_takes_their_results(page: Browser, busy: Served) -> None:
    chatting(page, busy)
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
    chatting(page, serving())
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
    chatting(page, serving())
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
    page.press("Tab", 2)  # the mode, the message
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
    page.run("document.querySelector('#start').open = true")
    assert page.run(CONTRAST) == []
    for name in ("playground", "captions"):
        page.run(f"location.hash = '{name}'")
        page.wait(f"!document.querySelector('#{name}').hidden")
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
    assert "edgewise keys add NAME" in page.text("#readiness")
    assert '"authorization: Bearer $GATEWAY_KEY"' in page.text("#clients pre")
    page.errors.clear()  # the browser itself logs every 401
    page.run("sessionStorage.clear()")


def test_a_key_that_will_not_do_is_told_why(
    page: Browser, serving: Serving, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "config")
    over = keys.add("old", {"expires": "2020-01-01"})
    figures = keys.add("prometheus", {"role": "metrics"})
    served = serving(key="the right one")
    served.chat(headers={"authorization": "Bearer the right one"})
    page.open(f"{served.url}/")
    for given, why in (
        (over, "has expired"),
        (figures, "role admin shows"),
        ("no", "not the right"),
    ):
        page.wait("document.querySelector('#key-dialog').open")
        page.write(given)
        page.press("Enter")
        page.wait(f"document.querySelector('#key-note').textContent.includes('{why}')")
    page.write("the right one")
    page.press("Enter")
    page.wait(READY)
    page.wait("document.querySelector('#connection-words').textContent === 'Live'")
    assert page.run("document.querySelector('#connection-trouble').hidden")
    page.wait("document.querySelector('#feed tr')")
    with mock.patch.object(Ledger, "report", side_effect=LedgerUnavailable("no room on the disk")):
        page.run("document.querySelector('#range').dispatchEvent(new Event('change'))")
        page.wait("!document.querySelector('#connection-trouble').hidden")
    assert "no room on the disk" in page.text("#connection-trouble")
    assert page.text("#connection-words") == "Trouble", "not that there is no connection"
    page.wait("document.querySelector('#connection-words').textContent === 'Live'")
    page.errors.clear()  # the browser itself logs what was refused
    page.run("sessionStorage.clear()")


def test_an_app_s_key_is_told_what_is_its_own_and_offered_nothing_else(
    page: Browser, serving: Serving, tmp_path: Path
) -> None:
    pull(tmp_path / "cache" / "models", "smollm2-135m-instruct", quantisation="Q8_0")
    keys = KeyFile(tmp_path / "config")
    wiki, lead = keys.add("wiki", {}), keys.add("lead", {"role": "admin"})
    served = serving(settings={"cache_dir": tmp_path / "cache"})
    for key in (wiki, lead, lead):
        served.chat(headers={"authorization": f"Bearer {key}"})
    for key, seen in ((lead, 3), (wiki, 1)):
        page.open(f"{served.url}/dashboard/style.css")
        page.run(f"sessionStorage.setItem('edgewise-key', '{key}')")
        page.errors.clear()  # a browser asks for an icon of what is no page
        opened(page, served)
        page.wait(f"document.querySelectorAll('#feed tr').length === {seen}")
        page.wait("document.querySelectorAll('#models-list .row').length === 2")
        assert page.text("#requests") == "3", "of all keys, and it says so"
        assert page.run("document.querySelector('#own-line').hidden") == (key == lead)
        buttons = page.run("document.querySelectorAll('#models-list button').length")
        assert (buttons > 0) == (key == lead)
    assert page.text("#own-line").startswith("Your key is wiki.")
    page.run("sessionStorage.clear()")


def test_a_person_s_budget_says_whose_it_is(
    page: Browser, serving: Serving, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always(Answer(text="Lyon.", input_tokens=900, output_tokens=900))
    keys = KeyFile(tmp_path / "config")
    rules = {"user_budgets": ("$1/day", "ann: $2/day"), "group_budgets": ("$5/day",)}
    webui = keys.add("webui", {"forwards_users": True, **rules})
    lead = keys.add("lead", {"role": "admin"})
    served = serving()
    for user in ("ann", "bob"):
        headers = {"authorization": f"Bearer {webui}", "x-edgewise-user": user}
        served.chat(model="cloud", headers=headers | {"x-edgewise-group": "sales"})
    page.open(f"{served.url}/dashboard/style.css")
    page.run(f"sessionStorage.setItem('edgewise-key', '{lead}')")
    page.errors.clear()  # a browser asks for an icon of what is no page
    opened(page, served)
    page.wait("document.querySelectorAll('#budgets .row').length === 3")
    shown = page.run("[...document.querySelectorAll('#budgets small')].map((e) => e.textContent)")
    for whose in ("$2.00 a day for ann of", "$1.00 a day for bob of", "for the group sales of"):
        assert sum(f"{whose} webui" in each for each in shown) == 1, shown
    page.click("#feed tr .when")
    page.wait("document.querySelector('#detail-body dl')")
    assert page.run("document.querySelector('#own-line').hidden")
    assert "Personbob" in page.text("#detail-body") and "Groupsales" in page.text("#detail-body")
    page.run("sessionStorage.clear()")


def test_captions_of_a_file_appear_while_it_plays(
    page: Browser,
    serving: Serving,
    cloud: LoopbackCloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)
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
    assert page.text("#caption-text time") == "0:00" and page.text("#caption-text small") != ""
    page.run(
        "URL.createObjectURL = (blob) => { window.saved = blob.text(); return '#captions' };"
        "HTMLAnchorElement.prototype.click = function () { window.named = this.download }"
    )
    files = {}
    for number, name in enumerate(("txt", "srt", "vtt"), start=2):
        page.click(f"#exports :nth-child({number})")
        assert page.run("window.named").endswith(f".{name}")
        files[name] = page.run("window.saved")
    assert files["txt"] == "[0:00] w100 w101 w102\n[0:01] what was really said\n"
    assert re.match(r"1\n00:00:00,000 --> 00:00:0[\d,]+\nw100 w101 w102\n\n2\n", files["srt"])
    assert files["srt"].endswith("\nwhat was really said\n")
    assert re.match(r"WEBVTT\n\n00:00:00\.000 --> 00:00:0[\d.]+\nw100", files["vtt"])


def test_words_that_the_device_doubts_are_marked(
    page: Browser, serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)
    sound = tmp_path / "talk.wav"
    sound.write_bytes(wav(spoken(100, 101, 702), pause(0.9)))
    opened(page, serving(transcriber=LevelTranscriber()), "#captions")
    page.click("#caption-private")
    page.choose_file("#sound", sound)
    page.wait("document.querySelector('#caption-text [class^=doubt]')")
    page.wait("document.querySelector('#caption-state').textContent === 'Not listening.'")
    marked = "[...document.querySelectorAll('#caption-text [class^=doubt]')]"
    assert page.run(f"{marked}.map((e) => e.textContent.trim())") == ["w702"]


def test_captions_say_what_to_install_where_nothing_can_hear(
    page: Browser, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise ExtraMissing("speech", "faster-whisper")

    monkeypatch.setattr(parts, "open_transcriber", missing)
    opened(page, serving(), "#captions")
    page.click("#listen")  # a beep, from the browser's pretended microphone
    told = "document.querySelector('#caption-state').textContent"
    page.wait(f"{told}.includes(\"the extra 'speech'\")")
