from __future__ import annotations

import numpy as np
from training.rows import (
    ANSWER,
    DIGIT,
    NO_DOCUMENT,
    VALUE,
    answer_flags,
    concatenate,
    fewer_rows,
    pack,
    value_spans,
)


def said(answer: str) -> list[str]:
    return [answer[begin:end] for begin, end in value_spans(answer)]


def test_values_are_found_and_names_and_keys_are_not() -> None:
    answer = 'v2.play {"song":"7 \\"o\'clock\\" {x}","loud":true}\nset_3 {"n":-1.5e3,"l":["a",2]}'
    assert said(answer) == ['"7 \\"o\'clock\\" {x}"', "true", "-1.5e3", '"a"', "2"]
    assert said("none") == []


def test_tokens_are_marked_by_what_they_cover() -> None:
    answer = 'f1 {"a":42}'
    offsets = [(0, 2), (2, 4), (4, 7), (7, 8), (8, 9), (9, 10), (10, 11)]
    value = ANSWER | VALUE | DIGIT
    assert answer_flags(answer, offsets) == [ANSWER, ANSWER, ANSWER, ANSWER, value, value, ANSWER]


def test_every_example_is_packed_whole_and_once() -> None:
    generator = np.random.default_rng(3)
    examples = []
    for number in range(300):
        size = int(generator.integers(5, 120))
        examples.append(([number] * size, [0] * (size - 2) + [ANSWER] * 2))
    rows = pack(examples, 256)

    assert rows.filled == sum(len(tokens) for tokens, _ in examples)
    assert rows.filled / rows.tokens.size > 0.95
    found = []
    for tokens, documents in zip(rows.tokens, rows.documents, strict=True):
        inside = documents[documents != NO_DOCUMENT].astype(int)
        assert (np.diff(inside) >= 0).all()  # the block mask relies on it
        for document in np.unique(inside):
            (number,) = np.unique(tokens[documents == document])
            found.append((int(number), int((documents == document).sum())))
    assert sorted(found) == [(n, len(tokens)) for n, (tokens, _) in enumerate(examples)]


def test_what_is_longer_than_a_row_is_left_out() -> None:
    rows = pack([([1] * 300, [0] * 300), ([2] * 10, [0] * 10)], 256)
    assert rows.filled == 10


def test_large_vocabularies_get_the_bytes_they_need() -> None:
    small, large = pack([([65_535] * 10, [0] * 10)], 16), pack([([65_536] * 10, [0] * 10)], 16)
    assert (small.tokens.itemsize, large.tokens.itemsize) == (2, 4)
    both = concatenate([small, large])
    assert sorted(np.unique(both.tokens)) == [0, 65_535, 65_536]


def test_fewer_rows_are_taken_from_everywhere() -> None:
    rows = pack([([number] * 100, [ANSWER] * 100) for number in range(50)], 128)
    some = fewer_rows(rows, 128 * 10)
    assert len(some) == 10
    assert {int(some.tokens[0, 0]), int(some.tokens[-1, 0])} == {0, 49}
    assert fewer_rows(rows, 0) is rows
    assert fewer_rows(rows, 10**9) is rows
