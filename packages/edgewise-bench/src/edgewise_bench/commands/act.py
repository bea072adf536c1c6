"""`edgewise bench act`: spoken commands, from sound to call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgewise_bench.commands.report import (
    as_json_option,
    call_settings,
    command_line,
    function_model_option,
    new_scorecard,
    progress,
    report,
    said_options,
    save_option,
    threads_option,
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--tools", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="The tools of the commands, as JSON (default: a coffee order).")  # fmt: skip
@click.option("--half", type=click.Choice(["first", "second"]),
              help="Every other recording: settings were chosen on the first.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1), help="So many recordings, spread over all.")
@click.option("--quiet", is_flag=True, help="Only clean, without kitchen noise.")
@click.option("--as-text", is_flag=True,
              help="No hint for the transcriber, and only the words for the calls.")  # fmt: skip
@click.option("--speech-model", help="The model that transcribes.")
@function_model_option
@threads_option
@click.option("--answers", type=click.Path(dir_okay=False, path_type=Path),
              help="Write every answer to this file, one JSON object a line.")  # fmt: skip
@save_option
@as_json_option
def act(
    folder: Path,
    tools: Path | None,
    answers: Path | None,
    save: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Spoken commands of people: their sound becomes a call, and all of its slots are compared.

    FOLDER has labels.json, the recordings that it names, and noise_kitchen.flac; nothing of them
    comes with edgewise. Each is heard clean and with the noise 12 dB below it, on the device alone.
    Then those that it is least sure of, up to 30 % of the seconds, count as heard by a perfect
    transcriber, which writes the labels' words.
    """
    from edgewise.errors import SettingsError
    from edgewise_bench.calls.cases import spread
    from edgewise_bench.speech import acting as bench

    try:
        commands = bench.read_commands(folder)
    except SettingsError as error:
        click.echo(f"skipped: {error}", err=True)
        return
    commands = [one for one in commands if given["half"] in (None, one.half)]
    commands = spread(commands, given["limit"])
    offered = bench.read_tools(tools or bench.TOOLS)
    noisy = folder / bench.NOISE
    levels: dict[str, Any] = {"clean": None}
    if noisy.is_file() and not given["quiet"]:
        levels["noisy"] = bench.samples_of(noisy)
    metrics: dict[str, float] = {"recordings": float(len(commands))}
    rows = []
    with (
        call_settings(given["model"], given["threads"]) as settings,
        progress("commands", len(commands) * len(levels)) as step,
    ):
        if given["speech_model"]:
            settings = settings.with_changes(speech_model=given["speech_model"])
        for level, noise in levels.items():
            found = bench.measure(
                settings, commands, offered, noise, step, as_text=given["as_text"]
            )
            metrics |= bench.figures(found, level)
            rows += [(level, one) for one in found]
    if answers is not None:
        answers.write_text("".join(f"{json.dumps(bench.row_of(*row))}\n" for row in rows), "utf-8")
    said = said_options(given, "half", "limit", "model", "threads")
    said |= {"speech-model": given["speech_model"], "tools": tools.name if tools else None}
    command = command_line("act", folder.name, **said)
    command += " --quiet" * given["quiet"] + " --as-text" * given["as_text"]
    report(new_scorecard("act", command, metrics), save, as_json)
