"""`edgewise bench money`: a cloud that bills harshly, clients that leave, and one ledger.

Two engines and a server share a ledger, as several servers do, and hand random requests off to a
loopback cloud which counts by itself what it bills. What comes over HTTP leaves as it came, with
whatever makes it cost more. Afterwards every attempt is compared: what was reserved, what
was billed, what was booked.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import http.client
import io
import json
import math
import random
import re
import sqlite3
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from PIL import Image, UnidentifiedImageError

from edgewise import Choice, Engine, Score, Settings, YesNo
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices
from edgewise.errors import BudgetExceeded, CloudClosed, EdgewiseError, InvalidRequest
from edgewise.server import serve
from edgewise.testing import (
    Answer,
    Cut,
    LoopbackCloud,
    Malformed,
    Scripted,
    ScriptedBackend,
    SeenRequest,
    Silence,
    Status,
)
from edgewise.testing.loopback_cloud.wires import UNTOLD
from edgewise.types.messages import ToolCall

TARGETS: dict[str, tuple[str, float]] = {
    "underreserved": ("<=", 0),
    "billed_over_budget_microdollars": ("<=", 0),
    "ledger_off_microdollars": ("<=", 0),
    "cut_below_billed": ("<=", 0),
    "ids_taken_twice": ("<=", 0),
    "integrity_faults": ("<=", 0),
}
MODELS = {
    "openai": "gpt-6-luna",
    "anthropic": "claude-haiku-5-5",
    "gemini": "gemini-2.5-flash-lite",
}
CHAINS = (("openai", "gemini", "anthropic"), ("gemini", "anthropic", "openai"))
_TO_CLOUD = {"model": "cloud"}
CLIENTS = 8
OF_A_KEY = 25  # requests
KEY_MICRODOLLARS = 18_000  # for them: too little for some
EACH_MICRODOLLARS = 800  # of the budget for all requests
RACERS = 4  # calls with one id
FIRST_TOKEN_S = 1.0
_PICTURE = re.compile(r"[A-Za-z0-9+/_-]{200,}={0,2}")
_WRONG_USAGE = (-5, None, 0, 1.5, "many", 10**25, UNTOLD)
_OF_A_DECISION = ("policy", "budget_key", "request_id")
_REFUSALS = (400, 401, 429, 500, 503)
_ENDINGS: tuple[Literal["reset", "close", "end"], ...] = ("reset", "close", "end")
# What the cloud does, of a hundred requests.
_SHARES = {
    "answer": 48,
    "slow": 12,
    "usage": 12,
    "cut": 13,
    "malformed": 4,
    "broken": 3,
    "silent": 2,
    "refused": 6,
}
_WORDS = (
    "街",
    "écrit",
    "file",
    "Ω≈ç",
    '"quoted"',
    "\\",
    "\n",
    "🦉",
    "the",
    "<b>",
    "0x1F",
    "日本語",
)


@dataclass(slots=True)
class Billed:
    """What the cloud bills for one attempt; `exact`: it said so, and the answer was whole."""

    microdollars: int = 0
    exact: bool = False


@dataclass(slots=True)
class HarshCloud:
    """Scripts the loopback cloud, and counts: up to a token for each byte that came.

    Of the answer it bills all that it was going to write, thoughts and calls included, also when
    the client has left or the connection breaks.
    """

    seed: int
    bills: defaultdict[str, Billed] = field(default_factory=lambda: defaultdict(Billed))
    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0

    def __call__(self, seen: SeenRequest) -> Scripted:
        with self.lock:
            self.count += 1
            chance = random.Random(f"{self.seed}/cloud/{self.count}")
        read = self.read(seen, chance)
        answers = seen.body.get("n", 1) if "messages" in seen.body else 1
        # Decisions are charged by what was read.
        asked = 1 if _questions(seen) else _output_limit(seen.body)
        limit = asked * (answers if seen.protocol == "openai" else 1)
        written = chance.choice((limit, chance.randint(1, limit)))
        if seen.protocol == "openai" and "messages" in seen.body:  # of a guess, what was wrong
            guess = (seen.body.get("prediction") or {}).get("text", "")
            written += chance.choice((len(guess), chance.randint(0, len(guess))))
        marked = seen.protocol == "anthropic" and '"cache_control"' in json.dumps(seen.body)
        stored = chance.randint(0, read) if marked else 0
        kind = chance.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
        reply = self._reply(kind, read, written, stored, chance)
        # An answer that is not streamed cannot break in the middle: it is refused, and so is free.
        if kind != "refused" and (kind != "broken" or seen.stream):
            name = seen.headers["x-client-request-id"].rpartition(".")[0]
            with self.lock:
                bill = self.bills[name]
                bill.exact = kind in ("answer", "slow") and not bill.microdollars
                plain = price(seen.protocol, read, written, stored)
                bill.microdollars += math.ceil(plain * _factor(seen.body))
        return reply

    def read(self, seen: SeenRequest, chance: random.Random) -> int:
        """How many tokens the request is billed for."""
        text = json.dumps(seen.body)
        shown = json.dumps([seen.body.get(name) for name in ("messages", "input", "contents")])
        pictures = 0
        for found in set(_PICTURE.findall(shown)):  # elsewhere one is read as text
            if size := _size(found):
                times = shown.count(found)
                pictures += times * _picture_tokens(seen.protocol, *size)
                text = text.replace(found, "", times)
        likely = len(text) // 4
        tokens = chance.choice((len(text), chance.randint(likely, len(text))))
        added = chance.randint(0, 675) if seen.body.get("tools") else 0
        again = max(0, _questions(seen) - 1) * len(json.dumps(seen.body.get("input")))
        return tokens + pictures + added + chance.choice((0, again))

    def _reply(
        self, kind: str, read: int, written: int, stored: int, chance: random.Random
    ) -> Scripted:
        match kind:
            case "refused":
                return Status(chance.choice(_REFUSALS), retry_after_s=0.0)
            case "silent":
                return Silence(after_chunks=chance.choice((0, 2)))
            case "malformed":
                return Malformed(after_chunks=chance.choice((0, 2)))
            case "broken":
                return Status(chance.choice((500, 429)), after_chunks=chance.choice((1, 3)))
            case "cut":
                return Cut(after_chunks=chance.choice((0, 1, 3)), how=chance.choice(_ENDINGS))
        calls = (
            (ToolCall("write_file", {"text": words(chance, 20)}),) if chance.random() < 0.3 else ()
        )
        return Answer(
            text="" if calls and chance.random() < 0.5 else words(chance, 10),
            tool_calls=calls,
            input_tokens=read,
            stored_tokens=stored,
            output_tokens=written,
            reasoning_tokens=chance.choice((0, written // 2)),
            delay_between_s=0.01 if kind == "slow" else 0.0,
            usage=chance.choice(_WRONG_USAGE) if kind == "usage" else "told",
        )


def price(provider: str, tokens_in: int, tokens_out: int, stored: int) -> int:
    name = "openai" if provider == "decisions" else provider
    config = ProviderConfig(name=name, protocol=provider, model=MODELS[name], key="k")
    return LibraryPrices().cost(config, tokens_in, tokens_out, stored_tokens=stored)


def _factor(body: Mapping[str, Any]) -> Fraction:
    """What faster answers cost, and those of a certain place."""
    fast = 6 if body.get("speed") == "fast" else 1
    tier = Fraction(5, 2) if body.get("service_tier") == "priority" else 1
    place = Fraction(11, 10) if body.get("inference_geo") == "us" else 1
    return Fraction(fast * tier * place)


def _questions(seen: SeenRequest) -> int:
    """Of a decision: for each the state may be read once more."""
    return len(seen.body["questions"]) if seen.protocol == "decisions" else 0


def _output_limit(body: Mapping[str, Any]) -> int:
    config = body.get("generationConfig") or {}
    named = ("max_completion_tokens", "max_tokens", "max_output_tokens")
    found = max((body[name] for name in named if body.get(name)), default=0)
    return int(found or config["maxOutputTokens"])


def _size(text: str) -> tuple[int, int] | None:
    with contextlib.suppress(binascii.Error, UnidentifiedImageError):
        data = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
        return Image.open(io.BytesIO(data)).size
    return None


def _picture_tokens(protocol: str, width: int, height: int) -> int:
    """As published: OpenAI's patches for its smallest models, Anthropic's pixels, Gemini 3's."""
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    return {
        "openai": math.ceil(2.46 * patches),
        "anthropic": math.ceil(width * height / 750),
        "gemini": 1120,
    }[protocol]


def words(chance: random.Random, most: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(1, most)))


def schema(chance: random.Random) -> dict[str, Any]:
    """Of an object whose descriptions, names or values may be long."""
    long = words(chance, chance.choice((3, 300)))
    fields: dict[str, Any] = {
        "city": {"type": "string", "description": long},
        words(chance, 5): {"enum": [words(chance, 5) for _ in range(3)]},
    }
    return {"type": "object", "description": words(chance, 20), "properties": fields}


def tool(chance: random.Random, number: int) -> dict[str, Any]:
    described = {"name": f"tool_{number}", "description": words(chance, 40)}
    told = schema(chance)
    if chance.random() < 0.2:  # a picture that nobody sees: it is read as text
        data = base64.b64encode(picture(chance)).decode()
        source = {"type": "base64", "media_type": "image/jpeg", "data": data}
        told["default"] = {"type": "image", "source": source, "image_url": f"data:;base64,{data}"}
    return {"type": "function", "function": {**described, "parameters": told}}


def history(chance: random.Random) -> list[dict[str, Any]]:
    """A conversation with calls, their results, and a question at its end."""
    turns: list[dict[str, Any]] = [{"role": "system", "content": words(chance, 60)}]
    for number in range(chance.randint(0, 4)):
        turns.append({"role": "user", "content": words(chance, 80)})
        if chance.random() < 0.5:
            name, arguments = "f" * chance.choice((1, 60)), {words(chance, 3): words(chance, 60)}
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call-{number}-{'i' * chance.choice((1, 200))}", "type": "function"}
            turns.append(
                {"role": "assistant", "content": "", "tool_calls": [call | {"function": function}]}
            )
            turns.append({"role": "tool", "tool_call_id": call["id"], "content": words(chance, 60)})
        turns.append({"role": "assistant", "content": words(chance, 40)})
    return [*turns, {"role": "user", "content": words(chance, 200)}]


def picture(chance: random.Random) -> bytes:
    file = io.BytesIO()
    size = (chance.randint(40, 900), chance.randint(40, 900))
    Image.effect_noise(size, 90).convert("RGB").save(file, "JPEG")
    return file.getvalue()


def options(chance: random.Random) -> dict[str, Any]:
    """A random request."""
    given: dict[str, Any] = {
        "policy": "cloud_only",
        "max_tokens": chance.choice((1, 64, 500, 4000)),
    }
    if chance.random() < 0.3:
        given["response_format"] = schema(chance)
    if chance.random() < 0.3:
        given["tools"] = [tool(chance, number) for number in range(chance.randint(1, 3))]
        given["tool_choice"] = chance.choice(("auto", "none"))
    if chance.random() < 0.3:
        given["stop"] = [words(chance, 10) for _ in range(chance.randint(1, 4))]
    return given


def decided(chance: random.Random) -> dict[str, YesNo | Choice | Score]:
    """Questions of all types, with long options and strange letters; or many short ones, whose bill
    is what is read again for each."""
    if chance.random() < 0.4:
        return {f"{number}": YesNo("?") for number in range(12)}
    made: dict[str, YesNo | Choice | Score] = {}
    for number in range(chance.choice((1, 3, 30))):
        said = words(chance, chance.choice((3, 60)))
        options = [f"{place} {words(chance, 8)}" for place in range(chance.randint(2, 12))]
        kinds: tuple[YesNo | Choice | Score, ...] = (
            YesNo(said, true=words(chance, 20)),
            Choice({each: words(chance, 20) for each in options}, said),
            Score(options[:10], said),
        )
        made[f"{number} {words(chance, 3)}"] = chance.choice(kinds)
    return made


def forwarded(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A path, and a body in its protocol with what makes it cost more, or look as if it did not."""
    limit = chance.choice((1, 64, 500, 4000))
    text = {"type": "text", "text": words(chance, 200)}
    dressed = {"type": chance.choice(("image", "image_url")), "source": words(chance, 100)}
    guess = {"text": words(chance, chance.choice((3, 300))), "image_url": words(chance, 100)}
    more: dict[str, Any] = {"prediction": {**dressed, **guess}}
    if chance.random() < 0.3:
        more["service_tier"] = chance.choice(("priority", "flex"))
    wire = chance.choice(("chat", "responses", "messages"))
    if wire == "responses":
        asked = [{"role": "user", "content": [{**text, "type": "input_text"}]}]
        more |= {"n": chance.choice((-1000, 0.001, "x"))}
        return "/v1/responses", {**_TO_CLOUD, "input": asked, "max_output_tokens": limit, **more}
    body = {**_TO_CLOUD, "max_tokens": limit, **more}
    if chance.random() < 0.3:
        body["tools"] = [tool(chance, number) for number in range(chance.randint(1, 3))]
    if wire == "chat":
        body["messages"] = [{"role": "user", "content": [text]}]
        body["n"] = chance.choice((1, 1, 3))
        if chance.random() < 0.3:
            body["max_completion_tokens"] = 1
        return "/v1/chat/completions", body
    body["messages"] = [
        {"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]}
    ]
    body["tools"] = [
        {
            "name": each["function"]["name"],
            "description": each["function"]["description"],
            "input_schema": each["function"]["parameters"],
        }
        for each in body.get("tools", ())
    ]
    body |= {"n": chance.choice((-1000, 0.001)), "speed": chance.choice(("fast", "standard"))}
    body |= {"inference_geo": chance.choice(("us", None))}
    return "/v1/messages", body


@dataclass(slots=True)
class Clients:
    """Ask the engines, and note what came of it."""

    engines: tuple[Engine, ...]
    url: str  # of the server
    seed: int
    keys: int
    count: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, number: int) -> None:
        """One request; in a tenth of the rounds several at once with one id."""
        chance = random.Random(f"{self.seed}/{number}")
        if chance.random() >= 0.1:
            self._one(number, chance, {})
            return
        named = {"request_id": f"raced-{self.seed}-{number}"}
        with ThreadPoolExecutor(RACERS) as racers:
            twins = [random.Random(f"{self.seed}/{number}/race") for _ in range(RACERS)]
            taken = list(
                racers.map(
                    lambda place: self._one(number + place, twins[place], named), range(RACERS)
                )
            )
        self._note("raced_ids")
        if sum(taken) != 1:
            self._note("ids_taken_twice")

    def _one(self, number: int, chance: random.Random, named: Mapping[str, str]) -> bool:
        """Whether its id was free."""
        self._note("requests")
        engine = self.engines[number % len(self.engines)]
        given = {**options(chance), **named, "budget_key": f"key-{chance.randrange(self.keys)}"}
        prompt: Any = history(chance)
        if chance.random() < 0.1:
            prompt = words(chance, 50)
            given["images"] = [picture(chance) for _ in range(chance.randint(1, 2))]
        leaves = chance.choice((0, 0, 0, 1, 2, 3))
        if not named and chance.random() < 0.4:
            path, body = forwarded(chance)
            self._post(path, body, given["budget_key"], leaves)
            return True
        try:
            if chance.random() < 0.2:
                self._note("decided")
                kept = {name: given[name] for name in _OF_A_DECISION if name in given}
                engine.decide(words(chance, 400), decided(chance), **kept)
            elif leaves or chance.random() < 0.3:
                self._stream(engine, prompt, given, leaves)
            else:
                engine.complete(prompt, **given)
        except InvalidRequest as error:
            if "used before" not in str(error):
                raise
            return False
        except (CloudClosed, BudgetExceeded) as error:
            self._note(f"closed_{error.code}")
        except EdgewiseError as error:
            self._note(f"failed_{error.code}")
        return True

    def _stream(self, engine: Engine, prompt: Any, given: dict[str, Any], leaves: int) -> None:
        stream = engine.stream(prompt, **given)
        for place, _ in enumerate(stream, start=1):
            if place == leaves:
                stream.close()
                return

    def _post(self, path: str, body: dict[str, Any], key: str, leaves: int) -> None:
        """Over HTTP; of a stream, so many pieces are read."""
        self._note("forwarded")
        stream = {"stream": bool(leaves)}
        sent = urllib.request.Request(
            self.url + path,
            json.dumps({**body, **stream}).encode(),
            {"content-type": "application/json", "x-edgewise-budget-key": key},
        )
        try:
            with urllib.request.urlopen(sent, timeout=60) as answer:
                for _ in range(leaves):
                    answer.readline()
                if not leaves:
                    answer.read()
        except urllib.error.HTTPError as error:
            told = json.loads(error.read())["error"]
            spent = "budget" in str(told.get("message"))
            self._note("closed_budget_spent" if spent else f"failed_{error.code}")
        except (OSError, http.client.HTTPException):  # the cloud broke off in mid-stream
            self._note("failed_cut")

    def _note(self, name: str) -> None:
        with self.lock:
            self.count[name] += 1


def measure_money(
    folder: Path, requests: int, seed: int, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics; `folder` gets the ledger. Ctrl-C ends it early: what was done is judged."""
    keys = max(1, requests // OF_A_KEY)
    total = requests * EACH_MICRODOLLARS
    limits = {"": total, **{f"key-{number}": KEY_MICRODOLLARS for number in range(keys)}}
    cloud = HarshCloud(seed)
    started = time.perf_counter()
    with LoopbackCloud() as server, contextlib.ExitStack() as stack:
        server.always(cloud)
        settings = [_settings(server, folder, chain, limits) for chain in CHAINS]
        engines = tuple(stack.enter_context(Engine(each)) for each in settings)
        http_settings = _settings(server, folder, CHAINS[0], limits)
        backend = ScriptedBackend.doubtful("No.")
        url = stack.enter_context(serve.running(http_settings, backend=backend))
        clients = Clients(engines, url, seed, keys)
        with contextlib.suppress(KeyboardInterrupt), ThreadPoolExecutor(CLIENTS) as pool:
            for _ in pool.map(clients.ask, range(requests)):
                progress()
        faults = engines[0].ledger.verify()
        path = engines[0].ledger.path
    judged = judge(path, cloud.bills, limits)
    return {
        "requests": clients.count["requests"],
        **judged,
        "ids_taken_twice": clients.count["ids_taken_twice"],
        "integrity_faults": len(faults),
        "raced_ids": clients.count["raced_ids"],
        "forwarded": clients.count["forwarded"],
        "decided": clients.count["decided"],
        "refused_by_budget": clients.count["closed_budget_spent"],
        "seconds": time.perf_counter() - started,
    }


def judge(path: Path, bills: Mapping[str, Billed], limits: Mapping[str, int]) -> dict[str, float]:
    """What was reserved and booked, beside what the cloud has billed."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT id, budget_key, estimated, reserved_microdollars, cost_microdollars"
            " FROM attempts WHERE place = 'cloud'"
        ).fetchall()
    count = Counter[str]()
    billed: Counter[str] = Counter()
    for name, key, estimated, reserved, cost in found:
        bill = bills.get(name, Billed())
        billed[""] += bill.microdollars
        billed[key] += bill.microdollars
        count["attempts"] += 1
        count["billed_attempts"] += bill.microdollars > 0
        count["underreserved"] += bill.microdollars > reserved
        count["booked_microdollars"] += cost
        if bill.exact and not estimated:
            count["complete"] += 1
            count["ledger_off_microdollars"] += abs(cost - bill.microdollars)
        else:
            count["cut"] += bill.microdollars > 0
            count["cut_below_billed"] += cost < bill.microdollars
    unbooked = bills.keys() - {row[0] for row in found}
    count["cut_below_billed"] += len(unbooked)
    over = sum(max(0, billed[key] - limit) for key, limit in limits.items())
    names = ("attempts", "billed_attempts", "complete", "cut", "booked_microdollars")
    zeros = ("underreserved", "ledger_off_microdollars", "cut_below_billed")
    return {
        **{name: float(count[name]) for name in (*names[:2], *zeros)},
        "billed_over_budget_microdollars": float(over),
        **{name: float(count[name]) for name in names[2:]},
        "billed_microdollars": float(sum(bill.microdollars for bill in bills.values())),
    }


def _settings(
    server: LoopbackCloud, folder: Path, chain: tuple[str, ...], limits: Mapping[str, int]
) -> Settings:
    urls = {
        "openai": server.openai_url,
        "anthropic": server.anthropic_url,
        "gemini": server.gemini_url,
    }
    environment: dict[str, str] = {}
    for name, url in urls.items():
        environment |= {f"{name.upper()}_API_KEY": "k", f"EDGEWISE_{name.upper()}_BASE_URL": url}
    amounts = [f"{key}: " * bool(key) + f"${limit / 1e6:.6f}/day" for key, limit in limits.items()]
    return Settings.load(
        environment,
        chain=[f"{name}/{MODELS[name]}" for name in chain],
        budgets=amounts,
        data_dir=folder,
        config_dir=folder,
        first_token_s=FIRST_TOKEN_S,
        total_s=30.0,
        connect_s=10.0,
        cooldown_s=0.01,
        server={"port": 0, "drain_s": 2.0},
    )
