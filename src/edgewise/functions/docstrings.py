"""Read a docstring: what a function does, and what each parameter is, in the three usual styles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

_SECTION = re.compile(
    r"(?:args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|"
    r"raises|yields?|examples?|notes?|attributes|see also|warnings?|references|todo)\s*:?",
    re.IGNORECASE,
)
_PARAMETER_SECTION = re.compile(r"(?:keyword |other )?(?:arg|argument|param|parameter)s\s*:?", re.I)
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*?\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_RULE = re.compile(r"-{3,}|={3,}")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The summary paragraph, and a description for each parameter that has one."""
    lines = inspect.cleandoc(text).splitlines() if text else []
    descriptions: dict[str, str] = {}
    for name, words in _parameters(lines):
        described = " ".join(" ".join(words).split())
        if described:
            descriptions.setdefault(name, described)
    return _summary(lines), descriptions


def _summary(lines: Sequence[str]) -> str:
    kept = []
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith(":") or _begins_section(lines, number):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _begins_section(lines: Sequence[str], number: int) -> bool:
    line = lines[number].strip()
    if not _SECTION.fullmatch(line):
        return False
    return line.endswith(":") or _is_ruled(lines, number)


def _is_ruled(lines: Sequence[str], number: int) -> bool:
    return number + 1 < len(lines) and _RULE.fullmatch(lines[number + 1].strip()) is not None


def _parameters(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(lines):
        sphinx = _SPHINX.fullmatch(line.strip())
        if sphinx:
            yield sphinx[1], [sphinx[2], *_deeper(lines, number + 1, _indent(line))]
        elif _PARAMETER_SECTION.fullmatch(line.strip()):
            if _is_ruled(lines, number):
                yield from _numpy(lines, number + 2, _indent(line))
            elif line.strip().endswith(":"):
                yield from _google(lines, number + 1, _indent(line))


def _google(lines: Sequence[str], number: int, outer: int) -> Iterator[tuple[str, list[str]]]:
    inner = None
    while number < len(lines) and (not lines[number].strip() or _indent(lines[number]) > outer):
        line = lines[number]
        number += 1
        if not line.strip():
            continue
        inner = _indent(line) if inner is None else inner
        match = _GOOGLE.fullmatch(line.strip())
        if match and _indent(line) == inner:
            yield match[1], [match[2], *_deeper(lines, number, inner)]


def _numpy(lines: Sequence[str], number: int, outer: int) -> Iterator[tuple[str, list[str]]]:
    while number < len(lines):
        line = lines[number]
        if _is_ruled(lines, number):
            return
        match = _NUMPY.fullmatch(line.strip())
        if match and _indent(line) == outer:
            words = list(_deeper(lines, number + 1, outer))
            for name in match[1].split(","):
                yield name.strip(), words
        number += 1


def _deeper(lines: Sequence[str], number: int, indent: int) -> Iterator[str]:
    """The lines that follow with more indentation, up to a blank one."""
    while number < len(lines) and lines[number].strip() and _indent(lines[number]) > indent:
        yield lines[number].strip()
        number += 1


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
