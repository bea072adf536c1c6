from __future__ import annotations

import errno
import io
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy
import pytest
from typing_extensions import override

from edgewise.errors import InvalidRequest
from edgewise.speech.audio import (
    BLOCK_S,
    FILMS,
    OPTIONS,
    RATE,
    SOUND,
    as_wav,
    name_of,
    open_sound,
)
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
# Less common ones, and films; all that can be written here.
MORE_FORMATS = [
    ("w64", "pcm_s16le", 16_000, "mono"),
    ("aiff", "pcm_s16be", 44_100, "stereo"),
    ("au", "pcm_mulaw", 8_000, "mono"),
    ("caf", "pcm_s16le", 48_000, "mono"),
    ("mp2", "mp2", 48_000, "mono"),
    ("adts", "aac", 44_100, "mono"),
    ("latm", "aac", 44_100, "mono"),
    ("ac3", "ac3", 48_000, "stereo"),
    ("eac3", "eac3", 48_000, "stereo"),
    ("amr", "libopencore_amrnb", 8_000, "mono"),
    ("wv", "wavpack", 16_000, "mono"),
    ("tta", "tta", 16_000, "mono"),
    ("voc", "pcm_u8", 16_000, "mono"),
    ("sox", "pcm_s32le", 16_000, "mono"),
    ("ircam", "pcm_s16le", 16_000, "mono"),
    ("ipod", "alac", 16_000, "mono"),
    ("3gp", "aac", 16_000, "mono"),
    ("mov", "pcm_s16le", 48_000, "stereo"),
    ("matroska", "aac", 48_000, "mono"),
    ("avi", "pcm_s16le", 16_000, "mono"),
    ("flv", "libmp3lame", 44_100, "mono"),
    ("mpeg", "mp2", 48_000, "mono"),
    ("mpegts", "aac", 48_000, "mono"),
    ("nut", "pcm_s16le", 16_000, "mono"),
    ("rm", "ac3", 44_100, "mono"),
    ("wtv", "mp2", 48_000, "mono"),
    ("gxf", "pcm_s16le", 48_000, "mono"),
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


@pytest.mark.parametrize(("container", "codec", "rate", "layout"), MORE_FORMATS)
def test_less_common_formats_and_films_are_read_too(
    container: str, codec: str, rate: int, layout: str
) -> None:
    samples, _ = read(encoded(TONE, container, codec, rate, layout))
    assert len(samples) / RATE == pytest.approx(6.0, abs=0.2)
    spectrum = numpy.abs(numpy.fft.rfft(samples[RATE : 5 * RATE]))
    assert numpy.argmax(spectrum) / 4 == pytest.approx(440, abs=4)


@pytest.mark.parametrize(("name", "codec", "rate"), [("talk.g722", "g722", 16_000)])
def test_sound_without_a_head_is_known_by_its_name(
    tmp_path: Path, name: str, codec: str, rate: int
) -> None:
    path = tmp_path / name
    path.write_bytes(encoded(TONE, "g722", codec, rate, "mono"))
    assert len(read(path)[0]) / RATE == pytest.approx(6.0, abs=0.2)


@pytest.mark.parametrize(
    ("container", "codec", "rate", "layout"),
    [each for each in FORMATS if each[0] in ("wav", "flac", "mp3", "webm")],
)
def test_the_rest_of_a_cut_file_is_read_and_reported(
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


LIST = "ffconcat version 1.0\nfile secret.wav\n"
PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nsecret.ts\n#EXT-X-ENDLIST\n"
SDP = "v=0\r\nc=IN IP4 127.0.0.1\r\nm=audio 45680 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with sound that nobody asked for."""
    (tmp_path / "secret.wav").write_bytes(as_wav(TONE))
    (tmp_path / "secret.ts").write_bytes(encoded(TONE, "mpegts", "aac", RATE, "mono"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("list.ffconcat", LIST, "ffconcat"),
        ("list.wav", LIST, "ffconcat"),
        ("list.m3u8", PLAYLIST, "M3U"),
        ("list.mp3", PLAYLIST, "M3U"),
        ("list.pls", "[playlist]\nFile1=secret.wav\n", "PLS"),
        ("list.asx", '<asx version="3.0"><ref href="secret.wav"/></asx>', "XML"),
        ("list.mpd", '\ufeff<?xml version="1.0"?>\n<MPD type="static"></MPD>', "DASH"),
        ("talk.sdp", SDP, "SDP"),
        ("talk.sdp", f"s=x\n{SDP}", "SDP"),
    ],
)
def test_what_only_points_at_other_files_is_refused_in_words(
    secrets: Path, name: str, text: str, what: str
) -> None:
    (secrets / name).write_text(text, "utf-8", newline="")
    for audio in (secrets / name, name, text.encode(), Audio(text.encode(), "audio/wav")):
        with pytest.raises(InvalidRequest, match=rf"not sound.*{what}.*is not read"):
            read(audio)


@pytest.mark.parametrize("name", ["words.vtt", "words.wav"])
def test_a_kind_of_file_that_is_no_sound_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("WEBVTT\n\n00:00.000 --> 00:05.000\nhello\n")
    with pytest.raises(InvalidRequest, match="not taken for sound"):
        read(tmp_path / name)


def test_every_kind_that_is_read_is_one_that_ffmpeg_knows_and_holds_its_own_sound() -> None:
    for name in (*SOUND, *FILMS):
        assert av.ContainerFormat(name, "r").is_input
    pointing = ("concat", "hls", "dash", "sdp", "rtsp", "rtp", "sap", "image2", "lavfi", "imf")
    assert not {*pointing, "vobsub", "webm_dash_manifest", "tty", "alsa"} & {*SOUND, *FILMS}


@pytest.mark.parametrize("lock", OPTIONS)
def test_each_lock_holds_without_the_other(secrets: Path, lock: str) -> None:
    """Even for a format that points elsewhere, FFmpeg can open nothing."""
    only = {lock: OPTIONS[lock]}
    with pytest.raises(av.FFmpegError):
        av.open(io.BytesIO(LIST.encode()), options=only)
    (secrets / "list.m3u8").write_text(PLAYLIST)
    with (secrets / "list.m3u8").open("rb") as file, pytest.raises(av.FFmpegError):
        av.open(file, options=only)


def test_kinds_inside_kinds_are_held_to_the_list_too(secrets: Path) -> None:
    with pytest.raises(av.FFmpegError):
        av.open(io.BytesIO(LIST.encode()), options={"format_whitelist": "concat,mp3"})
    with av.open(io.BytesIO(LIST.encode()), options={"format_whitelist": "concat,wav"}) as opened:
        assert opened.streams.audio


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no file"):
        read(tmp_path / "nothing.wav")
    with pytest.raises(InvalidRequest, match="is a folder"):
        read(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")
def test_a_named_pipe_is_read_and_one_that_nobody_writes_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    sound = as_wav(numpy.zeros(16_000, "float32"))
    writer = threading.Thread(target=pipe.write_bytes, args=(sound,))
    writer.start()
    samples, _ = read(pipe)
    writer.join()
    assert len(samples) == 16_000
    monkeypatch.setattr("edgewise.speech.audio.PIPE_S", 0.05)
    with pytest.raises(InvalidRequest, match="nobody has written to it"):
        read(pipe)


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


class BadDisk(io.FileIO):
    """Cannot be read beyond its first half."""

    @override
    def readinto(self, buffer: Any) -> int:
        if self.tell() > 100_000:
            raise OSError(errno.EIO, "bad block")
        return super().readinto(buffer) or 0


def test_the_readable_part_of_a_file_on_a_bad_disk_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.wav"
    path.write_bytes(as_wav(TONE))
    monkeypatch.setattr(Path, "open", lambda self, _: io.BufferedReader(BadDisk(self)))
    samples, codes = read(path)
    assert 2.0 < len(samples) / RATE < 5.0
    assert "damaged_audio" in codes


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


def test_sound_of_few_samples_per_second_is_refused_before_it_is_stretched() -> None:
    """At one per second, a frame of 8 KB would become a day of sound: 5 GB."""
    file = io.BytesIO()
    with av.open(file, "w", format="flac") as output:
        stream: Any = output.add_stream("flac", rate=20)
        stream.layout, stream.format = "mono", "s16"
        still = numpy.zeros((1, 20_000), "int16")
        frame = av.AudioFrame.from_ndarray(still, format="s16", layout="mono")
        frame.sample_rate = 20
        output.mux([*stream.encode(frame), *stream.encode(None)])
    with pytest.raises(InvalidRequest, match="20 samples per second; 4,000 to 384,000 are read"):
        read(file.getvalue())


def test_a_wav_reads_back_as_it_was_written() -> None:
    sound = voice(0.5)
    samples, _ = read(as_wav(sound))
    assert numpy.abs(samples - sound).max() < 1e-3
    loud, _ = read(as_wav(sound * 100))
    assert numpy.abs(loud).max() <= 1.0
