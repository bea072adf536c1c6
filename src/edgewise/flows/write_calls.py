"""The device writes calls: under a grammar, once for the request and once more where it must."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace

from edgewise.decide.fit import MOST_CHARACTERS_PER_TOKEN
from edgewise.errors import ContextExceeded, LocalError
from edgewise.flows import last_prompt
from edgewise.flows.call_draft import Written, with_repairs
from edgewise.flows.call_walk import Walk
from edgewise.flows.draft import LocalAttempt
from edgewise.functions.answer_chance import answer_chance, none_chance, none_is_likelier
from edgewise.functions.assign import assign, unanswered
from edgewise.functions.call_features import call_features
from edgewise.functions.check import better_fit, fit_of
from edgewise.functions.fold import spaced
from edgewise.functions.grammar import compile_grammar
from edgewise.functions.heard import Heard
from edgewise.functions.narrow import narrow
from edgewise.functions.repair import repair
from edgewise.functions.split_intents import expected_calls
from edgewise.functions.tool_prompt import render_prompt
from edgewise.types.calls import Complaint
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.tokens import Finish, Token

MOST_TOKENS = 400
MOST_RETRIES = 8  # runs of the model for one request, after the first
LEAST_TOOLS = 1
# An answer less likely than this is written again in narrower ways. Of the 4,000 validation answers
# above it, too few change for the better to be worth the runs.
DOUBTED = math.log(2 / 3)

Try = Sequence[tuple[Written, Sequence[int]]]  # answers that make up one, and what they are for


def write_on_device(walk: Walk, retries: int = MOST_RETRIES) -> None:
    """All calls in one answer; then a narrower try for each intent that needs one.

    An unlikely answer is written again, and the likeliest stands. An intent without a call is asked
    alone. One whose call has made-up text is asked alone too,
    with text limited to the request's own words. One whose tool fits less than another is asked
    without that tool. The model runs once and at most `retries` times more.
    """
    draft, text = walk.draft, walk.request.messages[-1].content
    walk.retries = retries
    first = _write(walk, text)
    _place(walk, first, range(len(walk.heard)))
    with suppress(LocalError):  # it is in the attempts; what was written before it stands
        asked = _narrower(walk, first) if retries > 1 and draft.local_calls else False
        if not asked and len(draft.local_calls) < expected_calls(text, walk.offered):
            for number in unanswered(draft.answered, len(walk.heard)):
                if (alone := walk.heard[number].text) != text and _may_retry(walk):
                    _place(walk, _write(walk, alone), [number])
        for number in sorted({*draft.ungrounded, *_overrun(walk)}):
            if _may_retry(walk):
                _again(walk, number)
        for number in range(len(walk.heard)):
            _with_others(walk, number)


def _may_retry(walk: Walk) -> bool:
    walk.retries -= 1
    return walk.retries >= 0


def _narrower(walk: Walk, first: Written) -> bool:
    """An unlikely answer, with the tools that it calls alone, and intent by intent.

    The likeliest of the three stands. Returns whether every intent has been asked alone.
    """
    chance, everything = answer_chance(first.tokens), range(len(walk.heard))
    if chance is None or chance >= DOUBTED:
        return False
    tries: list[Try] = []
    names = {call.name for call in first.calls}
    called = [tool for tool in walk.offered if tool.name in names]
    if 0 < len(called) < len(walk.offered) and _may_retry(walk):
        tries.append([(_write(walk, first.text, called), everything)])
    alone = 1 < len(everything) <= walk.retries
    if alone:
        walk.retries -= len(everything)
        tries.append([(_write(walk, walk.heard[number].text), [number]) for number in everything])
    best = max(tries, key=_chance_of, default=())
    if best and _chance_of(best) > chance:
        for number in everything:
            walk.draft.forget(number)
        for written, numbers in best:
            _place(walk, written, numbers)
    return alone


def _chance_of(one: Try) -> float:
    """That of all its answers together; none at all where there is no call in any of several."""
    if len(one) > 1 and not any(written.calls for written, _ in one):
        return -math.inf
    return sum(answer_chance(written.tokens) or 0.0 for written, _ in one)


def _with_others(walk: Walk, number: int) -> None:
    """A call of a tool that fits the words less than another: asked without that tool.

    The other is taken where it fits better and is likelier to be right.
    """
    before, words = walk.draft.calls_of(number), walk.heard[number]
    if len(before) != 1 or not _misfits(walk, before[0], words):
        return
    others = [tool for tool in walk.offered if tool.name != before[0].name]
    if not (others and _may_retry(walk)):
        return
    after = _settled(walk, _write(walk, words.text, others), [number])
    if len(after) != 1 or (after[0][1].confidence or 0.0) <= (before[0].confidence or 0.0):
        return
    call = after[0][1]
    old, new = (fit_of(name, words, walk.offered) for name in (before[0].name, call.name))
    if new > old:
        walk.draft.forget(number)
        walk.draft.place(number, replace(call, repairs=(*call.repairs, "other_tool")))


def _misfits(walk: Walk, call: ToolCall, words: Heard) -> bool:
    """The call is in doubt, and another tool fits better.

    A call that the model is sure of stands, whatever the words: without its tool it would be as
    sure of the next ("tell Mum I'll be ten minutes late" sets a timer).
    """
    doubted = (call.confidence or 0.0) < walk.draft.threshold
    return doubted and better_fit(call, words, walk.offered) > 0


def _overrun(walk: Walk) -> list[int]:
    """Intents of several whose call holds text that runs on into another one.

    Text that is all another one's was carried over: "… to Oslo on Friday, and to Rome".
    """
    if len(walk.heard) < 2:
        return []
    return [
        number
        for number in range(len(walk.heard))
        for call in walk.draft.calls_of(number)
        if any(
            isinstance(value, str)
            and spaced(value) in walk.whole.spaced
            and not any(spaced(value) in words.spaced for words in walk.heard)
            for value in call.arguments.values()
        )
    ]


def _again(walk: Walk, number: int) -> None:
    """Copying only; kept where it makes the same calls, surer, without making anything up."""
    before = walk.draft.calls_of(number)
    after = _settled(walk, _write(walk, walk.heard[number].text, copy=True), [number])
    names = [call.name for call in before] == [call.name for _, call in after]
    surer = _least([call for _, call in after]) >= _least(before)
    if names and surer and not any("ungrounded" in call.complaints for _, call in after):
        walk.draft.forget(number)
        for _, call in after:
            repairs = (*call.repairs, "copied")
            walk.draft.place(number, replace(call, repairs=repairs))


def _least(calls: Sequence[ToolCall]) -> float:
    return min((call.confidence or 0.0 for call in calls), default=0.0)


def _place(walk: Walk, written: Written, numbers: Sequence[int]) -> None:
    for number, call in _settled(walk, written, numbers):
        walk.draft.place(number, call)


def _settled(walk: Walk, written: Written, numbers: Sequence[int]) -> list[tuple[int, ToolCall]]:
    """Each call of an answer with the intent it answers, settled and with its confidence."""
    assert walk.calibration is not None, "a caller that writes has been opened"
    with walk.timed("judge"):
        words = [walk.heard[number] for number in numbers]
        owners = assign(written.calls, walk.tools, words)
        settled = [
            walk.settle(call, words[owner])
            for owner, call in zip(owners, written.calls, strict=True)
        ]
        features = call_features(written.tokens, settled, walk.offered, written.text)
        sure = [walk.calibration.confidence(one) for one in features]
        walk.draft.evidence.update(zip(sure, features, strict=True))
        if not settled:
            for number in numbers:
                walk.draft.nothing(number, sure[0], written.declined)
        made_up = any(one.get("ungrounded") or one.get("absent") for one in features)
        if settled and none_is_likelier(written.tokens, made_up=made_up):
            _withhold(walk, written, numbers)
            return []
        return [
            (numbers[owner], replace(call, confidence=one))
            for owner, call, one in zip(owners, settled, sure, strict=False)
        ]


def _withhold(walk: Walk, written: Written, numbers: Sequence[int]) -> None:
    """No call, as sure as the model was of that, and why."""
    names = ", ".join(dict.fromkeys(call.name for call in written.calls))
    why = f"{names} was not called: that no tool serves this, or something is missing, is likelier"
    for number in numbers:
        sure = math.exp(none_chance(written.tokens))
        walk.draft.nothing(number, sure, Complaint("withheld", why, intent=number))


def _write(walk: Walk, text: str, offered: Sequence[Tool] = (), *, copy: bool = False) -> Written:
    """One answer of the model under the grammar; fewer tools where they do not fit its context."""
    tools = list(offered or walk.offered)
    while True:
        try:
            return _write_once(walk, text, tools, copy=copy)
        except ContextExceeded:
            if len(tools) <= LEAST_TOOLS:
                raise
            tools = narrow(text, tools, max(LEAST_TOOLS, len(tools) // 2))


def _write_once(walk: Walk, text: str, tools: Sequence[Tool], *, copy: bool) -> Written:
    caller, parts = walk.caller, walk.parts
    assert caller is not None, "a plan that starts on the device has a caller"
    prompt = render_prompt(tools, text)
    room = caller.facts().context_tokens
    if len(prompt) > room * MOST_CHARACTERS_PER_TOKEN:  # before it costs a grammar and a count
        least = int(len(prompt) / MOST_CHARACTERS_PER_TOKEN)
        raise ContextExceeded(least, room, counted=False)
    with walk.timed("grammar"):
        grammar = compile_grammar(tools, text, copy=copy)
    tokens: list[Token] = []
    stream = caller.write_call(prompt, grammar=grammar, max_tokens=MOST_TOKENS)
    with (
        walk.timed("model"),
        LocalAttempt(walk.request, walk.draft.attempts, caller.facts(), parts.clock) as attempt,
        closing(stream) as items,
    ):
        for item in items:
            if isinstance(item, Finish):
                attempt.finish = item
                break
            attempt.count()
            tokens.append(item)
        attempt.outcome = "answered"
        last_prompt.note(caller, prompt)
    written = "".join(token.text for token in tokens)
    repaired = repair(written, tools, text, source="local")
    declined = next((one for one in repaired.complaints if one.call is None), None)
    return Written(text, tuple(tokens), with_repairs(repaired), declined)
