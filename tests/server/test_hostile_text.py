"""Texts made to be slow to mask: stored all the same, and never masked on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from edgewise.monitor import why
from edgewise.record import rows
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from tests.server.conftest import Serving
from tests.server.served import Served

HOSTILE = "-eyJ" * 10_000
LOOP_THREAD = "edgewise-server"


class Masked:
    """Who masked what: the threads, and the longest text that was searched."""

    def __init__(self) -> None:
        self.threads: set[str] = set()
        self.longest = 0
        self.on_a_loop = False

    def note(self, text: str) -> None:
        self.threads.add(threading.current_thread().name)
        self.longest = max(self.longest, len(text))
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            self.on_a_loop = True


@pytest.fixture
def masked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Masked]:
    seen, mask = Masked(), rows.mask_secrets

    def noting(text: str) -> str:
        seen.note(text)
        return mask(text)

    for module in (rows, why):
        monkeypatch.setattr(module, "mask_secrets", noting)
    yield seen
    assert seen.threads, "nothing was masked at all"
    assert not seen.on_a_loop
    assert LOOP_THREAD not in seen.threads


@pytest.fixture
def storing(serving: Serving) -> Served:
    return serving(settings={"store_text": True})


def asked(text: str, **options: Any) -> dict[str, Any]:
    return {"model": "auto", "messages": [{"role": "user", "content": text}], **options}


def prompts(served: Served) -> list[str]:
    """What is stored, the latest first."""
    ledger = served.state.engine.ledger
    rows_found = [ledger.get(row["id"]) or {} for row in ledger.recent(10)]
    return [json.loads(row["prompt_text"])[0]["content"] for row in rows_found]


def test_a_hostile_prompt_is_stored_and_masked_elsewhere_than_on_the_loop(
    storing: Served, masked: Masked
) -> None:
    assert storing.http.post("/v1/chat/completions", json=asked(HOSTILE)).status_code == 200
    storing.settle()
    assert prompts(storing) == [HOSTILE]
    assert storing.http.get("/healthz").status_code == 200


def test_so_it_is_in_a_stream(storing: Served, masked: Masked) -> None:
    assert storing.chunks(**asked(HOSTILE))
    storing.settle()
    assert prompts(storing) == [HOSTILE]


def test_so_it_is_when_the_client_leaves(storing: Served, masked: Masked) -> None:
    body = asked(HOSTILE, stream=True)
    with storing.http.stream("POST", "/v1/chat/completions", json=body) as response:
        next(response.iter_bytes())
    storing.settle()
    assert prompts(storing) == [HOSTILE]


@pytest.mark.parametrize("stream", [False, True])
def test_so_it_is_with_a_providers_error_of_any_length(
    serving: Serving, cloud: LoopbackCloud, masked: Masked, stream: bool
) -> None:
    cloud.always(Status(400, message=HOSTILE * 5))
    served = serving(settings={"store_text": True})
    body = asked(HOSTILE, stream=stream, metadata={"policy": "cloud_only"})
    answer = served.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert len(answer.json()["error"]["message"]) <= rows.ERROR_CHARS
    served.settle()
    assert prompts(served) == [HOSTILE]


def test_so_it_is_with_a_refusal(storing: Served, masked: Masked) -> None:
    refused = {**asked("hi", temperature=HOSTILE), "model": "local"}
    answer = storing.http.post("/v1/chat/completions", json=refused)
    assert answer.status_code == 400
    assert masked.longest <= rows.SEARCHED_CHARS


def test_a_hostile_reply_is_stored_too(serving: Serving, masked: Masked) -> None:
    served = serving(ScriptedBackend.confident(HOSTILE), settings={"store_text": True})
    assert served.http.post("/v1/chat/completions", json=asked("hi")).status_code == 200
    served.settle()
    (row,) = served.state.engine.ledger.recent(1)
    assert (served.state.engine.ledger.get(row["id"]) or {})["reply_text"] == HOSTILE


def test_a_prompt_beyond_the_bound_is_searched_only_as_far_as_it_is_stored(
    storing: Served, masked: Masked
) -> None:
    text = "-eyJ " * 60_000
    assert storing.http.post("/v1/chat/completions", json=asked(text)).status_code == 200
    storing.settle()
    (stored,) = prompts(storing)
    assert stored.endswith("more characters are not stored]")
    assert masked.longest <= 200_000


def test_others_are_answered_while_a_hostile_prompt_is_masked(
    storing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The masking is held up, as by a slow machine; the event loop is not."""
    begun, go_on = threading.Event(), threading.Event()
    mask = rows.mask_secrets

    def held(text: str) -> str:
        if text.startswith("-eyJ"):
            begun.set()
            assert go_on.wait(30)
        return mask(text)

    monkeypatch.setattr(rows, "mask_secrets", held)
    answers: list[int] = []
    post = threading.Thread(
        target=lambda: answers.append(
            storing.http.post("/v1/chat/completions", json=asked(HOSTILE)).status_code
        )
    )
    post.start()
    try:
        assert begun.wait(30)
        assert all(storing.http.get("/healthz").status_code == 200 for _ in range(20))
        assert not answers
    finally:
        go_on.set()
        post.join()
    assert answers == [200]


def test_a_key_in_a_providers_error_is_shown_to_no_client(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    """The reason of a decision quotes the error."""
    key = "sk-" + "Ab3dEf6hIj9lMn2pQr5tUv8x"
    cloud.always(Status(401, message=f"Incorrect API key provided: {key}"))
    served = serving(ScriptedBackend.doubtful("Perhaps."))
    answer = served.chat()
    assert answer.status_code == 200
    assert key[3:] not in answer.text
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
        # A server of its own: the last one knows by now that its key is refused.
        served = serving(ScriptedBackend.doubtful("Perhaps."))
        body: dict[str, Any] = {"input": "Where?"} if path.endswith("responses") else {}
        told = json.dumps(served.chunks(path, max_tokens=20, **body))
        assert "Incorrect API key provided" in told and key[3:] not in told
