"""Reads what the header of a GGUF file says: quantisation, architecture, vocabulary, template."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from edgewise.errors import StoreError

Found = TypeVar("Found")

# Sizes of the plain GGUF value types, by their number in the file.
_PLAIN = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_FORMS = dict(zip(_PLAIN, "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY, _UINT32 = 8, 9, 4

# How a vocabulary writes the token of one byte: as a letter (GPT-2's way; bytes that are no letters
# are at 256 and above), or as its number.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = sorted(set(range(256)) - set(_VISIBLE))
_LETTERS = {chr(byte).encode(): byte for byte in _VISIBLE} | {
    chr(256 + number).encode(): byte for number, byte in enumerate(_HIDDEN)
}
_NUMBERS = {f"<0x{byte:02X}>".encode(): byte for byte in range(256)}

# general.file_type, by llama.cpp's numbers.
_FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4",
}


def quantisation_of(path: Path) -> str:
    """llama.cpp's name for the file's mix of types; "unknown" if the file does not say.

    Reads only up to the answer: the `gguf` package would parse the whole vocabulary first.
    """
    return _read(path, _read_file_type)


def architecture_of(path: Path) -> str:
    """llama.cpp's name for how the model computes; empty if the file cannot be read."""
    try:
        return _read(path, _read_architecture)
    except StoreError:
        return ""  # whoever loads it will say what is wrong


def layers_of(path: Path) -> int:
    """How many layers the model has; 0 if the file does not say."""
    return _read(path, _read_layers)


def matrix_kinds_of(path: Path) -> frozenset[int]:
    """The quantisations of the model's matrices, by ggml's numbers."""
    return _read(path, _read_matrix_kinds)


def cache_bytes_of(path: Path) -> int:
    """What the context of one token takes in memory, as 16-bit keys and values of every layer."""
    facts = _read(path, _read_shape)
    heads = facts.get("attention.head_count", 1)
    wide = facts.get("embedding_length", 0) // max(1, heads)  # of one head
    key, value = (facts.get(f"attention.{name}_length", wide) for name in ("key", "value"))
    kept = facts.get("attention.head_count_kv", heads)
    return 2 * facts.get("block_count", 0) * kept * (key + value)


def chat_template_of(path: Path) -> str:
    """The model's chat template; empty if it has none, or was trained by edgewise for calls.

    Takes about 0.2 s for a large vocabulary, which comes before it in the file.
    """
    try:
        return _read(path, _read_template)
    except StoreError:
        return ""  # whoever loads it will say what is wrong


def spelt_bytes(path: Path) -> frozenset[int]:
    """The bytes that the model has a token for, so that it can write any text of them.

    Takes about 15 ms for a vocabulary of 50,000 tokens.
    """
    return _read(path, _read_bytes)


def tokenizer_of(path: Path) -> dict[str, Any]:
    """Every value about the tokenizer, by its name behind `tokenizer.`.

    Takes about 0.2 s for a vocabulary of 50,000 tokens.
    """
    return _read(path, _read_tokenizer)


def spelling_of_bytes() -> dict[str, int]:
    """GPT-2's way to write a token: the letter of each byte."""
    return {letter.decode(): byte for letter, byte in _LETTERS.items()}


def _read(path: Path, work: Callable[[BinaryIO], Found]) -> Found:
    try:
        with path.open("rb") as file:
            return work(file)
    except (struct.error, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise StoreError(f"{str(path)!r} ends or breaks inside its GGUF header") from error
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _read_file_type(file: BinaryIO) -> str:
    for key, kind in _keys(file):
        if key == b"general.file_type" and kind == _UINT32:
            (number,) = struct.unpack("<I", file.read(4))
            return _FILE_TYPES.get(number, "unknown")
        _skip_value(file, kind)
    return "unknown"


def _read_architecture(file: BinaryIO) -> str:
    for key, kind in _keys(file):
        if key == b"general.architecture" and kind == _STRING:
            return _read_string(file).decode()
        _skip_value(file, kind)
    return ""


def _read_layers(file: BinaryIO) -> int:
    for key, kind in _keys(file):
        if key.endswith(b".block_count") and kind == _UINT32:
            (number,) = struct.unpack("<I", file.read(4))
            return int(number)
        _skip_value(file, kind)
    return 0


def _read_shape(file: BinaryIO) -> dict[str, int]:
    """The numbers of the architecture, by name; the tokenizer's keys come after them."""
    found: dict[str, int] = {}
    for key, kind in _keys(file):
        if key.startswith(b"tokenizer."):
            break
        if kind == _UINT32:
            found[key.decode().partition(".")[2]] = struct.unpack("<I", file.read(4))[0]
        else:
            _skip_value(file, kind)
    return found


def _read_template(file: BinaryIO) -> str:
    found = ""
    for key, kind in _keys(file):
        if key.startswith(b"edgewise."):  # merged with an adapter of ours: its base's template
            return ""
        if key == b"tokenizer.chat_template" and kind == _STRING:
            found = _read_string(file).decode("utf-8", "replace")
        else:
            _skip_value(file, kind)
    return found


def _read_bytes(file: BinaryIO) -> frozenset[int]:
    model, tokens = b"", list[bytes]()
    for key, kind in _keys(file):
        if key == b"tokenizer.ggml.model" and kind == _STRING:
            model = _read_string(file)
        elif key == b"tokenizer.ggml.tokens" and kind == _ARRAY:
            element, count = struct.unpack("<IQ", file.read(12))
            if element != _STRING:
                break
            tokens = [_read_string(file) for _ in range(count)]
        else:
            _skip_value(file, kind)
        if model and tokens:
            break
    spelling = _LETTERS if model == b"gpt2" else _NUMBERS
    return frozenset(spelling[token] for token in tokens if token in spelling)


def _read_matrix_kinds(file: BinaryIO) -> frozenset[int]:
    for _, kind in _keys(file):
        _skip_value(file, kind)
    end = file.tell()
    file.seek(8)
    (tensors,) = struct.unpack("<Q", file.read(8))
    file.seek(end)
    found = set()
    for _ in range(tensors):
        _read_string(file)
        (dimensions,) = struct.unpack("<I", file.read(4))
        kind, _offset = struct.unpack("<IQ", file.read(8 * dimensions + 12)[8 * dimensions :])
        if dimensions > 1:
            found.add(kind)
    return frozenset(found)


def _read_tokenizer(file: BinaryIO) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, kind in _keys(file):
        if key.startswith(b"tokenizer."):
            found[key.decode().partition(".")[2]] = _read_value(file, kind)
        else:
            _skip_value(file, kind)
    return found


def _keys(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Every key with its type. Read or skip the value before asking for the next key."""
    if file.read(4) != b"GGUF":
        raise StoreError(f"{file.name!r} is not a GGUF file")
    _version, _tensors, keys = struct.unpack("<IQQ", file.read(20))
    for _ in range(keys):
        key = _read_string(file)
        (kind,) = struct.unpack("<I", file.read(4))
        yield key, kind


def _read_string(file: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > 1 << 20:
        raise StoreError(f"{file.name!r} is not a readable GGUF file: a name of {length} bytes")
    return file.read(length)


def _read_value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _read_string(file).decode("utf-8", "replace")
    if kind != _ARRAY:
        return struct.unpack(f"<{_FORMS[kind]}", file.read(_PLAIN[kind]))[0]
    element, count = struct.unpack("<IQ", file.read(12))
    if element in _PLAIN:
        data = file.read(_PLAIN[element] * count)
        return list(struct.unpack(f"<{count}{_FORMS[element]}", data))
    return [_read_value(file, element) for _ in range(count)]


def _skip_value(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        (length,) = struct.unpack("<Q", file.read(8))
        file.seek(length, 1)
    elif kind == _ARRAY:
        element, count = struct.unpack("<IQ", file.read(12))
        if element in _PLAIN:
            file.seek(_PLAIN[element] * count, 1)
        else:
            for _ in range(count):
                _skip_value(file, element)
    elif kind in _PLAIN:
        file.seek(_PLAIN[kind], 1)
    else:
        raise StoreError(f"{file.name!r} holds a GGUF value of unknown type {kind}")
