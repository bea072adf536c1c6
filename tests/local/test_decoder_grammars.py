"""Every grammar is freed, however its job ends; without a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from edgewise.errors import GenerationFailed
from edgewise.local.backend import Channel
from edgewise.local.decoder import Decoder, Job


class Grammar:
    freed = 0

    def close(self) -> None:
        self.freed += 1


class Runtime:
    """One slot, whose first pass takes as long as it is held; then it fails."""

    name, slots, room, saver, repeatable, vocabulary = "a runtime", 1, 64, None, True, None

    def __init__(self) -> None:
        self.reading, self.go = threading.Event(), threading.Event()

    def read(self, *_: Any) -> Iterator[Any]:
        self.reading.set()
        assert self.go.wait(60)
        raise GenerationFailed("the pass failed")

    def interrupt(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...

    def cut(self, slot: int, length: int) -> int:
        return length


def test_the_grammar_of_a_job_that_was_called_off_while_it_waited_is_freed() -> None:
    runtime = Runtime()
    decoder = Decoder(runtime)  # type: ignore[arg-type]
    grammars = [Grammar() for _ in range(6)]
    jobs = [
        Job(prompt=[1, 2], answer=Channel(), max_tokens=4, grammar=each)  # type: ignore[arg-type]
        for each in grammars
    ]
    decoder.submit(jobs[0])
    assert runtime.reading.wait(60)
    for job in jobs[1:5]:
        decoder.submit(job)
        decoder.cancel(job)
    runtime.go.set()
    for job in jobs[:5]:
        with pytest.raises(GenerationFailed):
            list(job.items())
    decoder.close()
    with pytest.raises(GenerationFailed, match="was closed"):
        decoder.submit(jobs[5])
    assert [each.freed for each in grammars] == [1] * 6
