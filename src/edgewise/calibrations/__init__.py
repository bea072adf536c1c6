"""The fitted scores that ship, and what finds those of a model: the user's own, else these.

A file is named after the model, its quantisation and its task, as in
`smollm2-135m-instruct-q8_0.json` and `edgewise-caller-q8_0.calls.json`. `edgewise calibrate`
writes such files into the data folder; they come before the shipped ones. Another runtime has its
own files, `smollm2-135m-instruct-q8_0@onnx.json`. If there is none and its bits are the same, it
borrows the plain one. A chat model that has nothing gets what other models showed,
`transfer.json`: its confidence is unverified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from edgewise.decide.calibration import CHAT, Calibration, Kind, parse_calibration
from edgewise.decide.decisions import LearntQuestion, key_of, read_learnt
from edgewise.errors import SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings
from edgewise.types.messages import Question
from edgewise.types.replies import TRANSFER

KindName = Literal["chat", "calls", "speech", "see", "decide"]

# The runtimes of words and speech that the shipped calibrations were fitted with, and the scripted
# models of `edgewise.testing`, which stand in for them.
HOME_RUNTIMES = frozenset({"llama_cpp", "faster_whisper", "moonshine", "scripted"})


def is_home(facts: DeviceFacts) -> bool:
    return facts.backend in HOME_RUNTIMES


def model_key(facts: DeviceFacts) -> str:
    """A calibration belongs to a model, its quantisation and the runtime.

    Other weights give other evidence, and so do the same weights on another runtime: its name
    follows as `@ollama`, unless it is the one that the shipped calibrations were fitted with.
    """
    runtime = "" if is_home(facts) else f"@{facts.backend}"
    model = facts.model.removesuffix(f"@{facts.backend}")
    return f"{model}-{facts.quantisation}".lower().strip("-").replace("/", "-") + runtime


def own_path(settings: Settings, name: str, kind: str) -> Path:
    """Where the user's own calibration would be; it may not exist."""
    return settings.calibrations_dir / _file_name(name, kind)


def as_text(document: Mapping[str, Any]) -> str:
    """What a file of a calibration holds. Lists of numbers, most of it, are a line each."""
    text = json.dumps(document, indent=1) + "\n"
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\n\s*", " ", found[0]), text)


def write_own(path: Path, document: Mapping[str, Any]) -> None:
    """Put a calibration into use. The user's own one before it is kept aside, for `undo_own`."""
    for folder in [*path.parents][2::-1]:  # the data folder too: `parents` would open it to others
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Whole or not at all: an engine may be reading it.
    half, previous = path.with_name(f"{path.name}.part"), _previous(path)
    half.write_text(as_text(document), "utf-8")
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
        path = Path(settings.calibration).expanduser()
        return parse_calibration(read_document(path), str(path), kind)
    if not name:
        return kind.uncalibrated
    path = own_path(settings, name, kind.name)
    if path.exists():
        return parse_calibration(read_document(path), str(path), kind)
    shipped = shipped_document(name, kind.name) or transfer_document(kind.name)
    return kind.uncalibrated if shipped is None else parse_calibration(shipped, name, kind)


def files_of(settings: Settings, facts: DeviceFacts, kind: Kind) -> tuple[Path, ...]:
    """The user's files that `calibration_of` reads, where they are there."""
    if kind is CHAT and settings.calibration:
        return (Path(settings.calibration).expanduser(),)
    names = filter(None, (model_key(facts), facts.same_bits_as))
    return tuple(own_path(settings, name, kind.name) for name in names)


def learnt_path(settings: Settings, key: str) -> Path:
    """Where what was learnt of a question is; it may not exist."""
    return settings.calibrations_dir / "learnt" / f"{key}.json"


def find_learnt(settings: Settings, question: Question) -> LearntQuestion | None:
    """What was learnt from labels of this very question; None: nothing."""
    path = learnt_path(settings, key_of(question))
    try:
        written = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read_learnt(path, written)


@lru_cache(maxsize=256)
def _read_learnt(path: Path, written: int) -> LearntQuestion:
    """Every request asks: a file is read once, and again when somebody has written it."""
    return read_learnt(read_document(path), str(path))


def find_document(settings: Settings, name: str, kind: str) -> Mapping[str, Any] | None:
    """The whole contents of a calibration file, for explanations; None if there is none."""
    path = own_path(settings, name, kind)
    return read_document(path) if path.exists() else shipped_document(name, kind)


def read_document(path: Path) -> Mapping[str, Any]:
    try:
        return _with_centres(dict(json.loads(path.read_text("utf-8"))))
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError(f"calibration {path}: {error}") from error


def shipped_document(name: str, kind: str) -> Mapping[str, Any] | None:
    """The contents of the shipped file, even if the user has an own one; None if there is none."""
    file = resources.files("edgewise.calibrations") / _file_name(name, kind)
    return _with_centres(json.loads(file.read_text("utf-8"))) if file.is_file() else None


def _with_centres(document: dict[str, Any]) -> dict[str, Any]:
    """Centres that several files share are named in them, and kept in a file of their own."""
    for part in (document, document.get("with_state") or {}):
        families = part.get("families") or {}
        if isinstance(families.get("centres"), str):
            part["families"] = families | {"centres": shared_centres(families["centres"])}
    return document


@cache
def shared_centres(name: str) -> Mapping[str, Any]:
    """The words of measured questions, by kind."""
    file = resources.files("edgewise.calibrations") / "centres" / f"{name}.json"
    return dict(json.loads(file.read_text("utf-8")))


def transfer_document(kind: str) -> Mapping[str, Any] | None:
    """What other models showed, for a model that nobody has calibrated; only chat has that."""
    return shipped_document(TRANSFER, kind) if kind == CHAT.name else None


def _file_name(name: str, kind: str) -> str:
    return f"{name}.json" if kind == "chat" else f"{name}.{kind}.json"
