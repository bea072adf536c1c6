"""Chat and function calls on a runtime that our own decode loop drives (decoder.py)."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from edgewise.calls.grammar import PLAIN_BYTES
from edgewise.errors import ContextExceeded, GenerationFailed, SchemaUnsupported
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.local.chat_prompt import plain_turns, render_turns, with_system
from edgewise.local.forks import forget_at_fork
from edgewise.local.generation import Channel, Generation, with_speeds
from edgewise.local.response_grammar import compile_answer
from edgewise.local.store.store import InstalledModel
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish

if TYPE_CHECKING:  # brings numpy, which loads slowly: with the first model
    from edgewise.local.decoder import Answer, Decoder, Job, Runtime

WORDS_COPIED_AFTER = 2  # tokens: the values of a call are mostly words of the request
_KEPT_PREFIXES = 32  # texts whose tokens are remembered


class LoopBackend(ABC):
    """One model, loaded when first used. Its slots share the decode loop.

    A request goes to the slot whose last prompt begins like its own, and reuses that if it is of
    the same owner. If all slots are busy, it waits. Every slot has the whole context window.
    """

    def __init__(
        self,
        model: InstalledModel,
        *,
        engine: str,
        threads: int,
        context_tokens: int,
        slots: int,
        layers: int = 0,  # of a runtime that gives their inputs
    ) -> None:
        self._system = model.row.default_system if model.row else ""
        self._facts = DeviceFacts(
            backend=engine,
            model=model.name,
            quantisation=model.quantisation,
            context_tokens=context_tokens,
            schemas=True,
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
            rules = compile_answer(request.response_format.schema)
            if not self._spells_plain_text:
                raise SchemaUnsupported(f"{self._facts.model} has no token for every byte of text")
        channel: Answer = Channel()
        layers = prompt_layer or layer, layer
        return Generation(self._chat(request, already, rules, layers, channel), channel.abort)

    def count_tokens(self, request: Request) -> int:
        """The tokens of the prompt that `generate` would read, and of the tools' descriptions."""
        words = self.load().vocabulary
        count = len(words.tokenize(self._prompt(request)))
        if request.tools:
            from edgewise.calls.prompt import render_tools  # noqa: PLC0415 - only with tools

            count += len(words.tokenize(render_tools(request.tools), start=False))
        return count

    def write_call(
        self,
        prompt: str,
        *,
        grammar: str = "",
        max_tokens: int = 400,
        seed: int = 0,  # greedy: chance plays no part
        already: str = "",
        drafts: Sequence[str] = (),
        prefix: str = "",
        owner: str = "",
    ) -> Generation:
        """A raw completion, greedy. Log-probabilities are those before the grammar's mask."""
        if grammar and not self._spells_plain_text:
            raise GenerationFailed(f"{self._facts.model} has no token for every byte of text")
        channel: Answer = Channel()
        begun = [draft.removeprefix(already) for draft in drafts if draft.startswith(already)]
        text = prompt + already
        written = self._call(text, prefix, grammar, max_tokens, begun, owner, channel)
        return Generation(written, channel.abort)

    def close(self) -> None:
        """Stop what still runs and free the model. The next request loads it again."""
        with self._loading:
            _close(self._opened)
            self._prefix_tokens.cache_clear()

    def _forget(self) -> None:
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
        yield from self._run(
            Job(
                prompt=self._fitting(words.tokenize(self._prompt(request) + already)),
                answer=answer,
                max_tokens=request.max_tokens,
                grammar=words.grammar(rules) if rules else None,
                dice=Dice(request.temperature, request.seed) if drawn else None,
                stop=request.stop,
                alternatives=request.evidence,
                prompt_layer=layers[0],
                layer=layers[1],
                owner=request.owner,
            )
        )

    def _prompt(self, request: Request) -> str:
        """The conversation as the model's template writes it."""
        words = self.load().vocabulary
        turns = with_system(plain_turns(request.messages), self._system)
        prompt = render_turns(words.template, turns, bos=words.bos, eos=words.eos)
        # The tokenizer adds it again.
        return prompt.removeprefix(words.bos) if words.adds_bos else prompt

    def _call(
        self,
        prompt: str,
        prefix: str,
        grammar: str,
        max_tokens: int,
        drafts: Sequence[str],
        owner: str,
        answer: Answer,
    ) -> TokenStream:
        from edgewise.local.decoder import Job  # noqa: PLC0415

        words = self.load().vocabulary
        shared = self._prefix_tokens(prefix) if prefix and prompt.startswith(prefix) else ()
        rest = prompt.removeprefix(prefix) if shared else prompt
        tokens = [*shared, *words.tokenize(rest, start=not shared)]
        yield from self._run(
            Job(
                prompt=self._fitting(tokens),
                answer=answer,
                max_tokens=max_tokens,
                grammar=words.grammar(grammar) if grammar else None,
                drafts=[words.tokenize(draft, start=False) for draft in drafts if draft],
                copied_after=WORDS_COPIED_AFTER,
                alternatives=True,  # those of the first token say how likely `none` was
                tells_end=True,
                names_special=True,
                prefix=len(shared),
                owner=owner,
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
        try:
            for item in job.items():
                if isinstance(item, Finish):
                    self._measure(job)
                yield item
        finally:
            decoder.cancel(job)

    def _measure(self, job: Job) -> None:
        now, fresh, written = time.monotonic(), len(job.prompt) - job.cached, len(job.written)
        self._facts = with_speeds(
            self._facts,
            read=fresh,
            read_per_s=fresh / max(job.answering - job.began, 1e-6),
            written=written,
            written_per_s=written / max(now - job.answering, 1e-6),
        )


def _unconverted(model: InstalledModel) -> str:
    """The key of the GGUF file's calibration."""
    name = model.name.removesuffix(f"@{model.engine}")
    return f"{name}-{model.quantisation}".lower().replace("/", "-")


def _close(opened: list[Decoder]) -> None:
    while opened:
        opened.pop().close()
