"""The providers that edgewise knows by name: what their servers need or refuse, and charge.

The rows are in providers.toml: a new provider with a known protocol is one table there.

Prices are those that the user's table of a provider names, or come from the list of the installed
genai-prices package; nothing is fetched. At a provider that the list does not know, a model costs
what its maker charges. A model that is not on the list is never free, or a budget would mean
nothing. It is charged at the highest rates of its provider. If the provider is unknown too, the
rates are `UPPER_INPUT` and `UPPER_OUTPUT`, and for sound `UPPER_HOUR`. `known` tells a guess from a
price.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import ipaddress
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from edgewise.cloud.conversation import (
    TOKENS_PER_SECOND,
    audio_seconds,
    most_input_tokens,
    most_output_tokens,
    most_searches,
    sounds,
    spoken_characters,
)
from edgewise.cloud.provider import Prices, ProviderConfig, Rates
from edgewise.errors import SettingsError
from edgewise.types.messages import Original, Request, Service, WireName
from edgewise.types.replies import Attempt, Finish
from edgewise.types.tables import Table, read_row

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from genai_prices.types import Provider as ListedProvider

Protocol = Literal["openai", "gemini", "anthropic", "cactus_cloud", "systemone", "decisions"]
DecisionWire = Literal["", "systemone", "decisions"]
DECISION_WIRES: tuple[str, ...] = ("systemone", "decisions")  # which can nothing but decide
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
    image_tokens      what it counts for a picture and for each of its tiles, if not as usual
    most_output       the longest answer it may be asked for; 0: as the provider's others
    """

    prefix: str
    temperature: bool = True
    reasoning_effort: str = ""
    thinking: str = ""
    languages: bool = False
    image_tokens: tuple[int, ...] = ()
    most_output: int = 0


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
    most_output       the longest answer in tokens, where one must be named; 0: not known
    models            the first matching prefix counts
    speech_model      for transcription; "": it has none
    translation_model  for speech that is to become English; "": it has none
    voice_model       that speaks; "": it has none
    voice             who speaks, unless a request says
    voice_price       of a model that no list has: dollars for a million characters
    only_wav          it speaks in no other format
    embedding_model   for embeddings; "": it has none
    decisions         its wire for decisions; "": it has none, and its chat model is asked
    decision_model    for that wire; "": the default model
    decision_path     where that wire is, if not at its usual place
    decision_prices_as  its id in the price list for decisions, if that is another
    least_audio_s     the shortest sound it charges for: shorter sounds cost as much
    speech_prompt     False: for transcription it refuses the words before as a hint
    any_language      what it must be told to detect the language; "": nothing
    image_side        it shrinks larger pictures (in pixels) itself: more is never sent
    image_bytes       the largest picture file it takes
    families          how its models' names begin, where nobody else's begin so
    responses         it has OpenAI's newer protocol too
    key_check         the path that refuses a wrong key for free (OpenAI's protocol)
    rates             what it charges, where the user says so
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
    most_output: int = 0
    models: tuple[ModelTraits, ...] = ()
    speech_model: str = ""
    translation_model: str = ""
    voice_model: str = ""
    voice: str = "alloy"
    voice_price: float | None = None
    only_wav: bool = False
    embedding_model: str = ""
    decisions: DecisionWire = ""
    decision_model: str = ""
    decision_path: str = ""
    decision_prices_as: str = ""
    least_audio_s: float = 0.0
    speech_prompt: bool = True
    any_language: str = ""
    image_side: int = 2048
    image_bytes: int = 10_000_000
    families: tuple[str, ...] = ()
    responses: bool = False
    key_check: str = "/models"
    rates: Rates | None = None

    def speaks(self, wire: WireName) -> bool:
        """Whether a request in this protocol can be sent on as it came."""
        if self.protocol == "anthropic":
            return wire == "messages"
        if self.protocol == "gemini":
            return wire == "gemini"
        if self.protocol != "openai" or self.short_tool_ids:  # ids of other models are rewritten
            return False
        return wire == "chat" or (wire == "responses" and self.responses)

    def model_for(self, task: Service) -> str:
        """The model for a task unless the user names one; "" if there is none."""
        special = {
            "transcribe": self.speech_model,
            "translate": self.translation_model,
            "speak": self.voice_model,
            "embed": self.embedding_model,
        }
        if task == "decide" and self.decisions:
            return self.decision_model or self.default_model
        return special.get(task, self.default_model)

    def protocol_for(self, task: Service) -> str:
        """What it is asked in; "" if it cannot do the task."""
        if task == "decide":
            return self.decisions or self.protocol
        if task == "speak" and self.protocol in ("anthropic", "cactus_cloud", "gemini"):
            return ""
        return "" if self.protocol in DECISION_WIRES else self.protocol

    def traits(self, model: str) -> ModelTraits:
        """Of an unknown model: nothing special, except at Anthropic (see that row)."""
        matching = (traits for traits in self.models if model.startswith(traits.prefix))
        return next(matching, ModelTraits(prefix=""))

    def longest(self, model: str) -> int:
        """The most tokens that an answer may be asked for; 0: not known."""
        return self.traits(model).most_output or self.most_output


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
    translation_model: str = "",
    embedding_model: str = "",
    voice_model: str = "",
    voice: str = "alloy",
    voice_price: float | None = None,
    decisions: DecisionWire = "",
    decision_model: str = "",
    rates: Rates | None = None,
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
        translation_model=translation_model,
        embedding_model=embedding_model,
        voice_model=voice_model,
        voice=voice,
        voice_price=voice_price,
        decisions=decisions,
        decision_model=decision_model,
        rates=rates,
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
    others = (row.speech_model, row.embedding_model, row.voice_model)
    if not (model or row.default_model or any(others)):
        raise SettingsError(f"provider {name!r} has no default model; write '{name}/MODEL'")
    return row, model or row.default_model


def has_model(config: ProviderConfig, name: str) -> bool:
    """Whether a provider has a model of this name, as far as names tell."""
    return config.model == name or name.startswith(row_for(config).families)


def row_for(config: ProviderConfig) -> Provider:
    """The row that gives an open provider its quirks and prices.

    A custom provider is recognised by its base URL, or treated like the home of its protocol.
    OpenAI's protocol has no single home, so there it gets a plain row. A server on this machine is
    free if it has no key. With a key it is not: it may be a gateway to something expensive.
    """
    return _row(config.name, config.protocol, config.base_url, config.model, bool(config.key))


@functools.lru_cache(maxsize=256)  # every body and every price asks; clients may name any model
def _row(name: str, protocol: str, base_url: str, model: str, keyed: bool) -> Provider:
    if protocol in DECISION_WIRES:
        known = _row(name, "", base_url, model, keyed)
        prices = known.decision_prices_as or known.prices_as
        path = known.decision_path if known.decisions == protocol else ""
        spoken = cast(Protocol, protocol)
        return replace(known, protocol=spoken, prices_as=prices, decision_path=path)
    if name in PROVIDERS:
        return PROVIDERS[name]
    served = [row for row in PROVIDERS.values() if row.base_url.rstrip("/") == base_url.rstrip("/")]
    if served:
        return served[0]
    plain = Provider(
        name=name,
        protocol="openai",
        base_url=base_url,
        default_model=model,
        description="",
        free=is_loopback(base_url) and not keyed,
    )
    home = PROVIDERS.get(protocol)
    if home is None or home.protocol == "openai":
        return plain
    return replace(
        plain,
        protocol=home.protocol,
        prices_as=home.prices_as or home.name,
        prices_published=False,
        seed_field=home.seed_field,
        most_output=home.most_output,
        models=home.models,
        image_side=home.image_side,
        image_bytes=home.image_bytes,
    )


# -- what they charge ------------------------------------------------------------------------------

# Dollars per million tokens: the most expensive general chat models of 2026.
UPPER_INPUT = Decimal(30)
UPPER_OUTPUT = Decimal(180)
UPPER_SEARCH = Decimal("0.035")  # dollars for one search of the web
# Dollars per hour of sound: more than anything on the list, spoken conversation included.
UPPER_HOUR = Decimal(5)
UPPER_VOICE = Decimal(300)  # dollars for a million spoken characters

_MILLION = 1_000_000


class LibraryPrices:
    """Implements `Prices`. Rounds up to whole micro-dollars. Where neither the list nor the user
    names a price for cached tokens, they cost the full one."""

    def cost(
        self,
        config: ProviderConfig,
        input_tokens: int,
        output_tokens: int,
        audio_seconds: float = 0.0,
        audio_tokens: int = 0,
        cached_tokens: int = 0,
        stored_tokens: int = 0,
        stored_long_tokens: int = 0,
        spoken_tokens: int = 0,
        searches: int = 0,
        characters: int = 0,
    ) -> int:
        row = row_for(config)
        own = None if audio_seconds else config.rates
        if row.free and own is None:
            return 0
        if audio_seconds:
            audio_seconds = max(audio_seconds, row.least_audio_s)
        stored = min(stored_tokens, input_tokens)
        used = Finish(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=min(cached_tokens, input_tokens - stored),
            audio_seconds=audio_seconds,
            audio_tokens=min(audio_tokens, input_tokens),
            stored_tokens=stored,
            stored_long_tokens=min(stored_long_tokens, stored),
            spoken_tokens=min(spoken_tokens, output_tokens),
            searches=searches,
            characters=characters,
        )
        if own is not None:
            dollars: Decimal | None = _own_price(own, used)
        else:
            dollars = _listed_price(row, config.model, used)
        if dollars is None:
            dollars = _guessed_price(row, used)
        return math.ceil(dollars * _MILLION)

    def known(self, config: ProviderConfig) -> bool:
        """False if `cost` is a guess."""
        row = row_for(config)
        if row.free or config.rates is not None:
            return True
        published = row.prices_published and _provider(_listed_as(row)) is not None
        listed = _listed(row, config.model)
        if config.voice and listed is not None:  # some voices are charged for by their tokens
            return published and listed.model_price.input_mchars is not None
        return published and listed is not None


# What a client may ask of a provider that costs more than the list says: the values that do not,
# and the most that others cost, as a factor. A faster tier costs up to 2.5 times as much,
# Anthropic's fast mode six times, and a certain place a tenth more.
_DEARER: tuple[tuple[str, tuple[str, ...], Fraction], ...] = (
    (
        "service_tier",
        ("auto", "default", "standard", "standard_only", "flex", "batch", "on_demand"),
        Fraction(5, 2),
    ),
    ("speed", ("standard",), Fraction(6)),
    ("inference_geo", ("global", "not_available"), Fraction(11, 10)),
)
_MOST_MODELS = 8  # that a request may name besides


def dearer(original: Original | None) -> Fraction:
    """How many times the listed price a request costs at most, by what it asks for."""
    body = original.body if original is not None else {}
    factor = Fraction(1)
    for name, usual, more in _DEARER:
        if (asked := body.get(name)) is not None and asked not in usual:
            factor *= more
    return factor


def _paid(config: ProviderConfig, original: Original | None) -> list[ProviderConfig]:
    """All that may answer: some providers take a list of others, for when the first does not."""
    named = original.body.get("models") if original is not None else None
    others = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    if len(others) > _MOST_MODELS:
        others = [""]  # not on any list: it is charged like the dearest
    return [config, *(replace(config, model=each, rates=None) for each in others)]


def _marks(value: Any) -> Iterator[Any]:
    """What asks a provider to keep a prompt in its cache, wherever it stands."""
    left = [value]
    while left:
        inner = left.pop()
        if isinstance(inner, dict):
            if inner.get("cache_control"):
                yield inner["cache_control"]
            left += inner.values()
        elif isinstance(inner, list):
            left += inner


def highest(prices: Prices, config: ProviderConfig, request: Request) -> int:
    """What is reserved before anything is sent."""
    # Who decides may read the state once more for each question, and charge for it.
    again = len(request.questions) - 1 if config.protocol in DECISION_WIRES else 0
    tokens = most_input_tokens(request, read_again=max(0, again))
    written = most_output_tokens(request)
    sound = request.original is not None and sounds(request.original)
    marks = list(_marks(request.original.body)) if request.original is not None else []
    stored = bool(marks) or row_for(config).protocol == "openai"  # which stores without being asked
    usual = ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"})
    finish = Finish(
        input_tokens=tokens,
        output_tokens=written,
        # All of it at the rate for sound, which is never lower.
        audio_tokens=tokens if sound or request.task == "transcribe" else 0,
        spoken_tokens=written if sound else 0,
        audio_seconds=audio_seconds(request),
        characters=spoken_characters(request),
        stored_tokens=tokens if stored and request.task != "transcribe" else 0,
        stored_long_tokens=tokens if any(mark not in usual for mark in marks) else 0,
        searches=most_searches(request.original) if request.original is not None else 0,
    )
    return _cost(prices, config, finish, request.original)


def charged(
    attempt: Attempt,
    finish: Finish,
    prices: Prices,
    config: ProviderConfig,
    original: Original | None = None,
) -> Attempt:
    """The attempt with its usage and cost."""
    return replace(
        attempt,
        input_tokens=finish.input_tokens,
        output_tokens=finish.output_tokens,
        cached_tokens=finish.cached_tokens,
        estimated=finish.estimated,
        audio_seconds=finish.audio_seconds,
        cost_microdollars=_cost(prices, config, finish, original),
        price_guessed=not prices.known(config),
    )


def _own_price(rates: Rates, used: Finish) -> Decimal:
    """In dollars."""
    parts = (
        (_as_read(used) - used.cached_tokens, rates.input),
        (used.cached_tokens, rates.cached),
        (used.output_tokens, rates.output),
    )
    # As the user wrote them: 0.1 is a tenth, and not the nearest number of two.
    tokens = sum((count * Decimal(str(rate)) for count, rate in parts), Decimal(0))
    said = used.characters * Decimal(str(rates.characters or 0))
    return (tokens + said) / _MILLION + used.searches * UPPER_SEARCH


def _as_read(used: Finish) -> Decimal:
    """Input tokens, where what is stored costs a quarter more, and for an hour twice as much."""
    more = Decimal("0.25") * used.stored_tokens + Decimal("0.75") * used.stored_long_tokens
    return used.input_tokens + more


def _cost(prices: Prices, config: ProviderConfig, finish: Finish, original: Original | None) -> int:
    most = max(
        prices.cost(
            paid,
            finish.input_tokens,
            finish.output_tokens,
            audio_seconds=finish.audio_seconds,
            audio_tokens=finish.audio_tokens,
            cached_tokens=finish.cached_tokens,
            stored_tokens=finish.stored_tokens,
            stored_long_tokens=finish.stored_long_tokens,
            spoken_tokens=finish.spoken_tokens,
            searches=finish.searches,
            characters=finish.characters,
        )
        for paid in _paid(config, original)
    )
    return math.ceil(most * dearer(original))


def _listed_as(row: Provider) -> str:
    return row.prices_as or row.name


def _listed(row: Provider, model: str, **used: float) -> PriceCalculation | None:
    import genai_prices  # noqa: PLC0415 - the list is large; only those who pay load it

    provider_id = _listed_as(row)
    if (place := _place(provider_id, model)) is None:
        return None
    return genai_prices.calc_price(genai_prices.Usage(**used), place[0], provider_id=place[1])


@lru_cache(256)
def _place(provider_id: str, model: str) -> tuple[str, str | None] | None:
    """Under which names a model is on the list. It is long, and who is not on it is looked for in
    all of it, several times with each request."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    listed = _provider(provider_id) is not None
    names = (model,) if listed else dict.fromkeys((model, model.rpartition("/")[2]))
    for name in names:  # or as at its maker
        with contextlib.suppress(LookupError):
            own = provider_id if listed else None
            get_snapshot().find_provider_model(name, None, own, None)
            return name, own
    return None


def _listed_price(row: Provider, model: str, used: Finish) -> Decimal | None:
    """None if the list does not know the model, or the price of this use."""
    listed = _listed(row, model)
    if listed is None:
        return None
    rates = listed.model_price
    if used.characters:
        if rates.input_mchars is None:
            return None
        found = _listed(row, model, input_characters=used.characters)
        return None if found is None else found.total_price
    by_the_hour = used.audio_seconds > 0 and rates.audio_hours is not None
    if rates.input_mtok is None and not by_the_hour:
        return None  # its price is for sound or pictures, and this was neither
    if by_the_hour:
        counted = {"audio_seconds": used.audio_seconds}
    else:
        sound = used.audio_tokens or math.ceil(used.audio_seconds * TOKENS_PER_SECOND)
        counted = {"input_audio_tokens": sound}
    total = max(used.input_tokens, int(counted.get("input_audio_tokens", 0)))
    if used.stored_tokens or (used.cached_tokens and not used.audio_tokens):
        counted |= {
            "cache_read_tokens": used.cached_tokens,
            "cache_write_tokens": used.stored_tokens,
            "cache_write_1h_tokens": used.stored_long_tokens,
        }
    if used.spoken_tokens:
        counted["output_audio_tokens"] = used.spoken_tokens
    if used.searches:
        counted["web_searches"] = used.searches
    found = _listed(row, model, input_tokens=total, output_tokens=used.output_tokens, **counted)
    return None if found is None else found.total_price


def _guessed_price(row: Provider, used: Finish) -> Decimal:
    if used.characters:
        return used.characters * UPPER_VOICE / _MILLION
    if used.audio_seconds:
        return Decimal(used.audio_seconds) * UPPER_HOUR / 3600
    dearest_input, dearest_output = _dearest(_listed_as(row))
    tokens = (_as_read(used) * dearest_input + used.output_tokens * dearest_output) / _MILLION
    return tokens + used.searches * UPPER_SEARCH


@functools.cache
def _dearest(provider_id: str) -> tuple[Decimal, Decimal]:
    """The highest input and output rates of a provider's chat models, tiers included."""
    listed = _provider(provider_id)
    if listed is None:
        return UPPER_INPUT, UPPER_OUTPUT
    rates = [
        (max(_rates(price.input_mtok)), max(_rates(price.output_mtok)))
        for model in listed.models
        for price in _prices_of(model.prices)
        if price.input_mtok is not None and price.output_mtok is not None
    ]
    if not rates:
        return UPPER_INPUT, UPPER_OUTPUT
    return max(rate for rate, _ in rates), max(rate for _, rate in rates)


def _provider(provider_id: str) -> ListedProvider | None:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    providers = get_snapshot().providers
    return next((listed for listed in providers if listed.id == provider_id), None)


def _prices_of(prices: Any) -> Iterator[Any]:
    """A model has one price, or several for different times."""
    for entry in prices if isinstance(prices, list) else [prices]:
        yield getattr(entry, "prices", entry)


def _rates(rate: Any) -> Iterator[Decimal]:
    """A rate is a number, or a base and tiers by length."""
    if isinstance(rate, Decimal | int | float):
        yield Decimal(rate)
    else:
        yield Decimal(rate.base)
        yield from (Decimal(tier.price) for tier in rate.tiers)
