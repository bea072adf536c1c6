"""A vocabulary without llama.cpp gives llama.cpp's own tokens, and its grammars the same masks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.campaigns import rounds

from edgewise.errors import GenerationFailed, StoreError
from edgewise.grammar.answers import compile_answer
from edgewise.grammar.tools import compile_grammar
from edgewise.local.gguf import tokenizer_of
from edgewise.local.llama_api import load_api
from edgewise.local.llama_runtime import Weights
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Tool
from edgewise_engines import grammar
from edgewise_engines.vocabulary import Vocabulary, write_vocabulary

pytestmark = pytest.mark.real_model

Pair = tuple[Vocabulary, Weights]

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<|", "|>", "<", "user"]
SPACES = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\x85", "\u2028", "\x1c"]
PARTS = ["a", "B", "'s", "'LL", "'", "1", "23", "\u00b2", "\u00bd", "\u0663", "!", "_", "\u00e9",
         "e\u0301", "\x00", "\x04", "\x7f", "\ud800", "the", " word"]  # fmt: skip
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(min_codepoint=0x2600, max_codepoint=0x1FAFF)),
    st.lists(st.sampled_from(SPECIAL + SPACES + PARTS)).map("".join),
    st.binary().map(lambda data: data.decode("utf-8", "replace")),
    st.binary().map(lambda data: data.decode("latin-1")),
)


def cut_like(source: Path, folder: Path, cut: str) -> Path:
    """A file with the vocabulary of another, cut as another family cuts: no weights."""
    found = tokenizer_of(source)
    writer = gguf.GGUFWriter(folder / "vocabulary.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list(found["ggml.tokens"])
    writer.add_token_types(found["ggml.token_type"])
    writer.add_token_merges(found["ggml.merges"])
    writer.add_bos_token_id(found["ggml.bos_token_id"])
    writer.add_eos_token_id(found["ggml.eos_token_id"])
    writer.add_add_bos_token(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return folder / "vocabulary.gguf"


@pytest.fixture(scope="module", params=["default", "function", "qwen2"])
def pair(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    default_model: InstalledModel,
    default_function_model: InstalledModel,
) -> Iterator[Pair]:
    """Our reading of a vocabulary, and llama.cpp's."""
    folder = tmp_path_factory.mktemp("vocabulary")
    path = (default_function_model if request.param == "function" else default_model).path
    if request.param == "qwen2":
        path = cut_like(path, folder, "qwen2")
    write_vocabulary(path, folder)
    weights = Weights(load_api(), path, vocabulary_only=True)
    yield Vocabulary(folder, runtime="test"), weights
    weights.close()


def test_every_token_is_spelt_and_ends_as_in_llama_cpp(pair: Pair) -> None:
    ours, theirs = pair
    for name in ("size", "template", "bos", "eos", "adds_bos"):
        assert getattr(ours, name) == getattr(theirs, name)

    def told(words: Any) -> list[tuple[Any, ...]]:
        return [
            (words.ends(token), words.piece(token), words.piece(token, special=True))
            for token in range(words.size)
        ]

    assert told(ours) == told(theirs)


def test_every_text_is_cut_as_in_llama_cpp(pair: Pair) -> None:
    ours, theirs = pair

    @settings(max_examples=rounds(600), deadline=None, derandomize=True)
    @given(TEXTS, st.booleans())
    def check(text: str, start: bool) -> None:
        assert ours.tokenize(text, start=start) == theirs.tokenize(text, start=start)

    check()


WEATHER = Tool(
    "forecast",
    "",
    {
        "properties": {
            "place": {"type": "string"},
            "day": {"enum": ["today", "tomorrow", "\u00e9\x04"]},
            "hours": {"type": "integer", "minimum": 3, "maximum": 120},
            "level": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["place"],
    },
)
GRAMMARS: dict[str, Callable[[], str]] = {
    "calls": lambda: compile_grammar([WEATHER, Tool("lamp", "", {})]),
    "copied": lambda: compile_grammar(
        [WEATHER], "Rain in New York / \u6771\u4eac \U0001f642?", copy=True
    ),
    "schema": lambda: compile_answer(
        {
            "type": "object",
            "properties": {
                "city": {"type": "string", "pattern": "^[a-z\u00e9/\\-]+$"},
                "size": {"type": "integer"},
                "note": {"type": "string", "maxLength": 5},
            },
            "required": ["city", "size"],
        }
    ),
    "any object": lambda: compile_answer({}),
    "long list": lambda: compile_answer(
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2000}
    ),
    "many values": lambda: compile_grammar(
        [Tool("t", "", {"properties": {"x": {"enum": [f"airport_{n}" for n in range(3000)]}}})]
    ),
    "shared beginnings": lambda: (
        'root ::= "a" "bc" | "ab" "d" | [a-z]+ "ing" | "<|im_start|>" [^a]'
    ),
    "escapes": lambda: 'root ::= [\\x41-\\u0050] ("\\x41" | "\\u00e9\\n\\"")? [-a] [\\]^] # end',
    "names": lambda: 'root ::= A-b a-b\nA-b ::= "x" | "yy"\na-b ::= ("y" | "z"){2} .',
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_grammar_allows_the_same_tokens_as_in_llama_cpp(pair: Pair, name: str) -> None:
    ours, theirs = pair
    rng = random.Random(name)
    everything = np.arange(ours.size)
    steps = 0
    for _ in range(2):
        mine, other = ours.grammar(GRAMMARS[name]()), theirs.grammar(GRAMMARS[name]())
        for _ in range(rounds(15)):
            allowed = mine.allowed(everything)
            assert np.array_equal(allowed, other.allowed(everything))
            token = int(rng.choice(np.flatnonzero(allowed)))
            single = mine.allowed(np.array([token]))
            assert single.tolist() == [True]
            steps += 1
            if ours.ends(token):
                break
            mine.accept(token)
            other.accept(token)
        other.close()
    assert steps > 2


def test_one_token_is_tried_without_the_whole_mask(pair: Pair) -> None:
    ours, theirs = pair
    text = GRAMMARS["calls"]()
    other = theirs.grammar(text)
    expected = other.allowed(np.arange(ours.size))
    other.close()
    mine = ours.grammar(text)
    tokens = {*range(0, ours.size, 97), *np.flatnonzero(expected).tolist()}
    for token in sorted(tokens):
        assert mine.allowed(np.array([token])) == expected[token]


def test_a_grammar_is_read_once_and_each_answer_has_its_own_place_in_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    to_lark = grammar.to_lark

    def counted(text: str) -> str:
        read.append(text)
        return to_lark(text)

    monkeypatch.setattr(grammar, "to_lark", counted)
    words, everything = pair[0], np.arange(pair[0].size)
    one, two = words.grammar('root ::= "once" "more"'), words.grammar('root ::= "once" "more"')
    assert len(read) == 1
    begins = two.allowed(everything)
    one.accept(int(np.flatnonzero(one.allowed(everything))[0]))
    assert not np.array_equal(one.allowed(everything), begins)
    assert np.array_equal(two.allowed(everything), begins)
    assert np.array_equal(words.grammar('root ::= "once" "more"').allowed(everything), begins)


@pytest.mark.parametrize(
    "grammar",
    [
        "root ::= nowhere",
        'root ::= "open',
        "root ::= [a",
        "root ::= )",
        'other ::= "a"',
        "",
        "words",
        'root ::= "\\x1"',
        "root ::= " + "(" * 50_000,
        'root ::= "' + "a" * 1_100_000 + '"',
    ],
    ids=range(10),
)
def test_a_grammar_that_cannot_be_read_is_a_clear_error(pair: Pair, grammar: str) -> None:
    with pytest.raises(GenerationFailed, match=r"^test could not read the grammar$"):
        pair[0].grammar(grammar)


def test_a_grammar_that_allows_nothing_is_a_clear_error(pair: Pair) -> None:
    logits = np.zeros(pair[0].size, np.float32)
    rules = pair[0].grammar('root ::= "\\U0010ffff" "a" [^\\x00-\\U0010ffff]')
    with pytest.raises(GenerationFailed, match="grammar"):
        for _ in range(20):
            rules.accept(rules.best(logits))


def test_a_grammar_with_too_many_ways_ends_with_an_error(pair: Pair) -> None:
    letters = "ab" * 4
    ways = "root ::= (" + " | ".join(f'"{letters}{n}" root? root?' for n in range(40_000)) + ")"
    logits = np.zeros(pair[0].size, np.float32)
    with pytest.raises(GenerationFailed, match="grammar"):
        rules = pair[0].grammar(ways)
        for _ in range(20):
            rules.accept(rules.best(logits))


def test_an_unknown_tokenizer_is_refused_by_name(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    strange = cut_like(default_model.path, tmp_path, "gpt-4o")
    with pytest.raises(StoreError, match=r"gpt-4o.*other runtimes know qwen2, smollm"):
        write_vocabulary(strange, tmp_path)


def test_a_damaged_vocabulary_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.json").write_text("{}")
    with pytest.raises(GenerationFailed, match="test could not read the vocabulary"):
        Vocabulary(tmp_path, runtime="test")
