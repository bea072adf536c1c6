"""Google's Gemini API: chat, speech, embeddings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.cloud.conversation import (
    audio_seconds,
    call_names,
    estimated_finish,
    in_turn,
    most_output_tokens,
    one_sound,
    paired,
    system_prompt,
    texts_to_embed,
    words_before,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    Try,
    Wire,
    WireProvider,
    cut,
    header_value,
    mapped,
    reading,
    retry_after,
    status_error,
)
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig
from edgewise.types.messages import Message, Request, ResponseFormat, ToolCall
from edgewise.types.tokens import Finish, FinishReason, Vectors

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import EmbedContentResponse

# Without this word a chat model invents something to say; with it, it says the word.
NO_SPEECH = "[no speech]"
INSTRUCTION = (
    "Transcribe the speech in this recording verbatim. Write only the words that are spoken, "
    "in the language they are spoken in, with punctuation. Do not translate, correct, describe "
    "or answer them, and do not name the speakers. Where a word cannot be made out, write what "
    f"it most likely is. If nobody speaks, write only {NO_SPEECH}"
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
_NO_SIGNATURE = b"skip_thought_signature_validator"


def open_provider(config: ProviderConfig) -> CloudProvider:
    from google import genai  # noqa: PLC0415 - the SDK is slow to load; only its users wait

    wire = Wire(config)
    client = genai.Client(
        vertexai=False,  # explicit, or the environment may decide otherwise
        api_key=config.key or "no-key",  # never empty: the SDK would read the environment
        # Without retry options the SDK tries once.
        http_options=genai.types.HttpOptions(base_url=wire.base_url, httpx_client=wire.client),
    )
    return GeminiProvider(config, wire, client)


class GeminiProvider(WireProvider):
    def __init__(self, config: ProviderConfig, wire: Wire, client: genai.Client) -> None:
        super().__init__(config, wire)
        self._client = client

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        name, model = self._config.name, self._config.model
        header = header_value(wire_id)
        with self._wire.attempt(wire_id, request.via) as current, _mapped(self._config):
            answer = _Answer(name, current, f"call_{wire_id}")
            match request.task:
                case "transcribe":
                    options = _speech_payload(request, name, header)
                    yield from _in_one_piece(self._written(options, request, answer))
                case "embed":
                    options = _embedding_payload(request, name, header)
                    with reading(name):  # the SDK parses replies, and fails on unexpected ones
                        made = self._client.models.embed_content(model=model, **options)
                    yield from _vectors(made, request, name)
                case _:
                    yield from self._written(payload(request, header), request, answer)

    def _written(
        self, options: dict[str, Any], request: Request, answer: _Answer
    ) -> Iterator[Chunk]:
        events = self._client.models.generate_content_stream(model=self._config.model, **options)
        while True:
            with reading(answer.provider):  # as above: it parses events too
                event = next(events, None)
                chunks = answer.take(event) if event is not None else []
            if event is None:
                break
            yield from chunks
        yield answer.end(request)

    def check_key(self) -> None:
        with _mapped(self._config), reading(self._config.name):
            self._client.models.list(config={"page_size": 1})

    @override
    def close(self) -> None:
        self._client.close()
        super().close()


def payload(request: Request, wire_id: str) -> dict[str, Any]:
    """The request in Gemini's format, as arguments of the SDK."""
    config: dict[str, Any] = {
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        **_alone(wire_id),
        **_format(request.response_format),
    }
    if system := system_prompt(request.messages):
        config["system_instruction"] = system
    if request.stop:
        config["stop_sequences"] = list(request.stop)
    if request.tools:
        declarations = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters_json_schema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        config["tools"] = [{"function_declarations": declarations}]
        if request.tool_choice != "auto":
            mode = "ANY" if request.tool_choice == "required" else "NONE"
            config["tool_config"] = {"function_calling_config": {"mode": mode}}
    messages = paired(request.messages)
    parts_of = functools.partial(_parts, names=call_names(messages))
    contents = in_turn(messages, parts_of, assistant="model", field="parts")
    return {"contents": contents, "config": config}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    schema = {"response_json_schema": dict(wanted.schema)} if wanted.schema else {}
    return {"response_mime_type": "application/json", **schema}


def _alone(wire_id: str) -> dict[str, Any]:
    """The SDK must not run calls or retry by itself."""
    return {
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
        "http_options": {"headers": {WIRE_ID_HEADER: wire_id}},
    }


def _parts(message: Message, names: dict[str, str]) -> list[dict[str, Any]]:
    pictures: list[dict[str, Any]] = [
        {"inline_data": {"data": image.data, "mime_type": image.media_type}}
        for image in message.images
    ]
    if message.role == "tool":
        called = message.tool_call_id
        name = names.get(called, called)
        result = {"id": called, "name": name, "response": {"result": message.content}}
        return [{"function_response": result}, *pictures]
    words = [{"text": message.content}] if message.content else []
    calls = [
        {
            "function_call": {"id": call.id, "name": call.name, "args": dict(call.arguments)},
            "thought_signature": _NO_SIGNATURE,
        }
        for call in message.tool_calls
    ]
    return [*pictures, *words, *calls]


@dataclass(slots=True)
class _Answer:
    """Builds an answer from its events."""

    provider: str
    current: Try
    call_prefix: str
    characters: int = 0
    calls: int = 0
    reason: str = ""
    usage: Any = None

    def take(self, event: Any) -> list[Chunk]:
        self.usage = event.usage_metadata or self.usage
        chunks: list[Chunk] = []
        for candidate in (event.candidates or [])[:1]:
            parts = candidate.content.parts if candidate.content else None
            for part in parts or ():
                chunks += self._take_part(part)
            if candidate.finish_reason is not None:
                self.reason = candidate.finish_reason.name
        if event.prompt_feedback is not None and event.prompt_feedback.block_reason is not None:
            self.reason = "SAFETY"  # the prompt itself was refused; no candidate follows
        if self.reason == "MALFORMED_FUNCTION_CALL":
            raise ValueError("the model wrote a function call that is not one")
        self.current.whole = bool(self.reason)
        return chunks

    def _take_part(self, part: Any) -> list[Chunk]:
        if part.function_call is not None:
            call = part.function_call
            arguments = dict(call.args or {})
            self.characters += len(str(arguments))
            self.calls += 1
            return [
                ToolCall(
                    name=call.name,
                    arguments=arguments,
                    id=call.id or f"{self.call_prefix}_{self.calls - 1}",
                    source="cloud",
                )
            ]
        if not part.text or part.thought:
            return []  # thinking is not part of the answer
        self.characters += len(part.text)
        return [part.text]

    def end(self, request: Request) -> Finish:
        if not self.reason:
            raise cut(self.provider)
        reason = _FINISH.get(self.reason, "stop")
        if self.calls and reason == "stop":
            reason = "tool_calls"
        if self.usage is None or self.usage.prompt_token_count is None:
            return estimated_finish(request, reason, self.characters)
        return Finish(
            reason,
            input_tokens=self.usage.prompt_token_count,
            # Thinking is billed as output.
            output_tokens=(self.usage.candidates_token_count or 0)
            + (self.usage.thoughts_token_count or 0),
            cached_tokens=self.usage.cached_content_token_count or 0,
            audio_tokens=_tokens_of_sound(request, self.usage),
            audio_seconds=audio_seconds(request),
        )


def _speech_payload(request: Request, provider: str, wire_id: str) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    sound = one_sound(request, provider)
    parts: list[dict[str, Any]] = [
        {"inline_data": {"data": sound.data, "mime_type": sound.media_type}},
        {"text": _task(request)},
    ]
    config = {
        "max_output_tokens": most_output_tokens(request),
        "temperature": request.temperature,
        "seed": request.seed,
        "system_instruction": INSTRUCTION,
        **_alone(wire_id),
    }
    return {"contents": [{"role": "user", "parts": parts}], "config": config}


def _task(request: Request) -> str:
    lines = ["Transcribe this recording."]
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
        elif isinstance(chunk, Finish):
            text = "".join(texts).strip()
            # Refused is not silent: without a text the door calls it empty.
            if text or chunk.reason != "filtered":
                yield "" if text.strip(" .").lower() == NO_SPEECH else text
            yield chunk


def _tokens_of_sound(request: Request, usage: Any) -> int:
    """How many tokens of the prompt were sound; all of them if Gemini does not say."""
    if request.task != "transcribe":
        return 0
    counts = [
        detail.token_count or 0
        for detail in usage.prompt_tokens_details or ()
        if detail.modality is not None and detail.modality.name == "AUDIO"
    ]
    return sum(counts) if usage.prompt_tokens_details else int(usage.prompt_token_count or 0)


def _embedding_payload(request: Request, provider: str, wire_id: str) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    # One content per text: newer models make one vector of all texts in a content.
    texts = texts_to_embed(request, provider)
    contents = [{"role": "user", "parts": [{"text": text}]} for text in texts]
    config: dict[str, Any] = {"http_options": {"headers": {WIRE_ID_HEADER: wire_id}}}
    if request.dimensions is not None:
        config["output_dimensionality"] = request.dimensions
    return {"contents": contents, "config": config}


def _vectors(made: EmbedContentResponse, request: Request, provider: str) -> Iterator[Chunk]:
    with reading(provider):
        rows = [tuple(float(value) for value in row.values or ()) for row in made.embeddings or ()]
        if len(rows) != len(texts_to_embed(request, provider)) or not all(rows):
            raise ValueError("not one vector per text")
        counted = made.usage_metadata.prompt_token_count if made.usage_metadata else None
    yield Vectors(tuple(rows))
    if counted is None:
        yield estimated_finish(request, "stop", 0)
    else:
        yield Finish("stop", input_tokens=counted)


@contextlib.contextmanager
def _mapped(config: ProviderConfig) -> Generator[None]:
    from google.genai import errors  # noqa: PLC0415

    with mapped(config.name, config.key):
        try:
            yield
        except errors.APIError as error:
            # Gemini answers 400 to a wrong key; only the details tell.
            status = 401 if "API_KEY_INVALID" in str(error.details) else error.code
            headers = getattr(error.response, "headers", None) or {}
            raise status_error(
                config.name,
                status or 500,
                str(error.message or ""),
                retry_after_s=_delay_in(error.details) or retry_after(headers),
                key=config.key,
            ) from error


def _delay_in(details: Any) -> float | None:
    """Google says in the body how long to wait: {"retryDelay": "7.5s"}."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        for detail in details["error"]["details"]:
            if "retryDelay" in detail:
                return float(detail["retryDelay"].removesuffix("s"))
    return None
