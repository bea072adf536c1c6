"""What each extra adds to the default install, in MiB: `python scripts/extra_sizes.py`.

Reads the packages of this environment: the extras must be installed, as by `make test`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement

EXTRAS = ("server", "speech", "microphone", "vision", "embed", "mcp", "wyoming", "otel")


def needed(name: str, extra: str = "", seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The packages that `name` brings, itself included, as far as this platform needs them."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    yield key
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        for inner in wanted.extras or {""}:
            yield from needed(wanted.name, inner, seen | {key})


def mebibytes(package: Distribution) -> float:
    files = (package.locate_file(file) for file in package.files or ())
    return sum(file.stat().st_size for file in files if file.is_file()) / 2**20


if __name__ == "__main__":
    default = set(needed("edgewise"))
    for extra in EXTRAS:
        added = set(needed("edgewise", extra)) - default
        size = sum(mebibytes(distribution(name)) for name in added)
        print(f"{extra}: {size:,.0f} MiB in {len(added)} packages")  # noqa: T201
