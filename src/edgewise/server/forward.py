"""What is sent on as it came, and what comes back as it is: the server's part of forwarding.

`original` is a request without what is ours in it, `unread` one that we cannot read; `Verbatim`
writes a provider's own events, with our `edgewise` object in the first and the last; `untranslated`
names what another protocol cannot say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from edgewise.errors import InvalidRequest
from edgewise.server.body import (
    BadField,
    Between,
    Flag,
    Many,
    Model,
    Object,
    Text,
    parse_body,
    read_model,
)
from edgewise.server.wire import PREFIX, Ask, Opening, Report, Routing, Wire, to_json
from edgewise.types.messages import MOST_TURNS, Message, Original
from edgewise.types.replies import Raw

# Of a client's headers, what is for the provider. Keys and addresses are not among them.
_SENT_ON = ("anthropic-beta", "anthropic-version", "openai-beta")
_PLAIN = re.compile(r"[ -~]{1,8000}")
MOST_NAMED = 20  # of what is not translated
_MOST_COUNTED = 1_000_000
# Fields that say nothing of their own: every protocol has its words for them.
_SAID_ANYWAY = {"type", "stream", "stream_options", "metadata", "store", "id", "status"}


def original(
    wire: Wire, ask: Ask, headers: Mapping[str, str], written: bytes = b""
) -> Original | None:
    """The request as its client sent it; None where no provider has its protocol, or where known
    facts are to be told, which are ours."""
    if wire.forwards is None or ask.metadata.get("context") or ask.metadata.get(f"{PREFIX}context"):
        return None
    if headers.get("x-edgewise-context"):
        return None
    body = dict(ask.body)
    if isinstance(body.get("metadata"), dict):
        theirs = {name: each for name, each in body["metadata"].items() if not _is_ours(name)}
        if theirs != body["metadata"]:
            body["metadata"] = theirs
            if not theirs:
                del body["metadata"]
    sent_on = {
        name: headers[name]
        for name in _SENT_ON
        if name in headers and _PLAIN.fullmatch(headers[name])
    }
    return Original(
        wire=wire.forwards,
        body=body,
        written=written,
        sent=ask.body,
        headers=sent_on,
        foreign=ask.foreign,
        stream=ask.stream,
        wanted=ask.stream,
    )


def _is_ours(name: str) -> bool:
    return name in Routing.model_fields or name.startswith(PREFIX)


def untranslated(ask: Ask) -> list[str]:
    """The fields of a request that we do not read, so that no other protocol is told of them."""
    found: dict[str, None] = dict.fromkeys(ask.foreign)
    for name in _unread(ask.read, ask.body, ""):
        found[name] = None
        if len(found) == MOST_NAMED:
            break
    return list(found)


def _unread(read: Any, sent: Any, path: str) -> Iterator[str]:
    if isinstance(read, list) and isinstance(sent, list):
        for one, other in zip(read, sent, strict=False):
            yield from _unread(one, other, path)
    if not isinstance(read, BaseModel) or not isinstance(sent, dict):
        return
    fields = type(read).model_fields
    known = {spelt: name for name, each in fields.items() for spelt in (name, each.alias or name)}
    for name, value in sent.items():
        place = f"{path}.{name}" if path else name
        if name in known:
            yield from _unread(getattr(read, known[name]), value, place)
        elif value is not None and name not in _SAID_ANYWAY:
            yield place


_Limit = Annotated[int | None, Between(-1, _MOST_COUNTED)]
_Answers = Annotated[int | None, Between(1, 128)]


class _Config(Model):
    """Where Gemini says them, in either spelling."""

    limit: _Limit = Field(None, alias="maxOutputTokens")
    limit_too: _Limit = Field(None, alias="max_output_tokens")
    answers: _Answers = Field(None, alias="candidateCount")
    answers_too: _Answers = Field(None, alias="candidate_count")


class _Window(Model):
    """What must be known of a request to route it, to pay for it, and to read its answer."""

    model: Text = ""
    stream: Flag | None = None
    stream_options: Object | None = None
    background: Flag | None = None
    metadata: Object | None = None
    tools: Many[Object] | Object | None = None
    n: _Answers = None
    max_tokens: _Limit = None
    max_completion_tokens: _Limit = None
    max_output_tokens: _Limit = None
    config: _Config | None = Field(None, alias="generationConfig")
    config_too: _Config | None = Field(None, alias="generation_config")


def unread(wire: Wire, written: bytes, error: InvalidRequest) -> Ask | None:
    """A request that cannot be read, for `error`: whether it is wrong is its provider's to say.

    None where nobody else could answer it. A provider of another protocol, and the device, are not
    asked: then the error is told.
    """
    if wire.forwards is None:
        return None
    try:
        sent = parse_body(written)
        read = read_model(_Window, sent)
    except BadField:
        return None
    model, stream = wire.in_path or (read.model, bool(read.stream))
    most = max((len(each) for each in sent.values() if isinstance(each, list)), default=0)
    if read.background or not model or most > MOST_TURNS:
        return None
    place = error.path if isinstance(error, BadField) and error.path else "it"
    words = "\n".join(_words(sent))
    return Ask(
        model=model,
        messages=(Message("user", words or "[empty]"),),
        options={},
        metadata=read.metadata or {},
        stream=stream,
        usage=bool((read.stream_options or {}).get("include_usage", wire.forwards != "chat")),
        body=sent,
        foreign=(f"what is in {place}",),
        wrong=error,
    )


def _words(value: Any) -> Iterator[str]:
    """All texts in it, so that it has its length, and the ledger something to show."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _words(each)


class Forwarded(TypedDict):
    """A provider's own answer, with our object in it."""

    edgewise: Report


class Verbatim:
    """Writes one forwarded stream. The end is held until our account of it is known."""

    def __init__(self, wire: Wire, opening: Opening) -> None:
        self._first, self._last = wire.note_places
        self._opening: Mapping[str, Any] | None = opening.to_dict()
        self._held: list[Raw] = []

    def piece(self, raw: Raw) -> bytes:
        if self._opening is not None and raw.value is not None:
            raw, self._opening = noted(raw, self._first, self._opening), None
        if raw.closing:
            self._held.append(raw)
            return b""
        # It was not the end after all: the next of several answers goes on.
        before, self._held = self._held, []
        return b"".join(each.written for each in (*before, raw))

    def end(self, report: Mapping[str, Any]) -> bytes:
        for number, raw in enumerate(self._held):
            if (told := noted(raw, self._last, report)) is not raw:
                self._held[number] = told
                break
        return b"".join(each.written for each in self._held)


def noted(raw: Raw, place: str, note: Report | Mapping[str, Any]) -> Raw:
    """A provider's JSON, or an event of it, with our object at a place in it; else as it is."""
    written, value = raw.written, raw.value
    holder = value.get(place) if place and isinstance(value, dict) else value
    if isinstance(holder, dict) and "edgewise" in holder:  # the provider is a server like this one
        holder = {**holder, "edgewise": note}
        data = to_json({**value, place: holder} if place else holder)
        head = b"" if written.lstrip().startswith(b"{") else written[: written.index(b"data:") + 5]
        return replace(raw, written=head + b" " + data + b"\n\n" if head else data)
    at = rb'(?<!\\)"%s"\s*:\s*\{' % place.encode() if place else rb"(?:\A|^data:)\s*\{"
    if (found := re.search(at, written, re.MULTILINE)) is None:
        return raw
    rest = written[found.end() :]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    told = b"".join((written[: found.end()], b'"edgewise":', to_json(note), comma, rest))
    return replace(raw, written=told)
