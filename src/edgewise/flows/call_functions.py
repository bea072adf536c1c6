"""Function calls: the device writes them, judges doubt them, the cloud is asked for what failed.

Read from the top: `answer` splits and plans; the device writes (write_calls.py), one narrower try
for each intent that got no call; `_judge` says which intents failed; `_rescue` asks the cloud for
those alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from edgewise.decide.fit import Misfit
from edgewise.decide.policy import Plan, Question
from edgewise.errors import (
    CloudClosed,
    CloudError,
    DoesNotFit,
    EdgewiseError,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.call_draft import CallDraft
from edgewise.flows.call_walk import Parts, Walk
from edgewise.flows.write_calls import write_on_device
from edgewise.functions.assign import assign
from edgewise.functions.difficulty import difficulty, tier
from edgewise.functions.grammar import check_tools
from edgewise.functions.heard import hear
from edgewise.functions.narrow import narrow
from edgewise.functions.repair import repair
from edgewise.functions.settle import FATAL, settle
from edgewise.functions.split_intents import split
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt, CallReply


def answer(request: Request, parts: Parts, attempts: list[Attempt]) -> CallReply:
    """The calls the last user message asks for."""
    walk = _begin(request, parts, attempts)
    misfit = _open_device(walk)
    plan = _plan(walk, misfit)
    draft = walk.draft
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    if plan.first is None:
        raise _refusal(request, plan)
    if plan.first == "local":
        _from_device(walk, plan)
    elif request.handoff == "signal":
        draft.signal(plan.code.removeprefix("handoff_"), plan.reason)
    else:
        _from_cloud(walk, plan)
    return draft.reply(parts.clock())


def _begin(request: Request, parts: Parts, attempts: list[Attempt]) -> Walk:
    started = parts.clock()
    check_tools(request.tools)
    text = request.messages[-1].content
    intents = split(text, request.tools)
    offered = narrow(text, request.tools, parts.rules.tools_limit)
    weights, count = parts.rules.weights, max(1, len(intents))
    scores = [
        difficulty(intent.resolved, offered, intents=count, weights=weights).score
        for intent in intents
    ]
    draft = CallDraft(request, attempts, started, intents, max(scores, default=0.0))
    draft.took("split", 1000 * (parts.clock() - started))
    words = [hear(intent.resolved) for intent in intents] or [hear(text)]
    return Walk(request, parts, draft, {tool.name: tool for tool in request.tools}, offered, words)


def _open_device(walk: Walk) -> Misfit | None:
    request = walk.request
    if request.policy == "cloud_only":
        return None
    if request.has_images:
        return Misfit("images_unsupported", "the function caller cannot see images")
    try:
        walk.caller = walk.parts.caller()
    except ModelNotFound as error:
        return Misfit(error.code, str(error))
    walk.calibration = walk.parts.calibration(walk.caller)
    threshold = walk.calibration.threshold if request.threshold is None else request.threshold
    walk.draft.threshold, walk.draft.calibration = threshold, walk.calibration.name
    return None


def _plan(walk: Walk, misfit: Misfit | None) -> Plan:
    request = walk.request
    shut = walk.parts.cloud.closed(request)
    if request.handoff == "signal" and request.may_leave:
        shut = None
    question = Question(
        misfit=misfit,
        cloud_closed=shut.code if shut else "",
        cloud_closed_reason=str(shut) if shut else "",
    )
    plan = walk.parts.policy(question)
    hard = tier(walk.draft.difficulty, walk.parts.rules.tiers) == "cloud_first"
    if plan.first == "local" and plan.may_hand_off and hard:
        reason = f"difficulty {walk.draft.difficulty:.2f} asks for the cloud first"
        return replace(plan, first="cloud", code="handoff_difficult", reason=reason,
                       local_backup=True)  # fmt: skip
    return plan


def _refusal(request: Request, plan: Plan) -> EdgewiseError:
    if request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    return (
        ModelNotFound(plan.reason) if plan.code == ModelNotFound.code else DoesNotFit(plan.reason)
    )


def _from_device(walk: Walk, plan: Plan) -> None:
    draft = walk.draft
    try:
        write_on_device(walk)
    except LocalError as error:
        if not plan.may_hand_off or walk.request.handoff == "signal":
            raise
        draft.conclude("handoff_local_failed", str(error))
        _from_cloud(walk, replace(plan, local_backup=False))
        return
    failed = _judge(walk)
    draft.doubted = bool(failed)
    if failed and plan.may_hand_off:
        if walk.request.handoff == "signal":
            draft.signal("low_confidence", draft.doubt(failed))
            return
        draft.conclude("handoff_low_confidence", draft.doubt(failed))
        _rescue(walk, failed, hurried=True)
    elif plan.code == "started_local":
        _conclude_kept(walk, failed)


def _conclude_kept(walk: Walk, failed: Sequence[int]) -> None:
    draft = walk.draft
    if not failed:
        draft.conclude("kept_confident", "every call is sure enough")
        return
    draft.conclude("kept_in_doubt", draft.doubt(failed))
    if (shut := walk.parts.cloud.closed(walk.request)) is not None:
        draft.degraded_code = shut.code
        draft.reason += f"; the cloud is closed: {shut}"


def _judge(walk: Walk) -> list[int]:
    """The intents whose answer is in doubt: unlikely, unfit to run, or ungrounded in a hard one."""
    careful = tier(walk.draft.difficulty, walk.parts.rules.tiers) != "local"
    fatal = FATAL | {"ungrounded"} if careful else FATAL
    return [number for number in range(len(walk.heard)) if walk.draft.doubts(number, fatal)]


def _from_cloud(walk: Walk, plan: Plan) -> None:
    everything = list(range(len(walk.heard)))
    if not plan.local_backup:
        _ask(walk, everything, hurried=False)
        return
    try:
        _ask(walk, everything, hurried=plan.hurried)
    except CloudError as error:
        walk.draft.fall_back(error)
        write_on_device(walk)
        walk.draft.doubted = bool(_judge(walk))


def _rescue(walk: Walk, failed: Sequence[int], *, hurried: bool) -> None:
    """The cloud's calls for the intents that failed; the device's stay where it cannot help."""
    try:
        _ask(walk, failed, hurried=hurried)
    except CloudError as error:
        walk.draft.fall_back(error)


def _ask(walk: Walk, numbers: Sequence[int], *, hurried: bool) -> None:
    draft, parts = walk.draft, walk.parts
    text = walk.request.messages[-1].content
    if len(numbers) < len(walk.heard):  # only what failed leaves the device
        text = ". ".join(walk.heard[number].text.rstrip(".") for number in numbers)
    message = replace(walk.request.messages[-1], content=text)
    request = replace(walk.request, messages=(*walk.request.messages[:-1], message))
    patience = parts.patience_s if hurried else None
    calls: list[ToolCall] = []
    said: list[str] = []
    with walk.timed("cloud"):
        chunks = parts.cloud.stream(request, draft.attempts, live=False, patience_s=patience)
        with closing(chunks):
            for chunk in chunks:
                if isinstance(chunk, ToolCall):
                    calls.append(chunk)
                elif isinstance(chunk, str):
                    said.append(chunk)
    found = calls or repair("".join(said), request.tools, text, source="cloud").calls
    repaired = repair(list(found), request.tools, text, source="cloud").calls
    words = [walk.heard[number] for number in numbers]
    owners = assign(repaired, walk.tools, words)
    for number in numbers:
        draft.forget(number)
    for owner, call in zip(owners, repaired, strict=True):
        draft.place(numbers[owner], settle(call, walk.tools.get(call.name), words[owner]))
    draft.text = "" if repaired else "".join(said)
    draft.cloud_answered = True
