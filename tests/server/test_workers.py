"""`edgewise serve --workers N`: one port, several processes, one ledger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from edgewise.record.ledger import Ledger
from edgewise.record.rows import parse_budget
from edgewise.server.access import Clients
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud
from tests.server.served import wait_until

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="kills with POSIX's signals")
BODY = {"model": "local", "messages": [{"role": "user", "content": "Count."}]}
KEY = {"authorization": "Bearer plain"}


@dataclass(slots=True)
class Running:
    url: str
    pids: list[int]
    process: subprocess.Popen[str]
    folder: Path

    def ask(self, headers: dict[str, str] = KEY, **changes: Any) -> httpx2.Response:
        """On a connection of its own, which the system gives to any worker."""
        return httpx2.post(
            f"{self.url}/v1/chat/completions", json=BODY | changes, headers=headers, timeout=120
        )

    def metric(self, start: str) -> float:
        text = httpx2.get(f"{self.url}/metrics", headers=KEY, timeout=120).text
        return sum(
            float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(start)
        )

    def children(self) -> set[int]:
        """The workers that live now, as the system says."""
        found = set()
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for pid in map(int, path.read_text("ascii").split()):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"spawn_main" in command:
                    found.add(pid)
        return found

    def ids(self) -> set[str]:
        ledger = Ledger(self.folder / "ledger.sqlite3")
        try:
            return {row["id"] for row in ledger.recent(10_000)}
        finally:
            ledger.close()


def request_id(answer: httpx2.Response) -> str:
    return str(answer.json()["id"]).removeprefix("chatcmpl-")


@contextmanager
def started(folder: Path, cloud: LoopbackCloud) -> Iterator[Running]:
    words = ("-m", "tests.server.worker_script", str(folder), "2", cloud.openai_url)
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Running(said["url"], said["workers"], process, folder)
    finally:
        process.terminate()
        process.wait(120)
        process.communicate()


@pytest.fixture(scope="module")
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="From afar."))
        yield server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, cloud: LoopbackCloud) -> Iterator[Running]:
    with started(tmp_path_factory.mktemp("workers"), cloud) as found:
        yield found


@POSIX
def test_requests_spread_over_the_workers_and_any_of_them_counts_all(running: Running) -> None:
    before = running.metric("edgewise_requests_total{")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: running.ask(), range(24)))
    assert {answer.status_code for answer in answers} == {200}
    counts = [running.metric("edgewise_requests_total{") for _ in range(6)]
    assert counts == [before + 24] * 6, "whichever worker is asked"
    assert set(map(request_id, answers)) <= running.ids()
    texts = {answer.json()["choices"][0]["message"]["content"] for answer in answers}
    assert {int(text.split()[-1]) for text in texts} == set(running.pids), "both answered"


@POSIX
def test_a_rate_holds_for_all_workers_together(running: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        bob = {"authorization": "Bearer bob"}
        answers = list(pool.map(lambda _: running.ask(bob), range(16)))
    passed = sum(answer.status_code == 200 for answer in answers)
    # Four a minute; a slow machine may gain one or two, each worker for itself would let eight.
    assert 4 <= passed <= 7


@POSIX
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")
def test_a_killed_worker_is_replaced_while_the_others_answer_and_no_row_is_lost(
    running: Running,
) -> None:
    before = running.children()
    assert before == set(running.pids)
    victim = min(before)
    answered: list[str] = []

    def ask(_: int) -> None:
        try:
            answer = running.ask()
        except httpx2.TransportError:  # it was being answered by the one that died
            return
        assert answer.status_code == 200
        answered.append(request_id(answer))

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, number) for number in range(20)]
        os.kill(victim, signal.SIGKILL)
        for each in asked:
            each.result(240)
    assert len(answered) >= 10
    assert set(answered) <= running.ids(), "what a client has is in the ledger"
    wait_until(lambda: len(running.children()) == 2 and victim not in running.children())
    assert running.ask().status_code == 200


@POSIX
def test_a_budget_is_exact_over_all_workers(running: Running, cloud: LoopbackCloud) -> None:
    with ThreadPoolExecutor(8) as pool:
        many = pool.map(lambda _: running.ask(model="cloud", max_tokens=60), range(60))
        codes = [answer.status_code for answer in many]
    ledger = Ledger(running.folder / "ledger.sqlite3", budgets=[parse_budget("$0.0002/day")])
    try:
        (left,) = ledger.remaining()
        assert left.remaining >= 0
        assert ledger.verify() == []
    finally:
        ledger.close()
    assert 200 in codes and any(code != 200 for code in codes), "it was spent to its end"


@POSIX
def test_a_stop_lets_streams_end_and_leaves_no_process(
    tmp_path: Path, cloud: LoopbackCloud
) -> None:
    with started(tmp_path, cloud) as running:
        address = f"{running.url}/v1/chat/completions"
        with httpx2.stream(
            "POST", address, json=BODY | {"stream": True}, headers=KEY, timeout=120
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: ")
            running.process.terminate()
            rest = list(lines)
        assert "data: [DONE]" in rest
        assert running.process.wait(120) == 0
        for pid in running.pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def test_shared_counts_are_those_of_the_keys_in_their_order() -> None:
    keys = {
        "a": {"key_env": "A", "requests_per_minute": 2},
        "b": {"key_env": "B"},
        "c": {"key_env": "C", "requests_per_minute": 1},
    }
    settings = Settings.load({"A": "1", "B": "2", "C": "3"}, server={"port": 0, "keys": keys})
    first, second = Clients(settings), Clients(settings)
    counts = [0.0] * first.places()  # as in memory that all workers share
    first.share(counts)
    second.share(counts)

    def takes(clients: Clients, key: str) -> bool:
        client = clients.admit({"authorization": f"Bearer {key}"}, "here")
        return client.allowance is not None and client.allowance.take() == 0

    assert takes(first, "1") and takes(second, "1") and not takes(first, "1")
    assert takes(second, "3") and not takes(first, "3")
