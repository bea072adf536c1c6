"""What a stream keeps and what `complete` keeps: recorded answers through the gate as it runs.

The flow gets the recorded tokens from a scripted device, as it would get them from a model, and
signals where it would hand off. So what is counted is what a user would have been shown.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from edgewise.cloud.provider import Chunk
from edgewise.decide.calibration import Calibration
from edgewise.decide.policy import prefer_local
from edgewise.errors import CloudClosed, CloudUnreachable
from edgewise.flows.chat import ChatNeeds, answer
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Finished, Reply, TextDelta
from edgewise_bench.chat.traces import Recorded


@dataclass(frozen=True, slots=True)
class Passed:
    """One recorded answer behind the gate.

    held        tokens that were written before the first was shown
    confidence  that of the whole answer
    cut         it ended because no more tokens were allowed
    """

    right: bool
    kept: bool
    held: int
    tokens: int
    confidence: float
    cut: bool


class _OpenCloud:
    """It might be asked, and is not: the flow signals instead."""

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self, request: Request, journal: list[Attempt], **options: object
    ) -> Generator[Chunk, None, None]:
        raise CloudUnreachable("a replay asks no cloud")
        yield  # a generator, as the door's is


def replay(rows: Sequence[Recorded], calibration: Calibration, *, live: bool) -> list[Passed]:
    """An answer without evidence cannot be judged, and is left out."""
    return [
        _pass(row, calibration, live) for row in rows if any(t.has_evidence for t in row.tokens)
    ]


def _pass(row: Recorded, calibration: Calibration, live: bool) -> Passed:
    backend = ScriptedBackend([row.tokens])
    cut = not row.ended  # the device's last token was the last that was allowed
    limit = len(row.tokens) if cut else len(row.tokens) + 1
    request = Request(
        messages=(Message("user", row.reference),), handoff="signal", max_tokens=limit
    )
    parts = ChatNeeds(
        backend=lambda: backend,
        cloud=_OpenCloud(),
        policy=prefer_local,
        calibration=lambda _: calibration,
        patience_s=1.0,
        clock=time.perf_counter,
    )
    held = 0
    reply: Reply | None = None
    for event in answer(request, parts, [], live=live):
        if isinstance(event, TextDelta) and not held:
            held = backend.generated
        elif isinstance(event, Finished):
            reply = event.reply
    assert reply is not None
    return Passed(
        right=row.right,
        kept=not reply.cloud_handoff,
        held=held or backend.generated,
        tokens=len(row.tokens),
        confidence=calibration.final.of(row.readings()[-1]),
        cut=not row.ended,
    )


def compare_gates(rows: Sequence[Recorded], calibration: Calibration) -> dict[str, float]:
    """Right among kept, for both; how long a stream is held; what early stops lose and save."""
    stream = replay(rows, calibration, live=True)
    whole = replay(rows, calibration, live=False)
    held = sorted(each.held for each in stream)
    stopped = [each for each in whole if each.held < each.tokens and not each.kept]
    passing = [each for each in whole if each.confidence >= calibration.threshold]
    lost = [each for each in stopped if each.confidence >= calibration.threshold]
    cut = [each for each in whole if each.cut]
    return {
        "stream_kept_accuracy": _right(stream),
        "complete_kept_accuracy": _right(whole),
        "stream_kept_share": _share([each.kept for each in stream]),
        "complete_kept_share": _share([each.kept for each in whole]),
        "stream_held_tokens_p50": held[len(held) // 2],
        "stream_held_tokens_p90": held[len(held) * 9 // 10],
        "stopped_share": len(stopped) / len(whole),
        "stopped_of_passing": len(lost) / max(1, len(passing)),
        "stopped_tokens_saved": sum(e.tokens - e.held for e in stopped) / max(1, len(stopped)),
        "cut_answers": len(cut),
        "cut_accuracy": _share([each.right for each in cut]),
        "cut_confidence": sum(each.confidence for each in cut) / max(1, len(cut)),
    }


def _right(passed: Sequence[Passed]) -> float:
    return _share([each.right for each in passed if each.kept])


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0
