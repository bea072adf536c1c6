"""`edgewise bench act`: spoken commands of people, from their sound to a call with all its slots.

The recordings stay where they are; nothing of them is shipped. Their folder has `labels.json` (by
file: an intent and its slots) and, for noise, `noise_kitchen.flac`. Recordings at even places of
the sorted names (`first`) were looked at while settings were chosen; the others are only measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy

from edgewise.calibrate.metrics import auroc, share
from edgewise.calls.hearing import hint_of, least_heard
from edgewise.calls.tools import as_tools
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, SettingsError
from edgewise.flows.transcribe import corrected
from edgewise.settings import Settings
from edgewise.speech.audio import as_wav, open_sound
from edgewise.types.messages import Audio, Tool
from edgewise.types.replies import CallReply
from edgewise.types.transcripts import Segment, Transcript
from edgewise_bench.speech.recordings import Samples

TOOLS = Path(__file__).with_name("coffee_order.json")
NOISE, NOISE_DB = "noise_kitchen.flac", 12.0
MOST_SENT = 0.30  # of the seconds, to the perfect transcriber
HALVES = ("first", "second")
BEFORE = ("size", "roast", "numberOfShots", "coffeeDrink")
SEED = 0


@dataclass(frozen=True, slots=True)
class Command:
    """One recording, with what it asks for."""

    path: Path
    half: str
    intent: str
    slots: Mapping[str, str]

    @property
    def said(self) -> str:
        """What a perfect transcriber writes: all the labels' words. Nobody has written down more.

        Those of BEFORE stand before "with", as people say them.
        """
        before = [self.slots[name] for name in BEFORE if name in self.slots]
        rest = [value for name, value in self.slots.items() if name not in BEFORE]
        joined = " and ".join(rest)
        return f"I would like a {' '.join(before)}{' with ' if before and rest else ''}{joined}."


@dataclass(frozen=True, slots=True)
class Acted:
    """What became of one recording."""

    command: Command
    seconds: float
    right: bool
    slots_right: int
    kept: bool
    sure: float
    heard: Transcript
    made: Mapping[str, Any] | None
    sent: bool = False
    right_if_sent: bool = False


def read_commands(folder: Path) -> list[Command]:
    """Raises SettingsError, in words, where there are none."""
    labels = folder / "labels.json"
    if not labels.is_file():
        raise SettingsError(f"there are no spoken commands here: {labels} is missing")
    rows = json.loads(labels.read_text("utf-8"))
    return [
        Command(
            folder / name,
            HALVES[place % 2],
            row["intent"],
            {slot: value.strip() for slot, value in row["slots"].items()},
        )
        for place, (name, row) in enumerate(sorted(rows.items()))
    ]


def read_tools(path: Path = TOOLS) -> list[Tool]:
    return list(as_tools(json.loads(path.read_text("utf-8"))))


def samples_of(path: Path) -> Samples:
    with open_sound(path) as sound:
        samples: Samples = numpy.concatenate(list(sound.blocks()))
    return samples


def mixed(samples: Samples, noise: Samples, place: int) -> Samples:
    """The sound with a stretch of noise, NOISE_DB below it."""
    start = numpy.random.default_rng([SEED, place]).integers(0, max(1, len(noise) - len(samples)))
    under = numpy.resize(noise[start:], len(samples))
    power, other = (float(numpy.square(one).mean()) + 1e-12 for one in (samples, under))
    scale = (power / other) ** 0.5 / 10 ** (NOISE_DB / 20)
    return numpy.asarray(numpy.clip(samples + scale * under, -1.0, 1.0), "float32")


def measure(
    settings: Settings,
    commands: Sequence[Command],
    tools: Sequence[Tool],
    noise: Samples | None,
    step: Callable[[], None],
    *,
    as_text: bool = False,
    engine: Engine | None = None,
) -> list[Acted]:
    """Every recording on the device alone, then as if a perfect transcriber had heard it.

    `as_text`: without the tools' words as a hint, and with the words alone for the calls.
    """
    found = []
    hint = "" if as_text else hint_of(tools)
    own = engine or Engine(settings, policy="local_only")
    try:
        for place, command in enumerate(commands):
            samples = samples_of(command.path)
            if noise is not None:
                samples = mixed(samples, noise, place)
            sound = Audio(as_wav(samples))
            heard = own.transcribe(sound, language="en", hint=hint)
            reply = _call(own, heard.text if as_text else heard, tools)
            found.append(judge(command, heard, reply, tools))
            step()
        for place in sent_places(found):  # the others are not sent, so nobody asks
            command = found[place].command
            words = command.said if as_text else said_by_cloud(found[place], command)
            right = _is_right(command, _call(own, words, tools))
            found[place] = replace(found[place], sent=True, right_if_sent=right)
    finally:
        if engine is None:
            own.close()
    return found


def sent_places(rows: Sequence[Acted]) -> list[int]:
    """The least sure ones, up to MOST_SENT of the seconds."""
    allowed = MOST_SENT * sum(row.seconds for row in rows)
    chosen: list[int] = []
    for place in sorted(range(len(rows)), key=lambda one: rows[one].sure):
        allowed -= rows[place].seconds
        if allowed < 0:
            break
        chosen.append(place)
    return chosen


def said_by_cloud(row: Acted, command: Command) -> Transcript:
    whole = Segment(id=0, start=0.0, end=max(0.1, row.seconds), text=row.heard.text)
    return replace(row.heard, text=command.said, segments=(corrected(whole, command.said),))


def _call(engine: Engine, words: str | Transcript, tools: Sequence[Tool]) -> CallReply | None:
    try:
        return engine.call(words, tools)
    except EdgewiseError:
        return None  # nothing was heard


def judge(
    command: Command,
    heard: Transcript,
    reply: CallReply | None,
    tools: Sequence[Tool],
) -> Acted:
    calls = reply.calls if reply is not None else ()
    made = dict(calls[0].arguments) if len(calls) == 1 else None
    slots = command.slots
    return Acted(
        command,
        heard.seconds,
        _is_right(command, reply),
        sum((made or {}).get(name) == value for name, value in slots.items()),
        bool(calls) and reply is not None and not reply.needs_cloud_handoff,
        surety(heard, reply, tools),
        heard,
        made,
    )


def _is_right(command: Command, reply: CallReply | None) -> bool:
    made = [(call.name, dict(call.arguments)) for call in reply.calls] if reply is not None else []
    return made == [(command.intent, dict(command.slots))]


def surety(heard: Transcript, reply: CallReply | None, tools: Sequence[Tool]) -> float:
    """What decides which sound is sent: the least sure word that the call hangs on, and the words
    as a whole; nothing called is nothing understood."""
    if reply is None or not reply.calls:
        return 0.0
    named = {tool.name: tool for tool in tools}
    doubts = [least_heard(call, named[call.name], heard.words) for call in reply.calls]
    chance = min((one.chance for one in doubts if one is not None), default=1.0)
    return chance * (heard.confidence or 0.0)


def figures(rows: Sequence[Acted], prefix: str) -> dict[str, float]:
    """On the device; and with the least sure recordings, up to MOST_SENT of the seconds, heard by
    the perfect transcriber."""
    right = sum(row.right for row in rows)
    with_cloud = sum(row.right_if_sent if row.sent else row.right for row in rows)
    sent = sum(row.seconds for row in rows if row.sent)
    total = sum(len(row.command.slots) for row in rows)
    kept = [row.right for row in rows if row.kept]
    found = {
        "all_slots_right": right / len(rows),
        "all_slots_right_sent": with_cloud / len(rows),
        "seconds_sent": sent / sum(row.seconds for row in rows),
        "slots_right": sum(row.slots_right for row in rows) / total,
        "kept": len(kept) / len(rows),
    }
    if kept:
        found["kept_right"] = share(kept)
    if 0 < right < len(rows):
        found["surety_auroc"] = auroc([row.sure for row in rows], [row.right for row in rows])
    return {f"{prefix}_{name}": value for name, value in found.items()}


def row_of(level: str, one: Acted) -> dict[str, Any]:
    """One line of `--answers`."""
    return {
        "file": one.command.path.name,
        "level": level,
        "half": one.command.half,
        "right": one.right,
        "right_if_sent": one.right_if_sent if one.sent else None,
        "kept": one.kept,
        "sure": one.sure,
        "heard": one.heard.text,
        "slots": dict(one.command.slots),
        "made": one.made,
    }
