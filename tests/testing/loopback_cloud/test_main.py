"""The scripted cloud as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

COMMAND = [sys.executable, "-W", "error", "-m", "edgewise.testing.loopback_cloud"]


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def ask(addresses: dict[str, str], timeout: float = 5.0) -> httpx2.Response:
    return httpx2.post(
        f"{addresses['cactus_url']}/text",
        json={"text": "hello"},
        headers={"x-client-request-id": "try-1", "x-api-key": "secret"},
        timeout=timeout,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_addresses_answers_and_stops_when_told(number: signal.Signals) -> None:
    with running("--port", "0", "--answer", "Oslo.") as (process, addresses):
        assert ask(addresses).json()["text"] == "Oslo."
        assert addresses["openai_url"] == addresses["url"] + "/v1"
        process.send_signal(number)
        rest, complaints = process.communicate(timeout=10)
    assert (process.returncode, rest, complaints) == (0, "", "")


def test_it_stops_while_a_client_waits_for_a_silent_answer(tmp_path: Path) -> None:
    with running("--silent") as (process, addresses):
        with pytest.raises(httpx2.ReadTimeout):
            ask(addresses, timeout=0.2)
        process.terminate()
        assert process.wait(timeout=10) == 0


def test_its_log_outlives_a_kill(tmp_path: Path) -> None:
    log = tmp_path / "seen.jsonl"
    log.write_text("an earlier run\n", encoding="utf-8")
    with running("--log", str(log)) as (process, addresses):
        ask(addresses)
        process.kill()
        process.wait(timeout=10)
    earlier, line = log.read_text(encoding="utf-8").splitlines()
    assert earlier == "an earlier run"
    assert json.loads(line)["headers"]["x-client-request-id"] == "try-1"
    assert "secret" not in line


def test_it_can_answer_every_request_with_a_status() -> None:
    with running("--status", "429", "--retry-after", "7") as (_, addresses):
        for _ in range(2):
            response = ask(addresses)
            assert response.status_code == 429
            assert response.headers["retry-after"] == "7"
