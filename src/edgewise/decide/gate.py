"""The gate: HOLD the text back, KEEP it (show it), or HAND_OFF to the cloud.

It judges readings only; the flow holds the text. After KEEP there is no way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgewise.decide.calibration import Calibration
from edgewise.decide.meter import Reading


class Verdict(Enum):
    HOLD = "hold"
    KEEP = "keep"
    HAND_OFF = "hand_off"


@dataclass(frozen=True, slots=True)
class Gate:
    """One request's gate: a calibration, the threshold that applies, and its objective."""

    calibration: Calibration
    threshold: float
    objective: str = ""
    usual: float | None = None  # the threshold without budget pacing, if that differs

    def skips(self, reading: Reading) -> bool:
        """Whether the device should not even begin: it will hardly know the answer.

        Stop 0 of the boundaries says which chances are too low; of the answers that would have been
        kept, few lie below (`docs/deciding-early.md`).
        """
        if self.threshold <= 0.0 or reading.before is None:
            return False
        return self.chance_before(reading) < self.calibration.boundaries.at(self.threshold, 0)[0]

    def chance_before(self, reading: Reading) -> float:
        """The chance of a right answer, from the hidden state behind the prompt."""
        before = self.calibration.scores.get("before")
        return 1.0 if before is None else before.of(reading)

    def judge(self, reading: Reading, held_tokens: int) -> Verdict:
        """The verdict during generation. HOLD lasts at most `hold_tokens`."""
        if self.threshold <= 0.0:
            return Verdict.KEEP
        calibration = self.calibration
        if calibration.at_end:  # nothing is known before
            return Verdict.HOLD
        chance = self.early_confidence(reading)
        if held_tokens >= calibration.hold_tokens:
            return Verdict.KEEP if chance >= self.threshold else Verdict.HAND_OFF
        drop_below, keep_above = self._clear(held_tokens)
        if chance >= max(keep_above, self.threshold):
            return Verdict.KEEP
        if chance < drop_below:
            return Verdict.HAND_OFF if reading.tokens else Verdict.HOLD
        return Verdict.HOLD

    def _clear(self, held_tokens: int) -> tuple[float, float]:
        """Early scores that decide at once: below the first, or from the second on."""
        calibration = self.calibration
        if calibration.boundaries:
            return calibration.boundaries.at(self.threshold, held_tokens)
        # Clear cases were found at the calibrated threshold; they hold only on its far side.
        drops = self.threshold >= calibration.threshold
        keeps = self.threshold <= calibration.threshold
        return (
            calibration.drop_below if drops else 0.0,
            calibration.keep_above if keeps else 1.0,
        )

    def judge_whole(self, reading: Reading) -> Verdict:
        """The verdict on an answer that ended while it was held back."""
        return Verdict.HAND_OFF if self.doubts(self.confidence(reading)) else Verdict.KEEP

    def early_confidence(self, reading: Reading) -> float:
        """The chance that an answer with this beginning will be right."""
        return self.calibration.early.of(reading) if reading.tokens else 0.0

    def confidence(self, reading: Reading) -> float:
        """The chance that the whole answer is right; 0 if the model gives no evidence.

        The runtime's own number, if no calibration has said what that is worth.
        """
        if self.calibration.at_end:
            return 0.0 if reading.engine is None else self.calibration.final.of(reading)
        if reading.tokens or reading.engine is None:
            return self.calibration.final.of(reading) if reading.tokens else 0.0
        return reading.engine

    def doubts(self, confidence: float) -> bool:
        return confidence < self.threshold
