"""How well the embedding judge of audits tells answers that say the same from those that do not.

    python scripts/measure_meaning.py

Prints, for answers that we wrote (edgewise_bench.questions.meaning_pairs), what the cosine of the
default embedder is worth, and what becomes of them at the thresholds in use.
"""

from __future__ import annotations

import math
import sys

from edgewise.calibrate.metrics import auroc
from edgewise.decide.compare_answers import DIFFERENT_BELOW, agree_in_meaning
from edgewise.parts import open_embedder
from edgewise.settings import Settings
from edgewise_bench.questions.meaning_pairs import pairs


def main() -> None:
    found = pairs()
    embedder = open_embedder(Settings.load())
    try:
        texts = [text for pair in found for text in (pair.one, pair.other)]
        vectors = embedder.embed(texts).vectors
    finally:
        embedder.close()
    cosines = [
        math.fsum(a * b for a, b in zip(vectors[at], vectors[at + 1], strict=True))
        for at in range(0, len(vectors), 2)
    ]
    same = [pair.same for pair in found]
    sys.stdout.write(f"{len(found)} pairs, AUROC of the cosine {auroc(cosines, same):.3f}\n")
    below = [pair.same for cosine, pair in zip(cosines, found, strict=True) if told_apart(cosine)]
    sys.stdout.write(
        f"below {DIFFERENT_BELOW}: {below.count(False)} of {same.count(False)} that differ, "
        f"{below.count(True)} of {same.count(True)} that say the same\n"
    )
    for cosine, pair in sorted(zip(cosines, found, strict=True), key=lambda each: each[0]):
        sys.stdout.write(f"{cosine:.3f} {'same' if pair.same else '-   '} {pair.other}\n")


def told_apart(cosine: float) -> bool:
    return agree_in_meaning(cosine) is not None


if __name__ == "__main__":
    main()
