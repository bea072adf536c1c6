"""Take the pictures of the dashboard: `python -m scripts.picture_dashboard docs/images`.

The page is the real one, in a real Chromium; what it shows is a week of an invented team, and a
scripted device and cloud. Needs Chromium and what tests need.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import numpy
from PIL import Image
from tests.server.browser import Browser, chromium

from edgewise import Settings
from edgewise.record.ledger import Ledger
from edgewise.server import serve
from edgewise.server.keys import KeyFile
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, word_tokens
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.replies import Token

MODEL = "qwen2.5-coder-1.5b-instruct"
KEYS = (
    *("wiki", "helpdesk", "webui", "crm", "search", "mail-drafts", "billing", "onboarding"),
    *("docs-qa", "legal-search", "kiosk", "translations", "ci-review", "hr-portal"),
)
ROWS, WEEK_S = 20_000, 7 * 86_400.0
COLOURS = 256
WORDS = (
    "Canberra is the capital of Australia: the site was chosen in 1908 between its two largest "
    "cities, Sydney and Melbourne, because neither would have let the other one be it. Parliament "
    "has met there since 1927."
)
DOUBT = "It may be Sydney, which is the largest city, or perhaps another one of the coast."


def fill(path: Path, now: float) -> None:
    """A week of requests: many by day, few by night and at the weekend."""
    ledger = Ledger(path)
    ledger.usage()  # makes it
    ledger.close()
    chance = random.Random(38)
    connection = sqlite3.connect(path, isolation_level=None)
    asked, tried = (
        {row[1]: "" if row[2] == "TEXT" else 0 for row in connection.execute(f"PRAGMA {of}")}
        for of in ("table_info(requests)", "table_info(attempts)")
    )
    asked = {name: value for name, value in asked.items() if not name.endswith("_text")}
    connection.execute("BEGIN")
    for number in range(ROWS):
        facts = request(number, when(chance, now), chance)
        insert(connection, "requests", {**asked, **facts})
        if facts["source"] in ("cloud", "mixed"):
            insert(connection, "attempts", {**tried, **attempt(facts)})
        if facts["source"] == "local" and chance.random() < 0.02:
            insert(connection, "verdicts", verdict(facts, chance))
    connection.execute("COMMIT")
    connection.close()


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])


def when(chance: random.Random, now: float) -> float:
    while True:
        at = now - WEEK_S * chance.random()
        moment = datetime.fromtimestamp(at, UTC)
        busy = 0.08 + max(0.0, 1 - abs(moment.hour + moment.minute / 60 - 14) / 6)
        if chance.random() < busy * (0.25 if moment.weekday() > 4 else 1):
            return at


def request(number: int, at: float, chance: random.Random) -> dict[str, Any]:
    task = chance.choices(("chat", "call", "transcribe"), (78, 17, 5))[0]
    threshold = {"chat": 0.7, "call": 0.83, "transcribe": 0.7}[task]
    confidence = min(0.995, max(0.05, chance.betavariate(5, 1.6)))
    source, code, degraded = "local", "kept_confident", ""
    if chance.random() < 0.004:
        source, code = "none", ""
    elif confidence < threshold:
        source, code = "cloud", "handoff_low_confidence"
        what = chance.random()
        if what < 0.07:
            degraded = chance.choice(("budget_spent", "cloud_timeout", "cloud_rate_limited"))
            source, code = "local", "fallback_local"
        elif what < 0.12:
            source = "mixed"
    left = source in ("cloud", "mixed")
    total = chance.lognormvariate(7.3 if left else 6.6, 0.45)
    return {
        "id": f"{number:08x}-4f1c",
        "created_at": at,
        "task": task,
        "policy": "prefer_local",
        "handoff": "automatic",
        "budget_key": KEYS[min(len(KEYS) - 1, int(chance.expovariate(0.3)))],
        "source": source,
        "model": "gpt-6-luna" if left else MODEL,
        "decision_code": code,
        "degraded": bool(degraded),
        "degraded_code": degraded,
        "needs_cloud_handoff": left or bool(degraded),
        "cloud_handoff": left,
        "confidence": confidence,
        "threshold": threshold,
        "kept_from": threshold,
        "kept_at": None,
        "calibration": f"{task}:{MODEL}",
        "features": "{}",
        "first_token_ms": total / 5,
        "total_ms": total,
        "input_tokens": chance.randrange(40, 900),
        "output_tokens": chance.randrange(5, 250),
        "cost_microdollars": int(chance.lognormvariate(6.6, 0.8)) if left else 0,
        "cost_avoided_microdollars": 0 if left else int(chance.lognormvariate(6.3, 0.7)),
        "error_code": "timeout" if source == "none" else "",
    }


def attempt(facts: dict[str, Any]) -> dict[str, Any]:
    day = datetime.fromtimestamp(facts["created_at"], UTC).strftime("%Y-%m-%d")
    return {
        **{name: facts[name] for name in ("budget_key", "model", "cost_microdollars", "total_ms")},
        "id": f"{facts['id']}/1",
        "request_id": facts["id"],
        "place": "cloud",
        "backend": "openai",
        "state": "settled",
        "started_at": facts["created_at"],
        "settled_at": facts["created_at"] + 1,
        "day": day,
        "month": day[:7],
        "outcome": "answered",
        "redacted": "{}",
    }


def verdict(facts: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    return {
        **{name: facts[name] for name in ("id", "created_at", "task", "calibration", "confidence")},
        "workload": facts["budget_key"],
        "above": facts["threshold"],
        "correct": chance.random() < facts["confidence"] + 0.08,
        "judged_by": "person",
    }


def moving(text: str, first: float, last: float) -> tuple[Token, ...]:
    """Tokens that are surer and surer, or less and less sure."""
    words = text.split()
    found: list[Token] = []
    for index, word in enumerate(words):
        sure = first + (last - first) * index / len(words)
        evidence = {"logprob": -3 * (1 - sure), "margin": 6 * sure, "entropy": 2.5 * (1 - sure)}
        found += word_tokens(f" {word}" if index else word, **evidence)
    return tuple(found)


def save(page: Browser, path: Path, of: str = "") -> None:
    """What is seen, or one part of the page, as a small PNG whose plain areas are exact."""
    page.run("scrollTo(0, 0)")
    page.picture(path, whole=bool(of))
    image = Image.open(path).convert("RGB")
    if of:
        box = page.run(
            f"(({{left, top, right, bottom}}) => [left, top + scrollY, right, bottom + scrollY])"
            f"(document.querySelector('{of}').getBoundingClientRect())"
        )
        image = image.crop(tuple(round(each) for each in box))
    found: Any = image.getcolors(image.width * image.height)
    common = numpy.array([colour for _, colour in sorted(found, reverse=True)[:COLOURS]])
    nearest = {
        colour: int(((common - colour) ** 2).sum(axis=1).argmin())
        for colour in (each for _, each in found)
    }
    pixels = numpy.asarray(image).reshape(-1, 3).tolist()
    numbers = numpy.array([nearest[r, g, b] for r, g, b in pixels], dtype=numpy.uint8)
    plain = Image.fromarray(numbers.reshape(image.height, image.width), "P")
    plain.putpalette(common.flatten().tolist())
    plain.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1024} kB")


def choose(page: Browser, selector: str, value: str) -> None:
    page.run(
        f"(e => {{ e.value = '{value}'; e.dispatchEvent(new Event('change')) }})"
        f"(document.querySelector('{selector}'))"
    )


def ask(url: str, key: str) -> threading.Thread:
    body = {"model": "auto", "messages": [{"role": "user", "content": "Hello"}], "stream": True}
    head = {"authorization": f"Bearer {key}"}

    def read() -> None:
        with httpx2.stream(
            "POST", f"{url}/v1/chat/completions", json=body, headers=head, timeout=60
        ) as answer:
            answer.read()

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def open_page(page: Browser, url: str, where: str = "") -> None:
    page.open("about:blank")
    page.open(f"{url}/{where}")
    page.wait("document.querySelectorAll('#model option').length > 1")


def take(page: Browser, url: str, keys: dict[str, str], folder: Path) -> None:
    shots = ("", 1280, 1700, False), ("-dark", 1280, 1700, True), ("-phone", 390, 1100, False)
    for name, width, height, dark in shots:
        page.look(width=width, height=height, dark=dark)
        open_page(page, url)
        choose(page, "#range", "7d")
        page.wait("document.querySelector('#usage-table tbody tr')")
        asking = [ask(url, keys[app]) for app in ("wiki", "helpdesk", "webui", "crm")]
        page.wait("document.querySelectorAll('.spark').length > 1")
        page.wait("document.querySelector('.run .arrow + .pill.cloud')")
        time.sleep(1.2)
        save(page, folder / f"dashboard{name}.png")
        if not name:
            page.click("#usage-table tbody tr:nth-child(2) button")
            save(page, folder / "team.png", of="#usage")
        for each in asking:
            each.join()
    page.look(width=1280, height=860)
    open_page(page, url, "#playground")
    page.click("#examples .chip")
    page.press("Enter")
    page.wait("document.querySelector('#verdict').textContent")
    save(page, folder / "playground.png")


def main(folder: Path) -> None:
    sure, unsure = moving(WORDS, 0.7, 0.98), moving(DOUBT, 0.75, 0.05)
    facts = replace(SCRIPTED_FACTS, model=MODEL, slots=4)
    backend = ScriptedBackend([sure, unsure, sure, sure] * 3 + [unsure], delay_s=0.25, facts=facts)
    text = "Canberra has been the capital of Australia since 1913."
    with ExitStack() as stack:
        cloud = stack.enter_context(LoopbackCloud())
        said = Answer(text=text, input_tokens=1_000, output_tokens=500, delay_between_s=0.4)
        cloud.always(said)
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pictures-")))
        (home / "data").mkdir()
        fill(home / "data" / "ledger.sqlite3", time.time())
        file = KeyFile(home / "config")
        rules: dict[str, Any] = {"webui": {"user_budgets": ("$0.50/day",)}}
        keys = {
            name: file.add(name, {"budgets": ("$2/day",), **rules.get(name, {})}) for name in KEYS
        }
        lead = file.add("lead", {"role": "admin"})
        settings = Settings.load(
            {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": cloud.openai_url},
            data_dir=home / "data",
            config_dir=home / "config",
            cache_dir=home / "cache",
            budgets=["$20/day"],
            server={"port": 0, "slots": 4},
        )
        url = stack.enter_context(serve.running(settings, backend=backend))
        page = stack.enter_context(chromium(home / "chromium"))
        page.open(f"{url}/dashboard/style.css")
        page.run(f"sessionStorage.setItem('edgewise-key', '{lead}')")
        take(page, url, keys, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
