"""What is running now, as `/edgewise/events` tells it: live, throttled, and without any text."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest import mock

import pytest
from typing_extensions import override

from edgewise.bridge import Cancellation
from edgewise.local.backend import TokenStream
from edgewise.server import answer
from edgewise.server.access import Client
from edgewise.server.access import Served as AccessServed
from edgewise.server.answer import Incoming
from edgewise.server.dashboard import BACKLOG, events, in_flight
from edgewise.testing import LoopbackCloud, ScriptedBackend, word_tokens
from edgewise.types.replies import Progress, Reply, Token
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until

LESS_AND_LESS = word_tokens("Perhaps it is", logprob=-0.3, margin=3.0, entropy=0.4) + word_tokens(
    " Lyon, who knows, or maybe another one", logprob=-2.5, margin=0.1, entropy=2.5
)


class StepByStep(ScriptedBackend):
    """Says a token each time `step` is released."""

    def __init__(self, answers: list[tuple[Token, ...]]) -> None:
        super().__init__(answers)
        self.step = threading.Semaphore(0)

    @override
    def generate(self, *given: Any, **options: Any) -> TokenStream:
        for item in super().generate(*given, **options):
            if isinstance(item, Token):
                assert self.step.acquire(timeout=60)
            yield item


def running(served: Served, key: str = "") -> Iterator[dict[str, Any]]:
    """The requests in flight, each time they change, until one has ended."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with served.http.stream("GET", "/edgewise/events", headers=headers) as response:
        name = ""
        for line in response.iter_lines():
            name = line.removeprefix("event: ") if line.startswith("event: ") else name
            if line.startswith("data: ") and name == "request":
                return
            if line.startswith("data: "):
                assert "Lyon" not in line and "Paris" not in line and "capital" not in line
                yield json.loads(line.removeprefix("data: "))


def test_a_request_is_seen_while_it_runs_and_while_it_is_handed_over(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    looked = threading.Event()
    cloud.always(lambda _: "It is Paris, the capital." if looked.wait(60) else "late")
    device = StepByStep([LESS_AND_LESS])
    served = serving(device, settings={"patience_s": 60})
    asking = threading.Thread(target=served.chat)
    seen: list[dict[str, Any]] = []
    for found in running(served):  # the next token comes when the last was seen
        if not asking.ident:
            asking.start()
        seen += found["requests"]
        device.step.release()
        if found["requests"] and found["requests"][0]["place"] == "cloud":
            looked.set()
    asking.join()
    assert {each["place"] for each in seen} >= {"local", "cloud"}
    local = [each for each in seen if each["place"] == "local"]
    assert {each["model"] for each in local} == {"scripted-1"}
    assert [each["tokens"] for each in local] == sorted(each["tokens"] for each in local)
    sure = [each["confidence"] for each in local if each["confidence"] is not None]
    assert sure[0] > 0.5 > sure[-1], "it was seen to fall"
    (turn,) = seen[-1]["turns"]
    assert (turn["to"], turn["code"]) == ("cloud", "handoff_low_confidence")
    assert seen[-1]["place"] == "cloud" and seen[-1]["backend"] == "openai"
    assert seen[-1]["confidence_verified"] is False and seen[-1]["threshold"] is not None
    assert in_flight(served.state)["count"] == 0


def test_a_request_that_waits_for_its_turn_says_so(serving: Serving) -> None:
    device = StepByStep([word_tokens("Paris is the capital.", logprob=-0.01)])
    served = serving(device)
    stays = {"metadata": {"policy": "local_only"}}  # otherwise it would leave instead
    asking = [threading.Thread(target=served.chat, kwargs=stays) for _ in range(2)]
    for each in asking:
        each.start()

    def waits() -> bool:
        found = in_flight(served.state)
        waiting = [each["waiting"] for each in found["requests"]]
        return sorted(waiting) == [False, True] and found["queues"][0]["waiting"] == 1

    wait_until(waits)
    device.step.release(99)
    for each in asking:
        each.join()
    served.settle()
    assert in_flight(served.state)["requests"] == []


def test_a_key_of_its_own_sees_its_own_requests_only(serving: Serving) -> None:
    keys = {name: {"key_env": f"{name.upper()}_KEY"} for name in ("a", "b")}
    device = StepByStep([word_tokens("Paris is the capital.", logprob=-0.01)])
    served = serving(
        device,
        environment={"A_KEY": "key-a", "B_KEY": "key-b"},
        keys=keys,
        key="all",
    )
    asking = threading.Thread(
        target=served.chat, kwargs={"headers": {"authorization": "Bearer key-a"}}
    )
    asking.start()
    wait_until(lambda: in_flight(served.state, "a")["count"] == 1)
    assert in_flight(served.state, "b")["requests"] == []
    overview = served.http.get("/edgewise/overview/1h", headers={"authorization": "Bearer key-b"})
    assert overview.json()["device"]["in_flight"] == 0
    device.step.release(99)
    asking.join()


def test_a_request_that_nobody_foresaw_to_fail_does_not_stay(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Reply) -> NoReturn:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(answer, "report", broken)
    served = serving()
    assert served.chat().status_code == 500
    served.settle()
    assert served.state.access_log.running == {}


def test_who_does_not_read_holds_up_nobody(serving: Serving) -> None:
    """However many end in the same moment."""
    served = serving()
    client = Client("somebody")
    looking = events(served.state, Incoming({}, b"", client, Cancellation(client.name), {}))
    next(looking)
    (listen,) = served.state.access_log.listeners
    ended = [
        threading.Thread(target=listen, args=(AccessServed(endpoint="chat"),), daemon=True)
        for _ in range(BACKLOG + 2)
    ]
    with mock.patch.object(queue.Queue, "full", return_value=False):  # as all see it at once
        for thread in ended:
            thread.start()
        for thread in ended:
            thread.join(20)
            assert not thread.is_alive()
    looking.close()


def test_the_confidence_is_worked_out_only_for_whoever_looks() -> None:
    progress = Progress()
    progress.asked = True
    progress.judge(0.4, 0.6, verified=True)
    assert not progress.asked, "once for each look"
    progress.start("local", "scripted", "scripted-1")
    assert progress.tokens_per_second is None
    progress.count()
    assert progress.tokens_per_second is None
    progress.count()
    assert progress.tokens == 2 and (progress.tokens_per_second or 0) > 0
