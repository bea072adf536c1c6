"""Our decode loop: drafts, slots, kept prefixes, hidden states, cancelling."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from edgewise.errors import ContextExceeded, GenerationFailed, ModelNotFound
from edgewise.local import llama_api
from edgewise.local.backend import CallToWrite, Channel
from edgewise.local.decoder import (
    BATCH,
    Dice,
    Job,
    KeptStates,
    PrefixFiles,
    common,
)
from edgewise.local.llama_api import ApiMissing, ContextParams05, check_layout, load_api
from edgewise.local.llama_cpp import LlamaLoop, open_backend
from edgewise.local.llama_runtime import Weights
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token
from tests.campaigns import LONG, rounds

pytestmark = pytest.mark.real_model

QUESTIONS = [
    f"{ask} {thing}{end}"
    for ask, end in (
        ("What is", "?"),
        ("Tell me something about", "."),
        ("Write one sentence with the word", "."),
        ("Is it good to know about", "?"),
        ("Repeat these words and go on:", ", blue, red, blue, red,"),
    )
    for thing in (
        "the moon", "gold", "a poem", "the number seven", "Oslo", "rain", "tea", "12 + 7",
        "a bicycle", "salt", "the Roman army", "a prime number", "Lisbon", "snow", "bread", "9 x 3",
        "a whale", "iron", "a sonnet", "the letter q", "Nairobi", "thunder", "coffee", "100 - 41",
        "a violin", "glass", "the year 1969", "a triangle", "Lima", "fog", "honey", "half of 50",
        "an oak tree", "copper", "a fable", "zero", "Kyoto", "the tide", "rice", "2 to the 8th",
    )
]  # fmt: skip
FEW = QUESTIONS if LONG else QUESTIONS[::5]  # 200, or 40


@pytest.fixture(scope="module")
def loop(default_model: InstalledModel) -> Iterator[LlamaLoop]:
    opened = LlamaLoop(default_model, threads=1, context_tokens=512)
    yield opened
    opened.close()


def ask(text: str, **options: Any) -> Request:
    return Request(messages=(Message("user", text),), **({"max_tokens": 24} | options))


def turn(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def tokens_of(stream: Iterator[Token | Finish]) -> list[Token]:
    return [item for item in stream if isinstance(item, Token)]


class Reader(threading.Thread):
    """Reads a stream to its end, which is expected to be an error."""

    def __init__(self, stream: Iterator[Token | Finish]) -> None:
        super().__init__()
        self._stream = stream
        self.error: GenerationFailed | None = None
        self.start()

    @override
    def run(self) -> None:
        try:
            list(self._stream)
        except GenerationFailed as error:
            self.error = error


def text_of(stream: Iterator[Token | Finish]) -> str:
    return "".join(token.text for token in tokens_of(stream))


def test_answers_and_evidence_are_those_of_the_server_api(
    loop: LlamaLoop, default_model: InstalledModel
) -> None:
    server = LlamaServer(default_model, threads=1, context_tokens=512)
    try:
        for question in FEW:
            ours = tokens_of(loop.generate(ask(question, max_tokens=12)))
            theirs = tokens_of(server.generate(ask(question, max_tokens=12)))
            assert [each.text for each in ours] == [each.text for each in theirs], question
            for one, other in zip(ours, theirs, strict=True):
                for name in ("logprob", "margin", "entropy"):
                    assert getattr(one, name) == pytest.approx(getattr(other, name), abs=2e-3)
    finally:
        server.close()


def test_a_draft_saves_passes_and_changes_nothing(loop: LlamaLoop) -> None:
    prompt = turn("What is the chemical symbol for gold?")
    plain = tokens_of(loop.write_call(CallToWrite(prompt, max_tokens=24)))
    text = "".join(token.text for token in plain)
    for draft in (text, text[:-8], text[:10] + "xyz" + text[10:], "Something else", text + text):
        drafted = tokens_of(loop.write_call(CallToWrite(prompt, max_tokens=24, drafts=(draft,))))
        assert [token.text for token in drafted] == [token.text for token in plain], draft
        for one, other in zip(drafted, plain, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=2e-2)


def test_a_right_draft_takes_two_passes(loop: LlamaLoop) -> None:
    decoder = loop.load()
    weights = decoder.vocabulary
    prompt = weights.tokenize(turn("What is the chemical symbol for gold?"))
    answer = text_of(
        loop.write_call(CallToWrite(turn("What is the chemical symbol for gold?"), max_tokens=24))
    )
    passes = {}
    for draft in ("", answer):
        job = Job(
            prompt=prompt,
            answer=Channel(),
            max_tokens=24,
            drafts=[weights.tokenize(draft, start=False)],
        )
        decoder.submit(job)
        list(job.items())
        passes[draft] = job.passes
    assert passes[answer] <= 2 < passes[""]


def test_a_draft_under_a_grammar_is_held_to_it(loop: LlamaLoop) -> None:
    grammar = 'root ::= "yes" | "no"'
    for draft in ("", "yes", "no", "perhaps"):
        stream = loop.write_call(
            CallToWrite(turn("Is gold a metal?"), grammar=grammar, drafts=(draft,))
        )
        assert text_of(stream) in ("yes", "no")


def test_slots_share_passes_and_each_answers_as_if_alone(default_model: InstalledModel) -> None:
    alone = LlamaLoop(default_model, threads=1, context_tokens=256)
    shared = LlamaLoop(default_model, threads=1, context_tokens=256, slots=4)
    try:
        questions = QUESTIONS[:: max(1, len(QUESTIONS) // rounds(40))][:10]
        expected = [text_of(alone.generate(ask(each))) for each in questions]
        found = dict[int, str]()

        def answer(number: int) -> None:
            found[number] = text_of(shared.generate(ask(questions[number])))

        threads = [threading.Thread(target=answer, args=(n,)) for n in range(len(questions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same = sum(found[number] == text for number, text in enumerate(expected))
        assert same >= len(questions) - 1  # sums in another order may turn a coin toss
    finally:
        alone.close()
        shared.close()


def test_hidden_states_come_in_the_same_pass(loop: LlamaLoop) -> None:
    request = ask("What is the chemical symbol for gold?")
    items = list(loop.generate(request, layer=20))
    plain = list(loop.generate(request))
    tokens = [item for item in items if isinstance(item, Token)]
    assert [each.text for each in tokens] == [t.text for t in plain if isinstance(t, Token)]
    finish = items[-1]
    assert isinstance(finish, Finish)
    weights = loop.load().vocabulary
    assert isinstance(weights, Weights)
    states = [*(token.state for token in tokens), finish.state]
    assert all(state.shape == (weights.width,) and np.isfinite(state).all() for state in states)
    assert not np.allclose(states[0], states[1])
    assert all(item.state is None for item in plain if isinstance(item, Token))


def test_states_do_not_depend_on_what_runs_beside(default_model: InstalledModel) -> None:
    opened = LlamaLoop(default_model, threads=1, context_tokens=256, slots=3)
    try:
        question = ask("What is the chemical symbol for gold?")

        def states() -> list[Any]:
            return [each.state for each in tokens_of(opened.generate(question, layer=20))]

        alone = states()
        beside = [opened.generate(ask("Tell me a long story.", max_tokens=80)) for _ in range(2)]
        for stream in beside:
            next(stream)
        together = states()
        for stream in beside:
            stream.close()
        for one, other in zip(alone, together, strict=True):
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert cosine > 0.999
    finally:
        opened.close()


def test_a_kept_prompt_is_not_computed_again(loop: LlamaLoop) -> None:
    long = "Here is a list of words: " + "apple pear plum " * 30
    first = ask(long + "How many are there?", max_tokens=2)
    list(loop.generate(first))
    list(loop.generate(ask("Tell me about ships. " * 12, max_tokens=2)))  # takes the slot over
    finish = list(loop.generate(ask(long + "Which is the first?", max_tokens=2)))[-1]
    assert isinstance(finish, Finish)
    assert finish.cached_tokens > 0.8 * finish.input_tokens


def cached_by(stream: Iterator[Token | Finish]) -> int:
    finish = list(stream)[-1]
    assert isinstance(finish, Finish)
    return finish.cached_tokens


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("between", [False, True])
def test_nobody_learns_from_the_cache_what_another_owner_asked(
    default_model: InstalledModel, slots: int, between: bool
) -> None:
    secret = "My diagnosis is " + "a rare one, and nobody may know of it. " * 8
    opened = LlamaLoop(default_model, threads=1, context_tokens=256, slots=slots)
    try:
        list(opened.generate(ask(secret, max_tokens=1, owner="alice", private=True)))
        if between:  # her prompt leaves the slot for the kept states
            list(opened.generate(ask("Tell me about ships. " * 12, max_tokens=1, owner="carol")))
        assert cached_by(opened.generate(ask(secret, max_tokens=1, owner="mallory"))) == 0
        assert (
            cached_by(opened.write_call(CallToWrite(turn(secret), max_tokens=1, owner="mallory")))
            < 20
        )
        assert cached_by(opened.generate(ask(secret, max_tokens=1, owner="alice"))) > 60
    finally:
        opened.close()


def test_a_prefix_file_serves_its_owner_only(default_model: InstalledModel, tmp_path: Path) -> None:
    model = replace(default_model, path=tmp_path / default_model.path.name)
    os.link(default_model.path, model.path)
    prefix = "<|im_start|>system\n" + "A tool: pay_the_clinic. " * 12 + "<|im_end|>\n"

    def cached(owner: str) -> int:
        opened = LlamaLoop(model, threads=1, context_tokens=256)
        try:
            prompt = prefix + turn("Go.")
            return cached_by(
                opened.write_call(CallToWrite(prompt, max_tokens=1, prefix=prefix, owner=owner))
            )
        finally:
            opened.close()

    assert cached("alice") == 0
    assert cached("mallory") == 0
    assert cached("alice") > 60


def test_a_prefix_on_disk_serves_the_next_process(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    model = replace(default_model, path=tmp_path / default_model.path.name)
    os.link(default_model.path, model.path)
    prefix = "<|im_start|>system\n" + "A tool: it does this and that. " * 20 + "<|im_end|>\n"
    prompt = prefix + turn("Which tool is it?")
    answers, cached = [], []
    for _ in range(2):  # each opens the model anew
        opened = LlamaLoop(model, threads=1, context_tokens=512)
        items = list(opened.write_call(CallToWrite(prompt, max_tokens=8, prefix=prefix)))
        answers.append([item.text for item in items if isinstance(item, Token)])
        assert isinstance(items[-1], Finish)
        cached.append(items[-1].cached_tokens)
        opened.close()
    assert answers[0] == answers[1]
    assert cached[0] == 0 and cached[1] > 100
    (file,) = (tmp_path / "prefixes").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"x")  # damaged: it is computed again
    opened = LlamaLoop(model, threads=1, context_tokens=512)
    assert text_of(opened.write_call(CallToWrite(prompt, max_tokens=8, prefix=prefix))) == "".join(
        answers[0]
    )
    opened.close()


def test_prefix_files_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"x")
    monkeypatch.setattr("edgewise.local.decoder.MOST_FILES", 3)
    files = PrefixFiles(weights, "1/1")
    for number in range(6):
        files.write("", [number], b"state")
    assert len(list((tmp_path / "prefixes").iterdir())) == 3
    assert files.read("", [5]) == b"state" and files.read("", [0]) is None
    assert files.read("another", [5]) is None


def test_kept_states_stay_within_their_bytes() -> None:
    kept = KeptStates(most_bytes=100)
    for number in range(5):
        kept.put("", [number, number], bytes(40))
    assert len(kept) == 2
    assert kept.longest("", [4, 4, 7]) == (2, (4, 4))
    assert kept.longest("", [0, 0])[0] == 0
    assert kept.longest("another", [4, 4, 7])[0] == 0
    kept.put("", [9], bytes(400))  # too large to keep
    assert len(kept) == 2


def test_a_cancelled_prompt_frees_the_model_within_the_pass(loop: LlamaLoop) -> None:
    stream = loop.generate(ask("word " * 450, max_tokens=400))
    reader = Reader(stream)
    time.sleep(0.05)
    stream.abort()
    reader.join()
    assert reader.error is not None
    assert len(tokens_of(loop.generate(ask("Name a colour.", max_tokens=4)))) == 4


def test_a_cancelled_neighbour_changes_nothing(default_model: InstalledModel) -> None:
    opened = LlamaLoop(default_model, threads=1, context_tokens=256, slots=2)
    try:
        question = ask("What is the chemical symbol for gold?")
        expected = text_of(opened.generate(question))
        for wait in range(rounds(20)):
            other = opened.generate(ask("word " * 200, max_tokens=60))
            threading.Timer(0.01 * wait, other.abort).start()
            beside = Reader(other)
            assert text_of(opened.generate(question)) == expected
            beside.join()
    finally:
        opened.close()


def test_a_full_context_ends_the_answer(default_model: InstalledModel) -> None:
    opened = LlamaLoop(default_model, threads=1, context_tokens=256)
    try:
        items = list(opened.generate(ask("Count: " + "1 2 3 " * 30, max_tokens=400)))
        finish = items[-1]
        assert isinstance(finish, Finish)
        assert finish.reason in ("length", "stop")
        assert finish.input_tokens + finish.output_tokens <= 257
        raw = list(opened.write_call(CallToWrite("one two three " * 70, max_tokens=400)))[-1]
        assert isinstance(raw, Finish) and raw.reason == "length"
    finally:
        opened.close()


def test_closing_frees_memory_and_the_next_request_loads_again(
    default_model: InstalledModel,
) -> None:
    def resident_mb() -> float:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    if not Path("/proc/self/statm").exists():
        pytest.skip("reads /proc")
    opened = LlamaLoop(default_model, threads=1, context_tokens=512)
    text_of(opened.generate(ask("Hi.", max_tokens=2)))
    opened.close()
    before = resident_mb()
    for _ in range(4):
        text_of(opened.generate(ask("Hi.", max_tokens=2)))
        opened.close()
    assert resident_mb() < before + 40  # one model is 140 MB


def test_closing_while_requests_run_stops_them(default_model: InstalledModel) -> None:
    opened = LlamaLoop(default_model, threads=1, context_tokens=256)
    stream = opened.generate(ask("Tell me a long story.", max_tokens=200))
    next(stream)
    reader = Reader(stream)
    opened.close()
    reader.join(timeout=20)
    assert not reader.is_alive() and reader.error is not None


def test_drawn_tokens_repeat_with_their_seed_and_are_likely_ones() -> None:
    logits = np.linspace(-20, 5, 1000, dtype=np.float32)
    draws = [[Dice(0.8, seed).draw(logits) for _ in range(3)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1]
    assert all(token >= 960 for drawn in draws for token in drawn)


def test_what_two_prompts_have_in_common() -> None:
    assert common([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common([1, 2], [1, 2, 3]) == 2
    assert common([], [1]) == 0


def test_a_runtime_with_another_layout_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    api = load_api()
    check_layout(api)

    class Moved:
        def model_default_params(self) -> Any:
            return api.model_default_params()

        def context_default_params(self) -> Any:
            params = api.context_default_params()
            params.n_batch, params.n_ubatch = params.n_ubatch, params.n_batch
            return params

    with pytest.raises(ApiMissing, match="n_batch is 512"):
        check_layout(Moved())
    monkeypatch.setattr(llama_api, "RELEASES", ("1.0",))
    load_api.cache_clear()
    assert "is not one of 1.0" in llama_api.why_no_api()
    monkeypatch.undo()
    load_api.cache_clear()
    assert llama_api.why_no_api() == ""


MARKER = "MARKER-4711"


def test_nothing_of_a_request_is_printed(
    loop: LlamaLoop, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even a grammar that the runtime cannot read, nor a prompt that does not fit."""
    broken = (f'root ::= "{MARKER}', f"root ::= {MARKER}", MARKER, f'root ::= "\\x{MARKER}"')
    for grammar in broken:
        with pytest.raises(GenerationFailed, match="could not read the grammar"):
            list(loop.write_call(CallToWrite(MARKER, grammar=grammar, max_tokens=1)))
    for text in (MARKER, f"\ud800{MARKER}", f"a\0{MARKER}", f"<|im_end|>{MARKER}"):
        list(loop.generate(ask(text, max_tokens=1, stop=(MARKER,))))
    with pytest.raises(ContextExceeded):
        list(loop.generate(ask(f"{MARKER} " * 400)))
    os.write(2, b"heard")
    printed = capfd.readouterr()
    assert (MARKER in printed.out, MARKER in printed.err) == (False, False), printed.err
    assert "heard" in printed.err
    ctypes.CDLL(None).perror(b"as before")  # C code is heard again
    assert "as before" in capfd.readouterr().err


def test_a_batch_holds_what_one_pass_may() -> None:
    assert BATCH >= 64  # a whole draft and the request before it


def test_the_prompt_may_be_read_in_another_layer_than_the_answer(loop: LlamaLoop) -> None:
    request = ask("What is the chemical symbol for gold?")
    both = tokens_of(loop.generate(request, layer=20, prompt_layer=12))
    answer = tokens_of(loop.generate(request, layer=20))
    prompt = tokens_of(loop.generate(request, layer=12))
    assert np.allclose(both[0].state, prompt[0].state, atol=1e-3)
    assert not np.allclose(both[0].state, answer[0].state, atol=1e-3)
    for one, other in zip(both[1:], answer[1:], strict=True):
        assert np.allclose(one.state, other.state, rtol=1e-2, atol=1e-2)


def test_as_many_requests_are_lined_up_as_there_are_slots(default_model: InstalledModel) -> None:
    """Slots that end in the same pass are filled in the next one, or the batch stays small."""
    facts = LlamaLoop(default_model, threads=1, context_tokens=512, slots=3).facts()
    assert (facts.slots, facts.ahead) == (3, 3)


# A libllama of a package, to try this with another one: LIBLLAMA=…/libllama.so pytest
_PACKAGE = importlib.util.find_spec("xllamacpp")
_FOLDERS = (_PACKAGE.submodule_search_locations or []) if _PACKAGE else []
(WHEELS_LIBRARY,) = (str(path) for each in _FOLDERS for path in Path(each).glob("xllamacpp*.so"))
OWN_LIBRARIES = [path for path in (os.environ.get("LIBLLAMA", ""), WHEELS_LIBRARY) if path]


@pytest.mark.parametrize("path", OWN_LIBRARIES)
def test_a_library_of_ones_own_writes_what_the_wheels_does(
    path: str, default_model: InstalledModel
) -> None:
    request = Request(messages=(Message("user", "Name three colours."),), max_tokens=12)
    said = []
    for own in ("", path):
        backend = open_backend(default_model, threads=1, context_tokens=256, llama_library=own)
        try:
            assert backend.facts().states
            answer = "".join(
                item.text for item in backend.generate(request) if isinstance(item, Token)
            )
            said.append(answer)
        finally:
            backend.close()
    assert said[0] == said[1] != ""


def test_a_library_that_is_none_or_another_release_is_refused_with_the_reason(
    tmp_path: Path, default_model: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path | str) -> None:
        open_backend(default_model, threads=1, context_tokens=256, llama_library=str(path))

    with pytest.raises(ModelNotFound, match="there is no file"):
        opened(tmp_path / "libllama.so")
    (tmp_path / "libllama.so").write_bytes(b"no library")
    load_api.cache_clear()
    with pytest.raises(ModelNotFound, match="it could not be opened"):
        opened(tmp_path / "libllama.so")
    monkeypatch.setattr(llama_api, "OWN_RELEASES", ("0.1",))
    load_api.cache_clear()
    with pytest.raises(ModelNotFound, match=r"it is llama.cpp 0\.\d.*; known are 0.1"):
        opened(WHEELS_LIBRARY)


def test_the_layout_of_an_older_release_is_known_by_its_defaults() -> None:
    older = load_api().context_default_params()
    kept = {name: getattr(older, name) for name, _ in older._fields_ if name != "unnamed"}

    class Older:
        def model_default_params(self) -> Any:
            return load_api().model_default_params()

        def context_default_params(self) -> Any:
            return ContextParams05(**kept)

    check_layout(Older())
