"""Hostile files: sound and pictures that lie, point elsewhere or unfold, and forms around them."""

from __future__ import annotations

import functools
import random
import struct
import zlib
from collections.abc import Callable, Sequence

# -- sound ----------------------------------------------------------------------------------------

SDP = (
    "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
    "m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
)
M3U8 = "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nsecret.wav\n#EXT-X-ENDLIST\n"
MPD = (
    '<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
    '<AdaptationSet mimeType="audio/wav"><Representation id="1"><BaseURL>secret.wav</BaseURL>'
    "</Representation></AdaptationSet></Period></MPD>"
)
# {here} is the server's working folder, in which there is a secret.wav; {port} is a free one.
POINTING = {
    "relative": "ffconcat version 1.0\nfile secret.wav\n",
    "address": "ffconcat version 1.0\nfile file:secret.wav\n",
    "absolute": "ffconcat version 1.0\nfile '{here}/secret.wav'\n",
    "absolute address": "ffconcat version 1.0\nfile 'file:{here}/secret.wav'\n",
    "climbing": "ffconcat version 1.0\nfile ../work/secret.wav\n",
    "asks for unsafe": "ffconcat version 1.0\nfile '{here}/secret.wav'\noption safe 0\n",
    "padded": "ffconcat version 1.0\n" + "# sound\n" * 2_000 + "file secret.wav\n",
    "a list of lists": "ffconcat version 1.0\nfile inner.ffconcat\n",
    "hls": M3U8,
    "hls of an address": M3U8.replace("secret.wav", "file:secret.wav"),
    "dash": MPD,
    "sdp": SDP,
}
OTHER = {
    "filters": b"sine=frequency=440:duration=5",
    "a pattern of pictures": b"secret%d.wav",
    "a picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02"
    b"\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00"
    b"\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82",
    "subtitles": b"WEBVTT\n\n00:00.000 --> 00:05.000\nhello\n",
}
NAMES = [("list.ffconcat", "text/plain"), ("x.wav", "audio/wav"), ("x.m3u8", "audio/mpegurl")]
FLAC_BLOCK = 65_535  # samples of a frame of `silent_flac`, which takes about 14 bytes


def wav(
    samples: bytes,
    *,
    rate: int = 16_000,
    channels: int = 1,
    bits: int = 16,
    size: int | None = None,
) -> bytes:
    """A WAV file; `size` is what it says of its samples, if that is not the truth."""
    says = len(samples) if size is None else size
    block = max(1, channels * bits // 8) & 0xFFFF
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * block & 0xFFFFFFFF, block, bits)
    head = b"RIFF" + struct.pack("<I", says + 36 & 0xFFFFFFFF) + b"WAVEfmt "
    return head + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", says) + samples


def tone(seconds: float) -> bytes:
    """16-bit samples of a steady tone, 16,000 a second."""
    return struct.pack("<8h", 0, 4000, 8000, 4000, 0, -4000, -8000, -4000) * int(seconds * 2000)


@functools.cache
def silent_flac(seconds: float, *, claims: int | None = None) -> bytes:
    """Silence as FLAC: a few bytes for every four seconds. `claims` are samples it speaks of."""
    frames = max(1, round(seconds * 16_000 / FLAC_BLOCK))
    total = (frames * FLAC_BLOCK if claims is None else claims) & (2**36 - 1)
    sizes = struct.pack(">HH", FLAC_BLOCK, FLAC_BLOCK) + bytes(6)
    facts = (16_000 << 44 | 0 << 41 | 15 << 36 | total).to_bytes(8, "big")
    info = sizes + facts + bytes(16)
    head = b"fLaC" + b"\x80" + len(info).to_bytes(3, "big") + info
    return head + b"".join(_flac_frame(number) for number in range(frames))


def _flac_frame(number: int) -> bytes:
    head = b"\xff\xf8\x75\x08" + _as_utf8(number) + struct.pack(">H", FLAC_BLOCK - 1)
    head += bytes([_crc(head, 8, 0x07)])
    body = head + b"\x00\x00\x00"  # one constant for the whole frame
    return body + struct.pack(">H", _crc(body, 16, 0x8005))


def _as_utf8(number: int) -> bytes:
    """A frame's number is written as UTF-8 would write it, surrogates and all."""
    return chr(number).encode("utf-8", "surrogatepass")


def _crc(data: bytes, bits: int, polynomial: int) -> int:
    table, mask, value = _crc_table(bits, polynomial), (1 << bits) - 1, 0
    for byte in data:
        value = value << 8 & mask ^ table[value >> bits - 8 ^ byte]
    return value


@functools.cache
def _crc_table(bits: int, polynomial: int) -> tuple[int, ...]:
    top, mask = 1 << bits - 1, (1 << bits) - 1
    values = [byte << bits - 8 for byte in range(256)]
    for _ in range(8):
        values = [
            (value << 1 ^ polynomial if value & top else value << 1) & mask for value in values
        ]
    return tuple(values)


def _mutated(rng: random.Random, data: bytes) -> bytes:
    bent = bytearray(data)
    for _ in range(rng.randint(1, 30)):
        # Most of what can go wrong is in the head of a file.
        place = rng.randrange(min(len(bent), 120) if rng.random() < 0.7 else len(bent))
        bent[place] = rng.randrange(256)
    return bytes(bent)


def _magic(rng: random.Random) -> bytes:
    starts = (
        b"OggS",
        b"ID3\x04",
        b"\xff\xfb\x90",
        b"\x1aE\xdf\xa3",
        b"\0\0\0\x18ftypmp42",
        b"FORM",
    )
    return rng.choice(starts) + rng.randbytes(rng.choice([10, 3_000, 200_000]))


SOUNDS: dict[str, Callable[[random.Random], bytes]] = {
    "nothing": lambda rng: b"",
    "a good one": lambda rng: wav(tone(1)),
    "pointing": lambda rng: rng.choice(list(POINTING.values())).encode(),
    "something else": lambda rng: rng.choice(list(OTHER.values())),
    "cut": lambda rng: wav(tone(2))[: rng.randrange(1, 64_044)],
    "says it is larger": lambda rng: wav(tone(1), size=rng.choice([2**31, 2**32 - 1, 10**9])),
    "many channels": lambda rng: wav(tone(1), channels=rng.choice([0, 64, 65_535])),
    "a strange rate": lambda rng: wav(tone(1), rate=rng.choice([0, 1, 7, 2**31, 2**32 - 1])),
    "strange bits": lambda rng: wav(tone(1), bits=rng.choice([0, 1, 7, 31, 64, 65_535])),
    "zeros": lambda rng: bytes(rng.choice([1, 4_096, 2_000_000])),
    "mutated wav": lambda rng: _mutated(rng, wav(tone(1))),
    "mutated flac": lambda rng: _mutated(rng, silent_flac(30)),
    "flac that lies": lambda rng: silent_flac(5, claims=rng.choice([1, 2**36 - 1])),
    "long silence": lambda rng: silent_flac(rng.choice([600, 3_600, 36_000])),
    "endless silence": lambda rng: silent_flac(360_000),
    "a magic word": _magic,
    "low rate": lambda rng: wav(bytes(2_000_000), rate=8, bits=8),
}


def hostile_sound(rng: random.Random) -> tuple[str, bytes, str, str]:
    """What it is, the bytes, and the name and kind that it is sent under."""
    weights = [1 if name in ("long silence", "endless silence") else 4 for name in SOUNDS]
    name = rng.choices(list(SOUNDS), weights)[0]
    return (name, SOUNDS[name](rng), *rng.choice(NAMES))


def form(fields: dict[str, str], file: tuple[str, bytes, str] | None) -> tuple[str, bytes]:
    """A form's content type and body; the file is its name, bytes and kind."""
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    if file is not None:
        name, data, kind = file
        head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(f"{head}Content-Type: {kind}\r\n\r\n".encode() + data + b"\r\n")
    return "multipart/form-data; boundary=edge", b"".join(parts) + b"--edge--\r\n"


def broken_form(rng: random.Random) -> tuple[str, str, bytes]:
    """What is wrong with it, its content type and its body."""
    kind, good = form({"model": "auto"}, ("x.wav", wav(tone(0.5)), "audio/wav"))
    many = {f"field{number}": "x" for number in range(3_000)}
    table: dict[str, tuple[str, bytes]] = {
        "no boundary": ("multipart/form-data", good),
        "another boundary": ("multipart/form-data; boundary=other", good),
        "a long boundary": (f"multipart/form-data; boundary={'b' * 9_000}", good),
        "json": ("application/json", b"{}"),
        "no end": (kind, good[:-8]),
        "no file": form({"model": "auto"}, None),
        "many fields": form(many, None),
        "a long field": form({"model": "x" * 3_000_000}, None),
        "a long name": form({"n" * 500_000: "x"}, None),
        "many files": (kind, good.replace(b"--edge--\r\n", b"") * 120 + b"--edge--\r\n"),
        "heads without end": (kind, b"--edge\r\n" + b"x-a: b\r\n" * 100_000),
        "no dispositions": (kind, b"--edge\r\n\r\nx\r\n" * 50 + b"--edge--\r\n"),
        "mutated": (kind, _mutated(rng, good)),
        "wrong values": form(
            {"model": "\0", "temperature": "nan", "response_format": "x", "stream": "perhaps"},
            ("x.wav", wav(tone(0.2)), "audio/wav"),
        ),
    }
    name = rng.choice(list(table))
    return (name, *table[name])


# -- pictures -------------------------------------------------------------------------------------


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + check


def png(
    width: int, height: int, *, rows: int | None = None, extra: Sequence[bytes] = (), bits: int = 1
) -> bytes:
    """A grey picture of zeros, this many bits a pixel; `rows` are there, if not all of them."""
    pack = zlib.compressobj(9)
    row = bytes(1 + (width * bits + 7) // 8)
    count = height if rows is None else rows
    data = b"".join(pack.compress(row * min(512, count - start)) for start in range(0, count, 512))
    head = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, bits, 0, 0, 0, 0)
    parts = [_chunk(b"IHDR", head), *extra, _chunk(b"IDAT", data + pack.flush())]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + _chunk(b"IEND", b"")


def _gif(frames: int, width: int, height: int) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return head + frame * frames + b"\x3b"


def _text_bomb() -> bytes:
    return _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(30_000_000), 9))


PICTURES: dict[str, Callable[[random.Random], bytes]] = {
    "a good one": lambda rng: png(40, 30),
    "nothing": lambda rng: b"",
    "as large as may be": lambda rng: png(7_071, 7_071),
    "larger than may be": lambda rng: png(20_000, 20_000, rows=1),
    "as large as a number": lambda rng: png(2**31 - 1, 2**31 - 1, rows=0),
    "of no size": lambda rng: png(0, rng.choice([0, 5]), rows=3),
    "long and thin": lambda rng: png(49_000_000, 1),
    "fewer rows than it says": lambda rng: png(3_000, 3_000, rows=10),
    "more rows than it says": lambda rng: png(10, 10, rows=200_000),
    "a text that unfolds": lambda rng: png(10, 10, extra=[_text_bomb()]),
    "many texts": lambda rng: png(10, 10, extra=[_chunk(b"tEXt", b"a\0b")] * 20_000),
    "cut": lambda rng: png(300, 300)[: rng.randrange(10, 90)],
    "mutated": lambda rng: _mutated(rng, png(300, 300)),
    "many frames": lambda rng: _gif(20_000, 10, 10),
    "a large gif": lambda rng: _gif(3, 65_535, 65_535),
    "jpeg noise": lambda rng: b"\xff\xd8\xff\xe0\0\x10JFIF\0" + rng.randbytes(5_000),
    "webp noise": lambda rng: b"RIFF\xff\xff\xff\x7fWEBPVP8L" + rng.randbytes(3_000),
    "tiff": lambda rng: b"II*\0\x08\0\0\0" + rng.randbytes(300),
    "svg": lambda rng: b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///x"/></svg>',
}


def hostile_pictures(rng: random.Random) -> tuple[str, list[bytes]]:
    """One bad picture, or many that are good each but too much together."""
    if rng.random() < 0.15:
        count, size = rng.choice([(20, 7_071), (20, 2_000), (21, 10), (6, 7_071), (500, 4)])
        return f"{count} pictures of {size} by {size}", [png(size, size)] * count
    name = rng.choice(list(PICTURES))
    return name, [PICTURES[name](rng)]
