"""Whisper on the device, through faster-whisper and CTranslate2, in 8-bit numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
# Where Whisper is unsure of the language, one of these is more likely than any other: between them
# they have nine tenths of all speakers and of the speech that it was trained with.
WIDELY_SPOKEN = frozenset(
    {
        "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "nl", "ar", "sv",
        "it", "id", "hi", "fi", "vi", "uk", "el", "cs", "ro", "da", "hu", "ta", "no", "th",
        "ur", "bn", "fa",
    }
)  # fmt: skip
SELDOM = 0.1  # what the others' chance counts
SURE_LANGUAGE = 0.8  # below it the next likely language is tried too, and the likelier words count


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
                translates=model.row is None or model.row.translates,
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
        translate: bool = False,
    ) -> list[Heard]:
        asked: dict[str, Any] = {"hint": hint, "temperature": temperature, "translate": translate}
        with self._lock:
            model = self._loaded()
            if translate and not model.model.is_multilingual:  # a folder of the user's own
                raise self._broke_off(ValueError("it knows English only and cannot translate"))
            import ctranslate2  # noqa: PLC0415  # installed with what was just loaded

            started = time.perf_counter()
            ctranslate2.set_random_seed(SEED)  # or a later try would depend on earlier ones
            try:
                found, info = self._transcribe(model, samples, language, words, **asked)
                heard = [_heard(segment, info.language) for segment in found]
                for other in () if language else other_languages(info):
                    found, _ = self._transcribe(model, samples, other, words, **asked)
                    again = [_heard(segment, other) for segment in found]
                    heard = max(heard, again, key=_likeliness)
            except (RuntimeError, ValueError) as error:
                raise self._broke_off(error) from error
            self._took(time.perf_counter() - started, len(samples) / SPEECH_RATE)
            return heard

    def _transcribe(
        self,
        model: Any,
        samples: Samples,
        language: str,
        words: bool,
        *,
        hint: str,
        temperature: float,
        translate: bool,
    ) -> Any:
        return model.transcribe(
            samples,
            task="translate" if translate else "transcribe",
            language=language or None,
            beam_size=1,
            best_of=1,
            temperature=(temperature,) if temperature else TEMPERATURES,
            initial_prompt=hint or None,
            condition_on_previous_text=False,  # one loop must not lead to the next
            word_timestamps=words,
        )

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


def other_languages(info: Any) -> list[str]:
    """What else the sound may be in, where the detected language is unlikely or unsure."""
    chances = {
        name: chance * (1.0 if name in WIDELY_SPOKEN else SELDOM)
        for name, chance in info.all_language_probs or ()
    }
    total = sum(chances.values())
    if not total or chances.get(info.language, 0.0) >= SURE_LANGUAGE * total:
        return []
    likely = sorted(chances, key=lambda name: chances[name], reverse=True)[:2]
    return [name for name in likely if name != info.language]


def _likeliness(heard: Sequence[Heard]) -> float:
    """The mean log-probability of all that was written; nothing is the least likely."""
    length = sum(len(each.text) for each in heard)
    return sum(len(each.text) * each.mean_logprob for each in heard) / length if length else -99.0


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
