"""Redaction: personal data leaves as placeholders, and is put back into the answer.

`Redactor` says what must stay, and seals a request: `[EMAIL_1]` stands for an address in everything
that leaves. The `Sealed` request knows what stands behind each placeholder, and opens the answer.
Contents appear in no message, log or error of this file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.cloud.personal_data import Finder, Found, find, joined
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.errors import CloudClosed, EdgewiseError
from edgewise.types.messages import Message, Request, Tool, ToolCall
from edgewise.types.personal_data import KINDS
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish

MOST_NESTING = 200  # of arguments and schemas; deeper ones stay on the device
MOST_SEARCHED = 5_000_000  # characters; a longer request, which few models could read, stays too
LONGEST_PLACEHOLDER = 48
LONGEST_SEARCHED = 300  # characters of a value that is looked for everywhere else, too
_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]*)_([0-9]{1,9})\]")
Rewrite = Callable[[str], str]


class _CannotSeal(Exception):
    """Why a request cannot be redacted, in words without contents."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Finds and seals. `finders` find what our own patterns cannot."""

    finders: Sequence[Finder] = ()

    def closed(self, request: Request) -> CloudClosed | None:
        """Why this request may not leave at all: what it holds, or what cannot be looked into."""
        if not request.redact and not request.private_kinds:
            return None
        seen = any(message.images or message.audio for message in request.messages)
        if seen or request.task == "transcribe":  # its sound comes piece by piece
            return CloudClosed(
                "nobody can redact a picture or a sound, so it stays on the device",
                code="not_redactable",
            )
        if sum(map(len, _texts(request))) > MOST_SEARCHED:
            words = f"more than {MOST_SEARCHED:,} characters are not searched for personal data"
            return CloudClosed(f"{words}, so it stays on the device", code="not_redactable")
        if not request.private_kinds:
            return None
        try:
            self._check_kinds(request.private_kinds)
            held = {
                found.kind
                for text in _texts(request)
                for found in find(text, request.private_kinds, self.finders)
            }
        except Exception as error:  # noqa: BLE001  # whatever it is: nobody has looked, so it stays
            return _failed(error)
        if not held:
            return None
        return CloudClosed(
            f"the request holds {', '.join(sorted(held))}, which private_kinds keeps on the device",
            code="private_kind",
        )

    def seal(self, request: Request) -> Sealed:
        """The request as it may leave. Raises CloudClosed: then nothing may."""
        if not request.redact:
            return Sealed(request)
        try:
            self._check_kinds(request.redact)
            return _seal(request, self.finders)
        except Exception as error:  # noqa: BLE001  # as above: what cannot be redacted stays
            failure = _failed(error)
        # Raised out here: the error itself may quote the text, and would go along as its cause.
        raise failure

    def _check_kinds(self, kinds: Iterable[str]) -> None:
        known = {*KINDS, *(kind for finder in self.finders for kind in finder.kinds)}
        if unknown := sorted(set(kinds) - known):
            raise _CannotSeal(f"nothing here finds {unknown[0]} (settings: finders)")


def _failed(error: Exception) -> CloudClosed:
    if isinstance(error, _CannotSeal):
        return CloudClosed(str(error), code="not_redactable")
    # A foreign error may quote what it was looking at.
    words = str(error) if isinstance(error, EdgewiseError) else type(error).__name__
    return CloudClosed(f"redaction failed, so nothing left: {words}", code="redaction_failed")


@dataclass(frozen=True, slots=True)
class Sealed:
    """A request as it leaves, and what stands behind its placeholders."""

    request: Request
    values: Mapping[str, str | int | float] = field(default_factory=dict, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many values of each kind were replaced."""
        return dict(Counter(name[1:].rpartition("_")[0] for name in self.values))

    def open(self, chunks: Generator[Chunk, None, None]) -> Generator[Chunk, None, None]:
        """The answer with the values in it. The end of a text is held while it may be half of a
        placeholder; if the answer breaks off there, that half is not shown."""
        if not self.values:
            yield from chunks
            return
        held, names = "", tuple(f"{kind}_" for kind in self.counts)
        with closing(chunks):
            for chunk in chunks:
                if isinstance(chunk, str):
                    text = held + chunk
                    place = _half_from(text, names)
                    held = text[place:]
                    if place:
                        yield self.open_text(text[:place])
                elif isinstance(chunk, ToolCall):
                    yield replace(chunk, arguments=_mapped(chunk.arguments, self.open_value))
                else:
                    if held and isinstance(chunk, Finish):
                        yield held
                        held = ""
                    yield chunk

    def open_text(self, text: str) -> str:
        """Inside of JSON's quotes, a value is written as JSON would."""
        escaped = self.request.response_format is not None
        return _PLACEHOLDER.sub(lambda match: self._value(match[0], escaped=escaped), text)

    def open_value(self, text: str) -> Any:
        """An argument. One that is a whole number that was replaced is a number again."""
        if text in self.values:
            return self.values[text]
        return _PLACEHOLDER.sub(lambda match: self._value(match[0]), text)

    def _value(self, placeholder: str, *, escaped: bool = False) -> str:
        # An unknown one is the model's own words.
        value = str(self.values.get(placeholder, placeholder))
        return json.dumps(value, ensure_ascii=False)[1:-1] if escaped else value


def _half_from(text: str, names: Iterable[str]) -> int:
    """Where half a placeholder may begin, at the end of a text; its length if none does."""
    place = text.rfind("[")
    if place < 0 or len(text) - place > LONGEST_PLACEHOLDER:
        return len(text)
    rest = text[place + 1 :]
    for name in names:
        number = rest.removeprefix(name)
        if name.startswith(rest) or (rest.startswith(name) and number.isdecimal()):
            return place
    return len(text)


def _seal(request: Request, finders: Sequence[Finder]) -> Sealed:
    kinds = request.redact
    texts = dict.fromkeys(_texts(request))
    found = {text: find(text, kinds, finders) for text in texts}
    naming = _Naming(taken={match[0] for text in texts for match in _PLACEHOLDER.finditer(text)})
    values: dict[str, str] = {}
    for text, places in found.items():
        for each in places:
            values.setdefault(text[each.start : each.end], each.kind)
    for value, kind in values.items():
        naming.add(value, kind)
    repeats = _Repeats({each: kind for each, kind in values.items() if _searched(each)})
    sealed = {
        text: naming.replace(text, (*places, *repeats.find(text))) for text, places in found.items()
    }
    numbers = {str(one): one for one in _numbers(request)}

    def name(text: str) -> str:
        if sealed.get(text, text) != text:
            raise _CannotSeal("a name of a tool or of the request holds personal data")
        return text

    def written(text: str) -> str:
        return sealed[text]

    left = replace(
        request,
        id=name(request.id),
        messages=tuple(_message(each, written, name) for each in request.messages),
        tools=tuple(_tool(each, written, name) for each in request.tools),
        hint=written(request.hint),
        stop=tuple(map(written, request.stop)),
        context={},  # its facts are in the messages
        response_format=request.response_format
        and replace(
            request.response_format,
            schema=_mapped(request.response_format.schema, written),
            name=name(request.response_format.name),
        ),
    )
    behind: dict[str, str | int | float] = {
        placeholder: numbers.get(value, value) for value, placeholder in naming.names.items()
    }
    return Sealed(left, behind)


def _searched(value: str) -> bool:
    return len(value) <= LONGEST_SEARCHED


class _Naming:
    """One placeholder for each value of a request, wherever the value stands."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken  # placeholders that the user wrote are the user's
        self._numbers: Counter[str] = Counter()
        self.names: dict[str, str] = {}

    def add(self, value: str, kind: str) -> None:
        if value in self.names:
            return
        while True:
            self._numbers[kind] += 1
            placeholder = f"[{kind}_{self._numbers[kind]}]"
            if placeholder not in self._taken:
                break
        self.names[value] = placeholder

    def replace(self, text: str, places: Iterable[Found]) -> str:
        pieces, done = [], 0
        for each in joined(places):
            value = text[each.start : each.end]
            self.add(value, each.kind)  # two that overlap are a value of their own
            pieces += [text[done : each.start], self.names[value]]
            done = each.end
        return "".join((*pieces, text[done:]))


class _Repeats:
    """Finds known values again, in places that no pattern recognises: as Aho and Corasick do it.

    One pass over a text, however many values there are and however alike they begin.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values` and their kinds."""
        self._next: list[dict[str, int]] = [{}]
        self._ends: list[tuple[tuple[int, str], ...]] = [()]
        for value, kind in values.items():
            node = 0
            for character in value:
                if character not in self._next[node]:
                    self._next[node][character] = len(self._next)
                    self._next.append({})
                    self._ends.append(())
                node = self._next[node][character]
            self._ends[node] = ((len(value), kind),)
        self._link()

    def _link(self) -> None:
        """For each beginning, the longest other one that it ends with."""
        self._shorter = [0] * len(self._next)
        level = list(self._next[0].values())
        while level:
            following = []
            for node in level:
                for character, child in self._next[node].items():
                    self._shorter[child] = self._step(self._shorter[node], character)
                    following.append(child)
                # A pattern's value counts anywhere, and covers the shorter ones at its end.
                if not any(kind in KINDS for _, kind in self._ends[node]):
                    self._ends[node] += self._ends[self._shorter[node]]
            level = following

    def _step(self, node: int, character: str) -> int:
        while node and character not in self._next[node]:
            node = self._shorter[node]
        return self._next[node].get(character, 0)

    def find(self, text: str) -> Iterator[Found]:
        node = 0
        for end, character in enumerate(text, start=1):
            node = self._step(node, character)
            for length, kind in self._ends[node]:
                if kind in KINDS or _stands_alone(text, end - length, end):
                    yield Found(end - length, end, kind)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Not a part of a word: a short name is in many words."""
    before = text[start - 1] if start else ""
    return not (before.isalnum() or text[end : end + 1].isalnum())


def _texts(request: Request) -> Iterator[str]:
    """Every text of a request that could leave, names and numbers included."""
    yield from (request.id, request.hint, *request.stop)
    for message in request.messages:
        yield from (message.content, message.tool_call_id)
        for call in message.tool_calls:
            yield from (call.name, call.id)
            yield from _leaves(call.arguments)
    for tool in request.tools:
        yield from (tool.name, tool.description)
        yield from _leaves(tool.parameters)
    if request.response_format is not None:
        yield request.response_format.name
        yield from _leaves(request.response_format.schema)


def _numbers(request: Request) -> Iterator[int | float]:
    """The numbers of a request that are no text: a card may be one."""
    for message in request.messages:
        for call in message.tool_calls:
            yield from _leaf_numbers(call.arguments)


def _leaves(value: Any, depth: int = 0) -> Iterator[str]:
    if depth > MOST_NESTING:
        raise _CannotSeal("arguments or a schema are nested too deeply to be redacted")
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _leaves(each, depth + 1)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _leaf_numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaf_numbers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaf_numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _mapped(value: Any, rewrite: Callable[[str], Any]) -> Any:
    """The same value with every text in it rewritten, keys and telling numbers included."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, Mapping):
        return {str(rewrite(str(key))): _mapped(each, rewrite) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(each, rewrite) for each in value]
    if value is None or isinstance(value, bool):
        return value
    written = rewrite(str(value))
    return value if written == str(value) else written


def _message(message: Message, written: Rewrite, name: Rewrite) -> Message:
    calls = tuple(
        ToolCall(
            name(call.name),
            _mapped(call.arguments, written),
            _as_id(written(call.id), call.id),
            call.source,
        )
        for call in message.tool_calls
    )
    answers = _as_id(written(message.tool_call_id), message.tool_call_id)
    return replace(
        message, content=written(message.content), tool_calls=calls, tool_call_id=answers
    )


def _as_id(written: str, given: str) -> str:
    """Providers take no brackets in an id."""
    return given if written == given else re.sub(r"[\[\]]", "", written)


def _tool(tool: Tool, written: Rewrite, name: Rewrite) -> Tool:
    return Tool(name(tool.name), written(tool.description), _mapped(tool.parameters, written))


@dataclass(slots=True)
class RedactingCloud:
    """Somebody else's `Cloud`, which knows nothing of redaction, behind ours."""

    cloud: Cloud
    redactor: Redactor

    def closed(self, request: Request) -> CloudClosed | None:
        return self.redactor.closed(request) or self.cloud.closed(request)

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        if (shut := self.redactor.closed(request)) is not None:
            raise shut
        sealed = self.redactor.seal(request)
        yield from sealed.open(
            self.cloud.stream(sealed.request, journal, live=live, patience_s=patience_s, stop=stop)
        )
