"""Finds the calibration of a model for every task: the user's own, else the shipped one.

A file is named after the model, its quantisation and its task, as in
`smollm2-135m-instruct-q8_0.json` and `edgewise-caller-q8_0.calls.json`. `edgewise calibrate`
writes such files into the data folder; they come before the shipped ones. Another runtime has its
own files, `smollm2-135m-instruct-q8_0@onnx.json`. If there is none and its bits are the same, it
borrows the plain one. A chat model that has nothing gets what other models showed,
`transfer.json`: its confidence is unverified.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from edgewise.decide.calibration import CHAT, Calibration, Kind, parse_calibration
from edgewise.errors import SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings
from edgewise.types.measured import TRANSFER

KindName = Literal["chat", "calls", "speech", "see"]

# What was read, and when its file was written. Every request needs a calibration, and a new file
# must count from the next request on.
_read: dict[tuple[Path, str], tuple[int, Calibration]] = {}


# The runtimes of words and speech that the shipped calibrations were fitted with, and the scripted
# models of `edgewise.testing`, which stand in for them.
HOME_ENGINES = frozenset({"llama_cpp", "faster_whisper", "moonshine", "scripted"})


def is_home(facts: DeviceFacts) -> bool:
    return facts.backend in HOME_ENGINES


def model_key(facts: DeviceFacts) -> str:
    """A calibration belongs to a model, its quantisation and the runtime.

    Other weights give other evidence, and so do the same weights on another runtime: its name
    follows as `@ollama`, unless it is the one that the shipped calibrations were fitted with.
    """
    engine = "" if is_home(facts) else f"@{facts.backend}"
    model = facts.model.removesuffix(f"@{facts.backend}")
    return f"{model}-{facts.quantisation}".lower().strip("-").replace("/", "-") + engine


def own_path(settings: Settings, name: str, kind: str) -> Path:
    """Where the user's own calibration would be; it may not exist."""
    return settings.calibrations_dir / _file_name(name, kind)


def write_own(path: Path, document: Mapping[str, Any]) -> None:
    """Put a calibration into use. The user's own one before it is kept aside, for `undo_own`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole or not at all: an engine may be reading it.
    half, previous = path.with_name(f"{path.name}.part"), _previous(path)
    half.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if path.exists():
        path.replace(previous)
    else:  # what was in use came with edgewise: an older one must not come back in its place
        previous.unlink(missing_ok=True)
    half.replace(path)


def undo_own(path: Path) -> bool:
    """Bring the previous calibration back: the user's own, else the shipped one.

    Returns False if there is nothing to undo. What was in use stays beside it.
    """
    if not path.exists():
        return False
    path.replace(path.with_name(f"{path.name}.undone"))
    previous = _previous(path)
    if previous.exists():
        previous.replace(path)
    return True


def _previous(path: Path) -> Path:
    return path.with_name(f"{path.name}.previous")


def calibration_of(settings: Settings, facts: DeviceFacts | None, kind: Kind) -> Calibration:
    """What judges a model's answers: its own calibration, else one of the same bits, borrowed."""
    if facts is None:
        return find_calibration(settings, "", kind)
    found = find_calibration(settings, model_key(facts), kind)
    if not found.verified and facts.same_bits_as:
        lent = find_calibration(settings, facts.same_bits_as, kind)
        found = lent.borrowed() if lent.verified else found
    if facts.rates and not found.at_end:  # what log-probabilities showed says nothing about it
        return kind.uncalibrated
    return found


def find_calibration(settings: Settings, name: str, kind: Kind) -> Calibration:
    """The user's own, else the shipped one, else an unverified one. No name: there is no model."""
    if kind is CHAT and settings.calibration:  # the user named a file
        return _cached(Path(settings.calibration).expanduser(), name, kind, must_exist=True)
    if not name:
        return kind.uncalibrated
    return _cached(own_path(settings, name, kind.name), name, kind, must_exist=False)


def _cached(path: Path, name: str, kind: Kind, *, must_exist: bool) -> Calibration:
    try:
        written = path.stat().st_mtime_ns
    except OSError:
        written = 0
    key = (path, kind.name)
    known = _read.get(key)
    if known is None or known[0] != written:
        if written or must_exist:
            found = parse_calibration(read_document(path), str(path), kind)
        else:
            shipped = shipped_document(name, kind.name) or transfer_document(kind.name)
            found = kind.uncalibrated if shipped is None else parse_calibration(shipped, name, kind)
        known = _read[key] = (written, found)
    return known[1]


def find_document(settings: Settings, name: str, kind: str) -> Mapping[str, Any] | None:
    """The whole contents of a calibration file, for explanations; None if there is none."""
    path = own_path(settings, name, kind)
    return read_document(path) if path.exists() else shipped_document(name, kind)


def read_document(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"calibration {path}: {error}") from error


def shipped_document(name: str, kind: str) -> Mapping[str, Any] | None:
    """The contents of the shipped file, even if the user has an own one; None if there is none."""
    file = resources.files("edgewise.calibrations") / _file_name(name, kind)
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else None


def transfer_document(kind: str) -> Mapping[str, Any] | None:
    """What other models showed, for a model that nobody has calibrated; only chat has that."""
    return shipped_document(TRANSFER, kind) if kind == CHAT.name else None


def _file_name(name: str, kind: str) -> str:
    return f"{name}.json" if kind == "chat" else f"{name}.{kind}.json"
