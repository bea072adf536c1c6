"""`edgewise listen`: live captions in the terminal, from a microphone or from a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.live import Live
from rich.text import Text

from edgewise.assembly.speech import HURRY_S
from edgewise.cli import options
from edgewise.cli.ready import ensure_transcriber
from edgewise.cli.render import (
    COLOURS,
    Screen,
    confidence,
    console,
    print_json,
)
from edgewise.cli.streams import printable
from edgewise.cli.transcribe import (
    WRITERS,
    clock_of,
    printable_lines,
    split_for_transcriber,
    tell,
    with_key,
)
from edgewise.engine import Engine
from edgewise.flows.listen import LiveTranscriber
from edgewise.speech.audio import (
    RATE,
    open_sound,
)
from edgewise.speech.microphone import CHUNK_S, open_microphone
from edgewise.speech.words import written
from edgewise.types.transcripts import Correction, LiveUpdate, Segment, Word

Sound = Iterator[tuple[Any, float]]  # chunks, each with how many seconds we are behind


@click.command()
@click.option("--file", "-f", "file", metavar="FILE", type=click.Path(),
              help="Sound from a file, instead of the microphone.")  # fmt: skip
@click.option("--realtime", is_flag=True, help="With --file: at the speed of speech.")
@click.option(
    "--device", metavar="NAME", help="Which microphone: a part of its name, or its number."
)
@options.speech_routing
@click.option("--language", "-l", metavar="CODE", help="Such as en or de. Detected if not set.")
@click.option("--step", "step_s", type=float, metavar="SECONDS",
              help="Seconds of speech before it is heard again; default 1.")  # fmt: skip
@click.option("--drain", "drain_s", type=click.FloatRange(0), metavar="SECONDS",
              help="Seconds to wait for corrections at the end.")  # fmt: skip
@click.option("--cloud-key", metavar="[PROVIDER=]KEY",
              help="A provider's key for this run only; it is not stored.")  # fmt: skip
@click.option("--store-text", is_flag=True, help="Keep the words in the ledger.")
@click.option("--why", "explain", is_flag=True, help="Say at the end what was in doubt.")
@options.as_json
def listen(
    file: str | None,
    realtime: bool,
    device: str | None,
    drain_s: float | None,
    cloud_key: str | None,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Caption what is being said, until Ctrl-C or the end of FILE; then print the transcript.

    Confirmed words appear bright; what may still change is dim. With a key, the cloud corrects
    doubtful segments; captions never wait for it. Captions go to standard error, the transcript
    to standard output. With --json each change is a line, and the transcript is the last.

    \b
    edgewise listen
    edgewise listen --file talk.mp3 --realtime
    edgewise listen --local --json | jq -r .pending
    """
    if (file and device) or (realtime and not file):
        raise click.UsageError("--realtime goes with --file, --device with the microphone")
    settings, request = split_for_transcriber(given)
    if cloud_key:
        settings = with_key(settings, cloud_key)
    if drain_s is not None:
        settings = settings.with_changes(speech_drain_s=drain_s)
    with open_source(file, realtime, device) as sound:
        settings = ensure_transcriber(settings, request.get("policy"))
        with (
            Engine(settings) as engine,
            engine.listen(**request) as live,
            Captions(console(stderr=True), as_json) as captions,
        ):
            follow(live, sound, captions)
            transcript = live.stop()
            captions.show(live.last_update)
    if as_json:
        print_json({"final": True, **transcript.to_dict()})
        return
    click.echo(printable_lines(WRITERS["text"](transcript)), nl=False)
    tell(transcript, explain)


def follow(live: LiveTranscriber, sound: Sound, captions: Captions) -> None:
    """Caption all of it. Ctrl-C ends it."""
    try:
        for chunk, behind_s in sound:
            captions.show(live.process(chunk, hurry=behind_s > HURRY_S))
            if captions.finished:
                return
    except KeyboardInterrupt:
        return


@contextmanager
def open_source(file: str | None, realtime: bool, device: str | None = None) -> Iterator[Sound]:
    """A file or the microphone, opened before a model is fetched."""
    if file is None:
        with open_microphone(device) as microphone:
            yield microphone.chunks()
    else:
        with open_sound(file) as opened:
            yield paced(opened.blocks(), realtime)


def paced(blocks: Iterator[Any], realtime: bool) -> Sound:
    """A file's sound in small chunks; in real time, no chunk comes before it would be spoken."""
    piece, done, started = int(CHUNK_S * RATE), 0, time.monotonic()
    for block in blocks:
        for start in range(0, len(block), piece):
            chunk = block[start : start + piece]
            done += len(chunk)
            behind_s = time.monotonic() - started - done / RATE
            if realtime and behind_s < 0:
                time.sleep(-behind_s)
            yield chunk, behind_s if realtime else 0.0


class Captions:
    """Shows updates: ended segments and corrections as lines, the open words below them.

    `wait_s` is for a single request: `finished` is true after that much silence.
    """

    def __init__(self, side: Screen, as_json: bool, *, wait_s: float | None = None) -> None:
        self._side, self._as_json, self._wait_s = side, as_json, wait_s
        self._live = Live(console=side, transient=True, auto_refresh=False)
        self._starts: dict[int, float] = {}
        self._open: list[Word] = []
        self._pending, self._ended_s = "", 0.0
        self.finished = False

    def __enter__(self) -> Captions:
        if self._side.is_terminal and not self._as_json:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, update: LiveUpdate) -> None:
        changed = update.new_words or update.new_segments or update.corrections or update.error
        if self._as_json:
            if changed or update.pending != self._pending:
                print_json(update.to_dict())
                sys.stdout.flush()
        else:
            self._lines(update)
        self._note(update)
        if self._live.is_started:
            self._live.update(self._line(update), refresh=True)

    def _note(self, update: LiveUpdate) -> None:
        self._pending = update.pending
        for segment in update.new_segments:
            self._starts[segment.id] = segment.start
            self._ended_s = max(segment.end, self._ended_s)
        words = [*self._open, *update.new_words]
        self._open = [word for word in words if word.start >= self._ended_s - 1e-6]
        silent = bool(self._starts) and not self._open and not update.pending
        if self._wait_s is not None and silent:
            self.finished = update.seconds - self._ended_s > self._wait_s

    def _lines(self, update: LiveUpdate) -> None:
        for segment in update.new_segments:
            self._side.print(segment_line(segment, verified=update.confidence_verified))
        starts = self._starts | {each.id: each.start for each in update.new_segments}
        for each in update.corrections:
            self._side.print(correction_line(each, starts[each.segment_id]))
        if update.error:
            self._side.say(
                (f"{clock_of(update.seconds)} the device broke off: {update.error}", "red")
            )

    def _line(self, update: LiveUpdate) -> Text:
        """The open words, cut on the left if they are too long for a line."""
        line = Text(f"{clock_of(update.seconds)} ", style="dim")
        line.append(printable(written(self._open)), style="bold not dim")
        line.append(printable(f" {update.pending}"))
        if update.outstanding:
            line.append(f" · {update.outstanding} at the cloud", style="cyan")
        return line


def segment_line(segment: Segment, *, verified: bool) -> Text:
    line = Text(f"{clock_of(segment.start)} ", style="dim")
    line.append(printable(segment.text), style="not dim")
    line.append(f" · {confidence(segment.confidence, verified=verified)}", style="dim")
    if segment.codes or segment.error:
        line.append(f" {' '.join((*segment.codes, segment.error))}".rstrip(), style="yellow")
    return line


def correction_line(correction: Correction, start: float) -> Text:
    """What the cloud replaced in which segment, or why it replaced nothing."""
    line = Text(f"{clock_of(start)} ", style="dim")
    if correction.cloud_result is None:
        return line.append(f"not corrected: {correction.error}", style="yellow")
    line.append("cloud: ", style=COLOURS["cloud"])
    line.append(printable(correction.replaced), style="strike")
    return line.append(printable(f" → {correction.cloud_result}"), style="not dim")
