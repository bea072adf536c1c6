"""What one request for function calls carries along: the parts it may use, and what it read."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from edgewise.cloud.provider import Cloud
from edgewise.decide.policy import Policy
from edgewise.flows.call_draft import CallDraft
from edgewise.flows.speculate import Speculation
from edgewise.functions.call_confidence import CallCalibration
from edgewise.functions.check import EASY_GATE, FULL_GATE, Checked, asked_twice, check_calls
from edgewise.functions.difficulty import Tier, Weights, tier
from edgewise.functions.heard import Heard
from edgewise.functions.settle import settle
from edgewise.local.backend import CallBackend
from edgewise.types.messages import Request, Tool, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Settings of this flow."""

    tools_limit: int = 24
    tiers: tuple[float, float] = (0.30, 0.60)
    weights: Weights = field(default_factory=Weights)


class Record(Protocol):
    """How the device's calls of each tool have turned out so far."""

    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        """By name, the share of right calls of each tool that has been checked."""
        ...

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends. `caller` raises ModelNotFound where there is none."""

    caller: Callable[[], CallBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[CallBackend | None], CallCalibration]
    rules: CallRules
    patience_s: float
    clock: Callable[[], float]
    today: Callable[[], datetime.date]
    record: Record


@dataclass(slots=True)
class Walk:
    """One request on its way: read once, then written, judged and perhaps rescued."""

    request: Request
    parts: Parts
    draft: CallDraft
    tools: Mapping[str, Tool]
    offered: Sequence[Tool]
    heard: Sequence[Heard]
    whole: Heard
    caller: CallBackend | None = None
    calibration: CallCalibration | None = None
    ahead: Speculation | None = None  # the cloud, asked while the device works
    retries: int = 0  # runs of the model that are left, after the first

    @property
    def tier(self) -> Tier:
        return tier(self.draft.difficulty, self.parts.rules.tiers)

    @property
    def gate(self) -> Set[str]:
        """The complaints that are reasons for doubt: nearly all, but of an easy request."""
        return EASY_GATE if self.tier == "local" else FULL_GATE

    def settle(self, call: ToolCall, words: Heard) -> ToolCall:
        tool, today = self.tools.get(call.name), self.parts.today()
        return settle(call, tool, words, whole=self.whole, today=today)

    def check(self) -> Checked:
        """Hold all calls against the tools, each other and what was asked; noted in the draft."""
        by_intent = self.draft.by_intent
        checked = check_calls(by_intent, self.heard, self.offered, declined=self.draft.declined)
        self.draft.note(checked, asked_twice(by_intent, self.heard))
        return checked

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begin = self.parts.clock()
        try:
            yield
        finally:
            self.draft.took(step, 1000 * (self.parts.clock() - begin))
