"""Whose turn it is: bounded, fair between clients, and free again when somebody leaves.

A skill with pictures is a queue like every local model.
"""

from __future__ import annotations

import base64
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from edgewise.bridge import Cancellation
from edgewise.errors import Cancelled, DeviceBusy, GenerationFailed
from edgewise.local import vision
from edgewise.local.backend import CallToWrite, DeviceFacts, TokenStream
from edgewise.settings import Settings
from edgewise.shared_engine import FairQueue, QueuedModel, SharedEngine
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
    word_tokens,
)
from edgewise.types.messages import Request
from edgewise.types.replies import Line, Sight, Token
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until
from tests.server.test_disconnects import clean, post


class Asker(threading.Thread):
    """Takes a turn and holds it until told otherwise."""

    def __init__(self, fair_queue: FairQueue, client: str, order: list[str]) -> None:
        super().__init__(daemon=True)
        self.cancellation = Cancellation(client)
        self.fair_queue, self.order = fair_queue, order
        self.let_go = threading.Event()
        self.failure: Exception | None = None

    @override
    def run(self) -> None:
        try:
            with self.fair_queue.turn(self.cancellation):
                self.order.append(self.cancellation.client)
                self.let_go.wait(60)
        except (Cancelled, DeviceBusy) as error:
            self.failure = error


def queue_up(fair_queue: FairQueue, clients: str, order: list[str]) -> list[Asker]:
    askers = []
    for client in clients:
        waiting = fair_queue.waiting
        asker = Asker(fair_queue, client, order)
        asker.start()
        wait_until(lambda waiting=waiting: fair_queue.waiting == waiting + 1)  # type: ignore[misc]
        askers.append(asker)
    return askers


def test_as_many_as_there_are_slots_go_at_once() -> None:
    fair_queue = FairQueue(2, 8)
    with fair_queue.turn(Cancellation("a")), fair_queue.turn(Cancellation("b")):
        assert (fair_queue.busy, fair_queue.waiting) == (2, 0)
    assert fair_queue.busy == 0


def test_some_more_go_ahead_so_that_no_slot_waits_for_the_next() -> None:
    fair_queue = FairQueue(2, 8, ahead=1)
    with (
        fair_queue.turn(Cancellation("a")),
        fair_queue.turn(Cancellation("b")),
        fair_queue.turn(Cancellation("c")),
    ):
        assert (fair_queue.busy, fair_queue.waiting) == (3, 0)
        order: list[str] = []
        (waiting,) = queue_up(fair_queue, "d", order)
        waiting.let_go.set()
    waiting.join(30)
    assert (order, fair_queue.busy) == (["d"], 0)


def test_a_full_queue_is_said_at_once_with_when_to_come_again() -> None:
    fair_queue = FairQueue(1, 1)
    order: list[str] = []
    with fair_queue.turn(Cancellation("first")):
        (second,) = queue_up(fair_queue, "b", order)
        with pytest.raises(DeviceBusy) as caught, fair_queue.turn(Cancellation("third")):
            pass
        assert caught.value.retry_after_s >= 1
        second.let_go.set()
    second.join(30)
    assert order == ["b"]


def test_a_queue_says_how_long_one_who_came_now_would_wait() -> None:
    now = [0.0]
    fair_queue = FairQueue(1, 8, busy_after_s=1.0, clock=lambda: now[0])
    assert fair_queue.wait_s == 0, "a slot is free"
    for _ in range(40):
        with fair_queue.turn(Cancellation("a")):
            now[0] += 0.6
    order: list[str] = []
    with fair_queue.turn(Cancellation("a")):
        assert fair_queue.wait_s == 0, "nobody minds one turn of 0.6 s"
        askers = queue_up(fair_queue, "bc", order)
        assert fair_queue.wait_s == pytest.approx(3 * 0.6, abs=0.01)
        for asker in askers:
            asker.let_go.set()
    for asker in askers:
        asker.join(30)
    assert fair_queue.wait_s == 0


def test_where_a_runtime_takes_one_ahead_that_one_waits_too() -> None:
    fair_queue = FairQueue(1, 8, ahead=1, busy_after_s=0.5)
    with fair_queue.turn(Cancellation("a")):
        assert fair_queue.wait_s == pytest.approx(1.0), "two turns of 2 s each at once"


class Held(ScriptedBackend):
    """Sure of its answer, which it does not give before it is let go."""

    def __init__(self) -> None:
        super().__init__(word_tokens_of("Paris."))
        self.let_go = threading.Event()

    @override
    def generate(self, request: Request, **options: Any) -> TokenStream:
        self.started += 1
        assert self.let_go.wait(60)
        yield from super().generate(request, **options)


def word_tokens_of(text: str) -> list[tuple[Token, ...]]:
    return [word_tokens(text, logprob=-0.01, margin=6.0, entropy=0.05)]


def test_what_would_wait_long_for_the_device_is_answered_by_the_cloud(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text="Paris, says the cloud."))
    backend = Held()
    served = serving(backend, queue=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.chat)
        wait_until(lambda: backend.started == 1)
        second = served.chat().json()["edgewise"]
        assert (second["source"], second["decision"]["code"]) == ("cloud", "handoff_busy")
        assert second["decision"]["reason"].startswith("others are before it at the device")
        assert not second["degraded"]
        stays = pool.submit(served.chat, metadata={"privacy": "private"})
        fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
        wait_until(lambda: fair_queue.waiting == 1)
        full = served.chat(metadata={"policy": "local_only"})
        assert (full.status_code, full.json()["error"]["code"]) == (429, "device_busy")
        backend.let_go.set()
        assert first.result().json()["edgewise"]["source"] == "local"
        assert stays.result().json()["edgewise"]["source"] == "local", "it may not leave"
    why = served.http.get(f"/edgewise/requests/{second['id']}").json()["why"]
    assert "busy_after_s" in " ".join(why["changes"])


def test_a_full_queue_is_a_reason_to_leave_too(serving: Serving, cloud: LoopbackCloud) -> None:
    """Where short waits are no reason at all."""
    cloud.always(Answer(text="Paris, says the cloud."))
    backend = Held()
    served = serving(backend, queue=1, busy_after_s=0.0)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(served.chat)]
        wait_until(lambda: backend.started == 1)
        asked.append(pool.submit(served.chat))
        fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
        wait_until(lambda: fair_queue.waiting == 1)
        third = served.chat().json()["edgewise"]
        assert (third["source"], third["decision"]["code"]) == ("cloud", "handoff_busy")
        backend.let_go.set()
        assert {each.result().json()["edgewise"]["source"] for each in asked} == {"local"}


def test_without_money_a_busy_device_is_waited_for(serving: Serving, cloud: LoopbackCloud) -> None:
    backend = Held()
    served = serving(backend, queue=2, settings={"budgets": ["$0.000001/day"]})
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.chat)
        wait_until(lambda: backend.started == 1)
        second = pool.submit(served.chat)
        fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
        wait_until(lambda: fair_queue.waiting == 1 or second.done())
        backend.let_go.set()
        first.result()
        told = second.result().json()["edgewise"]
    assert told["source"] == "local" and not cloud.requests


def test_if_the_cloud_fails_what_left_for_the_queue_waits_in_it(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Status(500))
    backend = Held()
    served = serving(backend, queue=2)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(served.chat)
        wait_until(lambda: backend.started == 1)
        second = pool.submit(served.chat)
        fair_queue = served.state.engine.parts.fair_queues["scripted-1"]
        wait_until(lambda: fair_queue.waiting == 1)
        backend.let_go.set()
        first.result()
        told = second.result().json()["edgewise"]
    assert (told["source"], told["decision"]["code"]) == ("local", "fallback_local")
    assert told["degraded_code"] == "cloud_server_error"


def test_clients_take_turns_however_much_one_of_them_sends() -> None:
    fair_queue = FairQueue(1, 16)
    order: list[str] = []
    with ExitStack() as held:
        held.enter_context(fair_queue.turn(Cancellation("a")))
        askers = queue_up(fair_queue, "aaaabbc", order)
        for asker in askers:
            asker.let_go.set()
    for asker in askers:
        asker.join(30)
    assert "".join(order) == "abcabaa"


def test_a_call_in_turn_is_asked_for_like_any_other() -> None:
    function_model = ScriptedFunctionModel(["set_timer {}"])
    queued = QueuedModel(function_model, FairQueue(1, 1))
    call = CallToWrite("five minutes", grammar="g", already="set", prefix="five", owner="a")
    list(queued.write_call(call))
    assert function_model.asked == [call]


def test_a_stream_that_is_called_off_leaves_the_queue_and_its_request_goes_on() -> None:
    fair_queue = FairQueue(1, 8)
    function_model = ScriptedFunctionModel(["set_timer {}"])
    queued = QueuedModel(function_model, fair_queue)
    waiting = queued.write_call(CallToWrite("five minutes"))
    with fair_queue.turn(Cancellation("a")):

        def call_off() -> None:
            wait_until(lambda: fair_queue.waiting == 1)
            waiting.abort()

        threading.Thread(target=call_off, daemon=True).start()
        with pytest.raises(GenerationFailed, match="called off"):
            next(waiting)
        assert (fair_queue.waiting, function_model.asked) == (0, [])
    begun = queued.write_call(CallToWrite("five minutes"))
    next(begun)
    begun.abort()
    with pytest.raises(GenerationFailed, match="called off"):
        next(begun)
    assert (fair_queue.busy, function_model.closed_early) == (0, 1)
    assert len(list(queued.write_call(CallToWrite("five minutes")))) > 2


def test_long_work_gives_way_between_its_parts_and_goes_on() -> None:
    fair_queue = FairQueue(1, 2)
    order: list[str] = []
    with fair_queue.turn(Cancellation("a")) as give_way:
        give_way()  # nobody waits
        askers = queue_up(fair_queue, "bb", order)
        for asker in askers:
            asker.let_go.set()
        give_way()  # one of b's, though the queue is full
        assert order == ["b"]
        give_way()
        assert order == ["b", "b"]
        assert (fair_queue.busy, fair_queue.waiting) == (1, 0)
    assert fair_queue.busy == 0


def test_long_work_that_nobody_waits_for_ends_between_its_parts() -> None:
    fair_queue = FairQueue(1, 2)
    left, order = Cancellation("a"), list[str]()
    with pytest.raises(Cancelled), fair_queue.turn(left) as give_way:
        left.leave()
        give_way()
    left = Cancellation("a")
    with pytest.raises(Cancelled), fair_queue.turn(left) as give_way:
        (asker,) = queue_up(fair_queue, "b", order)

        def leave() -> None:
            wait_until(lambda: order == ["b"])
            left.leave()

        threading.Thread(target=leave, daemon=True).start()
        give_way()  # b has the turn, and keeps it
    assert (fair_queue.busy, fair_queue.waiting) == (1, 0)
    asker.let_go.set()
    asker.join(30)
    assert fair_queue.busy == 0


def test_one_who_leaves_the_queue_is_passed_over() -> None:
    fair_queue = FairQueue(1, 8)
    order: list[str] = []
    with fair_queue.turn(Cancellation("a")):
        leaver, stayer = queue_up(fair_queue, "bc", order)
        leaver.cancellation.leave()
        leaver.join(30)
        assert isinstance(leaver.failure, Cancelled)
        assert fair_queue.waiting == 1
        stayer.let_go.set()
    stayer.join(30)
    assert order == ["c"]
    assert (fair_queue.busy, fair_queue.waiting) == (0, 0)


def test_leaving_at_the_very_moment_of_the_call_hands_the_turn_on() -> None:
    for _ in range(200):
        fair_queue = FairQueue(1, 8)
        order: list[str] = []
        with fair_queue.turn(Cancellation("a")):
            leaver, stayer = queue_up(fair_queue, "bc", order)
            leaver.let_go.set()
            stayer.let_go.set()
            racing = threading.Thread(target=leaver.cancellation.leave)
            racing.start()
        for thread in (racing, leaver, stayer):
            thread.join(30)
        assert (fair_queue.busy, fair_queue.waiting) == (0, 0)
        assert order[-1] == "c"


PICTURE = f"data:image/png;base64,{base64.b64encode(one_pixel()).decode()}"
SIGN = [
    {"type": "text", "text": "What does the sign say?"},
    {"type": "image_url", "image_url": {"url": PICTURE}},
]


class SlowSkill:
    """Looks as long as it is told to, and counts who looks at once."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.looking = self.most = self.looked = 0
        self._lock = threading.Lock()

    def facts(self) -> DeviceFacts:
        return DeviceFacts(backend="scripted", model="skill-1", quantisation="", context_tokens=1)

    def look(self, pixels: Any) -> Sight:
        with self._lock:
            self.looking += 1
            self.most = max(self.most, self.looking)
        assert self.let_go.wait(60)
        with self._lock:
            self.looking -= 1
            self.looked += 1
        return Sight(lines=(Line("NO ENTRY", 0.99, ((0, 0), (99, 0), (99, 30), (0, 30))),))

    def close(self) -> None:
        """Nothing to free."""


@pytest.fixture
def vision_skill(monkeypatch: pytest.MonkeyPatch) -> SlowSkill:
    one = SlowSkill()
    monkeypatch.setattr(vision, "open_skill", lambda *_, **__: one)
    return one


def look(served: Served) -> httpx2.Response:
    return served.chat(model="local", messages=[{"role": "user", "content": SIGN}])


def test_pictures_are_looked_at_in_turn_and_a_full_queue_is_429(
    serving: Serving, vision_skill: SlowSkill
) -> None:
    served = serving(queue=1)
    with ThreadPoolExecutor(2) as pool:
        first: Future[httpx2.Response] = pool.submit(look, served)
        wait_until(lambda: vision_skill.looking == 1)
        fair_queue = served.state.engine.parts.fair_queues["skill-1"]
        second = pool.submit(look, served)
        wait_until(lambda: fair_queue.waiting == 1)
        full = look(served)
        assert (full.status_code, full.json()["error"]["code"]) == (429, "device_busy")
        assert int(full.headers["retry-after"]) >= 1
        assert 'edgewise_slots_busy{model="skill-1"} 1' in served.http.get("/metrics").text
        vision_skill.let_go.set()
        answers = [first.result(), second.result()]
    assert [each.status_code for each in answers] == [200, 200]
    assert [each.json()["choices"][0]["message"]["content"] for each in answers] == ["NO ENTRY"] * 2
    assert (vision_skill.most, vision_skill.looked) == (1, 2)
    clean(served)


def test_one_who_leaves_the_queue_before_a_picture_is_passed_over(
    serving: Serving, vision_skill: SlowSkill
) -> None:
    served = serving(queue=4)
    asked: dict[str, Any] = {"model": "local", "messages": [{"role": "user", "content": SIGN}]}
    first = post(served, **asked)
    wait_until(lambda: vision_skill.looking == 1)
    fair_queue = served.state.engine.parts.fair_queues["skill-1"]
    second = post(served, **asked)
    wait_until(lambda: fair_queue.waiting == 1)
    second.close()
    wait_until(lambda: fair_queue.waiting == 0)
    vision_skill.let_go.set()
    assert b"200 OK" in first.recv(65536)
    first.close()
    clean(served)
    assert vision_skill.looked == 1


def test_a_forked_child_stands_in_no_queue_of_its_parent(tmp_path: Path) -> None:
    with SharedEngine(Settings.load({}, data_dir=tmp_path), queue=1) as engine:
        engine.parts.vision_skills["reads text"] = SlowSkill()
        queued: Any = engine.parts.vision_skill("reads text")
        with queued.turn():  # at this moment it forks
            engine.parts.forget()
            assert not engine.parts.fair_queues
            assert engine.parts.vision_skill("reads text") is not queued
