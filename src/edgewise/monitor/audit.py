"""The shadow audit: a share of the answers kept on the device is also asked of the cloud.

Under a stated risk, the same share of what left is also answered by the device, when it is idle.
Kept or left, a request is drawn with the same chance, so what is found holds for all of them.
"""

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
from edgewise.decide.calibration import Calibration
from edgewise.decide.compare_answers import (
    Agreement,
    agree_in_calls,
    agree_in_meaning,
    agree_in_sound,
    agree_in_words,
    read_verdict,
)
from edgewise.decide.policy import local_only
from edgewise.errors import (
    Cancelled,
    CloudError,
    EdgewiseError,
    ExtraMissing,
    LocalError,
    ModelNotFound,
)
from edgewise.local.backend import ChatBackend, DeviceFacts, EmbedBackend, TokenStream
from edgewise.local.onnx_embedder import require_runtime
from edgewise.local.store import ModelStore
from edgewise.monitor.drift import Verdicts
from edgewise.record.ledger import Book
from edgewise.record.report import AUDIT_KEY, RIGHT, Audit
from edgewise.settings import (
    DEFAULT_EMBEDDER,
    Settings,
)
from edgewise.types.messages import Audio, AudioLike, Message, Request, Task, ToolCall
from edgewise.types.replies import Attempt, CallReply, Finish, Finished, Reply, is_verified
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
# Why a request left that a proven threshold, or a lower one, might have kept.
LEFT_FOR = frozenset({"low_confidence", "risk_unproven", "risk_unreachable"})
MOST_WRITTEN = 64  # answers of the device whose requests are still being answered by the cloud


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that stayed on the device; for speech, one segment and its neighbours."""

    request: Request
    reply: Reply
    segment: Segment | None = None
    near: tuple[Segment, ...] = ()


def is_drawn(request: Request) -> bool:
    """Whether what is like this request is audited alike, kept or left: chat under a stated risk,
    in words alone."""
    return (
        request.task == "chat"
        and request.max_error is not None
        and request.policy == "prefer_local"
        and request.handoff == "automatic"
        and request.response_format is None
        and not (request.tools or request.has_images or request.has_results or request.labels)
    )


def has_left(reply: Reply) -> bool:
    """Whether it is the cloud's answer because the device's was not proven to be good enough."""
    decision = reply.decision
    why = decision.code.removeprefix("handoff_")
    whole = reply.source == "cloud" and reply.text and not reply.tool_calls
    return bool(whole) and why in LEFT_FOR and is_verified(decision.calibration)


class _Wanted(Cancelled):
    """A user's request comes first, or the engine closes."""


class _InTurn:
    """A chat model that asks before every token whether it may go on."""

    def __init__(self, backend: ChatBackend, go_on: Callable[[], None]) -> None:
        self._backend = backend
        self._go_on = go_on

    def facts(self) -> DeviceFacts:
        return self._backend.facts()

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        self._go_on()
        tokens = self._backend.generate(
            request, already=already, layer=layer, prompt_layer=prompt_layer
        )
        with closing(tokens):
            for token in tokens:
                self._go_on()
                yield token

    def close(self) -> None:
        """It is the engine's."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the engine answers a chat with: a model, by its name or the own one, and its judge."""

    backend: Callable[[str], ChatBackend]
    calibration: Callable[[ChatBackend, str], Calibration]


def answer_here(request: Request, device: Device, cloud: Cloud, go_on: Callable[[], None]) -> Reply:
    """The device's whole answer. Nothing leaves, and nothing is written into the ledger.

    What `go_on` raises ends it.
    """
    from edgewise.flows import chat  # noqa: PLC0415  # as above

    backend = device.backend(request.model)
    judged = device.calibration(backend, request.model)
    needed = chat.ChatNeeds(
        backend=lambda: _InTurn(backend, go_on),
        cloud=cloud,
        policy=local_only,
        calibration=lambda _: judged,
        patience_s=0.0,
        clock=time.perf_counter,
    )
    alone = replace(
        request,
        policy="local_only",
        threshold=0.0,
        max_error=None,
        steering=None,
        deadline_ms=None,
        original=None,
    )
    with closing(chat.answer(alone, needed, [], live=False)) as events:
        return next(event.reply for event in events if isinstance(event, Finished))


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
    device: Device | None = None  # None: nothing that has left is drawn


@dataclass(frozen=True, slots=True)
class _Case:
    """`kept` of what has left is the cloud's reply; `written` is what the device had written."""

    kept: Kept
    stop: Stop
    sound: AudioLike | None = None
    left: bool = False
    written: str | None = None


class Auditor:
    """Chooses answers, asks the cloud one at a time on its own thread, judges, and records.

    What has left is answered by the device, while no user's request is at work there. All wait in
    one queue: were those that left dropped more often than those that stayed, or the other way
    round, the verdicts would not say what holds for all.

    `lost` counts audits that were chosen but not finished.
    """

    def __init__(self, parts: AuditNeeds) -> None:
        self._parts = parts
        self._changed = threading.Condition()
        self._waiting: deque[_Case] = deque()
        self._running: _Case | None = None
        self._worker: threading.Thread | None = None
        self._users = 0  # requests at work on the device
        self._closing = False
        self._blind = False  # the last audit that had to ask the cloud could not
        self._written: dict[str, str] = {}
        self.lost = 0

    def forget(self) -> None:
        """In a forked child: what waits is the parent's."""
        self._changed = threading.Condition()
        self._waiting.clear()
        self._written.clear()
        self._running, self._worker, self._users = None, None, 0

    def use(self, count: int) -> None:
        """A user's request begins to work on the device (1), or has ended (-1)."""
        with self._changed:
            self._users = max(0, self._users + count)  # a fork's parent has begun some
            self._changed.notify_all()

    def wrote(self, request: Request, text: str) -> None:
        """The device has written a whole answer, and the cloud gave another one. Empty: it was no
        good, however sure the device was."""
        if is_drawn(request):
            if len(self._written) >= MOST_WRITTEN:
                self._written.clear()
            self._written[request.id] = text

    def watch(self, request: Request, reply: Reply) -> None:
        """A watcher of the request recorder. A request holds no sound: `heard` gets it."""
        written = self._written.pop(request.id, None)
        if isinstance(reply, Transcript) or request.task not in ("chat", "call"):
            return
        if self._parts.device is not None and is_drawn(request) and has_left(reply):
            self._choose(Kept(request, reply), left=True, written=written)
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
        """Give running audits a few seconds; abort and count the rest as lost.

        What has left is dropped at once: in a few seconds only short answers could be written.
        """
        with self._changed:
            self._closing = True
            self._drop([case for case in self._waiting if case.left])
            if self._running is not None and self._running.left:
                self._running.stop.ask()
            self._changed.notify_all()
        try:
            if self.wait(drain_s):
                return
            with self._changed:
                self._drop(list(self._waiting))
                running, worker = self._running, self._worker
            if running is not None:
                running.stop.ask()
            if worker is not None:
                worker.join(CUT_S)
        finally:
            self._closing = False

    def _drop(self, cases: Sequence[_Case]) -> None:
        for case in cases:
            self._waiting.remove(case)
        self.lost += len(cases)

    def _choose(
        self,
        kept: Kept,
        sound: AudioLike | None = None,
        *,
        left: bool = False,
        written: str | None = None,
    ) -> None:
        request, reply = kept.request, kept.reply
        whole = reply.source == "local" or kept.segment is not None or left
        if not whole or reply.degraded or request.policy not in AUDITED_POLICIES:
            return
        if not request.may_leave or request.handoff == "signal":  # "signal": the application routes
            return
        if self._parts.random() >= self._parts.share:
            return
        if not left and self._parts.cloud(request.task).closed(request) is not None:
            self._blind = self._blind or is_drawn(request)
            return
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self.lost += 1
                return
            self._waiting.append(_Case(kept, Stop(), sound, left, written))
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
        request, drawn = case.kept.request, is_drawn(case.kept.request)
        try:
            if case.left:
                self.lost += not self._compare(case)
                return
            audit = self._audit(case)
            if audit is not None:
                self._blind = self._blind and not drawn
                self._parts.book.record_audit(audit)
                if drawn and self._parts.device is not None and not self._closing:
                    self._parts.verdicts.say_of_drawn(request, case.kept.reply, audit.right)
                elif audit.task != "transcribe":  # there it is about one segment
                    self._parts.verdicts.say(audit.request_id, audit.right, "audit")
                return
        # RuntimeError: no thread can be started because the interpreter is exiting.
        except (EdgewiseError, ImportError, OSError, RuntimeError) as error:
            unasked = isinstance(error, CloudError) and not case.stop.asked
            self._blind = self._blind or (drawn and unasked)
            _log.info("the audit of request %s is lost: %s", request.id, error)
        self.lost += 1

    def _compare(self, case: _Case) -> bool:
        """What the device says of a request that has left, beside the cloud's answer. False: that
        says nothing."""
        request, theirs = case.kept.request, case.kept.reply
        ours = theirs if case.written is not None else self._answer_here(case)
        text = ours.text if case.written is None else case.written
        if not text.strip() or (ours is not theirs and ours.needs_cloud_handoff):
            return False  # such an answer leaves, whatever the threshold
        opinion = Opinion(text=theirs.text.strip())
        kept = replace(case.kept, reply=replace(ours, text=text))
        door = self._parts.cloud(request.task)
        opinion.agreement = _in_words(kept, opinion, door, self._parts.similarity, case.stop)
        # While the cloud cannot be asked, only what left would count, and of that what is short.
        self._blind = self._blind and not opinion.journal
        if self._blind or opinion.agreement is None:
            return False
        right = opinion.agreement.agree >= RIGHT
        self._parts.verdicts.say_of_drawn(request, ours, right, left=True)
        return True

    def _answer_here(self, case: _Case) -> Reply:
        """As soon as no user's request is at work on the device. One that comes interrupts it."""
        device, request = self._parts.device, case.kept.request
        assert device is not None, "nothing that left is drawn without"
        door = self._parts.cloud(request.task)

        def go_on() -> None:
            if self._users or case.stop.asked:
                raise _Wanted("the device is wanted")

        while True:
            with self._changed:
                self._changed.wait_for(lambda: case.stop.asked or not self._users)
            try:
                go_on()
                return answer_here(request, device, door, go_on)
            except _Wanted:
                if case.stop.asked:
                    raise

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
    device: Device | None = None,
) -> Auditor:
    return Auditor(
        AuditNeeds(
            cloud=cloud,
            book=ledger,
            verdicts=verdicts,
            share=settings.audit_share,
            random=draw,
            similarity=lambda one, other: similarity(settings, embedder, one, other),
            device=device,
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
