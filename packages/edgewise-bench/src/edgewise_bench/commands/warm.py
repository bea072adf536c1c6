"""`edgewise bench warm`: the first token of a command whose model another one left loaded."""

from __future__ import annotations

from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    model_option,
    new_scorecard,
    progress,
    report,
    save_option,
    threads_option,
)

TARGETS: dict[str, tuple[str, float]] = {"ask_to_library_ratio": ("<=", 1.3)}
QUESTION = "Name three planets, and say one thing about each."


@click.command()
@model_option
@threads_option
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True)
@save_option
@as_json_option
def warm(model: str | None, threads: int, rounds: int, save: Path | None, as_json: bool) -> None:
    """How soon the second `edgewise ask` says its first word, beside the library's.

    In turns: an engine that has its model loaded; a whole `edgewise ask`, from the start of its
    process, that borrows a loaded model; and one that loads it alone.
    """
    import tempfile

    from edgewise.engine import Engine
    from edgewise.settings import Settings
    from edgewise_bench.processes import first_byte_s, with_model
    from edgewise_bench.scorecard import verdicts

    took: dict[str, list[tuple[float, float]]] = {
        name: [] for name in ("library", "ask", "ask_no_warm", "version")
    }
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        progress("first words", rounds + 1) as step,
    ):
        settings = with_model(Settings.load(threads=threads, data_dir=folder), model)
        variables = {
            **settings.environment,
            "EDGEWISE_DATA_DIR": folder,
            "EDGEWISE_MODEL": settings.model,
            "EDGEWISE_THREADS": str(threads),
            "EDGEWISE_KEEP_WARM_S": "60",
        }
        asks = ("ask", "--local", "--max-tokens", "40", QUESTION)
        with Engine(settings) as engine:
            for number in range(rounds + 1):
                now = {
                    "library": _first_word_s(engine),
                    "ask": first_byte_s(*asks, variables=variables),
                    "ask_no_warm": first_byte_s(*asks, "--no-warm", variables=variables),
                    "version": first_byte_s("--version", variables=variables),
                }
                step()
                if number:  # the first ones load
                    for name, each in now.items():
                        took[name].append(each)
        first_byte_s("warm", "--stop", variables=variables)
    metrics = _figures(took)
    command = command_line(
        "warm", model=model, threads=threads if threads > 1 else None, rounds=rounds
    )
    report(new_scorecard("warm", command, metrics), save, as_json, verdicts(metrics, TARGETS))


def _first_word_s(engine: object) -> tuple[float, float]:
    import time
    from contextlib import closing

    from edgewise.engine import Engine
    from edgewise.types.replies import TextDelta

    assert isinstance(engine, Engine)
    began = time.perf_counter()
    with closing(engine.stream(QUESTION, policy="local_only", max_tokens=40)) as events:
        next(event for event in events if isinstance(event, TextDelta))
        return time.perf_counter() - began, 0.0


def _figures(took: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    import statistics

    def median_ms(name: str, column: int) -> float:
        return round(1000 * statistics.median(each[column] for each in took[name]), 1)

    found = {f"{name}_first_ms_p50": median_ms(name, 0) for name in took}
    found |= {f"{name}_processor_ms_p50": median_ms(name, 1) for name in ("ask", "version")}
    pairs = zip(took["ask"], took["library"], strict=True)
    ratios = [ask / alone for (ask, _), (alone, _) in pairs]
    return found | {"ask_to_library_ratio": round(statistics.median(ratios), 3)}
