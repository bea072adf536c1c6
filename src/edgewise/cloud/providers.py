"""The providers edgewise knows: one row each, so that most providers need no code."""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import SettingsError
from edgewise.types.messages import Task

Protocol = Literal["openai", "gemini", "anthropic", "cactus_cloud"]
OutputLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """What the models whose names begin with `prefix` refuse or need.

    Reasoning spends `max_tokens` before a word of the answer, and the cloud is asked here for
    short answers the device was unsure of; so it is turned off wherever the model lets us.

    temperature       False: the model answers 400 to any temperature, so none is sent and its
                      answers are not reproducible. True: always sent, 0 included.
    reasoning_effort  sent as it stands (OpenAI's protocol); "" sends none
    thinking          sent as `thinking.type` (Anthropic's and DeepSeek's); "" sends none
    languages         True: takes a list of likely languages when it transcribes, and refuses one
    """

    prefix: str
    temperature: bool = True
    reasoning_effort: str = ""
    thinking: str = ""
    languages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. `key_names` are the environment variables its key may stand in, best first.

    prices_as         its id in the price list, where that differs from `name`
    prices_published  False: it publishes no price; the model maker's price stands in
    free              it runs on hardware the user pays for anyway: tokens cost nothing
    output_limit      how its servers spell "at most this many tokens"
    seed_field        how they spell the seed; "" where they refuse one
    usage_on_request  False: refuses `stream_options`, and sends usage unasked
    short_tool_ids    accepts only ids of nine letters and digits
    models            first matching prefix wins
    speech_model      what transcribes; "": it does not
    embedding_model   what embeds; "": it does not
    least_audio_s     the shortest sound it charges for: shorter ones cost as much
    speech_prompt     False: refuses the words before as a hint when it transcribes
    any_language      what it must be told to find out the language; "": it does so unasked
    image_side        pixels beyond which it scales a picture down itself: more is never sent
    image_bytes       the largest picture file it takes
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

    def model_for(self, task: Task) -> str:
        """The model that is asked for a task unless the user names one; "" where there is none."""
        special = {"transcribe": self.speech_model, "embed": self.embedding_model}
        return special.get(task, self.default_model)

    def traits(self, model: str) -> ModelTraits:
        """Of an unknown model: nothing special, except at Anthropic (see that row)."""
        matching = (traits for traits in self.models if model.startswith(traits.prefix))
        return next(matching, ModelTraits(prefix=""))


_ROWS = (
    Provider(
        name="gemini",
        protocol="gemini",
        base_url="https://generativelanguage.googleapis.com",
        default_model="gemini-2.5-flash-lite",
        description="Google's Gemini API.",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        prices_as="google",
        speech_model="gemini-2.5-flash-lite",  # hears sound in a chat; it has no endpoint for it
        embedding_model="gemini-embedding-001",
        image_side=3072,
    ),
    Provider(
        name="openai",
        protocol="openai",
        base_url="https://api.openai.com/v1",
        default_model="gpt-6-luna",
        description="OpenAI's chat completions.",
        key_names=("OPENAI_API_KEY",),
        output_limit="max_completion_tokens",
        # The SDK announces the end of all other transcription models for February 2027.
        speech_model="gpt-transcribe",
        embedding_model="text-embedding-3-small",
        models=(
            # Astra cannot stop reasoning. The rest of these two families can, and only then
            # take a temperature, or tools, in chat completions.
            ModelTraits(prefix="gpt-6-astra", temperature=False),
            ModelTraits(prefix="gpt-6", reasoning_effort="none"),
            ModelTraits(prefix="gpt-5.6", reasoning_effort="none"),
            ModelTraits(prefix="gpt-5", temperature=False),
            ModelTraits(prefix="gpt-transcribe", languages=True),
            ModelTraits(prefix="o1", temperature=False),
            ModelTraits(prefix="o3", temperature=False),
            ModelTraits(prefix="o4", temperature=False),
        ),
    ),
    Provider(
        name="anthropic",
        protocol="anthropic",
        base_url="https://api.anthropic.com",
        default_model="claude-haiku-5-5",
        description="Anthropic's Messages API.",
        key_names=("ANTHROPIC_API_KEY",),
        seed_field="",
        image_side=1568,
        image_bytes=3_700_000,  # 5 MB in base64
        models=(
            # Only models up to Opus 4.6 take a temperature; a newer, unlisted one will not.
            ModelTraits(prefix="claude-3"),
            ModelTraits(prefix="claude-haiku-4"),
            ModelTraits(prefix="claude-sonnet-4"),
            ModelTraits(prefix="claude-opus-4-7", temperature=False),
            ModelTraits(prefix="claude-opus-4-8", temperature=False),
            ModelTraits(prefix="claude-opus-4"),
            ModelTraits(prefix="claude-haiku-5-5", temperature=False, thinking="disabled"),
            ModelTraits(prefix="claude-sonnet-5-5", temperature=False, thinking="between_tools"),
            ModelTraits(prefix="", temperature=False),
        ),
    ),
    Provider(
        name="openrouter",
        protocol="openai",
        base_url="https://openrouter.ai/api/v1",
        default_model="google/gemini-2.5-flash-lite",
        description="OpenRouter: many providers behind one key.",
        # It transcribes too, but takes JSON where OpenAI's protocol has a form with a file.
        key_names=("OPENROUTER_API_KEY",),
    ),
    Provider(
        name="groq",
        protocol="openai",
        base_url="https://api.groq.com/openai/v1",
        default_model="openai/gpt-oss-20b",
        description="Groq: open models on fast hardware.",
        key_names=("GROQ_API_KEY",),
        output_limit="max_completion_tokens",
        models=(ModelTraits(prefix="openai/gpt-oss", reasoning_effort="low"),),
        speech_model="whisper-large-v3-turbo",
        least_audio_s=10.0,
    ),
    Provider(
        name="together",
        protocol="openai",
        base_url="https://api.together.xyz/v1",
        default_model="openai/gpt-oss-120b",
        description="Together: open models.",
        key_names=("TOGETHER_API_KEY",),
        models=(ModelTraits(prefix="openai/gpt-oss", reasoning_effort="low"),),
        speech_model="openai/whisper-large-v3",
        any_language="auto",  # it takes everything for English otherwise
    ),
    Provider(
        name="mistral",
        protocol="openai",
        base_url="https://api.mistral.ai/v1",
        default_model="mistral-small-latest",
        description="Mistral.",
        key_names=("MISTRAL_API_KEY",),
        seed_field="random_seed",
        usage_on_request=False,
        short_tool_ids=True,
        speech_model="voxtral-mini-latest",
        embedding_model="mistral-embed",
        speech_prompt=False,
    ),
    Provider(
        name="deepseek",
        protocol="openai",
        base_url="https://api.deepseek.com/v1",
        default_model="deepseek-v4-flash",
        description="DeepSeek.",
        key_names=("DEEPSEEK_API_KEY",),
        seed_field="",
        models=(ModelTraits(prefix="deepseek-v4", thinking="disabled"),),
    ),
    Provider(
        name="ollama",
        protocol="openai",
        base_url="http://127.0.0.1:11434/v1",
        default_model="",  # it serves whatever its owner pulled
        description="A bigger model on your own network, served by Ollama.",
        key_names=("OLLAMA_API_KEY",),
        needs_key=False,
        free=True,
    ),
    Provider(
        name="vllm",
        protocol="openai",
        base_url="http://127.0.0.1:8000/v1",
        default_model="",  # it serves the one model it was started with
        description="A bigger model on your own network, served by vLLM.",
        key_names=("VLLM_API_KEY",),
        needs_key=False,
        free=True,
    ),
    Provider(
        name="cactus_cloud",
        protocol="cactus_cloud",
        base_url="https://104.198.76.3/api/v1",
        default_model="gemini-2.5-flash",
        description="Cactus Cloud; its certificate must be valid for its base URL.",
        key_names=("CACTUS_CLOUD_API_KEY", "CACTUS_CLOUD_KEY"),
        prices_as="google",
        prices_published=False,
        seed_field="",
        speech_model="transcribe",  # its endpoint; it takes no model and names none
    ),
)

PROVIDERS: Mapping[str, Provider] = MappingProxyType({row.name: row for row in _ROWS})


def is_loopback(url: str) -> bool:
    """True where a URL points at this machine: no proxy is used there."""
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
    """Any base URL that speaks a known protocol. Naming keys means needing one, if not said."""
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
    """A row by its name; custom rows win over the directory's."""
    rows = {**PROVIDERS, **{row.name: row for row in custom}}
    if name in rows:
        return rows[name]
    close = difflib.get_close_matches(name.lower(), rows, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise SettingsError(f"unknown cloud provider {name!r}.{hint} Known: {', '.join(sorted(rows))}.")


def parse_choice(text: str, *, custom: Sequence[Provider] = ()) -> tuple[Provider, str]:
    """`"openai"` or `"openai/gpt-6-luna"` to a row and a model. Models may contain slashes."""
    name, _, model = text.strip().partition("/")
    row = find_row(name, custom=custom)
    if not (model or row.default_model or row.speech_model or row.embedding_model):
        raise SettingsError(f"provider {name!r} has no default model; write '{name}/MODEL'")
    return row, model or row.default_model


def row_for(config: ProviderConfig) -> Provider:
    """The row an open provider's quirks and prices come from.

    A custom provider is known by its base URL, or takes after the home of its protocol; OpenAI's
    protocol has no one home, so there it gets a plain row. A keyless server on this machine is
    free. One with a key is not taken for that: it may be a gateway to something dear.
    """
    if config.name in PROVIDERS:
        return PROVIDERS[config.name]
    served = [row for row in _ROWS if row.base_url.rstrip("/") == config.base_url.rstrip("/")]
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
