"""How long campaigns are: `make test` runs the short form, EDGEWISE_LONG_TESTS=1 the long one."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("EDGEWISE_LONG_TESTS"))  # read before tests clear the environment
SHORT_EXAMPLES = 40  # of a property test that states no number; 100 in the long form


def rounds(long: int) -> int:
    """So many in the long form, a quarter of them in the short one."""
    return long if LONG else max(2, long // 4)
