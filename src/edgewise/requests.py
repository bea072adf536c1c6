"""What a caller may say: options, each with its words, messages of every form, typed answers.

A wrong argument gets one line that names it and says what it takes. `new_request` makes the one
`Request` of it, in which the settings fill in the rest."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import difflib
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, TypeVar, get_args

from typing_extensions import is_typeddict, override

from edgewise import plugins
from edgewise.cloud.redact import Redactor
from edgewise.errors import InvalidRequest, SettingsError
from edgewise.settings import Settings
from edgewise.types.messages import (
    ALL,
    KINDS,
    MOST_LEVELS,
    MOST_OPTIONS,
    MOST_QUESTIONS,
    OBJECTIVES,
    Channels,
    Choice,
    Context,
    Handoff,
    Image,
    ImageLike,
    Message,
    MessageDict,
    Question,
    Request,
    RequestOptions,
    ResponseFormat,
    Role,
    Score,
    SoundFormat,
    ToolCall,
    YesNo,
    as_kinds,
    leaves,
    text_of,
)
from edgewise.types.transcripts import Transcript

Prompt = (
    str
    | Transcript
    | Message
    | MessageDict
    | Mapping[str, Any]
    | Sequence[Message | Mapping[str, Any]]
)  # a MessageDict is a mapping
Method = TypeVar("Method", bound=Callable[..., Any])

# Every option of every method, once. `help(Engine.complete)` shows those that it takes.
OPTIONS = {
    "model": "a pulled chat model to ask first (`call`: one that writes calls), loaded when "
    "needed; local/NAME: only on the device",
    "system": "a system prompt",
    "policy": "where it may be answered: prefer_local, local_only, prefer_cloud, cloud_only",
    "handoff": "automatic, or signal: say that it should be handed off, and send nothing",
    "private": "True: it never leaves the device",
    "redact": "personal data that leaves as placeholders only: True, or kinds as ['EMAIL']",
    "private_kinds": "a request that holds one of these kinds of personal data is private",
    "max_tokens": "the longest answer",
    "temperature": "0 is repeatable on the device",
    "seed": "of what is random",
    "stop": "texts that end the answer",
    "tools": "what may be called: JSON Schemas, `Tool`s or Python functions",
    "tool_choice": "auto, none, required, or the name of the tool that must be called",
    "context": "known facts by name: date, time, place, units, devices of a home",
    "images": "pictures: paths, addresses, bytes or `Image`s",
    "response_format": "a pydantic model, a dataclass, a TypedDict or a JSON Schema; the answer "
    "is held to it, and `reply.parsed` is what it says",
    "threshold": "hand off below this confidence, 0 to 1",
    "max_error": "the share of kept answers that may be wrong, as 0.05",
    "error_probability": "the chance that it is more than `max_error` after all, default 0.1",
    "cloud_share": "the share of requests that may go to the cloud, 0 to 1",
    "deadline_ms": "if the device cannot answer in this time, the cloud is asked at once",
    "truncate": "True: drop the oldest text if the prompt is too long for the device",
    "evidence": "True: every local token's numbers in `decision.evidence`",
    "speculative": "True: ask the cloud for calls while the device works; costs more, waits less",
    "store_text": "True: keep prompt and reply in the ledger",
    "budget_key": "the request counts against the budgets of this key",
    "request_id": "your own id; one that was used before is refused",
    "language": "of the speech, as 'en'; without it, it is detected",
    "hint": "names and words as they should be spelt; no model has to follow it",
    "translate": "True: write it down in English, whatever language it is spoken in",
    "channels": "split: each channel of a sound is heard by itself, as a speaker of its own",
    "voice": "who speaks: a language of the device's voice, as 'en-gb', or a name of the cloud's",
    "speed": "of the voice, 0.25 to 4",
    "format": "of the sound: wav, pcm, mp3, opus, aac, flac",
    "progress": "is called with the seconds of sound read so far, and the seconds in all",
    "rate": "samples per second of the chunks, default 16,000",
    "step_s": "seconds of speech between two hypotheses, default 1; less is faster, costs more",
    "space": "the space that the vectors must be of, as an earlier result named it",
    "int8": "True: vectors of whole numbers from -127 to 127, with a scale for each",
    "dimensions": "of the vectors; without it, as many as the model makes",
}
# What other libraries call an option of ours.
_ELSEWHERE = {
    **dict.fromkeys(("max_completion_tokens", "max_new_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("schema", "json_schema", "response_model", "output_type"), "response_format"),
    **dict.fromkeys(("system_prompt", "instructions"), "system"),
    **dict.fromkeys(("functions", "tool_schemas"), "tools"),
    **dict.fromkeys(("timeout", "timeout_s", "timeout_ms"), "deadline_ms"),
    **dict.fromkeys(("image", "pictures"), "images"),
    "stop_sequences": "stop",
    "confidence": "threshold",
}


def _choice(names: Any) -> tuple[Callable[[Any], bool], str]:
    return lambda given: _is_one_of(given, names), " or ".join(map(repr, get_args(names)))


# The plain types of options. The others have readers of their own.
_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    float: (lambda given: is_number(given), "a number"),
    int: (lambda given: is_number(given) and isinstance(given, Integral), "a whole number"),
    str: (lambda given: isinstance(given, str), "text"),
    bool: (lambda given: isinstance(given, bool), "True or False"),
    **{names: _choice(names) for names in (Handoff, Channels, SoundFormat)},
}
_BY_NAME = inspect.Parameter.KEYWORD_ONLY
_ADDRESSES = ("http://", "https://", "data:")
_NONE_COUNTS = ("threshold", "max_error", "cloud_share")  # None: not even that of the settings


def takes(options: type) -> Callable[[Method], Method]:
    """Show a method's options, a TypedDict, in its signature and at the end of its docstring."""

    def documented(method: Method) -> Method:
        hints = options.__annotations__
        names = sorted(hints, key=list(OPTIONS).index)
        listed = "\n".join(f"    {name}: {OPTIONS[name]}" for name in names)
        said = inspect.cleandoc(method.__doc__ or "")
        method.__doc__ = f"{said}\n\nOptions:\n{listed}\n".lstrip()
        plain = inspect.signature(method)
        shown_ones = [
            one.replace(annotation=_Hint(one.annotation))
            for one in plain.parameters.values()
            if one.kind is not one.VAR_KEYWORD and one.annotation is not one.empty
        ]
        shown_ones = [one for one in plain.parameters.values() if one.name == "self"] + shown_ones
        shown_ones += [
            inspect.Parameter(name, _BY_NAME, default=None, annotation=_or_none(hints[name]))
            for name in names
        ]
        method.__signature__ = plain.replace(  # type: ignore[attr-defined]
            parameters=shown_ones, return_annotation=_Hint(plain.return_annotation)
        )
        return method

    return documented


class _Hint(str):
    """An annotation as the source has it; `help` shows it without quotation marks."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return str(self)


def _or_none(hint: Any) -> _Hint:
    """An option that is None is not given. Annotations of this package are kept as text."""
    written = str(getattr(hint, "__forward_arg__", hint))
    return _Hint(written if written.endswith("| None") else f"{written} | None")


def checked(given: Mapping[str, Any], options: type) -> dict[str, Any]:
    """The options that say something. Raises InvalidRequest for one that `options` does not have,
    or of the wrong type."""
    kinds = _types_of(options)
    for name, value in given.items():
        if name not in kinds:
            raise InvalidRequest(_unknown(name, list(kinds)))
        fits, words = _PLAIN.get(kinds[name], (None, ""))
        if value is not None and fits is not None and not fits(value):
            raise InvalidRequest(f"{name}: expected {words}, got {shown(value)}")
    return {
        name: value for name, value in given.items() if value is not None or name in _NONE_COUNTS
    }


@cache
def _types_of(options: type) -> Mapping[str, Any]:
    return typing.get_type_hints(options)


def _unknown(name: str, known: list[str]) -> str:
    near = [_ELSEWHERE[name]] if _ELSEWHERE.get(name) in known else []
    near = near or difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    return f"{name}: there is no such option; {hint}"


def check_part(name: str, given: Any, method: str, kind: str) -> None:
    """Raises SettingsError if a part of an engine cannot do what it is there for."""
    if given is not None and not callable(getattr(given, method, None)):
        raise SettingsError(f"{name}: expected a {kind}, got {shown(given)}")


def as_messages(prompt: Any, name: str = "messages") -> tuple[Message, ...]:
    """Messages from messages and plain dictionaries, as in OpenAI's requests. A single one may be
    given alone."""
    if isinstance(prompt, Message | Mapping):
        return (_message(prompt, name),)
    if isinstance(prompt, bytes) or not isinstance(prompt, Sequence):
        raise InvalidRequest(f"{name}: expected text or messages, got {shown(prompt)}")
    return tuple(_message(one, f"{name}[{number}]") for number, one in enumerate(prompt))


def _message(given: Any, place: str) -> Message:
    if isinstance(given, Mapping):
        return _from_mapping(given, place)
    if not isinstance(given, Message):
        raise InvalidRequest(f"{place}: expected a message, got {shown(given)}")
    check_text(given.content, f"{place}.content")
    for name in ("images", "audio", "tool_calls"):
        if not isinstance(several := getattr(given, name), list | tuple):
            raise InvalidRequest(f"{place}.{name}: expected a list, got {shown(several)}")
    return given


def _from_mapping(given: Mapping[str, Any], place: str) -> Message:
    """Keys that are not read here are left out, as `refusal` and `annotations`."""
    role: Any = "system" if given.get("role") == "developer" else given.get("role")
    if not _is_one_of(role, Role):
        words = ", ".join(get_args(Role))
        raise InvalidRequest(f"{place}.role: expected one of {words}, got {shown(role)}")
    if given.get("content") is None and not given.get("tool_calls"):
        raise InvalidRequest(f"{place}: there is no content")
    texts, images = _content(given.get("content"), f"{place}.content")
    calls = given.get("tool_calls") or ()
    if isinstance(calls, str | Mapping) or not isinstance(calls, Sequence):
        raise InvalidRequest(f"{place}.tool_calls: expected a list, got {shown(calls)}")
    return Message(
        role=role,
        content=check_text("\n".join(texts), f"{place}.content"),
        images=images,
        tool_calls=tuple(
            _call(one, f"{place}.tool_calls[{number}]") for number, one in enumerate(calls)
        ),
        tool_call_id=str(given.get("tool_call_id") or ""),
    )


def _content(given: Any, place: str) -> tuple[list[str], tuple[Image, ...]]:
    """The texts and the pictures of a content: text, or a list of parts."""
    if given is None or isinstance(given, str):
        return [given or ""], ()
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        raise InvalidRequest(f"{place}: expected text or a list of parts, got {shown(given)}")
    texts: list[str] = []
    images: list[Image] = []
    for number, part in enumerate(given):
        found = _part(part, f"{place}[{number}]")
        if isinstance(found, str):
            texts.append(found)
        else:
            images.append(found)
    return texts, tuple(images)


def _part(part: Any, place: str) -> str | Image:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidRequest(f"{place}: expected a part of a message, got {shown(part)}")
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    address = part.get("image_url")
    if isinstance(address, Mapping):
        address = address.get("url")
    if not isinstance(address, str):
        raise InvalidRequest(f"{place}: expected text or image_url, got {shown(part.get('type'))}")
    if not address.startswith(_ADDRESSES):  # a message may come from far away: it opens no file
        raise InvalidRequest(f"{place}.image_url: expected an address or data:image/…;base64,…")
    return as_image(address, f"{place}.image_url")


def _call(given: Any, place: str) -> ToolCall:
    if isinstance(given, ToolCall):
        return given
    inner = given.get("function", given) if isinstance(given, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise InvalidRequest(f"{place}: expected a call with a name, got {shown(given)}")
    arguments = inner.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise InvalidRequest(f"{place}.arguments: not JSON: {error}") from error
    if not isinstance(arguments, Mapping):
        raise InvalidRequest(f"{place}.arguments: expected an object, got {shown(arguments)}")
    return ToolCall(inner["name"], arguments, id=str(given.get("id") or ""))


def as_images(given: Any, place: str = "images") -> tuple[Image, ...]:
    """Pictures from a list of paths, addresses, bytes and `Image`s."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InvalidRequest(f"{place}: expected a list of pictures, got {shown(given)}")
    return tuple(as_image(one, f"{place}[{number}]") for number, one in enumerate(given))


def as_image(given: ImageLike, place: str) -> Image:
    if isinstance(given, Image):
        return given
    if isinstance(given, bytes):
        return Image.from_bytes(given, place)
    if not isinstance(given, str | PathLike):
        words = "expected a path, an address, bytes or an Image"
        raise InvalidRequest(f"{place}: {words}, got {shown(given)}")
    address = fspath(given)
    if address.startswith("data:"):
        try:
            return Image.from_bytes(
                base64.b64decode(address.partition(",")[2], validate=True), place
            )
        except binascii.Error as error:
            raise InvalidRequest(f"{place}: expected data:image/…;base64,…") from error
    if address.startswith(_ADDRESSES):
        return Image.from_url(address)
    try:
        return Image.from_path(address)
    except OSError as error:
        raise InvalidRequest(f"{place}: {address}: {error.strerror}") from error
    except ValueError as error:  # a zero byte
        raise InvalidRequest(f"{place}: {error}") from error


def image_at(name: str) -> Image:
    """The file or address that a user names. Addresses are fetched when the request runs."""
    if name.startswith(("http://", "https://")):
        return Image.from_url(name)
    try:
        return Image.from_path(name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidRequest(f"image {name!r} cannot be read: {reason}") from error


def as_texts(given: Any, name: str) -> tuple[str, ...]:
    """One text, or several."""
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, Sequence):
        raise InvalidRequest(f"{name}: expected a list of texts, got {shown(given)}")
    return tuple(check_text(one, f"{name}[{number}]") for number, one in enumerate(texts))


def is_number(given: Any) -> bool:
    if not isinstance(given, Real) or isinstance(given, bool):
        return False
    try:
        return math.isfinite(given)
    except OverflowError:  # a whole number that no float holds
        return False


def _is_one_of(given: Any, literal: Any) -> bool:
    """Not by `in` alone: an array compares itself with everything, one by one."""
    return isinstance(given, str) and given in get_args(literal)


def check_text(given: Any, place: str) -> str:
    """Raises InvalidRequest for what is no text, or none that can be stored or sent on."""
    if not isinstance(given, str):
        raise InvalidRequest(f"{place}: expected text, got {shown(given)}")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{place}: half of a surrogate pair is no text") from error
    return given


def shown(value: Any) -> str:
    """A wrong value as an error may quote it: short, and of anything large only the kind."""
    if value is None:
        return "None"
    if isinstance(value, str | int | float):
        written = repr(value)
        return written if len(written) <= 40 else f"{written[:39]}…"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    return f"a {type(value).__name__}"


# -- questions -------------------------------------------------------------------------------------


_OWN_NAMES = {"noul": "yes_no", "predicate": "yes_no", "yesno": "yes_no"}  # as the wires call it
_QUESTION = "a YesNo, a Choice, a Score, or an object with a type"


def as_state(given: Any) -> str:
    """What the questions are about, as text. Raises InvalidRequest for nothing, and for what is no
    JSON."""
    if isinstance(given, str) and not given.strip():
        raise InvalidRequest("state: it is empty")
    if isinstance(given, str):
        return check_text(given, "state")
    if given is None or not isinstance(given, Mapping | list | tuple):
        raise InvalidRequest(f"state: expected text, an object or a list, got {shown(given)}")
    return _described(given, "state")


def as_questions(given: Any) -> dict[str, Question]:
    """Questions by name: values of ours, or plain objects as `/v1/systemone` takes them.

    Raises InvalidRequest, with one line that names the question.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"questions: expected questions by name, got {shown(given)}")
    if not 1 <= len(given) <= MOST_QUESTIONS:
        raise InvalidRequest(f"questions: {len(given)}; 1 to {MOST_QUESTIONS} in one request")
    for name in given:
        if not check_text(name, "questions: a name").strip():
            raise InvalidRequest("questions: a name is empty")
    return {name: _question(one, f"questions[{name!r}]") for name, one in given.items()}


def _question(given: Any, place: str) -> Question:
    found = _from_object(given, place) if isinstance(given, Mapping) else given
    if not isinstance(found, YesNo | Choice | Score):
        raise InvalidRequest(f"{place}: expected {_QUESTION}, got {shown(given)}")
    ask = _described(found.ask, f"{place}.ask")
    if isinstance(found, YesNo):
        if not (ask or found.true or found.false):
            raise InvalidRequest(f"{place}: there is no question, and no outcome is described")
        true, false = (
            _described(one, f"{place}.{name}")
            for name, one in (("true", found.true), ("false", found.false))
        )
        return YesNo(ask or None, true or None, false or None)
    if isinstance(found, Score):
        several = _several(found.levels, f"{place}.levels", MOST_LEVELS)
        levels = [_described(one, f"{place}.levels[{at}]") for at, one in enumerate(several)]
        return Score(levels, ask or None)
    if not isinstance(found.choices, Mapping):
        names = _several(found.choices, f"{place}.choices", MOST_OPTIONS)
    else:
        names = _several(list(found.choices), f"{place}.choices", MOST_OPTIONS)
    for at, name in enumerate(names):
        if not check_text(name, f"{place}.choices[{at}]").strip():
            raise InvalidRequest(f"{place}.choices[{at}]: an option without a name")
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"{place}.choices: {shown(double)} is there twice")
    told = found.choices if isinstance(found.choices, Mapping) else dict.fromkeys(names)
    choices = {name: _described(told[name], f"{place}.choices.{name}") or None for name in names}
    return Choice(choices, ask or None)


def _from_object(given: Mapping[str, Any], place: str) -> Question:
    kind = given.get("type")
    kind = _OWN_NAMES.get(kind, kind) if isinstance(kind, str) else kind
    ask, criteria = given.get("instructions"), given.get("criteria")
    if kind == "yes_no":
        if not isinstance(criteria, Mapping | None):
            raise InvalidRequest(f"{place}.criteria: expected an object, got {shown(criteria)}")
        told = criteria or {}
        return YesNo(ask, told.get("true"), told.get("false"))
    if kind == "choice":
        return Choice(criteria or (), ask)
    if kind == "score":
        return Score(criteria or (), ask)
    raise InvalidRequest(f"{place}.type: expected noul, choice or score, got {shown(kind)}")


def _several(given: Any, place: str, most: int) -> list[Any]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise InvalidRequest(f"{place}: expected a list, got {shown(given)}")
    if not 1 <= len(given) <= most:
        raise InvalidRequest(f"{place}: {len(given)}; 1 to {most} may be given")
    return list(given)


def _described(given: Any, place: str) -> str:
    """What somebody says of something, as text; empty for None."""
    if not isinstance(given, str | Mapping | list | tuple | None):
        raise InvalidRequest(f"{place}: expected text, an object or a list, got {shown(given)}")
    try:
        return check_text(text_of(given), place)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{place}: cannot be written as JSON: {error}") from error


# -- the type of an answer -------------------------------------------------------------------------


TYPES = "a pydantic model, a dataclass, a TypedDict or a JSON Schema"


def as_response_format(given: Any) -> ResponseFormat | None:
    """Raises InvalidRequest, with one line that names the argument, for what is none."""
    if isinstance(given, ResponseFormat):
        return given
    if isinstance(given, Mapping):
        return _from_schema(given)
    if not inspect.isclass(given):
        raise InvalidRequest(f"response_format: expected {TYPES}, got {_type_name(given)}")
    is_model = hasattr(given, "model_json_schema")
    if not (is_model or dataclasses.is_dataclass(given) or is_typeddict(given)):
        raise InvalidRequest(f"response_format: the class {given.__name__} is not {TYPES}")
    from edgewise.calls.python_tools import describe_answer  # noqa: PLC0415 - pydantic

    schema, parse, on_device = describe_answer(given, "response_format")
    # OpenAI takes no other characters in a name, and no more of them.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", given.__name__)[:64]
    return ResponseFormat(schema, name=name, parse=parse, on_device=on_device)


def _from_schema(given: Mapping[str, Any]) -> ResponseFormat | None:
    """A JSON Schema, or what OpenAI's requests have in its place; none of their types is one."""
    place, kind = "response_format", given.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat()
    name, strict = "answer", False
    if kind == "json_schema":
        inner = given.get("json_schema", given)  # chat completions nest it, responses do not
        schema = inner.get("schema") if isinstance(inner, Mapping) else None
        if not isinstance(schema, Mapping):
            raise InvalidRequest(f"{place}.schema: expected an object, got {_type_name(schema)}")
        name, strict = str(inner.get("name") or name), bool(inner.get("strict"))
        given = schema
    try:
        return ResponseFormat(json.loads(json.dumps(given, allow_nan=False)), name, strict)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{place}: the schema is not JSON: {error}") from error


def _type_name(value: Any) -> str:
    return "nothing" if value is None else f"an object of the type {type(value).__name__}"


# -- the request -----------------------------------------------------------------------------------


_FROM_SETTINGS = ("policy", "handoff", *OBJECTIVES, "error_probability", "max_tokens", "store_text")


def new_request(
    prompt: Prompt,
    options: Mapping[str, Any],
    settings: Settings,
    redactor: Redactor,
    steer: Callable[[Request], Request] | None = None,
) -> Request:
    """Raises InvalidRequest with the reason."""
    given = checked(options, RequestOptions)
    if "request_id" in given:
        given["id"] = _new_id(given.pop("request_id"))
    if "stop" in given:
        given["stop"] = as_texts(given["stop"], "stop")
    if "response_format" in given:
        given["response_format"] = as_response_format(given["response_format"])
    choice = given.get("tool_choice", "auto")
    if "tools" in given or not isinstance(choice, str) or choice not in ("auto", "none"):
        # This import compiles patterns for a tenth of a second; chat need not wait for it.
        from edgewise.calls.tools import as_tools, choose  # noqa: PLC0415

        given |= choose(as_tools(given.get("tools", ())), given.get("tool_choice", "auto"))
    given |= asked_model(given.get("model", ""))
    messages = _messages(prompt, given.pop("system", ""), as_images(given.pop("images", ())))
    context = given.get("context")
    if isinstance(context, Mapping) and context:
        messages = _with_facts(messages, given["context"])
    for name in ("redact", "private_kinds"):
        given[name] = _kinds(name, given.get(name, ()), settings, redactor)
    defaults = {name: getattr(settings, name) for name in _FROM_SETTINGS}
    if any(given.get(aim) is not None for aim in OBJECTIVES):  # it replaces that of the settings
        defaults |= dict.fromkeys(OBJECTIVES)
    request = Request(messages=messages, **(defaults | given))
    if complaint := request.complaint:
        raise InvalidRequest(complaint)
    if any(map(leaves, request.tools)) and redactor.closed(request) is not None:
        request = _without_leaving(request)
    plugins.load("policies", request.policy)
    return steer(request) if steer else request


def _without_leaving(request: Request) -> Request:
    """What may not leave for a cloud may not leave through a tool."""
    from edgewise.calls.tools import choose  # noqa: PLC0415  # as above

    staying = tuple(tool for tool in request.tools if not leaves(tool))
    return dataclasses.replace(request, **choose(staying, request.tool_choice))


def asked_model(name: str) -> dict[str, Any]:
    """What a model's name means, as at the server: `NAME`, `local/NAME`, `local` and `auto`."""
    where, _, rest = name.partition("/")
    if where == "cloud":
        raise InvalidRequest("model: names a local model; for the cloud: policy, and the chain")
    if where == "local":
        return {"model": rest, "policy": "local_only"}
    return {"model": "" if name == "auto" else name}


def _kinds(name: str, asked: Any, settings: Settings, redactor: Redactor) -> tuple[str, ...]:
    """What the settings say and what the request adds: a request cannot take anything away."""
    try:
        wanted = (*getattr(settings, name), *as_kinds(asked if asked is not None else ()))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{name}: {error}") from error
    if not wanted:
        return ()
    known = (*KINDS, *(kind for finder in redactor.finders for kind in finder.kinds))
    if unknown := [kind for kind in wanted if kind not in (ALL, *known)]:
        raise InvalidRequest(
            f"{name}: nothing here finds {unknown[0]!r} (known: {', '.join(known)}; "
            "the setting finders adds more)"
        )
    return tuple(dict.fromkeys(known if ALL in wanted else wanted))


def _with_facts(messages: tuple[Message, ...], context: Context) -> tuple[Message, ...]:
    """The facts in the system message, where every model reads them."""
    from edgewise.calls.prompt import context_lines  # noqa: PLC0415  # as above

    try:
        facts = "\n".join(("Known facts:", *context_lines(context)))
    except (TypeError, ValueError, RecursionError) as error:  # a table that is in itself
        raise InvalidRequest(f"context: cannot be written as JSON: {error}") from error
    check_text(facts, "context")
    if messages and messages[0].role == "system":
        return (
            dataclasses.replace(messages[0], content=f"{messages[0].content}\n\n{facts}"),
            *messages[1:],
        )
    return (Message("system", facts), *messages)


def _new_id(request_id: str) -> str:
    if not request_id or "/" in request_id:
        raise InvalidRequest(f"request id {request_id!r}: must be a word without '/'")
    return request_id


def spoken(prompt: str | Transcript, images: tuple[Image, ...] = ()) -> Message:
    """The user's turn, written or heard."""
    if isinstance(prompt, str):
        return Message("user", prompt, images=images)
    return Message("user", prompt.text, images=images, heard=prompt.words)


def _messages(prompt: Prompt, system: str, images: tuple[Any, ...]) -> tuple[Message, ...]:
    if isinstance(prompt, str | Transcript):
        turn = spoken(prompt, images)
        check_text(turn.content, "prompt")
        messages: tuple[Message, ...] = (turn,)
    elif images:
        raise InvalidRequest("images= goes with a text prompt; put them into the message instead")
    else:
        messages = as_messages(prompt, "prompt")
    check_text(system, "system")
    return (Message("system", system), *messages) if system else messages
