"""The extras of this installation: what each is for, what it lacks, and the command that gets it.

Which extras there are, and what belongs to each, is read from the package's own metadata. Only
what no metadata says is written here.
"""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from edgewise.cli.streams import python
from edgewise.errors import ExtraMissing

PACKAGE = "edgewise"
FOR_DEVELOPERS = ("dev", "docs")


@dataclass(frozen=True, slots=True)
class Facts:
    """What it is for, how many MB it adds (see docs/extras.md), and what must load for it.

    No modules: they take seconds to load, or print, or report to their maker.
    `library` is the part that the system brings, and `library_fix` says how to get it.
    """

    purpose: str
    megabytes: int
    modules: tuple[str, ...]
    library: str = ""
    library_fix: str = ""


FACTS = {
    "cluster": Facts("deploy", 288, ()),
    "embed": Facts("embed, index and find", 78, ("onnxruntime", "tokenizers")),
    "executorch": Facts("models on ExecuTorch", 1068, ()),
    "mcp": Facts("mcp, and for tools of MCP servers", 4, ("mcp",)),
    "microphone": Facts(
        "listen and act from a microphone",
        1,
        ("sounddevice",),
        "the PortAudio library",
        "on Debian and Ubuntu: apt install libportaudio2",
    ),
    "onnx": Facts(
        "models on ONNX Runtime", 166, ("llguidance", "onnx", "onnxruntime", "tokenizers")
    ),
    "openvino": Facts("models on OpenVINO", 203, ()),
    "otel": Facts("traces in OpenTelemetry", 4, ("opentelemetry.sdk",)),
    "postgres": Facts("a ledger in PostgreSQL", 21, ("psycopg",)),
    "redact": Facts("names in redact, with a spaCy model of yours", 218, ("presidio_analyzer",)),
    "server": Facts("serve", 1, ("starlette", "uvicorn", "websockets")),
    "speech": Facts("transcribe, listen and act", 336, ("faster_whisper",)),
    "vision": Facts("see", 291, ("cv2", "rapidocr")),
    "wyoming": Facts("wyoming", 1, ("wyoming",)),
}


def extra_names() -> list[str]:
    """Every extra that the package declares, for users."""
    declared = distribution(PACKAGE).metadata.get_all("Provides-Extra") or []
    return sorted(set(declared) - set(FOR_DEVELOPERS))


def lacking(extra: str) -> list[str]:
    """The packages of an extra that are not here, or not in a release that fits."""
    needed = _requirements(distribution(PACKAGE), extra)
    return [f"{each.name}{each.specifier}" for each in needed if not _is_met(each)]


def why_not_loading(extra: str) -> str:
    """ "" if its packages load; else what keeps them from it, such as a library of the system."""
    facts = FACTS.get(extra)
    for module in facts.modules if facts else ():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # theirs, and no concern of this check
                import_module(module)
        except (ImportError, OSError) as error:
            library = facts.library if facts else ""
            return f"{library} is missing" if library else f"{module} does not load: {error}"
    return ""


def install_command(extra: str) -> str:
    """The line that adds an extra to this very installation."""
    wanted = shlex.quote(_requirement(extra))
    # These two install afresh: an extra that is here and not named would be gone.
    anew = {"uv-receipt.toml": "uv tool install", "pipx_metadata.json": "pipx install --force"}
    for receipt, line in anew.items():
        if (Path(sys.prefix) / receipt).exists():
            here = (name for name in extra_names() if name == extra or not lacking(name))
            return f"{line} {shlex.quote(_requirement(*here))}"
    editable = "-e " if "editable" in str(_direct_url().get("dir_info")) else ""
    if find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(sys.executable)} {editable}{wanted}"
    return python(f"-m pip install {editable}{wanted}")


def in_words(error: ExtraMissing) -> str:
    """The error with the line that works here, and how much it brings."""
    facts = FACTS.get(error.extra)
    size = f" ({facts.megabytes} MB)" if facts else ""
    return f"{error.package} is not installed: it comes with {install_command(error.extra)}{size}"


def installed_size(*extras: str) -> int:
    """How many bytes extras add to the bare package here, with all that they need."""
    added = set(_closure(PACKAGE, *extras)) - set(_closure(PACKAGE))
    return sum(path.size or 0 for name in added for path in distribution(name).files or ())


def _closure(name: str, *extras: str) -> Iterator[str]:
    """A package and all that it needs, as far as it is here."""
    waiting, seen = [(name, extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        try:
            found = distribution(asked[0])
        except PackageNotFoundError:
            continue
        yield canonicalize_name(asked[0])
        for each in _requirements(found, asked[1]):
            waiting += [(each.name, more) for more in ("", *each.extras)]


def _requirements(owner: Distribution, extra: str) -> list[Requirement]:
    """What it needs here, or with an extra what that adds."""
    needed = [Requirement(text) for text in owner.requires or ()]
    bare = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return bare
    return [each for each in needed if each not in bare and _wants(each, extra)]


def _wants(each: Requirement, extra: str) -> bool:
    return each.marker is not None and each.marker.evaluate({"extra": extra})


def _is_met(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(distribution(wanted.name).version, prereleases=True)
    except PackageNotFoundError:
        return False


def _requirement(*extras: str) -> str:
    """What to install again, with the extras: by its name, or from where it came."""
    came_from, wanted = _direct_url(), f"[{','.join(extras)}]"
    url, vcs = str(came_from.get("url", "")), came_from.get("vcs_info")
    if url.startswith("file:") and not vcs:
        return f"{url2pathname(urlsplit(url).path)}{wanted}"
    scheme = f"{vcs['vcs']}+" if vcs else ""
    return f"{PACKAGE}{wanted}{f' @ {scheme}{url}' if url else ''}"


def _direct_url() -> dict[str, Any]:
    text = distribution(PACKAGE).read_text("direct_url.json")
    return dict(json.loads(text)) if text else {}
