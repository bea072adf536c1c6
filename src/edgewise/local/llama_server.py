"""llama.cpp through the server API of its wheel: for pictures, and where the C API is missing."""

from __future__ import annotations

import importlib
import math
import secrets
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from edgewise.errors import ContextExceeded, GenerationFailed, LocalError, SchemaUnsupported
from edgewise.local.backend import (
    CallToWrite,
    Channel,
    DeviceFacts,
    Generation,
    TokenStream,
    abandon,
    forget_at_fork,
    with_speeds,
)
from edgewise.local.chat_prompt import pictured_turns, plain_turns, with_system
from edgewise.local.gguf import spelt_bytes
from edgewise.local.llama_api import layers_on_gpu
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, FinishReason, Token

ALTERNATIVES = 5  # best tokens reported with each token; enough for margin and entropy
PREFILL_BATCH = 128  # a prompt can be cancelled after each batch: about half a second on one core
PICTURE_BATCH = 512  # the tokens of one picture must fit: they attend to each other
STREAMED: dict[str, Any] = {
    "stream": True,
    "return_progress": True,  # chunks during prefill: chances to cancel
    "cache_prompt": True,
}
# Skips samplers that cannot matter.
GREEDY: dict[str, Any] = {"temperature": 0, "samplers": ["top_k"], "top_k": 1}
_Chunks = Channel[Mapping[str, Any]]
FINISH: Mapping[str, FinishReason] = {"stop": "stop", "length": "length"}


class Reuse:
    """Whether a prompt may reuse what is kept of others.

    A server does not know whose prompts its slots hold, so a second owner ends it.
    """

    def __init__(self) -> None:
        self._owners: set[str] = set()

    def of(self, owner: str) -> dict[str, Any]:
        return {"cache_prompt": self.is_alone(owner)}

    def is_alone(self, owner: str) -> bool:
        """Whether nobody else has asked so far. From any thread."""
        if len(self._owners) < 2:
            self._owners.add(owner)
        return len(self._owners) == 1


class LlamaServer:
    """One model, loaded when first used. Its slots share each pass through the weights.

    A request goes to the slot whose last prompt begins like its own, and reuses that. If all slots
    are busy, it waits. Every slot has the whole context window.
    """

    def __init__(
        self,
        model: InstalledModel,
        *,
        threads: int,
        context_tokens: int,
        slots: int = 1,
        gpu: str = "auto",
    ) -> None:
        self._system = model.row.default_system if model.row else ""
        self._facts = DeviceFacts(
            backend="llama_cpp",
            model=model.name,
            quantisation=model.quantisation,
            context_tokens=context_tokens,
            images=model.projector is not None,
            schemas=True,
            call_format=model.call_format,
            chat_template=model.chat_template,
            slots=slots,
            ahead=slots // 2,
        )
        self._path = model.path
        self._projector = model.projector
        self._threads = threads
        self._gpu = gpu
        self._server: Any = None
        self._chunks = 0
        self._reuse = Reuse()
        self._workers: dict[threading.Thread, threading.Event] = {}
        self._folders: list[Path] = []
        # Also at the interpreter's exit: a thread inside the runtime would then abort it.
        self._end = weakref.finalize(self, _end, self._workers, self._folders)
        self._loading = threading.Lock()
        forget_at_fork(self)

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(
        self,
        request: Request,
        *,
        already: str = "",
        layer: int = 0,  # it gives no hidden states
        prompt_layer: int = 0,
    ) -> Generation:
        body = self._chat_body(request, already) | self._reuse.of(request.owner)
        return self._stream("handle_chat_completions", body, alternatives=request.evidence)

    def write_call(self, call: CallToWrite) -> Generation:
        """A raw completion, greedy. Log-probabilities are those before the grammar's mask.

        The runtime reports them like this unless `post_sampling_probs` is set. Then all would be 0,
        because greedy sampling leaves one candidate. It writes token by token, so drafts are no
        help, and it keeps its last prompt anyway.
        """
        if call.grammar and not self._spells_plain_text:
            raise GenerationFailed(f"{self._facts.model} has no token for every byte of text")
        body = call_body(call) | self._reuse.of(call.owner)
        # The alternatives of the first token say how likely `none` was.
        return self._stream("handle_completions", body, alternatives=True)

    def close(self) -> None:
        """Stop what still runs and free the model. The next request loads it again."""
        _end(self._workers, self._folders)
        with self._loading:
            self._server = None
            self._reuse = Reuse()

    def forget(self) -> None:
        abandon(self._server)
        self._loading, self._server = threading.Lock(), None
        self._reuse = Reuse()
        self._workers.clear()
        self._folders.clear()  # the parent's socket lies there

    def load(self) -> Any:
        """Load the weights unless they are loaded; a fifth of a second for the default model."""
        with self._loading:
            if self._server is None:
                folder = Path(tempfile.mkdtemp(prefix="edgewise-"))  # 0700
                self._folders.append(folder)
                layers = layers_on_gpu(
                    self._gpu,
                    self._path,
                    context_tokens=self._facts.context_tokens,
                    slots=self._facts.slots,
                    batch=PREFILL_BATCH,
                )
                self._server = _load(
                    self._path, folder, self._threads, self._facts, self._projector, layers
                )
            return self._server

    def passes(self) -> int:
        """Pieces of prompts read, and tokens: whoever watches sees that it does not hang."""
        return self._chunks

    def _stream(
        self, endpoint: str, body: Mapping[str, Any], *, alternatives: bool = False
    ) -> Generation:
        channel: _Chunks = Channel()
        return Generation(self._tokens(endpoint, body, channel, alternatives), channel.abort)

    def _tokens(
        self, endpoint: str, body: Mapping[str, Any], channel: _Chunks, alternatives: bool
    ) -> TokenStream:
        handle = getattr(self.load(), endpoint)
        worker = threading.Thread(
            target=self._run, args=(handle, body, channel), name="edgewise-decoder", daemon=True
        )
        self._workers[worker] = channel.cancelled
        worker.start()
        try:
            yield from self._read(channel, alternatives)
        finally:
            channel.cancelled.set()

    @cached_property
    def _spells_plain_text(self) -> bool:
        """Otherwise a grammar could require text without tokens, and the runtime would abort."""
        from edgewise.grammar.tools import PLAIN_BYTES  # noqa: PLC0415 - only for grammars

        return spelt_bytes(self._path) >= PLAIN_BYTES

    def _run(self, handle: Callable[..., Any], body: Mapping[str, Any], channel: _Chunks) -> None:
        def on_chunk(chunk: Mapping[str, Any]) -> bool:
            self._chunks += 1
            channel.queue.put(chunk)
            return channel.cancelled.is_set()  # True makes the runtime stop at once

        try:
            if not channel.cancelled.is_set():
                handle(body, on_chunk)
            channel.queue.put(None)
        except (RuntimeError, ValueError) as error:
            channel.queue.put(error)
        finally:
            self._workers.pop(threading.current_thread(), None)

    def _read(self, channel: _Chunks, alternatives: bool) -> Iterator[Token | Finish]:
        reason: FinishReason | None = None
        while (item := channel.queue.get()) is not None:
            if isinstance(item, BaseException):
                raise GenerationFailed(f"llama.cpp: {item}") from item
            if "error" in item:
                raise map_error(item["error"])
            for choice in item.get("choices") or ():
                yield from read_tokens(choice, alternatives=alternatives)
                reason = FINISH.get(choice.get("finish_reason") or "", reason)
            if reason is not None and "timings" in item:
                yield self._finish(reason, item["timings"])
                return
        if reason is None:
            raise GenerationFailed("llama.cpp stopped before the answer was finished")

    def _finish(self, reason: FinishReason, timings: Mapping[str, Any]) -> Finish:
        cached, fresh = int(timings.get("cache_n", 0)), int(timings.get("prompt_n", 0))
        produced = int(timings.get("predicted_n", 0))
        self._facts = with_speeds(
            self._facts,
            read=fresh,
            read_per_s=float(timings.get("prompt_per_second", 0.0)),
            written=produced,
            written_per_s=float(timings.get("predicted_per_second", 0.0)),
        )
        return Finish(reason, cached + fresh, produced, cached)

    def _chat_body(self, request: Request, already: str) -> dict[str, Any]:
        body = chat_body(request, already, self._system)
        if request.response_format is not None:
            # It compiles patterns: only who gives a schema loads it.
            from edgewise.grammar.answers import compile_answer  # noqa: PLC0415

            body["grammar"] = compile_answer(request.response_format.device_schema)
            if not self._spells_plain_text:
                raise SchemaUnsupported(f"{self._facts.model} has no token for every byte of text")
        return body | STREAMED | (GREEDY if request.temperature == 0 else {})


def chat_body(request: Request, already: str, system: str = "") -> dict[str, Any]:
    """A chat request as OpenAI's API has it, with the evidence that we need."""
    if request.response_format is not None and already:
        raise GenerationFailed("llama.cpp: a grammar cannot go on where a text broke off")
    messages: list[Any] = list(with_system(plain_turns(request.messages), system))
    if already:  # the runtime continues the assistant's last message
        messages.append({"role": "assistant", "content": already})
    if request.has_images:
        messages = pictured_turns(messages, request.messages)
    return {
        "messages": messages,
        "max_tokens": request.device_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stop": list(request.stop),
        "logprobs": True,
        "top_logprobs": ALTERNATIVES,
    }


def call_body(call: CallToWrite) -> dict[str, Any]:
    """A raw completion, greedy and streamed."""
    body = {
        "prompt": call.prompt + call.already,
        "max_tokens": call.max_tokens,
        "seed": 0,
        "logprobs": ALTERNATIVES,
    }
    return body | ({"grammar": call.grammar} if call.grammar else {}) | STREAMED | GREEDY


def read_tokens(choice: Mapping[str, Any], *, alternatives: bool = False) -> Iterator[Token]:
    """The tokens of one chunk. The runtime holds back incomplete UTF-8, so text may come late."""
    # Chat puts text into a delta, raw completion beside it; the evidence has one form.
    text = (choice.get("delta") or {}).get("content") or choice.get("text") or ""
    entries = (choice.get("logprobs") or {}).get("content") or ()
    if not entries:
        if text:
            yield Token(text, has_evidence=False)
        return
    for entry in entries[:-1]:
        yield _token("", entry, alternatives)
    yield _token(text, entries[-1], alternatives)


def _token(text: str, entry: Mapping[str, Any], alternatives: bool) -> Token:
    listed = entry.get("top_logprobs") or ()
    if not listed:  # some servers promise evidence and send none
        return Token(text, has_evidence=False)
    best = [float(alternative["logprob"]) for alternative in listed]
    margin = best[0] - best[1] if len(best) > 1 else 0.0
    rest, entropy = 1.0, 0.0
    for logprob in best:
        probability = math.exp(logprob)
        rest -= probability
        entropy -= probability * logprob
    if rest > 1e-9:
        entropy -= rest * math.log(rest)
    named = tuple((one["token"], float(one["logprob"])) for one in listed) if alternatives else ()
    return Token(text, float(entry["logprob"]), margin, entropy, alternatives=named)


def map_error(error: Mapping[str, Any]) -> LocalError:
    if error.get("type") == "exceed_context_size_error":
        return ContextExceeded(int(error["n_prompt_tokens"]), int(error["n_ctx"]))
    return GenerationFailed(f"llama.cpp: {error.get('message', error)}")


def _load(
    path: Path,
    folder: Path,
    threads: int,
    facts: DeviceFacts,
    projector: Path | None,
    gpu_layers: int,
) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # loads when the first model does
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = facts.context_tokens * facts.slots  # the runtime divides it evenly
    params.n_parallel = facts.slots
    params.n_gpu_layers = gpu_layers
    params.kv_unified = False
    params.n_batch = params.n_ubatch = PREFILL_BATCH
    if projector is not None:
        params.mmproj.path = str(projector)
        params.mmproj_use_gpu = False
        params.n_batch = params.n_ubatch = PICTURE_BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False  # with fit_params: start in 0.2 s instead of 1.2 s
    params.fit_params = False
    params.cache_ram_mib = 0  # the slot's own prefix is reused; no 8 GiB host cache
    params.verbosity = -1
    if sys.platform == "win32":
        params.api_keys = [secrets.token_urlsafe(32)]
    else:
        params.hostnames = [str(folder / "llama.sock")]
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise GenerationFailed(f"llama.cpp could not load {path}: {error}") from error


def _end(workers: dict[threading.Thread, threading.Event], folders: list[Path]) -> None:
    for worker, cancelled in list(workers.items()):
        cancelled.set()
        worker.join(timeout=10)
    while folders:
        shutil.rmtree(folders.pop(), ignore_errors=True)
