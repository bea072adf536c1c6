"""`/v1/systemone` and `/v1/decisions`: typed questions about a state, a chance for each option.

TypeSafe's wire has questions by name, OpenAI's has a list of them. Some servers take TypeSafe's
body at `/v1/decisions`, so we do, too: it has a `state`, where OpenAI's has an `input`.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Container, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NoReturn

from annotated_types import MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from edgewise.errors import InvalidRequest
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, chat_options, logged, only
from edgewise.server.body import (
    METADATA,
    BadField,
    Many,
    Model,
    OneOf,
    Refused,
    Text,
    TextOrMany,
    parse_body,
    read_model,
    refused,
)
from edgewise.server.chat import ModelName
from edgewise.server.errors import (
    Fault,
    Refusal,
    fault_of,
    openai_error,
    shown_reason,
    systemone_error,
)
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    JSON,
    Amount,
    Chance,
    Count,
    Metadata,
    NotEmpty,
    Report,
    Work,
    report,
    report_headers,
    to_json,
    whole,
)
from edgewise.types.answers import Answer, Answers
from edgewise.types.messages import (
    MOST_LEVELS,
    MOST_OPTIONS,
    MOST_QUESTIONS,
    Choice,
    Question,
    Score,
    Source,
    YesNo,
)

NO_PICTURES = "no model here decides about pictures"
ONLY_CHAT = ("context",)  # options that mean nothing here


def _described(value: Any) -> Any:
    if not isinstance(value, str | dict | list):
        raise ValueError("expected text, an object or a list")
    return value


Described = Annotated[
    Any,
    AfterValidator(_described),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "array", "items": {}}]}
    ),
]

# -- TypeSafe's wire -------------------------------------------------------------------------------


class NoulCriteria(Model):
    true: Described | None = None
    false: Described | None = None


def _what_counts(value: Any) -> Any:
    """Some clients say what counts as a yes, and nothing else."""
    return {"true": value} if isinstance(value, str) else value


class NoulQuestion(Model):
    type: Literal["noul"]
    instructions: Described | None = None
    criteria: Annotated[NoulCriteria | None, BeforeValidator(_what_counts)] = None

    def question(self) -> Question:
        told = self.criteria or NoulCriteria()
        return YesNo(self.instructions, told.true, told.false)


class NamedChoiceQuestion(Model):
    type: Literal["choice"]
    instructions: Described | None = None
    criteria: Annotated[dict[str, Described | None], MinLen(1), MaxLen(MOST_OPTIONS)]

    def question(self) -> Question:
        return Choice(self.criteria, self.instructions)


class NamedScoreQuestion(Model):
    type: Literal["score"]
    instructions: Described | None = None
    criteria: Annotated[Many[Described], MinLen(1), MaxLen(MOST_LEVELS)]

    def question(self) -> Question:
        return Score(self.criteria, self.instructions)


NamedQuestion = Annotated[NoulQuestion | NamedChoiceQuestion | NamedScoreQuestion, OneOf("type")]


class SystemOneRequest(Model):
    state: Described
    questions: Annotated[dict[str, NamedQuestion], MinLen(1), MaxLen(MOST_QUESTIONS)]
    model: ModelName | None = None
    assets: Annotated[Refused, refused(NO_PICTURES)] = None
    metadata: Metadata | None = None


class NoulAnswer(TypedDict):
    type: Literal["noul"]
    noul: Chance


class NamedChoiceAnswer(TypedDict):
    type: Literal["choice"]
    choice: str
    confidence: Chance
    probabilities: dict[str, Chance]


class NamedScoreAnswer(TypedDict):
    type: Literal["score"]
    score: Amount
    confidence: Chance
    legend: dict[str, Any]
    probabilities: dict[str, Chance]


class TokensUsed(TypedDict):
    input_tokens: Count
    output_tokens: Count


class AnswerReport(TypedDict):
    source: Annotated[Source, Field(description="who answered this question")]
    confidence: Annotated[
        Chance | None, Field(description="the measured chance that it is right; null: nobody knows")
    ]
    confidence_verified: bool
    code: str
    reason: str
    doubted: Annotated[bool, Field(description="below its threshold, although it stayed")]


class NamedReport(Report):
    answers: dict[str, AnswerReport]


class SystemOneAnswer(TypedDict):
    model: NotEmpty
    answers: Annotated[
        dict[str, NoulAnswer | NamedChoiceAnswer | NamedScoreAnswer],
        Field(description="by name; a question that nobody answered is left out"),
    ]
    usage: TokensUsed
    edgewise: NamedReport


# -- OpenAI's wire ---------------------------------------------------------------------------------


class InputText(Model):
    type: Literal["input_text", "output_text"]
    text: Text


class InputData(Model):
    type: Literal["input_json"]
    data: Described


class InputRefusal(Model):
    type: Literal["refusal"]
    refusal: Text


class InputPicture(Model):
    type: Literal["input_image"]


InputPart = Annotated[InputText | InputData | InputRefusal | InputPicture, OneOf("type")]
Parts = TextOrMany[InputPart]


class InputMessage(Model):
    type: Literal["message"] | None = None
    role: Literal["user", "system", "developer", "assistant"]
    content: Parts


class InputCall(Model):
    type: Literal["function_call", "custom_tool_call"]
    name: Text
    arguments: Text | None = None
    input: Text | None = None


class InputResult(Model):
    type: Literal["function_call_output", "custom_tool_call_output"]
    output: Parts


InputItem = Annotated[InputMessage | InputCall | InputResult, OneOf("type")]


class Predicate(Model):
    type: Literal["predicate"]
    name: Text | None = None
    instructions: Parts


class Option(Model):
    value: Annotated[Any, WithJsonSchema({"type": ["string", "boolean"]})]
    description: Text | None = None


class ListedChoiceQuestion(Model):
    type: Literal["choice"]
    name: Text | None = None
    instructions: Parts
    choices: Annotated[Many[Option], MinLen(2), MaxLen(MOST_OPTIONS)]


class Level(Model):
    label: Text
    description: Text | None = None


class ListedScoreQuestion(Model):
    type: Literal["score"]
    name: Text | None = None
    instructions: Parts
    levels: Annotated[Many[Level], MinLen(2), MaxLen(MOST_LEVELS)]


ListedQuestion = Annotated[Predicate | ListedChoiceQuestion | ListedScoreQuestion, OneOf("type")]


class DecisionsRequest(Model):
    input: TextOrMany[InputItem]
    questions: Annotated[Many[ListedQuestion], MinLen(1), MaxLen(MOST_QUESTIONS)]
    model: ModelName | None = None
    metadata: Metadata | None = None


class PredicateAnswer(TypedDict):
    type: Literal["predicate"]
    name: str | None
    probability: Chance


class OptionChance(TypedDict):
    value: str | bool
    probability: Chance


class ListedChoiceAnswer(TypedDict):
    type: Literal["choice"]
    name: str | None
    choice: str | bool
    confidence: Chance
    probabilities: list[OptionChance]


class LevelChance(TypedDict):
    value: Count
    label: str
    probability: Chance


class ListedScoreAnswer(TypedDict):
    type: Literal["score"]
    name: str | None
    score: Amount
    confidence: Chance
    probabilities: list[LevelChance]


class RefusedAnswer(TypedDict):
    type: Literal["refusal"]
    name: str | None


class TokensRead(TypedDict):
    cached_tokens: Count
    cache_write_tokens: Count


class TokensWritten(TypedDict):
    reasoning_tokens: Count


class DecisionsUsage(TypedDict):
    input_tokens: Count
    input_tokens_details: TokensRead
    output_tokens: Count
    output_tokens_details: TokensWritten
    total_tokens: Count


class ListedReport(Report):
    answers: list[AnswerReport]


class DecisionsAnswer(TypedDict):
    model: NotEmpty
    answers: Annotated[
        list[PredicateAnswer | ListedChoiceAnswer | ListedScoreAnswer | RefusedAnswer],
        Field(description="in the order of the questions; a refusal where nobody answered"),
    ]
    usage: DecisionsUsage
    edgewise: ListedReport


# -- the way of a request --------------------------------------------------------------------------


def systemone(state: ServerState, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread."""
    served = Served(endpoint="systemone", client=incoming.client.name)

    def work() -> Work:
        with _unprocessable():
            given = _object_in(incoming)
        yield from _by_name(state, incoming, served, given)

    yield from logged(state, served, incoming.cancellation, work, systemone_error)


def decisions(state: ServerState, incoming: Incoming) -> Work:
    """The same at the path that two wires share: a body with a `state` is TypeSafe's."""
    served = Served(endpoint="decisions", client=incoming.client.name)
    named = False

    def work() -> Work:
        nonlocal named
        given = _object_in(incoming)
        if named := "state" in given:
            yield from _by_name(state, incoming, served, given)
        else:
            yield from _listed(state, incoming, served, given)

    def error_body(fault: Fault) -> Mapping[str, Any]:
        return systemone_error(fault) if named else openai_error(fault)

    yield from logged(state, served, incoming.cancellation, work, error_body)


def _object_in(incoming: Incoming) -> dict[str, Any]:
    """A form is how TypeSafe's clients send pictures. In its state and its questions names are the
    client's own, and no misplaced settings of ours."""
    if incoming.headers.get("content-type", "").startswith("multipart/"):
        raise BadField("assets", NO_PICTURES)
    found = parse_body(incoming.body, read_at=(*METADATA, "state", "questions"))
    return found if "state" in found else parse_body(incoming.body)


@contextlib.contextmanager
def _unprocessable() -> Generator[None]:
    """What is wrong with a request has a status of its own on TypeSafe's wire."""
    try:
        yield
    except InvalidRequest as error:
        raise Refusal(replace(fault_of(error), status=422)) from error


def _by_name(state: ServerState, incoming: Incoming, served: Served, given: dict[str, Any]) -> Work:
    with _unprocessable():
        asked = read_model(SystemOneRequest, given)
        questions = {name: each.question() for name, each in asked.questions.items()}
        made = _decide(state, incoming, served, asked, asked.state, questions)
    told = {name: _report(made[name]) for name in questions}
    answers: dict[str, Any] = {
        name: _named_answer(question, made[name])
        for name, question in questions.items()
        if made[name].value is not None
    }
    body: SystemOneAnswer = {
        "model": _name_of(made, served),
        "answers": answers,
        "usage": {
            "input_tokens": made.usage.input_tokens,
            "output_tokens": made.usage.output_tokens,
        },
        "edgewise": {**report(made), "answers": told},
    }
    headers = {**JSON, "x-typesafe-request-id": made.id, **report_headers(made)}
    yield whole(200, headers, to_json(body))


def _decide(
    state: ServerState,
    incoming: Incoming,
    served: Served,
    asked: SystemOneRequest | DecisionsRequest,
    about: Any,
    questions: Mapping[str, Question],
) -> Answers:
    served.model = (asked.model or "auto")[:80]
    options = chat_options(state, incoming, asked.model or "auto", asked.metadata or {})
    incoming.cancellation.check()
    made = state.engine.decide(about, questions, **only(options, without=ONLY_CHAT))
    served.reply, served.status, served.code = made, 200, made.decision.code
    served.id = made.id
    return made


def _name_of(made: Answers, served: Served) -> str:
    """The model that answered, in the form that asks for it again; of several, `auto`."""
    if made.source == "cloud":
        return f"cloud/{made.attempts[-1].backend}/{made.model}"
    return f"local/{made.model}" if made.source == "local" else served.model


def _report(answer: Answer) -> AnswerReport:
    return {
        "source": answer.source,
        "confidence": answer.confidence,
        "confidence_verified": answer.confidence_verified,
        "code": answer.code,
        "reason": shown_reason(answer.reason),
        "doubted": answer.doubted,
    }


def _named_answer(
    question: Question, answer: Answer
) -> NoulAnswer | NamedChoiceAnswer | NamedScoreAnswer:
    chances = dict(answer.probabilities)
    if isinstance(question, YesNo):
        return {"type": "noul", "noul": chances["true"]}
    confidence = wire_confidence(question, chances)
    if isinstance(question, Score):
        return {
            "type": "score",
            "score": _mean(chances),
            "confidence": confidence,
            "legend": dict(zip(chances, question.levels, strict=True)),
            "probabilities": chances,
        }
    chosen = max(chances, key=lambda name: chances[name])
    return {
        "type": "choice",
        "choice": chosen,
        "confidence": confidence,
        "probabilities": chances,
    }


def _mean(chances: Mapping[str, float]) -> float:
    return math.fsum(int(level) * chance for level, chance in chances.items())


def wire_confidence(question: Question, chances: Mapping[str, float]) -> float:
    """What both wires call confidence: how far the chances are from being all alike. It is no
    measured chance of being right; that one is in the `edgewise` object."""
    count = len(chances)
    if count == 1:
        return 1.0
    if isinstance(question, Score):
        mean = _mean(chances)
        spread = math.fsum(chance * (int(level) - mean) ** 2 for level, chance in chances.items())
        return max(0.0, 1 - math.sqrt(spread / ((count**2 - 1) / 12)))
    return max(0.0, (max(chances.values()) - 1 / count) / (1 - 1 / count))


# -- a list of questions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listed:
    """A question of OpenAI's wire: ours, and what its options are called there."""

    question: Question
    name: str | None
    values: Sequence[str | bool] = ()


def _listed(state: ServerState, incoming: Incoming, served: Served, given: dict[str, Any]) -> Work:
    asked = read_model(DecisionsRequest, given)
    rows = [_read(each, f"questions[{at}]") for at, each in enumerate(asked.questions)]
    names = _unique([row.name for row in rows])
    questions = dict(zip(names, (row.question for row in rows), strict=True))
    made = _decide(state, incoming, served, asked, _state_of(asked.input), questions)
    usage = made.usage
    body: DecisionsAnswer = {
        "model": _name_of(made, served),
        "answers": [_listed_answer(row, made[name]) for name, row in zip(names, rows, strict=True)],
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": sum(each.cached_tokens for each in made.attempts),
                "cache_write_tokens": 0,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
        "edgewise": {**report(made), "answers": [_report(made[name]) for name in questions]},
    }
    headers = {**JSON, "x-request-id": made.id, **report_headers(made)}
    yield whole(200, headers, to_json(body))


def _unique(names: Sequence[str | None]) -> list[str]:
    """A name may be missing, or stand twice: then it is the place of its question."""
    given = Counter(names)
    plain = (name for name in names if name and name.strip())
    taken = {name for name in plain if given[name] == 1}
    return [
        name if name is not None and name in taken else _free(f"question {at}", taken)
        for at, name in enumerate(names, start=1)
    ]


def _free(name: str, taken: Container[str]) -> str:
    return _free(f"{name}'", taken) if name in taken else name


def _read(asked: Predicate | ListedChoiceQuestion | ListedScoreQuestion, place: str) -> _Listed:
    said = _joined(asked.instructions, f"{place}.instructions")
    if isinstance(asked, Predicate):
        return _Listed(YesNo(said), asked.name)
    if isinstance(asked, ListedScoreQuestion):
        levels = [
            f"{each.label}: {each.description}" if each.description else each.label
            for each in asked.levels
        ]
        return _Listed(Score(levels, said), asked.name, [each.label for each in asked.levels])
    values = [each.value for each in asked.choices]
    names: list[str] = []
    for at, value in enumerate(values):
        if not isinstance(value, str | bool):
            raise BadField(f"{place}.choices[{at}].value", "expected text, true or false")
        name = value if isinstance(value, str) else json.dumps(value)
        if isinstance(value, bool) and name in values:
            name += " (boolean)"  # it is another option than the word
        if name in names:
            raise BadField(f"{place}.choices[{at}].value", "is there twice")
        names.append(name)
    told = {name: each.description for name, each in zip(names, asked.choices, strict=True)}
    return _Listed(Choice(told, said), asked.name, values)


def _joined(parts: str | Sequence[Any], place: str) -> str:
    """Instructions as one text."""
    if isinstance(parts, str):
        return parts
    return "\n".join(
        said if isinstance(said := _said(each, f"{place}[{at}]"), str) else json.dumps(said)
        for at, each in enumerate(parts)
    )


def _said(part: InputText | InputData | InputRefusal | InputPicture, place: str) -> Any:
    match part:
        case InputText():
            return part.text
        case InputData():
            return part.data
        case InputRefusal():
            return part.refusal
    _no_picture(place)


def _no_picture(place: str) -> NoReturn:
    raise BadField(place, NO_PICTURES)


def _state_of(given: str | Sequence[Any]) -> Any:
    """A text as it is, and so one that stands alone in a user's message; else a list of who said
    what, and of what was called."""
    if isinstance(given, str):
        return given
    items = [_item(each, f"input[{at}]") for at, each in enumerate(given)]
    match items:
        case [{"role": "user", "content": content}]:
            return content
    return items


def _item(item: InputMessage | InputCall | InputResult, place: str) -> dict[str, Any]:
    if isinstance(item, InputCall):
        return {"called": item.name, "arguments": item.arguments or item.input or ""}
    if isinstance(item, InputResult):
        return {"result": _content(item.output, f"{place}.output")}
    return {"role": item.role, "content": _content(item.content, f"{place}.content")}


def _content(parts: str | Sequence[Any], place: str) -> Any:
    if isinstance(parts, str):
        return parts
    said = [_said(each, f"{place}[{at}]") for at, each in enumerate(parts)]
    return said[0] if len(said) == 1 else said


def _listed_answer(
    row: _Listed, answer: Answer
) -> PredicateAnswer | ListedChoiceAnswer | ListedScoreAnswer | RefusedAnswer:
    chances = list(answer.probabilities.values())
    if answer.value is None:
        return {"type": "refusal", "name": row.name}
    if isinstance(row.question, YesNo):
        return {"type": "predicate", "name": row.name, "probability": chances[0]}
    confidence = wire_confidence(row.question, answer.probabilities)
    if isinstance(row.question, Score):
        return {
            "type": "score",
            "name": row.name,
            "score": _mean(answer.probabilities),
            "confidence": confidence,
            "probabilities": [
                {"value": level, "label": str(label), "probability": chance}
                for level, (label, chance) in enumerate(zip(row.values, chances, strict=True))
            ],
        }
    return {
        "type": "choice",
        "name": row.name,
        "choice": row.values[chances.index(max(chances))],
        "confidence": confidence,
        "probabilities": [
            {"value": value, "probability": chance}
            for value, chance in zip(row.values, chances, strict=True)
        ],
    }
