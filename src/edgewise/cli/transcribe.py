"""`edgewise transcribe` and `listen`: sound in, words out. `edgewise say`: the other way."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import click
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from edgewise.cli import options
from edgewise.cli.main import exit_code
from edgewise.cli.render import (
    COLOURS,
    Screen,
    confidence,
    console,
    dollars,
    milliseconds,
    print_json,
    why,
)
from edgewise.cli.setup import ensure_transcriber
from edgewise.cli.streams import json_text, printable
from edgewise.cloud.providers import PROVIDERS
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, InvalidRequest
from edgewise.flows.listen import HURRY_S, LiveTranscriber
from edgewise.local.catalogue import TRANSLATOR, row_named
from edgewise.settings import Settings
from edgewise.speech.audio import CHUNK_S, RATE, open_microphone, open_player, open_sound
from edgewise.speech.words import as_srt, as_vtt, named, written
from edgewise.tasks import QUICKEST_VOICE, SLOWEST_VOICE
from edgewise.types.messages import Channels, SoundFormat, Word
from edgewise.types.transcripts import Correction, LiveUpdate, Segment, SpokenReply, Transcript

PLACES = {"local": "device", "cloud": "cloud", "mixed": "device, corrected by the cloud"}
# How keys of known providers begin, for a key that comes without a name.
_PREFIXES = {"AIza": "gemini", "sk-ant-": "anthropic", "gsk_": "groq", "sk-": "openai"}

WRITERS: dict[str, Callable[[Transcript], str]] = {
    "text": lambda transcript: "".join(f"{named(each)}\n" for each in transcript.segments),
    "srt": lambda transcript: as_srt(transcript.segments),
    "vtt": lambda transcript: as_vtt(transcript.segments),
    "json": lambda transcript: json_text(transcript.to_dict()) + "\n",
}
ENDINGS = {"text": "txt", "srt": "srt", "vtt": "vtt", "json": "json"}


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@options.speech_routing
@options.language
@options.hint
@click.option("--channels", type=click.Choice(get_args(Channels)), default="mixed",
              help="split: each channel of a recorded call is a speaker of its own.")  # fmt: skip
@click.option("--translate", is_flag=True, help="Write it in English, whatever is spoken.")
@click.option(
    "--format",
    "-f",
    "style",
    type=click.Choice(list(WRITERS)),
    default="text",
    help="The format to write.",
)
@click.option(
    "--output", "-o", metavar="DIR", type=click.Path(file_okay=False), help="One file each, in DIR."
)
@click.option(
    "--cloud-key",
    metavar="[PROVIDER=]KEY",
    help="A provider's key for this run only; it is not stored.",
)
@options.deadline
@click.option("--store-text", is_flag=True, help="Keep the words in the ledger.")
@click.option(
    "--why", "explain", is_flag=True, help="Say what was in doubt, and whether it was corrected."
)
@options.as_json
@click.pass_context
def transcribe(
    context: click.Context,
    /,
    files: tuple[str, ...],
    style: str,
    output: str | None,
    cloud_key: str | None,
    explain: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Write down what is said in sound files: wav, mp3, flac, ogg, m4a, webm and the like.

    The device transcribes everything. With a key, segments in doubt go to the cloud, which
    corrects them in place. The words go to standard output, everything else to standard error.
    The name of each of several FILEs stands above its words. With --json several FILEs give a list.

    \b
    edgewise transcribe meeting.mp3
    edgewise transcribe --local --format srt --output subtitles *.wav
    edgewise transcribe --translate interview.de.mp3
    edgewise transcribe --cloud-key openai=KEY --threshold 0.8 --why interview.m4a
    """
    folder = Path(output) if output else None
    _refuse_mixed_up(files, style, folder, as_json)
    settings, request = split_for_transcriber(given)
    if cloud_key:
        settings = with_key(settings, cloud_key)
    settings = ensure_transcriber(settings, request.get("policy"))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    failure: EdgewiseError | None = None
    with Engine(settings) as engine:
        for file in files:
            try:
                transcript = _one(engine, file, request)
            except EdgewiseError as error:
                if len(files) == 1:
                    raise
                failure = error
                results.append(
                    {"file": file, "success": False, "error": str(error), "code": error.code}
                )
                console(stderr=True).say((f"{file}: ", "red"), f"{error} [{error.code}]")
                continue
            results.append({"file": file, **transcript.to_dict()})
            name = file if len(files) > 1 else ""
            shown = _written(transcript, file, folder, style, name)
            if not as_json:
                click.echo(shown, nl=False)
            if not as_json or explain:
                tell(transcript, explain, name=name)
    if as_json:
        print_json(results[0] if len(files) == 1 else results)
    if failure is not None:
        context.exit(exit_code(failure))


def split_for_transcriber(given: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Like options.split; --model is the transcriber, and --translate wants one that can."""
    model = given.pop("model")
    settings, request = options.split(given | {"model": None})
    settings = settings.with_changes(speech_model=model) if model else settings
    row = row_named(settings.speech_model)
    if request.get("translate") and row is not None and not row.translates:
        settings = settings.with_changes(speech_model=TRANSLATOR)
    return settings, request


def with_key(settings: Settings, text: str) -> Settings:
    """The key in place of the provider's variable, for this process only."""
    provider, equals, key = text.partition("=")
    if not equals or provider not in PROVIDERS:
        key = text
        found = [name for prefix, name in _PREFIXES.items() if key.startswith(prefix)]
        first = [name.partition("/")[0] for name in settings.chain]
        provider = next(iter((*first, *found)), "")
    row = PROVIDERS.get(provider)
    if row is None or not row.key_names or not key.strip():
        raise click.UsageError("--cloud-key: say whose key it is: --cloud-key PROVIDER=KEY")
    environment = dict(settings.environment) | {row.key_names[0]: key.strip()}
    return settings.with_changes(environment=environment)


def _one(engine: Engine, file: str, request: dict[str, Any]) -> Transcript:
    with _bar(printable(Path(file).name)) as progress:
        return engine.transcribe(file, progress=progress, **request)


@contextmanager
def _bar(label: str) -> Iterator[Callable[[float, float], None]]:
    """How much of the sound was read; nothing if standard error is not a terminal."""
    side = console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[clock]}", markup=False),
        TimeRemainingColumn(),
        console=side,
        disable=not side.is_terminal,
        transient=True,
    )
    with progress:
        task = progress.add_task(label, total=None, clock="")

        def report(done_s: float, total_s: float) -> None:
            clock = f"{clock_of(done_s)} of {clock_of(total_s)}" if total_s else clock_of(done_s)
            progress.update(task, completed=done_s, total=total_s or None, clock=clock)

        yield report


def clock_of(seconds: float) -> str:
    """Minutes and seconds; with hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _refuse_mixed_up(
    files: tuple[str, ...], style: str, folder: Path | None, as_json: bool
) -> None:
    """Before any work: a file that is not there, subtitles of several files in one stream, or two
    files under one name."""
    if len(files) == 1 and not Path(files[0]).exists():
        raise InvalidRequest(f"there is no file {files[0]!r}")
    if folder is None:
        if len(files) > 1 and style in ("srt", "vtt") and not as_json:
            raise click.UsageError(
                f"--format {style}: several files need --output DIR, which gets one file each"
            )
        return
    written_by: dict[str, str] = {}
    for file in files:
        name = f"{Path(file).stem}.{ENDINGS[style]}"
        if name in written_by:
            raise click.UsageError(
                f"{written_by[name]} and {file} would both be written to {folder / name}; "
                "transcribe them one after the other"
            )
        written_by[name] = file


def _written(transcript: Transcript, file: str, folder: Path | None, style: str, name: str) -> str:
    """What to print: the words, or the path of the file that they are in now.

    `name` is given where the words of several files follow each other.
    """
    if folder is not None:
        path = folder / f"{Path(file).stem}.{ENDINGS[style]}"
        path.write_text(WRITERS[style](transcript), encoding="utf-8")
        return f"{path}\n"
    if name and style == "json":
        return json_text({"file": name, **transcript.to_dict()}) + "\n"
    above = f"==> {printable(name)} <==\n" if name else ""
    return above + printable_lines(WRITERS[style](transcript))


def printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def tell(transcript: Transcript, explain: bool, *, name: str = "") -> None:
    side = console(stderr=True)
    side.print(_summary(transcript, name))
    if not explain:
        return
    side.print(why(transcript))
    threshold = transcript.decision.threshold or 0.0
    for segment in transcript.segments:
        doubted = segment.confidence is not None and segment.confidence < threshold
        if doubted or segment.source == "cloud" or segment.error or segment.codes:
            side.print(about(segment, verified=transcript.confidence_verified))
    for segment in transcript.dropped:
        line = f"  {clock_of(segment.start)} dropped ({' '.join(segment.codes)}): "
        side.say((line, "dim"), segment.replaced or segment.text)


def about(segment: Segment, *, verified: bool = True) -> Text:
    """A segment in doubt: when, its words, who wrote them, and how sure the device was."""
    line = Text(f"  {clock_of(segment.start)} ")
    line.append(segment.source, style=COLOURS[segment.source])
    line.append(f" · device's confidence {confidence(segment.confidence, verified=verified)}")
    if segment.codes:
        line.append(f" · {' '.join(segment.codes)}", style="yellow")
    if segment.error:
        line.append(f" · not corrected: {segment.error}", style="yellow")
    if segment.replaced is None:
        line.append(f"\n      {printable(segment.text)}")
    else:
        line.append(f"\n    - {printable(segment.replaced)}\n    + {printable(segment.text)}")
    return line


def _summary(transcript: Transcript, name: str) -> Text:
    line = Text("└ ", style="dim")
    line.append(f"{printable(name)} · " if name else "")
    place = PLACES.get(transcript.source, transcript.source)
    line.append(place, style=f"bold {COLOURS[transcript.source]}")
    sent = transcript.decision.features.get("sent_seconds", 0.0)
    verified = transcript.confidence_verified
    facts = [
        transcript.model,
        f"device's confidence {confidence(transcript.confidence, verified=verified)}",
        f"{clock_of(transcript.seconds)} of sound in {milliseconds(transcript.total_ms)}",
        f"{sent:.0f} s sent" if sent else "",
        dollars(transcript.usage.cost_microdollars),
        " ".join(transcript.codes),
    ]
    line.append("".join(f" · {fact}" for fact in facts if fact))
    if transcript.needs_cloud_handoff:
        line.append(" · parts in doubt", style="yellow")
    if transcript.degraded:
        code = transcript.decision.degraded_code
        line.append(f" · degraded: {code}", style="bold yellow")
    return line


# -- live ------------------------------------------------------------------------------------------


Sound = Iterator[tuple[Any, float]]  # chunks, each with how many seconds we are behind


@click.command()
@click.option("--file", "-f", "file", metavar="FILE", type=click.Path(),
              help="Sound from a file, instead of the microphone.")  # fmt: skip
@click.option("--realtime", is_flag=True, help="With --file: at the speed of speech.")
@click.option(
    "--device", metavar="NAME", help="Which microphone: a part of its name, or its number."
)
@options.speech_routing
@options.language
@options.hint
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
            CaptionScreen(console(stderr=True), as_json) as captions,
        ):
            follow(live, sound, captions)
            transcript = live.stop()
            captions.show(live.last_update)
    if as_json:
        print_json({"final": True, **transcript.to_dict()})
        return
    click.echo(printable_lines(WRITERS["text"](transcript)), nl=False)
    tell(transcript, explain)


def follow(live: LiveTranscriber, sound: Sound, captions: CaptionScreen) -> None:
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


class CaptionScreen:
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

    def __enter__(self) -> CaptionScreen:
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


# -- the other way ---------------------------------------------------------------------------------


@click.command()
@click.argument("words", metavar="TEXT", nargs=-1)
@click.option("--output", "--out", "-o", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write a file; its ending says of what kind.")  # fmt: skip
@click.option("--voice", metavar="NAME", help="Such as en-gb, or a name of the cloud's.")
@options.language
@click.option("--speed", type=click.FloatRange(SLOWEST_VOICE, QUICKEST_VOICE), default=1.0)
@click.option("--format", "-f", "kind", type=click.Choice(get_args(SoundFormat)))
@options.placement
@options.personal
@options.as_json
def say(
    words: tuple[str, ...], output: str | None, kind: str | None, as_json: bool, **given: Any
) -> None:
    """Speak TEXT, or what comes on standard input.

    The device speaks, with espeak-ng. A cloud that speaks is asked where that is not installed, or
    with --policy prefer_cloud. Private text never leaves.

    \b
    edgewise say "The ferry leaves at ten."
    edgewise say --output chapter.mp3 < chapter.txt
    edgewise say --voice de "Guten Morgen" | aplay
    """
    text = options.read_prompt(words, "say what? edgewise say TEXT")
    play = not output and sys.stdout.isatty()
    if as_json and not output:
        raise click.UsageError("--json goes with --output FILE: the sound needs a place")
    ending = Path(output or "").suffix.lower().removeprefix(".")
    known = [each for each in get_args(SoundFormat) if each in (kind or ending, "wav")]
    player = open_player() if play else None
    settings, request = options.split(given | {"model": None})
    with Engine(settings) as engine:
        spoken = engine.speak(text, format="wav" if play else known[-1], **request)
    if output:
        Path(output).write_bytes(spoken.audio.data)
    elif player is not None:
        player(spoken.audio.data)
    else:
        sys.stdout.buffer.write(spoken.audio.data)
    if as_json:
        print_json({"file": output, **spoken.to_dict()})
    else:
        console(stderr=True).print(_said(spoken, output))


def _said(spoken: SpokenReply, output: str | None) -> Text:
    line = Text("└ ", style="dim")
    line.append(PLACES.get(spoken.source, spoken.source), style=f"bold {COLOURS[spoken.source]}")
    facts = [
        spoken.model,
        f"voice {printable(spoken.voice)}",
        f"{spoken.audio.seconds:.1f} s" if spoken.audio.seconds else "",
        dollars(spoken.usage.cost_microdollars),
        printable(output or ""),
    ]
    line.append("".join(f" · {fact}" for fact in facts if fact))
    if spoken.degraded:
        line.append(f" · degraded: {spoken.decision.degraded_code}", style="bold yellow")
    return line
