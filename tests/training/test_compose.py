"""Whole examples: kinds, counts, labels, determinism."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from training.compose import FAMILIES, SHARES, compose
from training.example import Example
from training.frames_parser import parse_text
from training.generate import Plan, build_world, generate, held_out, main
from training.noise import add_noise, lower_everything, make_slips, speak
from training.parallel import coordinate, repeat_briefly, same_tool
from training.sample import Piece, clause_from, sample_clause

from edgewise.calls.prompt import Question, ReadAnswer, read_reply, render_reply
from edgewise.types.messages import ToolCall
from tests.training.worlds import EXAMPLES, example_frames, family_world, frame, small_world


def made(kind: str, count: int = 60) -> list[Example]:
    world = small_world() if kind not in FAMILIES and kind != "ranked" else family_world()
    rng = Random(kind)
    found: list[Example] = []
    while len(found) < count:
        example = compose(world, rng, kind)
        if example:
            found.append(example)
    return found


def _parts(reply: ReadAnswer) -> tuple[tuple[ToolCall, ...], tuple[Question, ...]]:
    return reply.calls, reply.questions


def text_values(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in text_values(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in text_values(inner)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("kind", sorted(SHARES))
def test_every_kind_can_be_made_and_its_calls_name_offered_tools(kind: str) -> None:
    for example in made(kind, 30):
        names = [styled.tool.name for styled in example.tools]
        assert len(set(names)) == len(names)
        assert {call.name for call in example.calls} <= set(names)
        assert {question.tool for question in example.questions} <= set(names)
        assert render_reply(*_parts(read_reply(example.answer))) == example.answer


def test_kinds_have_the_calls_they_are_named_after() -> None:
    assert all(len(e.calls) == 1 and len(e.tools) == 1 for e in made("single_one"))
    assert all(len(e.calls) == 1 for e in made("single_many"))
    for example in made("parallel"):
        assert len({call.name for call in example.calls}) == 1
        assert 2 <= len(example.calls) <= 5
    for example in made("parallel_multiple"):
        assert len({call.name for call in example.calls}) >= 2
    assert all(not e.calls and e.answer == "none" for e in made("irrelevant"))
    assert all(not e.calls and e.questions for e in made("missing"))
    assert all(e.answer == "none" for e in made("taken_away"))


def test_parallel_calls_differ() -> None:
    for example in made("parallel", 100):
        written = [json.dumps(dict(call.arguments), sort_keys=True) for call in example.calls]
        assert len(set(written)) == len(written)


def test_copied_strings_stand_in_the_request() -> None:
    copied = 0
    for kind in ("single_one", "parallel", "parallel_multiple", "correction"):
        for example in made(kind, 60):
            open_values = {
                choice.value.lower()
                for example_frame in example_frames()
                for parameter in example_frame.parameters.values()
                for choice in getattr(parameter.values, "options", ())
                if choice.verbatim
            }
            for call in example.calls:
                for text in text_values(dict(call.arguments)):
                    if text.lower() in open_values:
                        assert text.lower() in example.query.lower()
                        copied += 1
    assert copied > 100


def test_a_correction_keeps_the_last_value() -> None:
    for example in made("correction", 40):
        assert len(example.calls) == 1


def test_coordinated_calls_share_what_is_said_once() -> None:
    example = frame("mushroom_lookup")
    composed = None
    for seed in range(20):
        composed = composed or coordinate(example, example.templates[0], Random(seed), 3)
    assert composed
    clauses, pieces = composed
    text = "".join(piece.text for piece in pieces)
    assert text.startswith("what do we know about ")
    assert all(clause.values["species"].text in text for clause in clauses)
    assert len({clause.values["species"].text for clause in clauses}) == 3


def test_the_unit_of_a_number_is_not_listed() -> None:
    choices = "enum [a=years|b=months|c=days]"
    text = f"tool t | T.\n  n* int 1..9 | N\n  u* {choices} | U\n> over {{n}} {{u}}\n"
    [example] = parse_text(text, "u.frames").frames
    for seed in range(60):
        composed = coordinate(example, example.templates[0], Random(seed), 2)
        if composed:
            clauses, _ = composed
            assert clauses[0].values["n"].value != clauses[1].values["n"].value


def test_a_brief_repetition_names_only_what_differs() -> None:
    example = frame("water.temperature")
    for seed in range(30):
        composed = repeat_briefly(example, example.templates[0], Random(seed), 2)
        if composed:
            clauses, pieces = composed
            text = "".join(piece.text for piece in pieces)
            assert text.count("how warm is") == 1
            assert clauses[0].values.keys() == clauses[1].values.keys()


def test_the_same_tool_is_asked_as_often_as_wanted() -> None:
    for seed in range(60):
        clauses, _ = same_tool(frame("member_fee"), Random(seed), 3)
        assert len(clauses) == 3


def test_optional_arguments_come_and_go() -> None:
    example = frame("print.quote")
    counts = {len(sample_clause(example, Random(seed)).values) for seed in range(80)}
    assert {3, 4} <= counts


def test_speech_has_no_capitals_and_keeps_values_as_spoken() -> None:
    example = frame("mushroom_lookup")
    clause = clause_from(example, example.templates[0], Random(2))
    pieces = speak([clause], clause.pieces, Random(2))
    text = "".join(piece.text for piece in pieces)
    assert text == text.lower()
    assert clause.values["species"].value in text


def test_slips_never_touch_values() -> None:
    pieces = [Piece("please look up the "), Piece("Amanita phalloides", "species")]
    for seed in range(50):
        assert make_slips(pieces, Random(seed))[1] == pieces[1]


def test_lower_case_leaves_codes_alone() -> None:
    example = frame("course.enrol")
    clause = clause_from(example, example.templates[0], Random(1))
    code = clause.values["course"].value
    lower_everything([clause], clause.pieces)
    assert clause.values["course"].value == code
    assert clause.values["person"].value == clause.values["person"].value.lower()


def test_noise_never_loses_a_value() -> None:
    for seed in range(200):
        rng = Random(seed)
        clause = sample_clause(rng.choice(example_frames()), rng)
        slots = [piece.slot for piece in clause.pieces if piece.slot]
        after = add_noise([clause], clause.pieces, rng)
        assert [piece.slot for piece in after if piece.slot] == slots


def test_the_same_seed_gives_the_same_shards_with_any_number_of_workers(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.mkdir()
    (frames / "e.frames").write_text(EXAMPLES.read_text("utf-8"), "utf-8")
    plan = Plan(frames, None, None, seed=4, split="train")
    first = generate(plan, 2_500, 1, tmp_path / "one", 50_000)
    second = generate(plan, 2_500, 2, tmp_path / "two", 50_000)
    assert first == second
    one = (tmp_path / "one" / "train-00000.jsonl").read_text("utf-8")
    assert one == (tmp_path / "two" / "train-00000.jsonl").read_text("utf-8")
    records = [json.loads(line) for line in one.splitlines()]
    assert len(records) == 2_500
    assert set(records[0]) == {"prompt", "answer", "kind", "source"}
    other = Plan(frames, None, None, seed=5, split="train")
    generate(other, 100, 1, tmp_path / "three", 50_000)
    assert not one.startswith((tmp_path / "three" / "train-00000.jsonl").read_text("utf-8")[:500])


def test_the_order_of_sets_has_no_say_in_the_examples() -> None:
    shown = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "training.generate", "--show", "60", "--seed", "3"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, env=environment, check=True)
        shown.append(done.stdout)
    assert shown[0] and shown[0] == shown[1]


def test_shares_are_kept() -> None:
    world = family_world()
    rng = Random(9)
    kinds: Counter[str] = Counter()
    for _ in range(1_500):
        example = compose(world, rng)
        if example:
            kinds[example.kind.split("_")[0]] += 1
    total = sum(kinds.values())
    whole = sum(SHARES.values())
    for kind in ("single", "dialogue", "nested", "home", "missing", "slots"):
        share = sum(SHARES[name] for name in SHARES if name.startswith(kind)) / whole
        assert 0.6 * share < kinds[kind] / total < 1.6 * share, kind
    assert 0.05 < kinds["irrelevant"] / total < 0.13


def test_held_out_tools_are_never_trained_on() -> None:
    plan = Plan(EXAMPLES.parent, None, None, seed=1, split="train")
    train, _ = build_world(plan)
    valid, _ = build_world(Plan(plan.frames, None, None, 1, "valid"))
    assert valid.frames and all(held_out(item) for item in valid.frames)
    assert not {item.name for item in train.frames if held_out(item)}
    domains = {item.domain for item in valid.frames} - {item.domain for item in train.frames}
    assert len(domains) >= 4


def test_samples_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", "2", "--kind", "parallel"]) == 0
    assert capsys.readouterr().out.count("--- parallel") == 2
