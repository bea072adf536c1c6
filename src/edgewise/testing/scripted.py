"""Scripted local models: each says what it was told to, with the given evidence."""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from edgewise.calls.prompt import render_tools
from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.local.backend import SPEECH_RATE, CallToWrite, DeviceFacts, TokenStream, nothing
from edgewise.types.embeddings import Embedded
from edgewise.types.messages import Request, Word, text_of
from edgewise.types.replies import Finish, FinishReason, Token
from edgewise.types.transcripts import Heard, Spoken

if TYPE_CHECKING:
    from edgewise.local.backend import Samples

SCRIPTED_FACTS = DeviceFacts(
    backend="scripted", model="scripted-1", quantisation="none", context_tokens=4096
)
SCRIPTED_FUNCTION_MODEL_FACTS = DeviceFacts(
    backend="scripted", model="scripted-caller", quantisation="none", context_tokens=4096
)
_LABELLED = re.compile(r"^([A-Z])\) (.*)$", re.MULTILINE)  # an option in a question's prompt
_PIECES = re.compile(r"\w+|\s+|[^\w\s]")
# Without word times, so that one scripted segment stays one.
SCRIPTED_TRANSCRIBER_FACTS = DeviceFacts(
    backend="scripted",
    model="scripted-ears",
    quantisation="none",
    context_tokens=448,
    word_times=False,
)


class Options(TypedDict, total=False):
    """The options of every ScriptedBackend constructor.

    facts           what `facts()` returns
    context_tokens  overrides the facts; a longer prompt raises ContextExceeded
    fail_after      raise GenerationFailed after this many tokens of each generation
    delay_s         seconds each token takes
    confidence      what the runtime itself says at the end of each answer
    schemas         it can be asked for typed answers, as with one that is typed
    chances         what it says of typed questions, by their names: the chance of each option, or
                    that of yes. Questions without a script have options that are all alike
    """

    facts: DeviceFacts
    context_tokens: int
    fail_after: int
    delay_s: float
    confidence: float
    schemas: bool
    chances: Mapping[str, float | Mapping[str, float]]


class ScriptedBackend:
    """Fulfils `edgewise.local.backend.ChatBackend` without a model.

        ScriptedBackend.confident("Paris.")
        ScriptedBackend(["Yes.", word_tokens("Perhaps not.", logprob=-2.0)], fail_after=1)

    Each generation takes the next answer; the last one repeats. A string becomes word tokens
    with `logprob`. Everywhere one word counts as one token. What is neither a string nor tokens is
    a typed answer and is said as JSON: a pydantic model, a dataclass, a dictionary or a list. Such
    a device can be asked with `response_format`.

        ScriptedBackend.confident(City(name="Oslo"))

    With `already` the answer to the same request is continued: after that prefix if the answer
    starts with it, otherwise from its beginning, after a space.
    """

    def __init__(
        self,
        answers: Sequence[Any],
        *,
        logprob: float = -0.05,
        **options: Unpack[Options],
    ) -> None:
        if not answers:
            raise ValueError("a ScriptedBackend needs at least one answer")
        typed = [each for each in answers if not isinstance(each, str | tuple)]
        self._answers = [
            each if isinstance(each, tuple) else word_tokens(_said(each), logprob=logprob)
            for each in answers
        ]
        facts = options.get("facts", SCRIPTED_FACTS)
        context = options.get("context_tokens", facts.context_tokens)
        schemas = facts.schemas or bool(typed) or bool(options.get("schemas"))
        self._chances = options.get("chances")
        labels = facts.labels or self._chances is not None
        self._facts = replace(facts, context_tokens=context, schemas=schemas, labels=labels)
        self._fail_after = options.get("fail_after")
        self._delay_s = options.get("delay_s", 0.0)
        self._confidence = options.get("confidence")
        self._lock = threading.Lock()
        self._taken = 0
        self._by_request: dict[str, tuple[Token, ...]] = {}
        self.requests: list[Request] = []
        self.started = 0
        self.closed_early = 0
        self.generated = 0
        self.closed = False

    @classmethod
    def confident(cls, *answers: Any, **options: Unpack[Options]) -> Self:
        """Answers that a good gate keeps: every token is nearly certain."""
        return cls._all(answers, options, logprob=-0.01, margin=6.0, entropy=0.05)

    @classmethod
    def doubtful(cls, *answers: Any, **options: Unpack[Options]) -> Self:
        """Answers that a good gate hands off: every token is close to a guess."""
        return cls._all(answers, options, logprob=-2.5, margin=0.1, entropy=2.5)

    @classmethod
    def deciding(
        cls, script: Mapping[str, float | Mapping[str, float]], **options: Unpack[Options]
    ) -> Self:
        """Answers to typed questions, by their names.

        ScriptedBackend.deciding({"refund": 0.97, "team": {"billing": 0.9, "tech": 0.1}})
        """
        given: Options = {**options, "chances": script}
        return cls([""], **given)

    @classmethod
    def _all(cls, answers: Sequence[Any], options: Options, **evidence: float) -> Self:
        given: Options = {"schemas": any(not isinstance(each, str) for each in answers), **options}
        return cls([word_tokens(_said(each), **evidence) for each in answers], **given)

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        prompt = _count_words(request) + len(already.split())
        if prompt > self._facts.context_tokens:
            raise ContextExceeded(prompt, self._facts.context_tokens)
        tokens = _after(already, self._answer_to(request, already))
        if request.labels:
            tokens = (self._labelled(request),)
        count = 0
        try:
            for token in tokens[: request.device_tokens]:
                self._fail_if_told_to(count)
                if self._delay_s:
                    time.sleep(self._delay_s)
                with self._lock:
                    self.generated += 1
                count += 1
                yield token
        except GeneratorExit:
            with self._lock:
                self.closed_early += 1
            raise
        self._fail_if_told_to(count)
        reason: FinishReason = "length" if len(tokens) > request.device_tokens else "stop"
        sure = self._confidence
        yield Finish(reason, input_tokens=prompt, output_tokens=count, confidence=sure)

    def count_tokens(self, request: Request) -> int:
        return _count_words(request) + len(render_tools(request.tools).split())

    def close(self) -> None:
        self.closed = True

    def _labelled(self, request: Request) -> Token:
        """What is scripted for the options that stand behind the labels in this prompt."""
        ((name, question),) = request.questions.items()
        script = (self._chances or {}).get(name, {})
        if not isinstance(script, Mapping):
            script = {"true": script, "false": 1 - script}
        behind = dict(_LABELLED.findall(request.messages[-1].content)) | {
            "Yes": "true",
            "No": "false",
        }
        written = {
            each: option
            for option, told in zip(question.options, question.described, strict=True)
            for each in (option, text_of(told), f"{option}: {text_of(told)}")
        }
        even = 1 / len(question.options)
        chances = [script.get(written[behind[label]], even) for label in request.labels]
        named = zip(request.labels, (math.log(max(each, 1e-9)) for each in chances), strict=True)
        return Token(request.labels[0], alternatives=tuple(named))

    def _fail_if_told_to(self, count: int) -> None:
        if self._fail_after is not None and count >= self._fail_after:
            raise GenerationFailed(f"told to fail after {self._fail_after} tokens")

    def _answer_to(self, request: Request, already: str) -> tuple[Token, ...]:
        with self._lock:
            self.started += 1
            self.requests.append(request)
            if already and request.id in self._by_request:
                return self._by_request[request.id]
            answer = self._answers[min(self._taken, len(self._answers) - 1)]
            self._taken += 1
            self._by_request[request.id] = answer
            return answer


class ScriptedFunctionModel:
    """Fulfils `edgewise.local.backend.CallBackend` without a model.

        ScriptedFunctionModel(['set_timer {"minutes":5}'])
        ScriptedFunctionModel(['set_timer {"minutes":5}', "none"], logprobs=[[-0.1, -2.0], [-0.3]])

    Each call takes the next answer; the last one repeats. An answer becomes one token per word,
    run of spaces or mark, and an end token without text. `logprobs` has one list per answer; a
    list that is shorter than its tokens repeats its last value. With `already`, an answer that
    starts with it is continued. Grammars and drafts are kept in `asked` but not obeyed. If `fails`
    is true, raises GenerationFailed instead of the first token.
    """

    def __init__(
        self,
        answers: Sequence[str],
        *,
        logprobs: Sequence[Sequence[float]] = (),
        facts: DeviceFacts = SCRIPTED_FUNCTION_MODEL_FACTS,
        fails: bool = False,
    ) -> None:
        if not answers:
            raise ValueError("a ScriptedFunctionModel needs at least one answer")
        if logprobs and len(logprobs) != len(answers):
            raise ValueError(f"{len(logprobs)} lists of logprobs for {len(answers)} answers")
        self._answers = list(answers)
        self._logprobs = [list(given) for given in logprobs]
        self._facts = facts
        self._fails = fails
        self._lock = threading.Lock()
        self.asked: list[CallToWrite] = []
        self.closed_early = 0
        self.closed = False

    @classmethod
    def doubtful(cls, *answers: str) -> Self:
        """Answers with every token close to a guess."""
        return cls(answers, logprobs=[[-2.5]] * len(answers))

    def facts(self) -> DeviceFacts:
        return self._facts

    def write_call(self, call: CallToWrite) -> TokenStream:
        words = len((call.prompt + call.already).split())
        if words > self._facts.context_tokens:
            raise ContextExceeded(words, self._facts.context_tokens)
        tokens = self._tokens(call)
        if self._fails:
            raise GenerationFailed("told to fail")
        try:
            yield from tokens[: call.max_tokens]
        except GeneratorExit:
            with self._lock:
                self.closed_early += 1
            raise
        reason: FinishReason = "length" if len(tokens) > call.max_tokens else "stop"
        written = min(len(tokens), call.max_tokens)
        yield Finish(reason, input_tokens=words, output_tokens=written)

    def close(self) -> None:
        self.closed = True

    def _tokens(self, call: CallToWrite) -> list[Token]:
        with self._lock:
            number = min(len(self.asked), len(self._answers) - 1)
            self.asked.append(call)
        pieces = [*_PIECES.findall(self._answers[number].removeprefix(call.already)), ""]
        given = self._logprobs[number] if self._logprobs else []
        padded = given + [given[-1] if given else -0.01] * len(pieces)
        return [_token(text, logprob) for text, logprob in zip(pieces, padded, strict=False)]


@dataclass(frozen=True, slots=True)
class Listened:
    """The arguments of one `hear`."""

    seconds: float
    language: str
    hint: str = ""
    temperature: float = 0.0
    translate: bool = False


class ScriptedTranscriber:
    """Fulfils `edgewise.local.backend.SpeechBackend` without a model.

        ScriptedTranscriber([[heard("hello", 0.0, 1.0), heard("mumble", 1.2, 2.0, chance=0.2)]])

    Each chunk of sound takes the next answer, a list of `Heard`; the last one repeats. If `fails`
    is true, raises GenerationFailed.
    """

    def __init__(
        self,
        answers: Sequence[Sequence[Heard]],
        *,
        facts: DeviceFacts = SCRIPTED_TRANSCRIBER_FACTS,
        fails: bool = False,
    ) -> None:
        if not answers:
            raise ValueError("a ScriptedTranscriber needs at least one answer")
        self._answers = [list(answer) for answer in answers]
        self._facts = facts
        self._fails = fails
        self._lock = threading.Lock()
        self.listened: list[Listened] = []
        self.closed = False

    def facts(self) -> DeviceFacts:
        return self._facts

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
        translate: bool = False,
    ) -> list[Heard]:
        with self._lock:
            number = min(len(self.listened), len(self._answers) - 1)
            seconds = len(samples) / SPEECH_RATE
            self.listened.append(Listened(seconds, language, hint, temperature, translate))
        if self._fails:
            raise GenerationFailed("told to fail")
        return list(self._answers[number])

    def close(self) -> None:
        self.closed = True


class ScriptedVoice:
    """Fulfils `edgewise.local.backend.VoiceBackend`: a hundredth of a second for each character.

    `texts` are what it was asked to say. If `fails` is true, raises GenerationFailed.
    """

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.texts: list[str] = []
        self.closed = False

    def facts(self) -> DeviceFacts:
        return DeviceFacts(
            backend="scripted", model="scripted-voice", quantisation="none", context_tokens=0
        )

    def speak(
        self,
        text: str,
        *,
        voice: str = "",
        language: str = "",
        speed: float = 1.0,
        pause: Callable[[], None] = nothing,
    ) -> Spoken:
        pause()
        self.texts.append(text)
        if self._fails:
            raise GenerationFailed("told to fail")
        return Spoken(b"\x00\x10" * (len(text) * SPEECH_RATE // 100), SPEECH_RATE, voice or "mute")

    def close(self) -> None:
        self.closed = True


class ScriptedEmbedder:
    """Fulfils `edgewise.local.backend.EmbedBackend`. A text is the sum of its words, in 32 numbers.

    So texts with common words are close to each other. `fail` raises GenerationFailed instead. A
    text with more words than `window` counts as read in windows.
    """

    def __init__(
        self, space: str = "scripted@none-32", *, window: int = 256, fail: bool = False
    ) -> None:
        self._facts = DeviceFacts(
            backend="scripted",
            model=space.partition("@")[0],
            quantisation="none",
            context_tokens=window,
            languages=("en",),
            space=space,
        )
        self._fail = fail
        self.texts: list[str] = []
        self.closed = False

    def facts(self) -> DeviceFacts:
        return self._facts

    def embed(self, texts: Sequence[str], *, pause: Callable[[], None] = nothing) -> Embedded:
        if self._fail:
            raise GenerationFailed("told to fail")
        for number, text in enumerate(texts):
            if number:
                pause()
            self.texts.append(text)
        words = [text.split() for text in texts]
        windows = tuple(max(1, -(-len(each) // self._facts.context_tokens)) for each in words)
        return Embedded(tuple(map(_vector, words)), windows, sum(map(len, words)))

    def close(self) -> None:
        self.closed = True


def word_tokens(
    text: str, *, logprob: float = -0.05, margin: float = 4.0, entropy: float = 0.2
) -> tuple[Token, ...]:
    """`text` as one token per word, all with the same evidence. Joined they are `text` again."""
    words = re.findall(r"\s*\S+|\s+$", text)
    return tuple(Token(word, logprob, margin, entropy) for word in words)


def _said(answer: Any) -> str:
    """A text as it is; a typed answer as JSON."""
    if isinstance(answer, str):
        return answer
    from pydantic import TypeAdapter  # noqa: PLC0415  # only for typed answers

    written: str = TypeAdapter(type(answer)).dump_json(answer).decode()
    return written


def heard(text: str, start: float, end: float, chance: float = 0.97) -> Heard:
    """A stretch of speech in which every word has the same probability."""
    tokens = text.split()
    step = (end - start) / max(1, len(tokens))
    words = tuple(
        Word(token, round(start + index * step, 3), round(start + (index + 1) * step, 3), chance)
        for index, token in enumerate(tokens)
    )
    return Heard(start=start, end=end, text=text, words=words, language="en")


def _count_words(request: Request) -> int:
    return sum(len(message.content.split()) for message in request.messages)


def _after(already: str, answer: tuple[Token, ...]) -> tuple[Token, ...]:
    """The rest of `answer` after `already`; a token cut in two keeps its evidence."""
    if not already or not answer:
        return answer
    if not "".join(token.text for token in answer).startswith(already):
        return (replace(answer[0], text=" " + answer[0].text), *answer[1:])
    left = len(already)
    rest: list[Token] = []
    for token in answer:
        if left < len(token.text):
            rest.append(replace(token, text=token.text[left:]))
        left = max(0, left - len(token.text))
    return tuple(rest)


def _token(text: str, logprob: float) -> Token:
    """The less likely the token, the closer the second best."""
    return Token(text, logprob, margin=max(0.1, 6.0 + 4.0 * logprob), entropy=min(3.0, -logprob))


def _vector(words: Sequence[str]) -> array[float]:
    total = [0.0] * 32
    for word in words or [""]:
        key = word.lower().strip(".,;:?!()[]\"'")
        for index, byte in enumerate(hashlib.sha256(key.encode()).digest()):
            total[index] += byte - 127.5
    length = math.sqrt(math.fsum(value * value for value in total))
    return array("f", (value / length for value in total))
