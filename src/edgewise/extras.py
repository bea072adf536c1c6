"""The extras of this installation: what each is for, what it lacks, and the command that gets it.

Which extras there are, and what belongs to each, is read from the package's own metadata. Only
what no metadata says is written here.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from edgewise.children import python

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGE = "edgewise"
FOR_DEVELOPERS = ("dev", "docs")


@dataclass(frozen=True, slots=True)
class Facts:
    """What it is for, how many MB it adds (see docs/guide/install.md), and what must load for it.

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
    "embed": Facts("embed, index and find", 86, ("onnxruntime", "pypdfium2", "tokenizers")),
    "engines": Facts("models on GenieX and Cactus, which you install", 1, ()),
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
    "vision": Facts("see", 300, ("cv2", "pypdfium2", "rapidocr")),
    "wyoming": Facts("wyoming", 1, ("wyoming",)),
}


def extra_names() -> list[str]:
    """Every extra that the package declares, for users."""
    declared = distribution(PACKAGE).metadata.get_all("Provides-Extra") or []
    return sorted(set(declared) - set(FOR_DEVELOPERS))


def lacking(extra: str) -> list[str]:
    """The packages of an extra that are not here, or not in a release that fits."""
    return list(_lacking(distribution(PACKAGE), extra))


def _lacking(owner: Distribution, extra: str) -> Iterator[str]:
    for each in _requirements(owner, extra):
        if not _is_met(each):
            yield f"{each.name}{each.specifier}"
        elif each.name.startswith(PACKAGE):  # what its own extras need comes through it
            for more in each.extras:
                yield from _lacking(distribution(each.name), more)


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


def install_command(*extras: str) -> str:
    """The line that adds extras to this very installation; without any, edgewise itself again."""
    return _line(_requirement(*extras), [each for name in extras for each in _beside(name)], extras)


def how_to_get(*extras: str) -> str:
    """The same, and how much it brings."""
    sizes = [FACTS[name].megabytes for name in extras if name in FACTS]
    return f"{install_command(*extras)}{f' ({sum(sizes)} MB)' if sizes else ''}"


def package_command(name: str, extra: str = "") -> str:
    """The line that adds another distribution of ours, such as edgewise-bench: from the clone, the
    repository, the folder of wheels or the index that this one came from."""
    (wanted,) = _sources([name])
    if extra:
        named, at, source = wanted.partition(" @ ")
        wanted = f"{named}[{extra}]{at}{source}"
    return _add(wanted)


def pip_command(*wanted: str) -> str:
    """The line that adds somebody else's packages to this very installation."""
    return _add(*wanted, ours=False)


def mend_command() -> str:
    """The line that installs this very installation again, over what is damaged."""
    if _receipt() == "uv":
        return f"uv tool install --reinstall {shlex.quote(_requirement(*_extras_here()))}"
    if _receipt() == "pipx":
        return f"pipx reinstall {PACKAGE}"
    return _pip("--force-reinstall", "--no-deps", f"{_editable()}{shlex.quote(_requirement())}")


def _line(wanted: str, beside: Sequence[str], extras: Sequence[str]) -> str:
    """For edgewise itself, with what its extras need of ours."""
    if receipt := _receipt():
        # These two install afresh: an extra that is here and not named would be gone.
        wanted = _requirement(*_extras_here(*extras))
        if receipt == "uv":
            more = "".join(f" --with {shlex.quote(each)}" for each in beside)
            return f"uv tool install {_links(wanted)}{shlex.quote(wanted)}{more}"
        links = _links(wanted).strip()
        args = f"--pip-args={shlex.quote(links)} " if links else ""
        more = f" && pipx inject {PACKAGE} {' '.join(map(shlex.quote, beside))}" if beside else ""
        return f"pipx install --force {args}{shlex.quote(wanted)}{more}"
    return _pip(*(f"{_editable()}{shlex.quote(each)}" for each in (wanted, *beside)))


def _add(*wanted: str, ours: bool = True) -> str:
    """For a package beside edgewise."""
    quoted = [shlex.quote(each) for each in wanted]
    if receipt := _receipt():  # they have no options of pip
        quoted = [each for each in quoted if not each.startswith("-")]
    if receipt == "uv":
        here = shlex.quote(_requirement(*_extras_here()))
        return f"uv tool install {here} {' '.join(f'--with {each}' for each in quoted)}"
    if receipt == "pipx":
        return f"pipx inject {PACKAGE} {' '.join(quoted)}"
    return _pip(*(f"{_editable() if ours else ''}{each}" for each in quoted))


def _pip(*words: str) -> str:
    links = _links(_requirement())
    if find_spec("pip") is None:
        here = shlex.quote(sys.executable)
        return f"uv pip install --python {here} {links}{' '.join(words)}"
    return python(f"-m pip install {links}{' '.join(words)}")


def _receipt() -> str:
    """Which program made this environment for edgewise alone; empty: somebody made it."""
    receipts = {"uv-receipt.toml": "uv", "pipx_metadata.json": "pipx"}
    return next((who for file, who in receipts.items() if (Path(sys.prefix) / file).exists()), "")


def _extras_here(*wanted: str) -> list[str]:
    return [name for name in extra_names() if name in wanted or not lacking(name)]


def _editable() -> str:
    return "-e " if "editable" in str(_direct_url().get("dir_info")) else ""


def _links(wanted: str) -> str:
    """Where our other wheels are, if edgewise came as a wheel from a folder."""
    if not re.search(r"\.(whl|tar\.gz)(\[|$)", wanted) or wanted.startswith(PACKAGE):
        return ""
    return f"--find-links {shlex.quote(str(_folder().parent))} "


def installed_size(*extras: str) -> int:
    """How many bytes extras add to the bare package here, with all that they need."""
    added = set(_closure(PACKAGE, *extras)) - set(_closure(PACKAGE))
    return sum(path.size or 0 for name in added for path in distribution(name).files or ())


def _closure(name: str, *extras: str) -> Iterator[str]:
    """A package and all that it needs, as far as it is here."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - as below

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
    from packaging.requirements import Requirement  # noqa: PLC0415 - an error's line needs none

    needed = [Requirement(text) for text in owner.requires or ()]
    bare = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return bare
    wanted = [each for each in needed if each.marker and each.marker.evaluate({"extra": extra})]
    return [each for each in wanted if each not in bare]


def _is_met(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(distribution(wanted.name).version, prereleases=True)
    except PackageNotFoundError:
        return False


def _requirement(*extras: str) -> str:
    """What to install again, with the extras: by its name, or from where it came."""
    came_from, wanted = _direct_url(), f"[{','.join(extras)}]" if extras else ""
    url, vcs = str(came_from.get("url", "")), came_from.get("vcs_info")
    if url.startswith("file:") and not vcs:
        return f"{_folder()}{wanted}"
    scheme = f"{vcs['vcs']}+" if vcs else ""
    return f"{PACKAGE}{wanted}{f' @ {scheme}{url}' if url else ''}"


def _beside(extra: str) -> list[str]:
    """Our other distributions that an extra needs. From an index or a folder of wheels they come by
    themselves."""
    needed = _requirements(distribution(PACKAGE), extra)
    ours = [each.name for each in needed if each.name.startswith(f"{PACKAGE}-")]
    return [each for each in _sources(ours) if each not in ours]


def _sources(names: Sequence[str]) -> list[str]:
    """Where distributions of ours are to be had: what this one came from tells."""
    came_from = _direct_url()
    url, vcs = str(came_from.get("url", "")), came_from.get("vcs_info")
    if vcs:
        at = f"{vcs['vcs']}+{url}#subdirectory=packages"
        return [f"{name} @ {at}/{name}" for name in names]
    if url.startswith("file:") and "dir_info" in came_from:
        return [str(_folder() / "packages" / name) for name in names]
    return list(names)


def _folder() -> Path:
    """The clone, or the wheel, that edgewise came from."""
    from urllib.request import url2pathname  # noqa: PLC0415 - brings an HTTP client

    return Path(url2pathname(urlsplit(str(_direct_url().get("url", ""))).path))


def _direct_url() -> dict[str, Any]:
    try:
        text = distribution(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:  # its sources alone are on the path
        return {}
    return dict(json.loads(text)) if text else {}
