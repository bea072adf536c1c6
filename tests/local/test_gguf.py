"""What the beginning of a GGUF file says."""

from __future__ import annotations

import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from gguf import GGUFWriter

from edgewise.errors import StoreError
from edgewise.grammar.tools import PLAIN_BYTES
from edgewise.local.convert import _open
from edgewise.local.gguf import (
    architecture_of,
    chat_template_of,
    layers_of,
    quantisation_of,
    spelt_bytes,
)
from tests.campaigns import rounds
from tests.local.fake_packages import real_default_weights, write_tiny_gguf


def test_a_file_written_by_the_gguf_package_is_read(tmp_path: Path) -> None:
    write_tiny_gguf(tmp_path / "tiny.gguf")
    assert quantisation_of(tmp_path / "tiny.gguf") == "Q4_1"


@pytest.mark.real_model
def test_the_real_default_weights_are_read() -> None:
    assert quantisation_of(real_default_weights()) == "Q4_1"
    assert layers_of(real_default_weights()) == 30


def test_the_type_is_found_behind_values_of_every_kind(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "all.gguf", "llama")
    writer.add_uint8("a", 1)
    writer.add_int8("b", 1)
    writer.add_uint16("c", 1)
    writer.add_int16("d", 1)
    writer.add_uint32("e", 1)
    writer.add_int32("f", 1)
    writer.add_float32("g", 1.0)
    writer.add_uint64("h", 1)
    writer.add_int64("i", 1)
    writer.add_float64("j", 1.0)
    writer.add_bool("k", True)
    writer.add_string("l", "text")
    writer.add_array("m", ["one", "two"])
    writer.add_array("n", [1, 2, 3])
    writer.add_file_type(15)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert quantisation_of(tmp_path / "all.gguf") == "Q4_K_M"


@pytest.mark.real_model
def test_the_default_vocabulary_spells_plain_text_but_not_every_byte() -> None:
    spelt = spelt_bytes(real_default_weights())
    assert spelt >= PLAIN_BYTES
    assert not spelt & {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}


def vocabulary(path: Path, model: str, tokens: list[str]) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_bytes_are_spelt_as_letters_or_as_numbers(tmp_path: Path) -> None:
    letters = vocabulary(tmp_path / "letters.gguf", "gpt2", ["a", "é", "Ġ", "Ċ", "ab", "<0x42>"])
    assert spelt_bytes(letters) == {0x61, 0xE9, 0x20, 0x0A}
    numbers = vocabulary(tmp_path / "numbers.gguf", "llama", ["a", "é", "<0x42>", "<0xE9>"])
    assert spelt_bytes(numbers) == {0x42, 0xE9}


def test_a_file_that_does_not_say_is_unknown(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "silent.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert quantisation_of(tmp_path / "silent.gguf") == "unknown"
    assert spelt_bytes(tmp_path / "silent.gguf") == frozenset()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04 this is a zip file", "not a GGUF file"),
        (b"", "not a GGUF file"),
        (b"GGUF\x03\x00", "breaks inside its GGUF header"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 40), "not a readable"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sI", 1, b"a", 99), "type 99"),
    ],
)
def test_what_is_not_gguf_is_refused_with_a_reason(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=said):
        quantisation_of(path)


def test_a_file_that_cannot_be_opened_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        quantisation_of(tmp_path)


READERS = (architecture_of, chat_template_of, layers_of, quantisation_of, spelt_bytes, _open)
HUGE = (0, 1, 255, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A header that a disk, a download or an attacker has changed."""
    found = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(4, len(found) - 8)
        match chance.randrange(4):
            case 0:
                found[place] = chance.randrange(256)
            case 1:
                found[place : place + 8] = struct.pack("<Q", chance.choice(HUGE))
            case 2:
                found[place : place + 4] = struct.pack("<I", chance.randrange(14))
            case 3:
                del found[place + 8 :]
        if len(found) < 32:
            break
    return bytes(found)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_header_is_one_kind_of_error_whatever_is_damaged(
    tmp_path: Path, seed: int
) -> None:
    chance, path = random.Random(seed), tmp_path / "damaged.gguf"
    sound = vocabulary(tmp_path / "sound.gguf", "gpt2", ["a", "b", "\u0120c"]).read_bytes()
    for _ in range(rounds(400)):
        path.write_bytes(damaged(sound, chance))
        for read in READERS:
            with suppress(StoreError):
                read(path)


@pytest.mark.parametrize(
    "value",
    [
        struct.pack("<IQ", 8, 2**64 - 1),  # text
        struct.pack("<IIQ", 9, 10, 2**62),  # numbers
        struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5_000,  # lists in lists
    ],
    ids=["endless text", "endless list", "deep lists"],
)
def test_a_length_that_no_file_has_is_refused(tmp_path: Path, value: bytes) -> None:
    path = tmp_path / "hostile.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    path.write_bytes(head + struct.pack("<Q", 1) + b"k" + value)
    with pytest.raises(StoreError, match="GGUF header"):
        quantisation_of(path)
