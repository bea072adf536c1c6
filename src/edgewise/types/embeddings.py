"""The results of embedding texts, and the passages that a search finds."""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, TypedDict

from typing_extensions import override

from edgewise.types.messages import Handoff, Kinds
from edgewise.types.replies import Reply

# 32-bit floats, or 8-bit integers if requested. Numpy reads both without a copy.
Vector: TypeAlias = "array[float] | array[int]"

# Remarks about the vector of a text.


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a local model made of some texts, in their order.

    windows  how many pieces each text was read in; 1 if it fits the model's window
    """

    vectors: tuple[array[float], ...]
    windows: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Embeddings(Reply):
    """One vector of length 1 per text, all in the same space; none if only signalled.

    space       names the model, its precision and the number of dimensions; vectors of different
                spaces must not be compared
    scales      for 8-bit vectors: value = integer * scale; empty for 32-bit floats
    windows     how many pieces each text was read in; 0 from the cloud, which does not say
    text_codes  remarks about each text's vector, as `windowed`
    """

    vectors: tuple[Vector, ...] = ()
    space: str = ""
    dimensions: int = 0
    scales: tuple[float, ...] = ()
    windows: tuple[int, ...] = ()
    text_codes: tuple[tuple[str, ...], ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The remarks about all texts, each once and sorted."""
        return tuple(sorted({code for codes in self.text_codes for code in codes}))

    @override
    def _begins(self) -> str:
        return f"{len(self.vectors)} vectors of {self.space or 'no space'}"

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(Embeddings, self).to_dict() | {
            "response": None,
            "space": self.space,
            "dimensions": self.dimensions,
            "vectors": [vector.tolist() for vector in self.vectors],
            "scales": list(self.scales),
            "windows": list(self.windows),
            "codes": list(self.codes),
            "text_codes": [list(codes) for codes in self.text_codes],
        }


class EmbedOptions(TypedDict, total=False):
    """Keyword arguments of `Engine.embed`."""

    space: str
    int8: bool
    dimensions: int
    policy: str
    handoff: Handoff
    private: bool
    redact: Kinds
    private_kinds: Kinds
    store_text: bool
    budget_key: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a file, counted from 1. `page` is 0 in a file that has none."""

    first_line: int
    last_line: int
    text: str
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found.

    path   relative to the folder
    score  the cosine: how near it is in meaning
    words  which part of the query's words it has, from 0 to 1; rare ones and names weigh more
    page   from 1; 0 in a file that has none
    """

    path: str
    first_line: int
    last_line: int
    text: str
    score: float
    words: float = 0.0
    page: int = 0

    @property
    def place(self) -> str:
        if self.page:
            return f"{self.path}, page {self.page}"
        return f"{self.path}:{self.first_line}-{self.last_line}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What an update of the index did. `skipped` counts files by the reason they were skipped."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: tuple[tuple[str, int], ...] = ()
    files: int = 0
    passages: int = 0
    space: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"skipped": dict(self.skipped)}
