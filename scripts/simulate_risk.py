"""How often a stated risk is broken on made trace sets (docs/guide/risk.md): a minute or two."""

import sys

import numpy

from edgewise_bench.risk import TARGETS, Kept, violations

SETS, SPLITS, ROWS = 15, 100, 1500
# Name, mean and deviation of the confidences' logits, and how much too high they are.
MODELS = (("weak", -0.4, 1.3, 0.0), ("strong", 2.2, 2.0, 0.0), ("too sure", 1.2, 1.8, 0.07))

for name, mean, deviation, flattery in MODELS:
    found: dict[float, list[Kept]] = {target: [] for target in TARGETS}
    for seed in range(SETS):
        chance = numpy.random.default_rng(seed)
        scores = 1 / (1 + numpy.exp(-chance.normal(mean, deviation, ROWS)))
        right = chance.random(ROWS) < scores * (1 - flattery)
        for target, kept in violations(scores, right, splits=SPLITS, seed=seed).items():
            found[target].append(kept)
    for target, sets in found.items():
        broken = [kept.violations for kept in sets]
        share = numpy.mean([kept.kept for kept in sets])
        nothing = numpy.mean([kept.nothing for kept in sets])
        sys.stdout.write(
            f"{name:8} target {target:4.0%}: violations {numpy.mean(broken):.3f} on average, "
            f"{max(broken):.2f} at most; kept {share:.2f}; nothing proven in {nothing:.2f}\n"
        )
