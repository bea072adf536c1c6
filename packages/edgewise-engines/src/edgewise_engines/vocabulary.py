"""A model's vocabulary without llama.cpp: what its GGUF header says, read by `tokenizers`.

`write_vocabulary` writes it once, beside a runtime's weights; `Vocabulary` reads it. Both give
llama.cpp's own tokens, so a runtime is asked exactly what llama.cpp would be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import GenerationFailed, StoreError
from edgewise.local.backend import TEMPLATE
from edgewise.local.gguf import spelling_of_bytes, tokenizer_of

if TYPE_CHECKING:  # brings numpy, which loads slowly
    from edgewise_engines.grammar import GuidedGrammar

TOKENIZER, ABOUT = "tokenizer.json", "vocabulary.json"

# How a text is cut before its letters are merged, by the header's `tokenizer.ggml.pre`: llama.cpp's
# own expressions.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_CUTS = {
    "smollm": (r"\p{N}", _GPT2),
    "qwen2": (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
_ABSENT = "\0"  # what stands for a byte without a token, so that its neighbours are not merged
# Kinds of tokens (`tokenizer.ggml.token_type`).
_UNKNOWN, _CONTROL, _OWN, _UNUSED = 2, 3, 4, 5
# Tokens that end an answer whatever the header says, by llama.cpp's list.
_ENDS = frozenset({
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<end_of_utterance>", "<eos>", "<|fim_pad|>",
    "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>",
})  # fmt: skip
# Reading a grammar costs more than writing a short call under it, and the next request of an
# application has the same tools.
_MOST_GRAMMARS, _LONGEST_KEPT = 16, 50_000
_END_IDS = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")


def write_vocabulary(gguf: Path, folder: Path) -> None:
    """Write what the header of a file says into three files of a folder.

    Raises StoreError if its tokenizer is none of those that are known here.
    """
    header = tokenizer_of(gguf)
    model, cut = header.get("ggml.model"), header.get("ggml.pre", "")
    if model != "gpt2" or cut not in _CUTS:
        raise StoreError(
            f"{gguf.name}: its tokenizer ({model}, {cut or 'no name'}) is known to llama.cpp only;"
            f" other runtimes know {', '.join(sorted(_CUTS))}"
        )
    tokens: Sequence[str] = header["ggml.tokens"]
    kinds: Sequence[int] = header["ggml.token_type"]
    ends = {place for place, token in enumerate(tokens) if token in _ENDS}
    ends |= {header[key] for name in _END_IDS if (key := _key(name)) in header}
    of_kind = {
        kind: [place for place, each in enumerate(kinds) if each == kind and place not in ends]
        for kind in (_UNKNOWN, _CONTROL, _OWN, _UNUSED)
    }
    hidden = sorted({*of_kind[_UNKNOWN], *of_kind[_CONTROL], *ends})
    about = {
        "size": len(tokens),
        "bos": header.get(_key("bos")),
        "eos": header.get(_key("eos")),
        "adds_bos": header.get("ggml.add_bos_token", False),
        "ends": sorted(ends),
        "hidden": hidden,
        "own": of_kind[_OWN],
        "unused": of_kind[_UNUSED],
    }
    single = sorted({*of_kind[_CONTROL], *of_kind[_OWN], *of_kind[_UNKNOWN], *ends})
    _write(folder / ABOUT, json.dumps(about))
    _write(folder / TEMPLATE, header.get("chat_template", ""))
    _write(
        folder / TOKENIZER,
        _tokenizer(tokens, header["ggml.merges"], _CUTS[cut], single),
    )


def with_vocabulary(convert: Callable[..., str]) -> Callable[..., str]:
    """A conversion that writes the vocabulary, too."""

    @wraps(convert)
    def both(source: Path, folder: Path, *rest: Any, **options: Any) -> str:
        file = convert(source, folder, *rest, **options)
        write_vocabulary(source, folder)
        return file

    return both


def _key(name: str) -> str:
    return f"ggml.{name}_token_id"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _tokenizer(
    tokens: Sequence[str], merges: Sequence[str], cuts: Sequence[str], single: Sequence[int]
) -> str:
    """The file of the `tokenizers` package. `single` tokens are never cut out of other texts."""
    split = [
        {"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": False}
        for cut in cuts
    ]
    plain = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    letters = {"type": "ByteLevel", **plain}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    written = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": place, "content": tokens[place], **added, "special": True} for place in single
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, letters]},
        "post_processor": None,
        "decoder": letters,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": _ABSENT,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: place for place, token in enumerate((*tokens, _ABSENT))},
            "merges": list(merges),
        },
    }
    return json.dumps(written, ensure_ascii=False)


class Vocabulary:
    """The tokens of a model, from the folder that `write_vocabulary` filled.

    `runtime` is whose it is, as errors call it.
    """

    def __init__(self, folder: Path, *, runtime: str) -> None:
        self._runtime = runtime
        from tokenizers import Tokenizer  # noqa: PLC0415 - comes with the runtime's extra

        try:
            about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            self.template = (folder / TEMPLATE).read_text(encoding="utf-8")
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:
            told = f"{runtime} could not read the vocabulary in {folder}"
            raise GenerationFailed(told) from error
        self.size = int(about["size"])
        self.adds_bos = bool(about["adds_bos"])
        self._bos: int | None = about["bos"]
        self._eos: int | None = about["eos"]
        self._ends = frozenset[int](about["ends"])
        self._hidden = frozenset[int](about["hidden"])
        self._raw = self._hidden | frozenset[int](about["own"])
        self._unused = frozenset[int](about["unused"])
        self._bytes = spelling_of_bytes()
        self._grammars: dict[str, GuidedGrammar] = {}  # that were read, each where it begins

    @property
    def bos(self) -> str:
        return "" if self._bos is None else self.name_of(self._bos)

    @property
    def eos(self) -> str:
        return "" if self._eos is None else self.name_of(self._eos)

    @cached_property
    def spelt_bytes(self) -> frozenset[int]:
        """The bytes that the model has a token for."""
        known = self._tokenizer.get_vocab()
        return frozenset(byte for letter, byte in self._bytes.items() if letter in known)

    def tokenize(self, text: str, *, start: bool = True) -> list[int]:
        """The tokens of a text, special ones included. `start`: with what begins every prompt."""
        readable = text.encode("utf-8", "replace").decode("utf-8")
        found = self._tokenizer.encode(readable, add_special_tokens=False).ids
        tokens = [token for token in found if token < self.size]
        begun = start and self.adds_bos and self._bos is not None
        return [self._bos, *tokens] if begun and self._bos is not None else tokens

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; of a special one only if asked for."""
        if token in self._unused or (token in self._hidden and not special):
            return b""
        text = self._tokenizer.id_to_token(token) or ""
        if token in self._raw:
            return bytes(text.encode("utf-8"))
        spelt = [self._bytes.get(letter) for letter in text]
        if None in spelt:  # not of this alphabet
            return bytes(text.encode("utf-8"))
        return bytes(byte for byte in spelt if byte is not None)

    def name_of(self, token: int) -> str:
        return self.piece(token, special=True).decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        return token in self._ends

    def grammar(self, text: str) -> GuidedGrammar:
        from edgewise_engines.grammar import GuidedGrammar  # noqa: PLC0415 - loads numpy

        if (read := self._grammars.get(text)) is None:
            read = GuidedGrammar.read(self._guided, self._ends, text, runtime=self._runtime)
            if len(self._grammars) >= _MOST_GRAMMARS:
                self._grammars.clear()
            if len(text) <= _LONGEST_KEPT:
                self._grammars[text] = read
        return read.again()

    @cached_property
    def _guided(self) -> Any:
        """llguidance's view of the tokens. Only those that end an answer are no text to it."""
        from llguidance import LLTokenizer, TokenizerWrapper  # noqa: PLC0415 - as above

        ends = sorted(self._ends)
        return LLTokenizer(TokenizerWrapper(_Tokens(self, ends)), eos_token=ends)


class _Tokens:
    """A vocabulary, in the form that llguidance takes it."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary, ends: list[int]) -> None:
        self.eos_token_id = ends[0]
        self.special_token_ids = ends
        self.tokens = [vocabulary.piece(token, special=True) for token in range(vocabulary.size)]
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        spelt = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return self._vocabulary.tokenize(spelt, start=False)
