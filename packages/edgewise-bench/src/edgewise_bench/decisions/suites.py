"""Suites of labelled decisions: six written for this bench, and public sets read from a folder.

Public sets are never part of this package. A folder holds them under the names in `PUBLIC`, as
their projects publish them; docs/guide/decisions.md says where. The wording of all questions is
ours, but for `adequacy`, whose rows come with theirs.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from itertools import zip_longest
from pathlib import Path

from edgewise.requests import as_questions
from edgewise.types.messages import Choice, Question, YesNo

SEED = 37
STRANGER = ""  # the label of a row that no option fits
LONGEST = 600  # characters of a state: longer ones only cost time

Row = tuple[str, str]  # a state, and the name of the right option


@dataclass(frozen=True, slots=True)
class Suite:
    """A question, and states with the name of the right option; empty: none is right."""

    name: str
    question: Question
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Public:
    """A public set: its file, how it is read, and what is asked."""

    file: str
    read: Callable[[Path], Iterator[Row]]
    question: Question


def _tabbed(path: Path, *, label: int, text: int, names: Mapping[str, str]) -> Iterator[Row]:
    for line in path.read_text("utf-8").splitlines():
        cells = line.split("\t")
        if len(cells) == 2 and cells[label] in names:
            yield cells[text], names[cells[label]]


def _commas(
    path: Path, *, label: int, text: Sequence[int], names: Mapping[str, str]
) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.reader(file):
            if cells[label] in names:
                yield ". ".join(cells[each] for each in text), names[cells[label]]


def _clinc(path: Path, *, names: Mapping[str, str], part: str) -> Iterator[Row]:
    told = json.loads(path.read_text("utf-8"))
    for text, intent in told[part]:
        if intent in names:
            yield text, names[intent]
    for text, _ in told["oos_test" if part == "test" else "oos_train"]:
        yield text, STRANGER


def _seeds(path: Path, *, source: str, names: Mapping[str, str]) -> Iterator[Row]:
    import gzip  # noqa: PLC0415  # of two sets only

    with gzip.open(path, "rt", encoding="utf-8") as file:
        for text, intent, *_ in json.load(file)[source]:
            found = names.get(intent) or names.get(intent.partition("_")[0])
            if found:
                yield text, found


def _adequacy(path: Path) -> Iterator[Row]:
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        yield row["state"], "true" if row["label"] else "false"


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_BANKING = {
    "card_arrival": "when a new card arrives",
    "lost_or_stolen_card": "a card was lost or stolen",
    "exchange_rate": "how currencies are exchanged",
    "pin_blocked": "the PIN is blocked",
    "cancel_transfer": "stop a transfer",
    "declined_card_payment": "a payment with the card was refused",
    "edit_personal_details": "change name, address and the like",
    "request_refund": "get money back",
    "terminate_account": "close the account",
    "top_up_failed": "putting money in did not work",
    "age_limit": "how old one must be",
    "transaction_charged_twice": "charged two times",
}
_CLINC = _same(
    "translate", "weather", "timer", "book_flight", "recipe", "balance", "play_music", "spelling",
    "schedule_meeting", "car_rental",
)  # fmt: skip
_NLU = {
    "alarm": "alarm", "calendar": "calendar", "email": "email", "lists": "lists",
    "iot": "home devices", "takeaway": "food delivery", "transport": "transport", "news": "news",
}  # fmt: skip
_SNIPS = {
    "GetWeather": "weather", "PlayMusic": "play music", "BookRestaurant": "book a restaurant",
    "SearchScreeningEvent": "film showings", "RateBook": "rate a book",
    "SearchCreativeWork": "find a work (book, film, song, game)",
    "AddToPlaylist": "add to a playlist",
}  # fmt: skip
_AG = {"1": "world", "2": "sports", "3": "business", "4": "technology"}

PUBLIC: dict[str, _Public] = {
    "sms_spam": _Public(
        "sms.tsv",
        partial(_tabbed, label=0, text=1, names={"spam": "true", "ham": "false"}),
        YesNo("Is this message spam: advertising, a prize or a fraud?"),
    ),
    "sentiment": _Public(
        "sst2.tsv",
        partial(_tabbed, label=1, text=0, names={"1": "true", "0": "false"}),
        YesNo("Does the reviewer like the film?"),
    ),
    "news": _Public(
        "ag_news.csv",
        partial(_commas, label=0, text=(1, 2), names=_AG),
        Choice(
            {
                "world": "politics and events of the world",
                "sports": None,
                "business": "companies and money",
                "technology": "science and technology",
            },
            "Which section of the newspaper is this from?",
        ),
    ),
    "banking": _Public(
        "banking.csv",
        partial(_commas, label=1, text=(0,), names=_same(*_BANKING)),
        Choice(_BANKING, "What is the customer's question about?"),
    ),
    "assistant": _Public(
        "clinc.json",
        partial(_clinc, names=_CLINC, part="test"),
        Choice(list(_CLINC), "What does the user want?"),
    ),
    "home": _Public(
        "seeds.json.gz",
        partial(_seeds, source="nlu", names=_NLU),
        Choice(list(_NLU.values()), "What is the request about?"),
    ),
    "requests": _Public(
        "seeds.json.gz",
        partial(_seeds, source="snips", names=_SNIPS),
        Choice(list(_SNIPS.values()), "What does the user want?"),
    ),
    "adequacy": _Public(
        "adequacy.jsonl",
        _adequacy,
        YesNo(
            "Does the response adequately answer the request: correct, complete and on point?",
            true="the response is adequate",
            false="the response is not adequate",
        ),
    ),
}


def own_suites() -> list[Suite]:
    """The six that were written for this bench."""
    text = resources.files("edgewise_bench.decisions").joinpath("suites.json").read_text("utf-8")
    found = []
    for name, told in json.loads(text).items():
        question = as_questions({name: told["question"]})[name]
        rows = [(state, _option(label)) for state, label in told["rows"]]
        found.append(Suite(name, question, rows))
    return found


def _option(label: bool | int | str) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def public_suite(
    name: str, folder: Path, each: int, *, strangers: int = 0, longest: int = LONGEST
) -> Suite:
    """A draw of a public set, the same number for every option, by a fixed seed."""
    told = PUBLIC[name]
    by_label: dict[str, list[Row]] = {}
    for row in dict.fromkeys(told.read(folder / told.file)):
        if len(row[0]) <= longest:
            by_label.setdefault(row[1], []).append(row)
    draw = random.Random(f"{SEED} {name}")
    for rows in by_label.values():
        draw.shuffle(rows)
    odd = by_label.pop(STRANGER, [])[:strangers]
    options = told.question.options
    kept = [row for option in options for row in by_label[option][:each]]
    return Suite(name, told.question, kept + odd)


# Rows of each option, so that all suites together take about twenty minutes of one core.
EACH = {
    "sms_spam": 20, "sentiment": 20, "news": 8, "banking": 3, "assistant": 3, "home": 4,
    "requests": 4, "adequacy": 15,
}  # fmt: skip
STRANGERS = 20


def bench_suites(folder: Path | None) -> list[Suite]:
    """Our own suites, and with a folder the public ones."""
    public = [
        public_suite(name, folder, each, strangers=STRANGERS)
        for name, each in EACH.items()
        if folder is not None
    ]
    return [*own_suites(), *public]


def in_turns(suites: Sequence[Suite]) -> Iterator[tuple[Suite, Row]]:
    """All rows, one of each suite after the other, shuffled within: what is cut short is fair."""
    drawn = []
    for suite in suites:
        rows = list(suite.rows)
        random.Random(f"{SEED} turns {suite.name}").shuffle(rows)
        drawn.append([(suite, row) for row in rows])
    for several in zip_longest(*drawn):
        yield from (one for one in several if one is not None)
