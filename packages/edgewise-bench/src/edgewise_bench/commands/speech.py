"""`edgewise bench speech`: errors, speed, confidence and the deferral curve."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    progress,
    report,
    save_option,
)

PER_VOICE = 3


@click.command()
@click.option("--model", "-m", help="The model that hears.")
@click.option(
    "--larger", default="whisper-base", show_default=True, help="What stands in for the cloud."
)
@click.option(
    "--clips",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Recordings: JSON lines with path, text, voice and kind (human, made).",
)
@click.option("--per-voice", type=click.IntRange(1), default=PER_VOICE, show_default=True,
              help="Documents of half a minute, at most, of each voice.")  # fmt: skip
@click.option("--quick", is_flag=True, help="One document at one level: shows that it runs.")
@click.option("--confidence-only", is_flag=True,
              help="Neither speed nor captions nor deferral: any speech model.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True)
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep what was heard in this folder (default: in the cache); reused when there.",
)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path),
              help="Draw the deferral curve into this folder.")  # fmt: skip
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path),
              help="Write a calibration file, fitted to all that was heard.")  # fmt: skip
@click.option("--traces", "published", type=click.Path(dir_okay=False, path_type=Path),
              help="Write what was heard there, without a word of it.")  # fmt: skip
@save_option
@as_json_option
def speech(
    model: str | None,
    larger: str,
    clips: Path | None,
    per_voice: int,
    quick: bool,
    confidence_only: bool,
    seed: int,
    work: Path | None,
    plots: Path | None,
    write: Path | None,
    published: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """How well speech is heard, beside the bare runtime; what confidence and deferral are worth.

    Without --clips, two readers from packages are heard. Documents are heard clean and with
    noise at 20, 10, 5 and 0 dB. Confidence is judged on voices that its fit has not heard,
    where there are enough of them.
    """
    from edgewise.settings import Settings
    from edgewise_bench.plots import check_drawing, keep_deferral
    from edgewise_bench.routing.rows import write_speech
    from edgewise_bench.scorecard import verdicts
    from edgewise_bench.speech import measure as bench
    from edgewise_bench.speech.fit import fit_speech
    from edgewise_bench.speech.recordings import read_clips, usual_clips

    if plots:
        check_drawing()
    settings = Settings.load(threads=1)
    if model:
        settings = settings.with_changes(speech_model=model)
    folder = work or settings.cache_dir / "bench" / "speech"
    chosen = read_clips(clips) if clips else usual_clips(folder)
    run = bench.SpeechBench(settings, chosen, folder, per_voice, seed, larger, quick)
    metrics: dict[str, float] = {}
    if not confidence_only:
        documents = list(bench.clean_documents(run.documents()))[: 1 if quick else None]
        with progress("files", len(documents)) as step:
            metrics |= bench.measure_speed(settings, documents, step)
        with progress("live", len(documents)) as step:
            metrics |= bench.measure_live(settings, run.live_documents(documents), step)
    with progress("hearing", run.steps) as step:
        traces = run.heard(step)
    metrics |= bench.error_rates(list(traces.values()))
    judged, found = bench.judge(list(traces.values()), settings)
    metrics |= found
    if not confidence_only:
        with progress(f"hearing with {larger}", run.steps) as step:
            texts = run.heard_by_larger(traces, step)
        curves, found = bench.deferral(traces, texts, judged, larger, seed)
        metrics |= found
        if plots:
            keep_deferral(plots, curves)
    if published is not None:
        write_speech(traces.values(), published)
    if write is not None:
        data, _ = fit_speech(list(traces.values()), f"{settings.speech_model}-int8")
        write.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    named_clips = clips.name if clips else None
    other = {} if confidence_only else {"larger": larger}
    command = command_line("speech", model=model, clips=named_clips, **other)
    command += f" --per-voice {per_voice}" if per_voice != PER_VOICE else ""
    command += " --quick" if quick else ""
    command += " --confidence-only" if confidence_only else ""
    card = new_scorecard("speech", command, metrics)
    report(card, save, as_json, verdicts(metrics, bench.TARGETS))
