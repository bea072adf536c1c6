"""The settings of one training run: one row of the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run does; every field may be given in the sweep's file."""

    name: str
    method: str = "lora"  # or "full"
    rank: int = 32
    alpha: float = 64.0
    learning_rate: float = 2e-3
    tokens: int = 50_000_000  # positions seen, padding included
    pool_tokens: int = 0  # only so much of the data, again and again; 0: all there is
    seconds: float = 600.0  # the schedule also ends when this is used up
    rows: int = 64  # rows of 2,048 tokens a step
    warmup: float = 0.03
    final_rate: float = 0.0  # share of the learning rate left at the end
    weight_decay: float = 0.0
    beta2: float = 0.95
    clip: float = 1.0
    value_weight: float = 1.0  # loss of a token inside an argument's value
    digit_weight: float = 1.0  # further factor where it holds a digit
    quantise_aware: str = ""  # train through the rounding of the served model; as `served`
    round_adapter: bool = False  # and through that of the written adapter, `export_kind`
    start: str = ""  # an adapter under KEEP to go on from; its rank must be `rank`
    follow_start: float = 0.0  # share of the loss: how far from the start's own unrounded chances
    embedding_rank: int = 0
    norms: bool = False
    seed: int = 1
    export_rank: int = 64  # for "full": rank of the written difference
    export_kind: str = "Q8_0"
    # How the merged model is quantised for evaluation: "Q8_0", "Q4_0", "IQ4_NL" or with exceptions
    # for some weights, "IQ4_NL,ffn_down=Q8_0"; "none" leaves it as it is.
    served: str = "Q8_0"
    also_served: tuple[str, ...] = ()  # further ways, measured but not chosen by

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RunSettings:
        known = {field.name for field in fields(cls)}
        if unknown := set(row) - known:
            raise ValueError(f"unknown settings: {sorted(unknown)}")
        return cls(**{**row, "also_served": tuple(row.get("also_served", ()))})

    def notes(self) -> dict[str, Any]:
        return asdict(self)
