"""Runs what a model wrote, to see whether it does what was asked.

A process of its own with no environment, in an empty folder, with little time and memory, that may
not write files, open connections or start programs. This keeps accidents small; it is no jail for
code that means harm, so only a measurement uses it, and only on answers of our own models.
"""

from __future__ import annotations

import re
import subprocess
import tempfile

from edgewise.children import python_child

SECONDS = 10.0  # on the wall; the processor's own limit is below
_BOUNDS = """
import sys, resource
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def _bound(event, given):
    if event == "open" and isinstance(given[1], str) and set(given[1]) & set("wax+"):
        raise PermissionError(event)
    if event.startswith(("socket.", "subprocess.", "os.", "shutil.", "ctypes.", "signal.")) and \\
            event not in ("os.listdir", "os.scandir", "os.walk"):
        raise PermissionError(event)
sys.addaudithook(_bound)
"""
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)


def passes(answer: str, tests: str) -> bool:
    """Whether `tests`, a program that finds the answer as ANSWER, ends well."""
    program = f"{_BOUNDS}\nANSWER = {answer!r}\n{tests}\n"
    with tempfile.TemporaryDirectory(prefix="edgewise-sandbox-") as folder:
        try:
            ended = subprocess.run(
                python_child("-I", "-S", "-B", "-c", program),
                cwd=folder,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=SECONDS,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return ended.returncode == 0


def code_in(text: str, begins: str) -> str:
    """The code of an answer: in its first fence, else from the first line that begins like code."""
    fenced = _FENCE.search(text)
    if fenced and fenced[1].strip():
        return fenced[1].strip("\n")
    found = re.search(rf"^\s*(?:{begins})\b", text, re.MULTILINE | re.IGNORECASE)
    return text[found.start() :].lstrip("\n") if found else text


def pattern_in(text: str) -> str:
    """The regular expression of an answer: quoted in code, in backticks, or its first line."""
    fenced = _FENCE.search(text) if "```" in text else None
    ticked = re.search(r"`([^`\n]+)`", text)
    found = fenced[1].strip() if fenced else ticked[1] if ticked else text.strip()
    raw = re.search(r"""\br(["'])(.+)\1""", found) or re.fullmatch(r"""(["'])(.*)\1""", found)
    lines = found.splitlines()
    found = lines[0].strip() if lines else ""
    slashed = re.fullmatch(r"/(.*)/[a-z]*", found)
    return raw[2] if raw else slashed[1] if slashed else found
