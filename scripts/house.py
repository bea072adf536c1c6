"""`python -m scripts.house`: how large the house is, and how many files a request crosses.

Prints the tables of docs/architecture.md; `--write` writes them there. `--files` names the files
that are crossed, `--private` the uses of private names.

Requests are walked in a fresh process, which is profiled before its first thread starts: a thread
that is used again is seen too. Scripted models, the test client and the loopback cloud are the
measurement's own: they do not count, and no runtime is crossed. A module is crossed where a
function of it runs; a constant or an enum that is read is not seen.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple

from starlette.testclient import TestClient

from edgewise import Engine, Settings
from edgewise.server.app import make_app
from edgewise.server.state import ServerState
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    heard,
)
from edgewise.types.messages import Tool, ToolCall
from edgewise_bench.speech.made_voice import silence, voice, wav

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "edgewise"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- begin house -->\n", "<!-- end house -->\n"
OUTSIDE_ROOMS = "*.py"
REQUESTS = 9  # of each kind; a file counts that most of them cross
VALUES = ("types", "errors")

# -- how large -------------------------------------------------------------------------------------


class Size(NamedTuple):
    """Of one room, or of a whole distribution."""

    modules: int
    lines: int


def sizes() -> dict[str, Size]:
    """Each room of edgewise, all of it, and each other distribution of this repository."""
    rooms: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        rooms.setdefault(f"{inside[0]}/" if inside[1:] else OUTSIDE_ROOMS, []).append(path)
    found = {room: _size(rooms[room]) for room in sorted(rooms)}
    found["src/edgewise"] = Size(*(sum(numbers) for numbers in zip(*found.values(), strict=True)))
    for package in sorted(ROOT.glob("packages/*/src/*")):
        if paths := list(package.rglob("*.py")):
            found[str(package.relative_to(ROOT))] = _size(paths)
    return found


def _size(paths: list[Path]) -> Size:
    return Size(len(paths), sum(len(path.read_text("utf-8").splitlines()) for path in paths))


# -- private names ---------------------------------------------------------------------------------


class Use(NamedTuple):
    """Where a private name of another module is used."""

    path: str
    line: int
    words: str


def private_uses() -> list[Use]:
    """`other._name`, and `from edgewise.other import _name`: what ruff's SLF001 reports of us.

    What a class says of itself does not count (`self`, `cls`, `super()`), nor names of libraries.
    """
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    ours = {name for tree in trees.values() for name in _defined(tree)} - set(dir(Size))
    return [
        Use(path, line, words)
        for path, tree in trees.items()
        for line, name, words in sorted(_used(tree))
        if _is_private(name) and name in ours
    ]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


def _used(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    libraries = set(_libraries(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            if ast.unparse(node.value) not in libraries:
                yield node.lineno, node.attr, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("edgewise"):
            for each in node.names:
                yield node.lineno, each.name, f"from {node.module} import {each.name}"


def _libraries(tree: ast.Module) -> Iterator[str]:
    """What `import os` and `torch = importlib.import_module("torch")` give names to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "import_module" in ast.dump(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (ast.unparse(each) for each in targets)


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _defined(tree: ast.Module) -> Iterator[str]:
    """Functions, classes, fields, what is assigned at the top, and `self.name = …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and _is_own(node.value):
            yield node.attr


# -- files crossed ---------------------------------------------------------------------------------


class Walk:
    """Notes every module of ours in which something is done, on whatever thread."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def start(self) -> None:
        """Before any other thread is there: one that runs already cannot be watched."""
        assert threading.active_count() == 1, threading.enumerate()
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        name = _module(frame)
        if name in self.found or not _is_ours(name):
            return
        if _is_for_a_request(frame):
            self.found.add(name)


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    if name.startswith("namedtuple_"):  # made by the library, for the module of its class
        return str(getattr(frame.f_locals.get("_cls"), "__module__", ""))
    return name


def _is_ours(module: str) -> bool:
    return module.startswith("edgewise.") and not module.startswith("edgewise.testing")


def _is_for_a_request(frame: FrameType) -> bool:
    """The threads of the loopback cloud make values too: their first module of ours is its own."""
    first, above = "", frame.f_back
    while above is not None:
        name = _module(above)
        first = name if name.startswith("edgewise.") else first
        above = above.f_back
    return not first.startswith("edgewise.testing")


def crossed(ask: Callable[[], None], walk: Walk) -> list[str]:
    """The first request of a kind loads what it needs, so it does not count.

    What threads do in the background now and then belongs to no request: it is not in most.
    """
    ask()
    times: Counter[str] = Counter()
    for _ in range(REQUESTS):
        walk.found.clear()
        ask()
        times.update(walk.found)
    return sorted(name for name, number in times.items() if number > REQUESTS // 2)


def walks_here() -> dict[str, list[str]]:
    walk, found = Walk(), {}
    walk.start()
    for kind, make in KINDS.items():
        with make() as ask:
            found[kind] = crossed(ask, walk)
    return found


def walks() -> dict[str, list[str]]:
    """The modules that each kind of request crosses, found in a fresh process."""
    command = [sys.executable, "-m", "scripts.house", "--walks"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def of_values(modules: list[str]) -> int:
    return sum(name.split(".")[1] in VALUES for name in modules)


# -- the kinds of requests -------------------------------------------------------------------------

QUESTION = "What is the capital of France?"
SAID = 'set_timer {"minutes":5}'
TIMER = Tool(
    "set_timer",
    "Set a timer.",
    {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]},
)
Ask = Callable[[], None]


@contextmanager
def _settings() -> Iterator[Settings]:
    """With a folder of their own, and a cloud on loopback that always answers."""
    with LoopbackCloud() as cloud, TemporaryDirectory() as folder:
        cloud.always(lambda seen: _reply(seen.body))
        environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
        yield Settings.load(environment, data_dir=Path(folder))


def _reply(body: Any) -> Answer:
    if isinstance(body, dict) and body.get("tools"):
        return Answer(tool_calls=(ToolCall("set_timer", {"minutes": 5}),))
    return Answer(text="Paris.")


def _backend(source: str) -> ScriptedBackend:
    if source == "local":
        return ScriptedBackend.confident("Paris.")
    return ScriptedBackend.doubtful("Paris.")


@contextmanager
def _chat(source: str) -> Iterator[Ask]:
    with _settings() as settings, Engine(settings, backend=_backend(source)) as engine:

        def ask() -> None:
            reply = engine.complete(QUESTION)
            assert reply.source == source, reply

        yield ask


@contextmanager
def _call(source: str) -> Iterator[Ask]:
    doubt = 0.0 if source == "local" else -3.0
    model = ScriptedFunctionModel([SAID] * 100, logprobs=[[doubt]] * 100)
    with _settings() as settings, Engine(settings, function_model=model) as engine:

        def ask() -> None:
            reply = engine.call("Set a timer for 5 minutes", [TIMER])
            assert reply.source == source, reply

        yield ask


@contextmanager
def _post(source: str) -> Iterator[Ask]:
    body = {"model": "auto", "messages": [{"role": "user", "content": QUESTION}]}
    with _settings() as settings:
        app = make_app(ServerState(settings, backend=_backend(source)))
        with TestClient(app, base_url="http://127.0.0.1") as client:

            def ask() -> None:
                answer = client.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                assert answer.json()["edgewise"]["source"] == source, answer.text

            yield ask


@contextmanager
def _transcribe(source: str) -> Iterator[Ask]:
    model = ScriptedTranscriber([[heard("the first part", 0.7, 2.0, 0.99)]] * 100)
    sound = wav(silence(0.5), voice(3.0), silence(0.5))
    with _settings() as settings, Engine(settings, transcriber=model) as engine:

        def ask() -> None:
            transcript = engine.transcribe(sound)
            assert transcript.source == source and transcript.text, transcript

        yield ask


KINDS: dict[str, Callable[[], AbstractContextManager[Ask]]] = {
    "chat kept": partial(_chat, "local"),
    "chat handed off": partial(_chat, "cloud"),
    "call kept": partial(_call, "local"),
    "call rescued": partial(_call, "cloud"),
    "POST kept": partial(_post, "local"),
    "POST handed off": partial(_post, "cloud"),
    "transcribe kept": partial(_transcribe, "local"),
}

# -- the page --------------------------------------------------------------------------------------


def tables(found: dict[str, list[str]]) -> str:
    """As Markdown; `found` are the walks."""
    lines = ["| Room | Modules | Lines |", "|---|---|---|"]
    lines += [f"| `{room}` | {size.modules} | {size.lines:,} |" for room, size in sizes().items()]
    lines += ["", "| Files crossed | Without values | With them |", "|---|---|---|"]
    for kind, modules in found.items():
        lines.append(f"| {kind} | {len(modules) - of_values(modules)} | {len(modules)} |")
    uses = private_uses()
    lines += ["", "| Private names used from outside their class | In modules |", "|---|---|"]
    lines.append(f"| {len(uses)} | {len({use.path for use in uses})} |")
    return "\n".join(lines) + "\n"


def sizes_on_the_page() -> dict[str, Size]:
    rows = re.findall(r"^\| `(.+)` \| (\d+) \| ([\d,]+) \|$", PAGE.read_text("utf-8"), re.M)
    return {room: Size(int(modules), int(lines.replace(",", ""))) for room, modules, lines in rows}


def write(text: str) -> None:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    assert after, f"{PAGE} has no place for the tables"
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files that are crossed")
    parser.add_argument("--private", action="store_true", help="name the uses of private names")
    parser.add_argument("--write", action="store_true", help="write docs/architecture.md")
    parser.add_argument("--walks", action="store_true", help="only the files crossed, as JSON")
    options = parser.parse_args()
    if options.walks:
        print(json.dumps(walks_here()))
        return
    found = walks()
    if options.files:
        for kind, modules in found.items():
            print(f"{kind}: {', '.join(each.removeprefix('edgewise.') for each in modules)}\n")
    if options.private:
        print("\n".join(f"{use.path}:{use.line}: {use.words}" for use in private_uses()), "\n")
    print(tables(found), end="")
    if options.write:
        write(tables(found))


if __name__ == "__main__":
    main()
