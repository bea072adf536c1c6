"""Many clients at once: slots, a bounded queue, and a cloud nobody waits for the device for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
from typing_extensions import override

from edgewise.local.backend import TokenStream
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, Silence
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Token
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, wait_until


class Gated:
    """A model that speaks only when it is let: for counting who is inside."""

    def __init__(self, slots: int) -> None:
        self._facts = replace(SCRIPTED_FACTS, slots=slots)
        self._lock = threading.Lock()
        self.go = threading.Event()
        self.inside = 0
        self.most = 0
        self.order: list[str] = []

    def facts(self) -> Any:
        return self._facts

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(request.messages[-1].content)
        try:
            while not self.go.wait(0.01):
                pass
            yield Token("Yes.", -0.01, 6.0, 0.05)
            yield Finish("stop", 1, 1)
        finally:
            with self._lock:
                self.inside -= 1

    def close(self) -> None:
        self.go.set()


def in_parallel(count: int, ask: Callable[[int], httpx2.Response]) -> list[Future[httpx2.Response]]:
    pool = ThreadPoolExecutor(count)
    futures = [pool.submit(ask, number) for number in range(count)]
    pool.shutdown(wait=False)
    return futures


def waiting(served: Served) -> int:
    return sum(each.waiting for each in served.state.engine.parts.fair_queues.values())


def test_as_many_run_as_there_are_slots_and_the_rest_wait(serving: Serving) -> None:
    model = Gated(slots=3)
    served = serving(model)
    futures = in_parallel(8, lambda _: served.chat(model="local"))
    wait_until(lambda: model.inside == 3 and waiting(served) == 5)
    model.go.set()
    assert {future.result().status_code for future in futures} == {200}
    assert model.most == 3
    assert (model.inside, waiting(served)) == (0, 0)


def test_more_than_the_queue_holds_are_told_to_come_again(serving: Serving) -> None:
    model = Gated(slots=1)
    served = serving(model, queue=2)
    futures = in_parallel(3, lambda _: served.chat(model="local"))
    wait_until(lambda: model.inside == 1 and waiting(served) == 2)
    refused = served.chat(model="local")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "device_busy")
    assert int(refused.headers["retry-after"]) >= 1
    streamed = served.chat(model="local", stream=True)
    assert streamed.status_code == 429
    model.go.set()
    assert {future.result().status_code for future in futures} == {200}


def test_a_client_with_much_to_ask_does_not_hold_up_another(serving: Serving) -> None:
    model = Gated(slots=1)
    served = serving(model)

    def ask(key: str, text: str) -> threading.Thread:
        def send() -> None:
            served.chat(
                model="local",
                messages=[{"role": "user", "content": text}],
                headers={"authorization": f"Bearer {key}"},
            )

        before = len(model.order) + waiting(served)
        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: len(model.order) + waiting(served) == before + 1)
        return thread

    threads = [ask("greedy", f"g{number}") for number in range(4)]
    threads.append(ask("modest", "m0"))
    model.go.set()
    for thread in threads:
        thread.join(60)
    assert model.order.index("m0") == 2, "after the one that ran and one of the greedy's"


def test_cloud_requests_do_not_wait_behind_local_ones(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    model = Gated(slots=1)
    served = serving(model, queue=4)
    futures = in_parallel(5, lambda _: served.chat(model="local"))
    wait_until(lambda: model.inside == 1 and waiting(served) == 4)
    cloud.always(Answer(text="From afar."))
    answer = served.chat(model="cloud/openai")
    assert answer.json()["choices"][0]["message"]["content"] == "From afar."
    assert served.chat(metadata={"policy": "prefer_cloud"}).status_code == 200
    assert model.inside == 1, "the device is still busy"
    model.go.set()
    for future in futures:
        future.result()


def test_many_cloud_streams_are_held_at_once(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.always(Silence(after_chunks=1))
    count = 60  # more than the connections a pool usually has
    responses: list[httpx2.Response] = []
    body = {"model": "cloud/openai", "messages": HELLO, "stream": True}
    limits = httpx2.Limits(max_connections=count)
    with httpx2.Client(base_url=served.url, timeout=30, limits=limits) as client:
        for _ in range(count):
            request = client.build_request("POST", "/v1/chat/completions", json=body)
            responses.append(client.send(request, stream=True))
        assert {response.status_code for response in responses} == {200}
        assert len(served.state.inside) == count
        for response in responses:
            response.close()
    served.settle()
    cloud.wait_for(lambda seen: seen.disconnects == count)


def test_a_full_server_says_so(serving: Serving) -> None:
    model = Gated(slots=8)
    served = serving(model, requests=2)
    futures = in_parallel(2, lambda _: served.chat(model="local"))
    wait_until(lambda: model.inside == 2)
    refused = served.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "server_busy")
    assert refused.headers["retry-after"] == "1"
    model.go.set()
    for future in futures:
        assert future.result().status_code == 200


def test_a_slow_reader_holds_up_nobody_and_is_not_buffered_without_end(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    text = " ".join(f"word{number}" for number in range(3000))
    served = serving(ScriptedBackend.confident(text), settings={"max_tokens": 4000})
    body = {"model": "local", "messages": HELLO, "stream": True}
    with served.http.stream("POST", "/v1/chat/completions", json=body) as slow:
        lines = slow.iter_lines()
        next(lines)
        assert served.chat(model="cloud/openai").status_code == 200
        time.sleep(0.1)
        words = sum('"content":" word' in line or '"content":"word' in line for line in lines)
    assert words == 3000


def test_a_request_that_takes_too_long_is_ended(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(total_s=0.3)
    cloud.always(Silence())
    late = served.chat(model="cloud/openai")
    assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
    cloud.wait_for(lambda seen: seen.disconnects == 1)
    served.settle()


def test_a_stream_that_takes_too_long_ends_with_an_error(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(total_s=5.0)  # time enough for the first words on a slow machine
    cloud.always(Silence(after_chunks=1))
    chunks = served.chunks(model="cloud/openai")
    assert chunks[-1]["error"]["code"] == "timeout"
    served.settle()


def test_nothing_of_the_loop_waits_for_a_model_that_loads(serving: Serving) -> None:
    class Slow(ScriptedBackend):
        @override
        def generate(
            self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
        ) -> TokenStream:
            time.sleep(0.5)
            return super().generate(request, already=already)

    served = serving(Slow.confident("Yes."))
    (future,) = in_parallel(1, lambda _: served.chat())
    wait_until(lambda: len(served.state.inside) == 1)
    assert served.http.get("/healthz").status_code == 200
    assert not future.done(), "it was answered in between"
    future.result()
