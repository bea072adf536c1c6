"""Whisper on the device, through faster-whisper and CTranslate2, in 8-bit numbers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, GenerationFailed, ModelNotFound
from edgewise.local.backend import DeviceFacts
from edgewise.local.store.store import InstalledModel
from edgewise.types.transcripts import Heard, Word

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

# Tried in this order while the words look like a loop or a guess; chance helps out of loops.
TEMPERATURES = (0.0, 0.4, 0.8)
SEED = 0


def open_backend(model: InstalledModel, *, threads: int) -> FasterWhisper:
    """The entry point `edgewise.speech_backends: faster_whisper`."""
    return FasterWhisper(model, threads=threads)


class FasterWhisper:
    """One model, loaded when first used. `model.path` is model.bin in CTranslate2's folder."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        self._folder = model.path.parent
        self._threads = threads
        self._model: Any = None
        self._lock = threading.Lock()
        self._facts = DeviceFacts(
            backend="faster_whisper",
            model=model.name,
            quantisation=model.quantisation,
            context_tokens=model.row.context_tokens if model.row else 448,
            languages=model.row.languages if model.row else (),
        )

    def facts(self) -> DeviceFacts:
        return self._facts

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
    ) -> list[Heard]:
        with self._lock:
            model = self._loaded()
            import ctranslate2  # noqa: PLC0415  # comes with what was just loaded

            ctranslate2.set_random_seed(SEED)  # or a later try would depend on what came before
            try:
                found, info = model.transcribe(
                    samples,
                    language=language or None,
                    beam_size=1,
                    best_of=1,
                    temperature=(temperature,) if temperature else TEMPERATURES,
                    initial_prompt=hint or None,
                    condition_on_previous_text=False,  # one loop must not lead to the next
                    word_timestamps=words,
                )
                return [_heard(segment, info.language) for segment in found]
            except (RuntimeError, ValueError) as error:
                raise GenerationFailed(f"{self._facts.model} broke off: {error}") from error

    def runtime(self) -> Any:
        """The bare runtime, loaded: what benches compare with."""
        with self._lock:
            return self._loaded()

    def close(self) -> None:
        with self._lock:
            self._model = None

    def _loaded(self) -> Any:
        if self._model is None:
            # Loading CTranslate2 takes half a second, which only speech should wait for.
            try:
                import faster_whisper  # noqa: PLC0415
            except ImportError as error:
                raise ExtraMissing("speech", "faster-whisper") from error
            try:
                self._model = faster_whisper.WhisperModel(
                    str(self._folder),
                    device="cpu",
                    compute_type="int8",
                    cpu_threads=self._threads,
                    local_files_only=True,
                )
            except (RuntimeError, ValueError, OSError) as error:
                raise ModelNotFound(f"{str(self._folder)!r} is no Whisper: {error}") from error
        return self._model


def _heard(segment: Any, language: str) -> Heard:
    return Heard(
        start=float(segment.start),
        end=float(segment.end),
        text=segment.text.strip(),
        words=tuple(
            Word(word.word.strip(), float(word.start), float(word.end), float(word.probability))
            for word in segment.words or ()
        ),
        mean_logprob=float(segment.avg_logprob),
        no_speech=float(segment.no_speech_prob),
        compression_ratio=float(segment.compression_ratio),
        temperature=float(segment.temperature),
        language=language,
    )
