"""What a user asks: messages, images, sound, tools, and the request that carries them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, get_args

from edgewise.types.objectives import (
    ERROR_PROBABILITY,
    Steering,
    find_complaint,
)
from edgewise.types.personal_data import Kinds

# Turns and calls of one request. A provider's library takes 0.1 ms and more for each; what makes it
# too slow for its time limit would close the cloud for everybody.
MOST_TURNS = 10_000

Role = Literal["system", "user", "assistant", "tool"]
Handoff = Literal["automatic", "signal"]
Source = Literal["local", "cloud", "mixed", "none"]
# The task of a request decides which flow answers it, and which model of a provider is asked.
Task = Literal["chat", "call", "transcribe", "embed"]
ToolChoice = Literal["auto", "none", "required"]
# Known facts by name: texts, numbers, lists of them, or tables (lists of mappings).
Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as the bytes of a file, or the address to fetch them from.

    It is opened when the request runs: turned upright, its metadata removed. A picture that cannot
    be opened is refused with the reason.

    name    what errors call it: its path or address
    url     fetched when the request runs, if `data` is empty; private networks only if allowed
    tokens  what a provider will count for it; 0: unknown. Set when it leaves the device
    """

    data: bytes = field(repr=False)
    media_type: str = "image/png"
    name: str = ""
    url: str = ""
    tokens: int = 0

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Self:
        """The file's bytes. Raises OSError if the file cannot be read."""
        data = Path(path).expanduser().read_bytes()
        return cls(data, media_type_of(data), name=str(path))

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "") -> Self:
        return cls(data, media_type_of(data), name=name)

    @classmethod
    def from_url(cls, url: str) -> Self:
        return cls(b"", name=url, url=url)


# What may be given as a picture: a path, an address, the bytes of a file, or an `Image`.
ImageLike = Image | str | PathLike[str] | bytes


def media_type_of(data: bytes) -> str:
    """From the first bytes, not the file's name. PNG if they are unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    begins = {
        b"\xff\xd8\xff": "image/jpeg",
        b"GIF8": "image/gif",
        b"BM": "image/bmp",
        b"II*\0": "image/tiff",
        b"MM\0*": "image/tiff",
    }
    return next((kind for mark, kind in begins.items() if data.startswith(mark)), "image/png")


@dataclass(frozen=True, slots=True)
class Audio:
    """Sound as the bytes of a file; `seconds` is what a provider charges for."""

    data: bytes = field(repr=False)
    media_type: str = "audio/wav"
    seconds: float = 0.0


# What can be transcribed: a path, the bytes of a file, or an `Audio`.
AudioLike = str | PathLike[str] | bytes | Audio


@dataclass(frozen=True, slots=True)
class Tool:
    """A function a model may call: a name, a sentence, and a JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableTool(Tool):
    """A tool that can be run from here: `run` takes its arguments by name.

    `leaves` is true if running it sends the arguments to another machine. A private request is
    not offered such a tool.
    """

    run: Callable[..., Any]
    leaves: bool = False


# What may be given as a tool: a `Tool`, a schema as in OpenAI's requests, or a Python function.
ToolLike = Tool | Mapping[str, Any] | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call a model asked for. `source` is taken from what ran.

    confidence   the calibrated chance that this call is right; None if not measured
    repairs      codes of changes made after the model wrote it, as `grounded:city`
    complaints   codes of what is still wrong with it, as `missing_argument`
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    source: Source = "cloud"
    confidence: float | None = None
    repairs: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The JSON that an answer must be. Empty schema: any object. `strict` is for the cloud.

    `parse` makes `reply.parsed` of the answer's text. It raises ValueError, with one line that says
    what is wrong. None: `reply.parsed` is the plain JSON value.
    """

    schema: Mapping[str, Any] = field(default_factory=dict)
    name: str = "answer"
    strict: bool = False
    parse: Callable[[str], Any] | None = field(default=None, repr=False, compare=False)


# What may be given as a response format: a class (pydantic model, dataclass, TypedDict), a JSON
# Schema, or a `ResponseFormat`.
ResponseFormatLike = type[Any] | Mapping[str, Any] | ResponseFormat


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, whoever said it."""

    role: Role
    content: str = ""
    images: tuple[Image, ...] = ()
    audio: tuple[Audio, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    source: Source = "none"


def new_request_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything one request says. Unset options (`None`) take the engine's settings."""

    messages: tuple[Message, ...]
    task: Task = "chat"
    model: str = ""  # the local chat model that is asked; empty: the engine's own
    part: str = ""  # names the attempts of one part, if a larger request asks the cloud in parts
    language: str = ""  # of the speech in it, as "en"; empty: the transcriber detects it
    hint: str = ""  # words that show how names in the speech are spelt
    dimensions: int | None = None  # of the vectors; None: as many as the model makes
    policy: str = "prefer_local"
    handoff: Handoff = "automatic"
    private: bool = False
    redact: tuple[str, ...] = ()  # kinds that leave as placeholders only
    private_kinds: tuple[str, ...] = ()  # a request that holds one of these is private
    max_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    # "none": the model knows the tools, but must answer in words. "required": it must call.
    tool_choice: ToolChoice = "auto"
    single_call: bool = False  # one call and no more: the user named the tool
    context: Context = field(default_factory=dict)
    response_format: ResponseFormat | None = None
    threshold: float | None = None
    max_error: float | None = None
    error_probability: float = ERROR_PROBABILITY
    cloud_share: float | None = None
    steering: Steering | None = None
    deadline_ms: float | None = None
    truncate: bool = False
    evidence: bool = False
    speculative: bool = False
    store_text: bool | None = None
    budget_key: str = ""
    owner: str = ""  # whose prompt it is: what a runtime keeps of it serves nobody else
    via: tuple[str, ...] = ()  # the engines that it came through: no request goes in circles
    id: str = field(default_factory=new_request_id)

    @property
    def may_leave(self) -> bool:
        """Whether anything of this may be sent out. Only the door to the cloud asks."""
        return not self.private

    @property
    def has_objective(self) -> bool:
        """Whether a threshold must be computed from a stated objective."""
        return any(each is not None for each in (self.max_error, self.cloud_share, self.steering))

    @property
    def has_images(self) -> bool:
        return any(message.images for message in self.messages)

    @property
    def audio(self) -> tuple[Audio, ...]:
        """The sound to transcribe: that of the last user message."""
        spoken = [message for message in self.messages if message.role == "user"]
        return spoken[-1].audio if spoken else ()

    @property
    def has_results(self) -> bool:
        """Whether tools have been run in this conversation."""
        return any(message.role == "tool" for message in self.messages)

    @property
    def complaint(self) -> str:
        """What is wrong with this request by itself; empty if nothing is."""
        roles, handoffs = get_args(Role), get_args(Handoff)
        checks = (
            (bool(self.messages), "there is no message"),
            (
                sum(1 + len(each.tool_calls) for each in self.messages) <= MOST_TURNS,
                f"more than {MOST_TURNS:,} messages and calls",
            ),
            (
                all(message.role in roles for message in self.messages),
                f"a message's role must be one of {', '.join(roles)}",
            ),
            (
                any(
                    message.content or message.images or message.audio for message in self.messages
                ),
                "the prompt is empty",
            ),
            (
                isinstance(self.context, Mapping)
                and all(isinstance(key, str) for key in self.context),
                "context must be a mapping with names as keys",
            ),
            (self.max_tokens >= 1, f"max_tokens = {self.max_tokens}: at least 1"),
            (self.temperature >= 0, f"temperature = {self.temperature}: 0 or more"),
            (self.handoff in handoffs, f"handoff = {self.handoff!r}"),
            (
                self.deadline_ms is None or self.deadline_ms > 0,
                f"deadline_ms = {self.deadline_ms}: more than 0",
            ),
        )
        return next((words for good, words in checks if not good), "") or find_complaint(self)


class ObjectiveOptions(TypedDict, total=False):
    """Objectives: at most one of a threshold, a share of errors and a share for the cloud."""

    threshold: float
    max_error: float
    error_probability: float
    cloud_share: float


class CallOptions(ObjectiveOptions, total=False):
    """Keyword arguments of `Engine.call`. `assembly/arguments.py` says what each one means."""

    tool_choice: str | Mapping[str, Any]
    context: Context
    system: str
    policy: str
    handoff: Handoff
    private: bool
    redact: Kinds
    private_kinds: Kinds
    max_tokens: int
    temperature: float
    seed: int
    stop: str | Sequence[str]
    deadline_ms: float
    truncate: bool
    evidence: bool
    speculative: bool
    store_text: bool
    budget_key: str
    request_id: str


class HearingOptions(ObjectiveOptions, total=False):
    """Keyword arguments of everything that transcribes speech.

    `temperature` is 0 by default: randomness is used only if a model would otherwise be stuck.
    """

    language: str
    hint: str
    temperature: float
    policy: str
    handoff: Handoff
    private: bool
    redact: Kinds
    private_kinds: Kinds
    store_text: bool
    budget_key: str
    request_id: str


class ListenOptions(HearingOptions, total=False):
    """Keyword arguments of `Engine.listen`."""

    rate: int
    step_s: float


class SpeechOptions(HearingOptions, total=False):
    """Keyword arguments of `Engine.transcribe`."""

    deadline_ms: float
    progress: Callable[[float, float], None]


class ChatOptions(CallOptions, total=False):
    """`RequestOptions` without `response_format`, which decides the type of `reply.parsed`."""

    model: str
    tools: Sequence[ToolLike]
    images: Sequence[ImageLike]


class RequestOptions(ChatOptions, total=False):
    """Keyword arguments of `Engine.complete`, `Engine.stream` and `Conversation.ask`."""

    response_format: ResponseFormatLike | None
