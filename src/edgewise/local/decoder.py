"""The decode loop over llama.cpp's C API: batches, slots, drafts, evidence, kept prefixes.

Read from the bottom: `Decoder` runs all requests of one model on one thread, as long as there are
any. In each step it puts the next tokens of every request into one batch, lets the model read it,
and hands each request its logits. `Job` is one request: it chooses tokens and proposes drafts.
A draft is verified in the same pass: a drafted token counts only if the model chooses it as well,
so the answer is the same as without a draft.
"""

from __future__ import annotations

import codecs
import ctypes
import hashlib
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.errors import GenerationFailed
from edgewise.local.forks import abandon
from edgewise.local.generation import Channel
from edgewise.local.llama_api import (
    LAYER_ARCHITECTURES,
    RELEASES,
    Api,
    Batch,
    Candidate,
    Candidates,
    c_function,
    quiet,
)
from edgewise.types.tokens import Finish, FinishReason, Token

ALTERNATIVES = 5  # best tokens reported with each token; enough for margin and entropy
BATCH = 128  # tokens in one pass: about half a second of a small model on one core
TOP_K, TOP_P, MIN_P = 40, 0.95, 0.05  # llama.cpp's own defaults for sampling
LIKELY = np.float32(9.0)  # nats below the best token: the best few are nearly always within this
FEW = 64  # tokens to try against a grammar before the whole vocabulary
# Drafts. A pass of five tokens costs about as much as three single ones, so a drafted token must
# be right nearly every second time.
COPIED_AFTER = 6  # tokens that must repeat before what followed them in the prompt is drafted
LONGEST_COPY = 4  # tokens drafted at a time from the prompt
LEAST_TRIED = 8  # drafted tokens before their share counts
WORTH_DRAFTING = 0.5  # share of drafted tokens that must be right, or copying stops
ALIGNED_AFTER = 2  # tokens that must agree with a draft before it is followed again
LONGEST_DRAFT = 64
KEPT_BYTES = 48 * 2**20  # of prefixes in memory
LEAST_KEPT = 32  # tokens: computing fewer is as fast as restoring them
MOST_FILES, MOST_FILE_BYTES = 16, 256 * 2**20  # of prefixes on disk
MOST_VIEWS = 1_000
_DIGEST_BYTES = 32

Floats = npt.NDArray[np.float32]
BLOCK = 8_192  # logits at a time: what fits into the fastest cache is read from memory once
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Weights:
    """A loaded model: its vocabulary, its template, and what it says about itself."""

    def __init__(self, api: Api, path: Path, *, gpu_layers: int = 0) -> None:
        self.api, self.path = api, path
        params = api.model_default_params()
        params.n_gpu_layers = gpu_layers
        self.pointer = api.model_load_from_file(os.fsencode(path), params)
        if not self.pointer:
            raise GenerationFailed(f"llama.cpp could not load {path}")
        self.vocab = api.model_get_vocab(self.pointer)
        self.size = int(api.vocab_n_tokens(self.vocab))
        self.width = int(api.model_n_embd(self.pointer))
        self.layers = int(api.model_n_layer(self.pointer))
        self.template = (api.model_chat_template(self.pointer, None) or b"").decode(
            "utf-8", "replace"
        )
        self.gives_layers = self.told("general.architecture") in LAYER_ARCHITECTURES
        self._pieces: dict[tuple[int, bool], bytes] = {}

    def told(self, name: str) -> str:
        """A value of the file's metadata as text; empty if it has none."""
        room = ctypes.create_string_buffer(256)
        length = self.api.model_meta_val_str(self.pointer, name.encode(), room, len(room))
        return room.value.decode("utf-8", "replace") if length >= 0 else ""

    def tokenize(self, text: str, *, start: bool = True) -> list[int]:
        """The tokens of a text, special ones included. `start`: with what begins every prompt."""
        data = text.encode("utf-8", "replace")
        room = (ctypes.c_int32 * (len(data) + 8))()
        count = self.api.tokenize(self.vocab, data, len(data), room, len(room), start, True)
        if count < 0:
            raise GenerationFailed("llama.cpp could not read the prompt's text")
        return list(room[:count])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; of a special one only if asked for."""
        key = (token, special)
        if key not in self._pieces:
            room = ctypes.create_string_buffer(256)
            call = self.api.token_to_piece
            length = call(self.vocab, token, room, len(room), 0, special)
            if length < 0:
                room = ctypes.create_string_buffer(-length)
                length = call(self.vocab, token, room, len(room), 0, special)
            self._pieces[key] = room.raw[:length]
        return self._pieces[key]

    def name_of(self, token: int) -> str:
        return self.piece(token, special=True).decode("utf-8", "replace")

    def ends(self, token: int) -> bool:
        return bool(self.api.vocab_is_eog(self.vocab, token))

    @property
    def bos(self) -> str:
        token = int(self.api.vocab_bos(self.vocab))
        return self.name_of(token) if token >= 0 else ""

    @property
    def eos(self) -> str:
        token = int(self.api.vocab_eos(self.vocab))
        return self.name_of(token) if token >= 0 else ""

    @property
    def adds_bos(self) -> bool:
        return bool(self.api.vocab_get_add_bos(self.vocab))

    def close(self) -> None:
        if self.pointer:
            self.api.model_free(self.pointer)
            self.pointer = None


class Grammar:
    """What may be written next, by llama.cpp's grammar. Only grammars that we wrote come here."""

    def __init__(self, weights: Weights, text: str) -> None:
        self._api = weights.api
        with quiet():
            self._pointer = self._api.sampler_init_grammar(weights.vocab, text.encode(), b"root")
        if not self._pointer:
            raise GenerationFailed("llama.cpp could not read the grammar")

    def allowed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        rows = np.zeros(len(tokens), _CANDIDATE)
        rows["id"] = tokens
        pointer = rows.ctypes.data_as(ctypes.POINTER(Candidate))
        self._api.sampler_apply(
            self._pointer, ctypes.byref(Candidates(pointer, len(rows), -1, False))
        )
        fitting: npt.NDArray[np.bool_] = rows["logit"] == 0
        return fitting

    def best(self, logits: Floats) -> int:
        """The likeliest token that may come next. Likelier ones are tried first: that is quick."""
        for count in (1, FEW, len(logits)):
            tokens = _best(logits, count)
            fitting = tokens[self.allowed(tokens)]
            if len(fitting):
                return int(fitting[0])
        raise GenerationFailed("llama.cpp: the grammar allows no token")

    def mask(self, logits: Floats) -> Floats:
        allowed = self.allowed(np.arange(len(logits)))
        if not allowed.any():
            raise GenerationFailed("llama.cpp: the grammar allows no token")
        return np.where(allowed, logits, np.float32(-np.inf))

    def accept(self, token: int) -> None:
        """Only for a token that is allowed: another one would end the process."""
        self._api.sampler_accept(self._pointer, token)

    def close(self) -> None:
        if self._pointer:
            self._api.sampler_free(self._pointer)
            self._pointer = None


class Dice:
    """Draws tokens as llama.cpp does by default: of the best few, by their probability."""

    def __init__(self, temperature: float, seed: int) -> None:
        self._temperature = temperature
        self._random = np.random.default_rng(abs(seed))

    def draw(self, logits: Floats) -> int:
        tokens = _best(logits, TOP_K)
        chances = _softmax(logits[tokens])
        within = np.cumsum(chances) - chances < TOP_P
        tokens = tokens[within & (chances >= MIN_P * chances[0])]
        heated = _softmax(logits[tokens].astype(np.float64) / self._temperature)
        return int(self._random.choice(tokens, p=heated / heated.sum()))


def _log_total(logits: Floats, peak: np.float32) -> float:
    """The logarithm of the sum of all powers: what a logit is measured from.

    Nearly all of its time is reading memory, so it goes through the logits once, block by block.
    """
    total = 0.0
    for start in range(0, len(logits), BLOCK):
        powers = logits[start : start + BLOCK] - peak
        np.exp(powers, out=powers)
        total += float(powers.sum())
    return float(peak) + math.log(total)


def _best(logits: Floats, count: int) -> npt.NDArray[np.int64]:
    """The likeliest tokens, best first."""
    if count == 1:
        return np.array([logits.argmax()])
    if count >= len(logits):
        return np.argsort(-logits, kind="stable")
    likely = np.flatnonzero(logits > logits[logits.argmax()] - LIKELY)
    if len(likely) < count:
        likely = np.argpartition(logits, -count)[-count:]
    elif len(likely) > FEW:
        likely = likely[np.argpartition(logits[likely], -count)[-count:]]
    return likely[np.argsort(-logits[likely], kind="stable")[:count]]


def _softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    powers = np.exp(logits - logits.max())
    chances: npt.NDArray[Any] = powers / powers.sum()
    return chances


Answer = Channel[Token | Finish]


@dataclass(eq=False, slots=True, kw_only=True)
class Job:
    """One request: its prompt, how its answer is chosen, and where the answer goes."""

    prompt: Sequence[int]
    answer: Answer
    max_tokens: int
    grammar: Grammar | None = None
    dice: Dice | None = None
    stop: tuple[str, ...] = ()
    drafts: Sequence[Sequence[int]] = ()  # what the answer probably is, the likeliest first
    copied_after: int = COPIED_AFTER
    alternatives: bool = False
    tells_end: bool = False  # the end token is evidence too
    names_special: bool = False  # special tokens in the answer come as text
    layer: int = 0  # whose input comes with each token; 0: none
    prompt_layer: int = 0  # the same for the first token
    prefix: int = 0  # tokens of the prompt that later requests share, worth a file
    owner: str = ""  # what is kept of the prompt serves nobody else

    cached: int = 0
    written: list[int] = field(default_factory=list)
    passes: int = 0
    began: float = 0.0
    answering: float = 0.0  # since when
    done: bool = False
    _tried: int = 0  # tokens copied from the prompt as a draft
    _right: int = 0
    _held: str = ""  # text that may be the beginning of a stop string
    _decode: Any = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    def items(self) -> Iterator[Token | Finish]:
        """What the answer brings, for its one reader. Raises GenerationFailed if it breaks off."""
        while True:
            item = self.answer.queue.get()
            if isinstance(item, GenerationFailed):
                raise item
            if isinstance(item, BaseException):
                raise GenerationFailed(f"llama.cpp: {item}") from item
            if item is None:
                raise GenerationFailed("llama.cpp stopped before the answer was finished")
            yield item
            if isinstance(item, Finish):
                return

    def proposal(self, room: int) -> tuple[list[int], bool]:
        """The tokens that will probably come next, and whether they are a copy of the prompt."""
        if self.dice is not None or room <= 0:
            return [], False
        drafted = self._drafted()[: min(room, LONGEST_DRAFT)]
        if drafted:
            return drafted, False
        return self._copied(min(room, LONGEST_COPY)), True

    def _drafted(self) -> list[int]:
        """How a draft goes on that began as the answer did, or that agrees with its end."""
        count = len(self.written)
        for draft in self.drafts:
            if len(draft) > count and list(draft[:count]) == self.written:
                return list(draft[count:])
        last = self.written[-ALIGNED_AFTER:]
        if len(last) == ALIGNED_AFTER:
            for draft in self.drafts:
                if (behind := _behind(draft, last)) is not None:
                    return list(draft[behind:])
        return []

    def _copied(self, room: int) -> list[int]:
        if self._tried >= LEAST_TRIED and self._right < WORTH_DRAFTING * self._tried:
            return []
        last = self.written[-self.copied_after :]
        behind = _behind(self.prompt, last) if len(last) == self.copied_after else None
        return [] if behind is None else list(self.prompt[behind : behind + room])

    def take(self, weights: Weights, logits: Floats, state: Floats | None) -> int:
        """Choose the next token, and send it out with its evidence."""
        best = _best(logits, ALTERNATIVES)
        total = _log_total(logits, logits[best[0]])
        token = self._choose(logits, int(best[0]))
        if not self.written:
            self.answering = time.monotonic()
        self.written.append(token)
        ended = weights.ends(token)
        piece = weights.piece(token, special=self.names_special)
        text, stopped = ("", False) if ended else self._text(piece)
        if not ended or self.tells_end:
            logprobs = [float(logits[each]) - total for each in best]
            margin, entropy = _spread(logprobs)
            named = tuple(
                (weights.name_of(int(each)), logprob)
                for each, logprob in zip(best, logprobs, strict=True)
                if self.alternatives
            )
            logprob = float(logits[token]) - total
            self.answer.queue.put(
                Token(text, logprob, margin, entropy, alternatives=named, state=state)
            )
        if ended or stopped:
            self._end("stop", state if ended else None)
        elif len(self.written) >= self.max_tokens:
            self._end("length", None)
        return token

    def judge_copy(self, tried: int, right: int) -> None:
        """Note how much of a copy was right: with too little of it, copying stops."""
        self._tried += tried
        self._right += right

    def cut(self) -> None:
        """The context is full."""
        self._end("length", None)

    def fail(self, error: BaseException) -> None:
        self.done = True
        self.answer.queue.put(error)

    def drop(self) -> None:
        """Nobody waits for the answer any more, or nobody should."""
        self.done = True
        self.answer.queue.put(None)

    def _choose(self, logits: Floats, best: int) -> int:
        if self.grammar is None:
            return best if self.dice is None else self.dice.draw(logits)
        if self.dice is None:
            token = self.grammar.best(logits)
        else:
            token = self.dice.draw(logits)
            if not self.grammar.allowed(np.array([token]))[0]:
                token = self.dice.draw(self.grammar.mask(logits))
        self.grammar.accept(token)
        return token

    def _text(self, piece: bytes) -> tuple[str, bool]:
        """The text that may be shown now, and whether a stop string came."""
        try:
            text = self._held + self._decode.decode(piece)
        except UnicodeDecodeError:  # bytes that are no text
            self._decode.reset()
            text = self._held + piece.decode("utf-8", "replace")
        self._held = ""
        for stop in self.stop:
            if (place := text.find(stop)) >= 0:
                return text[:place], True
        held = max((_overlap(text, stop) for stop in self.stop), default=0)
        if held:
            text, self._held = text[:-held], text[-held:]
        return text, False

    def _end(self, reason: FinishReason, state: Floats | None) -> None:
        self.done = True
        if self._held:
            self.answer.queue.put(Token(self._held, has_evidence=False))
        finish = Finish(reason, len(self.prompt), len(self.written), self.cached)
        self.answer.queue.put(replace(finish, passes=self.passes, state=state))


def _spread(logprobs: Sequence[float]) -> tuple[float, float]:
    """How far apart the best two tokens are, and the entropy of the best few and the rest."""
    rest, entropy = 1.0, 0.0
    for logprob in logprobs:
        probability = math.exp(logprob)
        rest -= probability
        entropy -= probability * logprob
    if rest > 1e-9:
        entropy -= rest * math.log(rest)
    return logprobs[0] - logprobs[1], entropy


def _behind(tokens: Sequence[int], last: Sequence[int]) -> int | None:
    """The place behind the last occurrence of these tokens, if anything follows there."""
    length = len(last)
    for start in range(len(tokens) - length - 1, -1, -1):
        if tokens[start] == last[0] and list(tokens[start : start + length]) == list(last):
            return start + length
    return None


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text are the beginning of a stop string."""
    most = min(len(text), len(stop) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(stop[:count])), 0)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(place for place in range(most) if one[place] != other[place])


@dataclass(eq=False, slots=True)
class Slot:
    """One sequence of the context, and what its cache holds."""

    number: int
    tokens: list[int] = field(default_factory=list)
    owner: str = ""  # of the tokens
    job: Job | None = None
    used: int = 0

    def shared(self, job: Job) -> int:
        """How much of a job's prompt its cache holds; nothing, if it is somebody else's."""
        return common(self.tokens, list(job.prompt)) if self.owner == job.owner else 0


_Key = tuple[str, tuple[int, ...]]  # an owner, and tokens


class KeptStates:
    """What slots computed before other requests took them over. The oldest goes first."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._states: OrderedDict[_Key, Any] = OrderedDict()
        self._left = most_bytes

    def __len__(self) -> int:
        return len(self._states)

    def put(self, owner: str, tokens: Sequence[int], state: Any) -> None:
        key = owner, tuple(tokens)
        if len(state) > self._left + sum(map(len, self._states.values())):
            return
        if key in self._states:
            self._left += len(self._states.pop(key))
        while len(state) > self._left:
            self._left += len(self._states.popitem(last=False)[1])
        self._states[key] = state
        self._left -= len(state)

    def longest(self, owner: str, prompt: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """How much of a prompt the best of its owner's holds, and the tokens of that one."""
        wanted = tuple(prompt)
        own = (tokens for whose, tokens in self._states if whose == owner)
        return max(((common(tokens, wanted), tokens) for tokens in own), default=(0, ()))

    def get(self, owner: str, tokens: tuple[int, ...]) -> Any:
        self._states.move_to_end((owner, tokens))
        return self._states[owner, tokens]


class PrefixFiles:
    """Computed prefixes on disk, beside the weights. They hold tools' texts, no request.

    Which tools a client has is its own affair too: each owner has its own files.
    """

    def __init__(self, weights: Path, cache_type: str) -> None:
        self._folder = weights.parent / "prefixes"
        about = weights.stat()
        model = f"{RELEASES} {weights.name} {about.st_size} {about.st_mtime_ns} {cache_type}"
        self._model = model.encode()

    def read(self, owner: str, tokens: Sequence[int]) -> bytes | None:
        path = self._path(owner, tokens)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, state = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        return state if hashlib.sha256(state).digest() == digest else None

    def write(self, owner: str, tokens: Sequence[int], state: bytes) -> None:
        path = self._path(owner, tokens)
        with suppress(OSError):  # a read-only folder, a full disk: only slower
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._make_room(len(state))
            unfinished = path.with_suffix(f".{os.getpid()}.tmp")
            unfinished.write_bytes(hashlib.sha256(state).digest() + state)
            os.replace(unfinished, path)

    def _make_room(self, size: int) -> None:
        files = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)
        total = sum(each.stat().st_size for each in files)
        while files and (len(files) >= MOST_FILES or total + size > MOST_FILE_BYTES):
            oldest = files.pop(0)
            total -= oldest.stat().st_size
            oldest.unlink(missing_ok=True)

    def _path(self, owner: str, tokens: Sequence[int]) -> Path:
        whose = owner.encode("utf-8", "replace") + b"\0" if owner else b""
        spelled = self._model + whose + np.asarray(tokens, np.int32).tobytes()
        return self._folder / f"{hashlib.sha256(spelled).hexdigest()[:32]}.state"


class Decoder:
    """Runs jobs on one model. Its thread lives as long as there is a job."""

    def __init__(self, weights: Weights, *, threads: int, context_tokens: int, slots: int) -> None:
        api = self._api = weights.api
        self.weights = weights
        params = api.context_default_params()
        params.n_ctx, params.n_seq_max = context_tokens * slots, slots
        params.n_batch = params.n_ubatch = params.n_outputs_max_per_seq = BATCH
        params.n_threads = params.n_threads_batch = threads
        self._context = api.init_from_model(weights.pointer, params)
        if not self._context:
            raise GenerationFailed(f"llama.cpp has no memory for {weights.path.name}")
        self._check(threads, slots)
        self._memory = api.get_memory(self._context)
        self._room = int(api.n_ctx_seq(self._context))  # of each slot
        # Read by the runtime between operations: any digit but 0 makes it stop. No Python runs.
        self._flag = ctypes.create_string_buffer(b"0")
        api.set_abort_callback(
            self._context, c_function("atoi"), ctypes.cast(self._flag, ctypes.c_void_p)
        )
        self._batch = _Arrays(BATCH)
        self._slots = [Slot(number) for number in range(slots)]
        self._kept = KeptStates()
        self._files = PrefixFiles(weights.path, f"{params.type_k}/{params.type_v}")
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._worker: threading.Thread | None = None
        self.passes = 0  # through the model, for all jobs
        self._views: dict[tuple[int, int], Floats] = {}
        self._layers: set[int] = set()
        self._closed = False

    def submit(self, job: Job) -> None:
        with self._lock:
            if self._closed:
                raise GenerationFailed("llama.cpp was closed")
            job.answer.interrupt = self._interrupt
            self._waiting.append(job)
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="edgewise-llama", daemon=True
                )
                self._worker.start()

    def cancel(self, job: Job) -> None:
        """Stop a job soon, even inside a pass. Other jobs repeat that pass."""
        if not job.done:
            job.answer.cancel()

    def _interrupt(self) -> None:
        self._flag.value = b"1"

    def close(self) -> None:
        """Stop everything and free the memory."""
        with self._lock:
            self._closed = True
            jobs = [*self._waiting, *(slot.job for slot in self._slots if slot.job)]
            worker = self._worker
        for job in jobs:
            self.cancel(job)
        if worker is not None:
            worker.join()
        with self._lock:
            if self._context:
                self._api.free(self._context)
                self._context = None
                self.weights.close()

    def orphan(self) -> None:
        """In a forked child: nobody works on these jobs here. The memory stays as it is."""
        abandon(self)
        for job in (*self._waiting, *(slot.job for slot in self._slots if slot.job)):
            job.fail(GenerationFailed("llama.cpp works in the parent process, not in this fork"))

    def _check(self, threads: int, slots: int) -> None:
        """What was asked for must be what is there: a field that moved shows here."""
        api, context = self._api, self._context
        found = (
            api.n_batch(context),
            api.n_ubatch(context),
            api.n_seq_max(context),
            api.n_threads(context),
        )
        if found != (BATCH, BATCH, slots, threads):
            raise GenerationFailed(f"llama.cpp took other settings than it was given: {found}")

    def _work(self) -> None:
        while True:
            with self._lock:
                self._flag.value = b"0"
                self._admit()
                busy = [slot for slot in self._slots if slot.job is not None]
                if not busy:
                    self._worker = None
                    return
            try:
                self._step(busy)
            except BaseException as error:  # noqa: BLE001  # the readers raise it
                for slot in busy:
                    self._release(slot, error)

    def _admit(self) -> None:
        for job in list(self._waiting):
            if job.answer.cancelled.is_set():
                self._waiting.remove(job)
                job.drop()
                continue
            free = [slot for slot in self._slots if slot.job is None]
            if not free:
                return
            self._waiting.remove(job)
            try:
                self._place(job, free)
            except Exception as error:  # noqa: BLE001  # its reader raises it
                job.fail(error)

    def _place(self, job: Job, free: Sequence[Slot]) -> None:
        """Give a job the slot that has most of its prompt, or fill one from what was kept."""
        prompt = list(job.prompt)
        slot = max(free, key=lambda each: (each.shared(job), -each.used))
        shared = slot.shared(job)
        if len(slot.tokens) - shared >= LEAST_KEPT:  # else another request's work would be lost
            self._kept.put(slot.owner, slot.tokens, self._state_of(slot))
        kept, tokens = self._kept.longest(job.owner, prompt)
        if kept >= shared + LEAST_KEPT:
            self._restore(slot, job.owner, tokens, self._kept.get(job.owner, tokens))
        elif job.prefix >= shared + LEAST_KEPT:
            head = prompt[: job.prefix]
            state = self._files.read(job.owner, head)
            if state is not None:
                self._restore(slot, job.owner, head, state)
        self._cut(slot, min(slot.shared(job), len(prompt) - 1))
        slot.owner = job.owner
        job.cached, job.began = len(slot.tokens), time.monotonic()
        if job.cached >= job.prefix:
            job.prefix = 0  # nothing to save
        slot.job = job

    def _step(self, busy: Sequence[Slot]) -> None:
        """One pass: the next tokens of every job; those that answer come first."""
        for slot in busy:
            if slot.job is not None and slot.job.answer.cancelled.is_set():
                self._release(slot, None)
        batch, plans = self._batch, []
        batch.clear()
        jobs = [slot for slot in busy if slot.job is not None]
        for slot in sorted(jobs, key=lambda each: not (each.job and each.job.written)):
            plan = self._plan(slot, BATCH - len(batch))
            if plan is not None:
                plans.append(plan)
        if not plans:
            return
        self._watch_layers(plans)
        status = self._api.decode(self._context, batch.filled())
        if status == 2:  # called off in the middle; nothing counts
            for plan in plans:
                self._cut(plan.slot, len(plan.slot.tokens))
            return
        if status != 0:
            raise GenerationFailed(f"llama.cpp failed in a pass ({status})")
        self.passes += 1
        for plan in plans:
            self._hear(plan)

    def _plan(self, slot: Slot, room: int) -> _Plan | None:
        job = slot.job
        assert job is not None, "only busy slots are planned"
        have = len(slot.tokens)
        room = min(room, self._room - have)
        if room <= 0:
            if have >= self._room:
                job.cut()
                self._release(slot, None)
            return None
        if not job.written:
            rest = list(job.prompt[have:])
            if have < job.prefix:  # up to here it is worth a file
                rest = rest[: job.prefix - have]
            tokens, whole = rest[:room], have + min(len(rest), room) == len(job.prompt)
        else:
            tokens, whole = [job.written[-1]], True
        drafted, copied = job.proposal(room - len(tokens)) if whole else ([], False)
        first = self._batch.add(slot.number, have, tokens, outputs=1 if whole else 0)
        self._batch.add(slot.number, have + len(tokens), drafted, outputs=len(drafted))
        answers = range(first + len(tokens) - 1, first + len(tokens) + len(drafted))
        return _Plan(slot, tokens, drafted, answers if whole else range(0), copied)

    def _hear(self, plan: _Plan) -> None:
        slot, job = plan.slot, plan.slot.job
        assert job is not None, "a planned slot has a job"
        slot.tokens += plan.tokens
        job.passes += 1
        if job.prefix and len(slot.tokens) == job.prefix:
            self._files.write(slot.owner, slot.tokens, bytes(self._state_of(slot)))
            job.prefix = 0
        right = 0
        try:
            for number, row in enumerate(plan.answers):
                token = job.take(self.weights, self._logits(row), self._state(job, row))
                if job.done or number == len(plan.drafted) or plan.drafted[number] != token:
                    break
                right += 1
        except GenerationFailed as error:
            self._release(slot, error)
            return
        slot.tokens += plan.drafted[:right]
        if len(plan.drafted) > right:
            self._cut(slot, len(slot.tokens))
        if plan.copied:
            job.judge_copy(len(plan.drafted), right)
        if job.done:
            self._release(slot, None)

    def _logits(self, row: int) -> Floats:
        address = self._api.get_logits_ith(self._context, row)
        if not address:
            raise GenerationFailed("llama.cpp gave no logits")
        return self._floats_at(address, self.weights.size)

    def _floats_at(self, address: int, count: int) -> Floats:
        """The runtime's own memory as an array; it mostly gives out the same places."""
        if (address, count) not in self._views:
            if len(self._views) > MOST_VIEWS:
                self._views.clear()
            floats: Any = (ctypes.c_float * count).from_address(address)
            self._views[address, count] = np.frombuffer(floats, np.float32)
        return self._views[address, count]

    def _watch_layers(self, plans: Sequence[_Plan]) -> None:
        jobs = [plan.slot.job for plan in plans if plan.slot.job]
        wanted = {layer for job in jobs for layer in (job.layer, job.prompt_layer) if layer}
        if wanted != self._layers and self.weights.gives_layers:
            for layer in wanted ^ self._layers:
                self._api.set_embeddings_layer_inp(self._context, layer, layer in wanted)
            self._layers = wanted

    def _state(self, job: Job, row: int) -> Floats | None:
        layer = job.layer if job.written else job.prompt_layer
        if layer not in self._layers:
            return None
        address = self._api.get_embeddings_layer_inp(self._context, layer)
        if not address:
            return None
        width = self.weights.width
        start = address + row * width * ctypes.sizeof(ctypes.c_float)
        return self._floats_at(start, width).copy()

    def _release(self, slot: Slot, error: BaseException | None) -> None:
        job, slot.job, slot.used = slot.job, None, self.passes
        self._cut(slot, len(slot.tokens))
        if job is not None:
            if job.grammar is not None:
                job.grammar.close()
            if error is not None:
                job.fail(error)
            elif not job.done:
                job.drop()

    def _cut(self, slot: Slot, length: int) -> None:
        """Forget what a slot holds from here on."""
        if not self._api.memory_seq_rm(self._memory, slot.number, length, -1):
            self._api.memory_seq_rm(self._memory, slot.number, -1, -1)
            length = 0
        del slot.tokens[length:]

    def _state_of(self, slot: Slot) -> Any:
        size = self._api.state_seq_get_size(self._context, slot.number)
        room = (ctypes.c_uint8 * size)()
        self._api.state_seq_get_data(self._context, room, size, slot.number)
        return room

    def _restore(self, slot: Slot, owner: str, tokens: Sequence[int], state: Any) -> None:
        self._cut(slot, 0)
        size = len(state)
        room = (
            (ctypes.c_uint8 * size).from_buffer_copy(state) if isinstance(state, bytes) else state
        )
        read = self._api.state_seq_set_data(self._context, room, size, slot.number)
        slot.owner, slot.tokens = owner, list(tokens) if read else []


@dataclass(frozen=True, slots=True)
class _Plan:
    """A slot's part of one batch: its tokens, its draft, and the rows that answer."""

    slot: Slot
    tokens: list[int]
    drafted: list[int]
    answers: range
    copied: bool  # the draft is a copy of the prompt


class _Arrays:
    """The arrays that a batch points to, made once."""

    def __init__(self, most: int) -> None:
        self._batch = Batch()
        self._token = (ctypes.c_int32 * most)()
        self._position = (ctypes.c_int32 * most)()
        self._sequence = (ctypes.c_int32 * most)()
        self._sequences = (ctypes.POINTER(ctypes.c_int32) * most)()
        self._counts = (ctypes.c_int32 * most)(*([1] * most))
        self._output = (ctypes.c_int8 * most)()
        size, start = ctypes.sizeof(ctypes.c_int32), ctypes.addressof(self._sequence)
        for place in range(most):
            one = ctypes.cast(start + place * size, ctypes.POINTER(ctypes.c_int32))
            self._sequences[place] = one
        batch = self._batch
        batch.token, batch.pos, batch.n_seq_id = self._token, self._position, self._counts
        batch.seq_id, batch.logits = self._sequences, self._output
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        self._length = 0

    def add(self, sequence: int, position: int, tokens: Sequence[int], *, outputs: int) -> int:
        """Append tokens; the last `outputs` of them give logits. Returns where they begin."""
        first = self._length
        for number, token in enumerate(tokens):
            place = first + number
            self._token[place], self._position[place] = token, position + number
            self._sequence[place] = sequence
            self._output[place] = number >= len(tokens) - outputs
        self._length += len(tokens)
        return first

    def filled(self) -> Batch:
        self._batch.n_tokens = self._length
        return self._batch
