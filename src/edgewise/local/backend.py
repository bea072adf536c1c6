"""The protocols of local runtimes. A new runtime is one file that implements one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
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

SPEECH_RATE = 16_000  # samples per second that speech models take
LONGEST_CHUNK_S = 30.0  # of sound that a speech model takes at a time


def nothing() -> None:
    """What work is told that may go on at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the loaded model can take and how fast it has been. Judges read this, not the model."""

    backend: str
    model: str
    quantisation: str
    context_tokens: int
    images: bool = False
    tools: bool = False
    schemas: bool = False  # can enforce a JSON Schema
    call_format: str = "lines"  # of a function model: a name in `calls/formats.py`
    chat_template: str = field(default="", repr=False)  # of one that is asked through it
    states: bool = False  # gives hidden states with its tokens
    layers: int = 0  # of a model that does
    slots: int = 1  # requests that it works on at once
    ahead: int = 0  # further requests that it accepts, so that no slot is idle
    languages: tuple[str, ...] = ()  # of a speech or embedding model; empty: many
    chunk_s: float = LONGEST_CHUNK_S  # the longest sound that suits a speech model
    word_times: bool = True  # False: a speech model only guesses when each word was said
    evidence: bool = True  # False: its tokens come without log-probabilities
    rates: bool = False  # says with the end of an answer how sure it is: `Finish.confidence`
    # The key of the model whose bits these are, converted or served without any change:
    # `smollm2-135m-instruct-q8_0`. Its calibration may be borrowed. Empty: none is known.
    same_bits_as: str = ""
    space: str = ""  # of the vectors that an embedding model makes
    # Measured while serving, as moving averages; None until something has run.
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    real_time_factor: float | None = None  # of a speech model: seconds of work per second of sound


class ChatBackend(Protocol):
    """Generates text token by token, with evidence."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        `already` is the beginning of the answer, to be continued after a failed handoff.
        `layer` names the layer whose input comes with each token as `state`, if the runtime can;
        `prompt_layer` names another one for the first token, whose state is that of the prompt.
        Before any work is done, raises ContextExceeded if the prompt is too long, and
        SchemaUnsupported if it cannot enforce the schema.
        """
        ...

    def close(self) -> None: ...


class TokenCounter(Protocol):
    """What a chat runtime may do besides: count without answering."""

    def count_tokens(self, request: Request) -> int:
        """The tokens of the prompt that `generate` would read, and of the tools' descriptions."""
        ...


class CallBackend(Protocol):
    """Writes function calls: continues a raw text, special tokens included, greedily."""

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
        drafts: Sequence[str] = (),
        prefix: str = "",
        owner: str = "",
    ) -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        The model stops at its end token, which comes as a token without text: how sure it was to
        be done is evidence too. Other special tokens come with their text. `grammar` (GBNF, rule
        `root`) limits what may be written. The evidence of each token is that of the model before
        this limit. So a token that the grammar forced has a low `logprob`, and `margin` and
        `entropy` describe the model's own choice.
        `already` is the beginning of the answer, to be continued. The part of the prompt that it
        shares with the previous one is not computed again.
        `drafts` are what the answer probably is, the likeliest first, as the model would write it.
        A runtime that can verify many tokens in one pass uses them. The output does not depend on
        them.
        `prefix` is the beginning of the prompt that later requests share (the tools). A runtime may
        keep what it computed of it, also on disk, so it must hold nothing that a user said.
        `owner` is whose prompt it is, as `Request.owner` is for `generate`: what is kept of it may
        serve the same owner only. Time and `cached_tokens` would tell others what it says.
        Raises ContextExceeded before any work is done if the prompt is too long.
        """
        ...

    def close(self) -> None: ...


class Guide(TypedDict, total=False):
    """What may be asked of a speech model besides the words."""

    hint: str
    temperature: float


class SpeechBackend(Protocol):
    """Transcribes speech, with evidence."""

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
        """What is said in mono sound at SPEECH_RATE, at most LONGEST_CHUNK_S long; in order.

        Times are in seconds from the first sample. If `language` is empty, a multilingual model
        detects it and says it in each `Heard`. `words=False` saves computing word times. `hint`
        shows how words are spelt, and `temperature` above 0 asks for randomness. Both are given
        only if the user asks for them, and a model that cannot use them ignores them.
        Thread-safe: calls wait for each other.
        Raises GenerationFailed if the runtime fails.
        """
        ...

    def close(self) -> None: ...


class EmbedBackend(Protocol):
    """Makes vectors of texts, all in one space."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request. `space` is known before anything is loaded."""
        ...

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        """One vector of length 1 per text, in order; each depends on its own text only.

        A text longer than `context_tokens` is read in windows. Thread-safe.
        Long work is done in batches. `pause` is called between them: it may wait, because others
        have their turns, and it may raise, because nobody waits for the vectors any more.
        Raises GenerationFailed if the runtime fails.
        """
        ...

    def close(self) -> None: ...


class VisionBackend(Protocol):
    """A vision skill: sees one kind of thing in pictures, with evidence for each."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def look(self, pixels: PictureArray) -> Sight:
        """What is in a picture, given as rows of columns of red, green and blue. Thread-safe.

        Raises ExtraMissing or ModelNotFound if it cannot be loaded, GenerationFailed if the runtime
        fails.
        """
        ...

    def close(self) -> None: ...


VisionSkills = dict[str, VisionBackend]  # the skills that an engine has opened, by name
