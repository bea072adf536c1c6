"""What may leave, and redaction: personal data leaves as placeholders, and is put back.

`Redactor` is the one judge of what must stay, before every cloud, ours or the user's, and before
every tool that sends its arguments elsewhere. It seals a request: `[EMAIL_1]` stands for an address
in everything that leaves. The `Sealed` request knows what stands behind each placeholder, and
opens the answer. Contents appear in no message, log or error of this file.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from edgewise.cloud.personal_data import Finder, Found, find, joined
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.errors import CloudClosed, CloudError, EdgewiseError
from edgewise.types.messages import (
    KINDS,
    Choice,
    Message,
    Original,
    Question,
    Request,
    Score,
    Tool,
    ToolCall,
    YesNo,
)
from edgewise.types.replies import Attempt, Finish, Judged, Raw

MOST_NESTING = 200  # of arguments and schemas; deeper ones stay on the device
MOST_SEARCHED = 5_000_000  # characters; a longer request, which few models could read, stays too
MOST_REMEMBERED = 4_096  # texts whose places are known
LONGEST_PLACEHOLDER = 48
LONGEST_SEARCHED = 300  # characters of a value that is looked for everywhere else, too
_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]*)_([0-9]{1,9})\]")
Rewrite = Callable[[str], str]


class _CannotSeal(Exception):
    """Why a request cannot be redacted, in words without contents."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Says what must stay, and seals what may leave. `finders` find what our patterns cannot."""

    finders: Sequence[Finder] = ()
    # By a digest of the text, so that no words are kept: one request is judged several times, and
    # a conversation's turns come again with each of its requests.
    _found: dict[bytes, tuple[Found, ...]] = field(default_factory=dict, init=False, repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), init=False, repr=False)

    def find(self, text: str, kinds: Sequence[str]) -> tuple[Found, ...]:
        """Where the text holds any of these kinds. Raises whatever a finder raises."""
        told = json.dumps((text, sorted(kinds))).encode()
        digest = blake2b(told, key=self._key, digest_size=32).digest()
        found = self._found.get(digest)
        if found is None:
            found = tuple(find(text, kinds, self.finders))
            while len(self._found) >= MOST_REMEMBERED:
                with suppress(StopIteration, RuntimeError):  # another thread is at it, too
                    self._found.pop(next(iter(self._found)), None)
            self._found[digest] = found
        return found

    def closed(self, request: Request) -> CloudClosed | None:
        """Why this request may not leave at all: what it says, what it holds, or what cannot be
        looked into."""
        if not request.may_leave:
            return CloudClosed("the request is private", code="private")
        if not request.redact and not request.private_kinds:
            return None
        seen = any(message.images or message.audio for message in request.messages)
        if request.original is not None:
            seen = seen or bool(request.original.parts)  # they may hold files
        if request.task == "speak" and (kept := self._unspeakable(request)) is not None:
            return kept
        if seen or request.task == "transcribe":  # its sound comes piece by piece
            return CloudClosed(
                "nobody can redact a picture or a sound, so it stays on the device",
                code="not_redactable",
            )
        if sum(map(len, _texts(request))) > MOST_SEARCHED:
            words = f"more than {MOST_SEARCHED:,} characters are not searched for personal data"
            return CloudClosed(f"{words}, so it stays on the device", code="not_redactable")
        return self._holding(request) if request.private_kinds else None

    def _holding(self, request: Request) -> CloudClosed | None:
        """Why a request that holds a kind of data that is private may not leave."""
        try:
            self._check_kinds(request.private_kinds)
            held = {
                found.kind
                for text in _texts(request)
                for found in self.find(text, request.private_kinds)
            }
        except Exception as error:  # noqa: BLE001  # whatever it is: nobody has looked, so it stays
            return _failed(error)
        if not held:
            return None
        return CloudClosed(
            f"the request holds {', '.join(sorted(held))}, which private_kinds keeps on the device",
            code="private_kind",
        )

    def _unspeakable(self, request: Request) -> CloudClosed | None:
        """Why a text may not leave to be spoken: what stands for a value would be spoken, too."""
        try:
            if not self.seal(request).values:
                return None
        except CloudClosed as error:
            return error
        words = "nobody can put back into a voice what was redacted, so it stays on the device"
        return CloudClosed(words, code="not_redactable")

    def seal(self, request: Request) -> Sealed:
        """The request as it may leave. Raises CloudClosed: then nothing may."""
        if not request.redact:
            return Sealed(request)
        try:
            self._check_kinds(request.redact)
            return _seal(request, self.find)
        except Exception as error:  # noqa: BLE001  # as above: what cannot be redacted stays
            failure = _failed(error)
        # Raised out here: the error itself may quote the text, and would go along as its cause.
        raise failure

    def seal_call(self, request: Request, call: ToolCall) -> ToolCall:
        """A call of a tool that leaves, as it may: to the tool, its server is a cloud.

        Whoever wrote the call, it is judged with the request that led to it, whose values are known
        wherever they stand. Raises CloudClosed: then the call is not run.
        """
        said = Message("assistant", tool_calls=(call,))
        whole = replace(request, messages=(*request.messages, said))
        if (shut := self.closed(whole)) is not None:
            raise shut
        sealed = self.seal(whole)
        arguments = sealed.request.messages[-1].tool_calls[0].arguments
        held = {str(value) for value in sealed.values.values()}
        # A name inside of a word is left alone in texts. Here somebody may have put it there.
        if any(value in text for text in _leaves(arguments) for value in held):
            raise CloudClosed("an argument holds what is redacted", code="not_redactable")
        return replace(call, arguments=arguments)

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
    """A request as it leaves, and what stands behind its placeholders.

    All of an answer is opened: it is read here. What of it leaves again is sealed again.
    """

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
        raw = _Opening(self, names)
        with closing(chunks), self._errors():
            for chunk in chunks:
                if isinstance(chunk, Raw):
                    yield from raw.take(chunk)
                elif isinstance(chunk, str):
                    text = held + chunk
                    place = _half_from(text, names)
                    held = text[place:]
                    if place:
                        yield self.open_text(text[:place])
                elif isinstance(chunk, ToolCall):
                    arguments = _mapped(chunk.arguments, self.open_value)
                    yield replace(chunk, arguments=arguments, written="")
                elif isinstance(chunk, Judged):
                    chances = _mapped(chunk.chances, self.open_text)
                    yield replace(chunk, chances=chances)
                else:
                    if held and isinstance(chunk, Finish):
                        yield held
                        held = ""
                    yield chunk

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        """A provider's words of what is wrong may quote what it read."""
        try:
            yield
        except CloudError as error:
            if error.raw is not None:
                written = error.raw.written.decode("utf-8", "replace")
                opened = _PLACEHOLDER.sub(
                    lambda match: self._value(match[0], escaped=True), written
                )
                value = _mapped(error.raw.value, self.open_value)
                error.raw = replace(error.raw, written=opened.encode(), value=value)
            raise

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


class _Opening:
    """Opens the pieces of an answer that is passed on. A text goes on from piece to piece: its end
    is held while it may be half of a placeholder, and all of a call's arguments until they end."""

    def __init__(self, sealed: Sealed, names: tuple[str, ...]) -> None:
        self._sealed, self._names = sealed, names
        self._held: dict[tuple[Any, ...], tuple[str, Raw]] = {}

    def take(self, raw: Raw) -> Iterator[Raw]:
        """The piece, opened; before it what was held, where that does not go on in it."""
        if raw.value is None:
            if raw.closing:
                yield from self._let_go(())
            yield raw
            return
        value = copy.deepcopy(raw.value)
        places = list(_stretches(value))
        going_on = [key for key, *_ in places]
        if places or raw.closing or value.get("type", "ping") != "ping":
            yield from self._let_go(going_on)
        texts = []
        stretched = {id(holder): name for _, holder, name in places}
        value = self._open(value, stretched)
        for (key, _, name), (_, holder, _) in zip(places, _stretches(value), strict=True):
            text = self._held.pop(key, ("", raw))[0] + holder[name]
            place = 0 if key[-1] in _JSON_NAMES else _half_from(text, self._names)
            if text[place:]:
                self._held[key] = (text[place:], raw)
            holder[name] = self._sealed.open_text(text[:place])
            texts += [holder[name]] if raw.text and key[-1] not in _JSON_NAMES else []
        opened = "".join(texts) if places else self._sealed.open_text(raw.text)
        yield self._written(raw, value, opened)

    def _let_go(self, going_on: Sequence[tuple[Any, ...]]) -> Iterator[Raw]:
        for key in [key for key in self._held if key not in going_on]:
            text, raw = self._held.pop(key)
            value = copy.deepcopy(raw.value)
            for other, holder, name in _stretches(value):
                opened = self._arguments(text) if key[-1] in _JSON_NAMES else text
                holder[name] = opened if other == key else ""
            is_text = raw.text and key[-1] not in _JSON_NAMES
            yield self._written(
                replace(raw, closing=False, headers={}), value, text * bool(is_text)
            )

    def _open(self, value: Any, stretched: Mapping[int, str], depth: int = 0) -> Any:
        """Whole texts; those that go on are left as they are."""
        if isinstance(value, str):
            return self._sealed.open_text(value)
        if isinstance(value, list):
            return [self._open(each, stretched, depth + 1) for each in value]
        if not isinstance(value, dict) or depth > MOST_NESTING:
            return value
        kept = stretched.get(id(value))
        found = {}
        for name, each in value.items():
            if name == kept:
                found[name] = each
            elif name == _WRITTEN and isinstance(each, str):
                found[name] = self._arguments(each)
            else:
                found[name] = self._open(each, stretched, depth + 1)
        return found

    def _arguments(self, text: str) -> str:
        found = _read(text)
        if not isinstance(found, dict):
            return self._sealed.open_text(text)
        opened = _mapped(found, self._sealed.open_value)
        return text if opened == found else json.dumps(opened, ensure_ascii=False)

    def _written(self, raw: Raw, value: Any, text: str) -> Raw:
        """As it came, where nothing was behind a placeholder in it."""
        if value == raw.value:
            return replace(raw, text=text)
        data = json.dumps(value, ensure_ascii=False).encode()
        head, mark, _ = raw.written.partition(b"data:")
        written = head + mark + b" " + data + b"\n\n" if mark else data
        return replace(raw, written=written, value=value, text=text)


_JSON_NAMES = ("arguments", "partial_json", "response.function_call_arguments.delta")


def _stretches(value: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """The texts of an event that go on in the next: whose they are, and where they stand."""
    if not isinstance(value, dict):
        return
    kind, delta = value.get("type"), value.get("delta")
    if isinstance(delta, str):  # of a response
        place = (value.get("item_id"), value.get("output_index"), value.get("content_index"))
        yield (*place, kind), value, "delta"
    elif isinstance(delta, dict):  # of a message
        for name in ("text", "thinking", "partial_json"):
            if isinstance(delta.get(name), str):
                yield (value.get("index"), name), delta, name
    for candidate in value.get("candidates") or ():  # of Gemini's
        for part in (candidate.get("content") or {}).get("parts") or ():
            if isinstance(part.get("text"), str):
                yield (candidate.get("index"), bool(part.get("thought")), "text"), part, "text"
    for choice in value.get("choices") or ():
        yield from _chunk_stretches(choice.get("index"), choice.get("delta") or {})


def _chunk_stretches(
    index: Any, delta: dict[str, Any]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """The same in a chunk of a chat completion."""
    for name, text in delta.items():
        if isinstance(text, str) and name != "role":
            yield (index, name), delta, name
    for call in delta.get("tool_calls") or ():
        function = call.get("function") or {}
        if isinstance(function.get(_WRITTEN), str):
            yield (index, call.get("index"), _WRITTEN), function, _WRITTEN


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


def _seal(request: Request, find_in: Callable[[str, Sequence[str]], tuple[Found, ...]]) -> Sealed:
    kinds = request.redact
    texts = dict.fromkeys(_texts(request))
    found = {text: find_in(text, kinds) for text in texts}
    if request.original is not None:
        _check_whole(request.original, request.messages, found)
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
        questions={
            written(asked): _question(each, written) for asked, each in request.questions.items()
        },
        hint=written(request.hint),
        stop=tuple(map(written, request.stop)),
        context={},  # its facts are in the messages
        original=request.original and _sealed_original(request.original, written),
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


def _check_whole(
    original: Original, messages: Iterable[Message], found: Mapping[str, Sequence[Found]]
) -> None:
    """Raises _CannotSeal for a value of which each part of a message has a piece: we read the parts
    as one text, as a model does, and an original leaves part by part."""
    parts = list(_leaves(_unpacked(original.body)))
    known = {text[each.start : each.end] for text in parts for each in found[text]}
    for message in messages:
        for each in found[message.content]:
            value = message.content[each.start : each.end]
            if value not in known and not any(value in text for text in parts):
                raise _CannotSeal("a value stands in several parts of a message")


def _sealed_original(original: Original, written: Rewrite) -> Original:
    body = _packed(original.body, _mapped(_unpacked(original.body), written))
    headers = {name: written(value) for name, value in original.headers.items()}
    return replace(original, body=body, headers=headers)


# Where JSON stands in a text: the arguments of calls, in OpenAI's protocols.
_WRITTEN = "arguments"


def _unpacked(value: Any) -> Any:
    """With the arguments of calls as values, whose numbers and names are looked at too."""
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _read(each) if name == _WRITTEN else _unpacked(each) for name, each in value.items()
    }


def _read(value: Any) -> Any:
    with contextlib.suppress(ValueError):
        found = json.loads(value) if isinstance(value, str) else value
        return found if isinstance(found, dict) else value
    return value


def _packed(given: Any, made: Any) -> Any:
    """`made`, with arguments as text again: where nothing is changed, the same text."""
    if isinstance(given, list):
        return [_packed(one, other) for one, other in zip(given, made, strict=True)]
    if isinstance(given, Mapping):
        pairs = zip(given.items(), made.items(), strict=True)
        return {name: _packed(one, other) for (_, one), (name, other) in pairs}
    if isinstance(given, str) and isinstance(made, dict):
        return given if _read(given) == made else json.dumps(made, ensure_ascii=False)
    return made


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
    for name, question in request.questions.items():
        yield name
        yield from _leaves((question.ask, question.options, question.described))
    if request.response_format is not None:
        yield request.response_format.name
        yield from _leaves(request.response_format.schema)
    if request.original is not None:
        yield from request.original.headers.values()
        yield from _leaves(_unpacked(request.original.body))


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


def _question(question: Question, written: Rewrite) -> Question:
    ask = _mapped(question.ask, written)
    if isinstance(question, YesNo):
        return YesNo(ask, _mapped(question.true, written), _mapped(question.false, written))
    if isinstance(question, Score):
        return Score(_mapped(question.levels, written), ask)
    return Choice(_mapped(question.choices, written), ask)


def _as_id(written: str, given: str) -> str:
    """Providers take no brackets in an id."""
    return given if written == given else re.sub(r"[\[\]]", "", written)


def _tool(tool: Tool, written: Rewrite, name: Rewrite) -> Tool:
    return Tool(name(tool.name), written(tool.description), _mapped(tool.parameters, written))


@dataclass(slots=True)
class GuardedCloud:
    """Somebody else's `Cloud`, which knows nothing of what may leave, behind our judge.

    It is shown a request only as it may leave, also when it is asked whether it is open.
    """

    cloud: Cloud
    redactor: Redactor

    def closed(self, request: Request) -> CloudClosed | None:
        if request.policy == "local_only":
            return None  # it is not going there, whatever the cloud would say
        try:
            return self.cloud.closed(self._seal(request).request)
        except CloudClosed as shut:
            return shut

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        sealed = self._seal(request)
        yield from sealed.open(
            self.cloud.stream(sealed.request, journal, live=live, patience_s=patience_s, stop=stop)
        )

    def _seal(self, request: Request) -> Sealed:
        if request.policy == "local_only":
            raise CloudClosed("the policy kept it on the device", code="policy_local_only")
        if (shut := self.redactor.closed(request)) is not None:
            raise shut
        return self.redactor.seal(request)
