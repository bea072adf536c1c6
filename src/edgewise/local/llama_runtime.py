"""llama.cpp's side of the decode loop (decoder.py): its weights, its grammars, one pass of it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from edgewise.errors import GenerationFailed
from edgewise.local.decoder import BATCH, Floats, PrefixFiles, Rules, Saver, SlotPart
from edgewise.local.llama_api import (
    LAYER_ARCHITECTURES,
    Api,
    Batch,
    Candidates,
    TokenData,
    c_function,
    quiet,
)

MOST_VIEWS = 1_000
_CALLED_OFF = 2  # of a pass: its abort flag was set
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Weights:
    """A loaded model: its vocabulary, its template, and what it says about itself."""

    def __init__(
        self, api: Api, path: Path, *, gpu_layers: int = 0, vocabulary_only: bool = False
    ) -> None:
        self.api, self.path = api, path
        params = api.model_default_params()
        params.n_gpu_layers, params.vocab_only = gpu_layers, vocabulary_only
        self.pointer = api.model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise GenerationFailed(f"llama.cpp could not load {path}")
        self.vocab = api.model_get_vocab(self.pointer)
        self.size = int(api.vocab_n_tokens(self.vocab))
        self.width = int(api.model_n_embd(self.pointer))
        self.layers = int(api.model_n_layer(self.pointer))
        self.template = (api.model_chat_template(self.pointer, None) or b"").decode(
            "utf-8", "replace"
        )
        self.gives_layers = self.told("general.architecture") in LAYER_ARCHITECTURES
        self._pieces: dict[tuple[int, bool], bytes] = {}

    def told(self, name: str) -> str:
        """A value of the file's metadata as text; empty if it has none."""
        room = ctypes.create_string_buffer(256)
        length = self.api.model_meta_val_str(self.pointer, name.encode(), room, len(room))
        return room.value.decode("utf-8", "replace") if length >= 0 else ""

    def tokenize(self, text: str, *, start: bool = True) -> list[int]:
        """The tokens of a text, special ones included. `start`: with what begins every prompt."""
        data = text.encode("utf-8", "replace")
        room = (ctypes.c_int32 * (len(data) + 8))()
        count = self.api.tokenize(self.vocab, data, len(data), room, len(room), start, True)
        if count < 0:
            raise GenerationFailed("llama.cpp could not read the prompt's text")
        return list(room[:count])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; of a special one only if asked for."""
        key = (token, special)
        if key not in self._pieces:
            room = ctypes.create_string_buffer(256)
            call = self.api.token_to_piece
            length = call(self.vocab, token, room, len(room), 0, special)
            if length < 0:
                room = ctypes.create_string_buffer(-length)
                length = call(self.vocab, token, room, len(room), 0, special)
            self._pieces[key] = room.raw[:length]
        return self._pieces[key]

    def name_of(self, token: int) -> str:
        return self.piece(token, special=True).decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        return bool(self.api.vocab_is_eog(self.vocab, token))

    def grammar(self, text: str) -> Grammar:
        return Grammar(self, text)

    @property
    def bos(self) -> str:
        token = int(self.api.vocab_bos(self.vocab))
        return self.name_of(token) if token >= 0 else ""

    @property
    def eos(self) -> str:
        token = int(self.api.vocab_eos(self.vocab))
        return self.name_of(token) if token >= 0 else ""

    @property
    def adds_bos(self) -> bool:
        return bool(self.api.vocab_get_add_bos(self.vocab))

    def close(self) -> None:
        if self.pointer:
            self.api.model_free(self.pointer)
            self.pointer = None


class Grammar(Rules):
    """What may be written next, by llama.cpp's grammar. Only grammars that we wrote come here."""

    def __init__(self, weights: Weights, text: str) -> None:
        self._api = weights.api
        with quiet():
            self._pointer = self._api.sampler_init_grammar(weights.vocab, text.encode(), b"root")
        if not self._pointer:
            raise GenerationFailed("llama.cpp could not read the grammar")

    @override
    def allowed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        rows = np.zeros(len(tokens), _CANDIDATE)
        rows["id"] = tokens
        pointer = rows.ctypes.data_as(ctypes.POINTER(TokenData))
        self._api.sampler_apply(
            self._pointer, ctypes.byref(Candidates(pointer, len(rows), -1, False))
        )
        fitting: npt.NDArray[np.bool_] = rows["logit"] == 0
        return fitting

    @override
    def none_left(self) -> GenerationFailed:
        return GenerationFailed("llama.cpp: the grammar allows no token")

    @override
    def accept(self, token: int) -> None:
        """Only for a token that is allowed: another one would end the process."""
        self._api.sampler_accept(self._pointer, token)

    @override
    def close(self) -> None:
        if self._pointer:
            self._api.sampler_free(self._pointer)
            self._pointer = None


class LlamaRuntime:
    """A context of llama.cpp. All slots share each pass through the weights."""

    name = "llama.cpp"

    def __init__(self, weights: Weights, *, threads: int, context_tokens: int, slots: int) -> None:
        api = self._api = weights.api
        self.vocabulary = weights
        params = api.context_default_params()
        params.n_ctx, params.n_seq_max = context_tokens * slots, slots
        params.n_batch = params.n_ubatch = params.n_outputs_max_per_seq = BATCH
        params.n_threads = params.n_threads_batch = threads
        self._context = api.init_from_model(weights.pointer, params)
        if not self._context:
            raise GenerationFailed(f"llama.cpp has no memory for {weights.path.name}")
        self._check(threads, slots)
        self._memory = api.get_memory(self._context)
        self.slots = slots
        self.room = int(api.n_ctx_seq(self._context))
        # Read by the runtime between operations: any digit but 0 makes it stop. No Python runs.
        self._flag = ctypes.create_string_buffer(b"0")
        api.set_abort_callback(
            self._context, c_function("atoi"), ctypes.cast(self._flag, ctypes.c_void_p)
        )
        self._batch = _Arrays(BATCH)
        self.saver: Saver | None = self
        self.repeatable = True
        self.prefixes = PrefixFiles(
            weights.path, f"{weights.api.release} {params.type_k}/{params.type_v}"
        )
        self._views: dict[tuple[int, int], Floats] = {}
        self._layers: set[int] = set()

    def _check(self, threads: int, slots: int) -> None:
        """What was asked for must be what is there: a field that moved shows here."""
        api, context = self._api, self._context
        found = (
            api.n_batch(context),
            api.n_ubatch(context),
            api.n_seq_max(context),
            api.n_threads(context),
        )
        if found != (BATCH, BATCH, slots, threads):
            raise GenerationFailed(f"llama.cpp took other settings than it was given: {found}")

    def read(self, parts: Sequence[SlotPart], layers: set[int]) -> Iterator[LlamaRows]:
        """All parts in one pass."""
        batch, rows = self._batch, list[LlamaRows]()
        batch.clear()
        for part in parts:
            batch.add(part.slot, part.position, part.tokens, outputs=part.answers)
            rows.append(LlamaRows(self, len(batch) - part.answers))
        self._watch(layers)
        status = self._api.decode(self._context, batch.filled())
        if status == _CALLED_OFF:
            return
        if status != 0:
            raise GenerationFailed(f"llama.cpp failed in a pass ({status})")
        yield from rows

    def interrupt(self) -> None:
        self._flag.value = b"1"

    def resume(self) -> None:
        self._flag.value = b"0"

    def cut(self, slot: int, length: int) -> int:
        if self._api.memory_seq_rm(self._memory, slot, length, -1):
            return length
        self._api.memory_seq_rm(self._memory, slot, -1, -1)
        return 0

    def save(self, slot: int) -> Any:
        size = self._api.state_seq_get_size(self._context, slot)
        room = (ctypes.c_uint8 * size)()
        self._api.state_seq_get_data(self._context, room, size, slot)
        return room

    def restore(self, slot: int, state: Any) -> bool:
        size = len(state)
        room = (
            (ctypes.c_uint8 * size).from_buffer_copy(state) if isinstance(state, bytes) else state
        )
        return bool(self._api.state_seq_set_data(self._context, room, size, slot))

    def close(self) -> None:
        if self._context:
            self._api.free(self._context)
            self._context = None
            self.vocabulary.close()

    def logits(self, row: int) -> Floats:
        address = self._api.get_logits_ith(self._context, row)
        if not address:
            raise GenerationFailed("llama.cpp gave no logits")
        return self._floats_at(address, self.vocabulary.size)

    def state(self, row: int, layer: int) -> Floats | None:
        if layer not in self._layers:
            return None
        address = self._api.get_embeddings_layer_inp(self._context, layer)
        if not address:
            return None
        width = self.vocabulary.width
        start = address + row * width * ctypes.sizeof(ctypes.c_float)
        return self._floats_at(start, width).copy()

    def _floats_at(self, address: int, count: int) -> Floats:
        """The runtime's own memory as an array; it mostly gives out the same places."""
        if (address, count) not in self._views:
            if len(self._views) > MOST_VIEWS:
                self._views.clear()
            floats: Any = (ctypes.c_float * count).from_address(address)
            self._views[address, count] = np.frombuffer(floats, np.float32)
        return self._views[address, count]

    def _watch(self, layers: set[int]) -> None:
        if layers != self._layers and self.vocabulary.gives_layers:
            for layer in layers ^ self._layers:
                self._api.set_embeddings_layer_inp(self._context, layer, layer in layers)
            self._layers = layers


@dataclass(frozen=True, slots=True)
class LlamaRows:
    """The rows of one part of a batch that answer."""

    runtime: LlamaRuntime
    first: int

    def logits(self, number: int) -> Floats:
        return self.runtime.logits(self.first + number)

    def state(self, number: int, layer: int) -> Floats | None:
        return self.runtime.state(self.first + number, layer)


class _Arrays:
    """The arrays that a batch points to, made once."""

    def __init__(self, most: int) -> None:
        self._batch = Batch()
        self._token = (ctypes.c_int32 * most)()
        self._position = (ctypes.c_int32 * most)()
        self._sequence = (ctypes.c_int32 * most)()
        self._sequences = (ctypes.POINTER(ctypes.c_int32) * most)()
        self._counts = (ctypes.c_int32 * most)(*([1] * most))
        self._output = (ctypes.c_int8 * most)()
        size, start = ctypes.sizeof(ctypes.c_int32), ctypes.addressof(self._sequence)
        for place in range(most):
            one = ctypes.cast(start + place * size, ctypes.POINTER(ctypes.c_int32))
            self._sequences[place] = one
        batch = self._batch
        batch.token, batch.pos, batch.n_seq_id = self._token, self._position, self._counts
        batch.seq_id, batch.logits = self._sequences, self._output
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        self._length = 0

    def add(self, sequence: int, position: int, tokens: Sequence[int], *, outputs: int) -> None:
        """Append tokens; the last `outputs` of them give logits."""
        first = self._length
        for number, token in enumerate(tokens):
            place = first + number
            self._token[place], self._position[place] = token, position + number
            self._sequence[place] = sequence
            self._output[place] = number >= len(tokens) - outputs
        self._length += len(tokens)

    def filled(self) -> Batch:
        self._batch.n_tokens = self._length
        return self._batch
