"""Nothing that we start takes its modules from the folder where the user happens to work."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import edgewise_bench
from edgewise.children import child_environment, python_child, spawning
from edgewise.cli import act
from edgewise.errors import EdgewiseError, SettingsError, StoreError
from edgewise.local import fetch
from edgewise.local.isolated import CrashMemory, IsolatedModel
from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud
from edgewise_bench.campaigns.watch import control_server
from edgewise_cluster import launch
from edgewise_cluster.plan import Plan
from edgewise_engines import executorch
from tests.local.crashing_model import open_crashing
from tests.server.conftest import cloud as cloud
from tests.test_layout import MODULES

REPOSITORY = Path(__file__).parents[1]
CALLED = ("selectors.py", "json.py", "numpy.py", "click.py", "pip.py", "socket.py")
LEAVES_A_MARK = "open({mark!r}, 'a').write(__file__ + chr(10))\nraise ImportError('hostile')\n"


class Folder:
    """Where somebody works, with files that are called like modules."""

    def __init__(self, path: Path) -> None:
        self.path = path / "hostile"
        self.path.mkdir()
        self._mark = path / "mark"
        for name in CALLED:
            self._plant(name)

    def _plant(self, name: str) -> None:
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(LEAVES_A_MARK.format(mark=str(self._mark)))

    def plant_packages(self) -> None:
        """Besides, what only a child of ours must not meet: `python -m` looks for them itself."""
        for name in ("edgewise/__init__.py", "edgewise_bench/__init__.py", "ray/__init__.py"):
            self._plant(name)

    def ran(self) -> list[str]:
        return self._mark.read_text().split() if self._mark.exists() else []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    found = Folder(tmp_path)
    monkeypatch.chdir(found.path)
    return found


def run_timer(tmp_path: Path) -> None:
    act.set_timer(seconds=0.1)
    assert act._TIMERS.pop().wait(60) == 0


def run_model(tmp_path: Path) -> None:
    with closing(IsolatedModel(open_crashing, memory=CrashMemory())) as model:
        assert model.facts().model


def run_executorch(tmp_path: Path) -> None:
    """It refuses the file, or the extra is missing: in both cases, the child has imported ours."""
    with pytest.raises(StoreError) as refused:
        executorch._ask_program(tmp_path / "nothing.pte")
    assert "hostile" not in str(refused.value)


def run_pip(tmp_path: Path) -> None:
    process = fetch._start_pip(str(tmp_path / "nothing.whl"), tmp_path)
    assert process.wait(60) != 0
    assert "nothing.whl" in (tmp_path / "pip.log").read_text()


def run_measurement(tmp_path: Path) -> None:
    with control_server() as server:
        assert server.url


def no_ray(tmp_path: Path) -> Settings:
    """Settings for a cluster whose Ray only says what its folder holds."""
    ray = tmp_path / "packages" / "ray"
    ray.mkdir(parents=True)
    (ray / "__init__.py").write_text("import os\nraise ImportError(f'it sees {os.listdir()}')\n")
    environment = {**os.environ, "PYTHONPATH": str(ray.parent)}
    return Settings.load(environment, data_dir=tmp_path / "data", config_dir=tmp_path / "config")


def run_driver(tmp_path: Path) -> None:
    """Ray's workers take modules from the driver's own folder, so that one is empty."""
    with pytest.raises(SettingsError, match=r"it sees \[\]"):
        launch._driver(Plan(), no_ray(tmp_path), "127.0.0.1:1", "status", 60)


def run_ray(tmp_path: Path) -> None:
    with pytest.raises(EdgewiseError, match="Ray did not start") as failed:
        launch._start_ray(Plan(), no_ray(tmp_path))
    log = Path(str(failed.value).partition("; ")[2].partition(" ")[0])
    try:
        assert "it sees" in log.read_text()
    finally:
        shutil.rmtree(log.parent)


CHILDREN = (run_timer, run_model, run_executorch, run_pip, run_driver, run_ray, run_measurement)


@pytest.mark.parametrize("run", CHILDREN)
def test_a_child_takes_no_module_of_the_current_folder(
    folder: Folder, own_home: Path, tmp_path: Path, run: Callable[[Path], None]
) -> None:
    folder.plant_packages()
    run(tmp_path)
    assert folder.ran() == []


def test_workers_and_what_looks_after_them_take_none_either(
    folder: Folder, tmp_path: Path, cloud: LoopbackCloud
) -> None:
    """The parent is started as the `edgewise` command is: with its own folder, not with -P."""
    folder.plant_packages()
    script = REPOSITORY / "tests" / "server" / "worker_script.py"
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "data"), "2", cloud.openai_url],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert len(json.loads(process.stdout.readline())["workers"]) == 2
    finally:
        process.terminate()
        process.communicate()
    assert folder.ran() == []


def test_python_m_edgewise_takes_none_either(folder: Folder, own_home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgewise", "ledger", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requests"] == 0
    assert folder.ran() == []


def test_the_folders_of_pythonpath_count_in_a_child(folder: Folder) -> None:
    command = python_child("-c", "import json")
    subprocess.run(command, env=os.environ | {"PYTHONPATH": str(folder.path)}, capture_output=True)
    assert folder.ran() == [str(folder.path / "json.py")]


def test_a_variable_that_is_set_for_a_child_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "", "1"):
        monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
        if before is not None:
            monkeypatch.setenv("PYTHONSAFEPATH", before)
        with spawning():
            assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ.get("PYTHONSAFEPATH") == before


# Those that ask for it without starting it: they tell the user its name, or whether there is one.
NAMED = {"cli.streams", "cli.doctor", "extras", "local.isolated", "local.warm"}


def test_every_python_of_ours_is_started_in_one_way() -> None:
    measurements = Path(edgewise_bench.__file__).parent
    files = {name.removeprefix("edgewise."): path for name, path in MODULES.items()}
    files |= {str(path): path for path in measurements.rglob("*.py")}
    own, spawned = set(), set()
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable":
                own.add(name)
            if isinstance(node, ast.Attribute) and node.attr == "get_context":
                spawned.add(name)
    assert own == NAMED | {"children"}
    measured = {str(measurements / name) for name in ("campaigns/team.py", "scale/ledgers.py")}
    assert spawned == {"server.workers", *measured}


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "MINE", "NVIDIA_API_KEY", "LLAMA_API_KEY", "OV_TOKEN"],
)
def test_a_child_that_only_computes_gets_no_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also where a maker of runtimes has called its key like its settings."""
    monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = child_environment()
    assert name not in found and "secret" not in found.values()
    assert found["OMP_NUM_THREADS"] == "3" and "PATH" in found


def test_a_timer_gets_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: seen.append(env))
    act.set_timer(seconds=5)
    act._TIMERS.pop()
    assert seen and "secret" not in seen[0].values()
