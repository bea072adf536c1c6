"""The protocols a local runtime fulfils. A new runtime is one file that does this."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict

from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request
from edgewise.types.pictures import Sight
from edgewise.types.tokens import Finish, Token
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]
    PictureArray = NDArray[numpy.uint8]

TokenStream = Generator[Token | Finish, None, None]

SPEECH_RATE = 16_000  # samples per second that speech models hear
LONGEST_CHUNK_S = 30.0  # of sound that a speech model hears at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the loaded model can take and how fast it has been; judges read this, not the model."""

    backend: str
    model: str
    quantisation: str
    context_tokens: int
    images: bool = False
    tools: bool = False
    schemas: bool = False  # holds an answer to a JSON Schema
    slots: int = 1  # requests it works on at once
    ahead: int = 0  # more that it takes in, so that no slot is idle between two of them
    languages: tuple[str, ...] = ()  # that a speech or embedding model knows; empty: many
    chunk_s: float = LONGEST_CHUNK_S  # of sound that a speech model does best with, at most
    word_times: bool = True  # False: a speech model only guesses when each word was said
    space: str = ""  # of the vectors that an embedding model makes
    # Measured while serving, moving averages; None until something has run.
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None


class ChatBackend(Protocol):
    """Generates text token by token, with evidence."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def generate(self, request: Request, *, already: str = "") -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        `already` is the beginning of the answer, to be continued: after a handoff that failed.
        Before any work is done, raises ContextExceeded for a prompt that is too long, and
        SchemaUnsupported for an answer that it cannot hold to its schema.
        """
        ...

    def close(self) -> None: ...


class CallBackend(Protocol):
    """Writes function calls: a raw text, special tokens included, is continued greedily."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def write_call(
        self,
        prompt: str,
        *,
        grammar: str = "",
        max_tokens: int = 400,
        seed: int = 0,
        already: str = "",
    ) -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        The model stops at its end token, which comes as a token without text: how sure it was to
        be done is evidence too. `grammar` (GBNF, rule `root`) limits what may be written; the
        evidence of each token stays that of the model before the limit, so a token that the
        grammar forced on the model has a low `logprob`, and `margin` and `entropy` tell of the
        model's own choice. `already` is the beginning of the answer, to be continued. What the
        prompt shares with the one before is not computed again.
        Raises ContextExceeded before any work is done on a prompt that is too long.
        """
        ...

    def close(self) -> None: ...


class Guide(TypedDict, total=False):
    """What may be asked of a speech model besides the words."""

    hint: str
    temperature: float


class SpeechBackend(Protocol):
    """Hears words in sound, with evidence."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
    ) -> list[Heard]:
        """What is said in mono sound at SPEECH_RATE, of at most LONGEST_CHUNK_S; in order.

        Times are in seconds from the first sample. An empty `language` is found out, by models
        that know more than one, and said in each `Heard`. `words=False` saves finding each word's
        time. `hint` shows how words are spelt, and `temperature` above 0 asks for chance; both are
        given only where the user asks for them, and a model that cannot use them passes them over.
        Thread-safe: calls wait for each other.
        Raises GenerationFailed when the runtime breaks off.
        """
        ...

    def close(self) -> None: ...


class EmbedBackend(Protocol):
    """Makes vectors of texts, all of one space."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request. `space` is known before anything is loaded."""
        ...

    def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector of length 1 per text, in their order; what else is among them changes nothing.

        A text longer than `context_tokens` is read in windows. Thread-safe.
        Raises GenerationFailed when the runtime breaks off.
        """
        ...

    def close(self) -> None: ...


class VisionBackend(Protocol):
    """A device skill: sees one kind of thing in pictures, with the evidence for each."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def look(self, pixels: PictureArray) -> Sight:
        """What is in a picture: rows of columns of red, green and blue. Thread-safe.

        Raises ExtraMissing or ModelNotFound where it cannot be loaded, GenerationFailed when the
        runtime breaks off.
        """
        ...

    def close(self) -> None: ...


VisionSkills = dict[str, VisionBackend]  # the skills of an engine that were needed so far, by name
