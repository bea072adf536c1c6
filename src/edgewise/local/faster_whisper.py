"""Whisper on the device, through faster-whisper and CTranslate2, in 8-bit numbers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import SPEECH_RATE, DeviceFacts, LazyTranscriber
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Word
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

# Tried in this order if the words look like a loop or a guess; randomness helps out of loops.
TEMPERATURES = (0.0, 0.4, 0.8)
SEED = 0


def open_backend(model: InstalledModel, *, threads: int) -> FasterWhisper:
    """The entry point `edgewise.speech_backends: faster_whisper`."""
    return FasterWhisper(model, threads=threads)


class FasterWhisper(LazyTranscriber[Any]):
    """`model.path` is model.bin in CTranslate2's folder."""

    def __init__(self, model: InstalledModel, *, threads: int) -> None:
        super().__init__(
            DeviceFacts(
                backend="faster_whisper",
                model=model.name,
                quantisation=model.quantisation,
                context_tokens=model.row.context_tokens if model.row else 448,
                languages=model.row.languages if model.row else (),
            )
        )
        self._folder = model.path.parent
        self._threads = threads

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
            import ctranslate2  # noqa: PLC0415  # installed with what was just loaded

            started = time.perf_counter()
            ctranslate2.set_random_seed(SEED)  # or a later try would depend on earlier ones
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
                heard = [_heard(segment, info.language) for segment in found]
            except (RuntimeError, ValueError) as error:
                raise self._broke_off(error) from error
            self._took(time.perf_counter() - started, len(samples) / SPEECH_RATE)
            return heard

    def runtime(self) -> Any:
        """The loaded runtime itself, for comparison in benchmarks."""
        with self._lock:
            return self._loaded()

    @override
    def _load(self) -> Any:
        # Loading CTranslate2 takes half a second; only speech should wait for it.
        try:
            import faster_whisper  # noqa: PLC0415
        except ImportError as error:
            raise ExtraMissing("speech", "faster-whisper") from error
        try:
            return faster_whisper.WhisperModel(
                str(self._folder),
                device="cpu",
                compute_type="int8",
                cpu_threads=self._threads,
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise ModelNotFound(f"{str(self._folder)!r} is no Whisper: {error}") from error


def _heard(segment: Any, language: str) -> Heard:
    return Heard(
        start=float(segment.start),
        end=float(segment.end),
        text=segment.text.strip(),
        words=tuple(
            Word(
                word.word.strip(),
                float(word.start),
                float(word.end),
                float(word.probability),
                glued=place > 0 and not word.word[:1].isspace(),
            )
            for place, word in enumerate(segment.words or ())
        ),
        mean_logprob=float(segment.avg_logprob),
        no_speech=float(segment.no_speech_prob),
        compression_ratio=float(segment.compression_ratio),
        temperature=float(segment.temperature),
        language=language,
    )
