"""What speech becomes: words and segments with times, and the transcript that carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from typing_extensions import override

from edgewise.types.messages import Audio, Word
from edgewise.types.replies import Place, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A stretch of speech as a local model transcribed it, with the model's own evidence.

    mean_logprob       over the tokens of the stretch
    no_speech          the model's probability that nobody speaks
    compression_ratio  of the text by zlib: loops compress well
    temperature        0 unless the model had to try again with randomness
    """

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()
    mean_logprob: float = 0.0
    no_speech: float = 0.0
    compression_ratio: float = 1.0
    temperature: float = 0.0
    language: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of a transcript. Its `id` never changes, whatever is corrected.

    confidence      the calibrated chance that few of the words are wrong; about the device's text,
                    even if the cloud has replaced it
    expected_error  the expected word error rate of the device's text
    source          who wrote `text`, from what actually ran
    replaced        the device's text, if the cloud replaced it
    codes           what is wrong with the device's text: `repetition`, `unheard`; dropped segments
                    may also have `silence`, `no_speech` and `no_voice`
    error           if the cloud was asked to correct it and did not: the code of the reason
    speaker         the number of the channel, if they were heard one by one; else empty
    """

    id: int
    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()
    confidence: float | None = None
    expected_error: float | None = None
    source: Place = "local"
    language: str = ""
    replaced: str | None = None
    codes: tuple[str, ...] = ()
    error: str = ""
    speaker: str = ""
    features: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"features": dict(self.features), "codes": list(self.codes)}


def text_of(segments: Sequence[Segment]) -> str:
    return " ".join(segment.text for segment in segments if segment.text)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Transcript(Reply):
    """What was said: the text of all segments. `confidence` is weighted by their length.

    seconds   of sound that were read; speech_seconds: how many of them have speech
    dropped   what the model wrote although nobody spoke, or in a loop; not part of the text
    codes     what is wrong with the sound: `truncated_audio`
    """

    segments: tuple[Segment, ...] = ()
    dropped: tuple[Segment, ...] = ()
    seconds: float = 0.0
    speech_seconds: float = 0.0
    language: str = ""
    codes: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(word for segment in self.segments for word in segment.words)

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(Transcript, self).to_dict() | {
            "segments": [segment.to_dict() for segment in self.segments],
            "dropped": [segment.to_dict() for segment in self.dropped],
            "seconds": self.seconds,
            "speech_seconds": self.speech_seconds,
            "language": self.language,
            "codes": list(self.codes),
        }


@dataclass(frozen=True, slots=True)
class Spoken:
    """Words as a voice spoke them: 16-bit little-endian samples of one channel."""

    pcm: bytes = field(repr=False)
    rate: int
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpokenReply(Reply):
    """A text that was spoken: `text` is the text, `audio` the sound; no bytes if only signalled.

    voice   who spoke, by the name that the one who answered has for it
    """

    audio: Audio = field(default_factory=lambda: Audio(b""))
    voice: str = ""

    @override
    def _begins(self) -> str:
        return f"{self.audio.seconds:.1f} s of {self.audio.media_type}"

    @override
    def to_dict(self) -> dict[str, Any]:
        """Without the sound itself."""
        return super(SpokenReply, self).to_dict() | {
            "voice": self.voice,
            "media_type": self.audio.media_type,
            "seconds": self.audio.seconds,
            "bytes": len(self.audio.data),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The cloud's correction of one segment of live captions: a text, or why there is none.

    cloud_result  the segment's new text; "" if the cloud hears no speech; None on an error
    replaced      the device's text
    error         the code of what went wrong; the device's text stays
    """

    segment_id: int
    cloud_result: str | None
    replaced: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """Somebody spoke, from when to when in seconds. `segment_id` is None if no word was heard."""

    start: float
    end: float
    segment_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUpdate:
    """The state of live captions after a chunk of sound.

    confirmed     all confirmed text: it only grows, except for announced corrections
    pending       what seems to follow; may still change
    new_words     confirmed since the last update
    new_segments  ended since the last update, as the device heard them
    corrections   arrived since the last update; each names its segment
    outstanding   segments that the cloud has not answered yet
    utterances    ended since the last update
    speaking_since  when the current utterance began; None while nobody speaks
    seconds       of sound heard so far
    error         the code of what went wrong on the device; empty if nothing did
    confidence_verified  whether the confidences of segments were measured on this transcriber
    """

    confirmed: str = ""
    pending: str = ""
    new_words: tuple[Word, ...] = ()
    new_segments: tuple[Segment, ...] = ()
    corrections: tuple[Correction, ...] = ()
    outstanding: int = 0
    utterances: tuple[Utterance, ...] = ()
    speaking_since: float | None = None
    seconds: float = 0.0
    error: str = ""
    confidence_verified: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "new_segments": [segment.to_dict() for segment in self.new_segments],
        }
