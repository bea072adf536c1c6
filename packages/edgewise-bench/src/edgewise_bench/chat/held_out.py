"""How well a confidence that reads hidden states knows: every answer is judged by a head that never
saw its question, and by one that never saw its kind.

The file of a model holds five heads of each sort, and what they say of the traces that the shipped
one was fitted on (`training.head_calibration --held-out`). With the heads, llama.cpp's answers on
this machine are judged the same way.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgewise.calibrate.metrics import auroc, expected_calibration_error
from edgewise.calibrate.rows import Question, builtin_questions, family_of, is_right
from edgewise.decide.calibration import Head, Meter, Score, read_head
from edgewise.local.backend import ChatBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token
from edgewise_bench.risk import ece_floor, violations

FORMAT = 1
MAX_TOKENS = 64  # as in the traces
SPLITS = ("rows", "kinds")
RISKS = (0.10, 0.20)
TARGETS = {
    "auroc": (">=", 0.87),
    "auroc_kinds": (">=", 0.84),
    "auroc_before": (">=", 0.77),
    "ece": ("<=", 0.03),
    "risk_violations": ("<=", 0.10),
    "risk_kept_10": (">", 0.0),
    "risk_kept_20": (">", 0.0),
    "typed_auroc": (">=", 0.75),
    "typed_ece": ("<=", 0.06),
}
_WHOLE = 65535.0  # a chance is kept in two bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer and its chances of being right, by heads that saw neither it nor its kind.

    question       its number among `builtin_questions()`; None: not told
    before         by what was known before the first token; None: nothing was
    family         of its kind; "public" for questions that are not ours
    input_tokens   of the prompt; 0: not counted
    """

    question: int | None
    right: bool
    rows: float
    kinds: float
    before: float | None
    family: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Fold:
    """What judges the rows of one fold, fitted on the others."""

    heads: Mapping[str, Head]
    final: Score
    before: Score | None


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The file of a model."""

    model: str
    quantisation: str
    layer: int
    before_layer: int | None
    row_folds: str  # of each built-in question, a digit
    kind_folds: Mapping[str, int]
    folds: Mapping[str, Sequence[Fold]]
    traces: Sequence[Judged]

    def judge(
        self, number: int, question: Question, items: Sequence[Token | Finish]
    ) -> Judged | None:
        """None: the answer has no evidence."""
        chosen = {"rows": int(self.row_folds[number]), "kinds": self.kind_folds[question.kind]}
        said: dict[str, float] = {}
        before = None
        for split, place in chosen.items():
            fold = self.folds[split][place]
            meter = Meter(fold.heads)
            for item in items:
                meter.add(item) if isinstance(item, Token) else meter.end(item.state)
            reading = meter.reading()
            if not reading.tokens:
                return None
            said[split] = fold.final.of(reading)
            if split == "kinds" and fold.before is not None:
                before = fold.before.of(reading)
        text = "".join(item.text for item in items if isinstance(item, Token))
        right, family = is_right(question, text), family_of(question.kind)
        return Judged(number, right, said["rows"], said["kinds"], before, family)


def path_of(folder: Path, name: str) -> Path:
    """`name` is that of the calibration: model and quantisation."""
    return folder / f"{name}.held-out.json.gz"


def answers_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.judged.jsonl.gz"


def read_held_out(path: Path) -> HeldOut:
    data = json.loads(gzip.decompress(path.read_bytes()))
    if data.get("format") != FORMAT:
        raise ValueError(f"{path}: format {data.get('format')!r} is not {FORMAT}")
    answer, before = data["answer"], data.get("before")

    def fold(told: Mapping[str, Any]) -> Fold:
        heads = {"state": read_head(answer | {"weights": told["state"]})}
        if before is not None:
            heads["before"] = read_head(before | {"weights": told["before"]})
        scores = {name: Score(**told[f"{name}_score"]) for name in ("final", "before")
                  if f"{name}_score" in told}  # fmt: skip
        return Fold(heads, scores["final"], scores.get("before"))

    return HeldOut(
        model=data["model"],
        quantisation=data["quantisation"],
        layer=answer["layer"],
        before_layer=before["layer"] if before else None,
        row_folds=data["row_folds"],
        kind_folds=data["kind_folds"],
        folds={split: [fold(each) for each in data["folds"][split]] for split in SPLITS},
        traces=_unpacked(data["traces"]),
    )


def packed_chances(chances: Iterable[float]) -> list[int]:
    return [round(chance * _WHOLE) for chance in chances]


def _unpacked(told: Mapping[str, Any]) -> list[Judged]:
    def chances(name: str) -> list[Any]:
        given = told.get(name)
        return [None] * len(told["right"]) if given is None else [each / _WHOLE for each in given]

    columns = (
        *(chances("rows"), chances("kinds"), chances("before")),
        *(told["families"], told["input_tokens"], told["output_tokens"]),
    )
    return [
        Judged(None, right == "1", *rest)
        for right, *rest in zip(told["right"], *columns, strict=True)
    ]


# -- answers given here ----------------------------------------------------------------------------


def ask(
    backend: ChatBackend,
    held_out: HeldOut,
    count: int,
    path: Path,
    step: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """Judge the answers to the first questions; kinds take turns, so a part is a fair part.

    Each is written down at once, so an interrupted run goes on where it stopped.
    """
    kept = {row.question: row for row in read_judged(path)} if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    asked = list(enumerate(builtin_questions(count)))
    with path.open("a", encoding="utf-8") as file:
        for number, question in asked:
            if number not in kept:
                items = list(answer(backend, held_out, question))
                judged = held_out.judge(number, question, items)
                if judged is not None:
                    kept[number] = judged
                    file.write(json.dumps(asdict(judged)) + "\n")
                    file.flush()
            step()
    return [kept[number] for number, _ in asked if number in kept]


def answer(backend: ChatBackend, held_out: HeldOut, question: Question) -> Iterator[Token | Finish]:
    system = [Message("system", question.system)] if question.system else []
    request = Request(
        messages=(*system, Message("user", question.prompt)), max_tokens=MAX_TOKENS, temperature=0.0
    )
    yield from backend.generate(
        request, layer=held_out.layer, prompt_layer=held_out.before_layer or held_out.layer
    )


def read_judged(path: Path) -> list[Judged]:
    """Packed or not; a line that was cut by an interruption is left out."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return [Judged(**json.loads(line)) for line in text.splitlines() if line.endswith("}")]


def with_families(rows: Iterable[Judged]) -> list[Judged]:
    """Older files do not tell the family of a built-in question."""
    questions = builtin_questions()
    return [
        replace(row, family=family_of(questions[row.question].kind))
        if row.question is not None and not row.family
        else row
        for row in rows
    ]


def write_judged(rows: Iterable[Judged], path: Path) -> None:
    lines = "".join(json.dumps(_short(asdict(row))) + "\n" for row in rows)
    path.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(each, 5) if isinstance(each, float) else each for name, each in row.items()}


# -- figures ---------------------------------------------------------------------------------------


def figures(rows: Sequence[Judged]) -> dict[str, float]:
    """Kinds are held out, but for `auroc`: rows alone."""
    right = [row.right for row in rows]
    chances = [row.kinds for row in rows]
    found = {
        "questions": float(len(rows)),
        "accuracy": sum(right) / len(right),
        "auroc": auroc([row.rows for row in rows], right),
        "auroc_kinds": auroc(chances, right),
        "ece": expected_calibration_error(chances, right),
        "ece_by_chance": ece_floor(chances),
    }
    before = [row.before for row in rows if row.before is not None]
    if len(before) == len(rows):
        found["auroc_before"] = auroc(before, right)
    promised = violations(chances, right, RISKS)
    found["risk_violations"] = max(each.violations for each in promised.values())
    for target, each in promised.items():
        found[f"risk_kept_{100 * target:.0f}"] = each.kept
    return found
