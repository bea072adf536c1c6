"""The providers that edgewise knows by name, and what their servers need or refuse.

The rows are in providers.toml: a new provider with a known protocol is one table there.
"""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import SettingsError
from edgewise.types.messages import Task
from edgewise.types.tables import Table, read_row

Protocol = Literal["openai", "gemini", "anthropic", "cactus_cloud"]
OutputLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """What the models whose names begin with `prefix` refuse or need.

    Reasoning uses up `max_tokens` before the answer begins, and we ask the cloud for short answers
    that the device was unsure of. So it is turned off if the model allows that.

    temperature       False: the model answers 400 to any temperature, so none is sent and its
                      answers are not reproducible. True: always sent, 0 included.
    reasoning_effort  sent as it is (OpenAI's protocol); "" sends none
    thinking          sent as `thinking.type` (Anthropic's and DeepSeek's); "" sends none
    languages         True: for transcription it takes a list of languages, not a single one
    """

    prefix: str
    temperature: bool = True
    reasoning_effort: str = ""
    thinking: str = ""
    languages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. `key_names` are the environment variables for its key, best first.

    prices_as         its id in the price list, if that is not `name`
    prices_published  False: it publishes no price; the model maker's price is used
    free              it runs on hardware that the user pays for anyway: tokens cost nothing
    output_limit      its name for "at most this many tokens"
    seed_field        its name for the seed; "" if it refuses one
    usage_on_request  False: it refuses `stream_options`, and always sends usage
    short_tool_ids    it accepts only ids of nine letters and digits
    models            the first matching prefix counts
    speech_model      for transcription; "": it has none
    embedding_model   for embeddings; "": it has none
    least_audio_s     the shortest sound it charges for: shorter sounds cost as much
    speech_prompt     False: for transcription it refuses the words before as a hint
    any_language      what it must be told to detect the language; "": nothing
    image_side        it shrinks larger pictures (in pixels) itself: more is never sent
    image_bytes       the largest picture file it takes
    key_check         the path that refuses a wrong key for free (OpenAI's protocol)
    """

    name: str
    protocol: Protocol
    base_url: str
    default_model: str
    description: str
    key_names: tuple[str, ...] = ()
    needs_key: bool = True
    prices_as: str = ""
    prices_published: bool = True
    free: bool = False
    output_limit: OutputLimit = "max_tokens"
    seed_field: str = "seed"
    usage_on_request: bool = True
    short_tool_ids: bool = False
    models: tuple[ModelTraits, ...] = ()
    speech_model: str = ""
    embedding_model: str = ""
    least_audio_s: float = 0.0
    speech_prompt: bool = True
    any_language: str = ""
    image_side: int = 2048
    image_bytes: int = 10_000_000
    key_check: str = "/models"

    def model_for(self, task: Task) -> str:
        """The model for a task unless the user names one; "" if there is none."""
        special = {"transcribe": self.speech_model, "embed": self.embedding_model}
        return special.get(task, self.default_model)

    def traits(self, model: str) -> ModelTraits:
        """Of an unknown model: nothing special, except at Anthropic (see that row)."""
        matching = (traits for traits in self.models if model.startswith(traits.prefix))
        return next(matching, ModelTraits(prefix=""))


PROVIDERS: Mapping[str, Provider] = Table(
    "edgewise.cloud",
    "providers.toml",
    "provider",
    lambda table, where: read_row(Provider, table, where),
)


def is_loopback(url: str) -> bool:
    """True if a URL points at this machine: no proxy is used there."""
    host = urlsplit(url).hostname or ""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def custom_row(
    name: str,
    base_url: str,
    model: str,
    *,
    protocol: Protocol = "openai",
    key_names: Sequence[str] = (),
    needs_key: bool | None = None,
    description: str = "",
    speech_model: str = "",
    embedding_model: str = "",
) -> Provider:
    """Any base URL with a known protocol. It needs a key if it names any, unless told otherwise."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"the base URL of provider {name!r} must begin with http:// or https://, "
            f"not {base_url!r}"
        )
    if not name or "/" in name:
        raise SettingsError(f"a provider's name must be a word without '/', not {name!r}")
    keyed = bool(key_names) if needs_key is None else needs_key
    return Provider(
        name=name,
        protocol=protocol,
        base_url=base_url,
        default_model=model,
        description=description or f"Custom provider at {parts.hostname}.",
        key_names=tuple(key_names),
        needs_key=keyed,
        free=is_loopback(base_url) and not keyed,
        speech_model=speech_model,
        embedding_model=embedding_model,
    )


def find_row(name: str, *, custom: Sequence[Provider] = ()) -> Provider:
    """A provider by name; custom ones come before the built-in ones."""
    rows = {**PROVIDERS, **{row.name: row for row in custom}}
    if name in rows:
        return rows[name]
    close = difflib.get_close_matches(name.lower(), rows, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise SettingsError(f"unknown cloud provider {name!r}.{hint} Known: {', '.join(sorted(rows))}.")


def parse_choice(text: str, *, custom: Sequence[Provider] = ()) -> tuple[Provider, str]:
    """`"openai"` or `"openai/gpt-6-luna"` to a provider and a model. Models may contain slashes."""
    name, _, model = text.strip().partition("/")
    row = find_row(name, custom=custom)
    if not (model or row.default_model or row.speech_model or row.embedding_model):
        raise SettingsError(f"provider {name!r} has no default model; write '{name}/MODEL'")
    return row, model or row.default_model


def row_for(config: ProviderConfig) -> Provider:
    """The row that gives an open provider its quirks and prices.

    A custom provider is recognised by its base URL, or treated like the home of its protocol.
    OpenAI's protocol has no single home, so there it gets a plain row. A server on this machine is
    free if it has no key. With a key it is not: it may be a gateway to something expensive.
    """
    if config.name in PROVIDERS:
        return PROVIDERS[config.name]
    served = [
        row for row in PROVIDERS.values() if row.base_url.rstrip("/") == config.base_url.rstrip("/")
    ]
    if served:
        return served[0]
    plain = Provider(
        name=config.name,
        protocol="openai",
        base_url=config.base_url,
        default_model=config.model,
        description="",
        free=is_loopback(config.base_url) and not config.key,
    )
    home = PROVIDERS.get(config.protocol)
    if home is None or home.protocol == "openai":
        return plain
    return replace(
        plain,
        protocol=home.protocol,
        prices_as=home.prices_as or home.name,
        prices_published=False,
        seed_field=home.seed_field,
        models=home.models,
        image_side=home.image_side,
        image_bytes=home.image_bytes,
    )
