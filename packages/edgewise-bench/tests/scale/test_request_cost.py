"""`edgewise bench request`: what is counted, and a quick run of all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise_bench.commands import bench
from edgewise_bench.processes import Process, cpu_s
from edgewise_bench.scale.request_cost import KINDS, TARGETS

LINUX = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@LINUX
def test_a_quick_run_finds_every_metric_of_both_checkouts(tmp_path: Path) -> None:
    source = Path(__file__).parents[4] / "src"
    done = CliRunner().invoke(
        bench, ["request", "--quick", "--before", str(source), "--json", "--save", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "request.json").read_text("utf-8"))
    assert card["command"] == "edgewise bench request --before SRC --quick"
    wanted = {prefix + kind.metric for prefix in ("", "before_") for kind in KINDS}
    assert wanted | set(TARGETS) <= set(card["metrics"])
    assert all(card["metrics"][name] > 0 for name in wanted)


@LINUX
def test_processor_time_of_children_counts_when_they_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    script = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); "
        "print('done', flush=True); sys.stdin.read()"
    )
    popen = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert popen.stdout is not None
    assert popen.stdout.readline() == "done\n"
    process = Process("", popen)
    assert process.family_cpu_s() >= cpu_s(process.pid) + 0.25
    popen.communicate("")
