"""OpenAI's protocol, which most providers speak: chat, speech, embeddings."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.cloud.conversation import (
    LIMIT_NAMES,
    audio_seconds,
    bytes_in,
    counted,
    data_url,
    described,
    estimated_finish,
    most_asked,
    one_sound,
    paired,
    texts_to_embed,
    whole_calls,
    words_before,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    AnswerBuilder,
    Post,
    Try,
    Wire,
    WireProvider,
    broken,
    cut,
    exchange,
    header_value,
    mapped,
    message_in,
    reading,
    refused,
    status_error,
    unreadable,
)
from edgewise.cloud.provider import Arrived, Chunk, CloudProvider, ProviderConfig
from edgewise.cloud.providers import PROVIDERS, Provider, row_for
from edgewise.types.messages import Message, Original, Request, ResponseFormat, ToolCall
from edgewise.types.replies import Finish, FinishReason, Vectors, Voiced

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
MOST_SOUND = 200_000_000  # bytes of one spoken text, an hour and more
# Of a piece of an answer, what is read as itself.
_DELTA = {"content", "refusal", "tool_calls", "role"}
_NO_USAGE = re.compile(rb',\s*(?<!\\)"usage"\s*:\s*null')
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
        if request.task in ("chat", "call"):
            yield from self._chat(request, wire_id)
            return
        headers = {WIRE_ID_HEADER: header_value(wire_id)}
        if request.translate or request.task == "speak":
            asked = self._translate if request.translate else self._speak
            with self._wire.attempt(wire_id, request.via), mapped(config.name, config.key):
                yield from asked(request, headers)
            return
        with self._wire.attempt(wire_id, request.via), _mapped(config):
            if request.task == "transcribe":
                yield from _transcribe(client, request, config, row, headers)
            else:
                yield from _embed(client, request, config, headers)

    def _chat(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        config, original = self._config, request.original
        if original is None:
            body = payload(request, config.model, self._row)
            post = Post(path="/chat/completions", body=body)
        else:
            post = forwarded(request, original, config.model, self._row)
        responses = post.path == "/responses"
        asked = original is not None and (original.body.get("stream_options") or {})
        hide_usage = post.raw and not (asked and asked.get("include_usage"))

        def answer(current: Try) -> AnswerBuilder:
            if responses:
                return ResponsesAnswer(config.name, current, raw=post.raw)
            prefix = f"call_{wire_id}"
            return ChatBuilder(config.name, current, prefix, raw=post.raw, hide_usage=hide_usage)

        post = replace(post, headers={**post.headers, **self._usual_headers})
        yield from exchange(self._wire, config, post, request, wire_id, answer)

    @property
    def _usual_headers(self) -> dict[str, str]:
        """The SDK keeps its key apart from its other headers."""
        sdk = {**self._client.default_headers, "Authorization": f"Bearer {self._client.api_key}"}
        return {name: value for name, value in sdk.items() if isinstance(value, str)}

    def _translate(self, request: Request, headers: Mapping[str, str]) -> Iterator[Chunk]:
        """Not by the SDK, which warns its users that this endpoint will go."""
        config, form = self._config, _speech_payload(request, self._config, self._row)
        sent = {**self._usual_headers, **headers}
        sent = {name: text for name, text in sent.items() if name.lower() != "content-type"}
        response = self._wire.client.post(
            self._wire.base_url.rstrip("/") + "/audio/translations",
            files={"file": form.pop("file")},
            data={name: str(value) for name, value in form.items()},
            headers=sent,
        )
        if not response.is_success:
            raise refused(config.name, response, key=config.key)
        with reading(config.name):
            text = response.json()["text"]
            if not isinstance(text, str):
                raise TypeError("its text is not text")
        yield text
        yield estimated_finish(request, "stop", len(text))

    def _speak(self, request: Request, headers: Mapping[str, str]) -> Iterator[Chunk]:
        config, text = self._config, request.state
        kind = "wav" if self._row.only_wav else request.sound
        voice = request.voice or config.voice
        body: dict[str, Any] = {"model": config.model, "input": text, "voice": voice}
        body["response_format"] = kind
        if request.speed != 1.0:
            body["speed"] = request.speed
        url = self._wire.base_url.rstrip("/") + "/audio/speech"
        parts: list[bytes] = []
        given = {**self._usual_headers, **headers}
        with self._wire.client.stream("POST", url, json=body, headers=given) as response:
            if not response.is_success:
                response.read()
                raise refused(config.name, response, key=config.key)
            size = 0
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                yield Arrived(len(part))
                if size > MOST_SOUND:
                    raise unreadable(config.name, "more sound than anybody asked for")
            with reading(config.name):
                if "json" in (said := response.headers.get("content-type", "")) or "text/" in said:
                    raise TypeError("its sound is text")
        if parts:
            yield Voiced(b"".join(parts), kind, voice)
        yield Finish("stop", characters=len(text))

    def check_key(self) -> None:
        with _mapped(self._config), reading(self._config.name):
            found = self._client.get(self._row.key_check, cast_to=object)
            if not isinstance(found, dict):  # a log-in page of some network says 200, too
                raise TypeError("not an object")


def forwarded(request: Request, original: Original, model: str, row: Provider) -> Post:
    """The request as its client sent it, to this model. What a model refuses that we chose is
    adapted; to one that the client named, everything goes as it came."""
    responses, body = original.wire == "responses", dict(original.body)
    limits = LIMIT_NAMES[original.wire]
    chosen = not str(body.get("model", "")).endswith(model)
    body["model"] = model
    if original.stream:
        body["stream"] = True
        options = body.get("stream_options") or {}
        if row.usage_on_request and not responses and options.get("include_usage") is not True:
            body["stream_options"] = {**options, "include_usage": True}
    given = most_asked(original)
    # One that knows the older name alone would write without a limit. The others know both.
    older = row.name in PROVIDERS and row.output_limit == "max_tokens"
    unheard = older and not body.get("max_tokens")
    if given is None and request.max_tokens:
        body[limits[-1] if responses else row.output_limit] = request.max_tokens
    elif given is not None and not responses and (chosen or unheard):
        for name in limits:
            body.pop(name, None)
        body[row.output_limit] = given
    traits = row.traits(model)
    if chosen and not traits.temperature:
        body.pop("temperature", None)
    if chosen and traits.reasoning_effort and not responses:
        body.setdefault("reasoning_effort", traits.reasoning_effort)
    return Post(
        path="/responses" if responses else "/chat/completions",
        body=body,
        headers=original.headers,
        stream=original.stream,
        raw=True,
        together=original.put_together,
    )


def payload(request: Request, model: str, row: Provider) -> dict[str, Any]:
    """A chat in OpenAI's format, without what this provider or model refuses."""
    traits = row.traits(model)
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(paired(request.messages, short_ids=row.short_tool_ids))),
        "stream": True,
        **_format(request.response_format),
        **_tools(request),
    }
    ends = {row.output_limit: request.max_tokens, "stop": list(request.stop)}
    body |= {name: value for name, value in ends.items() if value}  # if anybody asked for it
    if row.usage_on_request:
        body["stream_options"] = {"include_usage": True}
    if traits.temperature:
        body["temperature"] = request.temperature
    if row.seed_field:
        body[row.seed_field] = request.seed
    if traits.reasoning_effort:
        body["reasoning_effort"] = traits.reasoning_effort
    if traits.thinking:
        body["thinking"] = {"type": traits.thinking}
    return body


def _tools(request: Request) -> dict[str, Any]:
    if not request.tools:
        return {}
    offered = [{"type": "function", "function": described(tool)} for tool in request.tools]
    if request.chosen:
        chosen = {"type": "function", "function": {"name": request.chosen}}
        return {"tools": offered, "tool_choice": chosen}
    choice = {} if request.tool_choice == "auto" else {"tool_choice": request.tool_choice}
    return {"tools": offered, **choice}


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


# -- answers ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Call:
    """An unfinished tool call."""

    id: str
    name: str = ""
    arguments: str = ""


class _OpenAIAnswer(AnswerBuilder):
    """What both protocols have."""

    status_of = _STATUS_OF_WORD

    def __init__(self, provider: str, current: Try, *, raw: bool) -> None:
        super().__init__(provider, current, raw=raw)
        self.characters = 0
        self.calls: list[_Call] = []
        self.reason: FinishReason | None = None
        self.refusal = False
        self.usage: Any = None

    @override
    def end(self, request: Request) -> Iterator[Chunk]:
        if self.reason is None:
            raise cut(self.provider)
        with reading(self.provider):
            finish = self._finish(request, self.reason)
            written = ((call.name, call.arguments, call.id) for call in self.calls)
            calls = list(whole_calls(written, finish.reason, passed_on=self.raw))
        yield from calls
        yield finish

    def _finish(self, request: Request, reason: FinishReason) -> Finish:
        if self.refusal:
            reason = "filtered"
        elif self.calls and reason == "stop":
            reason = "tool_calls"
        if self.usage is None:
            written = self.characters + sum(len(call.arguments) for call in self.calls)
            return estimated_finish(request, reason, written)
        usage = self.usage  # responses have other words for the same counts
        details = _first(usage, "prompt_tokens_details", "input_tokens_details") or {}
        wrote = _first(usage, "completion_tokens_details", "output_tokens_details") or {}
        return Finish(
            reason,
            input_tokens=counted(_first(usage, "prompt_tokens", "input_tokens")),
            output_tokens=counted(_first(usage, "completion_tokens", "output_tokens")),
            cached_tokens=counted(details.get("cached_tokens") or 0),
            stored_tokens=counted(details.get("cache_write_tokens") or 0),
            audio_tokens=counted(details.get("audio_tokens") or 0),
            spoken_tokens=counted(wrote.get("audio_tokens") or 0),
        )

    def _said(self, *given: Any) -> list[str | Arrived]:
        """Its words. Some servers write them, and their thoughts, as a list of parts."""
        parts = [part for each in given for part in (each if isinstance(each, list) else [each])]
        texts, thoughts = list[str](), 0
        for part in filter(None, parts):
            if isinstance(part, dict) and part.get("type") != "text":
                thoughts += bytes_in(part)
                continue
            text = part.get("text") if isinstance(part, dict) else part
            if not isinstance(text, str):
                raise TypeError("content is not text")
            texts.append(text)
        self.characters += sum(map(len, texts))
        return [*([Arrived(thoughts)] if thoughts else []), *texts]


class ChatBuilder(_OpenAIAnswer):
    """From the chunks of a chat completion, or a whole one. `hide_usage`: only we asked for it."""

    def __init__(
        self, provider: str, current: Try, call_prefix: str, *, raw: bool, hide_usage: bool
    ) -> None:
        super().__init__(provider, current, raw=raw)
        self._call_prefix, self._hide_usage = call_prefix, hide_usage
        self._places: dict[int, _Call] = {}
        self._finished: dict[int, bool] = {}  # of several answers, those that have begun

    @override
    def end(self, request: Request) -> Iterator[Chunk]:
        if not (self.ended or all(self._finished.values())):  # one of several was cut
            raise cut(self.provider)
        yield from super().end(request)

    @override
    def take(self, value: dict[str, Any]) -> list[str | Arrived]:
        return self._take(value, "delta")

    @override
    def take_whole(self, value: dict[str, Any]) -> list[str | Arrived]:
        found = self._take(value, "message")
        if value.get("choices"):  # some servers do not say why an answer ended that is all there
            self.reason = self.reason or "stop"
            self._finished = dict.fromkeys(self._finished, True)
        return found

    def _take(self, value: dict[str, Any], name: str) -> list[str | Arrived]:
        """The text of one event, and how much else it brought, which is kept for the end."""
        self.usage = value.get("usage") or self.usage
        choices = value.get("choices", ())
        ended = any(choice.get("finish_reason") for choice in choices)
        self.over = ended or (self.over and not choices)
        texts: list[str | Arrived] = []
        hidden = 0
        for choice in choices:
            place = choice.get("index") or 0
            self._finished[place] = bool(self._finished.get(place) or choice.get("finish_reason"))
            delta = choice.get(name)
            if place:  # of several answers, ours is the first; a client gets all
                hidden += bytes_in(delta)
                continue
            if delta is not None:
                texts = self._said(delta.get("content"), delta.get("refusal"))
                self.refusal = self.refusal or bool(delta.get("refusal"))
                # Thoughts, under many names.
                hidden += bytes_in({name: delta[name] for name in delta.keys() - _DELTA})
                for place, piece in enumerate(delta.get("tool_calls") or ()):
                    hidden += self._take_call(piece, place)
            if reason := choice.get("finish_reason"):
                self.reason = _FINISH.get(reason, "stop")
        # Only usage and the end mark follow the reason: the answer is complete from here on.
        self.current.whole = self.reason is not None and all(self._finished.values())
        return [Arrived(hidden), *texts] if hidden else texts

    def _take_call(self, piece: Any, at: int) -> int:
        function = piece.get("function")
        if function is None:
            return bytes_in(piece.get("custom"))
        place, id = piece.get("index", at) or 0, piece.get("id")
        call = self._places.get(place)
        # Some servers number every call 0; then a new id is a new call.
        if call is None or (id and call.name and id != call.id):
            call = _Call(id=id or f"{self._call_prefix}_{len(self.calls)}")
            self._places[place] = call
            self.calls.append(call)
        name, arguments = function.get("name") or "", function.get("arguments") or ""
        call.name += name
        call.arguments += arguments
        return bytes_in((name, arguments))

    @override
    def together(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        choices: dict[int, dict[str, Any]] = {}
        for event in events:
            for choice in event.get("choices") or ():
                place = choice.get("index") or 0
                held = choices.setdefault(place, {"index": place, "message": {}})
                _add(held["message"], choice.get("delta") or {})
                _add(held, {"logprobs": choice.get("logprobs")})
                _add(held, _without(choice, {"index", "delta", "logprobs"}), go_on=False)
            # What chunks have and whole answers have not, or in other words.
            _add(whole, _without(event, {"choices", "object", "obfuscation"}), go_on=False)
        for held in choices.values():
            message = held["message"] = {"role": "assistant", "content": None} | held["message"]
            for call in message.get("tool_calls") or ():
                call.pop("index", None)
        named = {
            "object": "chat.completion",
            "choices": [choices[each] for each in sorted(choices)],
        }
        return {**whole, **named}

    @override
    def shown(self, written: bytes, value: Any) -> bytes:
        if not self._hide_usage or value is None or "usage" not in value:
            return written
        if not value.get("choices"):
            return b""
        return _NO_USAGE.sub(b"", written) if value["usage"] is None else written


# Texts that some servers say again in each piece, and that do not go on in it.
_SAID_ONCE = {"id", "type", "role"}


def _without(value: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in names}


def _add(held: dict[str, Any], more: Mapping[str, Any], *, go_on: bool = True) -> None:
    """What one more piece says. Texts and lists go on in it, unless they are told anew."""
    for name, value in more.items():
        before = held.get(name)
        if isinstance(value, list) and go_on:
            held[name] = before if isinstance(before, list) else []
            _add_items(held[name], value)
        elif isinstance(value, dict) and isinstance(before, dict):
            _add(before, value, go_on=go_on)
        elif isinstance(value, str) and isinstance(before, list) and go_on:
            _add_items(before, [{"type": "text", "text": value}] if value else [])
        elif isinstance(value, str) and isinstance(before, str) and go_on:
            held[name] = (value or before) if name in _SAID_ONCE else before + value
        elif value is not None or name not in held:
            held[name] = value


def _add_items(held: list[Any], more: Sequence[Any]) -> None:
    """Items that say which they are go on; others are further ones."""
    for item in more:
        if not isinstance(item, dict):
            held.append(item)
            continue
        place, id = item.get("index"), item.get("id")
        begun = [each for each in held if place is not None and each.get("index") == place]
        # Some servers number every call 0; then a new id is a new call.
        if begun and id in (None, "", begun[-1].get("id")):
            _add(begun[-1], item)
        else:
            held.append(dict(item))


class ResponsesAnswer(_OpenAIAnswer):
    """From the events of a response, or a whole one."""

    @override
    def check(self, value: Any, key: str = "") -> None:
        told = value.get("type") == "error"  # an event that is the error itself
        super().check({"error": {**value, "type": value.get("code")}} if told else value, key)

    @override
    def take(self, value: dict[str, Any]) -> list[str | Arrived]:
        kind, delta = str(value.get("type")), value.get("delta")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self.refusal = self.refusal or "refusal" in kind
            return self._said(delta)
        if kind == "response.output_item.done":
            return [Arrived(self._take_item(value.get("item") or {}))]
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._close(value.get("response") or {})
        # What is done has come before, piece by piece.
        return [Arrived(0 if "done" in kind or delta is None else bytes_in(delta))]

    @override
    def take_whole(self, value: dict[str, Any]) -> list[str | Arrived]:
        texts: list[str | Arrived] = []
        hidden = 0
        for item in value.get("output") or ():
            hidden += self._take_item(item)
            for part in item.get("content") or () if item.get("type") == "message" else ():
                self.refusal = self.refusal or bool(part.get("refusal"))
                texts += self._said(part.get("text"), part.get("refusal"))
        self._close(value)
        return [Arrived(hidden), *texts]

    @override
    def together(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        last: dict[str, Any] = events[-1]["response"]
        # It says all of it again; of some servers it does not.
        items = {each["output_index"]: each["item"] for each in events if "item" in each}
        return (
            last if last.get("output") else {**last, "output": [items[at] for at in sorted(items)]}
        )

    def _take_item(self, item: dict[str, Any]) -> int:
        """Bytes of what is no message; a call of a function is kept."""
        if item.get("type") == "function_call":
            self.calls.append(_Call(item["call_id"], item["name"], item.get("arguments") or ""))
        return 0 if item.get("type") == "message" else bytes_in(item)

    def _close(self, response: dict[str, Any]) -> None:
        self.over = self.ended = self.current.whole = True
        self.usage = response.get("usage")
        status = response.get("status")
        self.check(response)
        why = (response.get("incomplete_details") or {}).get("reason")
        short: FinishReason = "filtered" if why == "content_filter" else "length"
        self.reason = "stop" if status == "completed" else short


# -- speech and embeddings -------------------------------------------------------------------------


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
    if request.translate:
        pass  # that endpoint takes no language
    elif language and row.traits(config.model).languages:
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
        input_tokens=counted(tokens or 0),
        output_tokens=counted(_first(usage, "output_tokens", "completion_tokens") or 0),
        # Not specified: count all of it as sound, which costs more.
        audio_tokens=counted((tokens or 0) if sound is None else sound),
        audio_seconds=float(audio_seconds(request) if seconds is None else seconds),
    )


def _first(usage: Any, *names: str) -> Any:
    of = usage.get if isinstance(usage, Mapping) else lambda name: getattr(usage, name, None)
    return next((value for value in map(of, names) if value is not None), None)


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
        tokens = getattr(made.usage, "prompt_tokens", None)
        if tokens is None:
            finish = estimated_finish(request, "stop", 0)
        else:
            finish = Finish("stop", input_tokens=counted(tokens))
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
