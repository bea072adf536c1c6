"""The shadow audit: of the answers kept on the device, a share is asked of the cloud as well.

Nobody waits for it, and no answer changes by it. Whoever is private, or may not leave, is never
chosen; an audit that fails is lost, and that is all.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from edgewise.cloud.provider import Cloud, Stop
from edgewise.errors import EdgewiseError
from edgewise.flows.second_opinion import Kept, Similarity, ask_again
from edgewise.record.audits import Audit
from edgewise.types.messages import Audio, AudioLike, Message, Request, Task
from edgewise.types.replies import Reply
from edgewise.types.transcripts import Segment, Transcript

_log = logging.getLogger("edgewise")

MOST_WAITING = 32  # more are lost: what is kept comes faster than the cloud answers
DRAIN_S = 3.0  # that closing an engine waits for audits
CUT_S = 1.0  # and then for the connection of the one that is broken off
# A policy of somebody's own may have a reason to keep a request in that nobody here knows.
AUDITED_POLICIES = frozenset({"prefer_local", "prefer_cloud"})
CONTEXT_S = 0.2  # of sound sent with a segment on each side, as far as nobody speaks in it


class Book(Protocol):
    """What an audit is written into."""

    def record_audit(self, audit: Audit) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends. `random` draws from 0 to 1; `cloud` is the door for a task."""

    cloud: Callable[[Task], Cloud]
    book: Book
    share: float
    random: Callable[[], float]
    similarity: Similarity = lambda _, __: None


@dataclass(frozen=True, slots=True)
class _Case:
    kept: Kept
    stop: Stop
    sound: AudioLike | None = None


class Auditor:
    """Chooses, asks one at a time on a thread of its own, judges, and writes down.

    `lost` counts audits that were chosen and came to nothing.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._changed = threading.Condition()
        self._waiting: deque[_Case] = deque()
        self._running: _Case | None = None
        self._worker: threading.Thread | None = None
        self.lost = 0

    def watch(self, request: Request, reply: Reply) -> None:
        """A watcher of the books. Sound is not in a request: `heard` is told of it."""
        if isinstance(reply, Transcript) or request.task not in ("chat", "call"):
            return
        if not request.has_images and (reply.text or request.task == "call" or reply.tool_calls):
            self._choose(Kept(request, reply))

    def heard(self, request: Request, transcript: Transcript, sound: AudioLike) -> None:
        """One segment of a transcript that was sure enough stands for all of it."""
        threshold = transcript.decision.threshold or 0.0
        sure = [
            place
            for place, each in enumerate(transcript.segments)
            if each.source == "local" and (each.confidence or 0.0) >= threshold
        ]
        if sure:
            place = sure[int(self._parts.random() * len(sure)) % len(sure)]
            near = transcript.segments[max(0, place - 1) : place + 2]
            segment = transcript.segments[place]
            others = tuple(each for each in near if each.id != segment.id)
            self._choose(Kept(request, transcript, segment, others), sound)

    def wait(self, limit_s: float) -> bool:
        """Until nothing is under way; False where that took longer."""
        give_up = time.monotonic() + limit_s
        with self._changed:
            while self._waiting or self._running is not None:
                left = give_up - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Let a few seconds do what they can; the rest is lost, and broken off where it runs."""
        if self.wait(drain_s):
            return
        with self._changed:
            self.lost += len(self._waiting)
            self._waiting.clear()
            running, worker = self._running, self._worker
        if running is not None:
            running.stop.ask()
        if worker is not None:
            worker.join(CUT_S)

    def _choose(self, kept: Kept, sound: AudioLike | None = None) -> None:
        request, reply = kept.request, kept.reply
        whole = reply.source == "local" or kept.segment is not None
        if not whole or reply.degraded or request.policy not in AUDITED_POLICIES:
            return
        if not request.may_leave or request.handoff == "signal":  # then the application routes
            return
        if self._parts.random() >= self._parts.share:
            return
        if self._parts.cloud(request.task).closed(request) is not None:
            return
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self.lost += 1
                return
            self._waiting.append(_Case(kept, Stop(), sound))
            if self._worker is None:
                # It ends when there is nothing to do, so that it keeps no engine alive.
                self._worker = threading.Thread(
                    target=self._work, name="edgewise-audit", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        try:
            while (case := self._next()) is not None:
                self._judge(case)
        except BaseException:  # a mistake of ours: the next audit gets a new worker
            with self._changed:
                self._running = self._worker = None
                self._changed.notify_all()
            raise

    def _next(self) -> _Case | None:
        with self._changed:
            self._running = self._waiting.popleft() if self._waiting else None
            if self._running is None:
                self._worker = None
                self._changed.notify_all()
            return self._running

    def _judge(self, case: _Case) -> None:
        try:
            audit = self._audit(case)
            if audit is not None:
                self._parts.book.record_audit(audit)
                return
        # RuntimeError: no thread can be started any more, for the interpreter is about to end.
        except (EdgewiseError, ImportError, OSError, RuntimeError) as error:
            _log.info("the audit of request %s is lost: %s", case.kept.request.id, error)
        self.lost += 1

    def _audit(self, case: _Case) -> Audit | None:
        kept = case.kept
        request, decision, segment = kept.request, kept.reply.decision, kept.segment
        if case.sound is not None and segment is not None:
            audio = cut_segment(case.sound, segment, kept.near)
            message = Message("user", audio=(audio,))
            kept = replace(kept, request=replace(request, messages=(message,)))
        door = self._parts.cloud(request.task)
        opinion = ask_again(kept, door, self._parts.similarity, case.stop)
        if opinion.agreement is None:
            return None
        return Audit(
            id=request.id if segment is None else f"{request.id}/s{segment.id}",
            request_id=request.id,
            task="call" if kept.reply.tool_calls else request.task,
            model=opinion.model,
            calibration=decision.calibration,
            confidence=kept.reply.confidence if segment is None else segment.confidence,
            threshold=decision.threshold,
            share=self._parts.share,
            agree=opinion.agreement.agree,
            judged_by=opinion.agreement.judged_by,
            cost_microdollars=opinion.cost_microdollars,
            features=decision.features if segment is None else segment.features,
            cloud_text=opinion.text if request.store_text else None,
        )


def cut_segment(sound: AudioLike, segment: Segment, near: tuple[Segment, ...]) -> Audio:
    """A segment's sound out of a file, with a little around it but nobody else's words."""
    import numpy  # noqa: PLC0415  # speech is an extra, and only its audits need this

    from edgewise.flows.hear_segments import audio_from  # noqa: PLC0415
    from edgewise.speech.audio import RATE, open_sound  # noqa: PLC0415

    before = max((each.end for each in near if each.end <= segment.start), default=0.0)
    after = min((each.start for each in near if each.start >= segment.end), default=float("inf"))
    start = max(before, segment.start - CONTEXT_S, 0.0)
    end = min(after, segment.end + CONTEXT_S)
    pieces, read = [], 0.0
    with open_sound(sound) as opened:
        for block in opened.blocks():
            first, last = round((start - read) * RATE), round((end - read) * RATE)
            pieces.append(block[max(0, first) : max(0, last)])
            read += len(block) / RATE
            if read >= end:
                break
    return audio_from(numpy.concatenate(pieces))
