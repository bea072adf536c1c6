"""Google's Gemini API: chat, speech, embeddings."""

from __future__ import annotations

import base64
import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx2
from typing_extensions import override

from edgewise.cloud.conversation import (
    audio_seconds,
    base64_text,
    bytes_in,
    call_names,
    counted,
    estimated_finish,
    in_turn,
    most_asked,
    most_output_tokens,
    one_sound,
    paired,
    system_prompt,
    texts_to_embed,
    words_before,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    AnswerBuilder,
    Post,
    Try,
    Wire,
    WireProvider,
    cut,
    exchange,
    header_value,
    mapped,
    message_in,
    reading,
    refused,
)
from edgewise.cloud.provider import Arrived, Chunk, CloudProvider, ProviderConfig
from edgewise.errors import CloudError
from edgewise.types.messages import Image, Message, Original, Request, ResponseFormat, ToolCall
from edgewise.types.replies import Finish, FinishReason, Vectors

# Without this word a chat model invents something to say; with it, it says the word.
NO_SPEECH = "[no speech]"
_ELSE = (
    "correct, describe or answer them, and do not name the speakers. Where a word cannot be made "
    f"out, write what it most likely is. If nobody speaks, write only {NO_SPEECH}"
)
INSTRUCTION = (
    "Transcribe the speech in this recording verbatim. Write only the words that are spoken, "
    f"in the language they are spoken in, with punctuation. Do not translate, {_ELSE}"
)
TRANSLATING = (
    "Translate the speech in this recording into English. Write only the English for the words "
    f"that are spoken, with punctuation. Do not {_ELSE}"
)
_FINISH: dict[str, FinishReason] = {
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
}
# Gemini 3 refuses calls in the history without its own signature. Ours may come from other models
# and have none; Google documents this value for that case.
NO_SIGNATURE = base64.urlsafe_b64encode(b"skip_thought_signature_validator").decode()
_API = "/v1beta"


def open_provider(config: ProviderConfig) -> CloudProvider:
    return GeminiProvider(config, Wire(config))


class GeminiProvider(WireProvider):
    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        match request.task:
            case "transcribe":
                yield from _in_one_piece(
                    self._written(_speech_payload(request, self._name), request, wire_id)
                )
            case "embed":
                yield from self._embed(request, wire_id)
            case _:
                original = request.original
                body = payload(request) if original is None else forwarded(request, original)
                yield from self._written(body, request, wire_id, original)

    def _written(
        self,
        body: dict[str, Any],
        request: Request,
        wire_id: str,
        original: Original | None = None,
    ) -> Iterator[Chunk]:
        streams = original is None or original.stream
        post = Post(
            path=self._path("streamGenerateContent?alt=sse" if streams else "generateContent"),
            body=body,
            headers={**(original.headers if original else {}), **self._key},
            stream=streams,
            raw=original is not None,
            together=original is not None and original.put_together,
        )
        yield from exchange(
            self._wire,
            self._config,
            post,
            request,
            wire_id,
            lambda current: GeminiAnswer(self._name, current, f"call_{wire_id}", raw=post.raw),
        )

    def _embed(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        config = self._config
        url = self._wire.base_url.rstrip("/") + self._path("batchEmbedContents")
        headers = {**self._key, WIRE_ID_HEADER: header_value(wire_id)}
        body = _embedding_payload(request, config)
        with self._wire.attempt(wire_id, request.via), mapped(config.name, config.key):
            found = self._wire.client.post(url, json=body, headers=headers)
            if found.status_code >= 300:
                raise _read_refusal(config, found)
            yield from _vectors(found, request, config.name)

    def check_key(self) -> None:
        config = self._config
        with mapped(config.name, config.key), reading(config.name):
            url = self._wire.base_url.rstrip("/") + f"{_API}/models?pageSize=1"
            found = self._wire.client.get(url, headers=self._key)
            if found.status_code >= 300:
                raise _read_refusal(config, found)
            iter(found.json()["models"])  # a log-in page of some network has none

    def _path(self, method: str) -> str:
        model = quote(self._config.model.removeprefix("models/"), safe="")
        return f"{_API}/models/{model}:{method}"

    @property
    def _name(self) -> str:
        return self._config.name

    @property
    def _key(self) -> dict[str, str]:
        return {"x-goog-api-key": self._config.key or "no-key"}


def forwarded(request: Request, original: Original) -> dict[str, Any]:
    """The request as its client sent it; the model stands in the path."""
    body = dict(original.body)
    name = "generation_config" if "generation_config" in body else "generationConfig"
    if request.max_tokens and most_asked(original) is None:
        body[name] = {**(body.get(name) or {}), "maxOutputTokens": request.max_tokens}
    return body


def payload(request: Request) -> dict[str, Any]:
    """The request in Gemini's format."""
    config: dict[str, Any] = {
        "temperature": request.temperature,
        "seed": request.seed,
        **_format(request.response_format),
    }
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.stop:
        config["stopSequences"] = list(request.stop)
    messages = paired(request.messages)
    parts_of = functools.partial(_parts, names=call_names(messages))
    contents = in_turn(messages, parts_of, assistant="model", field="parts")
    body: dict[str, Any] = {"contents": contents, "generationConfig": config}
    if system := system_prompt(request.messages):
        body["systemInstruction"] = _instruction(system)
    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declarations}]
        if request.tool_choice != "auto":
            mode = "ANY" if request.tool_choice == "required" else "NONE"
            only = {"allowedFunctionNames": [request.chosen]} if request.chosen else {}
            body["toolConfig"] = {"functionCallingConfig": {"mode": mode, **only}}
    return body


def _instruction(words: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": words}]}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    schema = {"responseJsonSchema": dict(wanted.schema)} if wanted.schema else {}
    return {"responseMimeType": "application/json", **schema}


def _parts(message: Message, names: dict[str, str]) -> list[dict[str, Any]]:
    pictures: list[dict[str, Any]] = [inline_data(image) for image in message.images]
    if message.role == "tool":
        called = message.tool_call_id
        name = names.get(called, called)
        result = {"id": called, "name": name, "response": {"result": message.content}}
        return [{"functionResponse": result}, *pictures]
    words = [{"text": message.content}] if message.content else []
    calls = [
        {
            "functionCall": {"id": call.id, "name": call.name, "args": dict(call.arguments)},
            "thoughtSignature": NO_SIGNATURE,
        }
        for call in message.tool_calls
    ]
    return [*pictures, *words, *calls]


def inline_data(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": base64_text(image)}}


def _goes_on(part: dict[str, Any], more: dict[str, Any]) -> bool:
    """Whether both are pieces of one text. What has a signature is no piece of another."""
    texts = all(isinstance(each.get("text"), str) for each in (part, more))
    plain = {*part, *more} <= {"text", "thought"}
    return texts and plain and bool(part.get("thought")) == bool(more.get("thought"))


class GeminiAnswer(AnswerBuilder):
    """From the events of an answer, or a whole one: they have one shape."""

    def __init__(self, provider: str, current: Try, call_prefix: str, *, raw: bool) -> None:
        super().__init__(provider, current, raw=raw)
        self.call_prefix = call_prefix
        self.characters = 0
        self.calls: list[ToolCall] = []
        self.reason = ""
        self.usage: dict[str, Any] | None = None

    @override
    def take(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        self.usage = value.get("usageMetadata") or self.usage
        found: list[str | Arrived] = []
        for number, candidate in enumerate(value.get("candidates") or ()):
            if number or candidate.get("index"):  # of several answers, ours is the first
                found.append(Arrived(bytes_in(candidate.get("content"))))
                continue
            for part in (candidate.get("content") or {}).get("parts") or ():
                found.append(self._take_part(part))
            self.reason = candidate.get("finishReason") or self.reason
        if (value.get("promptFeedback") or {}).get("blockReason"):
            self.reason = "SAFETY"  # the prompt itself was refused; no candidate follows
        if self.reason == "MALFORMED_FUNCTION_CALL" and not self.raw:
            raise ValueError("the model wrote a function call that is not one")
        self.over = self.current.whole = bool(self.reason)
        return found or [Arrived(0)]

    @override
    def take_whole(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        return self.take(value)

    @override
    def together(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        candidates: dict[int, dict[str, Any]] = {}
        for event in events:
            for candidate in event.get("candidates") or ():
                held = candidates.setdefault(candidate.get("index") or 0, {})
                content = candidate.get("content") or {}
                parts = [*(held.get("content") or {}).get("parts", ())]
                for part in content.get("parts") or ():
                    if parts and _goes_on(parts[-1], part):
                        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
                    else:
                        parts.append(part)
                held |= candidate
                held["content"] = {"role": "model", **content, "parts": parts}
            whole |= {name: value for name, value in event.items() if name != "candidates"}
        told = [candidates[index] for index in sorted(candidates)]
        return {**({"candidates": told} if told else {}), **whole}

    @override
    def refused(
        self, config: ProviderConfig, response: httpx2.Response, words: str, value: Any
    ) -> CloudError:
        return _refused(config, response, words, value)

    def _take_part(self, part: dict[str, Any]) -> str | Arrived:
        call = part.get("functionCall")
        if call is not None:
            arguments = dict(call.get("args") or {})
            self.characters += len(str(arguments))
            id = call.get("id") or f"{self.call_prefix}_{len(self.calls)}"
            self.calls.append(ToolCall(str(call["name"]), arguments, id, source="cloud"))
            return Arrived(bytes_in((call["name"], str(arguments))))
        text = part.get("text")
        if not text or part.get("thought"):  # thinking is not part of the answer
            return Arrived(bytes_in(part))
        if not isinstance(text, str):
            raise TypeError("text is not text")
        self.characters += len(text)
        return text

    @override
    def end(self, request: Request) -> Iterator[Chunk]:
        if not self.reason:
            raise cut(self.provider)
        yield from self.calls
        with reading(self.provider):
            finish = self._finish(request)
        yield finish

    def _finish(self, request: Request) -> Finish:
        reason = _FINISH.get(self.reason, "stop")
        if self.calls and reason == "stop":
            reason = "tool_calls"
        usage = self.usage or {}
        if usage.get("promptTokenCount") is None:
            return estimated_finish(request, reason, self.characters)
        written = usage.get("candidatesTokenCount")
        if written is None and self.characters:
            return estimated_finish(request, reason, self.characters)
        return Finish(
            reason,
            input_tokens=counted(
                usage["promptTokenCount"], usage.get("toolUsePromptTokenCount") or 0
            ),
            # Thinking is billed as output.
            output_tokens=counted(written or 0, usage.get("thoughtsTokenCount") or 0),
            cached_tokens=counted(usage.get("cachedContentTokenCount") or 0),
            audio_tokens=_tokens_of_sound(request, usage),
            audio_seconds=audio_seconds(request),
        )


def _speech_payload(request: Request, provider: str) -> dict[str, Any]:
    sound = one_sound(request, provider)
    parts: list[dict[str, Any]] = [
        {"inlineData": {"mimeType": sound.media_type, "data": base64_text(sound)}},
        {"text": _task(request)},
    ]
    config = {
        "maxOutputTokens": most_output_tokens(request),
        "temperature": request.temperature,
        "seed": request.seed,
    }
    return {
        "contents": [{"role": "user", "parts": parts}],
        "systemInstruction": _instruction(TRANSLATING if request.translate else INSTRUCTION),
        "generationConfig": config,
    }


def _task(request: Request) -> str:
    lines = [f"{'Translate' if request.translate else 'Transcribe'} this recording."]
    if request.language:
        lines.append(f"The language is {request.language}.")
    if request.hint:
        lines.append(f"Not said in it, but how such words are spelt: {request.hint}")
    if words := words_before(request):
        lines.append(f"Right before it was said, not to be repeated: {words}")
    return "\n".join(lines)


def _in_one_piece(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The whole text at the end: its first pieces may turn out to say that nobody spoke."""
    texts: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, str):
            texts.append(chunk)
            yield Arrived(bytes_in(chunk))
        elif isinstance(chunk, Arrived):
            yield chunk
        elif isinstance(chunk, Finish):
            text = "".join(texts).strip()
            # Refused is not silent: without a text the door calls it empty.
            if text or chunk.reason != "filtered":
                yield "" if text.strip(" .").lower() == NO_SPEECH else text
            yield chunk


def _tokens_of_sound(request: Request, usage: dict[str, Any]) -> int:
    """How many tokens of the prompt were sound; all of them if Gemini does not say."""
    if request.task != "transcribe":
        return 0
    details = usage.get("promptTokensDetails")
    counts = [
        each.get("tokenCount") or 0 for each in details or () if each.get("modality") == "AUDIO"
    ]
    return counted(*counts) if details else counted(usage["promptTokenCount"])


def _embedding_payload(request: Request, config: ProviderConfig) -> dict[str, Any]:
    # One request per text: newer models make one vector of all texts in a content.
    model = f"models/{config.model.removeprefix('models/')}"
    shape = {} if request.dimensions is None else {"outputDimensionality": request.dimensions}
    return {
        "requests": [
            {"model": model, "content": {"parts": [{"text": text}]}, **shape}
            for text in texts_to_embed(request, config.name)
        ]
    }


def _vectors(response: httpx2.Response, request: Request, provider: str) -> Iterator[Chunk]:
    with reading(provider):
        made = response.json()
        rows = [tuple(float(value) for value in row["values"]) for row in made["embeddings"]]
        if len(rows) != len(texts_to_embed(request, provider)) or not all(rows):
            raise ValueError("not one vector per text")
        read = (made.get("usageMetadata") or {}).get("promptTokenCount")
        finish = (
            estimated_finish(request, "stop", 0)
            if read is None
            else Finish("stop", input_tokens=counted(read))
        )
    yield Vectors(tuple(rows))
    yield finish


def _refused(
    config: ProviderConfig, response: httpx2.Response, words: str, value: Any
) -> CloudError:
    """Gemini answers 400 to a wrong key, and says in the body how long to wait."""
    details: Any = None
    with contextlib.suppress(LookupError, TypeError, AttributeError):
        details = (value[0] if isinstance(value, list) else value)["error"].get("details")
    wrong_key = "API_KEY_INVALID" in str(details)
    error = refused(
        config.name, response, message=words, status=401 if wrong_key else None, key=config.key
    )
    delay = _delay_in(details)
    error.retry_after_s = error.retry_after_s if delay is None else delay
    return error


def _read_refusal(config: ProviderConfig, response: httpx2.Response) -> CloudError:
    value: Any = None
    with contextlib.suppress(ValueError):
        value = response.json()
    return _refused(config, response, message_in(value), value)


def _delay_in(details: Any) -> float | None:
    """As {"retryDelay": "7.5s"}."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        for detail in details:
            if "retryDelay" in detail:
                return float(detail["retryDelay"].removesuffix("s"))
    return None
