"""One test over many items, where a test of its own for each would cost more than what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def every(items: Iterable[Item]) -> Callable[[Callable[[Item], None]], Callable[[], None]]:
    """Ask of every item what the test asks of one; what fails is reported together."""
    asked = list(items)

    def decorate(test: Callable[[Item], None]) -> Callable[[], None]:
        def of_all() -> None:
            assert asked, "there is nothing to ask of"
            failed = []
            for item in asked:
                try:
                    test(item)
                except AssertionError as error:
                    failed.append(f"{item}: {error}")
            assert not failed, "\n\n".join((f"{len(failed)} of {len(asked)}", *failed))

        of_all.__name__, of_all.__doc__ = test.__name__, test.__doc__
        of_all.__module__ = test.__module__
        return of_all

    return decorate
