"""What a user asks: messages, images, sound, tools, questions, objectives, a request of them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Protocol, Required, Self, TypeAlias, TypedDict, get_args

# -- what a decision asks: typed questions about a state -------------------------------------------


State: TypeAlias = "str | Mapping[str, Any] | Sequence[Any]"  # what the questions are about
Described: TypeAlias = "str | Mapping[str, Any] | Sequence[Any] | None"
QuestionLike: TypeAlias = "YesNo | Choice | Score | Mapping[str, Any]"

MOST_QUESTIONS = 400  # of one request
MOST_OPTIONS = 255  # of a choice
MOST_LEVELS = 10  # of a score


@dataclass(frozen=True, slots=True)
class YesNo:
    """Is it so? `true` and `false` may say what each outcome means."""

    ask: Described = None
    true: Described = None
    false: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return ("true", "false")

    @property
    def described(self) -> tuple[Described, ...]:
        """What each option means, in their order."""
        return (self.true, self.false)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which one of these? Options by name, with a description or None; a list of names will do."""

    choices: Mapping[str, Described] | Sequence[str]
    ask: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(self.choices)

    @property
    def described(self) -> tuple[Described, ...]:
        if isinstance(self.choices, Mapping):
            return tuple(self.choices.values())
        return (None,) * len(self.choices)


@dataclass(frozen=True, slots=True)
class Score:
    """How much, on levels from the lowest to the highest? They count from 0."""

    levels: Sequence[Described]
    ask: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(str(level) for level in range(len(self.levels)))

    @property
    def described(self) -> tuple[Described, ...]:
        return tuple(self.levels)


Question: TypeAlias = "YesNo | Choice | Score"


def text_of(described: Described) -> str:
    """A description, or a state, as text: JSON if it is no text, empty for None."""
    if described is None or isinstance(described, str):
        return described or ""
    return json.dumps(described, ensure_ascii=False)


# -- objectives, and what moves a threshold --------------------------------------------------------


# One place (a request, the settings) states at most one of these.
OBJECTIVES = ("threshold", "max_error", "cloud_share")
ERROR_PROBABILITY = 0.10  # that more than `max_error` of the kept answers are wrong after all


OnDrift = Literal["risk", "report", "widen", "cloud"]


class Objectives(Protocol):
    """Settings, or a request."""

    @property
    def threshold(self) -> float | None: ...
    @property
    def max_error(self) -> float | None: ...
    @property
    def cloud_share(self) -> float | None: ...
    @property
    def error_probability(self) -> float: ...


def find_complaint(stated: Objectives) -> str:
    """What is wrong with the objectives of a request or of settings; empty if nothing is."""
    several = [name for name in OBJECTIVES if getattr(stated, name) is not None]
    checks = (
        (
            stated.threshold is None or 0 <= stated.threshold <= 1,
            f"threshold = {stated.threshold}: must be between 0 and 1",
        ),
        (
            stated.max_error is None or 0 < stated.max_error < 1,
            f"max_error = {stated.max_error}: must be more than 0 and less than 1 (0.05 is 5 %)",
        ),
        (
            stated.cloud_share is None or 0 <= stated.cloud_share <= 1,
            f"cloud_share = {stated.cloud_share}: must be between 0 and 1",
        ),
        (
            0 < stated.error_probability < 1,
            f"error_probability = {stated.error_probability}: must be more than 0 and less than 1",
        ),
        (len(several) <= 1, f"{' and '.join(several)}: state one of them"),
    )
    return next((words for good, words in checks if not good), "")


def as_share(text: str) -> float:
    """`5%`, `5 %` and `0.05` are the same. Raises ValueError if it is not a number."""
    plain = text.strip()
    return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)


def percent(share: float) -> str:
    return f"{round(100 * share, 6):g} %"


def high_enough(objective: str) -> str:
    return f"high enough for {objective}" if objective else "high enough"


def is_below(confidence: float, threshold: float, objective: str = "") -> str:
    """Both with as many digits as tell them apart: 0.996 is below 1.000."""
    digits = next(
        (each for each in range(2, 7) if f"{confidence:.{each}f}" != f"{threshold:.{each}f}"), 6
    )
    why = f", which {objective} needs" if objective else ""
    return f"{confidence:.{digits}f} is below {threshold:.{digits}f}{why}"


def needed(threshold: float, objective: str) -> str:
    return f"{threshold:.2f}, which {objective} needs" if objective else f"{threshold:.2f}"


@dataclass(frozen=True, slots=True)
class Money:
    """What is left of a budget, and what to expect until it resets.

    requests_left          requests still to come, this one included
    handoff_microdollars   the average cost of a handoff
    words                  the budget in words, for reasons
    """

    left_microdollars: int
    requests_left: float
    handoff_microdollars: float
    words: str

    @property
    def allowed_share(self) -> float:
        """The share of requests that may be handed off if the money is to last."""
        expected = self.requests_left * self.handoff_microdollars
        return self.left_microdollars / expected if expected > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Learnt:
    """What the verdicts on a workload's own answers say of the error that a request states.

    threshold  the lowest that they prove; None: none
    refuted    the thresholds at which they show that more is wrong
    missing    how many more right verdicts would prove something, if all are on answers of at
               least the confidence `judged_from`
    """

    verdicts: int
    threshold: float | None
    refuted: frozenset[float]
    missing: int
    judged_from: float = 0.0


@dataclass(frozen=True, slots=True)
class Steering:
    """What moves a request's threshold; most have none.

    `drifted`: reasons by calibration. `learnt`: by calibration, from verdicts of the workload.
    """

    money: Money | None = None
    on_drift: OnDrift = "report"
    drifted: Mapping[str, str] = field(default_factory=dict)
    learnt: Mapping[str, Learnt] = field(default_factory=dict)


# -- kinds of personal data ------------------------------------------------------------------------


# Found by our own patterns. A finder of the settings may add kinds, as NAME.
KINDS = ("EMAIL", "PHONE", "CARD", "IBAN", "IP", "KEY")
ALL = "ALL"  # every kind that can be found

# How options and settings name kinds: True is all of them.
Kinds = bool | str | Iterable[str]

_NAME = re.compile(r"[A-Z][A-Z_]{0,30}[A-Z]")
_WORDS = {"": (), "0": (), "no": (), "false": (), "1": (ALL,), "yes": (ALL,), "true": (ALL,)}


def as_kinds(value: Kinds) -> tuple[str, ...]:
    """The names in capitals, each once: of True, "EMAIL, CARD", or a list. Raises ValueError."""
    if isinstance(value, bool):
        return (ALL,) if value else ()
    if isinstance(value, str):
        known = _WORDS.get(value.strip().lower())
        if known is not None:
            return known
        value = value.split(",")
    value = list(value)
    if not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected names of kinds, like {', '.join(KINDS)}")
    names = [name.strip().upper() for name in value]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a kind, like {', '.join(KINDS)}")
    return tuple(dict.fromkeys(names))


# -- messages and requests -------------------------------------------------------------------------


# Turns and calls of one request. A provider's library takes 0.1 ms and more for each; what makes it
# too slow for its time limit would close the cloud for everybody.
MOST_TURNS = 10_000
# Of an answer on the device where nobody asked for a limit. A cloud then gets none.
DEVICE_TOKENS = 256
CLOUD_TOOLS = 128  # of one request; OpenAI takes no more

Role = Literal["system", "user", "assistant", "tool"]
Handoff = Literal["automatic", "signal"]
POLICIES = ("prefer_local", "local_only", "prefer_cloud", "cloud_only")  # ours; plug-ins add more
Source = Literal["local", "cloud", "mixed", "none"]
# The task of a request decides which flow answers it, and which model of a provider is asked.
Task = Literal["chat", "call", "transcribe", "embed", "decide", "speak"]
# What a provider is asked for: it has a model for each. Speech is put into English by another one
# than the one that writes it down.
Service = Task | Literal["translate"]
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
    if data[4:12] == b"ftypavif":
        return "image/avif"
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


@dataclass(frozen=True, slots=True)
class Word:
    """One word and when it was said, in seconds. `probability` is None if not measured.

    `glued` means that no space is written before it: "-disposed" after "ill", any word of Chinese.
    """

    text: str
    start: float
    end: float
    probability: float | None = None
    glued: bool = False


# Of a sound with several channels: heard as one, or each by itself, as a speaker of its own.
Channels = Literal["mixed", "split"]
# What spoken words come as; `pcm` are plain 16-bit samples of one channel, 24,000 a second.
SoundFormat = Literal["wav", "pcm", "mp3", "opus", "aac", "flac"]
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

    `leaves` is true if running it sends the arguments to another machine. A request that must stay
    is not offered such a tool, and what is redacted reaches it as a placeholder.
    """

    run: Callable[..., Any]
    leaves: bool = False


def leaves(tool: Tool) -> bool:
    """Whether running it sends the arguments to another machine."""
    return isinstance(tool, RunnableTool) and tool.leaves


class MessageDict(TypedDict, total=False):
    """A message as a dictionary, as in OpenAI's requests. A content is a text, or a list of parts.

    messages: list[MessageDict] = [{"role": "user", "content": "Hello!"}]
    """

    role: Required[Literal["system", "developer", "user", "assistant", "tool"]]
    content: str | Sequence[str | Mapping[str, Any]] | None
    name: str
    tool_calls: Sequence[ToolCall | Mapping[str, Any]]
    tool_call_id: str


# What may be given as a tool: a `Tool`, a schema as in OpenAI's requests, or a Python function.
ToolLike = Tool | Mapping[str, Any] | Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call a model asked for. `source` is taken from what ran.

    confidence   the calibrated chance that this call is right; None if not measured
    repairs      codes of changes made after the model wrote it, as `grounded:city`
    complaints   codes of what is still wrong with it, as `missing_argument`
    written      the arguments as the cloud wrote them, to the byte
    doubt        why the device's call is in doubt, in words; empty: it is sure, or the cloud's
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    source: Source = "cloud"
    confidence: float | None = None
    repairs: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    doubt: str = ""
    written: str = field(default="", repr=False, compare=False)


# Whether calls are run: not those in doubt, unless "always" is said. And who is asked before.
Execute = bool | Literal["always"]
Approve = Callable[[ToolCall], bool | Awaitable[bool]]


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
    # What the device is held to, if it is not the schema that a cloud gets.
    on_device: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def device_schema(self) -> Mapping[str, Any]:
        return self.schema if self.on_device is None else self.on_device


# What may be given as a response format: a class (pydantic model, dataclass, TypedDict), a JSON
# Schema, or a `ResponseFormat`.
ResponseFormatLike = type[Any] | Mapping[str, Any] | ResponseFormat


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation, whoever said it.

    heard  the words of a turn that was spoken, as a transcriber heard them
    """

    role: Role
    content: str = ""
    images: tuple[Image, ...] = ()
    audio: tuple[Audio, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    source: Source = "none"
    heard: tuple[Word, ...] = field(default=(), repr=False)


def new_request_id() -> str:
    return uuid.uuid4().hex


# What may be foreign in a request besides pieces of messages.
NO_PARTS = ("n", "modalities", "tool_choice", "malformed arguments")
# The chat protocols in which requests come and leave: OpenAI's two, Anthropic's, and Gemini's.
WireName = Literal["chat", "responses", "messages", "gemini"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A request as its client sent it: to a provider of the same protocol it leaves like that.

    body     without what is ours in it
    written  the bytes that it was read from, and `sent`, what was read: a value of the body that is
             still the same one leaves in these bytes
    headers  those that are for the provider
    foreign  what only a provider of this protocol can answer, by name, as `input_audio`
    stream   whether the answer is sent as a stream
    pictures  those in the body, as they leave: the door sets them
    wanted   whether its client wants a stream
    """

    wire: WireName
    body: Mapping[str, Any] = field(repr=False)
    written: bytes = field(default=b"", repr=False)
    sent: Mapping[str, Any] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    stream: bool = False
    pictures: tuple[Image, ...] = ()
    wanted: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Of what is foreign, the pieces of messages: whatever is in them, nobody here reads it."""
        return tuple(name for name in self.foreign if name not in NO_PARTS)

    @property
    def put_together(self) -> bool:
        """Whether it is asked for as a stream, so that it is seen to begin, for a client that
        wants it whole."""
        return self.stream and not self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything one request says. Unset options (`None`) take the engine's settings."""

    messages: tuple[Message, ...]
    task: Task = "chat"
    model: str = ""  # the local chat model that is asked; empty: the engine's own
    part: str = ""  # names the attempts of one part, if a larger request asks the cloud in parts
    language: str = ""  # of the speech in it, as "en"; empty: the transcriber detects it
    hint: str = ""  # words that show how names in the speech are spelt
    translate: bool = False  # speech is written down in English, whatever it is spoken in
    voice: str = ""  # that speaks the text, by the name that who speaks has for it
    speed: float = 1.0  # of the voice
    sound: SoundFormat = "wav"  # what is spoken comes as
    dimensions: int | None = None  # of the vectors; None: as many as the model makes
    # Typed questions about the state, which is the text of the one message.
    questions: Mapping[str, Question] = field(default_factory=dict)
    # The answer is one of these, each a token: the device says how likely each is and writes none.
    labels: tuple[str, ...] = ()
    policy: str = "prefer_local"
    handoff: Handoff = "automatic"
    private: bool = False
    redact: tuple[str, ...] = ()  # kinds that leave as placeholders only
    private_kinds: tuple[str, ...] = ()  # a request that holds one of these is private
    max_tokens: int | None = None  # None: nobody asked for a limit
    temperature: float = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    # "none": the model knows the tools, but must answer in words. "required": it must call.
    tool_choice: ToolChoice = "auto"
    chosen: str = ""  # the name of the tool that must be called, once, of all that are known
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
    user: str = ""  # the person who asks, of those behind one key; a trusted client says it
    group: str = ""  # and the group of that person
    owner: str = ""  # whose prompt it is: what a runtime keeps of it serves nobody else
    lane: str = ""  # the provider that has begun this conversation: it is asked first
    via: tuple[str, ...] = ()  # the engines that it came through: no request goes in circles
    original: Original | None = field(default=None, repr=False)  # None: it did not come over HTTP
    id: str = field(default_factory=new_request_id)

    @property
    def service(self) -> Service:
        return "translate" if self.translate else self.task

    @property
    def may_leave(self) -> bool:
        """Whether anything of this may be sent out. `cloud/redact.py` asks, for every cloud."""
        return not self.private

    @property
    def device_tokens(self) -> int:
        """The longest answer that the device writes."""
        return DEVICE_TOKENS if self.max_tokens is None else self.max_tokens

    @property
    def has_objective(self) -> bool:
        """Whether a threshold must be computed from a stated objective."""
        return any(each is not None for each in (self.max_error, self.cloud_share, self.steering))

    @property
    def has_images(self) -> bool:
        return any(message.images for message in self.messages)

    @property
    def state(self) -> str:
        """What the questions are about, as text: JSON, if it was no text."""
        return "\n".join(message.content for message in self.messages)

    @property
    def audio(self) -> tuple[Audio, ...]:
        """The sound to transcribe: that of the last user message."""
        spoken = [message for message in self.messages if message.role == "user"]
        return spoken[-1].audio if spoken else ()

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that may be called: the chosen one, or all."""
        return tuple(each for each in self.tools if self.chosen in ("", each.name))

    @property
    def single_call(self) -> bool:
        """One call and no more: the user named the tool."""
        return bool(self.chosen)

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
                all(
                    isinstance(message.role, str) and message.role in roles
                    for message in self.messages
                ),
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
            (
                self.max_tokens is None or self.max_tokens >= 1,
                f"max_tokens = {self.max_tokens}: at least 1",
            ),
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
    """Keyword arguments of `Engine.call`. `requests.py` says what each one means."""

    model: str
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

    translate: bool
    channels: Channels
    deadline_ms: float
    progress: Callable[[float, float], None]


class SpeakOptions(TypedDict, total=False):
    """Keyword arguments of `Engine.speak`."""

    voice: str
    language: str
    speed: float
    format: SoundFormat
    policy: str
    handoff: Handoff
    private: bool
    redact: Kinds
    private_kinds: Kinds
    store_text: bool
    budget_key: str
    request_id: str


class ChatOptions(CallOptions, total=False):
    """`RequestOptions` without `response_format`, which decides the type of `reply.parsed`."""

    model: str
    tools: Sequence[ToolLike]
    images: Sequence[ImageLike]


class RequestOptions(ChatOptions, total=False):
    """Keyword arguments of `Engine.complete`, `Engine.stream` and `Conversation.ask`."""

    response_format: ResponseFormatLike | None
