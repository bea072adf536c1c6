"""What a request says about routing: its model's name, its headers, its metadata."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import GroupedMetadata
from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from typing_extensions import override

from edgewise import plugins
from edgewise.local.store.catalogue import MODELS, model_name
from edgewise.server.body import BadField, DescribedBy, Model, parse_inner, read_model
from edgewise.server.errors import refuse
from edgewise.types.objectives import as_share
from edgewise.types.personal_data import as_kinds

HEADER = "x-edgewise-"
PREFIX = "edgewise_"  # of names in metadata, where they may stand among others
LOCAL_ONLY = "local_only"
AUTO, LOCAL, CLOUD = "auto", "local", "cloud"
LEAST_SHARE, MOST_SHARE = 0.0001, 0.9999  # of errors: none at all cannot be promised


class Range(GroupedMetadata):
    """A number, or text that holds one: headers have nothing else. A share may be in percent."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @override
    def __iter__(self) -> Iterator[object]:
        number = {"type": "number", "minimum": self.low, "maximum": self.high}
        text = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"}
        yield BeforeValidator(self._read)
        yield WithJsonSchema({"anyOf": [number, text]})

    def _read(self, value: Any) -> float:
        try:
            is_share = isinstance(value, str) and self.high <= 1
            number = as_share(value) if is_share else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if isinstance(value, bool) or not self.low <= number <= self.high:
            raise ValueError(f"expected a number from {self.low:g} to {self.high:g}")
        return number


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 128:
        raise ValueError("expected a word")
    return value.strip()


def _policies(schema: dict[str, Any]) -> None:
    schema["anyOf"][0] = {"enum": list(plugins.names("policies"))}


Word = Annotated[
    str,
    BeforeValidator(_word),
    WithJsonSchema({"type": "string", "pattern": r"\S", "maxLength": 128}),
]


def _facts(value: Any, info: ValidationInfo) -> dict[str, Any]:
    """Known facts: an object, or its JSON as text. Headers and metadata often hold only text."""
    if isinstance(value, str):
        try:
            value = parse_inner(value, info)
        except json.JSONDecodeError as error:
            raise ValueError("expected a JSON object") from error
    if not isinstance(value, dict):
        raise ValueError("expected an object of names and values")
    for name, fact in value.items():
        if not _is_fact(fact, nested=2):
            raise ValueError(f"{name[:40]}: a text, a number, a list or a table of them is wanted")
    return value


def _is_fact(value: Any, nested: int) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return nested > 0 and all(_is_fact(one, nested - 1) for one in inner)
    return value is None or isinstance(value, str | int | float)


def _kinds(value: Any) -> tuple[str, ...]:
    """`true`, `EMAIL, CARD` or a list of kinds."""
    if not isinstance(value, bool | str | list | tuple) or len(value := _plain(value)) > 512:
        raise ValueError("expected true, or a list of kinds like EMAIL")
    if not str(value).strip():  # a variable that somebody forgot to set must not let a request out
        raise ValueError("expected true, false, or kinds like EMAIL; got nothing")
    return as_kinds(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) and not all(isinstance(each, str) for each in value):
        raise ValueError("expected true, or a list of kinds like EMAIL")
    return value


Kinds = Annotated[
    tuple[str, ...],
    BeforeValidator(_kinds),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "string", "minLength": 1, "pattern": "\\S", "maxLength": 512},
                {"type": "array", "items": {"type": "string"}, "maxItems": 512},
            ]
        }
    ),
]


class Routing(Model):
    """Routing of one request: its metadata, or `x-edgewise-*` headers. Clients may keep more here.

    In metadata each may also be called `edgewise_policy` and so on.
    """

    policy: Annotated[Word | None, Field(json_schema_extra=_policies)] = None
    privacy: Annotated[
        Annotated[Literal["private", "open"], BeforeValidator(lambda each: _word(each).lower())]
        | None,
        Field(description="private: never leaves the device"),
    ] = None
    redact: Annotated[
        Kinds | None, Field(description="kinds that leave as placeholders only; true: all")
    ] = None
    private_kinds: Annotated[
        Kinds | None, Field(description="kinds that keep the request on the device")
    ] = None
    handoff: Annotated[
        Annotated[Literal["automatic", "signal"], BeforeValidator(_word)] | None,
        Field(description="signal: only say that it should be handed off"),
    ] = None
    threshold: Annotated[float, Range(0, 1)] | None = None
    max_error: Annotated[
        Annotated[float, Range(LEAST_SHARE, MOST_SHARE)] | None,
        Field(description="of what is kept, in place of a threshold"),
    ] = None
    error_probability: Annotated[
        Annotated[float, Range(LEAST_SHARE, MOST_SHARE)] | None,
        Field(description="that it is more after all"),
    ] = None
    cloud_share: Annotated[
        Annotated[float, Range(0, 1)] | None,
        Field(description="of requests, in place of a threshold"),
    ] = None
    deadline_ms: Annotated[float, Range(1, 86_400_000)] | None = None
    context: Annotated[
        Annotated[
            dict[str, Any],
            BeforeValidator(_facts),
            WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
        ]
        | None,
        Field(description="known facts: date, time, place, names, tables"),
    ] = None
    budget_key: Annotated[Word | None, Field(description="whose budget pays")] = None

    def options(self) -> dict[str, Any]:
        """For the engine."""
        found = {name: value for name, value in self if value is not None}
        if (privacy := found.pop("privacy", None)) is not None:
            found["private"] = privacy == "private"
        return found


# As it was sent: some answers repeat it.
Metadata = Annotated[dict[str, Any], DescribedBy(Routing)]


@dataclass(frozen=True, slots=True)
class Route:
    """Options for the engine, and the one cloud model that is wanted, if any."""

    options: Mapping[str, Any] = field(default_factory=dict)
    cloud: str = ""


def read_routing(
    metadata: Mapping[str, Any], headers: Mapping[str, str], path: str = "metadata"
) -> dict[str, Any]:
    """Engine options from metadata, which stands at `path`, and from headers; a header wins.

    But of what keeps a request in, the strictest wins, wherever it is said. A wrong value and a
    name nobody knows are refused and not passed over: a misspelt privacy must not let a request
    out.
    """
    own = [name for name in metadata if name.startswith(PREFIX)]
    check_names(own, PREFIX, f"{path}.")
    check_names([name for name in headers if name.startswith(HEADER[:-1])], HEADER)
    options: dict[str, Any] = {}
    for name in Routing.model_fields:
        header = HEADER + name.replace("_", "-")
        for values, given, place in (
            (metadata, name, f"{path}.{name}"),
            (metadata, PREFIX + name, f"{path}.{PREFIX}{name}"),
            (headers, header, header),
        ):
            if values.get(given) is not None:
                found = read_model(Routing, {name: values[given]}, named=place).options()
                options = stricter(options, found)
    return options


def stricter(options: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Both together: what is said later counts, unless it would let out what was to stay."""
    found = {**options, **later}
    if options.get("policy") == LOCAL_ONLY:
        found["policy"] = LOCAL_ONLY
    if options.get("private"):
        found["private"] = True
    for name in ("redact", "private_kinds"):
        if options.get(name):
            found[name] = tuple(dict.fromkeys((*options[name], *later.get(name, ()))))
    return found


def check_names(names: Iterable[str], start: str, path: str = "") -> None:
    """Names that are ours to give, each beginning with `start`. Raises BadField at an unknown."""
    known = [*Routing.model_fields, "space"]
    if start == HEADER:
        known = [name.replace("_", "-") for name in known]
    for name in names:
        if name.startswith(start) and name.removeprefix(start) in known:
            continue
        near = difflib.get_close_matches(name[len(start) : 80], known, n=1)
        hint = f"did you mean {start}{near[0]}?" if near else f"{start}… is {', '.join(known)}"
        raise BadField(f"{path}{name[:80]}", f"there is no such setting; {hint}")


def no_other(_: str) -> str:
    """Where the device has one model for the task."""
    return ""


def resolve_model(
    name: str, *, local_model: str, any_model: bool, other: Callable[[str], str] = no_other
) -> Route:
    """What a model's name means: `auto`, `local/<name>` or `cloud/<provider>/<name>`.

    `other` is the full name of another model of the device that could answer, else empty.
    """
    where, _, rest = name.partition("/")
    if name in ("", AUTO, f"edgewise/{AUTO}"):
        return Route()
    if where == LOCAL:
        # `local/standard` names the model on that rung
        if rest in ("", local_model) or model_name(rest, MODELS) == local_model:
            return Route({"policy": LOCAL_ONLY})
        if found := other(rest):
            return Route({"policy": LOCAL_ONLY, "model": found})
        raise _unknown(
            name, f"the local model is {f'{LOCAL}/{local_model}' if local_model else 'missing'}"
        )
    if where == CLOUD:
        if rest in ("", AUTO):
            return Route({"policy": "cloud_only"})
        return Route({"policy": "cloud_only"}, cloud=rest)
    if found := other(name):
        return Route({} if found == local_model else {"model": found})
    if any_model:
        return Route()
    raise _unknown(name, "known are auto, local/NAME and cloud/PROVIDER/NAME")


def _unknown(name: str, hint: str) -> Exception:
    return refuse(404, "model_not_found", f"model {name[:80]!r} not found: {hint}", param="model")
