"""Whose turn it is: bounded, fair between clients, and free again when somebody leaves."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
from typing_extensions import override

from edgewise.errors import DeviceBusy
from edgewise.record.recorder import Cancelled
from edgewise.server.cancellation import Visit
from edgewise.server.queue import Turnstile
from tests.server.served import wait_until


class Asker(threading.Thread):
    """Takes a turn and holds it until told otherwise."""

    def __init__(self, turnstile: Turnstile, client: str, order: list[str]) -> None:
        super().__init__(daemon=True)
        self.visit = Visit(client)
        self.turnstile, self.order = turnstile, order
        self.let_go = threading.Event()
        self.failure: Exception | None = None

    @override
    def run(self) -> None:
        try:
            with self.turnstile.turn(self.visit):
                self.order.append(self.visit.client)
                self.let_go.wait(10)
        except (Cancelled, DeviceBusy) as error:
            self.failure = error


def queue_up(turnstile: Turnstile, clients: str, order: list[str]) -> list[Asker]:
    askers = []
    for client in clients:
        waiting = turnstile.waiting
        asker = Asker(turnstile, client, order)
        asker.start()
        wait_until(lambda waiting=waiting: turnstile.waiting == waiting + 1)  # type: ignore[misc]
        askers.append(asker)
    return askers


def test_as_many_as_there_are_slots_go_at_once() -> None:
    turnstile = Turnstile(2, 8)
    with turnstile.turn(Visit("a")), turnstile.turn(Visit("b")):
        assert (turnstile.busy, turnstile.waiting) == (2, 0)
    assert turnstile.busy == 0


def test_some_more_go_ahead_so_that_no_slot_waits_for_the_next() -> None:
    turnstile = Turnstile(2, 8, ahead=1)
    with turnstile.turn(Visit("a")), turnstile.turn(Visit("b")), turnstile.turn(Visit("c")):
        assert (turnstile.busy, turnstile.waiting) == (3, 0)
        order: list[str] = []
        (waiting,) = queue_up(turnstile, "d", order)
        waiting.let_go.set()
    waiting.join(5)
    assert (order, turnstile.busy) == (["d"], 0)


def test_a_full_queue_is_said_at_once_with_when_to_come_again() -> None:
    turnstile = Turnstile(1, 1)
    order: list[str] = []
    with turnstile.turn(Visit("first")):
        (second,) = queue_up(turnstile, "b", order)
        with pytest.raises(DeviceBusy) as caught, turnstile.turn(Visit("third")):
            pass
        assert caught.value.retry_after_s >= 1
        second.let_go.set()
    second.join(5)
    assert order == ["b"]


def test_clients_take_turns_however_much_one_of_them_sends() -> None:
    turnstile = Turnstile(1, 16)
    order: list[str] = []
    with ExitStack() as held:
        held.enter_context(turnstile.turn(Visit("a")))
        askers = queue_up(turnstile, "aaaabbc", order)
        for asker in askers:
            asker.let_go.set()
    for asker in askers:
        asker.join(5)
    assert "".join(order) == "abcabaa"


def test_one_who_leaves_the_queue_is_passed_over() -> None:
    turnstile = Turnstile(1, 8)
    order: list[str] = []
    with turnstile.turn(Visit("a")):
        leaver, stayer = queue_up(turnstile, "bc", order)
        leaver.visit.leave()
        leaver.join(5)
        assert isinstance(leaver.failure, Cancelled)
        assert turnstile.waiting == 1
        stayer.let_go.set()
    stayer.join(5)
    assert order == ["c"]
    assert (turnstile.busy, turnstile.waiting) == (0, 0)


def test_leaving_at_the_very_moment_of_the_call_hands_the_turn_on() -> None:
    for _ in range(200):
        turnstile = Turnstile(1, 8)
        order: list[str] = []
        with turnstile.turn(Visit("a")):
            leaver, stayer = queue_up(turnstile, "bc", order)
            leaver.let_go.set()
            stayer.let_go.set()
            racing = threading.Thread(target=leaver.visit.leave)
            racing.start()
        for thread in (racing, leaver, stayer):
            thread.join(5)
        assert (turnstile.busy, turnstile.waiting) == (0, 0)
        assert order[-1] == "c"
