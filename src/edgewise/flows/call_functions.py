"""Function calls: the device writes them, judges doubt them, the cloud is asked for what failed.

Read from the top: `answer` splits and plans; the device writes (write_calls.py), with a bounded
number of narrower tries; `_judge` says which intents failed, by the gate of the request's tier;
`_rescue` asks the cloud for those alone. A speculative request has asked the cloud for the whole
already (speculate.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from edgewise.decide.fit import Capacity, Misfit, estimate_tokens, find_lateness
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, asked
from edgewise.errors import (
    CloudClosed,
    CloudError,
    ContextExceeded,
    DoesNotFit,
    EdgewiseError,
    InvalidRequest,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.call_draft import CallDraft, with_repairs
from edgewise.flows.call_walk import Parts, Walk
from edgewise.flows.last_prompt import unread
from edgewise.flows.speculate import Speculation
from edgewise.flows.write_calls import MOST_RETRIES, write_on_device
from edgewise.functions.assign import assign
from edgewise.functions.difficulty import difficulty
from edgewise.functions.grammar import check_tools
from edgewise.functions.heard import hear
from edgewise.functions.narrow import narrow
from edgewise.functions.repair import repair
from edgewise.functions.split_intents import split
from edgewise.functions.tool_prompt import render_prompt
from edgewise.local.backend import CallBackend
from edgewise.types.calls import Complaint
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Attempt, CallReply

USUAL_CALL_TOKENS = 40  # of a request for one or two calls
EASY_RETRIES = 1  # of a request that the cloud may be asked for
CLOUD_TOOLS = 128  # OpenAI takes no more


def answer(request: Request, parts: Parts, attempts: list[Attempt]) -> CallReply:
    """The calls the last user message asks for."""
    walk = _begin(request, parts, attempts)
    try:
        misfit = _open_device(walk)
        try:
            _follow(walk, _plan(walk, misfit))
        except ContextExceeded as error:
            # Counted exactly, with the fewest tools, before anything was computed: plan again.
            _follow(walk, _plan(walk, Misfit(error.code, str(error))))
    finally:
        if walk.ahead is not None:
            walk.ahead.cancel(attempts)
    parts.record.note([(walk.tools[one.tool], one.confirmed) for one in walk.draft.verdicts])
    return walk.draft.reply(parts.clock())


def _follow(walk: Walk, plan: Plan) -> None:
    draft = walk.draft
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    if plan.first is None:
        raise _refusal(walk.request, plan)
    if plan.first == "local":
        _from_device(walk, plan)
    elif walk.request.handoff == "signal":
        draft.signal(plan.code.removeprefix("handoff_"), plan.reason)
    else:
        _from_cloud(walk, plan)


def _begin(request: Request, parts: Parts, attempts: list[Attempt]) -> Walk:
    started = parts.clock()
    if request.messages[-1].role != "user":
        raise InvalidRequest("calls are for the user's words: the last message must be the user's")
    check_tools(request.tools)
    text = request.messages[-1].content
    intents = split(text, request.tools)
    offered = narrow(text, request.tools, parts.rules.tools_limit)
    scores = [
        difficulty(
            intent.resolved,
            offered,
            intents=max(1, len(intents)),
            weights=parts.rules.weights,
            record=parts.record.shares(offered),
        ).score
        for intent in intents
    ]
    draft = CallDraft(request, attempts, started, intents, max(scores, default=0.0))
    draft.took("split", 1000 * (parts.clock() - started))
    whole, tools = hear(text), {tool.name: tool for tool in request.tools}
    words = [hear(intent.resolved) for intent in intents] if len(intents) > 1 else [whole]
    return Walk(request, parts, draft, tools, offered, words, whole)


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
    objective = find_objective(request, walk.calibration)
    walk.draft.threshold, walk.draft.calibration = objective.threshold, walk.calibration.name
    walk.draft.objective = objective.words
    return objective.misfit or _lateness(walk, walk.caller)


def _lateness(walk: Walk, caller: CallBackend) -> Misfit | None:
    """Judged by what is new to the caller: the same tools as before are not read again."""
    if walk.request.deadline_ms is None:
        return None
    facts = caller.facts()
    capacity = Capacity(
        context_tokens=facts.context_tokens,
        prompt_tokens_per_second=facts.prompt_tokens_per_second,
        output_tokens_per_second=facts.output_tokens_per_second,
    )
    prompt = render_prompt(walk.offered, walk.request.messages[-1].content)
    tokens = estimate_tokens([Message("user", unread(caller, prompt))])
    return find_lateness(walk.request, capacity, tokens, USUAL_CALL_TOKENS)


def _plan(walk: Walk, misfit: Misfit | None) -> Plan:
    shut = walk.parts.cloud.closed(walk.request)
    plan = walk.parts.policy(asked(walk.request, misfit, shut))
    if plan.first == "local" and plan.may_hand_off and walk.tier == "cloud_first":
        reason = f"difficulty {walk.draft.difficulty:.2f} asks for the cloud first"
        return replace(plan, first="cloud", code="handoff_difficult", reason=reason,
                       local_backup=True, hurried=True)  # fmt: skip
    return plan


def _refusal(request: Request, plan: Plan) -> EdgewiseError:
    if request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    return (
        ModelNotFound(plan.reason) if plan.code == ModelNotFound.code else DoesNotFit(plan.reason)
    )


def _from_device(walk: Walk, plan: Plan) -> None:
    draft, parts = walk.draft, walk.parts
    may_ask = plan.may_hand_off and walk.request.handoff != "signal"
    if may_ask and walk.request.speculative and walk.ahead is None:
        walk.ahead = Speculation(parts.cloud, _asking(walk), parts.patience_s)
    # An easy request that fails twice is better off with the cloud, where there is one.
    thrifty = plan.may_hand_off and walk.tier == "local"
    try:
        write_on_device(walk, EASY_RETRIES if thrifty else MOST_RETRIES)
    except ContextExceeded:
        raise
    except LocalError as error:
        if not may_ask:
            raise
        draft.conclude("handoff_local_failed", str(error))
        _from_cloud(walk, replace(plan, local_backup=False))
        return
    failed = _judge(walk)
    if failed and plan.may_hand_off:
        if not may_ask:
            draft.signal("low_confidence", draft.doubt(failed, walk.gate))
            return
        draft.conclude("handoff_low_confidence", draft.doubt(failed, walk.gate))
        _rescue(walk, failed)
    elif plan.code == "started_local":
        _conclude_kept(walk, failed)


def _conclude_kept(walk: Walk, failed: Sequence[int]) -> None:
    draft = walk.draft
    if not failed:
        draft.conclude("kept_confident", f"every call's confidence is {draft.enough}")
        return
    draft.conclude("kept_in_doubt", draft.doubt(failed, walk.gate))
    if (shut := walk.parts.cloud.closed(walk.request)) is not None:
        draft.degraded_code = shut.code
        draft.reason += f"; the cloud is closed: {shut}"


def _judge(walk: Walk) -> list[int]:
    """The intents whose answer is in doubt: unlikely, or with a complaint that the gate holds."""
    with walk.timed("judge"):
        checked = walk.check()
        failed = [
            number
            for number in _everything(walk)
            if walk.draft.doubts(number) or not walk.gate.isdisjoint(checked.of(number))
        ]
    walk.draft.measure()
    walk.draft.doubted = bool(failed)
    return failed


def _from_cloud(walk: Walk, plan: Plan) -> None:
    try:
        _ask(walk, _everything(walk), hurried=plan.hurried)
    except CloudError as error:
        if plan.local_backup:
            _fall_back(walk, error)
            return
        if not plan.code.startswith("handoff_"):  # the caller wanted the cloud itself
            raise
        raise DoesNotFit(f"{plan.reason}; and the cloud failed: {error}") from error


def _fall_back(walk: Walk, failure: CloudError) -> None:
    walk.draft.fall_back(failure)
    try:
        write_on_device(walk, MOST_RETRIES)
    except ContextExceeded as error:
        raise DoesNotFit(f"{error}; and the cloud failed: {failure}") from error
    _judge(walk)


def _rescue(walk: Walk, failed: Sequence[int]) -> None:
    """The cloud's calls for the intents that failed; the device's stay where it cannot help."""
    try:
        _ask(walk, _everything(walk) if walk.ahead else failed, hurried=True)
    except CloudError as error:
        walk.draft.fall_back(error)


def _everything(walk: Walk) -> Sequence[int]:
    return range(len(walk.heard))


def _asking(walk: Walk, numbers: Sequence[int] | None = None) -> Request:
    """What the cloud is asked: the request, or those of its intents that failed, in their words."""
    message = walk.request.messages[-1]
    if numbers is not None and len(numbers) < len(walk.heard):
        text = ". ".join(walk.heard[number].text.rstrip(".") for number in numbers)
        message = replace(message, content=text)
    tools = tuple(narrow(message.content, walk.request.tools, CLOUD_TOOLS))
    return replace(walk.request, messages=(*walk.request.messages[:-1], message), tools=tools)


def _ask(walk: Walk, numbers: Sequence[int], *, hurried: bool) -> None:
    draft, parts = walk.draft, walk.parts
    request = _asking(walk, numbers)
    with walk.timed("cloud"):
        if walk.ahead is not None:
            heard = walk.ahead.answer(draft.attempts)
        else:
            patience = parts.patience_s if hurried else None
            stream = parts.cloud.stream(request, draft.attempts, live=False, patience_s=patience)
            with closing(stream):
                heard = list(stream)
    said = "".join(chunk for chunk in heard if isinstance(chunk, str))
    given: Sequence[ToolCall] | str = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
    text = request.messages[-1].content
    repaired = repair(given or said, walk.request.tools, text, source="cloud")
    calls, words = with_repairs(repaired), [walk.heard[number] for number in numbers]
    owners = assign(calls, walk.tools, words)
    settled = [walk.settle(call, words[owner]) for owner, call in zip(owners, calls, strict=True)]
    declined = None if calls else _in_words(said, repaired.complaints)
    if declined is None:
        draft.compare(numbers, settled)
    for number in numbers:
        draft.forget(number)
        if not calls:
            draft.declined[number] = declined
    for owner, call in zip(owners, settled, strict=True):
        draft.place(numbers[owner], call)
    draft.text = "" if calls else said
    draft.cloud_answered = True
    walk.check()


def _in_words(said: str, complaints: Sequence[Complaint]) -> Complaint | None:
    """What is wrong with a cloud's words in place of calls; nothing where they are an answer."""
    if any(one.code == "refusal" for one in complaints):
        return Complaint("refusal", "the cloud declined in words")
    if said.rstrip().endswith("?"):
        return Complaint("question", "the cloud asks back")
    return None
