"""A skill with pictures is a queue like every local model: in turn, bounded, and left at once."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from edgewise.assembly import pictures as vision_requests
from edgewise.local.backend import DeviceFacts
from edgewise.types.pictures import (
    Line,
    Sight,
)
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until
from tests.server.test_disconnects import clean, post

PICTURE = f"data:image/png;base64,{base64.b64encode(one_pixel()).decode()}"
SIGN = [
    {"type": "text", "text": "What does the sign say?"},
    {"type": "image_url", "image_url": {"url": PICTURE}},
]


class SlowEye:
    """Looks as long as it is told to, and counts who looks at once."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.looking = self.most = self.looked = 0
        self._lock = threading.Lock()

    def facts(self) -> DeviceFacts:
        return DeviceFacts(backend="scripted", model="eye-1", quantisation="", context_tokens=1)

    def look(self, pixels: Any) -> Sight:
        with self._lock:
            self.looking += 1
            self.most = max(self.most, self.looking)
        assert self.let_go.wait(20)
        with self._lock:
            self.looking -= 1
            self.looked += 1
        return Sight(lines=(Line("NO ENTRY", 0.99, ((0, 0), (99, 0), (99, 30), (0, 30))),))

    def close(self) -> None:
        """Nothing to free."""


@pytest.fixture
def vision_skill(monkeypatch: pytest.MonkeyPatch) -> SlowEye:
    one = SlowEye()
    monkeypatch.setattr(vision_requests, "open_skill", lambda *_, **__: one)
    return one


def look(served: Served) -> httpx2.Response:
    return served.chat(model="local", messages=[{"role": "user", "content": SIGN}])


def test_pictures_are_looked_at_in_turn_and_a_full_queue_is_429(
    serving: Serving, vision_skill: SlowEye
) -> None:
    served = serving(queue=1)
    with ThreadPoolExecutor(2) as pool:
        first: Future[httpx2.Response] = pool.submit(look, served)
        wait_until(lambda: vision_skill.looking == 1)
        fair_queue = served.state.engine.fair_queues["eye-1"]
        second = pool.submit(look, served)
        wait_until(lambda: fair_queue.waiting == 1)
        full = look(served)
        assert (full.status_code, full.json()["error"]["code"]) == (429, "device_busy")
        assert int(full.headers["retry-after"]) >= 1
        assert 'edgewise_slots_busy{model="eye-1"} 1' in served.http.get("/metrics").text
        vision_skill.let_go.set()
        answers = [first.result(), second.result()]
    assert [each.status_code for each in answers] == [200, 200]
    assert [each.json()["choices"][0]["message"]["content"] for each in answers] == ["NO ENTRY"] * 2
    assert (vision_skill.most, vision_skill.looked) == (1, 2)
    clean(served)


def test_one_who_leaves_the_queue_before_a_picture_is_passed_over(
    serving: Serving, vision_skill: SlowEye
) -> None:
    served = serving(queue=4)
    asked: dict[str, Any] = {"model": "local", "messages": [{"role": "user", "content": SIGN}]}
    first = post(served, **asked)
    wait_until(lambda: vision_skill.looking == 1)
    fair_queue = served.state.engine.fair_queues["eye-1"]
    second = post(served, **asked)
    wait_until(lambda: fair_queue.waiting == 1)
    second.close()
    wait_until(lambda: fair_queue.waiting == 0)
    vision_skill.let_go.set()
    assert b"200 OK" in first.recv(65536)
    first.close()
    clean(served)
    assert vision_skill.looked == 1
