"""A server that already runs on this machine, as the device: llama-server, Ollama, vLLM and others.

When it is opened, the server is asked what it is and which model it has. Evidence comes from the
log-probabilities in its stream. If it sends none, `facts().evidence` is false: its answers are not
judged.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import httpx2
from typing_extensions import override

from edgewise.calls.formats import call_format_of
from edgewise.errors import ContextExceeded, GenerationFailed, LocalError, ModelNotFound
from edgewise.grammar.answers import compile_answer
from edgewise.local.backend import CallToWrite, DeviceFacts, Generation, TokenStream, with_speeds
from edgewise.local.chat_prompt import plain_turns
from edgewise.local.llama_server import (
    ALTERNATIVES,
    FINISH,
    GREEDY,
    STREAMED,
    Reuse,
    call_body,
    chat_body,
    map_error,
    read_tokens,
)
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, FinishReason, Token

OWNERS = {"llamacpp": "llama-server", "library": "ollama", "vllm": "vllm"}  # `owned_by` of a model
CONNECT_S = 2.0
SILENCE_S = 300.0  # a large model may read a long prompt for minutes before its first token
CONTEXT_TOKENS = 4096  # if neither the server nor the settings say more
FIRST_OLLAMA_WITH_EVIDENCE = (0, 12, 11)
_TOO_LONG = re.compile(r"context (length|size|window)|too long|exceeds? the (available )?context")
Listed = Mapping[str, Mapping[str, Any]]  # what a server says of its models, by their ids
_OPENED = ("connect_tcp.complete", "start_tls.complete")


def open_backend(
    url: str, *, model: str = "", kind: str = "", context_tokens: int = 0, slots: int = 1
) -> RunningServer:
    """Ask the server what it is. Raises ModelNotFound if it is not there or has no such model."""
    try:
        http = Http(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ModelNotFound(f"{url!r} is no address of a server: {error}") from error
    try:
        rows = http.get("/v1/models").get("data") or ()
        listed = {str(each.get("id")): each for each in rows}
        owners = {str(each.get("owned_by")) for each in rows}
        if "edgewise" in owners:
            raise ModelNotFound(f"{url} is an edgewise server; it cannot be its own device")
        kind = kind or next((OWNERS[each] for each in OWNERS if each in owners), "openai")
        dialect = DIALECTS.get(kind, OpenAI)(http, kind)
        return RunningServer(dialect, dialect.look(model, listed, context_tokens, slots))
    except (httpx2.HTTPError, ValueError, AttributeError, TypeError, LookupError) as error:
        http.close()
        raise ModelNotFound(
            f"no server for models answers at {url}: start it, or name another model"
        ) from error
    except LocalError:
        http.close()
        raise


class RunningServer:
    """One model of one server. The server keeps it, loads it and batches its requests."""

    def __init__(self, dialect: Dialect, facts: DeviceFacts) -> None:
        self._dialect = dialect
        self._facts = facts

    def facts(self) -> DeviceFacts:
        return self._facts

    @property
    def model_path(self) -> str:
        """The file that the server says it has loaded; empty: it does not say."""
        return self._dialect.model_path

    def know_bits(self, key: str) -> None:
        """Its file is that of the model with this key."""
        self._facts = replace(self._facts, same_bits_as=key)

    def generate(
        self,
        request: Request,
        *,
        already: str = "",
        layer: int = 0,  # it gives no hidden states
        prompt_layer: int = 0,
    ) -> Generation:
        path, body = self._dialect.chat(self._facts, request, already)
        return self._stream(path, body, request.evidence, request.owner)

    def write_call(self, call: CallToWrite) -> Generation:
        """Written token by token, without drafts. The server keeps its last prompt anyway."""
        body = call_body(call) | self._dialect.reuse.of(call.owner)
        return self._stream("/v1/completions", body, True, call.owner)

    def close(self) -> None:
        """Close our connections. The server goes on."""
        self._dialect.http.close()

    def _stream(
        self, path: str, body: Mapping[str, Any], alternatives: bool, owner: str
    ) -> Generation:
        line = ServerLine()
        tokens = self._tokens(path, body, alternatives, line)
        return Generation(self._without_others(tokens, owner), line.cut)

    def _without_others(self, tokens: TokenStream, owner: str) -> TokenStream:
        """What was read before may have been another's prompt: who guesses it must not be told."""
        alone = self._dialect.reuse.is_alone(owner)
        with contextlib.closing(tokens):
            for item in tokens:
                if isinstance(item, Finish) and not alone:
                    item = replace(item, cached_tokens=0)
                yield item

    def _tokens(
        self, path: str, body: Mapping[str, Any], alternatives: bool, line: ServerLine
    ) -> TokenStream:
        began, first, count = time.monotonic(), 0.0, 0
        try:
            with self._dialect.http.stream(path, body, line) as lines:
                for item in self._dialect.read(lines, alternatives):
                    if isinstance(item, Finish):
                        self._measure(item, first - began, time.monotonic() - first)
                        yield item
                        return
                    first, count = first or time.monotonic(), count + 1
                    yield item
        except httpx2.HTTPError as error:
            words = "called off" if line.was_cut else f"broke off: {error}"
            raise GenerationFailed(f"{self._dialect.kind} {words}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GenerationFailed(f"{self._dialect.kind} sent what cannot be read") from error
        raise GenerationFailed(f"{self._dialect.kind} stopped before the answer was finished")

    def _measure(self, finish: Finish, reading_s: float, writing_s: float) -> None:
        fresh = finish.input_tokens - finish.cached_tokens
        self._facts = with_speeds(
            self._facts,
            read=fresh,
            read_per_s=fresh / max(reading_s, 1e-6),
            written=finish.output_tokens,
            written_per_s=finish.output_tokens / max(writing_s, 1e-6),
        )


class ServerLine:
    """The connection of one request. Another thread can cut it, and the server's slot is free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.was_cut = False

    def trace(self, event: str, told: Mapping[str, Any]) -> None:
        """What the HTTP library tells while it connects."""
        if event.endswith(_OPENED):
            with self._lock:
                self._socket = told["return_value"].get_extra_info("socket")
                if self.was_cut:
                    self._shut()

    def cut(self) -> None:
        with self._lock:
            self.was_cut = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)


class Http:
    """One client. Each request has a connection of its own, so that it can be cut."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(
            base_url=url,
            trust_env=False,  # no proxy: the server is the device
            timeout=httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    def get(self, path: str) -> dict[str, Any]:
        answer = self._client.get(path, timeout=httpx2.Timeout(10.0, connect=CONNECT_S))
        return dict(answer.raise_for_status().json())

    def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        return self._client.post(path, json=body)

    @contextlib.contextmanager
    def stream(
        self, path: str, body: Mapping[str, Any], line: ServerLine
    ) -> Iterator[Iterator[str]]:
        """The lines of the answer. Raises what the server refuses with."""
        tracing = {"trace": line.trace}
        with self._client.stream("POST", path, json=body, extensions=tracing) as response:
            if response.status_code >= 400:
                raise refused(response.read())
            yield response.iter_lines()

    def close(self) -> None:
        self._client.close()


def refused(body: bytes) -> LocalError:
    """The error that a server's refusal means."""
    try:
        told = json.loads(body)
        error = told.get("error", told)
    except (ValueError, AttributeError):
        error = body.decode("utf-8", "replace")
    if isinstance(error, Mapping) and "n_ctx" in error:
        return map_error(error)
    words = str(error.get("message", error) if isinstance(error, Mapping) else error)[:300]
    if _TOO_LONG.search(words.lower()):
        numbers = sorted({int(each) for each in re.findall(r"\d{3,}", words)})
        room = numbers[0] if len(numbers) > 1 else CONTEXT_TOKENS
        return ContextExceeded(numbers[-1] if numbers else room, room, counted=len(numbers) > 1)
    return GenerationFailed(f"the server refused: {words}")


class Dialect(ABC):
    """How one kind of server is asked and read."""

    model_path = ""  # of the loaded file, if the server tells it

    def __init__(self, http: Http, kind: str) -> None:
        self.http, self.kind, self.reuse = http, kind, Reuse()

    @abstractmethod
    def look(self, model: str, listed: Listed, context: int, slots: int) -> DeviceFacts:
        """What the server has under this name; its only or first model if there is no name."""

    @abstractmethod
    def chat(
        self, facts: DeviceFacts, request: Request, already: str
    ) -> tuple[str, dict[str, Any]]:
        """The path and the body of a chat request."""

    @abstractmethod
    def read(self, lines: Iterator[str], alternatives: bool) -> Iterator[Token | Finish]:
        """The tokens of an answer, then its end."""

    def choose(self, model: str, names: Sequence[str]) -> str:
        if model and names and model not in names:
            known = ", ".join(names[:5])
            raise ModelNotFound(f"{self.kind} has no model {model!r}; it has {known}")
        if not (model or names):
            raise ModelNotFound(f"{self.kind} has no model yet")
        return model or names[0]

    def _cannot_continue(self) -> GenerationFailed:
        return GenerationFailed(f"{self.kind} cannot go on where a text broke off")


class OpenAI(Dialect):
    """OpenAI's API: vLLM, LM Studio, Lemonade, GenieX, Cactus, and whoever else speaks it."""

    _id = ""

    @override
    def look(self, model: str, listed: Listed, context: int, slots: int) -> DeviceFacts:
        self._id = self.choose(model, list(listed))
        room = int(listed.get(self._id, {}).get("max_model_len") or CONTEXT_TOKENS)
        return DeviceFacts(
            backend=self.kind,
            model=_plain(self._id),
            quantisation="",
            context_tokens=min(context, room) if context else room,
            schemas=True,
            slots=slots,
            evidence=self.kind == "vllm" or self._tells(),
        )

    def _tells(self) -> bool:
        """Whether it sends log-probabilities: one token is asked for, once."""
        asked = Request(messages=(Message("user", "Say yes."),), max_tokens=1)
        body = {**chat_body(asked, ""), "model": self._id, "stream": False}
        answer = self.http.post("/v1/chat/completions", body)
        if answer.status_code >= 400:  # it may refuse what it does not know
            return False
        choices: Sequence[Mapping[str, Any]] = answer.json().get("choices") or ({},)
        content = (choices[0].get("logprobs") or {}).get("content") or ()
        return any(entry.get("top_logprobs") for entry in content)

    @override
    def chat(
        self, facts: DeviceFacts, request: Request, already: str
    ) -> tuple[str, dict[str, Any]]:
        body = chat_body(request, already) | {
            "model": self._id,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if not facts.evidence:
            del body["logprobs"], body["top_logprobs"]
        if already:
            if self.kind != "vllm":
                raise self._cannot_continue()
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        if request.response_format is not None:
            schema = request.response_format.schema
            grammar = compile_answer(schema)  # also refuses what could harm the server
            named = {"name": "answer", "schema": dict(schema), "strict": True}
            body |= (
                {"structured_outputs": {"grammar": grammar}}
                if self.kind == "vllm"
                else {"response_format": {"type": "json_schema", "json_schema": named}}
            )
        return "/v1/chat/completions", body

    @override
    def read(self, lines: Iterator[str], alternatives: bool) -> Iterator[Token | Finish]:
        reason: FinishReason | None = None
        usage: Mapping[str, Any] = {}
        for chunk in _events(lines):
            if "error" in chunk:
                raise refused(json.dumps(chunk).encode())
            for choice in chunk.get("choices") or ():
                yield from read_tokens(choice, alternatives=alternatives)
                reason = FINISH.get(choice.get("finish_reason") or "", reason)
            usage = chunk.get("usage") or usage
        if reason is not None:
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            read, written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
            yield Finish(reason, int(read), int(written), int(cached), estimated=not usage)


class LlamaServerDialect(OpenAI):
    """llama.cpp's own server: our grammars, and chunks while it reads a prompt."""

    @override
    def look(self, model: str, listed: Listed, context: int, slots: int) -> DeviceFacts:
        self._id = self.choose(model, list(listed))
        told = self.http.get("/props" + (f"?model={self._id}" if len(listed) > 1 else ""))
        room = int(told["default_generation_settings"]["n_ctx"])
        template = str(told.get("chat_template") or "")
        self.model_path = str(told.get("model_path") or "")
        return DeviceFacts(
            backend="llama-server",
            model=_plain(str(told.get("model_alias") or told.get("model_path") or self._id)),
            quantisation=str(told.get("model_ftype") or "").split(" ")[0],
            context_tokens=min(context, room) if context else room,
            images=bool((told.get("modalities") or {}).get("vision")),
            schemas=True,
            call_format=call_format_of(template),
            chat_template=template,
            slots=int(told.get("total_slots") or slots),
        )

    @override
    def chat(
        self, facts: DeviceFacts, request: Request, already: str
    ) -> tuple[str, dict[str, Any]]:
        body = chat_body(request, already) | STREAMED | self.reuse.of(request.owner)
        body |= {
            "model": self._id,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False},
        }
        if request.response_format is not None:
            body["grammar"] = compile_answer(request.response_format.device_schema)
        return "/v1/chat/completions", body | (GREEDY if request.temperature == 0 else {})


class Ollama(Dialect):
    """Ollama's own API: its OpenAI one cuts long prompts silently."""

    _id = ""
    _thinks = False

    @override
    def look(self, model: str, listed: Listed, context: int, slots: int) -> DeviceFacts:
        self._id = self.choose("", [model] if model else list(listed))
        answer = self.http.post("/api/show", {"model": self._id})
        if answer.status_code == 404:
            raise ModelNotFound(f"Ollama has no model {self._id!r}: run `ollama pull {self._id}`")
        told = dict(answer.raise_for_status().json())
        if told.get("remote_host"):
            raise _leaves(self._id, str(told["remote_host"]))
        able = told.get("capabilities") or ()
        self._thinks = "thinking" in able
        trained = [
            int(size)
            for name, size in (told.get("model_info") or {}).items()
            if name.endswith(".context_length")
        ]
        version = str(self.http.get("/api/version").get("version") or "")
        return DeviceFacts(
            backend="ollama",
            model=self._id.removesuffix(":latest").replace(":", "-"),
            quantisation=str((told.get("details") or {}).get("quantization_level") or ""),
            context_tokens=min([context or CONTEXT_TOKENS, *trained]),
            images="vision" in able,
            schemas=True,
            slots=slots,
            evidence=_release(version) >= FIRST_OLLAMA_WITH_EVIDENCE,
        )

    @override
    def chat(
        self, facts: DeviceFacts, request: Request, already: str
    ) -> tuple[str, dict[str, Any]]:
        if request.response_format is not None and already:
            raise self._cannot_continue()
        messages: list[dict[str, Any]] = [dict(turn) for turn in plain_turns(request.messages)]
        asked = [turn for turn in messages if turn["role"] == "user"]
        users = [message for message in request.messages if message.role == "user"]
        for turn, message in zip(asked, users, strict=False):
            if message.images:
                turn["images"] = [
                    base64.b64encode(image.data).decode("ascii") for image in message.images
                ]
        if already:  # it goes on with the assistant's last message
            messages.append({"role": "assistant", "content": already})
        body: dict[str, Any] = {
            "model": self._id,
            "messages": messages,
            "stream": True,
            "truncate": False,
            "shift": False,
            "options": {
                "temperature": request.temperature,
                "seed": request.seed,
                "num_predict": request.device_tokens,
                "num_ctx": facts.context_tokens,
                "stop": list(request.stop),
            },
        }
        if facts.evidence:
            body |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if self._thinks:
            body["think"] = False
        if request.response_format is not None:
            schema = request.response_format.schema
            compile_answer(schema)  # refuses what could harm the server
            body["format"] = dict(schema) or "json"
        return "/api/chat", body

    @override
    def read(self, lines: Iterator[str], alternatives: bool) -> Iterator[Token | Finish]:
        for line in lines:
            chunk = json.loads(line)
            if chunk.get("remote_host"):
                raise _leaves(self._id, str(chunk["remote_host"]))
            if "error" in chunk:
                raise refused(line.encode())
            text = (chunk.get("message") or {}).get("content") or ""
            evidence = {"content": chunk.get("logprobs") or ()}
            yield from read_tokens(
                {"delta": {"content": text}, "logprobs": evidence}, alternatives=alternatives
            )
            if chunk.get("done"):
                reason = FINISH.get(chunk.get("done_reason") or "stop", "stop")
                read, written = chunk.get("prompt_eval_count"), chunk.get("eval_count")
                yield Finish(reason, int(read or 0), int(written or 0))
                return


DIALECTS: Mapping[str, type[Dialect]] = {"llama-server": LlamaServerDialect, "ollama": Ollama}


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The events of a stream, up to its end mark."""
    for line in lines:
        name, _, data = line.partition(":")
        data = data.strip()
        if name == "error":  # llama-server's own form
            yield {"error": json.loads(data)}
        elif name == "data" and data == "[DONE]":
            return
        elif name == "data":
            yield json.loads(data)


def _leaves(model: str, host: str) -> ModelNotFound:
    return ModelNotFound(
        f"Ollama sends {model!r} to {host}, so it is not on the device; name it as a provider"
    )


def _plain(name: str) -> str:
    """A model's name for people: of a file, without its folder and ending."""
    return PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
