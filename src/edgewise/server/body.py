"""Reads what a request carries: JSON and forms into checked models, and pictures.

The models of the endpoints are built on `Model`. Whatever is wrong becomes a `BadField`, which
names the field in the client's own words: `messages[0].content[1].type`.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Le
from pydantic import (
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from typing_extensions import override

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image

# More is not written by hand, and recursion must end somewhere.
DEEPEST = 64
# Of one body. Parsing holds Python's lock, and each value takes about a hundred bytes: five million
# empty lists would stop every other request for seconds, though they are 15 MB of text.
MOST_VALUES = 200_000
MOST_PARTS = 100  # of a form
LONGEST_TEXT = 100_000  # bytes of a form's field that is not a file
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# A tag is a piece of an error's place that is no field's name.
TAG = "~"
_ENTRY = re.compile(r"metadata\[([^][]+)\]")
# The parser of forms would write a line for each form that it cannot read.
_SILENT = logging.Logger("edgewise.server.form", logging.CRITICAL + 1)


class BadField(InvalidRequest):
    """A field of a request has the wrong type or value."""

    def __init__(self, path: str, words: str, loc: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"{path}: {words}" if path else words)
        self.path, self.words = path, words
        self.loc = loc or ((path,) if path else ())  # the place in pieces


# What keeps a request in, as people write it, and the setting that they mean. Said where nobody
# reads it, it would be passed over, and let out what was to stay.
KEEPERS = {
    "private": "privacy",
    "privacy": "privacy",
    "policy": "policy",
    "localonly": "policy",
    "redact": "redact",
    "privatekinds": "private_kinds",
}
METADATA = ("metadata",)  # where most APIs say it
# The names in these are those of the client's own data.
_DATA = {"properties", "$defs", "definitions", "variables", "context", "arguments"}


def check_place(name: str, path: str = "", read_at: str = METADATA[0]) -> None:
    """Raises BadField for a name of ours that stands where it does not count."""
    if (meant := _meant(name[:80])) is not None:
        raise BadField(
            f"{path}{name[:80]}",
            f"does not count here; say it as {read_at}.{meant}, or in the header "
            f"x-edgewise-{meant.replace('_', '-')}",
        )


@lru_cache(maxsize=4096)
def _meant(name: str) -> str | None:
    plain = re.sub("[^a-z]", "", name.lower()).removeprefix("x")
    ours = plain.startswith("edgewise")
    return KEEPERS.get(plain.removeprefix("edgewise"), "privacy" if ours else None)


class Model(BaseModel):
    """An object of a request. Fields that it does not name are ignored; null is "not given"."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


Given = TypeVar("Given", bound=Model)
Item = TypeVar("Item")


class Between(GroupedMetadata):
    """A number of JSON from `low` to `high`. JSON has one kind of number: 5.0 is 5."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @override
    def __iter__(self) -> Iterator[object]:
        yield from (Strict(), Ge(self.low), Le(self.high), BeforeValidator(_whole))


@dataclass(frozen=True, slots=True)
class DescribedBy:
    """A field that is kept as it was sent; what it may hold is described by another type."""

    shape: Any

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(TypeAdapter(self.shape).core_schema)


class _FirstWrong(GroupedMetadata):
    """Stop at the first wrong item of a list: a body may hold a million of them."""

    @override
    def __iter__(self) -> Iterator[object]:
        yield FailFast()


class Other(Model):
    """What we do not know, and a provider may: it is passed on, and nothing is read of it."""

    type: str


class OneOf:
    """Chooses among the models of a union by a field that holds different words in each.

    A model in which the field may be left out is the one that is meant without it. With `other`,
    unknown words are an `Other`.
    """

    def __init__(self, field: str, *, other: bool = False) -> None:
        self.field, self.other = field, other

    def __get_pydantic_core_schema__(self, union: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        models: tuple[type[Model], ...] = get_args(union) or (union,)
        known = {
            word: TAG + model.__name__
            for model in models
            for word in _words_of(model.model_fields[self.field].annotation)
        }

        choices = {TAG + model.__name__: handler.generate_schema(model) for model in models}
        if self.other:
            choices[TAG + Other.__name__] = handler.generate_schema(
                other_than(*filter(None, known))
            )

        def choose(value: Any) -> str | None:
            found = value.get(self.field) if isinstance(value, dict) else {}
            if self.other and isinstance(found, str) and found not in known:
                return TAG + Other.__name__
            return known.get(found) if isinstance(found, str | None) else None

        return core_schema.tagged_union_schema(
            choices,
            choose,
            custom_error_type="one_of",
            custom_error_message=f"{self.field}: expected one of {', '.join(filter(None, known))}",
        )


def other_than(*known: str) -> type[Other]:
    """An `Other` whose type is none of these."""
    word = WithJsonSchema({"type": "string", "not": {"enum": list(known)}})
    name = "OtherThan_" + "_".join(known)
    return create_model(name, __base__=Other, type=(Annotated[str, Strict(), word], ...))


class Malformed(dict[str, Any]):
    """Stands for an object that cannot be read."""


def foreign(read: Any) -> Iterator[str]:
    """What stands in a request that we do not know, by name."""
    if isinstance(read, Other):
        yield read.type[:80]
    elif isinstance(read, Malformed):
        yield "malformed arguments"
    elif isinstance(read, BaseModel):
        for _, each in read:
            yield from foreign(each)
    elif isinstance(read, list):
        for each in read:
            yield from foreign(each)


def _words_of(annotation: Any) -> Iterator[str | None]:
    """What a `Literal` holds, and None where it is optional."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif annotation is type(None):
        yield None
    else:
        for each in get_args(annotation):
            yield from _words_of(each)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text_or_list(value: Any) -> str | None:
    if isinstance(value, str):
        return TAG + "text"
    return TAG + "list" if isinstance(value, list) else None


def refused(words: str) -> BeforeValidator:
    """A field that no request may have."""

    def refuse(value: Any) -> None:
        if value is not None:
            raise ValueError(words)

    return BeforeValidator(refuse)


# The types of fields. Text is no number and a number is no text: nothing is converted.
Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Object = dict[str, Any]
Refused = Annotated[None, WithJsonSchema({"type": "null"})]
Many = Annotated[list[Item], _FirstWrong()]
TextOrMany = Annotated[
    Annotated[str, Strict(), Tag(TAG + "text")]
    | Annotated[list[Item], _FirstWrong(), Tag(TAG + "list")],
    Discriminator(
        _text_or_list,
        custom_error_type="text_or_list",
        custom_error_message="expected text or a list",
    ),
]


def parse_body(
    body: bytes, *, read_at: tuple[str, ...] = METADATA, depth: int = 2
) -> dict[str, Any]:
    """The object in a request's body, not nested too deeply. Raises BadField.

    `read_at` are the objects in it that say where the request may go. Elsewhere, so deep, a name
    that would say it is refused; and everywhere one that is given twice, since only one counts.
    """
    try:
        Spare().take(body)
        value = _parsed(body.decode("utf-8"), _each_once)
    except UnicodeDecodeError as error:
        raise BadField("", f"the body is not UTF-8: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise BadField("", f"the body is not JSON: {error}") from error
    except ValueError as error:
        raise BadField("", f"the body has {error}") from error
    if not isinstance(value, dict):
        raise BadField("", f"the body must be a JSON object, not {_kind(value)}")
    _check_places(value, "", read_at, depth)
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise BadField(twice[:80], "is given twice in one object")
    return found


def _check_places(value: Any, path: str, read_at: tuple[str, ...], depth: int) -> None:
    """Lists count as what is in them."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            if isinstance(each, dict):
                _check_places(each, f"{path.removesuffix('.')}[{number}].", read_at, depth)
        return
    for name, inner in value.items():
        if f"{path}{name}" in read_at:
            continue
        if inner is not None:
            check_place(name, path, read_at[0])
        if depth and isinstance(inner, dict | list) and name not in _DATA:
            _check_places(inner, f"{path}{name}.", read_at, depth - 1)


def parse_inner(text: str, info: ValidationInfo) -> Any:
    """JSON in a text of a request. Raises ValueError."""
    if isinstance(info.context, Spare):
        info.context.take(text.encode("utf-8", "replace"))
    return _parsed(text)


class Spare:
    """How many values the JSON of one request may still have. Texts in it may hold JSON too."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def take(self, written: bytes) -> None:
        """Raises ValueError before anything is parsed."""
        self._left -= _count_values(written, self._left)
        if self._left < 0:
            raise ValueError(f"more than {MOST_VALUES:,} values")


def _count_values(written: bytes, enough: int) -> int:
    """At least as many as there are values. Exact only above `enough`: texts hold commas too."""
    count = _count_marks(written)
    if count <= enough:
        return count
    bare = written.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 4 * enough:  # a name and a text for each value
        return count
    return _count_marks(b"".join(bare.split(b'"')[::2]))


def _count_marks(written: bytes) -> int:
    return 1 + sum(written.count(mark) for mark in (b",", b"[", b"{"))


def _parsed(
    text: str, make: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> Any:
    """The value of a JSON text, its objects made by `make`. Raises ValueError, which says what the
    text has."""
    try:
        value = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=make
        )
        if "\\ud" in text.lower():
            # Half a surrogate pair is legal JSON, but no text that can be stored or sent on.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("half a surrogate pair in a text") from error
    except RecursionError as error:
        raise ValueError("values nested too deeply") from error
    except ValueError as error:
        if "digits" in str(error):  # Python's own limit, against conversions that never end
            raise ValueError("a number with too many digits") from error
        raise
    if _is_too_deep(value):
        raise ValueError("values nested too deeply")
    return value


def read_model(model: type[Given], values: Mapping[str, Any], *, named: str = "") -> Given:
    """Values as a checked model. `named` is what to call the field that is wrong, where the
    client knows it by another name. Raises BadField.
    """
    try:
        return model.model_validate(values, context=Spare())
    except ValidationError as error:
        found = _translated(error)
        raise BadField(named or found.path, found.words, () if named else found.loc) from None


def read_body(model: type[Given], body: bytes) -> Given:
    return read_model(model, parse_body(body))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name}, which is no JSON number")


def _finite(written: str) -> float:
    if math.isfinite(value := float(written)):
        return value
    raise ValueError(f"{written[:40]}, which is larger than any number that can be sent on")


def _is_too_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        inside = [each for each in level if isinstance(each, dict | list)]
        level = [
            below
            for each in inside
            for below in (each.values() if isinstance(each, dict) else each)
        ]
        depth += 1
    return bool(level)


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def _translated(error: ValidationError) -> BadField:
    """The first of pydantic's errors in our words. The place leaves out the tags of unions."""
    first = error.errors(include_url=False)[0]
    loc = tuple(piece for piece in first["loc"] if not str(piece).startswith(TAG))
    path = ""
    for piece in loc:
        if isinstance(piece, int):
            path += f"[{piece}]"
        else:
            path += f".{piece}" if path else piece
    kind, value, context = first["type"], first["input"], first.get("ctx", {})
    if kind == "one_of":
        if not isinstance(value, dict):
            return BadField(path, f"expected an object, got {_kind(value)}", loc)
        field, _, words = first["msg"].partition(": ")
        return BadField(
            f"{path}.{field}", f"{words}, got {_shown(value.get(field))}", (*loc, field)
        )
    if kind == "missing" or (value is None and kind != "value_error"):
        return BadField(path, "is required", loc)
    if kind in _EXPECTED:
        if kind == "float_type" and isinstance(value, int) and not isinstance(value, bool):
            return BadField(path, "the number is too large", loc)
        return BadField(path, f"expected {_EXPECTED[kind]}, got {_kind(value)}", loc)
    known: dict[str, Callable[[], str]] = {
        "value_error": lambda: str(context["error"]),
        "literal_error": lambda: f"expected {context['expected']}, got {_shown(value)}",
        "greater_than_equal": lambda: (
            f"expected at least {_whole(context['ge'])}, got {_shown(value)}"
        ),
        "less_than_equal": lambda: f"expected at most {_whole(context['le'])}, got {_shown(value)}",
        "finite_number": lambda: f"expected a finite number, got {_shown(value)}",
        "too_long": lambda: f"at most {context['max_length']}, got {context['actual_length']}",
        "too_short": lambda: "is empty",
    }
    return BadField(path, known.get(kind, lambda: first["msg"])(), loc)


def _shown(value: Any) -> str:
    """A wrong value as an error may quote it: short, and of lists and objects only the kind."""
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _kind(value)
    return str(value)[:40]


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number")


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form. Its name is what the client says, and nothing is ever opened by it."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(slots=True)
class Form:
    """Fields and files by name; a name may come more than once, as `include[]` does."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        texts = self.texts.get(name, [default])
        if len(texts) > 1:
            raise BadField(name[:80], "is given twice")
        return texts[0]

    def listed(self, name: str) -> tuple[str, ...]:
        """Under `name` and `name[]`: clients write lists either way."""
        return (*self.texts.get(name, ()), *self.texts.get(f"{name}[]", ()))

    def inner(self, name: str) -> dict[str, str]:
        """`metadata[policy]` and the like, by what is in the brackets."""
        start = f"{name}["
        return {
            key.removeprefix(start).removesuffix("]"): values[-1]
            for key, values in self.texts.items()
            if key.startswith(start) and key.endswith("]")
        }


class _FormReader:
    """What the parser finds, part by part."""

    def __init__(self) -> None:
        self.form = Form()
        self.ended = False
        self._parts = 0
        self._headers: dict[str, str] = {}
        self._name = self._value = b""
        self._data: list[bytes] = []

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header,
            "on_part_data": lambda data, start, end: self._data.append(data[start:end]),
            "on_part_end": self._part,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts >= MOST_PARTS:
            raise BadField("", f"the form has more than {MOST_PARTS - 1} parts")
        self._headers, self._data = {}, []

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._name = self._value = b""

    def _end(self) -> None:
        self.ended = True

    def _part(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition"))
        data = b"".join(self._data)
        if b"name" not in options:
            raise BadField("", "a part of the form has no name")
        name = options[b"name"].decode("utf-8", "replace")
        if b"filename" in options:
            media_type = self._headers.get("content-type", "application/octet-stream")
            file_name = options[b"filename"].decode("utf-8", "replace")
            self.form.files[name] = Upload(file_name, media_type, data)
            return
        if len(data) > LONGEST_TEXT:
            raise BadField(name, f"more than {LONGEST_TEXT:,} bytes")
        try:
            self.form.texts.setdefault(name, []).append(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadField(name, f"not UTF-8: {error.reason}") from error


def parse_form(content_type: str, body: bytes) -> Form:
    """The form in a body (`multipart/form-data`). Raises BadField where it is none."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind.strip() != b"multipart/form-data" or not boundary:
        raise BadField("", "the body must be multipart/form-data")
    reader = _FormReader()
    try:
        parser = MultipartParser(boundary, reader.callbacks())
        parser.logger = _SILENT
        parser.write(body)
    except FormParserError as error:
        raise BadField("", f"the form cannot be read: {error}") from error
    if not reader.ended:
        raise BadField("", "the form does not end")
    for name in (*reader.form.texts, *reader.form.files):
        _check_form_name(name, reader.form)
    return reader.form


def _check_form_name(name: str, form: Form) -> None:
    """As `_check_places`: in a form `metadata[privacy]` counts, and nothing else."""
    entry = _ENTRY.fullmatch(name)
    if name == METADATA[0]:
        raise BadField(name, "a form says it entry by entry, as metadata[privacy]")
    if entry is None:
        for piece in re.split(r"[][.]+", name):
            check_place(piece)
    elif name in form.files or len(form.texts[name]) > 1:
        raise BadField(name, "expected one text")


def read_picture(url: str, path: str, *, remote: bool) -> Image:
    """The picture that a URL holds, or its address where those are allowed. Raises BadField."""
    if url.startswith("data:"):
        head, comma, data = url.removeprefix("data:").partition(",")
        media_type, _, encoding = head.partition(";")
        if not comma or encoding != "base64":
            raise BadField(path, "expected data:image/…;base64,…")
        return decode_picture(data, media_type, path)
    if not remote:
        raise BadField(path, "remote images are off on this server; send a data: URL")
    return Image(b"", name=path, url=url)  # fetched when the request runs


def decode_picture(data: str, media_type: str, path: str) -> Image:
    """A picture from base64."""
    if media_type not in PICTURES:
        raise BadField(path, f"expected one of {', '.join(PICTURES)}, got {media_type[:40]!r}")
    try:
        return Image(base64.b64decode(data, validate=True), media_type, name=path)
    except (binascii.Error, ValueError) as error:
        raise BadField(path, "not base64") from error
