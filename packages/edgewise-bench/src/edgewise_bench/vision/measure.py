"""How well pictures are answered: drawn text and photographs, through the whole engine."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from edgewise.calibrate.metrics import auroc, expected_calibration_error, share
from edgewise.calibrations import find_calibration
from edgewise.cloud.provider import Chunk, Stop
from edgewise.engine import Engine
from edgewise.errors import CloudClosed
from edgewise.settings import Settings
from edgewise.types.messages import Image, Request
from edgewise.types.replies import Attempt, Finish, SeenReply
from edgewise.vision.answers import SIGHT, answer_from
from edgewise.vision.question import read_question
from edgewise_bench.processes import without_limits
from edgewise_bench.risk import aurc, coverage_at
from edgewise_bench.vision.cases import SeeCase, is_right, text_cases, turned_cases
from edgewise_bench.vision.photos import beyond_cases, object_cases
from edgewise_bench.vision.receipts import damaged, receipt_cases

DAMAGED = 4  # states of each receipt that are worse than the drawn one
STAND_IN = "stand-in cloud (always right)"
TARGET = 0.95  # accuracy of what the device keeps
TARGETS: dict[str, tuple[str, float]] = {"accuracy_kept": (">=", TARGET)}


class StandInVisionSkills:
    """Fulfils `Cloud`: what is handed off counts as answered right, and is never shown as more."""

    def __init__(self) -> None:
        self.asked = 0

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        self.asked += 1
        journal.append(
            Attempt(place="cloud", backend="stand-in", model=STAND_IN, outcome="answered")
        )
        yield f"[{STAND_IN}]"
        yield Finish("stop", 1, 1)


@dataclass(frozen=True, slots=True)
class Seen:
    """One case as the engine answered it; `confidence` is the device's, kept or not."""

    case: SeeCase
    kept: bool
    confidence: float
    right: bool  # the device's own answer
    taken: bool  # a skill was thought to answer it
    ms: float


def see_cases(
    folder: Path, texts: int, photos: int, beyond: int, turned: int, receipts: int, seed: int
) -> list[SeeCase]:
    return [
        *text_cases(texts, seed),
        *object_cases(folder, photos, seed),
        *beyond_cases(folder, beyond, seed),
        *turned_cases(turned, seed),
        *receipt_cases(receipts, seed, "test"),
    ]


def measure_see(
    settings: Settings, cases: Sequence[SeeCase], step: Callable[[], None]
) -> list[Seen]:
    seen = []
    with Engine(without_limits(settings), cloud=StandInVisionSkills()) as engine:
        for case in cases:
            seen += _ask(engine, case)
            step()
    return seen


def _ask(engine: Engine, case: SeeCase) -> list[Seen]:
    file = io.BytesIO()
    case.draw().save(file, "PNG")
    image = Image.from_bytes(file.getvalue(), case.name)
    started = time.perf_counter()
    reply = engine.complete(case.question, images=[image], policy="prefer_local")
    ms = 1000 * (time.perf_counter() - started)
    assert isinstance(reply, SeenReply), "pictures are answered by skills here"
    wanted = read_question(case.question)
    if wanted is None or not reply.sights:
        return [Seen(case, reply.source == "local", 0.0, False, wanted is not None, ms)]
    # The device's answer, also where it was handed off: the same judge over what it saw.
    model = engine.parts.vision_skills[wanted.skill].facts().model.lower()
    calibration = find_calibration(engine.settings, model, SIGHT)
    own = answer_from(wanted, reply.sights, calibration)
    right = is_right(case, own.text)
    seen = [Seen(case, reply.source == "local", own.confidence, right, True, ms)]
    for number in range(DAMAGED if case.group == "receipts" else 0):
        # The same receipt in a worse state: reading it is played, judging it is not.
        worse = [damaged(each, random.Random(f"{case.name}/{number}")) for each in reply.sights]
        told = answer_from(wanted, worse, calibration)
        kept = told.confidence >= calibration.threshold
        changed = replace(case, group="receipts_damaged")
        seen.append(Seen(changed, kept, told.confidence, is_right(case, told.text), True, ms))
    return seen


def summarise(seen: Sequence[Seen]) -> dict[str, float]:
    """Flat, as a scorecard wants it. `hybrid_accuracy` supposes the stand-in cloud."""
    answerable = [one for one in seen if one.case.asked != "beyond" and not one.case.group]
    beyond = [one for one in seen if one.case.asked == "beyond"]
    found = {
        **_scores("", answerable),
        "hybrid_accuracy_with_stand_in_cloud": share(
            [one.right or not one.kept for one in answerable]
        ),
        "beyond_handed_off": share([not one.kept for one in beyond]),
        "questions_understood": share([one.taken for one in answerable]),
    }
    for name, skill in (("text_", "reads text"), ("objects_", "names objects")):
        found |= _scores(name, [one for one in answerable if one.case.skill == skill])
    for group in ("turned", "receipts", "receipts_damaged"):
        found |= _scores(f"{group}_", [one for one in seen if one.case.group == group])
    return found


def units(seen: Sequence[Seen]) -> tuple[list[float], list[bool]]:
    """Confidence and rightness of what a skill answered, for plots."""
    taken = [one for one in seen if one.taken and one.case.asked != "beyond"]
    return [one.confidence for one in taken], [one.right for one in taken]


def _scores(prefix: str, seen: Sequence[Seen]) -> dict[str, float]:
    if not seen:
        return {}
    scores = [one.confidence for one in seen]
    right = [one.right for one in seen]
    return {
        f"{prefix}questions": float(len(seen)),
        f"{prefix}accuracy_kept": share([one.right for one in seen if one.kept]),
        f"{prefix}share_handed_off": share([not one.kept for one in seen]),
        f"{prefix}accuracy_all": share(right),
        f"{prefix}ece": expected_calibration_error(scores, right, bins=10),
        f"{prefix}aurc": aurc(scores, right),
        f"{prefix}auroc": auroc(scores, right),
        f"{prefix}coverage_at_95": coverage_at(scores, right, TARGET),
        f"{prefix}ms_p50": median(one.ms for one in seen),
    }
