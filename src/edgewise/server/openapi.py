"""`/openapi.json`: the description of the server in OpenAPI 3.1.

The shapes are those of the models that read requests and of the types that answers are made of.
What is written here is a table: which path takes and gives what, and which statuses it has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict, override

import edgewise
from edgewise.server.anthropic import AnswerMessage, CountRequest, MessagesRequest, TokenCount
from edgewise.server.chat import ChatCompletion, ChatRequest, ModelEntry, ModelList
from edgewise.server.dashboard import (
    KINDS,
    Confidences,
    Feedback,
    FeedbackRequest,
    LedgerRequest,
    Overview,
    Recent,
    Residence,
    ResidenceRequest,
    Residences,
    UsageTable,
    files,
)
from edgewise.server.decisions import (
    DecisionsAnswer,
    DecisionsRequest,
    SystemOneAnswer,
    SystemOneRequest,
)
from edgewise.server.embeddings import EmbeddingList, EmbeddingsRequest
from edgewise.server.errors import (
    AnthropicError,
    Error,
    GoogleError,
    OllamaError,
    SystemOneError,
    SystemOneInvalid,
)
from edgewise.server.forward import Forwarded
from edgewise.server.gemini import (
    GeminiEntry,
    GeminiModels,
    GeminiTokens,
    GenerateContentRequest,
    GenerateContentResponse,
)
from edgewise.server.metrics import CONTENT_TYPE
from edgewise.server.ollama import (
    LoadedModels,
    OllamaChatAnswer,
    OllamaChatRequest,
    OllamaEmbedding,
    OllamaEmbeddingRequest,
    OllamaEmbeddings,
    OllamaEmbedRequest,
    OllamaGenerateAnswer,
    OllamaGenerateRequest,
    OllamaModels,
    OllamaVersion,
    ShownModel,
    ShowRequest,
)
from edgewise.server.responses import Response as ResponsesAnswer
from edgewise.server.responses import ResponseRequest
from edgewise.server.transcriptions import (
    SpeechRequest,
    Transcription,
    TranscriptionForm,
    VerboseTranscription,
)
from edgewise.server.wire import HEADER, NotEmpty, Routing, to_json
from edgewise.speech.audio import SOUND_TYPES
from edgewise.types.messages import Source

Schema = dict[str, Any]

VERSION = "3.1.0"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
TEXT: Schema = {"type": "string"}
WORD: Schema = {"type": "string", "minLength": 1}
WORDS = {
    "400": "a field is wrong, or the request does not fit",
    "401": "no key, or a wrong one",
    "403": "Host or Origin not allowed",
    "404": "no such thing",
    "409": "it cannot be changed here",
    "408": "the body took too long to arrive",
    "413": "the body is too large",
    "422": "a field is wrong, as FastAPI says it",
    "429": "busy, too often, or the budget is spent; Retry-After where waiting helps",
    "4XX": "the cloud's own refusal of the request",
    "500": "the server failed",
    "501": "an extra is not installed; the message names the command",
    "502": "the cloud failed",
    "503": "no local model, or the cloud is closed",
    "504": "it took too long",
}
GUARDED = ("401", "403", "429")
SHOWN = ("400", *GUARDED, "404", "408", "413", "500")
STAYS = (*SHOWN, "409", "503")
READ = (*GUARDED, "500")  # by a thread, from the ledger or from memory
ANSWERED = ("400", *GUARDED, "404", "408", "413", "4XX", "500", "501", "502", "503", "504")
INTRODUCTION = (
    "Any client of OpenAI's, Anthropic's, Gemini's or Ollama's API, answered on the device where "
    "it is sure and by your cloud where it is not. Fields that are not described are ignored, a "
    "described one of the wrong type is a 400 that names it, and bodies may be nested 64 deep. "
    "`/v1/realtime` is a WebSocket and beyond this description: see docs/guide/server.md."
)
TARGET: Schema = {"type": "string", "pattern": "^.+:(generateContent|countTokens)$"}
SINCE: Schema = {
    "description": "30m, 24h, 7d, or a date or time in UTC",
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]{1,6}[smhdw]$"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
    ],
}


class Alive(TypedDict):
    status: Literal["ok"]


class Ready(TypedDict):
    status: Literal["ready", "starting", "draining"]
    local_model: NotEmpty | None


# What travels, by the mode in which it is read from or written to JSON.
SHAPES: dict[JsonSchemaMode, tuple[Any, ...]] = {
    "validation": (
        *(ChatRequest, ResponseRequest, MessagesRequest, CountRequest),
        *(
            EmbeddingsRequest,
            SpeechRequest,
            TranscriptionForm,
            Routing,
            SystemOneRequest,
            DecisionsRequest,
        ),
        *(OllamaChatRequest, OllamaGenerateRequest, ShowRequest, FeedbackRequest),
        ResidenceRequest,
        *(OllamaEmbedRequest, OllamaEmbeddingRequest, GenerateContentRequest),
    ),
    "serialization": (
        *(ChatCompletion, ResponsesAnswer, AnswerMessage, Forwarded, TokenCount, EmbeddingList),
        *(Transcription, VerboseTranscription, ModelList, ModelEntry),
        *(OllamaChatAnswer, OllamaGenerateAnswer, OllamaEmbeddings, OllamaEmbedding),
        *(OllamaModels, LoadedModels, ShownModel, OllamaVersion),
        *(Overview, Confidences, Recent, UsageTable, LedgerRequest, Feedback, Alive, Ready),
        *(Residence, Residences),
        *(GenerateContentResponse, GeminiTokens, GeminiModels, GeminiEntry),
        *(Error, AnthropicError, OllamaError, GoogleError, SystemOneError, SystemOneInvalid),
        *(SystemOneAnswer, DecisionsAnswer),
    ),
}


async def description(_: Request) -> Response:
    """Made once; there is nothing in it that a stranger may not know."""
    return Response(_written(), media_type="application/json")


@cache
def _written() -> bytes:
    return to_json(document())


def document() -> dict[str, Any]:
    schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in _operations(schemas).items():
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": VERSION,
        "info": {
            "title": "edgewise",
            "version": edgewise.__version__,
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{}, {"bearer": []}, {"header": []}],
    }


class _Generator(GenerateJsonSchema):
    """Fields need no titles: they have names. Shapes of a union may overlap: anyOf, not oneOf."""

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    @override
    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        found = super().tagged_union_schema(schema)
        return {"anyOf": found.pop("oneOf"), **found} if "oneOf" in found else found


def _schemas() -> dict[str, Schema]:
    """By name. A form names the entries of its metadata as fields of its own."""
    inputs = [
        (shape.__name__, mode, TypeAdapter(shape))
        for mode, shapes in SHAPES.items()
        for shape in shapes
    ]
    _, found = TypeAdapter.json_schemas(
        inputs,
        ref_template="#/components/schemas/{model}",
        schema_generator=_Generator,
    )
    schemas: dict[str, Schema] = found["$defs"]
    form = schemas[TranscriptionForm.__name__]["properties"]
    for name, schema in schemas[Routing.__name__]["properties"].items():
        form[f"metadata[{name}]"] = _without_null(schema)
    return schemas


def _without_null(schema: Schema) -> Schema:
    """The schema of an optional field when it is given, without null; numbers stay numbers."""
    kept = [each for each in schema["anyOf"] if each != {"type": "null"}]
    first: Schema = kept[0]["anyOf"][0] if "anyOf" in kept[0] else kept[0]
    words = {"description": schema["description"]} if "description" in schema else {}
    return first | words


def _named(shape: Any) -> Schema:
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _refusals(statuses: tuple[str, ...], shape: Any = Error) -> dict[str, Any]:
    content = _json(_named(shape))
    return {status: {"description": WORDS[status], "content": content} for status in statuses}


def _deciding(asking: Callable[..., dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """TypeSafe's path, and the one that two wires share."""
    wrong = {"description": WORDS["422"], "content": _json(_named(SystemOneInvalid))}
    by_name = asking(
        "system_one",
        "TypeSafe's typed questions about a state, a chance for each option",
        SystemOneRequest,
        SystemOneAnswer,
        error=SystemOneError,
    )
    listed = asking(
        "decide",
        "OpenAI's typed questions about an input; TypeSafe's body is taken, too",
        DecisionsRequest,
        DecisionsAnswer,
        SystemOneAnswer,
    )
    both = {"anyOf": [_named(DecisionsRequest), _named(SystemOneRequest)]}
    listed["requestBody"]["content"] = _json(both)
    for status, refusal in listed["responses"].items():
        if status != "200":
            refusal["content"] = _json({"anyOf": [_named(Error), _named(SystemOneError)]})
    by_name["responses"]["422"] = listed["responses"]["422"] = wrong
    return by_name, listed


def _operations(schemas: dict[str, Schema]) -> dict[tuple[str, str], dict[str, Any]]:
    routing = {
        name: _without_null(schema)
        for name, schema in schemas[Routing.__name__]["properties"].items()
    }

    def asking(
        name: str,
        words: str,
        request: Any,
        *answers: Any,
        error: Any = Error,
        kind: str = "application/json",
        other: tuple[str, ...] = (),
        always_told: bool = True,
        **more: Schema,
    ) -> dict[str, Any]:
        """An endpoint of a model. Its headers say in short where the answer is from.

        `always_told`: every answer that is not a stream has these headers.
        """
        shapes = [_named(each) for each in answers]
        content = _json(shapes[0] if len(shapes) == 1 else {"anyOf": shapes})
        for streamed in {EVENTS, LINES}.intersection(other):
            content[streamed] = {}  # whose shapes this language has no words for
        if "text/plain" in other:
            content["text/plain"] = {"schema": TEXT}
        shown = {
            "id": WORD,
            "source": TypeAdapter(Source).json_schema(),
            **dict.fromkeys(("reason", "cost", "confidence", "degraded"), WORD),
            "confidence-verified": {"enum": ["false", "borrowed"]},
        }
        return {
            "operationId": name,
            "summary": words,
            "parameters": [
                {"name": HEADER + each.replace("_", "-"), "in": "header", "schema": schema}
                for each, schema in (routing | more).items()
            ],
            "requestBody": {"required": True, "content": {kind: {"schema": _named(request)}}},
            "responses": {
                "200": {
                    "description": words,
                    "headers": {
                        HEADER + each: {
                            "schema": schema,
                            "required": (
                                each in ("id", "source") and always_told and EVENTS not in other
                            ),
                        }
                        for each, schema in shown.items()
                    },
                    "content": content,
                },
                **_refusals(ANSWERED, error),
            },
        }

    def looking(
        name: str,
        words: str,
        content: dict[str, Any],
        refused: tuple[str, ...] = READ,
        error: Any = Error,
        /,
        **path: Schema,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            "operationId": name,
            "summary": words,
            "responses": {
                "200": {"description": words, "content": content},
                **_refusals(refused, error),
            },
        }
        if path:
            found["parameters"] = [
                {"name": part, "in": "path", "required": True, "schema": schema}
                for part, schema in path.items()
            ]
        return found

    def shape(of: Any) -> dict[str, Any]:
        return _json(_named(of))

    def ollama(name: str, words: str, *shapes: Any, other: tuple[str, ...] = ()) -> dict[str, Any]:
        """A request of Ollama's without words only loads the model, and nobody answers."""
        return asking(name, words, *shapes, error=OllamaError, other=other, always_told=False)

    stream = (EVENTS,)

    def google(name: str) -> dict[str, Any]:
        found = asking(
            name,
            "Gemini's MODEL:generateContent, :streamGenerateContent?alt=sse or :countTokens",
            GenerateContentRequest,
            GenerateContentResponse,
            GeminiTokens,
            Forwarded,
            error=GoogleError,
            other=stream,
            always_told=False,
        )
        model = {"name": "model", "in": "path", "required": True, "schema": TARGET}
        query = {"name": "alt", "in": "query", "schema": {"enum": ["json", "sse"]}}
        found["parameters"] = [model, query, *found["parameters"]]
        return found

    newer = google("gemini_v1")  # a path without a method there is OpenAI's
    either = {"anyOf": [_named(GoogleError), _named(Error)]}
    newer["responses"]["404"]["content"] = _json(either)
    show = looking("ollama_show", "One of those models", shape(ShownModel), SHOWN, OllamaError)
    show["requestBody"] = {"required": True, "content": shape(ShowRequest)}
    judge = looking("feedback", "A verdict on an answer", shape(Feedback), (*SHOWN, "503"))
    judge["requestBody"] = {"required": True, "content": shape(FeedbackRequest)}
    reside = looking(
        "change_residence", "Load a local model, pin it or let it go", shape(Residence), STAYS
    )
    reside["requestBody"] = {"required": True, "content": shape(ResidenceRequest)}
    ready = looking("ready", "Whether it takes requests", shape(Ready), ("403",))
    ready["responses"]["503"] = {"description": "starting or stopping", "content": shape(Ready)}
    by_name, listed = _deciding(asking)
    speaking = asking("speak", "A text, spoken", SpeechRequest, Transcription, other=stream)
    sound: dict[str, Any] = {kind: {"schema": TEXT} for kind in SOUND_TYPES.values()}
    speaking["responses"]["200"]["content"] = {**sound, EVENTS: {}}
    form = "multipart/form-data"
    space = {"type": "string", "maxLength": 128}  # empty: any
    page = {"text/html": {"schema": TEXT}}
    file = {each.partition(";")[0]: {"schema": TEXT} for each in KINDS.values()}
    return {
        ("post", "/v1/chat/completions"): asking(
            "chat", "OpenAI's chat", ChatRequest, ChatCompletion, Forwarded, other=stream
        ),
        ("post", "/v1/responses"): asking(
            "respond",
            "OpenAI's responses",
            ResponseRequest,
            ResponsesAnswer,
            Forwarded,
            other=stream,
        ),
        ("post", "/v1/messages"): asking(
            "message",
            "Anthropic's messages",
            MessagesRequest,
            AnswerMessage,
            Forwarded,
            error=AnthropicError,
            other=stream,
        ),
        ("post", "/v1/messages/count_tokens"): asking(
            "count_tokens",
            "How many tokens a message is on the device",
            CountRequest,
            TokenCount,
            error=AnthropicError,
            always_told=False,
        ),
        ("post", "/v1/embeddings"): asking(
            "embed", "OpenAI's embeddings", EmbeddingsRequest, EmbeddingList, space=space
        ),
        ("post", "/v1/systemone"): by_name,
        ("post", "/v1/decisions"): listed,
        ("post", "/v1/audio/transcriptions"): asking(
            "transcribe",
            "What is said in a sound file",
            TranscriptionForm,
            Transcription,
            VerboseTranscription,
            kind=form,
            other=(EVENTS, "text/plain"),
        ),
        ("post", "/v1/audio/speech"): speaking,
        ("post", "/v1/audio/translations"): asking(
            "translate",
            "What is said in a sound file, in English",
            TranscriptionForm,
            Transcription,
            VerboseTranscription,
            kind=form,
            other=(EVENTS, "text/plain"),
        ),
        ("get", "/v1/models"): looking("models", "The names a request may use", shape(ModelList)),
        ("get", "/v1/models/{model}"): looking(
            "model", "One of those names", shape(ModelEntry), (*READ, "404"), model=WORD
        ),
        ("post", "/v1beta/models/{model}"): google("gemini"),
        ("post", "/v1/models/{model}"): newer,
        ("get", "/v1beta/models"): looking(
            "gemini_models", "The models, in Google's words", shape(GeminiModels), READ, GoogleError
        ),
        ("get", "/v1beta/models/{model}"): looking(
            "gemini_model",
            "One of those models",
            shape(GeminiEntry),
            (*READ, "404"),
            GoogleError,
            model=WORD,
        ),
        ("post", "/api/chat"): ollama(
            "ollama_chat", "Ollama's chat", OllamaChatRequest, OllamaChatAnswer, other=(LINES,)
        ),
        ("post", "/api/generate"): ollama(
            "ollama_generate",
            "Ollama's completions",
            OllamaGenerateRequest,
            OllamaGenerateAnswer,
            other=(LINES,),
        ),
        ("post", "/api/embed"): ollama(
            "ollama_embed", "Ollama's embeddings", OllamaEmbedRequest, OllamaEmbeddings
        ),
        ("post", "/api/embeddings"): ollama(
            "ollama_embedding",
            "Ollama's embeddings, one text at a time",
            OllamaEmbeddingRequest,
            OllamaEmbedding,
        ),
        ("post", "/api/show"): show,
        ("get", "/api/tags"): looking(
            "ollama_models", "The models, in Ollama's words", shape(OllamaModels), READ, OllamaError
        ),
        ("get", "/api/ps"): looking(
            "ollama_loaded", "The loaded models", shape(LoadedModels), READ, OllamaError
        ),
        ("get", "/api/version"): looking(
            "ollama_version", "Of Ollama's API", shape(OllamaVersion), READ, OllamaError
        ),
        ("get", "/metrics"): looking(
            "metrics", "Counts for Prometheus", {CONTENT_TYPE: {"schema": TEXT}}
        ),
        ("get", "/edgewise/overview/{since}"): looking(
            "overview", "Totals", shape(Overview), (*READ, "400", "503"), since=SINCE
        ),
        ("get", "/edgewise/confidences/{since}"): looking(
            "confidences", "Judged requests", shape(Confidences), (*READ, "400"), since=SINCE
        ),
        ("get", "/edgewise/usage/{by}/{every}/{since}"): looking(
            "usage",
            "What each key, user or group asked, spent and saved",
            shape(UsageTable) | {"text/csv": {"schema": TEXT}},
            (*READ, "400", "404"),
            by={"enum": ["key", "user", "group"]},
            every={"enum": ["all", "day", "week"]},
            since=SINCE,
        ),
        ("get", "/edgewise/requests"): looking("requests", "The latest", shape(Recent)),
        ("get", "/edgewise/requests/{id}"): looking(
            "request", "One with its attempts", shape(LedgerRequest), (*READ, "404"), id=WORD
        ),
        ("get", "/edgewise/models"): looking(
            "residences", "Which local models are in memory", shape(Residences)
        ),
        ("post", "/edgewise/models"): reside,
        ("post", "/edgewise/feedback"): judge,
        ("get", "/edgewise/events"): looking(
            "events", "Requests as they end, until you leave", {EVENTS: {}}
        ),
        ("get", "/healthz"): looking("alive", "Whether it lives", shape(Alive), ("403",)),
        ("get", "/readyz"): ready,
        ("get", "/openapi.json"): looking(
            "description", "This description", _json({"type": "object"}), ("403",)
        ),
        ("get", "/"): looking("page", "The dashboard", page, ("403",)),
        ("get", "/dashboard/{name}"): looking(
            "file",
            "A file of the dashboard",
            file,
            ("403", "404"),
            name={"enum": list(files())},
        ),
    }
