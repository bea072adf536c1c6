"""The microphone, with a fake sound system: our machines have none."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from edgewise.errors import ExtraMissing, NoMicrophone
from edgewise.speech.audio import MOST_WAITING, RATE, open_microphone


class PortAudioError(Exception):
    pass


class FakeStream:
    made: list[FakeStream]

    def __init__(self, *, callback: Callable[..., None], **options: Any) -> None:
        self.callback, self.options, self.events = callback, options, list[str]()
        FakeStream.made.append(self)

    def start(self) -> None:
        self.events.append("start")
        self.callback(b"\1\0" * 1600, 1600, None, None)

    def abort(self) -> None:
        self.events.append("abort")

    def close(self) -> None:
        self.events.append("close")


@pytest.fixture
def sounddevice(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("sounddevice")
    FakeStream.made = []
    vars(module).update(RawInputStream=FakeStream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


def test_it_records_from_when_chunks_are_asked_for_until_the_end_of_the_block(
    sounddevice: types.ModuleType,
) -> None:
    with open_microphone("3") as microphone:
        (stream,) = FakeStream.made
        assert stream.events == []
        ((chunk, behind),) = islice(microphone.chunks(), 1)
        assert (chunk, behind) == (b"\1\0" * 1600, 0.0)
    assert stream.events == ["start", "abort", "close"]
    assert stream.options["samplerate"] == RATE and stream.options["device"] == 3


def test_a_slow_reader_learns_how_far_behind_it_is_and_lost_chunks_are_counted(
    sounddevice: types.ModuleType,
) -> None:
    with open_microphone() as microphone:
        for _ in range(20):
            microphone.put(b"\0\0")
        ((_, behind),) = islice(microphone.chunks(), 1)
        assert behind == pytest.approx(2.0)
        for _ in range(MOST_WAITING):
            microphone.put(b"\0\0")
        assert microphone.lost == 20


def test_a_machine_without_one_gets_a_clear_message(
    sounddevice: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> None:
        raise PortAudioError("Error querying device -1")

    vars(sounddevice)["RawInputStream"] = broken
    with pytest.raises(NoMicrophone, match=r"no microphone could be opened.*--file"):
        open_microphone().__enter__()
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ExtraMissing, match=r"\[microphone\]"):
        open_microphone().__enter__()


def test_a_missing_sound_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(NoMicrophone, match=r"PortAudio.*libportaudio2"):
        open_microphone().__enter__()
