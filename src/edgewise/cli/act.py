"""`edgewise act`: speak a request, see what was understood, and let it run."""

from __future__ import annotations

import datetime
import importlib.util
import inspect
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from edgewise.calls.hearing import hint_of
from edgewise.calls.tools import Toolbox, as_toolbox
from edgewise.children import child_environment, python_child
from edgewise.cli import options
from edgewise.cli.call import about, about_intent, allowed, call_line, read_tools, show_results
from edgewise.cli.render import COLOURS, Screen, Waiting, confidence, console, print_json
from edgewise.cli.setup import ensure_function_model, ensure_transcriber
from edgewise.cli.transcribe import PLACES, CaptionScreen, Sound, follow, open_source
from edgewise.engine import Engine
from edgewise.record.ledger import ToolRecord
from edgewise.settings import Settings, SettingsOptions
from edgewise.speech.audio import recorded
from edgewise.tasks import NOT_RUN, run_calls, settle_hearing
from edgewise.types.messages import Audio, Execute
from edgewise.types.replies import CallReply
from edgewise.types.transcripts import Transcript

POWER = Path("/sys/class/power_supply")
LONGEST_TIMER_S = 24 * 3600
_TIMERS: list[subprocess.Popen[bytes]] = []  # kept, or Python warns that they still run


SILENCE_S = 1.2  # of silence, which ends a request
_LABEL = 8  # characters


def set_timer(minutes: float = 0, seconds: float = 0) -> str:
    """Set a timer or a countdown that rings in this terminal when the time is up.

    Args:
        minutes: How many minutes until it rings
        seconds: How many seconds until it rings
    """
    total = 60 * minutes + seconds
    if not 0 < total <= LONGEST_TIMER_S:
        raise ValueError("a timer runs for more than nothing and at most a day")
    _TIMERS[:] = [timer for timer in _TIMERS if timer.poll() is None]
    # A separate process, so that neither this command nor its pipes wait for it.
    timer = subprocess.Popen(
        python_child("-m", "edgewise.cli.render", str(total), str(_folder() / "timers.txt")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
        start_new_session=True,
    )
    _TIMERS.append(timer)
    rings = datetime.datetime.now() + datetime.timedelta(seconds=total)
    return f"rings at {rings:%H:%M:%S}"


def add_note(text: str) -> str:
    """Write down a note, a reminder or something to remember.

    Args:
        text: What to write down
    """
    with _notes().open("a", encoding="utf-8") as file:
        file.write(f"{datetime.datetime.now():%Y-%m-%d %H:%M} {' '.join(text.split())}\n")
    return f"noted in {_notes()}"


def list_notes() -> list[str]:
    """Read out all notes that were written down."""
    path = _notes()
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def find_notes(word: str) -> list[str]:
    """Search the notes for those with a word in them.

    Args:
        word: The word to look for in the notes
    """
    return [note for note in list_notes() if word.casefold() in note.casefold()]


def get_time() -> str:
    """Get the current time and date."""
    return f"{datetime.datetime.now().astimezone():%A %d %B %Y, %H:%M %Z}"


def get_disk_space() -> str:
    """Get how much disk space is free on this computer."""
    usage = shutil.disk_usage(Path.home())
    return f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB"


def get_battery_level() -> str:
    """Get how full the battery of this computer is, in percent."""
    levels = [path.read_text().strip() for path in sorted(POWER.glob("BAT*/capacity"))]
    return f"{levels[0]} %" if levels else "no battery was found"


EXAMPLES: tuple[Callable[..., Any], ...] = (
    set_timer,
    add_note,
    list_notes,
    find_notes,
    get_time,
    get_disk_space,
    get_battery_level,
)


def _folder() -> Path:
    folder = Settings.load().data_dir
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _notes() -> Path:
    return _folder() / "notes.txt"


@click.command()
@click.option("--tools", "file", metavar="FILE", default="examples", show_default=True,
              help="Python functions (FILE.py), or JSON: its calls are only shown.")  # fmt: skip
@click.option("--file", "-f", "audio", metavar="AUDIO", type=click.Path(),
              help="Sound from a file, instead of the microphone.")  # fmt: skip
@click.option(
    "--device", metavar="NAME", help="Which microphone: a part of its name, or its number."
)
@click.option(
    "--yes", "-y", is_flag=True, help="Run the calls without asking, but for those in doubt."
)
@options.run_always
@options.placement
@options.objectives
@click.option("--model", "-m", help="The model that writes the calls.")
@click.option("--speech-model", help="The model that transcribes.")
@options.language
@click.option("--hint", metavar="WORDS",
              help="Names and words as they are spelt; default: the tools' choices.")  # fmt: skip
@options.as_json
def act(
    file: str,
    audio: str | None,
    device: str | None,
    yes: bool,
    always: bool,
    model: str | None,
    speech_model: str | None,
    language: str | None,
    hint: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Do what is said: speech to words, words to function calls. They run after your yes.

    Speak, and pause; or give the request as sound in AUDIO. Nothing runs unasked without --yes,
    and nothing in doubt without --always.
    The example tools set timers, keep notes, and tell the time, free disk space and the battery.

    \b
    edgewise act
    edgewise act --file request.wav --yes
    edgewise act --tools my_functions.py --local
    """
    box = read_toolbox(file)
    place = options.placed(given)
    chosen: SettingsOptions = {}
    if model:
        chosen["function_model"] = model
    if speech_model:
        chosen["speech_model"] = speech_model
    settings = Settings.load(**chosen)
    side = console(stderr=True)
    spoken = place | ({"language": language} if language else {})
    spoken["hint"] = hint_of(box.tools) if hint is None else hint
    with open_source(None, False, device) if audio is None else nullcontext() as sound:
        settings = ensure_function_model(
            ensure_transcriber(settings, place.get("policy")), place.get("policy")
        )
        with Engine(settings) as engine:
            recording: str | Audio = str(audio)
            if sound is not None:
                heard, recording = _hear_live(engine, sound, side, spoken)
            else:
                with Waiting(side, "listening"):
                    heard = engine.transcribe(recording, **spoken)
            may = {"yes": yes, "always": always, "may_ask": not as_json}
            _act(engine, heard, recording, box, place, may, side)


def _act(
    engine: Engine,
    heard: Transcript,
    sound: str | Audio,
    box: Toolbox,
    place: dict[str, Any],
    may: dict[str, bool],
    side: Screen,
) -> None:
    as_json = not may["may_ask"]
    if not as_json:
        show_heard(heard, side)
    reply: CallReply | None = None
    if heard.text:
        before = heard.text
        with Waiting(side, "thinking"):
            reply = engine.call(heard, box.tools, **place)
            if isinstance(sound, Audio) or Path(sound).is_file():  # a pipe is read once
                heard, reply = settle_hearing(
                    engine.parts, heard, sound, box, reply,
                    lambda words: engine.call(words, box.tools, **place), place,
                )  # fmt: skip
        if heard.text != before and not as_json:
            show_heard(heard, side)
        if not as_json:
            show_calls(reply, side)
        if reply.calls and (execute := agreed(reply, box, may, side)):
            reply = run_calls(reply, box, ToolRecord(engine.ledger), execute=execute)
    if as_json:
        calls = reply.to_dict() if reply else None
        ran = any(not one.error.startswith(NOT_RUN) for one in reply.results) if reply else False
        print_json({"heard": heard.to_dict(), "calls": calls, "ran": ran})
    elif reply is not None:
        show_results(reply.results)


def _hear_live(
    engine: Engine, sound: Sound, side: Screen, given: dict[str, Any]
) -> tuple[Transcript, Audio]:
    """What is said until a pause, and its sound: the cloud may have to hear a piece of it."""
    chunks: list[Any] = []

    def kept() -> Sound:
        for chunk, behind_s in sound:
            chunks.append(chunk)
            yield chunk, behind_s

    with engine.listen(**given) as live:
        side.say(("speak; a pause ends it", "dim"))
        with CaptionScreen(side, False, wait_s=SILENCE_S) as captions:
            follow(live, kept(), captions)
            return live.stop(), recorded(chunks)


def read_toolbox(file: str) -> Toolbox:
    """The example tools, the functions of a Python file, or tools described in JSON."""
    if file == "examples":
        return as_toolbox(EXAMPLES)
    if not file.endswith(".py"):
        return as_toolbox(read_tools(file))
    functions = _functions_of(Path(file))
    if not functions:
        raise click.UsageError(f"--tools {file}: there are no public functions in it")
    return as_toolbox(functions)


def _functions_of(path: Path) -> list[Callable[..., Any]]:
    spec = importlib.util.spec_from_file_location("edgewise_act_tools", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise click.UsageError(f"--tools: there is no file {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code may raise anything
        raise click.UsageError(f"--tools {path}: {type(error).__name__}: {error}") from error
    return [
        each
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and name[0] != "_"
    ]


def agreed(reply: CallReply, box: Toolbox, may: dict[str, bool], side: Screen) -> Execute:
    """Whether to run the calls: as they were called, or as the user says in the terminal."""
    if not any(call.name in box.functions for call in reply.calls):
        if may["may_ask"]:
            _say(side, "run", ("not run: JSON only describes tools; give FILE.py", "yellow"))
        return False
    return allowed(reply.calls, side, f"{'run':<{_LABEL}}", **may)


def show_heard(heard: Transcript, side: Screen) -> None:
    if not heard.text:
        _say(side, "heard", ("nothing", "yellow"))
        return
    doubt = [(" · in doubt", "yellow")] if heard.needs_cloud_handoff else []
    if heard.degraded:
        doubt.append((f" · degraded: {heard.decision.degraded_code}", "yellow"))
    place = (PLACES.get(heard.source, heard.source), COLOURS[heard.source])
    sure = f" · confidence {confidence(heard.confidence, verified=heard.confidence_verified)}"
    _say(side, "heard", (heard.text, "bold"))
    _say(side, "", place, sure, *doubt)


def show_calls(reply: CallReply, side: Screen) -> None:
    for made in reply.calls:
        _say(side, "call", (call_line(made), "bold"))
        side.print(about(made, reply.decision))
    if not reply.calls:
        _say(side, "call", ("no tool fits this", "yellow"))
        if reply.text:
            _say(side, "", (reply.text, COLOURS["cloud"]))
    for complaint in reply.complaints:
        _say(side, "", (about_intent(complaint, reply.intents), "yellow"))
    if reply.degraded:
        _say(side, "", (f"degraded: {reply.decision.degraded_code}", "yellow"))


def _say(side: Screen, label: str, *parts: str | tuple[str, str]) -> None:
    side.say((f"{label:<{_LABEL}}", "dim"), *parts)
