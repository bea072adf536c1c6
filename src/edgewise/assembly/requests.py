"""Makes a validated request from a user's options; the settings fill in the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgewise import plugins
from edgewise.assembly.arguments import Prompt, as_images, as_messages, as_texts, checked
from edgewise.assembly.finders import open_finders
from edgewise.calls.typed_answers import as_response_format
from edgewise.errors import InvalidRequest
from edgewise.settings import Settings
from edgewise.types.messages import Context, Message, Request, RequestOptions, RunnableTool
from edgewise.types.objectives import OBJECTIVES
from edgewise.types.personal_data import ALL, KINDS, as_kinds

_DEFAULTS = ("policy", "handoff", *OBJECTIVES, "error_probability", "max_tokens", "store_text")


def new_request(
    prompt: Prompt,
    options: Mapping[str, Any],
    settings: Settings,
    seen: Callable[[str], bool],
    steer: Callable[[Request], Request] | None = None,
) -> Request:
    """`seen` says whether an id was used before. Raises InvalidRequest with the reason."""
    given = checked(options, RequestOptions)
    if "request_id" in given:
        given["id"] = _new_id(given.pop("request_id"), seen)
    if "stop" in given:
        given["stop"] = as_texts(given["stop"], "stop")
    if "response_format" in given:
        given["response_format"] = as_response_format(given["response_format"])
    if "tools" in given or given.get("tool_choice", "auto") not in ("auto", "none"):
        # This import compiles patterns for a tenth of a second; chat need not wait for it.
        from edgewise.calls.tools import as_tools, choose  # noqa: PLC0415

        tools = as_tools(given.get("tools", ()))
        if given.get("private"):
            tools = tuple(
                one for one in tools if not (isinstance(one, RunnableTool) and one.leaves)
            )
        given |= choose(tools, given.get("tool_choice", "auto"))
    given |= _asked_model(given.get("model", ""))
    messages = _messages(prompt, given.pop("system", ""), as_images(given.pop("images", ())))
    if given.get("context") and isinstance(given["context"], Mapping):
        messages = _with_facts(messages, given["context"])
    for name in ("redact", "private_kinds"):
        given[name] = _kinds(name, given.get(name, ()), settings)
    defaults = {name: getattr(settings, name) for name in _DEFAULTS}
    if any(given.get(aim) is not None for aim in OBJECTIVES):
        defaults |= dict.fromkeys(
            OBJECTIVES
        )  # the request's objective replaces that of the settings
    request = Request(messages=messages, **(defaults | given))
    if complaint := request.complaint:
        raise InvalidRequest(complaint)
    plugins.load("policies", request.policy)
    return steer(request) if steer else request


def _asked_model(name: str) -> dict[str, Any]:
    """What a model's name means, as at the server: `NAME`, `local/NAME`, `local` and `auto`."""
    where, _, rest = name.partition("/")
    if where == "cloud":
        raise InvalidRequest("model: names a local model; for the cloud: policy, and the chain")
    if where == "local":
        return {"model": rest, "policy": "local_only"}
    return {"model": "" if name == "auto" else name}


def _kinds(name: str, asked: Any, settings: Settings) -> tuple[str, ...]:
    """What the settings say and what the request adds: a request cannot take anything away."""
    try:
        wanted = (*getattr(settings, name), *as_kinds(asked if asked is not None else ()))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{name}: {error}") from error
    if not wanted:
        return ()
    known = (*KINDS, *(kind for finder in open_finders(settings) for kind in finder.kinds))
    if unknown := [kind for kind in wanted if kind not in (ALL, *known)]:
        raise InvalidRequest(
            f"{name}: nothing here finds {unknown[0]!r} (known: {', '.join(known)}; "
            "the setting finders adds more)"
        )
    return tuple(dict.fromkeys(known if ALL in wanted else wanted))


def _with_facts(messages: tuple[Message, ...], context: Context) -> tuple[Message, ...]:
    """The facts in the system message, where every model reads them."""
    from edgewise.calls.history import context_lines  # noqa: PLC0415  # as above

    facts = "\n".join(("Known facts:", *context_lines(context)))
    if messages and messages[0].role == "system":
        return (replace(messages[0], content=f"{messages[0].content}\n\n{facts}"), *messages[1:])
    return (Message("system", facts), *messages)


def _new_id(request_id: str, seen: Callable[[str], bool]) -> str:
    if not request_id or "/" in request_id:
        raise InvalidRequest(f"request id {request_id!r}: must be a word without '/'")
    if seen(request_id):
        raise InvalidRequest(f"request id {request_id!r} was used before")
    return request_id


def _messages(prompt: Prompt, system: str, images: tuple[Any, ...]) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        messages: tuple[Message, ...] = (Message("user", prompt, images=images),)
    elif images:
        raise InvalidRequest("images= goes with a text prompt; put them into the message instead")
    else:
        messages = as_messages(prompt, "prompt")
    return (Message("system", system), *messages) if system else messages
