"""The cloud's answer to what the device has answered already, and whether the two agree.

Read from the top: `ask_again` has the cloud answer and judges by task; `_in_words` ends with the
cloud as a judge, where words, numbers and vectors leave it open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.decide.agreement_of_answers import (
    Agreement,
    agree_in_calls,
    agree_in_meaning,
    agree_in_sound,
    agree_in_words,
    read_verdict,
)
from edgewise.errors import CloudError, LocalError
from edgewise.record.audits import AUDIT_KEY
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Attempt, CallReply, Reply
from edgewise.types.tokens import Finish
from edgewise.types.transcripts import Segment

JUDGED_CHARS = 4_000  # of each answer that a judge is shown
JUDGE_TOKENS = 256  # room for a model that thinks before it says yes or no
CLOUD_TOOLS = 128  # OpenAI takes no more

QUESTION = """Two assistants answered the same request.

Request:
{request}

Answer A:
{one}

Answer B:
{other}

Do A and B say the same? Other words, more detail or more politeness do not matter; another fact, \
number, name or piece of advice does. Reply with yes or no only."""

# The cosine of two texts by a local model, or None where none is at hand.
Similarity = Callable[[str, str], float | None]


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that stayed on the device; of speech one segment, with its neighbours."""

    request: Request
    reply: Reply
    segment: Segment | None = None
    near: tuple[Segment, ...] = ()


@dataclass(slots=True)
class Opinion:
    """What the cloud said, and every attempt that it took; `agreement` is None where it is open."""

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
    """Raises CloudError where the cloud does not answer. What it cost is settled by the door."""
    opinion = Opinion()
    request = replace(_asking(kept), budget_key=AUDIT_KEY, part="audit.", deadline_ms=None)
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
    request = kept.request
    if isinstance(kept.reply, CallReply):
        # Its patterns take a tenth of a second to compile, which chat need not wait for.
        from edgewise.functions.narrow import narrow  # noqa: PLC0415

        text = request.messages[-1].content
        return replace(request, tools=tuple(narrow(text, request.tools, CLOUD_TOOLS)))
    # No tool served it, and the device answered in words. Results need their tools.
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
    except LocalError:  # the judge will have to do without
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
        max_tokens=JUDGE_TOKENS,
    )
    heard = _whole(cloud, judging, opinion.journal, stop)
    return read_verdict("".join(chunk for chunk in heard if isinstance(chunk, str)))


def _in_calls(kept: Kept, calls: Sequence[ToolCall], said: str) -> Agreement:
    """The cloud's calls are brought to the same forms as the device's before they are compared."""
    from edgewise.functions.heard import hear  # noqa: PLC0415  # as above
    from edgewise.functions.repair import repair  # noqa: PLC0415
    from edgewise.functions.settle import settle  # noqa: PLC0415

    tools = {tool.name: tool for tool in kept.request.tools}
    text = _last_words(kept.request)
    repaired = repair(calls or said, kept.request.tools, text, source="cloud")
    words = hear(text)
    settled = [settle(call, tools.get(call.name), words) for call in repaired.calls]
    return agree_in_calls(kept.reply.tool_calls, settled)


def _in_sound(segment: Segment, near: Sequence[Segment], heard: str) -> Agreement:
    from edgewise.flows.hear_segments import without_neighbours  # noqa: PLC0415  # as above
    from edgewise.speech.word_errors import plain_words, word_errors  # noqa: PLC0415

    theirs = without_neighbours(heard, segment, near)
    errors = word_errors(segment.text, theirs).errors
    return agree_in_sound(errors, len(plain_words(segment.text)), len(plain_words(theirs)))


def _last_words(request: Request) -> str:
    spoken = [message.content for message in request.messages if message.role == "user"]
    return spoken[-1] if spoken else ""
