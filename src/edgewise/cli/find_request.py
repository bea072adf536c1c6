"""Finds one request in the ledger by its id, or by the beginning of it."""

from __future__ import annotations

from typing import Any

import click

from edgewise.record.ledger import Ledger

SEARCHED_FOR_AN_ID = 10_000


def find_request(book: Ledger, request_id: str) -> dict[str, Any]:
    """The whole row with its attempts; raises where none, or more than one, begins like this."""
    entry = book.get(request_id)
    if entry is None and request_id:
        ids = [row["id"] for row in book.recent(SEARCHED_FOR_AN_ID)]
        near = [known for known in ids if known.startswith(request_id)]
        if len(near) > 1:
            raise click.ClickException(f"{len(near)} requests begin with {request_id!r}")
        entry = book.get(near[0]) if near else None
    if entry is None:
        raise click.ClickException(f"no request {request_id!r} in {book.path}")
    return entry
