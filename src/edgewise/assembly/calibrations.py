"""Finds the calibration of a model: one that was fitted here, else the one that is shipped.

A file is named after the model, its quantisation and what it is for, as in
`smollm2-135m-instruct-q8_0.json` and `edgewise-caller-q8_0.calls.json`. `edgewise calibrate`
writes such files into the data folder, where they come before the shipped ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from edgewise.decide.calibration import UNCALIBRATED, Calibration, parse_calibration
from edgewise.errors import SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings

Kind = Literal["chat", "calls", "speech", "see"]
Fitted = TypeVar("Fitted")
Parse = Callable[[Mapping[str, Any], str], Fitted]  # a document, and what errors call it

# What was read, and when its file was written: it is asked for with every request, and a file
# that is fitted again counts from the next request on.
_read: dict[tuple[Path, str, Kind], tuple[int, Any]] = {}


def model_key(facts: DeviceFacts) -> str:
    """A calibration belongs to a model and its quantisation: other weights, other evidence."""
    return f"{facts.model}-{facts.quantisation}".lower()


def own_path(settings: Settings, name: str, kind: Kind) -> Path:
    """Where the calibration lies that was fitted here; there may be none."""
    return settings.calibrations_dir / _file_name(name, kind)


def find_fitted(
    settings: Settings, name: str, kind: Kind, parse: Parse[Fitted], otherwise: Fitted
) -> Fitted:
    """The one fitted here, else the shipped one, else `otherwise`."""
    path = own_path(settings, name, kind)
    try:
        written = path.stat().st_mtime_ns
    except OSError:
        written = 0
    key = (path.parent, name, kind)
    known = _read.get(key)
    if known is None or known[0] != written:
        found = read_calibration(path, parse) if written else _shipped(name, kind, parse, otherwise)
        known = _read[key] = (written, found)
    fitted: Fitted = known[1]
    return fitted


def read_calibration(path: Path, parse: Parse[Fitted]) -> Fitted:
    try:
        return parse(json.loads(path.read_text("utf-8")), str(path))
    except (OSError, ValueError) as error:
        raise SettingsError(f"calibration {path}: {error}") from error


def find_calibration(settings: Settings, facts: DeviceFacts | None) -> Calibration:
    """That of the chat model: the file the settings name, else as the others are found."""
    if settings.calibration:
        return read_calibration(Path(settings.calibration).expanduser(), parse_calibration)
    if facts is None:
        return UNCALIBRATED
    return find_fitted(settings, model_key(facts), "chat", parse_calibration, UNCALIBRATED)


def find_document(settings: Settings, name: str, kind: Kind) -> Mapping[str, Any] | None:
    """The whole contents of a calibration file, for those who explain it; None: there is none."""
    path = own_path(settings, name, kind)
    if path.exists():
        return read_calibration(path, lambda data, _: dict(data))
    return shipped_document(name, kind)


def shipped_document(name: str, kind: Kind) -> Mapping[str, Any] | None:
    """The contents of the shipped file, whatever was fitted here; None: there is none."""
    return _shipped(name, kind, lambda data, _: dict(data), None)


def _file_name(name: str, kind: Kind) -> str:
    return f"{name}.json" if kind == "chat" else f"{name}.{kind}.json"


def _shipped(name: str, kind: Kind, parse: Parse[Fitted], otherwise: Fitted) -> Fitted:
    file = resources.files("edgewise.calibrations") / _file_name(name, kind)
    if not file.is_file():
        return otherwise
    return parse(json.loads(file.read_text("utf-8")), name)
