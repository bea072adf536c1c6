"""The plan of the house, held by a test: who may import whom, and what an import loads."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

import edgewise
from edgewise import errors

SOURCE = Path(edgewise.__file__).parent
MODULES = {
    ".".join(("edgewise", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(SOURCE.rglob("*.py"))
}

# room: the rooms (or single modules) it may import besides itself
VALUES = {"errors", "types"}
DOERS = {"decide", "grammar", "calls", "speech", "vision", "record", "local", "cloud"}
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": set(),  # resolves its names when they are used
    "errors": {"extras"},  # for the line that gets what is missing
    "extras": {"children"},
    "children": set(),
    "types": set(),
    "calibrations": VALUES | {"decide", "local", "settings"},
    "weights": set(),
    **dict.fromkeys(DOERS, VALUES),
    **dict.fromkeys(("speech", "vision"), VALUES | {"decide"}),  # one score for all
    "calls": VALUES | {"decide", "grammar"},
    "record": VALUES | {"cloud"},  # only the protocols: see below
    "cloud": VALUES | {"vision"},  # what leaves is stripped of metadata at the door
    # The names of what it finds; what grammars are made of; runtimes, which plug-ins bring.
    "local": VALUES | {"vision", "grammar", "calls", "children", "plugins", "extras"},
    "settings": VALUES | {"plugins", "record", "cloud"},  # amounts and providers it checks
    "plugins": {"errors"},
    "credentials": {"errors"},
    "bridge": {"errors"},
    "flows": VALUES | DOERS,  # of local and cloud only the protocols: see below
    "monitor": VALUES | DOERS | {"flows", "settings", "calibrations"},
    "requests": VALUES | {"calls", "cloud", "settings", "plugins"},  # the judge of what may leave
    "parts": VALUES
    | DOERS
    | {"settings", "plugins", "credentials", "calibrations", "requests", "monitor"},
    "tasks": VALUES
    | DOERS
    | {"flows", "settings", "plugins", "calibrations", "bridge", "requests", "parts"},
    "engine": VALUES | DOERS | {"flows", "settings", "plugins", "requests", "parts", "tasks"},
    "mcp_client": VALUES | {"calls", "grammar", "bridge"},
    "conversation": VALUES | {"calls", "requests", "parts", "tasks", "engine", "mcp_client"},
    "shared_engine": VALUES | DOERS | {"bridge", "settings", "requests", "parts", "engine"},
    "aio": VALUES
    | DOERS
    | {"flows", "bridge", "settings", "requests", "engine", "shared_engine", "conversation"},
    "mcp_server": VALUES
    | {"flows", "settings", "requests", "engine", "aio", "folder_search", "server"},
    "documents": VALUES | {"vision", "local"},
    "folder_search": VALUES | DOERS | {"documents", "flows", "settings", "requests", "engine"},
    "testing": VALUES | DOERS | {"engine", "conversation", "settings"},
}
EVERYTHING = set(MAY_IMPORT) | {"calibrate", "cli", "server"}
MAY_IMPORT["calibrate"] = EVERYTHING - {"cli", "server", "testing"}
MAY_IMPORT["server"] = EVERYTHING - {"calibrate", "cli"}
MAY_IMPORT["cli"] = MAY_IMPORT["__main__"] = EVERYTHING
PROTOCOLS_ONLY = {"edgewise.local.backend", "edgewise.cloud.provider"}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of ours that this one imports, deferred and type-checking imports included."""
    found = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if deeper in MODULES else node.module)
    return frozenset(name for name in found if name in MODULES and name != module)


def test_imports_only_what_its_room_may() -> None:
    wrong = [
        f"{module} must not import {name}"
        for module in MODULES
        for name in sorted(imports(module))
        if room(name) not in MAY_IMPORT[room(module)] | {room(module), "__init__"}
    ]
    assert not wrong


def test_nothing_of_edgewise_names_a_module_of_another_distribution() -> None:
    others = [path.name for path in SOURCE.parents[1].glob("packages/*/src/*")]
    assert len(others) > 1
    for module, path in MODULES.items():
        named = [other for other in others if other in path.read_text("utf-8")]
        assert not named, f"{module} names {named}: they come in by entry points"


def test_flows_and_the_record_see_protocols_not_adapters() -> None:
    for module in MODULES:
        if room(module) in ("flows", "record"):
            adapters = {
                name
                for name in imports(module)
                if room(name) in ("local", "cloud") and name not in PROTOCOLS_ONLY
            }
            assert not adapters, f"{module} imports {adapters}"


def test_there_is_no_import_cycle_even_through_deferred_imports() -> None:
    # The package's own __init__ resolves its public names when asked: not an import of theirs.
    graph = {name: imports(name) - {"edgewise"} for name in MODULES if name != "edgewise"}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name not in done:
            for following in graph[name]:
                visit(following, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_every_module_says_what_it_is_for() -> None:
    silent = [module for module in MODULES if not ast.get_docstring(tree(module))]
    assert not silent


def test_no_file_has_a_name_that_says_nothing() -> None:
    for module in MODULES:
        words = set(module.rpartition(".")[2].split("_"))
        assert not words & {"utils", "util", "common", "helpers", "helper", "misc", "manager"}, (
            module
        )


def loaded_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


HEAVY = {
    "anthropic", "genai_prices", "gguf", "google.genai", "httpx", "httpx2", "huggingface_hub",
    "keyring", "numpy", "onnxruntime", "openai", "pydantic", "rich", "tokenizers", "xllamacpp",
}  # fmt: skip


def test_importing_edgewise_loads_nothing_heavy() -> None:
    loaded = loaded_after("import edgewise")
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("edgewise")}
    assert ours == {"edgewise"}, "public names are resolved when they are used"


def test_making_an_engine_loads_no_runtime_and_no_http_client() -> None:
    assert not loaded_after("import edgewise\nedgewise.Engine()") & HEAVY


def test_a_question_at_the_command_line_loads_little_before_its_first_word() -> None:
    """Its model is in another process, so that what it loads is what its user waits for."""
    loaded = loaded_after(
        "import edgewise.cli.ask, edgewise.flows.chat\n"
        "import edgewise.local.llama_cpp, edgewise.local.warm"
    )
    unneeded = {
        "asyncio", "concurrent.futures.thread", "http.client", "edgewise.calls.check",
        "edgewise.calls.formats", "edgewise.folder_search", "edgewise.grammar.answers",
        "edgewise.local.convert", "edgewise.local.vision", "edgewise.vision.question",
    }  # fmt: skip
    assert not loaded & (unneeded | HEAVY - {"rich"})


def test_the_stub_names_what_the_package_has() -> None:
    stub = ast.parse((SOURCE / "__init__.pyi").read_text("utf-8"))
    homes = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == edgewise._HOMES  # type: ignore[attr-defined]
    for name in edgewise.__all__:  # type: ignore[attr-defined]
        assert getattr(edgewise, name) is not None


def test_every_error_is_public() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined <= set(edgewise.__all__)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "public",
    [
        edgewise.Engine,
        edgewise.Conversation,
        edgewise.LiveTranscriber,
        edgewise.FolderIndex,
        edgewise.AsyncEngine,
        edgewise.AsyncConversation,
        edgewise.AsyncLiveTranscriber,
    ],
)
def test_what_a_public_method_takes_or_returns_is_public(public: type) -> None:
    """Names in its annotations that are classes of ours; private methods may use anything."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(public)))
    ours = {
        name: value
        for name, value in vars(sys.modules[public.__module__]).items()
        if isinstance(value, type) and value.__module__.startswith("edgewise")
    }
    made_by_users = public not in (edgewise.LiveTranscriber, edgewise.AsyncLiveTranscriber)
    for method in ast.walk(tree):
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if method.name.startswith("_") and not (made_by_users and method.name == "__init__"):
            continue
        arguments = (*method.args.args, *method.args.kwonlyargs, method.args.kwarg)
        annotations = [each.annotation for each in arguments if each is not None]
        annotations.append(method.returns)
        used = {
            node.id
            for annotation in annotations
            if annotation is not None
            for node in ast.walk(annotation)
            if isinstance(node, ast.Name)
        }
        hidden = used & set(ours) - set(edgewise.__all__)  # type: ignore[attr-defined]
        assert not hidden, f"{public.__name__}.{method.name} uses {sorted(hidden)}"


# A module that only one other imports, and that is short, is usually better inside that other one.
# It stays if it is loaded by name, or if it has one of these reasons.
SHORT = 80  # lines
ALONE_BECAUSE: dict[str, str] = {}


def test_a_short_module_with_one_importer_has_a_reason_to_be_one() -> None:
    by_name = " ".join(
        [
            *(path.read_text("utf-8") for path in SOURCE.parents[1].glob("**/pyproject.toml")),
            *(ast.unparse(tree(module)) for module in MODULES),
        ]
    )
    importers = {
        module: [other for other in MODULES if module in imports(other)] for module in MODULES
    }
    alone = {
        module
        for module, path in MODULES.items()
        if path.stem not in ("__init__", "__main__")
        and len(path.read_text("utf-8").splitlines()) < SHORT
        and len(importers[module]) < 2
        and f"{module}:" not in by_name
        and not re.search(rf"""['"]{re.escape(module)}['"]""", by_name)
    }
    assert alone == set(ALONE_BECAUSE)
