"""What our dependencies do behind our back: one process per extra works for real, and is watched.

strace notes every connection and every file that is written; a process also has a network of its
own where the machine allows that, so that nothing can leave. It is watched for another 15 s when
its work is done, because the telemetry that was found here once waits 10 s.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from ctypes.util import find_library
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from edgewise.local.store import InstalledModel
from tests.conftest import MODELS_DIR
from tests.watched_extra import ZSTD

ROOT = Path(__file__).parents[1]
PROJECT, *PACKAGES = (
    tomllib.loads(path.read_text("utf-8"))["project"]
    for path in (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml")))
)
ON_CI = bool(os.environ.get("CI"))
WATCHED_S = 15  # after the work
# Only CI is sure to have PortAudio; elsewhere the child checks what is said without it.
SOUND_MAY_BE_MISSING = not ON_CI and find_library("portaudio") is None
PATIENCE_S = 60  # for the telemetry of a runtime that we let speak

# What must have been loaded for the work to have been real.
EXTRAS: dict[str, set[str]] = {
    "base": {
        *("click", "filelock", "genai_prices", "gguf", "httpx2"),
        *("huggingface_hub", "jinja2", "keyring", "numpy", "openai", "platformdirs", "rich"),
    },
    "embed": {"numpy", "onnxruntime", "tokenizers"},
    "mcp": {"mcp", "mcp_types", "httpx2", "starlette", "uvicorn"},
    "microphone": {"sounddevice"},
    "onnx": {"llguidance", "onnx", "onnxruntime", "tokenizers"},
    "openvino": {"numpy", "openvino", "openvino.tools.ovc.telemetry_stub"},
    "otel": {"opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"},
    "postgres": {"psycopg", "psycopg_binary"},
    "server": {
        *("prometheus_client", "pydantic", "python_multipart", "starlette", "uvicorn"),
        *("websockets", ZSTD),
    },
    "plots": {"jiwer", "matplotlib.figure"},  # of edgewise-bench
    "speech": {"av", "ctranslate2", "faster_whisper", "onnxruntime"},
    "vision": {"PIL", "cv2", "onnxruntime", "pypdfium2", "rapidocr"},
    "wyoming": {"wyoming"},
}
# The model of `redact` does not come from the package index, and an export for `executorch` takes
# minutes under strace. Ray's many processes were not traced; the tests of edgewise-cluster run them
# in a network of their own. docs/guide/privacy.md says so of all. `engines` brings ours only.
NOT_WATCHED = {"cluster", "engines", "executorch", "redact"}
# Where a dependency may write, below the home or anywhere: docs/guide/privacy.md names these too.
MAY_WRITE: dict[str, tuple[str, ...]] = {
    "plots": (
        *(".cache/matplotlib", ".config/matplotlib"),
        *(".cache/fontconfig", "/var/cache/fontconfig"),  # of the system's own list of fonts
    ),
}

CALLS = (
    "connect,sendto,sendmsg,sendmmsg,bind,getsockname,open,openat,openat2,creat,mkdir,mkdirat,"
    "rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,mknodat,truncate,unlink,"
    "unlinkat,rmdir"
)
SENDS = {"connect", "sendto", "sendmsg", "sendmmsg"}
CALL = re.compile(r"(\w+)\((.*?)\)? += (.*)")
ADDRESS = re.compile(r'htons\((\d+)\).*?(?:inet_addr\(|inet_pton\(AF_INET6, )"([^"]+)"')
UNIX = re.compile(r'sun_path="([^"]+)"')
OPENED = re.compile(r"\d+<(.*)>")
PLACE = re.compile(r'(?:<([^>"]*)>, )?"([^"]*)"')  # the folder where one is given, and the name
# Who answers for names. nscd answers for users' names too, but nothing here asks for one.
RESOLVERS = ("/nscd/socket", "/io.systemd.Resolve")
NAME_FILES = ("/etc/resolv.conf", "/etc/hosts")


@dataclass
class Seen:
    """What a trace tells."""

    lookups: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, traces: Sequence[Path], folder: Path) -> Seen:
        """`folder` is where the process was started."""
        lines = [line for path in traces for line in path.read_text("utf-8", "replace").split("\n")]
        seen, own_ports = cls(), set[str]()
        for line in lines:
            if line.startswith("getsockname(") and (address := ADDRESS.search(line)):
                own_ports.add(address[1])
        for line in lines:
            if (call := CALL.match(line)) is None:
                continue
            name, given, result = call.groups()
            if name in SENDS:
                seen._note_sent(given, line, own_ports)
            elif name.startswith(("open", "creat")):
                seen._note_opened(name, given, result)
            elif name == "bind":
                seen.written |= set(UNIX.findall(given)) if result == "0" else set()
            elif name != "getsockname" and result == "0":
                place = PLACE.findall(given)[-1]  # a rename and a link name their target last
                seen.written.add(os.path.join(folder, *place))
        return seen

    def _note_sent(self, given: str, line: str, own_ports: set[str]) -> None:
        if (path := UNIX.search(given)) and path[1].endswith(RESOLVERS):
            self.lookups.append(line)
        for port, host in ADDRESS.findall(given):
            if port == "53":
                self.lookups.append(line)
            elif not (ipaddress.ip_address(host).is_loopback and port in own_ports):
                self.connections.append(line)

    def _note_opened(self, name: str, given: str, result: str) -> None:
        if (opened := OPENED.match(result)) is None:
            return
        if opened[1].endswith(NAME_FILES):
            self.lookups.append(f"{name}({given})")
        if name == "creat" or re.search("O_WRONLY|O_RDWR|O_CREAT", given):
            self.written.add(opened[1].removesuffix(" (deleted)"))


class Child:
    """A process that works with one extra, under strace. It has a home that must stay empty."""

    def __init__(self, extra: str, folder: Path, watcher: Sequence[str]) -> None:
        self.extra, self.folder = extra, folder
        self.home = folder / "home"
        for name in ("home", "edgewise", "tmp", "work"):
            (folder / name).mkdir(parents=True)
        self._errors = (folder / "stderr").open("w")
        # Nothing is inherited: on what looks like CI, or behind a proxy, some telemetry hides.
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
            "TMPDIR": str(folder / "tmp"),
            "EDGEWISE_HOME": str(folder / "edgewise"),
            "EDGEWISE_MODEL": "tiny",
            "EDGEWISE_CACHE_DIR": str(MODELS_DIR.parent),
            "EDGEWISE_FETCH_DEFAULT_MODEL": "no",
            "EDGEWISE_KEEP_WARM_S": "0",
            "EDGEWISE_THREADS": "1",
        }
        command = [*watcher, "-ff", "-y", "-e", f"trace={CALLS}", "-o", str(folder / "trace")]
        self._process = subprocess.Popen(
            [*command, sys.executable, "-m", "tests.watched_extra", extra],
            cwd=folder / "work",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # so that all of it can be ended together
        )
        self.loaded: set[str] = set()

    def wait_for_work(self) -> None:
        if line := self._pipe(self._process.stdout).readline():
            self.loaded = set(json.loads(line)["loaded"])

    def release(self) -> None:
        self._pipe(self._process.stdin).close()
        self._process.wait()

    def end(self) -> None:
        """Of a test that was broken off, too."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()
        for pipe in (self._process.stdin, self._process.stdout):
            self._pipe(pipe).close()

    @property
    def complaint(self) -> str:
        return (self.folder / "stderr").read_text("utf-8", "replace")

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    def seen(self) -> Seen:
        return Seen.of(sorted(self.folder.glob("trace.*")), self.folder / "work")

    def strays(self) -> list[str]:
        """What was written outside our own folders."""
        ours = [self.folder / name for name in ("edgewise", "tmp", "work")]
        ours += [MODELS_DIR.parent, Path("/dev"), Path("/proc")]
        ours += [self.home / name for name in MAY_WRITE.get(self.extra, ())]
        return sorted(
            path
            for path in self.seen().written
            # or the folders above it, that had to be made first
            if not any(Path(path).is_relative_to(f) or f.is_relative_to(path) for f in ours)
        )

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def find_watcher() -> list[str]:
    """strace, in a network of its own where that can be had."""
    strace = ["strace", "-f", "--seccomp-bpf"]
    for alone in (["unshare", "-rn"], ["unshare", "-n"], []):
        command = [*alone, *strace]
        if shutil.which(command[0]) and shutil.which("strace"):
            tried = subprocess.run(
                [*command, "-e", "trace=connect", "-o", os.devnull, "true"],
                capture_output=True,
                check=False,
            )
            if tried.returncode == 0:
                return command
    if ON_CI:
        pytest.fail("nothing can be watched without strace: apt install strace")
    pytest.skip("nothing can be watched without strace")


@pytest.fixture(scope="module")
def children(
    tmp_path_factory: pytest.TempPathFactory,
    default_model: InstalledModel,
    default_embedder: InstalledModel,
    default_transcriber: InstalledModel,
) -> Iterator[dict[str, Child]]:
    """All of them at once, and the one with the bare runtime beside them."""
    watcher = find_watcher()
    folder = tmp_path_factory.mktemp("watched").resolve()
    running: dict[str, Child] = {}
    try:
        # Where there is no network of its own, nothing that it sends gets out either.
        silenced = ["-e", f"inject={','.join(sorted(SENDS))}:error=ENETUNREACH"]
        running["bare"] = Child("bare", folder / "bare", [*watcher, *silenced])
        for extra in EXTRAS:
            running[extra] = Child(extra, folder / extra, watcher)
        for child in running.values():
            child.wait_for_work()
        time.sleep(WATCHED_S)
        # On a busy machine the others are watched for as long as the bare runtime takes to speak.
        until = time.monotonic() + PATIENCE_S
        while not running["bare"].seen().lookups and time.monotonic() < until:
            time.sleep(0.5)
        for child in running.values():
            child.release()
        yield running
    finally:
        for child in running.values():
            child.end()


@pytest.mark.real_model
def test_the_watcher_sees_what_the_bare_runtime_does(children: dict[str, Child]) -> None:
    """If it does not, the other tests prove nothing."""
    bare = children["bare"]
    assert "onnxruntime" in bare.loaded, bare.complaint
    assert bare.seen().lookups
    assert [path for path in bare.strays() if path.startswith(f"{bare.home}/")]


@pytest.mark.real_model
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_looks_nobody_up_and_leaves_nothing_behind(
    children: dict[str, Child], extra: str
) -> None:
    child = children[extra]
    assert child.exit_status == 0, child.complaint
    if not (extra == "microphone" and SOUND_MAY_BE_MISSING):
        assert child.loaded >= EXTRAS[extra], child.complaint
    seen = child.seen()
    assert (seen.lookups, seen.connections, child.strays()) == ([], [], [])


def test_every_extra_is_watched() -> None:
    (bench,) = (each for each in PACKAGES if each["name"] == "edgewise-bench")
    optional = PROJECT["optional-dependencies"].keys() | bench["optional-dependencies"].keys()
    tools = {"dev", "docs"}  # they work on this repository, never inside of an engine
    assert set(EXTRAS) == {"base", *optional} - {*tools, *NOT_WATCHED}


def test_the_page_on_privacy_names_every_dependency() -> None:
    page = (ROOT / "docs" / "guide" / "privacy.md").read_text("utf-8")
    needed = list(PROJECT["dependencies"])
    for extra in {*EXTRAS, *NOT_WATCHED} & PROJECT["optional-dependencies"].keys():
        needed += PROJECT["optional-dependencies"][extra]
    for package in PACKAGES:
        needed += sum(package["optional-dependencies"].values(), package["dependencies"])
    names = {re.split("[^\\w.-]", each)[0] for each in needed}
    for name in {name for name in names if not name.startswith("edgewise")}:
        assert f"`{name}`" in page, f"docs/guide/privacy.md does not say what {name} does"
