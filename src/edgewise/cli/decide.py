"""`edgewise decide`: typed questions about a text, a chance for each option; exit 0 or 1 by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.main import EXIT_FAILED, EXIT_SIGNALLED
from edgewise.cli.render import Waiting, confidence, console, print_json, summary
from edgewise.cli.setup import choose_model, ensure_embedder, ensure_model
from edgewise.cli.streams import read_all, without_surrogates
from edgewise.decide.policy import promises
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, InvalidRequest
from edgewise.requests import as_questions, as_state
from edgewise.settings import Settings
from edgewise.tasks import space_of
from edgewise.types.answers import Answers, shown_value
from edgewise.types.messages import ERROR_PROBABILITY, Choice, Question, Score, YesNo, percent

ALONE = "answer"  # what a question is called that was not given a name
_file = click.Path(path_type=Path, allow_dash=True)


@click.command()
@click.argument("text", nargs=-1)
@click.option("--state", type=_file, metavar="FILE", help="What it is about; - is standard input.")
@click.option(
    "--yes-no",
    "yes_no",
    multiple=True,
    metavar="[NAME=]QUESTION",
    help="Is it so?",
)
@click.option(
    "--choice",
    multiple=True,
    metavar="NAME[:QUESTION]=A,B,...",
    help="Which one of these?",
)
@click.option(
    "--score",
    multiple=True,
    metavar="NAME[:QUESTION]=LOW,...,HIGH",
    help="How much, on levels from the lowest to the highest?",
)
@click.option(
    "--questions",
    "file",
    type=_file,
    metavar="FILE",
    help="Questions by name as JSON, in the form of /v1/systemone.",
)
@click.option(
    "--each",
    type=_file,
    metavar="FILE",
    help="Decide every line of JSON: a state, or an object with `state`, and `id` and `questions` "
    "if it has some. Prints a line of JSON for each.",
)
@click.option(
    "--labels",
    type=_file,
    metavar="FILE",
    help="With `learn NAME` as the words: learn that question from lines of JSON with `state` and "
    "`label`, which is true or false, an option, or a level from 0.",
)
@options.deciding
@options.warm
@options.signal
@options.deadline
@click.option("--store-text", is_flag=True, help="Keep state and answers in the ledger.")
@options.as_json
@click.pass_context
def decide(
    context: click.Context,
    /,
    text: tuple[str, ...],
    state: Path | None,
    yes_no: tuple[str, ...],
    choice: tuple[str, ...],
    score: tuple[str, ...],
    file: Path | None,
    each: Path | None,
    labels: Path | None,
    signal: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Answer typed questions about TEXT, or about the file --state.

    The device reads each question, and those that it is unsure of go to the cloud together. With a
    single --yes-no the exit code is the answer: 0 is yes, 1 is no.

    \b
    edgewise decide "Charged twice, fix it!" --yes-no "Does the customer want money back?"
    edgewise decide --state mail.txt --choice team=billing,tech,sales --score anger=calm,angry
    edgewise decide --local --each mails.jsonl --questions triage.json > decided.jsonl
    edgewise decide learn team --questions triage.json --labels labelled.jsonl
    """
    questions = read_questions(file, yes_no, choice, score)
    if labels is not None:
        if len(text) != 2 or text[0] != "learn":
            raise click.UsageError("--labels goes with `learn NAME`")
        learn(text[1], questions, labels, as_json)
        return
    settings, request = options.split(given)
    request |= {"handoff": "signal"} if signal else {}
    policy = request.get("policy")
    if each is not None:
        if text or state:
            raise click.UsageError("--each has the states: give no TEXT and no --state")
        settings = _with_model(settings, policy, questions)
        with Engine(settings) as engine:
            wrong = sum(_tell(engine, row, questions, request) for row in read_lines(each))
        if wrong:
            context.exit(EXIT_FAILED)
        return
    if not questions:
        raise click.UsageError("no question: give --yes-no, --choice, --score or --questions")
    about = read_state(text, state)
    settings = _with_model(settings, policy, questions)
    with Engine(settings) as engine, Waiting(console(stderr=True), "deciding"):
        answers = engine.decide(about, questions, **request)
    if as_json:
        print_json(answers.to_dict())
    else:
        show(answers)
    if answers.signalled:
        context.exit(EXIT_SIGNALLED)
    (first, *others) = answers.values()
    if not others and first.value is False:
        context.exit(EXIT_FAILED)


def _with_model(settings: Settings, policy: str | None, asked: Mapping[str, Question]) -> Settings:
    """Fetch a chat model, unless labels have taught all of these questions: they need none."""
    from edgewise.calibrations import find_learnt  # noqa: PLC0415

    if asked and all(find_learnt(settings, question) for question in asked.values()):
        return settings
    return ensure_model(choose_model(settings, policy), policy)


def learn(name: str, questions: Mapping[str, Question], labels: Path, as_json: bool) -> None:
    """Fit a question to its labels, and use that whenever it is asked again. Nothing leaves."""
    from edgewise.calibrate.learn import learn_question, meanings_of  # noqa: PLC0415  # numpy
    from edgewise.calibrations import learnt_path, write_own  # noqa: PLC0415

    if name not in questions:
        raise InvalidRequest(f"no question {name!r}: say it by an option, or by --questions")
    rows = [(row.get("state"), row.get("label")) for row in read_lines(labels, "--labels")]
    states = [as_state(state) for state, _ in rows]
    settings = ensure_embedder(Settings.load(), "local_only")
    with Engine(settings) as engine, Waiting(console(stderr=True), "learning"):
        space = space_of(engine.parts)
        texts = [*states, *meanings_of(questions[name])]
        vectors = engine.parts.embedder().embed(texts).vectors if space else ()
    told = [str(label).lower() if isinstance(label, bool) else str(label) for _, label in rows]
    known, meant = vectors[: len(states)], vectors[len(states) :]
    learnt = learn_question(name, questions[name], states, told, known, space, meant)
    write_own(learnt_path(settings, learnt.key), learnt.to_dict())
    if as_json:
        print_json({"name": name, "key": learnt.key, "reads": learnt.reads, **learnt.report})
        return
    read_by = "its words" if learnt.reads == "words" else "its meaning"
    right = percent(round(learnt.report["held_out_accuracy"], 3))
    console().say(f"{name} reads a state by {read_by}: {right} of {len(rows)} labels right, unseen")
    console().say(promises(learnt.calibration, ERROR_PROBABILITY)[0])


def read_state(text: Sequence[str], path: Path | None) -> Any:
    """The words, or the file: JSON if it ends in .json, else text."""
    if text and path is not None:
        raise click.UsageError("give TEXT or --state, not both")
    if text:
        return without_surrogates(" ".join(text))
    if path is None or str(path) == "-":
        return read_all()
    return _json(path, "--state") if path.suffix == ".json" else _read(path, "--state")


def read_questions(
    file: Path | None, yes_no: Sequence[str], choice: Sequence[str], score: Sequence[str]
) -> dict[str, Question]:
    """Those of the file, then those of the options. Raises InvalidRequest that names the wrong."""
    found: dict[str, Any] = {}
    if file is not None:
        told = _json(file, "--questions")
        if not isinstance(told, Mapping):
            raise InvalidRequest(f"--questions {file}: expected questions by name")
        found |= told
    for written in yes_no:
        name, sign, question = written.partition("=")
        named = bool(sign) and name.isidentifier()
        _add(found, name if named else ALONE, YesNo(question if named else written))
    for kind, several in ((Choice, choice), (Score, score)):
        for written in several:
            head, sign, listed = written.rpartition("=")
            if not sign:
                raise click.UsageError(f"{written!r}: expected NAME=A,B,...")
            name, _, question = head.partition(":")
            options_of = [part.strip() for part in listed.split(",")]
            _add(found, name.strip(), kind(options_of, question.strip() or None))
    return as_questions(found) if found else {}


def _add(found: dict[str, Any], name: str, question: Question) -> None:
    if name in found:
        raise click.UsageError(f"two questions are called {name!r}: give names, as NAME=QUESTION")
    found[name] = question


def read_lines(path: Path, option: str = "--each") -> Iterator[dict[str, Any]]:
    """A row for each line: a state by itself, or an object that has one."""
    for number, line in enumerate(_read(path, option).splitlines(), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except ValueError as error:
            raise InvalidRequest(f"{option}, line {number}: not JSON: {error}") from error
        row = told if isinstance(told, dict) and "state" in told else {"state": told}
        yield {"id": number} | row


def _tell(
    engine: Engine, row: Mapping[str, Any], questions: Mapping[str, Any], request: dict[str, Any]
) -> bool:
    """Decide one row and print it. Whether there was an error: the other rows go on."""
    try:
        answers = engine.decide(row["state"], row.get("questions") or questions, **request)
    except EdgewiseError as error:
        print_json({"id": row["id"], "error": str(error), "code": error.code})
        return True
    told = {name: one.to_dict() for name, one in answers.items()}
    print_json({"id": row["id"], "source": answers.source, "answers": told})
    return False


def show(answers: Answers) -> None:
    """A line for each answer; why it is so beside it, on standard error."""
    screen, side = console(), console(stderr=True)
    for name, one in answers.items():
        screen.say(f"{name}: ", (shown_value(one), "bold"))
        chances = ", ".join(
            f"{option} {chance:.2f}" for option, chance in one.probabilities.items()
        )
        sure = confidence(
            one.confidence, verified=one.confidence_verified, calibration=one.calibration
        )
        side.say((f"  {one.source} · {sure} · {one.reason}", "dim"))
        if chances:
            side.say((f"  {chances}", "dim"))
    side.print(summary(answers))


def _read(path: Path, option: str) -> str:
    if str(path) == "-":
        return read_all()
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise InvalidRequest(f"{option} {path}: {error.strerror or error}") from error


def _json(path: Path, option: str) -> Any:
    try:
        return json.loads(_read(path, option))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{option} {path}: not JSON: {error}") from error
