from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy
import pytest

from edgewise.errors import InvalidRequest
from edgewise.speech.audio import BLOCK_S, RATE, as_wav, name_of, open_sound
from edgewise.types.messages import Audio
from tests.speech.made_voice import Samples, silence, voice

TONE = numpy.asarray(0.4 * numpy.sin(2 * numpy.pi * 440 * numpy.arange(6 * RATE) / RATE), "float32")
FORMATS = [
    ("wav", "pcm_s16le", 16_000, "mono"),
    ("wav", "pcm_f32le", 44_100, "stereo"),
    ("wav", "pcm_s16le", 8_000, "5.1"),
    ("flac", "flac", 48_000, "stereo"),
    ("mp3", "libmp3lame", 44_100, "stereo"),
    ("ogg", "libopus", 48_000, "mono"),
    ("mp4", "aac", 22_050, "mono"),
    ("webm", "libopus", 48_000, "stereo"),
]


def encoded(samples: Samples, container: str, codec: str, rate: int, layout: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream: Any = output.add_stream(codec, rate=rate)
        stream.layout = layout
        whole = (samples * 32767).astype("int16")[None, :]
        frame = av.AudioFrame.from_ndarray(whole, format="s16", layout="mono")
        frame.sample_rate = RATE
        context = stream.codec_context
        resampler = av.AudioResampler(
            format=context.format, layout=layout, rate=rate, frame_size=context.frame_size or None
        )
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            part.pts = None
            output.mux(stream.encode(part))
        output.mux(stream.encode(None))
    return file.getvalue()


def read(audio: Any) -> tuple[Samples, tuple[str, ...]]:
    with open_sound(audio) as sound:
        samples = numpy.concatenate(list(sound.blocks()))
        return samples, sound.codes


@pytest.mark.parametrize(("container", "codec", "rate", "layout"), FORMATS)
def test_any_common_format_becomes_one_channel_at_one_rate(
    container: str, codec: str, rate: int, layout: str
) -> None:
    samples, codes = read(encoded(TONE, container, codec, rate, layout))
    assert len(samples) / RATE == pytest.approx(6.0, abs=0.15)
    assert codes == ()
    spectrum = numpy.abs(numpy.fft.rfft(samples[RATE : 5 * RATE]))
    assert numpy.argmax(spectrum) / 4 == pytest.approx(440, abs=2)


@pytest.mark.parametrize(
    ("container", "codec", "rate", "layout"),
    [each for each in FORMATS if each[0] in ("wav", "flac", "mp3", "webm")],
)
def test_what_is_there_of_a_cut_file_is_read_and_it_is_said(
    container: str, codec: str, rate: int, layout: str
) -> None:
    whole = encoded(TONE, container, codec, rate, layout)
    samples, codes = read(whole[: len(whole) // 2])
    assert 2.0 < len(samples) / RATE < 4.0
    assert "truncated_audio" in codes


def test_a_damaged_place_is_passed_over_and_said() -> None:
    whole = encoded(TONE, "mp3", "libmp3lame", 44_100, "mono")
    hole = len(whole) // 3
    samples, codes = read(whole[:hole] + b"\x00\xff" * 300 + whole[hole + 600 :])
    assert len(samples) / RATE > 5.0
    assert "damaged_audio" in codes


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.wav", b"", "empty"),
        ("diary.wav", b"dear diary, today it rained\n" * 40, "not sound"),
        ("noise.mp3", bytes(range(256)) * 8, "not sound"),
        ("head.wav", as_wav(silence(1.0))[:44], "no sound that can be read"),
    ],
)
def test_what_is_not_sound_is_refused_in_words(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(path)
    assert name in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no file"):
        read(tmp_path / "nothing.wav")
    with pytest.raises(InvalidRequest, match="is a folder"):
        read(tmp_path)


def test_pictures_without_sound_are_refused() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream: Any = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for _ in range(5):
            picture = av.VideoFrame.from_ndarray(numpy.zeros((32, 32, 3), "uint8"), format="rgb24")
            output.mux(stream.encode(picture))
        output.mux(stream.encode(None))
    with pytest.raises(InvalidRequest, match="no sound in it"):
        read(file.getvalue())


def test_a_name_with_a_colon_is_a_file_and_not_an_address(tmp_path: Path) -> None:
    path = tmp_path / "http:meeting.wav"
    path.write_bytes(as_wav(TONE))
    assert len(read(path)[0]) == len(TONE)


def test_sound_comes_from_bytes_and_from_messages_too() -> None:
    data = as_wav(voice(1.0))
    assert len(read(data)[0]) == len(read(Audio(data))[0]) == RATE
    assert name_of(data) == name_of(Audio(data)) == f"sound of {len(data):,} bytes"


def test_impossible_samples_become_possible_ones() -> None:
    samples = TONE.copy()
    samples[1000:1010] = numpy.nan
    samples[2000] = numpy.inf
    file = io.BytesIO()
    with av.open(file, "w", format="wav") as output:
        stream: Any = output.add_stream("pcm_f32le", rate=RATE)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="flt", layout="mono")
        frame.sample_rate = RATE
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    assert numpy.isfinite(read(file.getvalue())[0]).all()


def test_a_long_file_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    def peak(minutes: int) -> int:
        path = tmp_path / f"{minutes}.wav"
        path.write_bytes(as_wav(numpy.zeros(60 * minutes * RATE, "float32")))
        tracemalloc.start()
        with open_sound(path) as sound:
            longest = max(len(block) for block in sound.blocks())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        path.unlink()
        assert longest < 2 * BLOCK_S * RATE
        return most

    assert peak(12) < 1.5 * peak(1) + 1_000_000


def test_a_wav_reads_back_as_it_was_written() -> None:
    sound = voice(0.5)
    samples, _ = read(as_wav(sound))
    assert numpy.abs(samples - sound).max() < 1e-3
    loud, _ = read(as_wav(sound * 100))
    assert numpy.abs(loud).max() <= 1.0
