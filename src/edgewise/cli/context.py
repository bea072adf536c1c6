"""`--context FOLDER`: a question that is answered from the texts of a folder, with citations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.cli.index import brought_up_to_date, opened, say_skipped
from edgewise.cli.render import Screen, console
from edgewise.engine import Engine
from edgewise.errors import ModelNotFound
from edgewise.search.cite import cited_numbers
from edgewise.types.passages import Hit

CLOUD_CONTEXT_TOKENS = 8000  # enough for every passage; where only a cloud answers


def with_passages(
    engine: Engine, question: str, folder: Path, request: dict[str, Any]
) -> tuple[str, list[Hit]]:
    """The prompt that goes to the model, and the passages in it: [1] is the first."""
    with opened(engine, folder) as found:
        say_skipped(brought_up_to_date(found), console(stderr=True))
        return found.cite(
            question,
            context_tokens=_context_tokens(engine, request),
            answer_tokens=request.get("max_tokens", engine.settings.max_tokens),
        )


def _context_tokens(engine: Engine, request: dict[str, Any]) -> int:
    """The device's, also where the cloud is asked first: the device must be able to step in."""
    if request.get("policy", engine.settings.policy) == "cloud_only":
        return CLOUD_CONTEXT_TOKENS
    try:
        return engine.backend().facts().context_tokens
    except ModelNotFound:
        return CLOUD_CONTEXT_TOKENS


def show_sources(hits: Sequence[Hit], answer: str, side: Screen) -> None:
    """Under the answer: what it could draw on, and what it says it did."""
    named = cited_numbers(answer, len(hits))
    for number, hit in enumerate(hits, start=1):
        style = "bold" if number in named else "dim"
        side.say((f"[{number}] {hit.place}", style), (f"  {hit.score:.2f}", "dim"))
    if not hits:
        side.say(("nothing in the folder to answer from", "yellow"))
