"""The decode loop of every runtime that gives logits: slots, drafts, evidence, kept prefixes.

Read from the bottom: `Decoder` runs all requests of one model on one thread, as long as there are
any. In each step it lets the runtime read the next tokens of every request, and hands each request
its logits. `Job` is one request: it chooses tokens and proposes drafts. A draft is verified in the
same pass: a drafted token counts only if the model chooses it as well, so the answer is the same as
without a draft. `Runtime` is what the loop needs of a runtime: llama.cpp is one
(llama_runtime.py), and any `Steps` of packages/edgewise-engines is another (logits_loop.py).
"""

from __future__ import annotations

import codecs
import hashlib
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from edgewise.errors import GenerationFailed
from edgewise.local.backend import Channel, abandon
from edgewise.types.replies import Finish, FinishReason, Token

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
_DIGEST_BYTES = 32

Floats = npt.NDArray[np.float32]
BLOCK = 8_192  # logits at a time: what fits into the fastest cache is read from memory once


class Rules(ABC):
    """What may be written next, by a grammar. Only grammars that we wrote come here."""

    @abstractmethod
    def allowed(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these tokens may come next."""

    @abstractmethod
    def accept(self, token: int) -> None:
        """Only for a token that is allowed: another one may end the process."""

    @abstractmethod
    def none_left(self) -> GenerationFailed:
        """The error that no token is allowed."""

    @abstractmethod
    def close(self) -> None: ...

    def best(self, logits: Floats) -> int:
        """The likeliest token that may come next. Likelier ones are tried first: that is quick."""
        for count in (1, FEW, len(logits)):
            tokens = best_tokens(logits, count)
            fitting = tokens[self.allowed(tokens)]
            if len(fitting):
                return int(fitting[0])
        raise self.none_left()

    def mask(self, logits: Floats) -> Floats:
        """The logits of the tokens that may come next; the others are minus infinity."""
        allowed = self.allowed(np.arange(len(logits)))
        if not allowed.any():
            raise self.none_left()
        return np.where(allowed, logits, np.float32(-np.inf))


class Words(Protocol):
    """A model's vocabulary, and its template."""

    size: int
    template: str

    @property
    def bos(self) -> str: ...

    @property
    def eos(self) -> str: ...

    @property
    def adds_bos(self) -> bool:
        """Whether `tokenize` begins a prompt with `bos`."""
        ...

    def tokenize(self, text: str, *, start: bool = True) -> list[int]:
        """The tokens of a text, special ones included. `start`: with what begins every prompt."""
        ...

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token; of a special one only if asked for."""
        ...

    def name_of(self, token: int) -> str: ...

    def ends(self, token: int) -> bool:
        """Whether it ends an answer."""
        ...

    def grammar(self, text: str) -> Rules:
        """Raises GenerationFailed if it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class SlotPart:
    """A slot's tokens in one pass, from a position on. The last `answers` of them give logits."""

    slot: int
    position: int
    tokens: list[int]
    answers: int


class Rows(Protocol):
    """What a pass says about the answers of one part; valid until the next one is read."""

    def logits(self, number: int) -> Floats: ...

    def state(self, number: int, layer: int) -> Floats | None:
        """The input of a layer; None if the runtime has none."""
        ...


class Saver(Protocol):
    """Saves what the slots of a runtime hold."""

    prefixes: PrefixFiles

    def save(self, slot: int) -> Any:
        """What a slot holds, as bytes that `restore` takes."""
        ...

    def restore(self, slot: int, state: Any) -> bool:
        """Fill an empty slot. Returns whether that worked."""
        ...


class Runtime(Protocol):
    """A loaded model, as this loop needs it. The loop calls it from one thread at a time."""

    name: str  # as errors call it
    slots: int  # sequences that it holds
    room: int  # tokens of each
    saver: Saver | None  # None: what a slot holds cannot be saved
    repeatable: bool  # reading a prompt in other pieces changes nothing that one would notice

    @property
    def vocabulary(self) -> Words: ...

    def read(self, parts: Sequence[SlotPart], layers: set[int]) -> Iterator[Rows]:
        """One pass. Yields the answers part by part; what it does not yield was called off.

        `layers` are those whose input somebody wants.
        """
        ...

    def interrupt(self) -> None:
        """From any thread: end the pass that runs as soon as possible, until `resume`."""
        ...

    def resume(self) -> None: ...

    def cut(self, slot: int, length: int) -> int:
        """Forget what a slot holds from here on. Returns how much is left: it may be less."""
        ...

    def close(self) -> None: ...


class Dice:
    """Draws tokens as llama.cpp does by default: of the best few, by their probability."""

    def __init__(self, temperature: float, seed: int) -> None:
        self._temperature = temperature
        self._random = np.random.default_rng(abs(seed))

    def draw(self, logits: Floats) -> int:
        tokens = best_tokens(logits, TOP_K)
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


def best_tokens(logits: Floats, count: int) -> npt.NDArray[np.int64]:
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
    grammar: Rules | None = None
    dice: Dice | None = None
    stop: tuple[str, ...] = ()
    drafts: Sequence[Sequence[int]] = ()  # what the answer probably is, the likeliest first
    copied_after: int = COPIED_AFTER
    alternatives: bool = False
    labels: Sequence[tuple[str, int]] = ()  # texts and their tokens: their chances are the answer
    tells_end: bool = False  # the end token is evidence too
    names_special: bool = False  # special tokens in the answer come as text
    layer: int = 0  # whose input comes with each token; 0: none
    prompt_layer: int = 0  # the same for the first token
    prefix: int = 0  # tokens of the prompt that later requests share, worth a file
    owner: str = ""  # what is kept of the prompt serves nobody else

    runtime: str = ""  # as errors call it
    cached: int = 0
    written: list[int] = field(default_factory=list)
    passes: int = 0
    began: float = 0.0
    read: int = 0  # tokens of the prompt, those that were known included
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
                raise GenerationFailed(f"{self.runtime}: {item}") from item
            if item is None:
                raise GenerationFailed(f"{self.runtime} stopped before the answer was finished")
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

    @property
    def watched(self) -> int:
        """The layer whose input comes with the next token; 0: none."""
        return self.layer if self.written else self.prompt_layer

    def take(self, words: Words, logits: Floats, state: Floats | None) -> int:
        """Choose the next token, and send it out with its evidence."""
        best = best_tokens(logits, ALTERNATIVES)
        peak = logits[best[0]]
        total = _log_total(logits, peak) if math.isfinite(peak) else math.nan
        if math.isnan(total):
            raise GenerationFailed(f"{self.runtime} gave logits that are no numbers")
        token = self._choose(logits, int(best[0]))
        if not self.written:
            self.answering = time.monotonic()
        self.written.append(token)
        ended = words.ends(token)
        piece = words.piece(token, special=self.names_special)
        text, stopped = ("", False) if ended else self._text(piece)
        if not ended or self.tells_end or self.labels:
            logprobs = [float(logits[each]) - total for each in best]
            margin, entropy = _spread(logprobs)
            named = tuple((name, float(logits[each]) - total) for name, each in self.labels)
            if self.alternatives:
                named = tuple(
                    (words.name_of(int(each)), logprob)
                    for each, logprob in zip(best, logprobs, strict=True)
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

    def __init__(self, weights: Path, runtime: str) -> None:
        """`runtime` is whatever else decides what a state looks like."""
        self._folder = weights.parent / "prefixes"
        about = weights.stat()
        model = f"{runtime} {weights.name} {about.st_size} {about.st_mtime_ns}"
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

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.vocabulary = runtime.vocabulary
        self._slots = [Slot(number) for number in range(runtime.slots)]
        self._kept = KeptStates()
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._worker: threading.Thread | None = None
        self.passes = 0  # through the model, for all jobs
        self._closed = False

    def submit(self, job: Job) -> None:
        job.runtime = self._runtime.name
        with self._lock:
            if self._closed:
                error = GenerationFailed(f"{self._runtime.name} was closed")
                self._end(job, error)
                raise error
            job.answer.interrupt = self._runtime.interrupt
            self._waiting.append(job)
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="edgewise-decoder", daemon=True
                )
                self._worker.start()

    def cancel(self, job: Job) -> None:
        """Stop a job soon, if the runtime can even inside a pass. Other jobs repeat that pass."""
        if not job.done:
            job.answer.cancel()

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
            self._runtime.close()

    def orphan(self) -> None:
        """In a forked child: nobody works on these jobs here. The memory stays as it is."""
        abandon(self)
        words = f"{self._runtime.name} works in the parent process, not in this fork"
        for job in (*self._waiting, *(slot.job for slot in self._slots if slot.job)):
            job.fail(GenerationFailed(words))

    def _work(self) -> None:
        while True:
            with self._lock:
                self._runtime.resume()
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
                self._end(job)
                continue
            free = [slot for slot in self._slots if slot.job is None]
            if not free:
                continue  # a later one may have been called off
            self._waiting.remove(job)
            try:
                self._place(job, free)
            except Exception as error:  # noqa: BLE001  # its reader raises it
                self._end(job, error)

    def _place(self, job: Job, free: Sequence[Slot]) -> None:
        """Give a job the slot that has most of its prompt, or fill one from what was kept."""
        slot = max(free, key=lambda each: (each.shared(job), -each.used))
        if self._runtime.saver is None:
            job.prefix = 0
        else:
            self._fill(slot, job, self._runtime.saver)
        again = job.dice is not None and not self._runtime.repeatable
        # Otherwise the same seed would give another answer when the prompt is known.
        self._cut(slot, 0 if again else min(slot.shared(job), len(job.prompt) - 1))
        slot.owner = job.owner
        job.cached, job.began = len(slot.tokens), time.monotonic()
        job.read = job.cached
        if job.cached >= job.prefix:
            job.prefix = 0  # nothing to save
        slot.job = job

    def _fill(self, slot: Slot, job: Job, saver: Saver) -> None:
        """Keep what another request computed; bring what was kept of this one, if it is more."""
        prompt, shared = list(job.prompt), slot.shared(job)
        if len(slot.tokens) - shared >= LEAST_KEPT:
            self._kept.put(slot.owner, slot.tokens, saver.save(slot.number))
        kept, tokens = self._kept.longest(job.owner, prompt)
        if kept >= shared + LEAST_KEPT:
            self._restore(slot, saver, job.owner, tokens, self._kept.get(job.owner, tokens))
        elif job.prefix >= shared + LEAST_KEPT:
            head = prompt[: job.prefix]
            state = saver.prefixes.read(job.owner, head)
            if state is not None:
                self._restore(slot, saver, job.owner, head, state)

    def _step(self, busy: Sequence[Slot]) -> None:
        """One pass: the next tokens of every job; those that answer come first."""
        for slot in busy:
            if slot.job is not None and slot.job.answer.cancelled.is_set():
                self._release(slot, None)
        plans, room = list[_Plan](), BATCH
        jobs = [slot for slot in busy if slot.job is not None]
        for slot in sorted(jobs, key=lambda each: not (each.job and each.job.written)):
            plan = self._plan(slot, room)
            if plan is not None:
                plans.append(plan)
                room -= len(plan.part.tokens)
        if not plans:
            return
        heard = 0
        reading = self._runtime.read([plan.part for plan in plans], _layers(plans))
        for plan, rows in zip(plans, reading, strict=False):
            self.passes += heard == 0
            heard += 1
            self._hear(plan, rows)
        for plan in plans[heard:]:  # called off in the middle: these do not count
            self._cut(plan.slot, len(plan.slot.tokens))

    def _plan(self, slot: Slot, room: int) -> _Plan | None:
        job = slot.job
        assert job is not None, "only busy slots are planned"
        have = len(slot.tokens)
        room = min(room, self._runtime.room - have)
        if room <= 0:
            if have >= self._runtime.room:
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
        part = SlotPart(slot.number, have, [*tokens, *drafted], len(drafted) + 1 if whole else 0)
        return _Plan(slot, part, drafted, copied)

    def _hear(self, plan: _Plan, rows: Rows) -> None:
        slot, job, drafted = plan.slot, plan.slot.job, plan.drafted
        assert job is not None, "a planned slot has a job"
        slot.tokens += plan.part.tokens[: len(plan.part.tokens) - len(drafted)]
        job.passes += 1
        job.read = min(len(job.prompt), len(slot.tokens))
        if job.prefix and len(slot.tokens) == job.prefix:
            self._write_prefix(slot)
            job.prefix = 0
        right = 0
        try:
            for number in range(plan.part.answers):
                state = rows.state(number, layer) if (layer := job.watched) else None
                token = job.take(self.vocabulary, rows.logits(number), state)
                if job.done or number == len(drafted) or drafted[number] != token:
                    break
                right += 1
        except GenerationFailed as error:
            self._release(slot, error)
            return
        slot.tokens += drafted[:right]
        if len(drafted) > right:
            self._cut(slot, len(slot.tokens))
        if plan.copied:
            job.judge_copy(len(drafted), right)
        if job.done:
            self._release(slot, None)

    def _write_prefix(self, slot: Slot) -> None:
        saver = self._runtime.saver
        if saver is not None:
            state = bytes(saver.save(slot.number))
            saver.prefixes.write(slot.owner, slot.tokens, state)

    def _release(self, slot: Slot, error: BaseException | None) -> None:
        job, slot.job, slot.used = slot.job, None, self.passes
        self._cut(slot, len(slot.tokens))
        if job is not None:
            self._end(job, error)

    def _end(self, job: Job, error: BaseException | None = None) -> None:
        """Its grammar is memory of the runtime, also where it never had a slot."""
        if job.grammar is not None:
            job.grammar.close()
        if error is not None:
            job.fail(error)
        elif not job.done:
            job.drop()

    def _cut(self, slot: Slot, length: int) -> None:
        """Forget what a slot holds from here on."""
        del slot.tokens[self._runtime.cut(slot.number, length) :]

    def _restore(
        self, slot: Slot, saver: Saver, owner: str, tokens: Sequence[int], state: Any
    ) -> None:
        self._cut(slot, 0)
        read = saver.restore(slot.number, state)
        slot.owner, slot.tokens = owner, list(tokens) if read else []


@dataclass(frozen=True, slots=True)
class _Plan:
    """A slot's part of one pass, and the draft at its end."""

    slot: Slot
    part: SlotPart
    drafted: list[int]
    copied: bool  # the draft is a copy of the prompt


def _layers(plans: Sequence[_Plan]) -> set[int]:
    """The layers whose inputs somebody wants."""
    jobs = [plan.slot.job for plan in plans if plan.slot.job]
    return {layer for job in jobs for layer in (job.layer, job.prompt_layer) if layer}
