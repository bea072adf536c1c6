"""The protocols of local runtimes, and what all that implement one need.

A new runtime is one file that implements a protocol.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypedDict, TypeVar

from typing_extensions import override

from edgewise.errors import EdgewiseError, GenerationFailed, place_of
from edgewise.types.answers import LabelReading
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Sight, Token
from edgewise.types.transcripts import Heard, Spoken

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]
    PictureArray = NDArray[numpy.uint8]

TokenStream = Generator[Token | Finish, None, None]

SPEECH_RATE = 16_000  # samples per second that speech models take
UNFINISHED = "stopped before the answer was finished"  # of a stream without its Finish
LONGEST_CHUNK_S = 30.0  # of sound that a speech model takes at a time


def nothing() -> None:
    """What work is told that may go on at once."""


@contextlib.contextmanager
def guarded(model: str) -> Iterator[None]:
    """Around every use of a model: whatever it raises that is not ours is a GenerationFailed.

    A plug-in may raise anything. Flows know one kind: they hand off, or fail and record it.
    """
    try:
        yield
    except EdgewiseError:
        raise
    except Exception as error:
        raise GenerationFailed(f"{model} broke off: {place_of(error)}") from error


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
    labels: bool = False  # says how likely each of a request's `labels` is
    call_format: str = "lines"  # of a function model: a name in `calls/formats.py`
    chat_template: str = field(default="", repr=False)  # of one that is asked through it
    states: bool = False  # gives hidden states with its tokens
    layers: int = 0  # of a model that does
    slots: int = 1  # requests that it works on at once
    ahead: int = 0  # further requests that it accepts, so that no slot is idle
    languages: tuple[str, ...] = ()  # of a speech or embedding model; empty: many
    chunk_s: float = LONGEST_CHUNK_S  # the longest sound that suits a speech model
    translates: bool = False  # a speech model that can write English words of other languages
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
    # Of one that many share: seconds until somebody who came now would have a turn, where that is
    # longer than `busy_after_s`.
    wait_s: float = 0.0


class Described(Protocol):
    """Any local model."""

    def facts(self) -> DeviceFacts: ...

    def close(self) -> None: ...


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
        Of a request with `labels` it yields one token, whose `alternatives` are the labels with
        their log-probabilities, in their order.
        Before any work is done, raises ContextExceeded if the prompt is too long, and
        SchemaUnsupported if it cannot enforce the schema.
        """
        ...

    def close(self) -> None: ...


class QuestionReader(Protocol):
    """Says of a typed question how likely each option is, without writing anything."""

    def facts(self) -> DeviceFacts: ...

    def close(self) -> None: ...

    def read_question(self, request: Request) -> LabelReading:
        """Of the one question of the request, about its state. The order in which the caller gave
        the options counts for nothing. Raises ContextExceeded if it is too long."""
        ...


class TokenCounter(Protocol):
    """What a chat runtime may do besides: count without answering."""

    def count_tokens(self, request: Request) -> int:
        """The tokens of the prompt that `generate` would read, and of the tools' descriptions."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallToWrite:
    """What a function model is asked: a raw text to continue, and how.

    grammar     limits what may be written (GBNF, rule `root`)
    max_tokens  of the answer
    already     the beginning of the answer, to be continued
    drafts      what the answer probably is, the likeliest first, as the model would write it. A
                runtime that can verify many tokens in one pass uses them. The output does not
                depend on them
    prefix      the beginning of the prompt that later requests share (the tools). A runtime may
                keep what it computed of it, also on disk, so it must hold nothing that a user said
    owner       whose prompt it is, as `Request.owner` is for `generate`: what is kept of it may
                serve the same owner only. Time and `cached_tokens` would tell others what it says
    """

    prompt: str = field(kw_only=False)
    grammar: str = ""
    max_tokens: int = 400
    already: str = ""
    drafts: tuple[str, ...] = ()
    prefix: str = ""
    owner: str = ""


class CallBackend(Protocol):
    """Writes function calls: continues a raw text, special tokens included, greedily."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def write_call(self, call: CallToWrite) -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        The model stops at its end token, which comes as a token without text: how sure it was to
        be done is evidence too. Other special tokens come with their text. The evidence of each
        token is that of the model before the grammar limits it. So a token that the grammar forced
        has a low `logprob`, and `margin` and `entropy` describe the model's own choice.
        The part of the prompt that it shares with its owner's previous one is not computed again.
        Raises ContextExceeded before any work is done if the prompt is too long.
        """
        ...

    def close(self) -> None: ...


class Guide(TypedDict, total=False):
    """What may be asked of a speech model besides the words."""

    hint: str
    temperature: float
    translate: bool


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
        translate: bool = False,
    ) -> list[Heard]:
        """What is said in mono sound at SPEECH_RATE, at most LONGEST_CHUNK_S long; in order.

        Times are in seconds from the first sample. If `language` is empty, a multilingual model
        detects it and says it in each `Heard`. `words=False` saves computing word times. `hint`
        shows how words are spelt, and `temperature` above 0 asks for randomness. Both are given
        only if the user asks for them, and a model that cannot use them ignores them. `translate`
        asks for English words; it is given only to a model whose facts say `translates`.
        Thread-safe: calls wait for each other.
        Raises GenerationFailed if the runtime fails.
        """
        ...

    def close(self) -> None: ...


class VoiceBackend(Protocol):
    """Speaks."""

    def facts(self) -> DeviceFacts: ...

    def speak(
        self,
        text: str,
        *,
        voice: str = "",
        language: str = "",
        speed: float = 1.0,
        pause: Callable[[], None] = nothing,
    ) -> Spoken:
        """The text as sound. A voice that it does not have is no error: the result names its own.

        `pause` is called before, and between pieces of long work: it may wait, and it may raise.
        Thread-safe. Raises GenerationFailed if the runtime fails.
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


# -- a runtime, before it opens a model ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRuntime:
    """What there is to know of a runtime before it opens a model: the door `edgewise.runtimes`.

    A runtime may do without: then it opens what it is given, and is called as its entry point is.

    title         as people call it
    package       the distribution whose release runs a model; a conversion belongs to one release
    require       raises ExtraMissing, or ModelNotFound with the command, if something is missing
    convert       makes of a GGUF file what the runtime opens: called with the file, an empty folder
                  to write into and a `Progress`; returns the name of the file to open. A text in
                  `TEMPLATE` is the model's chat template. None: it opens GGUF files as they are, or
                  finds its models itself
    quantisation  what the weights are called after the conversion, from the GGUF file and what they
                  are called there. The same name says that no bit is another one
    revision      counts when the conversion itself changes: then models are converted anew
    takes         what a file of the user's own ends with that replaces a conversion
                  (`pull --from`): `convert` gets it as `given`
    """

    title: str
    package: str
    require: Callable[[], None] = nothing
    convert: Callable[..., str] | None = None
    quantisation: Callable[[Path, str], str] | None = None
    revision: int = 1
    takes: str = ""


TEMPLATE = "template.jinja"  # beside a converted model

# -- what a forked process must forget -------------------------------------------------------------
#
# What a loaded model is to a forked process: memory without its threads. Work that waits for those
# threads would hang, and so would freeing them. So after a fork the child forgets what its parent
# had opened, and opens its own when it is first needed.


class Forgetful(Protocol):
    """Has opened something that belongs to its process."""

    def forget(self) -> None:
        """In a forked child: drop it without waiting for any thread or lock."""
        ...


_known: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def forget_at_fork(owner: Forgetful) -> None:
    _known.add(owner)


def abandon(*inherited: object) -> None:
    """Never free these: their destructors wait for threads that exist in the parent only."""
    import ctypes  # noqa: PLC0415  # only after a fork

    for one in inherited:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _in_child() -> None:
    for owner in list(_known):
        owner.forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_in_child)


# -- a generation on a thread of the runtime, read and called off on others ------------------------


SMOOTHING = 0.3  # weight of the newest request in the measured speeds
LEAST_PROMPT, LEAST_OUTPUT = 8, 4  # tokens: fewer say nothing about speed

Item = TypeVar("Item")


class Channel(Generic[Item]):
    """What the runtime's thread sends to its reader, and a way to cancel it."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.queue: SimpleQueue[Item | BaseException | None] = SimpleQueue()
        self.interrupt: Callable[[], None] | None = None  # stops the runtime inside a pass

    def cancel(self) -> None:
        self.cancelled.set()
        if self.interrupt is not None:
            self.interrupt()

    def abort(self) -> None:
        """From another thread: the runtime stops; its reader gets an error at once."""
        self.cancel()
        self.queue.put(RuntimeError("called off"))


class Generation(Generator[Token | Finish, None, None]):
    """A `TokenStream` with one thing more: `abort`, from another thread.

    The runtime stops, and the reader gets a GenerationFailed at once.
    """

    def __init__(self, inner: TokenStream, abort: Callable[[], None]) -> None:
        self._inner = inner
        self.abort = abort

    @override
    def send(self, value: None) -> Token | Finish:
        return self._inner.send(value)

    @override
    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Token | Finish:
        return self._inner.throw(kind, value, trace) if value else self._inner.throw(kind)

    @override
    def close(self) -> None:
        self._inner.close()


def with_speeds(
    facts: DeviceFacts, *, read: int, read_per_s: float, written: int, written_per_s: float
) -> DeviceFacts:
    """The facts after one more request: so many prompt and output tokens at these speeds."""
    if read >= LEAST_PROMPT:
        speed = _smooth(facts.prompt_tokens_per_second, read_per_s)
        facts = replace(facts, prompt_tokens_per_second=speed)
    if written >= LEAST_OUTPUT:
        speed = _smooth(facts.output_tokens_per_second, written_per_s)
        facts = replace(facts, output_tokens_per_second=speed)
    return facts


def _smooth(before: float | None, now: float) -> float:
    return now if before is None else (1 - SMOOTHING) * before + SMOOTHING * now


# -- what runtimes for speech, vectors and pictures share: weights that load late ------------------


Loaded = TypeVar("Loaded")

MEMORY_S = 300.0  # of sound: what a transcriber heard before that hardly counts for its speed


class LazyModel(ABC, Generic[Loaded]):
    """One model, loaded when first used. Whoever uses it holds the lock."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self._lock = threading.Lock()
        self._model: Loaded | None = None
        self._forked = False
        forget_at_fork(self)

    def facts(self) -> DeviceFacts:
        return self._facts

    def close(self) -> None:
        """Free the model. The next request loads it again."""
        with self._lock:
            self._model = None

    def forget(self) -> None:
        abandon(self._model)
        self._lock, self._model, self._forked = threading.Lock(), None, True

    def load(self) -> None:
        """Now, not with the first use. Raises what loading raises."""
        with self._lock:
            self._loaded()

    def passes(self) -> int:
        """Its progress, for whoever looks whether it hangs: the seconds that were computed."""
        return int(time.process_time())

    @abstractmethod
    def _load(self) -> Loaded:
        """Raises ExtraMissing or ModelNotFound."""

    def _loaded(self) -> Loaded:
        if self._model is None and self._forked:
            # OpenMP hangs on a thread that used it before the fork; it works on a new one.
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - seldom

            with ThreadPoolExecutor(1, "edgewise-load") as pool:
                self._model = pool.submit(self._load).result()
        elif self._model is None:
            self._model = self._load()
        return self._model

    def _broke_off(self, error: Exception) -> GenerationFailed:
        return GenerationFailed(f"{self._facts.model} broke off: {error}")


class LazyTranscriber(LazyModel[Loaded]):
    """A speech model that measures how fast it is.

    In this moving average long sound counts more than short: some models work as long on one
    second as on thirty. The error that this makes for a short sound is small in seconds.
    """

    def __init__(self, facts: DeviceFacts) -> None:
        super().__init__(facts)
        self._worked_s = self._heard_s = 0.0

    def _took(self, worked_s: float, heard_s: float) -> None:
        """Count one sound. Loading the model is not part of `worked_s`."""
        kept = math.exp(-heard_s / MEMORY_S)
        self._worked_s = kept * self._worked_s + worked_s
        self._heard_s = kept * self._heard_s + heard_s
        if self._heard_s:
            factor = self._worked_s / self._heard_s
            self._facts = replace(self._facts, real_time_factor=factor)
