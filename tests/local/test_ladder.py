"""The rung for a machine: what it has free decides, and the reason says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.local.catalogue import (
    Machine,
    fits,
    free_in_cgroup,
    free_in_meminfo,
    free_in_vm_stat,
    ladder,
    propose,
    read_machine,
)

GB = 1_000_000_000
STANDARD = ladder()["standard"].name


@pytest.mark.parametrize(
    ("memory", "disk", "rung", "reason"),
    [
        (8 * GB, 60 * GB, "standard", "about 4 GB of free memory and 3 GB of disk"),
        (4 * GB, 3 * GB, "standard", "this machine has them"),
        (2_100_000_000, 60 * GB, "tiny", "about 4 GB of free memory, and there are 2.1"),
        (8 * GB, 1 * GB, "tiny", "standard needs 3 GB of free disk, and there are 1"),
        (None, 60 * GB, "tiny", "how much there is cannot be read"),
        (0, 0, "tiny", "and there are 0"),
    ],
)
def test_free_memory_and_disk_decide(memory: int | None, disk: int, rung: str, reason: str) -> None:
    proposal = propose(Machine(memory, disk, cores=2))
    assert proposal.row.rung == rung
    assert reason in proposal.reason


def test_a_model_that_is_installed_needs_no_disk() -> None:
    full = Machine(8 * GB, 0, cores=2)
    assert propose(full, {STANDARD}).row.rung == "standard"
    assert fits(ladder()["standard"], full, {STANDARD})


def test_a_rung_from_the_hub_is_never_proposed() -> None:
    huge = Machine(512 * GB, 4_000 * GB, cores=64, gpu="NVIDIA")
    assert propose(huge).row.rung == "standard"
    assert fits(ladder()["large"], huge)


def test_a_machine_in_words() -> None:
    assert Machine(8 * GB, 60 * GB, 1, "Apple").in_words() == (
        "8 GB of memory and 60 GB of disk free, 1 core, a GPU (Apple)"
    )
    assert Machine(None, 60 * GB, 4).in_words() == "60 GB of disk free, 4 cores, no GPU"


def test_this_machine_can_be_read_before_the_cache_exists(tmp_path: Path) -> None:
    found = read_machine(tmp_path / "not" / "yet")
    assert found.memory_bytes is not None and found.memory_bytes > 100_000_000
    assert found.cores >= 1 and found.disk_bytes > 0


def test_linux_says_what_is_available(tmp_path: Path) -> None:
    page = tmp_path / "meminfo"
    page.write_text("MemTotal:       24000000 kB\nMemFree: 100 kB\nMemAvailable:   2000000 kB\n")
    assert free_in_meminfo(page) == 2_048_000_000
    assert free_in_meminfo(tmp_path / "none") is None


def test_a_container_has_what_its_limit_leaves(tmp_path: Path) -> None:
    assert free_in_cgroup(tmp_path) is None
    (tmp_path / "memory.max").write_text("3000000000\n")
    (tmp_path / "memory.current").write_text("2500000000\n")
    assert free_in_cgroup(tmp_path) == 500_000_000
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 1000000000\n")
    assert free_in_cgroup(tmp_path) == 1_500_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_in_cgroup(tmp_path) is None


def test_macos_counts_in_pages() -> None:
    said = (
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        "Pages free:                               10000.\n"
        "Pages active:                            900000.\n"
        "Pages inactive:                          100000.\n"
        "Pages speculative:                         1000.\n"
        "Pages purgeable:                              0.\n"
    )
    assert free_in_vm_stat(said) == 16384 * 111_000
    assert free_in_vm_stat("") is None
