"""Which intent each call answers, and which intents nobody has answered yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgewise.functions.ground import ground
from edgewise.functions.heard import Heard
from edgewise.functions.narrow import fit_scores
from edgewise.types.messages import Tool, ToolCall

FIT_SHARE = 0.5  # what a tool's words count for, beside the arguments' own


def assign(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], intents: Sequence[Heard]
) -> tuple[int, ...]:
    """An intent's number for each call, in an order that never goes back.

    Calls stand in the order of the request, so this is an alignment: the best sum of how well
    each intent's words support the arguments and the tool of its calls.
    """
    if len(intents) < 2 or not calls:
        return (0,) * len(calls)
    scores = [[_score(call, tools.get(call.name), words) for words in intents] for call in calls]
    best = list(scores[0])
    came: list[list[int]] = []
    for row in scores[1:]:
        top, before, here = 0, [], []
        for number, score in enumerate(row):
            top = number if best[number] > best[top] else top
            before.append(top)
            here.append(best[top] + score)
        came.append(before)
        best = here
    place = max(range(len(best)), key=best.__getitem__)
    path = [place]
    for before in reversed(came):
        path.append(before[path[-1]])
    return tuple(reversed(path))


def unanswered(owners: Sequence[int], intents: int) -> tuple[int, ...]:
    return tuple(number for number in range(intents) if number not in owners)


def _score(call: ToolCall, tool: Tool | None, words: Heard) -> float:
    if tool is None:
        return 0.0
    supports = [one.score for one in ground(call, tool, words).arguments.values()]
    fit = fit_scores(words.text, [tool])[0]
    return sum(supports) / max(1, len(supports)) + FIT_SHARE * fit
