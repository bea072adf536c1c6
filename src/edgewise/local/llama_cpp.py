"""Local chat and function calls on our own decode loop (decoder.py), and llama.cpp under it.

`LoopBackend` is any runtime that the loop drives; `LlamaLoop` is llama.cpp, through the pre-built
`xllamacpp` wheel. Where the wheel's C API cannot be used, or the model
sees pictures, its server API does (llama_server.py).
"""

from __future__ import annotations

import functools
import re
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ContextExceeded, GenerationFailed, ModelNotFound, SchemaUnsupported
from edgewise.local.backend import (
    TEMPLATE,
    CallToWrite,
    Channel,
    DeviceFacts,
    Generation,
    TokenStream,
    forget_at_fork,
    with_speeds,
)
from edgewise.local.chat_prompt import plain_turns, render_turns, with_system
from edgewise.local.gguf import architecture_of, chat_template_of, layers_of, spelt_bytes
from edgewise.local.llama_api import LAYER_ARCHITECTURES, layers_on_gpu, load_api, why_no_api
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store import LLAMA_CPP, InstalledModel, how_to_convert
from edgewise.types.messages import Request
from edgewise.types.replies import Finish

if TYPE_CHECKING:  # brings numpy, which loads slowly: with the first model
    from edgewise.local.decoder import Answer, Decoder, Job, Runtime, Words

BREAK = "\ufdd0"  # Unicode keeps it for programs: it stands in no text
_BRACKETS = re.compile(r"[<\[|\uff5c]")  # every family writes its control tokens with one of these
WORDS_COPIED_AFTER = 2  # tokens: the values of a call are mostly words of the request
_KEPT_PREFIXES = 32  # texts whose tokens are remembered


def open_backend(
    model: InstalledModel,
    *,
    threads: int,
    context_tokens: int,
    slots: int = 1,
    gpu: str = "auto",
    llama_library: str = "",
) -> Llama:
    """The entry point `edgewise.local_backends: llama_cpp`."""
    options: dict[str, Any] = {"threads": threads, "context_tokens": context_tokens}
    options |= {"slots": slots, "gpu": gpu}
    if llama_library and model.projector is None:
        if reason := why_no_api(llama_library):
            raise ModelNotFound(f"llama_library = {llama_library!r} cannot be used: {reason}")
        return LlamaLoop(model, **options, library=llama_library)
    if find_spec("xllamacpp") is None:
        raise ModelNotFound(
            "llama.cpp is not installed, or has no wheel for this system; "
            f"{how_to_convert(model.name, 'onnx')}, then name the model {model.name}@onnx"
        )
    through_server = model.projector is not None or why_no_api()
    driver = LlamaServer if through_server else LlamaLoop
    return driver(model, **options)


def with_call_format(model: InstalledModel) -> InstalledModel:
    """The model with what its file says about how it is asked for calls.

    A row of the catalogue knows the format; of a user's own file its chat template tells.
    """
    from edgewise.calls.formats import TOOLS_TEMPLATE, call_format_of  # noqa: PLC0415 - as below

    if model.row is not None and model.call_format != TOOLS_TEMPLATE:
        return model
    template = _template_of(model)
    found = model.call_format if model.row else call_format_of(template)
    return replace(model, call_format=found, chat_template=template)


def _template_of(model: InstalledModel) -> str:
    """In the header of a GGUF file; a converted model has it beside."""
    if not model.runtime or model.path.suffix == ".gguf":
        return chat_template_of(model.path)
    beside = model.path.with_name(TEMPLATE)
    return beside.read_text("utf-8") if beside.is_file() else ""


class LoopBackend(ABC):
    """One model, loaded when first used. Its slots share the decode loop.

    A request goes to the slot whose last prompt begins like its own, and reuses that if it is of
    the same owner. If all slots are busy, it waits. Every slot has the whole context window.
    """

    def __init__(
        self,
        model: InstalledModel,
        *,
        backend: str,
        threads: int,
        context_tokens: int,
        slots: int,
        layers: int = 0,  # of a runtime that gives their inputs
    ) -> None:
        self._system = model.row.default_system if model.row else ""
        self._facts = DeviceFacts(
            backend=backend,
            model=model.name,
            quantisation=model.quantisation,
            context_tokens=context_tokens,
            schemas=True,
            labels=True,
            call_format=model.call_format,
            chat_template=model.chat_template,
            states=layers > 0,
            layers=layers,
            slots=slots,
            ahead=slots,  # answers of one length end together: then a whole batch must be waiting
            same_bits_as=_unconverted(model) if model.same_bits else "",
        )
        self._threads = threads
        self._opened: list[Decoder] = []
        self._loading = threading.Lock()
        self._prefix_tokens = functools.lru_cache(_KEPT_PREFIXES)(self._tokenize)
        # Also at the interpreter's exit: a thread inside the runtime would then abort it.
        self._end = weakref.finalize(self, _close, self._opened)
        forget_at_fork(self)

    @abstractmethod
    def _open(self) -> Runtime:
        """Load the model. Raises GenerationFailed, or ExtraMissing."""

    @abstractmethod
    def _spelt_bytes(self) -> frozenset[int]:
        """The bytes that the model has a token for."""

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> Generation:
        rules = ""
        if request.response_format is not None:
            if already:
                raise GenerationFailed("a grammar cannot go on where a text broke off")
            # It compiles patterns: only who gives a schema loads it.
            from edgewise.grammar.answers import compile_answer  # noqa: PLC0415

            rules = compile_answer(request.response_format.device_schema)
            if not self._spells_plain_text:
                raise SchemaUnsupported(f"{self._facts.model} has no token for every byte of text")
        channel: Answer = Channel()
        layers = prompt_layer or layer, layer
        return Generation(self._chat(request, already, rules, layers, channel), channel.abort)

    def count_tokens(self, request: Request) -> int:
        """The tokens of the prompt that `generate` would read, and of the tools' descriptions."""
        words = self.load().vocabulary
        count = len(_tokens(words, self._prompt(request)))
        if request.tools:
            from edgewise.calls.prompt import render_tools  # noqa: PLC0415 - only with tools

            count += len(words.tokenize(render_tools(request.tools), start=False))
        return count

    def write_call(self, call: CallToWrite) -> Generation:
        """A raw completion, greedy. Log-probabilities are those before the grammar's mask."""
        if call.grammar and not self._spells_plain_text:
            raise GenerationFailed(f"{self._facts.model} has no token for every byte of text")
        channel: Answer = Channel()
        return Generation(self._call(call, channel), channel.abort)

    def close(self) -> None:
        """Stop what still runs and free the model. The next request loads it again."""
        with self._loading:
            _close(self._opened)
            self._prefix_tokens.cache_clear()

    def forget(self) -> None:
        self._loading = threading.Lock()
        while self._opened:
            self._opened.pop().orphan()

    def load(self) -> Decoder:
        """Load the weights unless they are loaded; a fifth of a second for the default model."""
        from edgewise.local.decoder import Decoder  # noqa: PLC0415

        with self._loading:
            if not self._opened:
                self._opened.append(Decoder(self._open()))
            return self._opened[0]

    def passes(self) -> int:
        """How often the weights were gone through: whoever watches sees that it does not hang."""
        return self._opened[0].passes if self._opened else 0

    @cached_property
    def _spells_plain_text(self) -> bool:
        """Otherwise a grammar could require text without tokens, and the runtime would abort."""
        from edgewise.grammar.tools import PLAIN_BYTES  # noqa: PLC0415 - only for grammars

        return self._spelt_bytes() >= PLAIN_BYTES

    def _chat(
        self,
        request: Request,
        already: str,
        rules: str,
        layers: tuple[int, int],
        answer: Answer,
    ) -> TokenStream:
        from edgewise.local.decoder import Dice, Job  # noqa: PLC0415

        words = self.load().vocabulary
        drawn = request.temperature > 0
        prompt = self._prompt(request) + already
        yield from self._run(
            Job(
                prompt=self._fitting(_tokens(words, prompt)),
                answer=answer,
                max_tokens=1 if request.labels else request.device_tokens,
                labels=self._labelled(prompt, request.labels),
                dice=Dice(request.temperature, request.seed) if drawn else None,
                stop=request.stop,
                alternatives=request.evidence,
                prompt_layer=layers[0],
                layer=layers[1],
                owner=request.owner,
                grammar=words.grammar(rules) if rules else None,  # last: only the loop frees it
            )
        )

    def _labelled(self, prompt: str, labels: Sequence[str]) -> list[tuple[str, int]]:
        """The token that each label is behind the prompt's last line, as the model writes it."""
        words = self.load().vocabulary
        last = prompt[prompt.rfind("\n") :]  # tokens do not reach over it into what was said
        known = words.tokenize(last, start=False)
        found = []
        for label in labels:
            token = words.tokenize(last + label, start=False)
            if token[:-1] != known:
                raise GenerationFailed(f"{self._facts.model} has no token for the label {label!r}")
            found.append((label, token[-1]))
        return found

    def _prompt(self, request: Request) -> str:
        """The conversation as the model's template writes it."""
        words = self.load().vocabulary
        turns = with_system(plain_turns(request.messages), self._system)
        for turn in turns:
            turn["content"] = _plain(words, turn["content"])
        prompt = render_turns(words.template, turns, bos=words.bos, eos=words.eos)
        # The tokenizer adds it again.
        return prompt.removeprefix(words.bos) if words.adds_bos else prompt

    def _call(self, call: CallToWrite, answer: Answer) -> TokenStream:
        from edgewise.local.decoder import Job  # noqa: PLC0415

        words = self.load().vocabulary
        prompt, prefix, begun = call.prompt + call.already, call.prefix, call.already
        shared = self._prefix_tokens(prefix) if prefix and prompt.startswith(prefix) else ()
        rest = prompt.removeprefix(prefix) if shared else prompt
        tokens = [*shared, *words.tokenize(rest, start=not shared)]
        drafts = [one.removeprefix(begun) for one in call.drafts if one.startswith(begun)]
        yield from self._run(
            Job(
                prompt=self._fitting(tokens),
                answer=answer,
                max_tokens=call.max_tokens,
                drafts=[words.tokenize(draft, start=False) for draft in drafts if draft],
                copied_after=WORDS_COPIED_AFTER,
                alternatives=True,  # those of the first token say how likely `none` was
                tells_end=True,
                names_special=True,
                prefix=len(shared),
                owner=call.owner,
                # Last: only the loop frees it.
                grammar=words.grammar(call.grammar) if call.grammar else None,
            )
        )

    def _tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self.load().vocabulary.tokenize(text))

    def _fitting(self, prompt: list[int]) -> list[int]:
        room = self._facts.context_tokens
        if len(prompt) >= room:
            raise ContextExceeded(len(prompt), room)
        return prompt

    def _run(self, job: Job) -> TokenStream:
        decoder = self.load()
        decoder.submit(job)
        measured = False
        try:
            for item in job.items():
                if isinstance(item, Finish):
                    self._measure(job)
                    measured = True
                yield item
        finally:
            if not measured:
                self._measure(job)
            decoder.cancel(job)

    def _measure(self, job: Job) -> None:
        """Of one that was cut, too: who reads too slowly to be waited for is told so next time."""
        if not job.began:
            return
        now, fresh, written = time.monotonic(), job.read - job.cached, len(job.written)
        reading_s = (job.answering or now) - job.began
        self._facts = with_speeds(
            self._facts,
            read=fresh,
            read_per_s=fresh / max(reading_s, 1e-6),
            written=written,
            written_per_s=written / max(now - job.answering, 1e-6),
        )


def _plain(words: Words, text: str) -> str:
    """What somebody said, with a BREAK in each control token of the model that it spells.

    Otherwise `<|im_end|>` in a text would end the turn, and what follows could speak as the system.
    """
    text = text.replace(BREAK, "")
    while _BRACKETS.search(text):
        told = {token for token in _tokens(words, text, start=False) if not words.piece(token)}
        names = [name for name in map(words.name_of, told) if len(name) > 1 and name in text]
        if not names:
            break
        for name in names:
            text = text.replace(name, f"{name[0]}{BREAK}{name[1:]}")
    return text


def _tokens(words: Words, text: str, *, start: bool = True) -> list[int]:
    """What stands on both sides of a BREAK is read by itself, so that it is no control token."""
    first, *others = text.split(BREAK)
    tokens = words.tokenize(first, start=start)
    for other in others:
        tokens += words.tokenize(other, start=False)
    return tokens


def _unconverted(model: InstalledModel) -> str:
    """The key of the GGUF file's calibration."""
    name = model.name.removesuffix(f"@{model.runtime}")
    return f"{name}-{model.quantisation}".lower().replace("/", "-")


def _close(opened: list[Decoder]) -> None:
    while opened:
        opened.pop().close()


# -- llama.cpp -------------------------------------------------------------------------------------


class LlamaLoop(LoopBackend):
    """One GGUF file. Its slots share each pass through the weights."""

    def __init__(
        self,
        model: InstalledModel,
        *,
        threads: int,
        context_tokens: int,
        slots: int = 1,
        gpu: str = "auto",
        library: str = "",
    ) -> None:
        gives_layers = architecture_of(model.path) in LAYER_ARCHITECTURES
        super().__init__(
            model,
            backend=LLAMA_CPP,
            threads=threads,
            context_tokens=context_tokens,
            slots=slots,
            layers=layers_of(model.path) if gives_layers else 0,
        )
        self._path = model.path
        self._gpu = gpu
        self._library = library

    @override
    def _open(self) -> Runtime:
        from edgewise.local.decoder import BATCH  # noqa: PLC0415
        from edgewise.local.llama_runtime import LlamaRuntime, Weights  # noqa: PLC0415

        tokens, slots = self._facts.context_tokens, self._facts.slots
        layers = layers_on_gpu(
            self._gpu, self._path, context_tokens=tokens, slots=slots, batch=BATCH
        )
        weights = Weights(load_api(self._library), self._path, gpu_layers=layers)
        try:
            return LlamaRuntime(weights, threads=self._threads, context_tokens=tokens, slots=slots)
        except BaseException:
            weights.close()
            raise

    @override
    def _spelt_bytes(self) -> frozenset[int]:
        return spelt_bytes(self._path)


Llama = LlamaLoop | LlamaServer
