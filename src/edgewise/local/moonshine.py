"""Moonshine on the device: its encoder and decoder in ONNX Runtime, one token at a time.

It processes only as much sound as there is; Whisper always processes 30 s. So it is quick with
short stretches. It has no word times: words share the stretch by their length.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import SPEECH_RATE, DeviceFacts, LazyTranscriber
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Word
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

START, END = 1, 2  # tokens
TOKENS_PER_SECOND = 6.5  # of English speech at its fastest; more is a loop
CHUNK_S = 10.0  # a chunk is one segment, and takes time in proportion
LEAST_SAMPLES = SPEECH_RATE // 10  # the encoder needs a few frames


def open_backend(model: InstalledModel, *, threads: int) -> Moonshine:
    """The entry point `edgewise.speech_backends: moonshine`."""
    return Moonshine(model, threads=threads)


class Moonshine(LazyTranscriber["_Parts"]):
    """`model.path` is its decoder; the other files are beside it."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        super().__init__(
            DeviceFacts(
                backend="moonshine",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=model.row.context_tokens if model.row else 448,
                languages=("en",),
                chunk_s=CHUNK_S,
                word_times=False,
            )
        )
        self._decoder_file = model.path
        self._threads = threads

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
        translate: bool = False,
    ) -> list[Heard]:
        """Greedy, and without a hint: the model takes no prompt."""
        if len(samples) < LEAST_SAMPLES:
            return []
        with self._lock:
            parts = self._loaded()
            started = time.perf_counter()
            try:
                tokens = parts.write(samples)
            # ONNX Runtime raises its own classes, which have no common base.
            except Exception as error:
                raise self._broke_off(error) from error
            self._took(time.perf_counter() - started, len(samples) / SPEECH_RATE)
            text = parts.text([token for token, _ in tokens])
            if not text:
                return []
            end = len(samples) / SPEECH_RATE
            logprobs = [logprob for _, logprob in tokens]
            return [
                Heard(
                    start=0.0,
                    end=end,
                    text=text,
                    words=parts.words(tokens, end) if words else (),
                    mean_logprob=sum(logprobs) / len(logprobs),
                    language="en",
                )
            ]

    @override
    def _load(self) -> _Parts:
        return _Parts(self._decoder_file, self._threads)


class _Parts:
    """Encoder, decoder and tokenizer of a loaded model."""

    def __init__(self, decoder: Path, threads: int) -> None:
        # Speech is an extra, and its runtimes load slowly.
        try:
            import onnxruntime  # noqa: PLC0415
            from tokenizers import Tokenizer  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing("speech", "onnxruntime") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        try:
            self._encoder = onnxruntime.InferenceSession(
                str(decoder.parent / "encoder_model.ort"), options
            )
            self._decoder = onnxruntime.InferenceSession(str(decoder), options)
            self._tokenizer = Tokenizer.from_file(str(decoder.parent / "tokenizer.json"))
        except Exception as error:  # as above; and a damaged file may do anything
            raise ModelNotFound(f"{str(decoder.parent)!r} is no Moonshine: {error}") from error
        inputs = {given.name: given.shape for given in self._decoder.get_inputs()}
        self._past = {name: shape for name, shape in inputs.items() if "past" in name}
        # The smaller model needs to know which part of the input is sound: all of it.
        self._masked = "encoder_attention_mask" in inputs

    def write(self, samples: Samples) -> list[tuple[int, float]]:
        """Tokens with their log-probabilities, the end token included."""
        import numpy  # noqa: PLC0415

        sound = samples[None, :].astype("float32", copy=False)
        mask = numpy.ones(sound.shape, "int64")
        given: dict[str, Any] = {"encoder_attention_mask": mask} if self._masked else {}
        heard = {"input_values": sound} | ({"attention_mask": mask} if self._masked else {})
        (given["encoder_hidden_states"],) = self._encoder.run(None, heard)
        past = {
            name: numpy.zeros((0, shape[1], 1, shape[3]), "float32")
            for name, shape in self._past.items()
        }
        found: list[tuple[int, float]] = []
        token = START
        for step in range(math.ceil(TOKENS_PER_SECOND * sound.shape[1] / SPEECH_RATE) + 2):
            logits, *present = self._decoder.run(
                None,
                {
                    "input_ids": numpy.array([[token]], "int64"),
                    "use_cache_branch": numpy.array([step > 0]),
                    **given,
                    **past,
                },
            )
            last = logits[0, -1].astype("float64")
            token = int(last.argmax())
            found.append((token, float(last[token] - last.max() - _log_sum(last - last.max()))))
            if token == END:
                break
            for name, value in zip(past, present, strict=True):
                if step == 0 or ".decoder." in name:  # the encoder's part does not change
                    past[name] = value
        return found

    def text(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()

    def words(self, tokens: list[tuple[int, float]], end: float) -> tuple[Word, ...]:
        """Words with the product of their tokens' probabilities, and times by length."""
        groups: list[list[tuple[int, float]]] = []
        for token, logprob in tokens:
            if token in (START, END):
                continue
            piece = self._tokenizer.id_to_token(token) or ""
            if piece.startswith("▁") or not groups:
                groups.append([])
            groups[-1].append((token, logprob))
        texts = [self.text([token for token, _ in group]) for group in groups]
        total = sum(len(text) + 1 for text in texts) or 1
        words, now = [], 0.0
        for text, group in zip(texts, groups, strict=True):
            following = now + end * (len(text) + 1) / total
            if text:
                chance = math.exp(sum(logprob for _, logprob in group))
                words.append(Word(text, round(now, 3), round(following, 3), chance))
            now = following
        return tuple(words)


def _log_sum(values: Any) -> float:
    import numpy  # noqa: PLC0415

    return float(numpy.log(numpy.exp(values).sum()))
