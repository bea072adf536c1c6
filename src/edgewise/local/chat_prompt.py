"""A conversation as a model reads it: its turns, and the text that its template makes of them."""

from __future__ import annotations

import base64
import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypedDict

from edgewise.errors import GenerationFailed
from edgewise.types.messages import Image, Message

# For a model without a template: what most small models were taught.
PLAIN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class PromptTurn(TypedDict):
    """One turn as a template takes it."""

    role: str
    content: str


def plain_turns(messages: Sequence[Message]) -> list[PromptTurn]:
    """Calls and their results become text, in the turn of the user who asked.

    As separate turns, a model of this size repeats them instead of answering. Of several wordings
    that were tried, this one gives the plainest answers (docs/guide/functions.md).
    """
    turns: list[PromptTurn] = []
    names: dict[str, str] = {}
    read: list[str] = []
    for message in messages:
        if message.role == "tool":
            read.append(f"{names.get(message.tool_call_id, 'result')}: {message.content}")
        elif message.tool_calls:
            read += [message.content] if message.content else []
            names |= {call.id: call.name.replace("_", " ") for call in message.tool_calls}
        else:
            _put_into_question(turns, read)
            read = []
            turns.append({"role": message.role, "content": message.content})
    _put_into_question(turns, read)
    return turns


def with_system(turns: list[PromptTurn], system: str) -> list[PromptTurn]:
    """The turns with a system prompt in front, unless they have one."""
    if not system or any(turn["role"] == "system" for turn in turns):
        return turns
    return [{"role": "system", "content": system}, *turns]


def pictured_turns(
    turns: Sequence[PromptTurn], messages: Sequence[Message]
) -> list[dict[str, Any]]:
    """Turns with the user's pictures before the words."""
    asked = [message for message in messages if message.role == "user"]
    pictured: list[dict[str, Any]] = []
    number = 0
    for turn in turns:
        content: Any = turn["content"]
        if turn["role"] == "user" and number < len(asked):
            pictures = [_part(image) for image in asked[number].images]
            words = [{"type": "text", "text": content}] if content else []
            content = [*pictures, *words] if pictures else content
            number += 1
        pictured.append({"role": turn["role"], "content": content})
    return pictured


def render_turns(
    template: str, turns: Sequence[PromptTurn], *, bos: str = "", eos: str = ""
) -> str:
    """The prompt that a model's own template makes of the turns, ready for the answer."""
    return _fill(template or PLAIN_TEMPLATE, messages=turns, bos_token=bos, eos_token=eos)


def render_calls(
    template: str, turns: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> str:
    """The same of turns and tools. The tokenizer adds what begins every prompt."""
    # A model that can think before it calls is asked not to: there is no time.
    return _fill(
        template, messages=turns, tools=tools, enable_thinking=False, bos_token="", eos_token=""
    )


def _fill(template: str, **values: Any) -> str:
    """A template with these values.

    It comes with the weights, from whoever made them. It runs in a sandbox: it can read the values
    and write text. Raises GenerationFailed if it refuses the turns or cannot be read.
    """
    from jinja2 import TemplateError  # noqa: PLC0415  # loads when the first model does

    try:
        return _compile(template)(add_generation_prompt=True, **values)
    except (TemplateError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise GenerationFailed(f"the model's chat template failed: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise GenerationFailed("the model's chat template takes too much memory") from error


@functools.lru_cache(maxsize=16)
def _compile(template: str) -> Callable[..., str]:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    # Templates are written for these two settings.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment.from_string(template).render


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


def _now(form: str) -> str:
    return datetime.datetime.now(tz=datetime.UTC).astimezone().strftime(form)


def _put_into_question(turns: list[PromptTurn], read: Sequence[str]) -> None:
    if not read:
        return
    words = "Read this: " + "\n".join(read)
    if turns and turns[-1]["role"] == "user":
        asked = turns.pop()["content"]
        words += f"\n\nQuestion: {asked}\nAnswer shortly."
    turns.append({"role": "user", "content": words})


def _part(image: Image) -> dict[str, Any]:
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}}
