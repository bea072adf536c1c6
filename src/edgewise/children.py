"""Python processes of ours: none takes its modules from the folder that it is started in.

That folder is where the user happens to work. Python looks there first, so a `selectors.py` among
somebody's files, or an `edgewise/`, would run instead of what was meant.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAFE_PATH = "PYTHONSAFEPATH"


def python_child(*words: str) -> list[str]:
    """The command line of a child: what Python is to run, and its arguments.

    Not -I or -E: who sets PYTHONPATH means it.
    """
    return [sys.executable, "-P", *words]


def python(words: str) -> str:
    """How this installation's Python is called from where the user is."""
    # Not `samefile`: the Python of an environment is often a link to that of the system.
    on_path = shutil.which("python") == sys.executable
    return f"{'python' if on_path else from_here(Path(sys.executable))} {words}"


def from_here(program: Path) -> str:
    here = Path.cwd()
    return shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))


# What a process that only computes needs: where things are, how words are written, and what tunes
# Python, a runtime or its device. A key may have any name, so that all others stay here.
_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TEMP|TMP|XDG_\w+_(HOME|DIRS?)"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_\w+|PYTHON\w+|VIRTUAL_ENV|COVERAGE_\w+"
    r"|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|APPDATA|LOCALAPPDATA|PROGRAMDATA|USERPROFILE"
    r"|PROCESSOR_\w+|NUMBER_OF_PROCESSORS"
    r"|(OMP|KMP|MKL|OPENBLAS|BLIS|GGML|LLAMA|CUDA|NVIDIA|HIP|HSA|ROCR|ROCM|VK|SYCL|ZE|ONEAPI|ORT|OV"
    r"|OPENVINO|MALLOC|MTL|METAL|QNN|ADSP)_\w+",
    re.IGNORECASE,
)


# A maker of runtimes may sell answers, too: `NVIDIA_API_KEY`, `LLAMA_API_KEY`.
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)


def child_environment() -> dict[str, str]:
    """The environment of a child that asks nobody: without keys, and whatever else is in ours."""
    inherited = os.environ.items()  # noqa: TID251 - to hand it on
    return {
        name: value
        for name, value in inherited
        if _NEEDED.fullmatch(name) and not _SECRET.search(name)
    }


@contextmanager
def spawning() -> Iterator[None]:
    """The same around `start` of a process of `multiprocessing`, which has its own command line.

    It starts another one to look after what they share. The variable is set for so long only: a
    program that the user starts from here has its own folder.
    """
    before = os.environ.get(_SAFE_PATH)  # noqa: TID251 - to put it back
    os.environ[_SAFE_PATH] = "1"  # noqa: TID251 - sets
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]  # noqa: TID251
        else:
            os.environ[_SAFE_PATH] = before  # noqa: TID251
