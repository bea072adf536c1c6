"""A frame's tool as somebody else might have written its schema; the meaning stays the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from edgewise.calls.prompt import render_tools
from edgewise.types.messages import Tool, ToolCall
from training import naming, wording
from training.forms import Form, pick_form
from training.frame_types import Choices, Clock, Flag, Frame, Number, Objects, Pairs, Parameter
from training.houses import House
from training.spare_parameters import add_spare_parameters
from training.values import Said, sample_value

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_HOLDERS = (
    "request", "payload", "input", "body", "data", "query", "args", "order_details", "spec", "job",
    "config", "resource", "record", "item", "profile", "entry", "attributes", "subject",
)  # fmt: skip
_GROUPS = ("options", "filters", "details", "params", "settings", "criteria")


@dataclass(slots=True)
class StyledTool:
    """A tool, and where in its schema each parameter of the frame went."""

    frame: Frame
    tool: Tool
    paths: dict[str, tuple[str, ...]]
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)
    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    rendered: str = ""
    manner: float = 0.0

    def call(self, values: Mapping[str, Said]) -> ToolCall:
        """The call that says these values, its arguments in the order of the schema."""
        arguments: dict[str, Any] = {}
        for name, path in self.paths.items():
            source = self.frame.clock_hour if name in self.frame.silent else name
            if source in values:
                _put(arguments, path, self._value(name, values[source]))
        return ToolCall(self.tool.name, _ordered(arguments, self.tool.parameters), source="local")

    def _value(self, name: str, said: Said) -> Any:
        if name in self.forms:
            return self.forms[name].convert(said)
        value = said.value
        clock = self.frame.parameters[name].values
        if isinstance(clock, Clock):
            return clock.of(value)
        if name in self.keys:
            keys = self.keys[name]
            return [{keys[key]: one[key] for key in keys if key in one} for one in value]
        restyled = self.choices.get(name)
        if not restyled:
            return value
        if isinstance(value, list):
            return [restyled.get(str(item).lower(), item) for item in value]
        return restyled.get(str(value).lower(), value)


def style_tool(
    frame: Frame,
    house: House,
    rng: Random,
    calls: Sequence[Mapping[str, Said]] = (),
    strict: bool = False,
) -> StyledTool:
    """One way to write the frame's schema. What a call leaves out never becomes required.

    `strict` keeps everything required that is, as the right answer may hang on it.
    """
    present = set.intersection(*(set(call) for call in calls)) if calls else set()
    names = list(frame.parameters)
    if rng.random() < 0.3:
        rng.shuffle(names)
    group = rng.choice(_GROUPS) if rng.random() < 0.05 and len(names) > 1 else ""
    flatten = rng.random() < (0.0 if house.nested else 0.25)
    holders = _holders(house, frame, rng)
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    styled = StyledTool(frame, Tool(frame.name), {}, manner=rng.random())
    for name in names:
        parameter = frame.parameters[name]
        path = _path(parameter, house, flatten, group, rng)
        if holders:
            path = (*holders[len(styled.paths) % len(holders)], *path)
        while _clashes(path, styled.paths.values()):
            path = (*path[:-1], path[-1] + "_2") if len(path) == 1 else _renamed(path, styled)
        styled.paths[name] = path
        said = [call[name] for call in calls if name in call]
        required = _is_required(parameter, name in present, rng)
        required = required or (strict and parameter.required)
        if required != parameter.required:
            parameter = replace(parameter, required=required)
        field_schema = _field(parameter, house, styled, said, rng)
        _place(schema, path, field_schema, required)
    add_spare_parameters(schema, rng)
    name = naming.tool_name(frame.name, frame.domain, house.case, house.namespaced, rng)
    described = rng.random() < house.describe_tools or len(naming.words_of(name)) < 2
    description = wording.tool_description(frame.description, rng) if described else ""
    if description and rng.random() < house.wordy:
        description = wording.longer_tool_description(description, rng)
        if house.wordy == 1.0:
            description = wording.documented(description, rng)
    styled.tool = Tool(name, description, schema)
    styled.rendered = render_tools([styled.tool])
    return styled


def _holders(house: House, frame: Frame, rng: Random) -> list[tuple[str, ...]]:
    """The objects that hold the arguments in a nested schema: one, or two that share them."""
    if not house.nested or not frame.parameters:
        return []
    outer = [
        naming.parameter_name(name, house.case, False, rng) for name in rng.sample(_HOLDERS, 3)
    ]
    if house.nested > 1:
        return [(outer[0], outer[1])]
    return [(outer[0],)] if rng.random() < 0.6 else [(outer[0],), (outer[1],)]


def _path(
    parameter: Parameter, house: House, flatten: bool, group: str, rng: Random
) -> tuple[str, ...]:
    parts = parameter.name.split(".")
    if len(parts) > 1 and flatten:
        parts = ["_".join(parts)]
    odd = rng.random() < house.odd
    described = bool(parameter.description) and house.describe_parameters == 1.0
    if odd and len(parts) == 1:
        parts = [naming.odd_name(parts[0], described, rng)]
    renamed = [
        naming.parameter_name(part, house.case, rng.random() < house.rename, rng)
        if index == len(parts) - 1
        # The parts before the last must agree among the fields of one object.
        else naming.parameter_name(part, house.case, False, rng)
        for index, part in enumerate(parts)
    ]
    if group and len(parts) == 1 and not parameter.required:
        return (group, *renamed)
    return tuple(renamed)


def _is_required(parameter: Parameter, present: bool, rng: Random) -> bool:
    if parameter.required:
        return rng.random() > 0.08
    return present and rng.random() < 0.1


def _field(
    parameter: Parameter, house: House, styled: StyledTool, said: Sequence[Said], rng: Random
) -> dict[str, Any]:
    form = pick_form(parameter, styled.manner, said)
    if form:
        styled.forms[parameter.name] = form
    schema = _type_schema(parameter, form, house, styled, rng)
    hint = rng.choice(form.hints) if form else None
    keep = 1.0 if _coded(parameter) else house.describe_parameters
    description = wording.parameter_description(parameter, rng, keep, hint)
    options = _options(parameter, styled, rng)
    if options and rng.random() < 0.75:
        schema["enum"] = options
    elif options and len(options) <= 12:
        description = wording.join_hint(description, wording.prose_choices(options, rng))
    if parameter.counts is not None:
        schema = {"type": "array", "items": schema}
    if not parameter.required and not form and rng.random() < 0.25:
        description = _with_default(parameter, schema, options, description, rng)
    if description and rng.random() < house.wordy:
        description = wording.longer_parameter_description(parameter, description, rng)
    return {**schema, "description": description} if description else schema


def _coded(parameter: Parameter) -> bool:
    """Whether only the description tells that a code is wanted: "forints" is given as HUF."""
    values = parameter.values
    return (
        isinstance(values, Choices)
        and not values.closed
        and any(str(choice.value) not in choice.said[0] for choice in values.options)
    )


def _type_schema(
    parameter: Parameter, form: Form | None, house: House, styled: StyledTool, rng: Random
) -> dict[str, Any]:
    if isinstance(parameter.values, Pairs):
        return {"type": "object"}
    if isinstance(parameter.values, Objects):
        return _entries(parameter.values, house, styled, parameter.name, rng)
    if not form and parameter.kind == "int" and rng.random() < 0.08:
        return {"type": "number"}
    return {"type": _TYPES[form.kind if form else parameter.kind]}


def _entries(
    values: Objects, house: House, styled: StyledTool, name: str, rng: Random
) -> dict[str, Any]:
    """The schema of one entry of a list of objects; its keys take the manner of the house."""
    properties: dict[str, Any] = {}
    keys = styled.keys.setdefault(name, {})
    for key, parameter in values.fields.items():
        keys[key] = naming.parameter_name(key, house.case, False, rng)
        schema: dict[str, Any] = {"type": _TYPES[parameter.kind]}
        if isinstance(parameter.values, Choices) and parameter.values.closed:
            schema["enum"] = [choice.value for choice in parameter.values.options]
        described = wording.parameter_description(parameter, rng, house.describe_parameters)
        if described:
            schema["description"] = described
        properties[keys[key]] = schema
    required = [keys[key] for key, parameter in values.fields.items() if parameter.required]
    return {"type": "object", "properties": properties, "required": required}


def _options(parameter: Parameter, styled: StyledTool, rng: Random) -> list[Any]:
    """The enum's values, sometimes in another case; short open lists sometimes become enums."""
    values = parameter.values
    if not isinstance(values, Choices):
        return []
    options = [choice.value for choice in values.options]
    if not values.closed and (not 3 <= len(options) <= 12 or rng.random() > 0.06):
        return []
    if not all(isinstance(option, str) for option in options):
        return options
    changed = list(options)
    if values.closed and rng.random() < 0.12 and all(option.islower() for option in options):
        manner = rng.choice((str.upper, str.capitalize, str.title))
        changed = [manner(option) for option in options]
    elif values.closed and rng.random() < 0.1:
        changed = naming.odd_options(options, parameter.name, rng)
    styled.choices[parameter.name] = {
        option.lower(): new for option, new in zip(options, changed, strict=True)
    }
    if rng.random() < 0.3:
        rng.shuffle(changed)
    return changed


def _with_default(
    parameter: Parameter, schema: dict[str, Any], options: list[Any], text: str, rng: Random
) -> str:
    if parameter.counts is not None or isinstance(parameter.values, Pairs):
        return text
    if options:
        value = rng.choice(options)
    elif isinstance(parameter.values, Flag):
        value = rng.random() < 0.3
    elif isinstance(parameter.values, Number):
        value = sample_value(parameter, rng).value
    else:
        value = "" if rng.random() < 0.2 else None
    if value is None:
        return text
    if rng.random() < 0.7:
        schema["default"] = value
        return text
    shown = str(value).lower() if isinstance(value, bool) else value
    hint = rng.choice((f"Default is {shown}", f"defaults to {shown}", f"(default {shown})"))
    return wording.join_hint(text, hint) if value != "" else text


def _place(
    schema: dict[str, Any], path: tuple[str, ...], field_schema: dict[str, Any], required: bool
) -> None:
    """Put a field at its path; objects on the way are made, and required if their field is."""
    for part in path[:-1]:
        if required and part not in schema["required"]:
            schema["required"].append(part)
        schema = schema["properties"].setdefault(
            part, {"type": "object", "properties": {}, "required": []}
        )
        schema.setdefault("properties", {})
        schema.setdefault("required", [])
    schema["properties"][path[-1]] = field_schema
    if required:
        schema["required"].append(path[-1])


def _clashes(path: tuple[str, ...], others: Collection[tuple[str, ...]]) -> bool:
    """Whether a field would stand where another one does, or inside one that is no object."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in others)


def _renamed(path: tuple[str, ...], styled: StyledTool) -> tuple[str, ...]:
    """Another name for the field, or for its object where a plain field has that name."""
    if path in styled.paths.values():
        return (*path[:-1], path[-1] + "_2")
    return (path[0] + "_2", *path[1:])


def _put(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        arguments = arguments.setdefault(part, {})
    arguments[path[-1]] = value


def _ordered(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {
        name: _ordered(arguments[name], field_schema)
        if isinstance(arguments[name], dict) and "properties" in field_schema
        else arguments[name]
        for name, field_schema in properties.items()
        if name in arguments
    }
