"""Labelled requests: the built-in ones, and those of a file, a JSON object a line, for one task.

{"prompt": "...", "answer": "Paris"}                      chat; also "kind", "match", "system"
{"prompt": "...", "tools": [...], "calls": [...]}         function calls; [] if none is right
{"audio": "call.wav", "text": "what is said in it"}       speech
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from edgewise.calls.tools import as_tools
from edgewise.decide.compare_answers import normalise
from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

# -- answers ---------------------------------------------------------------------------------------


Rule = Literal[
    "mention", "number", "yes_no", "every", "in_order", "exact", "contains",
    "result", "letter", "json", "pick", "brief", "form",
]  # fmt: skip
Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One prompt and what counts as right.

    rule       mention   the first of `accepted` comes before the first of `rivals`
               number    the first number that is not in the prompt is the accepted one
               yes_no    the first "yes" or "no" ("true", "false") is the accepted one
               every     each of `accepted` occurs; "a|b" is satisfied by either
               in_order  the mentions of `accepted` contain all of them in that order, in a row
               exact     nothing but one of `accepted` is said
               contains  one of `accepted` occurs, also inside of a word
               result    the last number that is not in the prompt is the accepted one: it may be
                         worked out first
               letter    the first of `accepted` is the letter that is chosen; without a letter,
                         the rest are mentioned before `rivals`
               json      the first JSON object of the answer is the accepted one
               pick      so many as the first of `accepted` says are named of the rest, no more
               brief     no more words than the first of `accepted`, and each of the rest occurs
               form      the answer has every form that `accepted` names (`_FORMS`)
    rejected   words that make any answer wrong (a contradiction, the word to be replaced)
    level      1 easy, 2 middling, 3 beyond a small model; a guess, used for reports only
    system     system prompt; empty: the model's own
    earlier    what was said before, the user first
    """

    kind: str
    prompt: str
    accepted: tuple[str, ...]
    rule: Rule = "mention"
    rivals: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    case_matters: bool = False
    level: int = 2
    system: str = ""
    earlier: tuple[str, ...] = ()


def is_right(question: Question, text: str) -> bool:
    """Whether `text` answers the question; extra words are tolerated."""
    said = normalise(text, keep_case=question.case_matters)
    if _first(said, question.rejected, question.case_matters) is not None:
        return False
    if question.rule in _MARKS:
        return _MARKS[question.rule](question, text)
    return _RULES[question.rule](question, said)


def _first(said: str, phrases: Iterable[str], keep_case: bool = False) -> int | None:
    """Where the first of the phrases begins, as whole words; None when none occurs."""
    starts = [
        found.start()
        for phrase in phrases
        if (found := re.search(rf"\b{re.escape(normalise(phrase, keep_case=keep_case))}\b", said))
    ]
    return min(starts, default=None)


def _mention(question: Question, said: str) -> bool:
    right = _first(said, question.accepted, question.case_matters)
    if right is None:
        return False
    wrong = _first(said, question.rivals, question.case_matters)
    return wrong is None or right <= wrong


def _number(question: Question, said: str) -> bool:
    fresh, accepted = _fresh_numbers(question, said)
    return bool(fresh) and fresh[0] in accepted


def _result(question: Question, said: str) -> bool:
    fresh, accepted = _fresh_numbers(question, said)
    return bool(fresh) and fresh[-1] in accepted


def _fresh_numbers(question: Question, said: str) -> tuple[list[float], set[float]]:
    """The numbers that the prompt does not give, unless they are right, and the right ones."""
    given = {1.0, *_numbers(normalise(question.prompt))}  # "there are 60 minutes in 1 hour"
    accepted = {value for text in question.accepted for value in _numbers(text)}
    fresh = [value for value in _numbers(said) if value not in given or value in accepted]
    return fresh, accepted


def _numbers(said: str) -> list[float]:
    return [float(word) for word in re.findall(r"\d+(?:\.\d+)?", said)]


def _yes_no(question: Question, said: str) -> bool:
    yes, no = _first(said, ("yes", "true")), _first(said, ("no", "false"))
    if yes is None and no is None:  # "The Earth orbits the Sun." is a yes, too
        said_yes = "not" not in said.split()
        return said_yes == (question.accepted[0] == "yes") and _restates(question.prompt, said)
    said_yes = no is None or (yes is not None and yes < no)
    return said_yes == (question.accepted[0] == "yes")


def _restates(prompt: str, said: str) -> bool:
    """Whether every meaningful word of the question is said again."""
    asked = set(normalise(re.sub(r"(?i)answer|yes or no", "", prompt)).split())
    asked -= {"are", "can", "did", "does", "the"}
    return all(re.search(rf"\b{word[:5]}", said) for word in asked if len(word) > 2)


def _every(question: Question, said: str) -> bool:
    return all(_first(said, need.split("|")) is not None for need in question.accepted)


def _in_order(question: Question, said: str) -> bool:
    wanted = [normalise(item) for item in question.accepted]
    pattern = "|".join(re.escape(item) for item in sorted(wanted, key=len, reverse=True))
    mentions = re.findall(rf"\b(?:{pattern})\b", said)
    runs = range(len(mentions) - len(wanted) + 1)
    return any(mentions[start : start + len(wanted)] == wanted for start in runs)


def _exact(question: Question, said: str) -> bool:
    return said in _plain(question)


def _contains(question: Question, said: str) -> bool:
    return any(phrase in said for phrase in _plain(question))


def _pick(question: Question, said: str) -> bool:
    wanted, *known = question.accepted
    return sum(_first(said, each.split("|")) is not None for each in known) == int(wanted)


def _brief(question: Question, said: str) -> bool:
    most, *needed = question.accepted
    short = len(said.split()) <= int(most)
    return short and all(_first(said, need.split("|")) is not None for need in needed)


def _letter(question: Question, text: str) -> bool:
    """ "B", "B) Paris" or "The answer is B"; an "A" that begins a sentence may be an article."""
    right, *texts = question.accepted
    told = re.search(
        r"(?:^\W*|(?i:answer|option|choice)\W*(?:is)?\W*)([A-E])(?=\W|$)(?! [a-z])", text
    )
    told = told or re.search(r"\b([A-E])[).:]", text)
    if told:
        return told[1] == right
    said = normalise(text)
    found, wrong = _first(said, texts), _first(said, question.rivals)
    return found is not None and (wrong is None or found < wrong)


def _json(question: Question, text: str) -> bool:
    for start in (place.start() for place in re.finditer(r"[{\[]", text)):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        return any(value_matches(found, json.loads(accepted)) for accepted in question.accepted)
    return False


def _form(question: Question, text: str) -> bool:
    named = (each.partition("=") for each in question.accepted)
    said = text.strip()
    return bool(said) and all(_FORMS[name](said, value) for name, _, value in named)


def _bullets(text: str, count: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return len(lines) == int(count) and all(line.startswith("-") for line in lines)


_FORMS: Mapping[str, Callable[[str, str], bool]] = {
    "sentences": lambda text, value: len(re.findall(r"[.!?]+(?=\s|$)", text)) == int(value),
    "most_words": lambda text, value: len(text.split()) <= int(value),
    "has": lambda text, value: (
        re.search(rf"\b{re.escape(value)}\b", text, re.IGNORECASE) is not None
    ),
    "without": lambda text, value: value not in text.lower(),
    "capitals": lambda text, _: text == text.upper() and text != text.lower(),
    "lower_case": lambda text, _: text == text.lower() and text != text.upper(),
    "begins": lambda text, value: normalise(text).startswith(normalise(value)),
    "ends": lambda text, value: normalise(text).endswith(normalise(value)),
    "bullets": _bullets,
}


def _plain(question: Question) -> list[str]:
    return [normalise(phrase, keep_case=question.case_matters) for phrase in question.accepted]


# These live by marks that plain words have lost.
_MARKS = {"letter": _letter, "json": _json, "form": _form}
_RULES = {
    "mention": _mention,
    "number": _number,
    "yes_no": _yes_no,
    "every": _every,
    "in_order": _in_order,
    "exact": _exact,
    "contains": _contains,
    "result": _result,
    "pick": _pick,
    "brief": _brief,
}


@dataclass(frozen=True, slots=True)
class AnyOf:
    """An expected value that may be written in several ways."""

    values: tuple[Any, ...]


def value_matches(predicted: Any, expected: Any) -> bool:
    if isinstance(expected, AnyOf):
        return any(value_matches(predicted, value) for value in expected.values)
    if isinstance(predicted, str) and isinstance(expected, str):
        return predicted.strip().lower() == expected.strip().lower()
    if isinstance(predicted, bool) != isinstance(expected, bool):
        return False
    if isinstance(predicted, list) and isinstance(expected, list):
        pairs = zip(predicted, expected, strict=False)
        return len(predicted) == len(expected) and all(value_matches(p, e) for p, e in pairs)
    if isinstance(predicted, Mapping) and isinstance(expected, Mapping):
        return set(predicted) == set(expected) and all(
            value_matches(predicted[key], expected[key]) for key in expected
        )
    return bool(predicted == expected)


def exact(predicted: Sequence[Call] | None, expected: Sequence[Call]) -> bool:
    """The same calls in any order, with the same arguments and no others."""
    if predicted is None or len(predicted) != len(expected):
        return False
    left = list(expected)
    for name, arguments in predicted:
        for number, (other, wanted) in enumerate(left):
            if name == other and value_matches(arguments, wanted):
                del left[number]
                break
        else:
            return False
    return True


# -- rows ------------------------------------------------------------------------------------------


LabelledTask = Literal["chat", "call", "transcribe"]
_MATCHES: tuple[Rule, ...] = ("exact", "mention", "number", "yes_no", "contains")
PARTS = 10  # that rows without a kind are divided into


@dataclass(frozen=True, slots=True)
class LabelledCall:
    """A request and the calls it asks for."""

    prompt: str
    tools: tuple[Tool, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class LabelledSound:
    """A file and what is said in it."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """The rows of a file, without duplicates."""

    task: LabelledTask
    questions: tuple[Question, ...] = ()
    calls: tuple[LabelledCall, ...] = ()
    sounds: tuple[LabelledSound, ...] = ()
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.questions) + len(self.calls) + len(self.sounds)


def read_labelled(path: Path) -> Labelled:
    """Raises InvalidRequest with the number of the wrong line."""
    rows = list(_rows(path))
    if not rows:
        raise InvalidRequest(f"{path}: no rows")
    tasks = {_task(where, row) for where, row in rows}
    if len(tasks) > 1:
        raise InvalidRequest(f"{path}: rows for {' and '.join(sorted(tasks))}; one task a file")
    task = tasks.pop()
    fresh: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for where, row in rows:  # the same row must not be both fitted and tested
        fresh.setdefault(_key(row), (where, row))
    kept = list(fresh.values())
    repeated = len(rows) - len(kept)
    if task == "chat":
        asked = tuple(_question(*each, number) for number, each in enumerate(kept))
        return Labelled(task, questions=asked, repeated=repeated)
    if task == "call":
        return Labelled(task, calls=tuple(_call(*each) for each in kept), repeated=repeated)
    sounds = tuple(_sound(where, row, path.parent) for where, row in kept)
    return Labelled(task, sounds=sounds, repeated=repeated)


def _rows(path: Path) -> Sequence[tuple[str, Mapping[str, Any]]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidRequest(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InvalidRequest(f"{where}: not an object")
        found.append((where, row))
    return found


def _task(where: str, row: Mapping[str, Any]) -> LabelledTask:
    if "audio" in row:
        return "transcribe"
    if "calls" in row or "tools" in row:
        return "call"
    if "prompt" in row:
        return "chat"
    raise InvalidRequest(f"{where}: neither a prompt nor audio")


def _key(row: Mapping[str, Any]) -> str:
    asked = {name: row.get(name) for name in ("system", "prompt", "tools", "audio")}
    return json.dumps(asked, sort_keys=True, default=str)


def _question(where: str, row: Mapping[str, Any], number: int) -> Question:
    given = row.get("answer")
    answers = [given] if isinstance(given, str | int | float) else given
    if not isinstance(answers, list) or not answers:
        raise InvalidRequest(f"{where}: answer must be a text, or a list of accepted texts")
    accepted = tuple(str(answer) for answer in answers)
    given_rule = row.get("match") or _usual_match(accepted)
    rule: Rule | None = next((name for name in _MATCHES if name == given_rule), None)
    if rule is None:
        known = ", ".join(_MATCHES)
        raise InvalidRequest(f"{where}: match {given_rule!r}: must be one of {known}")
    if rule == "yes_no":
        accepted = tuple("yes" if normalise(a) in ("yes", "true") else "no" for a in accepted)
    return Question(
        kind=str(row.get("kind") or f"part {number % PARTS}"),
        prompt=_text(where, row, "prompt"),
        accepted=accepted,
        rule=rule,
        system=str(row.get("system") or ""),
    )


def _usual_match(accepted: Sequence[str]) -> str:
    if all(normalise(answer) in ("yes", "no", "true", "false") for answer in accepted):
        return "yes_no"
    if all(re.fullmatch(r"\d+(\.\d+)?", normalise(answer)) for answer in accepted):
        return "number"
    return "mention"


def _call(where: str, row: Mapping[str, Any]) -> LabelledCall:
    calls = row.get("calls")
    if not isinstance(calls, list):
        raise InvalidRequest(f"{where}: calls must be a list; empty if no call is right")
    tools = _checked(where, lambda: as_tools(row.get("tools") or []))
    found = []
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise InvalidRequest(f"{where}: a call needs a name and arguments")
        found.append((call["name"], dict(call.get("arguments") or {})))
    return LabelledCall(_text(where, row, "prompt"), tools, tuple(found))


def _checked(where: str, read: Callable[[], tuple[Tool, ...]]) -> tuple[Tool, ...]:
    try:
        return read()
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error}") from error


def _sound(where: str, row: Mapping[str, Any], folder: Path) -> LabelledSound:
    path = folder / Path(_text(where, row, "audio")).expanduser()
    if not path.is_file():
        raise InvalidRequest(f"{where}: no file {path}")
    return LabelledSound(path, _text(where, row, "text"))


def _text(where: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"{where}: {name} must be a text")
    return value


# -- the built-in questions ------------------------------------------------------------------------
#
# With answers a program can check. They make a model that nobody has measured comparable with one
# that was. The measurements have the generator, which writes the file.

FILE = "questions.jsonl.gz"


def builtin_questions(most: int | None = None) -> list[Question]:
    """The first of them; kinds take turns, so a part is a fair part."""
    return [question for question, _ in _chat()[:most]]


def family_of(kind: str, otherwise: str = "") -> str:
    """The family of one of our kinds; `otherwise` for a kind of somebody else."""
    return _families().get(kind, otherwise)


def builtin_calls(most: int | None = None) -> tuple[LabelledCall, ...]:
    """Requests for calls, all different; tools take turns."""
    return tuple(_frozen_call(row) for row in _frozen_rows() if "calls" in row)[:most]


@cache
def _families() -> dict[str, str]:
    return {question.kind: family for question, family in _chat()}


@cache
def _chat() -> tuple[tuple[Question, str], ...]:
    return tuple(_frozen_question(row) for row in _frozen_rows() if "calls" not in row)


def _frozen_question(row: dict[str, Any]) -> tuple[Question, str]:
    family = row.pop("family")
    row |= {name: tuple(row[name]) for name in ("accepted", "rivals", "rejected") if name in row}
    return Question(**row), family


def _frozen_call(row: Mapping[str, Any]) -> LabelledCall:
    tools = tuple(Tool(**tool) for tool in row["tools"])
    return LabelledCall(row["prompt"], tools, tuple((name, given) for name, given in row["calls"]))


def _frozen_rows() -> list[dict[str, Any]]:
    packed = (resources.files("edgewise.calibrate") / FILE).read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]
