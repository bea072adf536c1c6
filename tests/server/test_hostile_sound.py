"""Sound uploads that are no sound but point elsewhere: refused, and nothing else is opened."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.testing import LoopbackCloud, ScriptedTranscriber, heard
from edgewise_bench.campaigns.uploads import NAMES, OTHER, POINTING
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.speech.made_voice import silence, voice, wav

SURE = [heard("the first part", 0.2, 2.0, 0.97)]
SECRET = wav(silence(0.5), voice(5.0), silence(0.5))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that holds sound which is nobody's to hear."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "secret.wav").write_bytes(SECRET)
    (folder / "inner.ffconcat").write_text("ffconcat version 1.0\nfile secret.wav\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def port() -> int:
    """A UDP port that nobody holds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@contextlib.contextmanager
def bound_ports() -> Iterator[set[int]]:
    """The UDP ports that were seen to be held meanwhile; empty where there is no /proc."""
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while True:
            for table in ("udp", "udp6"):
                with contextlib.suppress(OSError):
                    rows = Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]
                    seen.update(int(row.split()[1].rpartition(":")[2], 16) for row in rows)
            if over.wait(0.02):
                return

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def refused(served: Served, data: bytes, name: str, kind: str, **form: str) -> str:
    """The words of a 400 in OpenAI's shape."""
    answer = served.http.post(
        "/v1/audio/transcriptions",
        data={"model": "auto", **form},
        files={"file": (name, data, kind)},
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert "secret" not in error["message"]
    return str(error["message"])


def serves_sound(served: Served) -> None:
    files = {"file": ("talk.wav", SECRET, "audio/wav")}
    answer = served.http.post("/v1/audio/transcriptions", data={"model": "auto"}, files=files)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("trick", POINTING)
def test_an_upload_that_points_elsewhere_is_refused(
    serving: Serving, cloud: LoopbackCloud, here: Path, port: int, trick: str
) -> None:
    transcriber = ScriptedTranscriber([SURE])
    served = serving(transcriber=transcriber)
    data = POINTING[trick].format(here=here, port=port).encode()
    with bound_ports() as ports:
        told = [refused(served, data, name, kind) for name, kind in NAMES]
    assert port not in ports
    assert not transcriber.listened and not cloud.requests
    for words in told:
        assert "refers to" in words and "is not read" in words
    serves_sound(served)
    assert len(transcriber.listened) == 1


@pytest.mark.parametrize("what", OTHER)
def test_an_upload_that_is_something_else_is_refused(
    serving: Serving, cloud: LoopbackCloud, here: Path, what: str
) -> None:
    transcriber = ScriptedTranscriber([SURE])
    served = serving(transcriber=transcriber)
    for name, kind in NAMES:
        assert "not sound that can be read" in refused(served, OTHER[what], name, kind)
    assert not transcriber.listened and not cloud.requests
    serves_sound(served)


@pytest.mark.parametrize("trick", POINTING)
@pytest.mark.parametrize(
    "form", [{"model": "cloud"}, {"metadata[policy]": "cloud_only"}, {"stream": "true"}], ids=str
)
def test_nothing_is_sent_to_a_provider(
    serving: Serving, cloud: LoopbackCloud, here: Path, trick: str, form: dict[str, str], port: int
) -> None:
    cloud.always("what the file says")
    served = serving(transcriber=ScriptedTranscriber([SURE]))
    data = POINTING[trick].format(here=here, port=port).encode()
    refused(served, data, "x.wav", "audio/wav", **form)
    assert not cloud.requests
