"""A process that forks after its models were loaded: neither of the two ever hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS_DIR

REPOSITORY = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="only some systems fork"),
]

OPENED = """
import numpy, os, sys
from pathlib import Path
from edgewise.errors import GenerationFailed
from edgewise.local import faster_whisper, onnx_embedder
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store import ModelStore
from edgewise.types.messages import Message, Request

store, kind = ModelStore(Path(sys.argv[1])), sys.argv[2]
story = Message("user", "Tell me a long story about whales.")
request = lambda tokens: Request(messages=(story,), max_tokens=tokens)
if kind in ("loop", "server"):
    driver = LlamaLoop if kind == "loop" else LlamaServer
    model = driver(store.find("smollm2-135m-instruct"), threads=1, context_tokens=256)
    use = lambda: "".join(item.text for item in list(model.generate(request(6)))[:-1])
elif kind == "speech":
    model = faster_whisper.open_backend(store.find("whisper-tiny.en"), threads=1)
    use = lambda: str(model.hear(numpy.zeros(16_000, "f4")))
else:
    model = onnx_embedder.open_backend(store.find("all-minilm-l6-v2"), threads=1)
    use = lambda: str(list(model.embed(["a boat"]).vectors[0]))
before = use()
stream = model.generate(request(60)) if kind == "loop" else None
if stream is not None:
    next(stream)
child = os.fork()
if child == 0:
    assert use() == before, "the child has a model of its own"
    if stream is not None:
        try:
            list(stream)
        except GenerationFailed as error:
            assert "parent process" in str(error)
        else:
            raise AssertionError("nobody can read a stream of the parent's")
    if kind != "server":  # whose library waits at exit for threads that are not there
        sys.exit(0)
    os._exit(0)  # as `multiprocessing` ends its children
assert os.waitpid(child, 0)[1] == 0
if stream is not None:
    assert len(list(stream)) > 50, "the parent goes on"
assert use() == before
"""


@pytest.mark.parametrize("kind", ["loop", "server", "speech", "embed"])
def test_a_forked_child_opens_its_own_model_and_its_parent_goes_on(kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPENED, str(MODELS_DIR), kind],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


ISOLATED = """
import os, sys, threading
from edgewise.errors import GenerationFailed
from edgewise.local.isolated import IsolatedModel
from edgewise.types.messages import Message, Request
from tests.local.crashing_model import open_crashing

model = IsolatedModel(open_crashing)
request = lambda text: Request(messages=(Message("user", text),))
use = lambda: "".join(item.text for item in list(model.generate(request("a b")))[:-1])
assert use() == "a b "
stream = model.generate(request(f"c @wait:{sys.argv[1]} d"))
next(stream)
process = model.supervisor.pid
model.supervisor._lock.acquire()  # as a thread that hands out a request at this moment
child = os.fork()
if child == 0:
    assert use() == "a b "
    assert model.supervisor.pid != process, "the child has a process of its own"
    try:
        list(stream)
    except GenerationFailed as error:
        assert "parent process" in str(error)
    else:
        raise AssertionError("nobody can read a stream of the parent's")
    sys.exit(0)
model.supervisor._lock.release()
assert os.waitpid(child, 0)[1] == 0
open(sys.argv[1], "w").close()
assert len(list(stream)) == 2 and model.supervisor.pid == process, "the parent goes on"
model.close()
"""


def test_a_model_in_its_own_process_belongs_to_the_one_that_started_it(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ISOLATED, str(tmp_path / "go")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


SHARED = """
import os, sys
from pathlib import Path
from edgewise import Engine, Settings
from edgewise.testing import ScriptedBackend

words = " ".join(f"word{number}" for number in range(40))
settings = Settings.load({}, data_dir=Path(sys.argv[1]))
engine = Engine(settings, backend=ScriptedBackend.confident(words))
engine.parts.rates()  # no import must be under way: Python itself would hang in the child
stream = engine.stream("Tell me.", policy="local_only")
next(stream)
locks = (engine.parts._lock, engine.parts._opening, engine.parts.models._lock)
for lock in locks:
    lock.acquire()  # as another thread that opens a model at this moment
child = os.fork()
if child == 0:
    assert engine.complete("Hello?", policy="local_only", request_id="child").source == "local"
    assert engine.parts.models.loaded == ()
    sys.exit(0)
for lock in locks:
    lock.release()
assert os.waitpid(child, 0)[1] == 0
reply = list(stream)[-1].reply
assert engine.ledger.get(reply.id)["error_code"] == "", "the child has not left in its name"
assert engine.ledger.seen("child")
engine.close()
"""


def test_an_engine_in_a_forked_child_answers_and_leaves_the_parents_streams_alone(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SHARED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
