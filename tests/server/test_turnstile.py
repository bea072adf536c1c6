"""Whose turn it is: bounded, fair between clients, and free again when somebody leaves."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from typing_extensions import override

from edgewise.errors import DeviceBusy
from edgewise.record.recorder import Cancelled
from edgewise.server.bridge import Cancellation
from edgewise.server.queue import FairQueue
from tests.server.served import wait_until


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
                self.let_go.wait(10)
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
    waiting.join(5)
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
    second.join(5)
    assert order == ["b"]


def test_clients_take_turns_however_much_one_of_them_sends() -> None:
    fair_queue = FairQueue(1, 16)
    order: list[str] = []
    with ExitStack() as held:
        held.enter_context(fair_queue.turn(Cancellation("a")))
        askers = queue_up(fair_queue, "aaaabbc", order)
        for asker in askers:
            asker.let_go.set()
    for asker in askers:
        asker.join(5)
    assert "".join(order) == "abcabaa"


def test_one_who_leaves_the_queue_is_passed_over() -> None:
    fair_queue = FairQueue(1, 8)
    order: list[str] = []
    with fair_queue.turn(Cancellation("a")):
        leaver, stayer = queue_up(fair_queue, "bc", order)
        leaver.cancellation.leave()
        leaver.join(5)
        assert isinstance(leaver.failure, Cancelled)
        assert fair_queue.waiting == 1
        stayer.let_go.set()
    stayer.join(5)
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
            thread.join(5)
        assert (fair_queue.busy, fair_queue.waiting) == (0, 0)
        assert order[-1] == "c"
