"""Outcomes made up for tests, in the files' own formats: nothing of anybody's is in here."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

from edgewise_bench.routing.frozen import PAIRS, WEAK
from edgewise_bench.routing.frozen import ROUTELLM_STRONG as STRONG

TOPICS = {  # words, and how often the weak and the strong model are right about them
    "law": (("tort", "statute", "appeal", "clause", "verdict"), 0.5, 0.95),
    "farming": (("plough", "barley", "tractor", "harvest", "soil"), 0.8, 0.85),
    "music": (("sonata", "violin", "tempo", "chord", "opera"), 0.75, 0.6),
}
Row = tuple[str, bool, bool]


def made_rows(count: int, seed: int) -> list[Row]:
    """The topic says most of what the strong model gains, the count of numbers a little."""
    source = random.Random(seed)
    rows = []
    for number in range(count):
        words, weak, strong = TOPICS[source.choice(sorted(TOPICS))]
        told = [source.choice(words) for _ in range(6)] + [source.choice("abcdefgh") * 3]
        numbers = [str(source.randint(1, 999)) for _ in range(source.randint(0, 5))]
        prompt = f"Question {number}: {' '.join(told)} {' '.join(numbers)}?"
        right = source.random() < weak - 0.05 * len(numbers)
        rows.append((prompt, right, source.random() < strong))
    return rows


def expected_gain(prompt: str) -> float:
    """What nobody can foretell better: the chances by which `made_rows` drew."""
    weak, strong = next(
        chances for words, *chances in TOPICS.values() if any(word in prompt for word in words)
    )
    told = prompt.partition(":")[2]
    numbers = sum(word.strip("?").isdigit() for word in told.split())
    return strong - weak + 0.05 * numbers


def write_outcomes(folder: Path, rows: int = 300) -> Path:
    """A folder as `--data` wants it."""
    for name, files in (
        ("mmlu", ("mmlu_first.csv", "mmlu_second.csv")),
        ("gsm8k", ("gsm8k_responses.csv",)),
    ):
        place = folder / "routellm" / name
        place.mkdir(parents=True)
        for number, file in enumerate(files):
            made = made_rows(rows, number)
            with (place / file).open("w", newline="", encoding="utf-8") as target:
                writer = csv.writer(target)
                writer.writerow(["prompt", WEAK, STRONG])
                writer.writerows(made)
        spoilt = json.dumps({"eval_prompt": made_rows(rows, 0)[0][0]})
        (place / "contaminated_prompts.jsonl").write_text(spoilt + "\n", "utf-8")
    _write_pairs(folder / "llmrouter", rows)
    return folder


def _write_pairs(place: Path, rows: int) -> None:
    place.mkdir()
    names = {name for models in PAIRS.values() for name in models}
    strong = {models[1] for models in PAIRS.values()}
    train, test = made_rows(rows, 7), made_rows(rows // 2, 8)
    for part, made in (("train", [*train, test[0]]), ("test", test)):  # one row is in both
        document = [
            {
                "question": prompt,
                "scores": {name: float(better if name in strong else weak) for name in names},
            }
            for prompt, weak, better in made
        ]
        (place / f"dcrouter_{part}.json").write_text(json.dumps(document), "utf-8")
    prices = {name: {"output_price": 0.9 if name in strong else 0.2} for name in names}
    (place / "default_llm.json").write_text(json.dumps(prices), "utf-8")
