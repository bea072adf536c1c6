"""Reads `.frames` files: `python -m training.frames_parser DIR` checks them all.

Bad lines are reported as `file:line: what is wrong` and left out; trivial slips are repaired.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from training.frame_types import Frame, Objects, Parameter, Template
from training.frame_values import POOLS, BadValues, read_values
from training.templates import BadLine, read_template

_PARAMETER = re.compile(r"^\s*([A-Za-z_][\w.\-\[\]]*?)\s*(\*?)\s+(.+)$")


@dataclass(slots=True)
class Parsed:
    """The tools found, and what was wrong on the way."""

    frames: list[Frame] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse_directory(directory: Path) -> Parsed:
    """Every `.frames` file under a directory, in name order."""
    result = Parsed()
    for path in sorted(directory.rglob("*.frames")):
        parsed = parse_text(path.read_text("utf-8"), path.name)
        result.frames += parsed.frames
        result.errors += parsed.errors
    return result


def parse_text(text: str, name: str) -> Parsed:
    """The tools of one file. A tool without a usable template or parameter is left out."""
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            reader.read(line.rstrip(), stripped, number)
        except (BadLine, BadValues) as error:
            reader.result.errors.append(f"{name}:{number}: {error}")
    reader.finish()
    return reader.result


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.domain = file.removesuffix(".frames")
        self.result = Parsed()
        self.frame: Frame | None = None
        self.line = 0
        self.broken = False

    def read(self, line: str, stripped: str, number: int) -> None:
        word, _, rest = stripped.partition(" ")
        if word == "domain":
            self.finish()
            self.domain = rest.split("(")[0].strip() or self.domain
        elif word == "tool" and not line.startswith(" ") and "|" in rest:
            self.finish()
            self._start(rest, number)
        elif self.frame is None:
            raise BadLine("this line belongs to no tool")
        elif stripped.startswith(">"):
            self._template(self.frame, stripped)
        else:
            self._parameter(self.frame, line)

    def _start(self, rest: str, number: int) -> None:
        name, _, description = rest.partition("|")
        name = name.strip()
        if not name or not re.fullmatch(r"[A-Za-z_][\w.\- :/]*", name):
            raise BadLine(f"{name!r} is no name for a tool")
        self.frame = Frame(re.sub(r"\s+", "_", name), description.strip(), self.domain)
        self.line = number
        self.broken = False

    def _parameter(self, frame: Frame, line: str) -> None:
        match = _PARAMETER.match(line)
        if not match:
            self.broken = True
            raise BadLine(f"not a parameter, a template or a tool: {line.strip()[:60]!r}")
        name, star, rest = match.groups()
        if frame.templates:
            raise BadLine(f"parameter {name!r} after the first template")
        try:
            parameter = read_parameter(name, bool(star), rest)
            if "[]." in name:
                _attach(frame, parameter)
            else:
                frame.parameters[name] = parameter
        except BadValues:
            self.broken = self.broken or bool(star)
            raise

    def _template(self, frame: Frame, line: str) -> None:
        match = re.match(r">\s*([?-]?)\s+(.*)$", line) or re.match(r">([?-]?)(.*)$", line)
        mark, text = match.groups() if match else ("", "")
        if not text.strip():
            raise BadLine("an empty template")
        template = read_template(text.strip())
        unknown = [name for name in _names(template) if name not in frame.parameters]
        if unknown:
            raise BadLine(f"unknown slot {', '.join(unknown)} (tool {frame.name})")
        if mark == "-":
            frame.near_misses.append(template)
            return
        if mute := [name for name in frame.silent if name in template.slots]:
            raise BadLine(f"{mute[0]} is said along with the hour, never alone")
        said = {*template.slots, *frame.silent}
        missing = [name for name in frame.required if name not in said]
        if mark == "?" and not missing:
            raise BadLine("nothing required is left out here: use `>`")
        if mark != "?" and missing:
            raise BadLine(f"required {', '.join(missing)} is not in this template")
        (frame.incomplete if mark == "?" else frame.templates).append(template)

    def finish(self) -> None:
        frame = self.frame
        self.frame = None
        if frame is None:
            return
        if self.broken:
            self.result.errors.append(
                f"{self.file}:{self.line}: tool {frame.name} left out: a parameter is broken"
            )
        elif frame.silent and not frame.clock_hour:
            self.result.errors.append(f"{self.file}:{self.line}: {frame.name}: a minute, no hour")
        elif not frame.templates:
            self.result.errors.append(
                f"{self.file}:{self.line}: tool {frame.name} left out: no usable template"
            )
        else:
            self.result.frames.append(frame)


def _attach(frame: Frame, parameter: Parameter) -> None:
    """Put `lines[].sku` among the fields of the entries of `lines`."""
    whole, _, name = parameter.name.partition("[].")
    parent = frame.parameters.get(whole)
    if parent is None or not isinstance(parent.values, Objects):
        raise BadValues(f"{whole!r} is no list of objects: write `{whole}* objects [...]` first")
    parent.values.fields[name] = replace(parameter, name=name)


def read_parameter(name: str, required: bool, rest: str) -> Parameter:
    """The part of a parameter line after its name."""
    kind, values, counts, description = read_values(rest)
    return Parameter(name, required, kind, values, description, counts)


def _names(template: Template) -> list[str]:
    named = [part.slot or part.condition for part in template.parts]
    return list(dict.fromkeys(name for name in named if name))


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0]) if arguments else Path(__file__).parent / "frames"
    parsed = parse_directory(directory)
    for error in parsed.errors:
        sys.stdout.write(f"{error}\n")
    names = Counter(frame.name for frame in parsed.frames)
    for name, count in names.items():
        if count > 1:
            sys.stdout.write(f"warning: {count} tools are called {name}\n")
    templates = sum(len(frame.templates) for frame in parsed.frames)
    domains = len({frame.domain for frame in parsed.frames})
    sys.stdout.write(
        f"{len(parsed.frames)} tools in {domains} domains, {templates} templates, "
        f"{len(POOLS)} pools known, {len(parsed.errors)} errors\n"
    )
    return 1 if parsed.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
