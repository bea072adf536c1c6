"""Which kinds of file are read as sound; what is told of those that only point at other files.

FFmpeg guesses what a file is from its content. Among what it knows are lists, playlists and stream
descriptions, for which it opens whatever they name: files of this machine, addresses, ports. A file
may come from a stranger, so that only kinds which hold their sound themselves are read, and FFmpeg
is allowed to open nothing: what it reads, we have opened.
"""

from __future__ import annotations

import re

SOUND = (
    "aac", "aa", "ac3", "aiff", "alaw", "amr", "amrnb", "amrwb", "ape", "aptx", "aptx_hd", "ast",
    "au", "caf", "codec2", "dsf", "dss", "dts", "dtshd", "eac3", "flac", "g722", "g723_1", "g726",
    "g726le", "g729", "gsm", "iff", "ilbc", "ircam", "lc3", "loas", "mlp", "mp3", "mpc", "mpc8",
    "mulaw", "nistsphere", "ogg", "oma", "pvf", "qcp", "sbc", "shn", "sln", "sox", "spdif", "tak",
    "truehd", "tta", "voc", "w64", "wav", "wsd", "wv", "wve", "xwma",
)  # fmt: skip
FILMS = (
    "asf", "avi", "dv", "flv", "gxf", "matroska", "mov", "mpeg", "mpegts", "mxf", "nut", "rm",
    "swf", "webm", "wtv",
)  # fmt: skip

# For `av.open`. Both hold for files inside files too, and each would do without the other.
OPTIONS = {"format_whitelist": ",".join((*SOUND, *FILMS)), "protocol_whitelist": ""}

HEAD_BYTES = 2_000  # of a file, to see what it is

_POINTING = (
    (rb"ffconcat version", "a list of other files (ffconcat)"),
    (rb"#EXTM3U", "a playlist (M3U)"),
    (rb"\[playlist\]", "a playlist (PLS)"),
    (rb"(?s:.*)<MPD[\s>]", "a playlist (DASH)"),
    (rb"(?s:.*)<(?i:asx|smil|playlist)[\s>]", "a playlist (XML)"),
    (rb"v=0\s|(?s:.*)^c=IN IP", "a description of a stream (SDP)"),
)


def what_it_points_with(head: bytes) -> str:
    """What a file is that refers to others, in words; empty where it is none of those known."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, words in _POINTING:
        if re.match(pattern, head, re.MULTILINE):
            return words
    return ""
