"""Sentence embedders on the device, through ONNX Runtime: mean of the tokens, length 1.

A text longer than the model's window is read in overlapping windows of equal length. Its vector is
the mean of theirs, scaled to length 1 again.
"""

from __future__ import annotations

import importlib.util
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import DeviceFacts, LazyModel, nothing
from edgewise.local.store import InstalledModel
from edgewise.types.embeddings import Embedded

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Matrix = NDArray[numpy.float32]

OVERLAP_TOKENS = 32  # at least, shared by neighbouring windows
SPECIAL_TOKENS = 2  # around every window: one at each end
MOST_BATCH_TOKENS = 512  # padding included: larger batches leave the cache, and are slower
MOST_PIECE = 65_536  # characters to cut into tokens at a time: about a tenth of a second
_GRAPH = "model.onnx"
_TOKENIZER = "tokenizer.json"


def open_backend(model: InstalledModel, *, threads: int) -> OnnxEmbedder:
    """The entry point `edgewise.embed_backends: onnx`. Raises ExtraMissing without the runtime."""
    require_runtime()
    return OnnxEmbedder(model, threads=threads)


def require_runtime() -> None:
    for package in ("onnxruntime", "tokenizers", "numpy"):
        if importlib.util.find_spec(package) is None:
            raise ExtraMissing("embed", package)


def windows_of(tokens: int, most: int, overlap: int = OVERLAP_TOKENS) -> list[tuple[int, int]]:
    """Where to cut: every token is in a window, and all windows of a long text are full."""
    if tokens <= most:
        return [(0, tokens)]
    count = -(-(tokens - overlap) // (most - overlap))
    starts = [index * (tokens - most) // (count - 1) for index in range(count)]
    return [(start, start + most) for start in starts]


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    begin: int
    end: int
    padding: int


class OnnxEmbedder(LazyModel[_Loaded]):
    """Implements `EmbedBackend`. The lock is held while it loads; its runtime is thread-safe."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        if model.row is None:
            raise ModelNotFound(f"{model.name!r} is not a known embedder")
        super().__init__(
            DeviceFacts(
                backend="onnx",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=model.row.context_tokens,
                languages=model.row.languages,
                space=f"{model.name}@{model.quantisation.lower()}-{model.row.dimensions}",
            )
        )
        self._folder = model.path.parent
        self._threads = threads

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        with self._lock:
            loaded = self._loaded()
        ids = _tokens(loaded.tokenizer, texts, pause)
        most = self._facts.context_tokens - SPECIAL_TOKENS
        cuts = [windows_of(len(tokens), most) for tokens in ids]
        windows = [
            [loaded.begin, *ids[index][first:last], loaded.end]
            for index, found in enumerate(cuts)
            for first, last in found
        ]
        rows = self._run(loaded, windows, pause)
        vectors, done = [], 0
        for found in cuts:
            vectors.append(_mean(rows[done : done + len(found)]))
            done += len(found)
        return Embedded(tuple(vectors), tuple(map(len, cuts)), sum(map(len, windows)))

    def _run(self, loaded: _Loaded, windows: list[list[int]], pause: Callable[[], None]) -> Matrix:
        import numpy  # noqa: PLC0415  # the runtime's own; loads with the first text

        order = sorted(range(len(windows)), key=lambda index: len(windows[index]))
        rows: Matrix | None = None
        for batch in _batches(order, windows):
            if rows is not None:
                pause()
            made = self._run_batch(loaded, [windows[index] for index in batch])
            if rows is None:
                rows = numpy.empty((len(windows), made.shape[1]), numpy.float32)
            rows[batch] = made
        assert rows is not None, "every text has a window"
        return rows

    def _run_batch(self, loaded: _Loaded, windows: list[list[int]]) -> Matrix:
        import numpy  # noqa: PLC0415

        longest = max(map(len, windows))
        ids = numpy.full((len(windows), longest), loaded.padding, numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window
            mask[row, : len(window)] = 1
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": numpy.zeros_like(ids),
        }
        feeds = {name: value for name, value in given.items() if name in loaded.inputs}
        try:
            hidden = loaded.session.run(None, feeds)[0]
        except Exception as error:  # the runtime raises its own classes, without a common base
            raise self._broke_off(error) from error
        weights = mask[..., None].astype(numpy.float32)
        pooled: Matrix = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return _length_one(pooled)

    @override
    def _load(self) -> _Loaded:
        # Loading the runtime takes a quarter of a second; only embeddings should wait for it.
        import onnxruntime  # noqa: PLC0415
        import tokenizers  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Waiting threads must not spin: on shared cores that starves others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = onnxruntime.InferenceSession(
                str(self._folder / _GRAPH), options, providers=["CPUExecutionProvider"]
            )
            tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / _TOKENIZER))
        except Exception as error:  # as above
            where = str(self._folder)
            raise ModelNotFound(f"what is in {where!r} does not load: {error}") from error
        tokenizer.no_truncation()  # windows lose nothing
        tokenizer.no_padding()
        numbers: dict[str, int] = tokenizer.get_vocab()
        special = [numbers[name] for name in ("[CLS]", "[SEP]", "[PAD]")]
        inputs = frozenset(each.name for each in session.get_inputs())
        return _Loaded(session, tokenizer, inputs, *special)


def pieces_of(most: int) -> re.Pattern[str]:
    """Cuts a text where a token ends whatever follows: after a blank or a Chinese character."""
    last = " \\n\\u3001\\u3002\\u4e00-\\u9fff"
    return re.compile(f"(?s).{{1,{most}}}(?:(?<=[{last}])|\\Z)|[^{last}]+[{last}]?")


_PIECE = pieces_of(MOST_PIECE)


def _tokens(tokenizer: Any, texts: Sequence[str], pause: Callable[[], None]) -> list[list[int]]:
    """The tokens of each text. A piece of a long one never ends inside a word."""
    found: list[list[int]] = []
    read = 0
    for text in texts:
        found.append([])
        for piece in _PIECE.findall(text):
            if read + len(piece) > MOST_PIECE:
                pause()
                read = 0
            read += len(piece)
            found[-1] += tokenizer.encode(piece, add_special_tokens=False).ids
    return found


def _batches(order: list[int], windows: list[list[int]]) -> Iterator[list[int]]:
    """Group windows of similar length: little padding, little memory."""
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * len(windows[index]) > MOST_BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _length_one(rows: Matrix) -> Matrix:
    import numpy  # noqa: PLC0415

    lengths = numpy.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / numpy.maximum(lengths, 1e-12)).astype(numpy.float32)
    return scaled


def _mean(rows: Matrix) -> array[float]:
    vector = rows[0] if len(rows) == 1 else _length_one(rows.mean(axis=0))
    values = array("f")
    values.frombytes(vector.tobytes())
    return values
