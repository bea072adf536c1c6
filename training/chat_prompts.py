"""Write questions as the tokens that llama.cpp would read, one file per model.

    python -m training.chat_prompts --model MODEL.gguf --out MODEL.rows.jsonl.gz [--public FOLDER]

The model's own chat template renders each prompt and llama.cpp splits it, so the machine that
answers needs no tokenizer. `--public` names a folder with LLMRouter's files; its rows are read
there and never kept in the repository. TriviaQA stays out: its rows hold one alias at random.
`--regrade ROWS` in place of a model writes rows anew after gold was corrected.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import importlib
import json
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from typing_extensions import override

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.builtin import SYSTEMS, family_of, make_builtin_questions
from edgewise_bench.questions.public import FIRM, read_public_questions
from training.trace_files import read_rows

BARE = "bare"  # no system turn at all, which the templates do not offer
PUBLIC = "public"


class _LocalConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class PromptServer:
    """llama.cpp's own template and tokenizer, asked over a socket."""

    def __init__(self, address: str, server: Any) -> None:
        self._address, self.server = address, server

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = _LocalConnection(self._address)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def tokens(self, question: Question, *, bare: bool = False) -> list[int]:
        """`bare` leaves the system turn out; else an empty system prompt is the template's own."""
        system = [{"role": "system", "content": question.system}] if question.system else []
        messages = [*system, {"role": "user", "content": question.prompt}]
        text: str = self.ask("/apply-template", {"messages": messages})["prompt"]
        if bare:
            text = text[text.index("<|im_start|>user") :]
        body = {"content": text, "parse_special": True, "add_special": True}
        tokens: list[int] = self.ask("/tokenize", body)["tokens"]
        return tokens


@contextmanager
def prompt_server(model: Path, context_tokens: int = 2048) -> Iterator[PromptServer]:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # only this step needs the runtime
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.verbosity = context_tokens, 1, -1
    params.warmup = params.fit_params = False
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/llama.sock"
        params.hostnames = [address]
        yield PromptServer(address, xllamacpp.Server(params))


def public_questions(folder: Path, seed: int) -> list[Question]:
    """LLMRouter's rows, each under one of our system prompts."""
    random = Random(seed)
    found = [each.question for each in read_public_questions(folder)]
    kept = [question for question in found if question.kind in FIRM]
    return [replace(question, system=random.choice(SYSTEMS)) for question in kept]


def make_rows(
    server: PromptServer, questions: Sequence[Question], seed: int
) -> Iterator[dict[str, Any]]:
    """Half of the questions without a system prompt go bare."""
    random = Random(seed)
    for question in questions:
        bare = not question.system and random.random() < 0.5
        yield {
            **asdict(question),
            "family": family_of(question.kind, PUBLIC),
            "system": BARE if bare else question.system,
            "tokens": server.tokens(question, bare=bare),
        }


def with_gold_of_today(
    rows: Sequence[dict[str, Any]], questions: Sequence[Question]
) -> Iterator[dict[str, Any]]:
    """Rows that were answered before, with what counts as right now; prompts and tokens stay."""
    known = {(question.kind, question.prompt): asdict(question) for question in questions}
    for row in rows:
        asked = known.get((row["kind"], row["prompt"]), {})
        yield row | {name: value for name, value in asked.items() if name != "system"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path)
    source.add_argument("--regrade", type=Path, help="rows that only need the gold of today")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--public", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args(arguments)
    questions = make_builtin_questions(options.seed, options.limit)
    if options.public:
        questions += public_questions(options.public, options.seed)
    if options.regrade:
        count, longest = write_rows(
            options.out, with_gold_of_today(read_rows(options.regrade), questions)
        )
    else:
        with prompt_server(options.model) as server:
            count, longest = write_rows(options.out, make_rows(server, questions, options.seed))
    sys.stdout.write(f"{options.out.name}: {count} rows, longest prompt {longest} tokens\n")
    return 0


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """How many rows were written, and how long the longest prompt is."""
    lengths = []
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            lengths.append(len(row["tokens"]))
    return len(lengths), max(lengths, default=0)


if __name__ == "__main__":
    sys.exit(main())
