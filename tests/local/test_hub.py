"""Weights from the hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local import fetch as hub_weights
from edgewise.local.fetch import fetch_from_hub
from tests.local.fake_hub import COMMIT, DATA, SOURCE, Hub
from tests.local.fake_packages import sha256


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(hub_weights, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server = Hub()
    yield server
    server.stop()


def fetch(hub: Hub, folder: Path, expected: str | None = None) -> hub_weights.HubFile:
    return fetch_from_hub(SOURCE, expected, folder, endpoint=hub.front.url)


def test_a_file_is_fetched_and_verified_against_the_hash_the_hub_declares(
    hub: Hub, tmp_path: Path
) -> None:
    seen: list[tuple[int, int, str]] = []
    file = fetch_from_hub(
        SOURCE, None, tmp_path, lambda *report: seen.append(report), endpoint=hub.front.url
    )
    assert file.path.read_bytes() == DATA
    assert (file.sha256, file.commit) == (sha256(DATA), COMMIT)
    assert hub.front.requests[0][:2] == (
        "HEAD",
        "/someone/weights-GGUF/resolve/main/weights-q4_k_m.gguf",
    )
    downloading = [done for done, _, label in seen if label == "downloading"]
    assert len(downloading) > 1
    assert downloading[-1] == len(DATA)
    assert seen[-1] == (len(DATA), len(DATA), "checking")


def test_the_login_goes_to_the_hub_and_not_to_the_host_that_sends_the_bytes(
    hub: Hub, tmp_path: Path
) -> None:
    fetch(hub, tmp_path)
    assert {headers.get("authorization") for _, _, headers in hub.front.requests} == {
        "Bearer hf_secret"
    }
    assert [headers.get("authorization") for _, _, headers in hub.store.requests] == [None]


def test_a_broken_connection_is_taken_up_again_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [1_000_000, 1_500_000]
    assert fetch(hub, tmp_path).path.read_bytes() == DATA
    assert hub.ranges == ["", "bytes=1000000-", "bytes=2500000-"]
    assert hub.sent == len(DATA)


def test_a_download_that_failed_is_resumed_by_the_next_one(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [1_000_000, 0, 0, 0]
    with pytest.raises(StoreError, match="pull again to go on from there"):
        fetch(hub, tmp_path)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [1_000_000]
    hub.store.requests.clear()
    hub.cuts.clear()

    assert fetch(hub, tmp_path).path.read_bytes() == DATA
    assert hub.ranges == ["bytes=1000000-"]
    assert hub.sent == len(DATA)


def test_a_finished_file_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    fetch(hub, tmp_path)
    hub.store.requests.clear()
    assert fetch(hub, tmp_path).path.read_bytes() == DATA
    assert hub.store.requests == []


def test_a_server_that_ignores_the_range_is_read_from_the_start(hub: Hub, tmp_path: Path) -> None:
    hub.cuts = [1_000_000]
    hub.ignores_ranges = True
    assert fetch(hub, tmp_path).path.read_bytes() == DATA
    assert hub.ranges == ["", "bytes=1000000-"]


def test_a_corrupted_file_is_refused_and_deleted(hub: Hub, tmp_path: Path) -> None:
    hub.data = DATA[:-1] + bytes([DATA[-1] ^ 1])
    with pytest.raises(StoreError, match="not the expected file"):
        fetch(hub, tmp_path)
    assert list(tmp_path.iterdir()) == []

    hub.data = DATA
    assert fetch(hub, tmp_path).path.read_bytes() == DATA


def test_what_is_left_of_another_version_is_not_continued(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / f"{sha256(b'another version')}.part").write_bytes(b"another")
    file = fetch(hub, tmp_path)
    assert hub.ranges == [""]
    assert list(tmp_path.iterdir()) == [file.path]


def test_another_file_than_the_known_one_is_refused_before_any_byte_is_fetched(
    hub: Hub, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="declares another file"):
        fetch(hub, tmp_path, expected=sha256(b"what we know"))
    assert hub.store.requests == []
    assert fetch(hub, tmp_path, expected=sha256(DATA)).path.read_bytes() == DATA


def test_a_file_without_a_declared_sha256_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.etag = hashlib.sha1(DATA).hexdigest()  # what small files, not in large-file storage, have
    with pytest.raises(StoreError, match="declares no SHA-256"):
        fetch(hub, tmp_path)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (403, "GatedRepo", "is gated: accept its licence .* `hf auth login`"),
        (401, "RepoNotFound", "no repository someone/weights-GGUF"),
        (404, "RevisionNotFound", "no repository someone/weights-GGUF"),
        (404, "EntryNotFound", "no file someone/weights-GGUF/weights-q4_k_m.gguf at main"),
        (500, "", "answered 500"),
    ],
)
def test_a_refusal_says_what_to_do(
    hub: Hub, tmp_path: Path, status: int, code: str, said: str
) -> None:
    hub.refusal = (status, code)
    with pytest.raises(StoreError, match=said):
        fetch(hub, tmp_path)


def test_a_hub_that_cannot_be_reached_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be reached"):
        fetch_from_hub(SOURCE, None, tmp_path, endpoint="http://127.0.0.1:9")
