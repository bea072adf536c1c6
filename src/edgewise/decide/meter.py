"""The meter: turns token evidence into one reading, at every moment of the generation."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.decide.score import Head
from edgewise.types.tokens import Finish, Token

WINDOW = 8  # tokens in the rolling entropy window


@dataclass(frozen=True, slots=True)
class Reading:
    """All features of the tokens seen so far. A score of them decides.

    number_share  share of tokens with a digit: small models are often wrong about numbers, yet sure
    piece_share   share of tokens that continue a word: invented names come in pieces
    state         what a head reads from the mean hidden state of the answer; None: nothing
    before        what a head reads from the hidden state behind the prompt; None: nothing
    engine        the runtime's own confidence in the whole answer; None: it gives none, or goes on
    """

    tokens: int = 0
    mean_logprob: float = 0.0
    min_logprob: float = 0.0
    q10_logprob: float = 0.0
    q50_logprob: float = 0.0
    first_logprob: float = 0.0
    first_margin: float = 0.0
    mean_margin: float = 0.0
    min_margin: float = 0.0
    mean_entropy: float = 0.0
    window_entropy: float = 0.0
    max_window_entropy: float = 0.0
    number_share: float = 0.0
    piece_share: float = 0.0
    state: float | None = None
    before: float | None = None
    engine: float | None = None

    def get(self, name: str, default: float = 0.0) -> float:
        """One feature, as of a mapping: a score looks at a few of them, at every token."""
        value: float | None = getattr(self, name, default)
        return default if value is None else value

    def features(self) -> dict[str, float]:
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


class Meter:
    """Takes one token at a time. Each costs a few microseconds, whatever the length.

    `heads` read hidden states, by the name of the feature: `state` and `before`. A token comes with
    the state that it was predicted from. So the first token brings the state behind the prompt, and
    each later one the state where the token before it entered the model. The state of the last
    token comes with the end.
    """

    def __init__(self, heads: Mapping[str, Head] | None = None) -> None:
        self._heads = heads or {}
        self._states: Any = None  # their sum
        self._state_count = 0
        self._before: float | None = None
        self._sorted: list[float] = []
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._sum_logprob = 0.0
        self._sum_margin = 0.0
        self._sum_entropy = 0.0
        self._max_window = 0.0
        self._min_margin = 0.0
        self._numbers = 0
        self._pieces = 0
        self._first: Token | None = None
        self._engine: float | None = None

    def add(self, token: Token) -> None:
        if not token.has_evidence:
            return
        if self._first is not None:
            self.end(token.state)
        elif token.state is not None and "before" in self._heads:
            self._before = self._heads["before"].of(token.state)
        if self._first is None:
            self._first = token
            self._min_margin = token.margin
        elif token.text[:1].isalpha():  # no space before it: it continues a word
            self._pieces += 1
        if any(map(str.isdigit, token.text)):
            self._numbers += 1
        self._min_margin = min(self._min_margin, token.margin)
        insort(self._sorted, token.logprob)
        self._sum_logprob += token.logprob
        self._sum_margin += token.margin
        self._sum_entropy += token.entropy
        self._window.append(token.entropy)
        self._max_window = max(self._max_window, sum(self._window) / len(self._window))

    def end(self, state: Any) -> None:
        """Take in the state behind the last token, if there is one."""
        if state is None or self._first is None or "state" not in self._heads:
            return
        self._states = state if self._states is None else self._states + state
        self._state_count += 1

    def finish(self, end: Finish) -> None:
        """Take in what comes with the end: the last state, the runtime's own confidence."""
        self.end(end.state)
        self._engine = end.confidence

    def reading(self) -> Reading:
        count = len(self._sorted)
        if self._first is None:
            return Reading(engine=self._engine)
        return Reading(
            tokens=count,
            mean_logprob=self._sum_logprob / count,
            min_logprob=self._sorted[0],
            q10_logprob=self._sorted[int(0.1 * (count - 1))],
            q50_logprob=self._sorted[count // 2],
            first_logprob=self._first.logprob,
            first_margin=self._first.margin,
            mean_margin=self._sum_margin / count,
            min_margin=self._min_margin,
            mean_entropy=self._sum_entropy / count,
            window_entropy=sum(self._window) / len(self._window),
            max_window_entropy=self._max_window,
            number_share=self._numbers / count,
            piece_share=self._pieces / count,
            state=self._read_state(),
            before=self._before,
            engine=self._engine,
        )

    def _read_state(self) -> float | None:
        if not self._state_count:
            return None
        return self._heads["state"].of(self._states / self._state_count)
