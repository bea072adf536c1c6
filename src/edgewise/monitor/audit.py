"""The shadow audit: a share of the answers kept on the device is also asked of the cloud."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.decide.compare_answers import (
    Agreement,
    agree_in_calls,
    agree_in_meaning,
    agree_in_sound,
    agree_in_words,
    read_verdict,
)
from edgewise.errors import CloudError, EdgewiseError, ExtraMissing, LocalError, ModelNotFound
from edgewise.local.backend import EmbedBackend
from edgewise.local.onnx_embedder import require_runtime
from edgewise.local.store import ModelStore
from edgewise.monitor.drift import Verdicts
from edgewise.record.ledger import Book
from edgewise.record.report import AUDIT_KEY, Audit
from edgewise.settings import (
    DEFAULT_EMBEDDER,
    Settings,
)
from edgewise.types.messages import Audio, AudioLike, Message, Request, Task, ToolCall
from edgewise.types.replies import Attempt, CallReply, Finish, Reply
from edgewise.types.transcripts import Segment, Transcript

JUDGED_CHARS = 4_000  # of each answer that the judge sees
JUDGE_TOKENS = 256  # room for a model that thinks before it answers yes or no

QUESTION = """Two assistants answered the same request.

Request:
{request}

Answer A:
{one}

Answer B:
{other}

Do A and B say the same? Other words, more detail or more politeness do not matter; another fact, \
number, name or piece of advice does. Reply with yes or no only."""

# The cosine of two texts by a local model; None if there is none.
Similarity = Callable[[str, str], float | None]


_log = logging.getLogger("edgewise")
MOST_WAITING = 32  # further ones are dropped: answers come faster than the cloud can audit them
DRAIN_S = 3.0  # how long closing an engine waits for audits
CUT_S = 1.0  # then for the connection of an aborted one
# A custom policy may keep a request on the device for reasons unknown here.
AUDITED_POLICIES = frozenset({"prefer_local", "prefer_cloud"})


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that stayed on the device; for speech, one segment and its neighbours."""

    request: Request
    reply: Reply
    segment: Segment | None = None
    near: tuple[Segment, ...] = ()


@dataclass(slots=True)
class Opinion:
    """The cloud's answer, and every attempt it took. `agreement` is None if it is undecided."""

    journal: list[Attempt] = field(default_factory=list)
    text: str = ""
    agreement: Agreement | None = None

    @property
    def cost_microdollars(self) -> int:
        return sum(attempt.cost_microdollars for attempt in self.journal)

    @property
    def model(self) -> str:
        answered = [attempt.model for attempt in self.journal if attempt.outcome == "answered"]
        return answered[0] if answered else ""


def ask_again(kept: Kept, cloud: Cloud, similarity: Similarity, stop: Stop) -> Opinion:
    """Raises CloudError if the cloud does not answer. The door settles the cost."""
    opinion = Opinion()
    request = replace(
        _asking(kept), budget_key=AUDIT_KEY, user="", group="", part="audit.", deadline_ms=None
    )
    heard = _whole(cloud, request, opinion.journal, stop)
    opinion.text = "".join(chunk for chunk in heard if isinstance(chunk, str)).strip()
    if kept.segment is not None:
        opinion.agreement = _in_sound(kept.segment, kept.near, opinion.text)
    elif isinstance(kept.reply, CallReply):
        calls = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
        opinion.agreement = _in_calls(kept, calls, opinion.text)
        opinion.text = opinion.text or "; ".join(f"{each.name}{each.arguments}" for each in calls)
    else:
        opinion.agreement = _in_words(kept, opinion, cloud, similarity, stop)
    return opinion


def _asking(kept: Kept) -> Request:
    request = replace(kept.request, original=None)  # it is only compared
    if isinstance(kept.reply, CallReply):
        # This import compiles patterns for a tenth of a second; chat need not wait for it.
        from edgewise.calls.rank_tools import for_cloud  # noqa: PLC0415

        return for_cloud(request, request.messages[-1].content)
    # No tool fitted, and the device answered in words. Tool results need their tools.
    return request if request.has_results else replace(request, tools=())


def _whole(cloud: Cloud, request: Request, journal: list[Attempt], stop: Stop) -> list[Chunk]:
    stream = cloud.stream(request, journal, live=False, patience_s=None, stop=stop)
    with closing(stream):
        heard = list(stream)
    if not any(isinstance(chunk, Finish) for chunk in heard):
        raise CloudError("broken off", code="cancelled")
    return heard


def _in_words(
    kept: Kept, opinion: Opinion, cloud: Cloud, similarity: Similarity, stop: Stop
) -> Agreement | None:
    asked, ours, theirs = _last_words(kept.request), kept.reply.text.strip(), opinion.text
    found = agree_in_words(ours, theirs, asked)
    if found is not None:
        return found
    try:
        cosine = similarity(ours, theirs)
    except LocalError:  # the judge must do without it
        cosine = None
    found = None if cosine is None else agree_in_meaning(cosine)
    if found is not None:
        return found
    words = QUESTION.format(
        request=asked[:JUDGED_CHARS], one=ours[:JUDGED_CHARS], other=theirs[:JUDGED_CHARS]
    )
    judging = Request(
        messages=(Message("user", words),),
        id=kept.request.id,
        part="audit.judge.",
        budget_key=AUDIT_KEY,
        private=kept.request.private,
        redact=kept.request.redact,
        private_kinds=kept.request.private_kinds,
        max_tokens=JUDGE_TOKENS,
    )
    heard = _whole(cloud, judging, opinion.journal, stop)
    return read_verdict("".join(chunk for chunk in heard if isinstance(chunk, str)))


def _in_calls(kept: Kept, calls: Sequence[ToolCall], said: str) -> Agreement:
    """Normalize the cloud's calls like the device's, then compare."""
    from edgewise.calls.normalize import normalize  # noqa: PLC0415
    from edgewise.calls.parse import repair  # noqa: PLC0415
    from edgewise.calls.values.text import read_request  # noqa: PLC0415  # as above

    tools = {tool.name: tool for tool in kept.request.tools}
    text = _last_words(kept.request)
    repaired = repair(calls or said, kept.request.tools, text, source="cloud")
    words = read_request(text)
    normalized = [normalize(call, tools.get(call.name), words) for call in repaired.calls]
    return agree_in_calls(kept.reply.tool_calls, normalized)


def _in_sound(segment: Segment, near: Sequence[Segment], heard: str) -> Agreement:
    from edgewise.flows.transcribe import without_neighbours  # noqa: PLC0415  # as above
    from edgewise.speech.words import plain_words, word_errors  # noqa: PLC0415

    theirs = without_neighbours(heard, segment, near)
    errors = word_errors(segment.text, theirs).errors
    return agree_in_sound(errors, len(plain_words(segment.text)), len(plain_words(theirs)))


def _last_words(request: Request) -> str:
    spoken = [message.content for message in request.messages if message.role == "user"]
    return spoken[-1] if spoken else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditNeeds:
    """What the engine provides. `random` draws from 0 to 1; `cloud` is the door for a task."""

    cloud: Callable[[Task], Cloud]
    book: Book
    verdicts: Verdicts
    share: float
    random: Callable[[], float]
    similarity: Similarity = lambda _, __: None


@dataclass(frozen=True, slots=True)
class _Case:
    kept: Kept
    stop: Stop
    sound: AudioLike | None = None


class Auditor:
    """Chooses answers, asks the cloud one at a time on its own thread, judges, and records.

    `lost` counts audits that were chosen but not finished.
    """

    def __init__(self, parts: AuditNeeds) -> None:
        self._parts = parts
        self._changed = threading.Condition()
        self._waiting: deque[_Case] = deque()
        self._running: _Case | None = None
        self._worker: threading.Thread | None = None
        self.lost = 0

    def watch(self, request: Request, reply: Reply) -> None:
        """A watcher of the request recorder. A request holds no sound: `heard` gets it."""
        if isinstance(reply, Transcript) or request.task not in ("chat", "call"):
            return
        if not request.has_images and (reply.text or request.task == "call" or reply.tool_calls):
            self._choose(Kept(request, reply))

    def heard(self, request: Request, transcript: Transcript, sound: AudioLike) -> None:
        """Audit one sure segment of a transcript, in place of all."""
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
        """Wait until nothing is running; False if that takes longer."""
        give_up = time.monotonic() + limit_s
        with self._changed:
            while self._waiting or self._running is not None:
                left = give_up - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Give running audits a few seconds; abort and count the rest as lost."""
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
        if not request.may_leave or request.handoff == "signal":  # "signal": the application routes
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
                # The thread ends when there is nothing to do, so it keeps no engine alive.
                self._worker = threading.Thread(
                    target=self._work, name="edgewise-audit", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        try:
            while (case := self._next()) is not None:
                self._judge(case)
        except BaseException:  # a bug of ours: the next audit gets a new worker
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
                if audit.task != "transcribe":  # there it is about one segment
                    self._parts.verdicts.say(audit.request_id, audit.right, "audit")
                return
        # RuntimeError: no thread can be started because the interpreter is exiting.
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
    """A segment's sound from a file: some context, but nobody else's words."""
    import numpy  # noqa: PLC0415  # speech is an extra, and only its audits need this

    from edgewise.flows.transcribe import audio_from, span_between  # noqa: PLC0415
    from edgewise.speech.audio import RATE, open_sound  # noqa: PLC0415

    start, end = span_between(segment, near)
    pieces, read = [], 0.0
    with open_sound(sound) as opened:
        for block in opened.blocks():
            first, last = round((start - read) * RATE), round((end - read) * RATE)
            pieces.append(block[max(0, first) : max(0, last)])
            read += len(block) / RATE
            if read >= end:
                break
    return audio_from(numpy.concatenate(pieces))


# -- from the settings -----------------------------------------------------------------------------


def open_auditor(
    settings: Settings,
    ledger: Book,
    cloud: Callable[[Task], Cloud],
    embedder: Callable[[], EmbedBackend],
    verdicts: Verdicts,
    draw: Callable[[], float] = random.random,
) -> Auditor:
    return Auditor(
        AuditNeeds(
            cloud=cloud,
            book=ledger,
            verdicts=verdicts,
            share=settings.audit_share,
            random=draw,
            similarity=lambda one, other: similarity(settings, embedder, one, other),
        )
    )


def similarity(
    settings: Settings, embedder: Callable[[], EmbedBackend], one: str, other: str
) -> float | None:
    """The cosine of two texts, if the default embedder is installed."""
    try:
        require_runtime()
        ModelStore(settings.models_dir).find(DEFAULT_EMBEDDER)  # do not fetch it for this
    except (ExtraMissing, ModelNotFound):
        return None
    opened = embedder()
    if opened.facts().model != DEFAULT_EMBEDDER:
        return None
    first, second = opened.embed([one, other]).vectors
    return math.fsum(a * b for a, b in zip(first, second, strict=True))
