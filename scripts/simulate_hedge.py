"""What a cloud that is started beside a doubtful device saves and wastes, on the recorded answers.

After so many tokens, an answer whose confidence is below a limit starts the cloud; the device goes
on writing until the gate judges. If the answer stays, the cloud's is wasted (docs/decisions/0048).
"""

import sys
from collections.abc import Sequence

import numpy

from edgewise.decide import calibration as kinds
from edgewise.decide.gate import SHORT_TOKENS, Gate, decided_after
from edgewise_bench.chat.traces import Recorded, read_trace_set, traces_of
from edgewise_bench.commands.report import RESULTS
from edgewise_bench.routing.rows import shipped

MODELS = (("qwen2.5-coder-1.5b-instruct", "q4_k_m"), ("smollm2-135m-instruct", "q8_0"))
TOKEN_S, CLOUD_S = 0.05, 1.9  # twenty tokens a second; the cloud of `edgewise bench team`
TOKENS = (0, 1, 4, 8)  # after which the cloud is started; 0: always, with the request


def judged(rows: Sequence[Recorded], gate: Gate) -> list[tuple[list[float], bool]]:
    """Of each answer the confidence after each token that is held back, and whether it stays."""
    found = []
    for row in rows:
        texts = [token.text for token in row.tokens]
        last = (decided_after(texts) if len(texts) >= SHORT_TOKENS else None) or len(texts)
        sure = [gate.confidence(reading) for reading in row.readings()[:last]]
        if sure:
            found.append((sure, not gate.doubts(sure[-1])))
    return found


def simulate(name: str, quantisation: str) -> None:
    calibration = shipped(f"{name}-{quantisation}", kinds.CHAT)
    gate = Gate(calibration, calibration.threshold)
    answers = judged(read_trace_set(traces_of(RESULTS / "traces", name)).rows, gate)
    left = [TOKEN_S * len(sure) for sure, stays in answers if not stays]
    plain = (numpy.array(left) + CLOUD_S) / CLOUD_S
    sys.stdout.write(
        f"{name}: {len(answers)} answers, {len(left)} leave, after {numpy.mean(left):.2f} s "
        f"on average; as long as the cloud alone times {numpy.mean(plain):.2f}, "
        f"p95 {numpy.quantile(plain, 0.95):.2f}\n"
    )
    for after in TOKENS:
        for limit in (gate.threshold, gate.threshold / 2) if after else (1.0,):
            begun = [
                (sure, stays)
                for sure, stays in answers
                if not after or (len(sure) > after and sure[after - 1] < limit)
            ]
            wasted = sum(stays for _, stays in begun)
            waits = [
                max(TOKEN_S * len(sure), TOKEN_S * after + CLOUD_S)
                if not after or (len(sure) > after and sure[after - 1] < limit)
                else TOKEN_S * len(sure) + CLOUD_S
                for sure, stays in answers
                if not stays
            ]
            ratio = numpy.array(waits) / CLOUD_S
            sys.stdout.write(
                f"  after {after} tokens below {limit:.2f}: {wasted / max(1, len(begun)):.0%} of "
                f"{len(begun)} wasted, cloud calls {1 + wasted / len(left):.2f} times, wait "
                f"{numpy.mean(ratio):.2f} times the cloud's, "
                f"p95 {numpy.quantile(ratio, 0.95):.2f}\n"
            )


for model, bits in MODELS:
    simulate(model, bits)
