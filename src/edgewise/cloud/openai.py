"""OpenAI's protocol, which most providers speak: chat, speech, embeddings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import (
    audio_seconds,
    data_url,
    described,
    estimated_finish,
    one_sound,
    paired,
    texts_to_embed,
    words_before,
    written_call,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    Try,
    Wire,
    WireProvider,
    broken,
    cut,
    expect_events,
    header_value,
    mapped,
    message_in,
    reading,
    refused,
    status_error,
)
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig
from edgewise.cloud.providers import Provider, row_for
from edgewise.types.messages import Message, Request, ResponseFormat, ToolCall
from edgewise.types.tokens import Finish, FinishReason, Vectors

if TYPE_CHECKING:
    import openai
    from openai.types.audio import Transcription

# Some servers trust the file's name more than its type.
_ENDINGS = {
    "audio/flac": "flac",
    "audio/m4a": "m4a",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/ogg": "ogg",
    "audio/webm": "webm",
}
_FINISH: dict[str, FinishReason] = {
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}
# Errors inside a stream carry a word instead of a status; unknown words are the server's fault.
_STATUS_OF_WORD = {
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "model_not_found": 404,
    "invalid_request_error": 400,
}


def open_provider(config: ProviderConfig) -> CloudProvider:
    import openai  # noqa: PLC0415 - the SDK takes most of a second to load; only its users wait

    wire = Wire(config)
    client = openai.OpenAI(
        # Never empty: the SDK would then read the environment, and may find another provider's key.
        api_key=config.key or "no-key",
        base_url=wire.base_url,
        max_retries=0,
        timeout=wire.timeout,
        http_client=wire.client,
    )
    row = row_for(config)
    if row.name != "openai":  # the SDK read these from the environment; only OpenAI may see them
        client.organization = client.project = None
    return OpenAIProvider(config, wire, row, client)


class OpenAIProvider(WireProvider):
    def __init__(
        self, config: ProviderConfig, wire: Wire, row: Provider, client: openai.OpenAI
    ) -> None:
        super().__init__(config, wire)
        self._row = row
        self._client = client

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        config, row, client = self._config, self._row, self._client
        headers = {WIRE_ID_HEADER: header_value(wire_id)}
        with self._wire.attempt(wire_id, request.via) as current, _mapped(config):
            if request.task == "transcribe":
                yield from _transcribe(client, request, config, row, headers)
                return
            if request.task == "embed":
                yield from _embed(client, request, config, headers)
                return
            options = payload(request, config.model, row)
            events = client.chat.completions.create(**options, extra_headers=headers)
            expect_events(config.name, events.response)
            answer = _Answer(config.name, current, f"call_{wire_id}")
            for event in events:
                with reading(config.name):
                    texts = answer.take(event)
                yield from texts
            yield from answer.end(request)

    def check_key(self) -> None:
        with _mapped(self._config), reading(self._config.name):
            found = self._client.get(self._row.key_check, cast_to=object)
            if not isinstance(found, dict):  # a log-in page of some network says 200, too
                raise TypeError("not an object")


def payload(request: Request, model: str, row: Provider) -> dict[str, Any]:
    """A chat in OpenAI's format, without what this provider or model refuses."""
    traits = row.traits(model)
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(paired(request.messages, short_ids=row.short_tool_ids))),
        "stream": True,
        row.output_limit: request.max_tokens,
        **_format(request.response_format),
    }
    extra: dict[str, Any] = {}
    if row.usage_on_request:
        body["stream_options"] = {"include_usage": True}
    if traits.temperature:
        body["temperature"] = request.temperature
    if row.seed_field:
        extra[row.seed_field] = request.seed
    if request.stop:
        body["stop"] = list(request.stop)
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": described(tool)} for tool in request.tools
        ]
        if request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice
    if traits.reasoning_effort:
        body["reasoning_effort"] = traits.reasoning_effort
    if traits.thinking:
        extra["thinking"] = {"type": traits.thinking}
    if extra:
        body["extra_body"] = extra
    return body


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    if not wanted.schema:
        return {"response_format": {"type": "json_object"}}
    named = {"name": wanted.name, "schema": dict(wanted.schema), "strict": wanted.strict}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _messages(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    # Only user messages may hold images. Those of tool results follow in one user message after the
    # last result, because nothing may stand between a call and its results.
    late: list[dict[str, Any]] = []
    for message in messages:
        if late and message.role != "tool":
            yield {"role": "user", "content": late}
            late = []
        pictures = [
            {"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images
        ]
        turn: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role == "tool":
            turn["tool_call_id"] = message.tool_call_id
        if message.tool_calls:
            turn["tool_calls"] = [_written(call) for call in message.tool_calls]
        if pictures and message.role == "user":
            words = [{"type": "text", "text": message.content}] if message.content else []
            turn["content"] = [*words, *pictures]
        else:
            late += pictures
        yield turn
    if late:
        yield {"role": "user", "content": late}


def _written(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments))
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


@dataclass(slots=True)
class _Call:
    """An unfinished tool call."""

    id: str
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Answer:
    """Builds an answer from its events."""

    provider: str
    current: Try
    call_prefix: str
    characters: int = 0
    calls: list[_Call] = field(default_factory=list)
    places: dict[int, _Call] = field(default_factory=dict)
    reason: str = ""
    refusal: bool = False
    usage: Any = None

    def take(self, event: Any) -> list[str]:
        """The text of one event; everything else is kept for the end."""
        self.usage = event.usage or self.usage
        texts: list[str] = []
        for choice in event.choices[:1]:
            delta = choice.delta
            if delta is not None:
                texts = [text for text in (delta.content, delta.refusal) if text]
                self.refusal = self.refusal or bool(delta.refusal)
                for piece in delta.tool_calls or ():
                    self._take_call(piece)
            self.reason = choice.finish_reason or self.reason
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("content is not text")
        self.characters += sum(len(text) for text in texts)
        # Only usage and the end mark follow the reason: the answer is complete from here on.
        self.current.whole = bool(self.reason)
        return texts

    def _take_call(self, piece: Any) -> None:
        place = piece.index or 0
        call = self.places.get(place)
        # Some servers number every call 0; then a new id is a new call.
        if call is None or (piece.id and call.name and piece.id != call.id):
            call = _Call(id=piece.id or f"{self.call_prefix}_{len(self.calls)}")
            self.places[place] = call
            self.calls.append(call)
        if piece.function is not None:
            call.name += piece.function.name or ""
            call.arguments += piece.function.arguments or ""

    def end(self, request: Request) -> Iterator[Chunk]:
        if not self.reason:
            raise cut(self.provider)
        with reading(self.provider):
            calls = [written_call(call.name, call.arguments, call.id) for call in self.calls]
            finish = self._finish(request)
        yield from calls
        yield finish

    def _finish(self, request: Request) -> Finish:
        reason = _FINISH.get(self.reason, "stop")
        if self.refusal:
            reason = "filtered"
        elif self.calls and reason == "stop":
            reason = "tool_calls"
        if self.usage is None:
            written = self.characters + sum(len(call.arguments) for call in self.calls)
            return estimated_finish(request, reason, written)
        details = self.usage.prompt_tokens_details
        return Finish(
            reason,
            input_tokens=int(self.usage.prompt_tokens or 0),
            output_tokens=int(self.usage.completion_tokens or 0),
            cached_tokens=int((details.cached_tokens if details else 0) or 0),
        )


def _transcribe(
    client: openai.OpenAI,
    request: Request,
    config: ProviderConfig,
    row: Provider,
    headers: Mapping[str, str],
) -> Iterator[Chunk]:
    """The text, "" if nobody spoke, and what was charged for: tokens, or seconds."""
    form = _speech_payload(request, config, row)
    heard: Transcription = client.audio.transcriptions.create(**form, extra_headers=headers)
    with reading(config.name):
        text = heard.text
        if not isinstance(text, str):
            raise TypeError("its text is not text")
        finish = _heard_finish(request, heard.usage, len(text))
    yield text
    yield finish


def _speech_payload(request: Request, config: ProviderConfig, row: Provider) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    sound = one_sound(request, config.name)
    ending = _ENDINGS.get(sound.media_type.partition(";")[0].strip().lower(), "wav")
    form: dict[str, Any] = {
        "file": (f"speech.{ending}", sound.data, sound.media_type),
        "model": config.model,
    }
    language = request.language or row.any_language
    if language and row.traits(config.model).languages:
        form["languages"] = [language]
    elif language:
        form["language"] = language
    words = " ".join(part for part in (request.hint, words_before(request)) if part)
    if words and row.speech_prompt:
        form["prompt"] = words
    if request.temperature and row.traits(config.model).temperature:
        form["temperature"] = min(1.0, request.temperature)
    # All servers send JSON by default; the newest models refuse to be asked for it.
    return form


def _heard_finish(request: Request, usage: Any, characters: int) -> Finish:
    if usage is None:
        return estimated_finish(request, "stop", characters)
    # OpenAI says `seconds`, Mistral `prompt_audio_seconds`; token-based models have neither.
    seconds = getattr(usage, "seconds", None) or getattr(usage, "prompt_audio_seconds", None)
    tokens = _first(usage, "input_tokens", "prompt_tokens")
    if seconds is None and tokens is None:
        return estimated_finish(request, "stop", characters)
    details = getattr(usage, "input_token_details", None)
    sound = getattr(details, "audio_tokens", None)
    return Finish(
        "stop",
        input_tokens=int(tokens or 0),
        output_tokens=int(_first(usage, "output_tokens", "completion_tokens") or 0),
        # Not specified: count all of it as sound, which costs more.
        audio_tokens=int((tokens or 0) if sound is None else sound),
        audio_seconds=float(audio_seconds(request) if seconds is None else seconds),
    )


def _first(usage: Any, *names: str) -> Any:
    found = (getattr(usage, name, None) for name in names)
    return next((value for value in found if value is not None), None)


def _embed(
    client: openai.OpenAI, request: Request, config: ProviderConfig, headers: Mapping[str, str]
) -> Iterator[Chunk]:
    body = _embedding_payload(request, config)
    made = client.embeddings.create(**body, extra_headers=headers)
    with reading(config.name):
        rows = sorted(made.data, key=lambda row: row.index)
        # With a missing or repeated index, a text would get another text's vector.
        if [row.index for row in rows] != list(range(len(body["input"]))):
            raise ValueError("not one vector per text")
        vectors = Vectors(tuple(tuple(float(value) for value in row.embedding) for row in rows))
        if not all(vectors.values):
            raise ValueError("an empty vector")
        usage: Any = made.usage
        if usage is None or usage.prompt_tokens is None:
            finish = estimated_finish(request, "stop", 0)
        else:
            finish = Finish("stop", input_tokens=int(usage.prompt_tokens))
    yield vectors
    yield finish


def _embedding_payload(request: Request, config: ProviderConfig) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    body: dict[str, Any] = {
        "input": texts_to_embed(request, config.name),
        "model": config.model,
        # Explicit, or the SDK asks for base64, which not every server knows.
        "encoding_format": "float",
    }
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    return body


@contextlib.contextmanager
def _mapped(config: ProviderConfig) -> Generator[None]:
    import openai  # noqa: PLC0415

    with mapped(config.name, config.key):
        try:
            yield
        except openai.APIStatusError as error:
            words = message_in(error.body)
            raise refused(config.name, error.response, message=words, key=config.key) from error
        except openai.APIConnectionError as error:
            raise broken(config.name, error.__cause__ or error) from error
        except openai.APIError as error:  # an error event in a stream that began well
            status = _status_of(error.code, error.type)
            raise status_error(config.name, status, error.message, key=config.key) from error


def _status_of(*words: str | None) -> int:
    for word in words:
        if word and word.isdigit():
            return int(word)
        if word in _STATUS_OF_WORD:
            return _STATUS_OF_WORD[word]
    return 500
