"""The decode loop on a runtime that only gives logits: what it asks of it, and what may break."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.local import llama_steps
from tests.local.drivers import converted
from typing_extensions import override

from edgewise.errors import ExtraMissing, GenerationFailed, ModelNotFound, SchemaUnsupported
from edgewise.grammar.tools import PLAIN_BYTES
from edgewise.local.backend import CallToWrite
from edgewise.local.decoder import BATCH
from edgewise.local.isolated import IsolatedModel
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish, Token
from edgewise_engines.logits_loop import LogitsLoop, Steps
from edgewise_engines.vocabulary import Vocabulary, write_vocabulary

pytestmark = pytest.mark.real_model  # for its vocabulary

ROOM = 300


class StrictSteps:
    """Logits made of the last tokens by arithmetic. Refuses whatever the border forbids."""

    repeatable = True

    def __init__(self, size: int, slots: int = 1) -> None:
        self.size = size
        self.held: list[list[int]] = [[] for _ in range(slots)]
        self.most_answers = 0
        self.closed = False

    def read(
        self, slot: int, position: int, tokens: Sequence[int], answers: int
    ) -> npt.NDArray[np.float32]:
        held = self.held[slot]
        assert 0 <= position <= len(held), "a gap in the sequence"
        assert 0 < len(tokens) <= BATCH and 0 <= answers <= len(tokens)
        assert position + len(tokens) <= ROOM, "beyond the context"
        del held[position:]
        held += tokens
        self.most_answers = max(self.most_answers, answers)
        ends = range(len(held) - answers, len(held))
        rows = [self.logits(held[: end + 1]) for end in ends]
        return np.array(rows, np.float32).reshape(answers, self.size)

    def logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        rng = np.random.default_rng([*tokens[-3:], len(tokens)])
        logits = rng.standard_normal(self.size, np.float32)
        logits[:17] = -50  # the special ones
        logits[100 + sum(tokens[-2:]) % 40] = 20  # repeats itself: drafts have a chance
        return logits

    def close(self) -> None:
        self.closed = True


@pytest.fixture(scope="module")
def folder(default_model: InstalledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("vocabulary")
    write_vocabulary(default_model.path, written)
    return written


Opener = Callable[..., LogitsLoop]


@pytest.fixture
def open_loop(folder: Path) -> Iterator[Opener]:
    opened: list[LogitsLoop] = []

    def open_one(load: Callable[[], Steps], **options: Any) -> LogitsLoop:
        model = InstalledModel("made", folder / "made.onnx", "Q8_0", "", 0, runtime="steps")
        given = {"threads": 1, "context_tokens": ROOM, **options}
        loop = LogitsLoop(model, runtime="steps", load=load, vocabulary=folder, **given)
        opened.append(loop)
        return loop

    yield open_one
    for loop in opened:
        loop.close()


def ask(text: str, **options: Any) -> Request:
    return Request(messages=(Message("user", text),), **({"max_tokens": 8} | options))


def text_of(items: Iterator[Token | Finish]) -> str:
    return "".join(item.text for item in items if isinstance(item, Token))


def test_the_answer_is_the_likeliest_token_after_the_likeliest(
    open_loop: Opener, folder: Path
) -> None:
    """Whatever is drafted, copied or kept, and however many answer at once."""
    words = Vocabulary(folder, runtime="steps")
    steps = StrictSteps(words.size, slots=3)
    loop = open_loop(lambda: steps, slots=3)

    def expected(prompt: str, count: int) -> str:
        tokens = words.tokenize(prompt)
        for _ in range(count):
            tokens.append(int(steps.logits(tokens).argmax()))
        return b"".join(words.piece(each) for each in tokens[-count:]).decode("utf-8", "replace")

    prompts = [f"{number} and some words " * 12 for number in range(5)]
    wanted = {prompt: expected(prompt, 40) for prompt in prompts}
    found: dict[tuple[str, str], str] = {}

    def write(prompt: str, draft: str) -> None:
        found[prompt, draft] = text_of(
            loop.write_call(CallToWrite(prompt, max_tokens=40, drafts=(draft,)))
        )

    drafts = {prompt: ("", text, text[:20] + "no" + text[20:]) for prompt, text in wanted.items()}
    threads = [
        threading.Thread(target=write, args=(prompt, draft))
        for prompt in prompts
        for draft in drafts[prompt]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(prompt, draft): wanted[prompt] for prompt, draft in found}
    assert len(found) == len(threads)
    assert steps.most_answers > 1


def test_a_seed_reads_the_prompt_again_where_pieces_change_what_is_computed(
    open_loop: Opener, folder: Path
) -> None:
    steps = StrictSteps(Vocabulary(folder, runtime="steps").size)

    def cached(**options: Any) -> int:
        *_, finish = loop.generate(ask("Tell me a story.", max_tokens=2, **options))
        assert isinstance(finish, Finish)
        return finish.cached_tokens

    for repeatable in (True, False):
        steps.repeatable = repeatable
        loop = open_loop(lambda: steps)
        assert cached() == 0 < cached()
        assert (cached(temperature=1.0, seed=7) > 0) is repeatable


def test_a_full_context_ends_the_answer_within_it(open_loop: Opener, folder: Path) -> None:
    steps = StrictSteps(Vocabulary(folder, runtime="steps").size)
    *_, finish = open_loop(lambda: steps).write_call(CallToWrite("word " * 250, max_tokens=400))
    assert isinstance(finish, Finish) and finish.reason == "length"
    assert finish.input_tokens + finish.output_tokens == ROOM + 1


def test_a_runtime_that_breaks_is_named_and_may_be_asked_again(
    open_loop: Opener, folder: Path
) -> None:
    class Breaking(StrictSteps):
        broken = True

        @override
        def read(self, *arguments: Any) -> npt.NDArray[np.float32]:
            if self.broken:
                raise RuntimeError("out of memory")
            return super().read(*arguments)

    steps = Breaking(Vocabulary(folder, runtime="steps").size)
    loop = open_loop(lambda: steps)
    with pytest.raises(GenerationFailed, match=r"^steps: out of memory$"):
        list(loop.generate(ask("Hello.")))
    steps.broken = False
    assert text_of(loop.generate(ask("Hello.")))
    loop.close()
    assert steps.closed


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_an_error(
    open_loop: Opener, folder: Path, value: float
) -> None:
    class Overflowing(StrictSteps):
        @override
        def logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
            logits = super().logits(tokens)
            logits[7] = value
            return logits

    loop = open_loop(lambda: Overflowing(Vocabulary(folder, runtime="steps").size))
    with pytest.raises(GenerationFailed, match="steps gave logits that are no numbers"):
        list(loop.generate(ask("Hello.")))


def test_a_runtime_that_cannot_load_says_why(open_loop: Opener) -> None:
    def fails() -> Steps:
        raise RuntimeError("no such operator")

    with pytest.raises(GenerationFailed, match=r"not load made\.onnx: no such operator"):
        list(open_loop(fails).generate(ask("Hello.")))

    def missing() -> Steps:
        raise ModelNotFound("run `edgewise pull made@steps`")

    with pytest.raises(ModelNotFound):
        list(open_loop(missing).generate(ask("Hello.")))


def test_a_missing_package_is_named_with_the_extra_that_brings_it(open_loop: Opener) -> None:
    with pytest.raises(ExtraMissing, match=r"steps_runtime .* pip install .*\[steps\]'"):
        open_loop(lambda: StrictSteps(1), packages=("steps_runtime",))


def test_a_vocabulary_that_cannot_spell_every_text_gets_no_grammar(
    open_loop: Opener, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vocabulary, "spelt_bytes", PLAIN_BYTES - {0xC3})
    poor = open_loop(lambda: StrictSteps(Vocabulary(folder, runtime="steps").size))
    with pytest.raises(SchemaUnsupported, match="no token for every byte"):
        poor.generate(ask("Name a city.", response_format=ResponseFormat()))


def test_a_runtime_runs_in_a_process_of_its_own_as_llama_cpp_does(
    default_model: InstalledModel,
) -> None:
    model = converted(llama_steps, default_model)
    with closing(llama_steps.open_backend(model, threads=1, context_tokens=256)) as here:
        expected = text_of(here.generate(ask("What is the chemical symbol for gold?")))
    opener = llama_steps.open_backend
    with closing(IsolatedModel(opener, model, threads=1, context_tokens=256)) as there:
        assert there.facts().backend == "steps"
        assert text_of(there.generate(ask("What is the chemical symbol for gold?"))) == expected


def test_a_model_with_the_bits_of_its_gguf_says_whose_they_are(
    default_model: InstalledModel,
) -> None:
    named = replace(converted(llama_steps, default_model), name=f"{default_model.name}@steps")
    made = {"runtime": "steps", "load": lambda: None, "vocabulary": named.path.parent}
    options: Any = made | {"threads": 1, "context_tokens": 512}
    same = LogitsLoop(replace(named, runtime="steps", same_bits=True), **options)
    assert same.facts().same_bits_as == f"{default_model.name}-q8_0"
    assert not LogitsLoop(named, **options).facts().same_bits_as, "rounded once more"
