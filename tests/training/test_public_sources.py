"""Public data as frames: marked values are found, what does not fit is left out."""

from __future__ import annotations

from random import Random
from typing import Any

from training.public_sources import LICENCES, located, public_frames, small_talk
from training.sample import sample_clause
from training.seal_frames import seal_frame
from training.world import SOURCE_SHARES

SEEDS: dict[str, Any] = {
    "nlu": [
        [f"set an alarm for {hour} am", "alarm_set", [["time", f"{hour} am"]]]
        for hour in ("five", "six", "seven", "eight", "nine", "ten")
    ]
    + [[f"wake me at {hour}", "alarm_set", [["time", str(hour)]]] for hour in range(4, 10)]
    + [["that was well done", "general_praise", []]]
    + [["wake me at five or five", "alarm_set", [["time", "five"]]]],
    "snips": [
        [f"give {title} {stars} stars", "RateBook",
         [["object_name", title], ["rating_value", str(stars)], ["rating_unit", "stars"]]]
        for stars, title in enumerate(
            ["Dracula", "Emma", "Ulysses", "Kim", "She", "Persuasion", "Utopia", "Candide",
             "Walden", "Evelina", "Ivanhoe"]
        )
    ],
    "seal_tools": [
        {
            "api_name": "getTideHeight",
            "api_description": "Retrieves the height of the tide at a specific harbour.",
            "field": "Sea/Tides",
            "parameters": {
                "harbour": {"type": "str", "description": "The harbour (e.g., Brest, Dover)"},
                "year": {"type": "int", "description": "The year (e.g., 2020, 2021)"},
            },
            "required": ["harbour"],
        },
        {
            "api_name": "opaque",
            "api_description": "Retrieve a thing.",
            "field": "Misc",
            "parameters": {"blob": {"type": "str", "description": "A blob"}},
            "required": ["blob"],
        },
    ],
    "seal_dev": [
        {
            "query": "How high is the tide in Dover?",
            "calling": [{"api": "getTideHeight", "parameters": {"harbour": "Dover"}}],
        },
        {
            "query": "How high is the tide?",
            "calling": [{"api": "getTideHeight", "parameters": {"harbour": "Dover"}}],
        },
    ],
    "clinc": [["what is the meaning of life", "meaning_of_life"]],
}  # fmt: skip


def test_marked_values_become_arguments() -> None:
    [alarm] = [frame for frame in public_frames(SEEDS) if frame.source == "nlu"]
    clause = sample_clause(alarm, Random(1))
    assert clause.values["time"].value in clause.text
    # Twice the same word: nobody knows which one is meant.
    assert len(alarm.utterances) == 12


def test_numbers_of_marked_values_are_numbers_where_the_schema_says_so() -> None:
    [book] = [frame for frame in public_frames(SEEDS) if frame.source == "snips"]
    clause = sample_clause(book, Random(1))
    kind = book.parameters["stars"].kind
    assert isinstance(clause.values["stars"].value, int if kind == "int" else str)


def test_schemas_get_requests_from_their_descriptions() -> None:
    frame = seal_frame(SEEDS["seal_tools"][0])
    assert frame
    texts = {sample_clause(frame, Random(seed)).text for seed in range(60)}
    assert len(texts) > 10
    assert all("Brest" in text or "Dover" in text for text in texts)
    assert all("specific harbour" not in text for text in texts)


def test_schemas_without_believable_values_are_left_out() -> None:
    assert seal_frame(SEEDS["seal_tools"][1]) is None


def test_requests_whose_arguments_are_not_said_are_left_out() -> None:
    [frame] = [frame for frame in public_frames(SEEDS) if frame.source == "seal_dev"]
    assert len(frame.utterances) == 1


def test_small_talk_has_no_requests_for_tools() -> None:
    assert small_talk(SEEDS) == ["what is the meaning of life", "that was well done"]


def test_a_value_inside_another_word_is_not_found() -> None:
    assert located("playing chess", {"game": "play"}) is None
    assert located("play chess", {"game": "chess"}) is not None


def test_every_source_has_its_licence() -> None:
    assert set(SOURCE_SHARES) <= set(LICENCES)
