"""The words are tests too: examples run, links resolve, commands exist, tables match the code.

`EDGEWISE_WRITE_DOCS=1 python -m pytest tests/test_docs.py` writes the tables that come from code.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from datetime import date
from importlib.metadata import metadata
from pathlib import Path
from typing import NamedTuple, get_args
from urllib.parse import urljoin, urlsplit

import click
import pytest

import edgewise
from edgewise import parts
from edgewise.calibrations import shipped_document
from edgewise.calls.check import GATE, STRICT_GATE
from edgewise.cli.main import cli
from edgewise.cloud.providers import PROVIDERS, Provider
from edgewise.errors import EdgewiseError
from edgewise.local.store import InstalledModel
from edgewise.settings import KeySettings, ProviderSettings, ServerSettings, Settings
from edgewise.types.replies import ComplaintCode
from tests.codes_in_source import codes_in_source, misfit_codes
from tests.every import every

ROOT = Path(__file__).parents[1]
WRITE = bool(os.environ.get("EDGEWISE_WRITE_DOCS"))  # read before tests clear the environment
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
}
MOST_UNRUN_BLOCKS = 3
# Where the pages may point, and nowhere else: no package index, nobody's private host.
HOSTS = {
    "127.0.0.1",
    "192.168.1.20",
    "host.docker.internal",
    "keepachangelog.com",
    "semver.org",
    *(urlsplit(row.base_url).hostname for row in PROVIDERS.values()),
}


class Block(NamedTuple):
    """One fenced block: what follows the fence, its first line's number, and its text."""

    language: str
    line: int
    text: str
    folded: bool  # inside <details>: a measurement somebody may want to repeat, too slow for a test

    @property
    def runs(self) -> bool:
        return self.language == "python" and not self.folded


def words(page: str) -> str:
    return PAGES[page].read_text("utf-8")


def blocks(page: str) -> Iterator[Block]:
    text = words(page)
    for match in re.finditer(r"^ *```([^\n]+)\n(.*?)^ *```$", text, re.M | re.S):
        before = text[: match.start(2)]
        folded = before.rfind("<details>") > before.rfind("</details>")
        yield Block(match[1].strip(), before.count("\n") + 1, match[2], folded)


def prose(page: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", words(page), flags=re.M | re.S)


# -- examples ---------------------------------------------------------------------------------

RUNNABLE = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.mark.real_model
@pytest.mark.parametrize("page", RUNNABLE)
def test_examples_run_and_print_what_they_say(
    page: str,
    default_model: InstalledModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a new user has them: a model is here, and no key of a cloud."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks(page):
        if not block.runs:
            continue
        code = compile("\n" * (block.line - 1) + block.text, page, "exec")
        exec(code, namespace)
        printed = capsys.readouterr().out.splitlines()
        for promised in re.findall(r"# → (.*)$", block.text, re.M):
            assert promised in printed, f"{page}:{block.line} prints {printed}"


def test_few_examples_are_not_run() -> None:
    unrun = [
        f"{page}:{block.line}"
        for page in PAGES
        for block in blocks(page)
        if block.language.startswith("python") and not block.runs
    ]
    assert len(unrun) <= MOST_UNRUN_BLOCKS, unrun


# -- links ------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor a heading gets on the usual hosts."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return plain.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)}


@every(PAGES)
def test_every_link_resolves(page: str) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if urlsplit(target).scheme:
            continue
        name, _, anchor = target.partition("#")
        path = PAGES[page].parent / name if name else PAGES[page]
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(target)
    assert not wrong


@every(PAGES)
def test_no_page_points_at_an_unknown_host_or_a_path_of_ours(page: str) -> None:
    text = words(page)
    urls = re.findall(r"https?://[^\s`\"')>]+", text)
    hosts = {urlsplit(url).hostname or "" for url in urls}
    assert not {host for host in hosts - HOSTS if not host.endswith(".example")}
    ours = ("/work/", "/root", "/home/", "/Users/", str(ROOT), str(Path.home()))
    assert not [path for path in ours if path in text]


# -- commands ---------------------------------------------------------------------------------


def commands(page: str) -> Iterator[str]:
    """Every `edgewise …` a page shows: in shell blocks, indented, and in its sentences."""
    shown = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language in ("console", "sh", "bash")
        for line in block.text.splitlines()
    ]
    shown += re.findall(r"^ {4}(edgewise .*)$", prose(page), re.M)
    shown += re.findall(r"`(edgewise [^`]+)`", prose(page))
    for line in shown:
        for part in re.split(r"\||&&|;", line):
            found = re.match(r"\s*(?:[A-Z_]+=\S+ )*edgewise (.*)", part)
            if found:
                yield found[1]


@every([page for page in PAGES if any(commands(page))])
def test_every_command_exists_with_its_options(page: str) -> None:
    wrong = []
    for line in commands(page):
        arguments = [
            word
            for word in shlex.split(line, comments=True)
            if not re.match(r"[<>]|…$|\.\.\.$", word)
        ]
        try:
            parse(cli, arguments)
        except click.UsageError as error:
            wrong.append(f"edgewise {line}: {error.format_message()}")
    assert not wrong


def parse(command: click.Command, arguments: list[str]) -> None:
    """Follow the words into sub-commands, then let click read the options. Nothing runs."""
    # The names of the help option too: click keeps the option, and other tests print it.
    context = click.Context(command, info_name=command.name, help_option_names=["-h", "--help"])
    if isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        inner = command.get_command(context, arguments[0])
        if inner is None:
            raise click.UsageError(f"no command {arguments[0]!r}")
        parse(inner, arguments[1:])
        return
    command.make_parser(context).parse_args(list(arguments))


def test_the_reader_of_commands_knows_a_wrong_one() -> None:
    for wrong in (["aks"], ["ask", "--locl"], ["auth", "sett"]):
        with pytest.raises(click.UsageError):
            parse(cli, wrong)


# -- codes ------------------------------------------------------------------------------------


def test_every_code_is_on_the_page() -> None:
    codes = codes_in_source()
    assert {"private", "kept_confident", "cloud_dns_failed", "handed_off", "does_not_fit"} <= codes
    codes |= {f"{way}_{code}" for way in ("handoff", "signalled") for code in misfit_codes()}
    codes |= {f"signalled_policy_{policy}" for policy in ("prefer_cloud", "cloud_only")}
    page = words("docs/reference/codes.md")
    missing = sorted(code for code in codes - {"low_confidence"} if f"`{code}`" not in page)
    assert not missing, missing


def test_every_complaint_is_on_the_page_and_whether_it_is_a_doubt() -> None:
    page = words("docs/guide/functions.md").partition("## Complaints")[2].partition("\n## ")[0]
    for code in get_args(ComplaintCode):
        row = re.search(rf"^\|.*`{code}`.*?\|.*?\| (.*?) \|.*\|$", page, re.M)
        assert row, code
        held = "yes" if code in GATE else "if required" if code in STRICT_GATE else "no"
        assert row[1] == held, code


def test_every_error_class_is_on_the_page_with_its_code() -> None:
    def below(kind: type[EdgewiseError]) -> Iterator[type[EdgewiseError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    page = words("docs/reference/codes.md")
    for kind in below(EdgewiseError):
        if kind.__module__ == "edgewise.errors":
            row = rf"^\| `{kind.code}` \| `{kind.__name__}` \|"
            assert re.search(row, page, re.M), (kind.code, kind.__name__)


# -- messages ---------------------------------------------------------------------------------


def messages_in_source() -> Iterator[str]:
    """Every text in the code; what is put into it is an ellipsis."""
    for path in (ROOT / "src" / "edgewise").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", None) for part in node.values)
                yield "".join(part if isinstance(part, str) else "…" for part in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_message_in_troubleshooting_is_one_of_ours() -> None:
    shown = re.findall(r"^### `(.*)`$", words("docs/guide/troubleshooting.md"), re.M)
    known = list(messages_in_source())
    assert len(shown) > 20
    for message in shown:
        pattern = ".*".join(map(re.escape, message.split("…")))
        assert any(re.fullmatch(pattern, text) for text in known), message


# -- settings and providers -------------------------------------------------------------------


def as_toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_every_setting_is_on_its_page_with_default_and_variable() -> None:
    page = words("docs/reference/settings.md")
    for each in fields(Settings):
        found = re.search(rf"^\| `{each.name}` \| (.*?) \| (.*?) \| .+ \|$", page, re.M)
        assert found, each.name
        if isinstance(each.default, str | int | float | tuple):
            assert found[1] == f"`{as_toml(each.default)}`", each.name
        in_environment = each.name not in (
            "models",
            "providers",
            "environment",
            "named",
        )
        variable = f"`EDGEWISE_{each.name.upper()}{'_…' if each.name == 'server' else ''}`"
        assert found[2] == (variable if in_environment else "none")
    for each in fields(ProviderSettings):
        assert re.search(rf"^\| `{each.name}` \|", page, re.M), each.name
    for each in (*fields(ServerSettings), *fields(KeySettings)):
        rows = re.findall(rf"^\| `{each.name}` \| `(.*?)` \| .+ \|$", page, re.M)
        if isinstance(each.default, str | int | float | tuple):
            assert as_toml(each.default) in rows, each.name
        assert rows, each.name


def test_every_settings_file_on_a_page_is_accepted(tmp_path: Path) -> None:
    shown: set[str] = set()
    # What extending.md shows needs its plug-in: tests/test_plugins.py has both.
    for page in PAGES.keys() - {"docs/guide/extending.md"}:
        for block in blocks(page):
            if block.language == "toml" and block.text.startswith("# config.toml"):
                if page == "docs/guide/extending.md":
                    continue  # needs its plug-in: tests/test_plugins.py has it
                (tmp_path / "config.toml").write_text(block.text, "utf-8")
                parts.provider_rows(Settings.load({}, config_dir=tmp_path))
                if page == "docs/reference/settings.md":
                    shown |= tomllib.loads(block.text).keys()
    assert shown == {each.name for each in fields(Settings)} - {"environment", "named"}


BEGIN, END = "<!-- begin providers -->", "<!-- end providers -->"


def provider_row(row: Provider) -> str:
    model = row.default_model or f"{row.name}/MODEL"
    keys = ", ".join(f"`{name}`" for name in row.key_names)
    cells = (
        f"`{row.name}`",
        row.description,
        row.protocol,
        f"`{model}`" if row.default_model else f"none: write `{model}`",
        keys if row.needs_key else f"not needed ({keys})",
        f"`{row.base_url}`",
    )
    return f"| {' | '.join(cells)} |"


def provider_table() -> str:
    head = "| Name | What | Protocol | Default model | Key | Base URL |\n|---|---|---|---|---|---|"
    return "\n".join((head, *(provider_row(row) for row in PROVIDERS.values())))


def test_the_table_of_providers_is_the_directory() -> None:
    page = words("docs/guide/providers.md")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    if WRITE:
        written = f"{before}{BEGIN}\n{provider_table()}\n{END}{after}"
        PAGES["docs/guide/providers.md"].write_text(written, "utf-8")
        table = provider_table()
    assert table.strip() == provider_table()


LIMITS_BEGIN, LIMITS_END = "<!-- begin schema limits -->", "<!-- end schema limits -->"


def schema_limits() -> str:
    from edgewise.grammar import answers as answers
    from edgewise.grammar import patterns as patterns
    from edgewise.grammar.tools import MOST_OPEN

    rows = [
        ("Schemas in it, each counted once however often it is referred to", answers.MOST_SCHEMAS),
        ("Values in one another", answers.DEEPEST),
        ("Values of any kind in its JSON", answers.MOST_VALUES),
        ("Characters of the names and texts in it", answers.MOST_TEXT),
        ("The same, as they are written, with what is referred to", answers.MOST_TEXT),
        ("Values of all enums; pairs of them that `allOf` joins", answers.MOST_CHOICES),
        ("Optional properties in a row", answers.MOST_OPTIONAL),
        ("Options of one `anyOf` or `oneOf`", answers.MOST_OPTIONS),
        ("Ways to read an answer that was begun, at once", MOST_OPEN),
        (
            "`minLength` or `minItems`; a larger `maxLength` or `maxItems` counts as this",
            answers.MOST_REPETITIONS,
        ),
        ("Different lengths of strings, and lengths of lists, added up", answers.MOST_REPEATED),
        ("Size of a `minimum` or `maximum`", f"below {answers.LARGEST_NUMBER:,}"),
        ("Characters of a `$ref`", answers.LONGEST_ADDRESS),
        ("Characters of a pattern", patterns.LONGEST_PATTERN),
        ("States of a pattern's automaton", patterns.MOST_STATES),
        ("States of all patterns together", answers.MOST_PATTERN_STATES),
        ("Steps of making their automata, together", patterns.MOST_STEPS),
        ("Characters of the grammar that comes of it", answers.MOST_WRITTEN),
    ]
    lines = [
        f"| {what} | {most if isinstance(most, str) else format(most, ',')} |"
        for what, most in rows
    ]
    return "\n".join(["| Of one schema | At most |", "|---|---|", *lines])


def test_a_printed_decision_has_the_threshold_that_is_shipped() -> None:
    """Samples of `edgewise why`, which no test runs with the larger models."""
    seen = 0
    for page in PAGES:
        for block in blocks(page):
            found = re.search(r"calibration (\S+-q\w+?)(:state)?$", block.text, re.M)
            said = re.search(r"\| threshold ([\d.]+)$", block.text, re.M)
            if found is None or said is None:
                continue
            shipped = shipped_document(found[1], "chat")
            assert shipped is not None
            if found[2]:
                shipped = shipped["with_state"]
            assert float(said[1]) == round(shipped["threshold"], 2), f"{page}:{block.line}"
            seen += 1
    assert seen


def test_the_limits_of_schemas_are_those_in_the_code() -> None:
    page = words("docs/guide/server.md")
    start, _, rest = page.partition(LIMITS_BEGIN)
    _, _, end = rest.partition(LIMITS_END)
    fresh = f"{start}{LIMITS_BEGIN}\n{schema_limits()}\n{LIMITS_END}{end}"
    if WRITE:
        PAGES["docs/guide/server.md"].write_text(fresh, "utf-8")
        page = fresh
    assert page == fresh, "docs/guide/server.md is stale: run with EDGEWISE_WRITE_DOCS=1"


SERVED_BEGIN, SERVED_END = "<!-- begin limits -->", "<!-- end limits -->"


def served_limits() -> str:
    """Every limit on what a client may send: what, how much, what happens beyond it, its name."""
    from edgewise.calls.tools import TOOLS_LIMIT
    from edgewise.cloud.redact import MOST_SEARCHED
    from edgewise.server import body, dashboard, realtime, serve, state, wyoming
    from edgewise.server.chat import MOST_TOKENS
    from edgewise.server.embeddings import MOST_CHARACTERS, MOST_TEXTS
    from edgewise.speech.audio import HIGHEST_RATE, LOWEST_RATE
    from edgewise.types.messages import MOST_TURNS
    from edgewise.vision import fetch, pictures

    server = ServerSettings()

    def million(pixels: int) -> str:
        return f"{pixels / 1e6:,.0f} million pixels"

    def size(count: int) -> str:
        return f"{count:,} bytes"

    rates = f"{LOWEST_RATE:,} to {HIGHEST_RATE:,} a second"
    rows = (
        ("**Requests**", "", "", ""),
        ("Head of a request", size(serve.HEADER_BYTES), "400", ""),
        ("Time to send it", f"{server.header_s:g} s", "408", "header_s"),
        ("Body", size(server.body_bytes), "413", "body_bytes"),
        ("Time to send it", f"{server.body_s:g} s", "408", "body_s"),
        ("Bodies of all requests at once", size(server.bodies_bytes), "429", "bodies_bytes"),
        (
            f"The same, for bodies up to {size(state.SMALL_BODY)}",
            size(2 * server.bodies_bytes),
            "429",
            "bodies_bytes",
        ),
        ("Share of a chunked body that is lengths of chunks", "half", "400", ""),
        ("Requests at once", f"{server.requests:,}", "429", "requests"),
        ("Requests that a local model works on", f"{server.slots:,}", "they wait", "slots"),
        ("Requests that wait for it", f"{server.queue:,}", "429", "queue"),
        ("Time to answer", f"{server.total_s:g} s", "504", "total_s"),
        ("Time in which a client takes nothing", f"{server.stall_s:g} s", "closed", "stall_s"),
        ("Readers of `/edgewise/events`", f"{dashboard.MOST_WATCHING}", "429", ""),
        ("Of one key, where there are several", "half", "429", ""),
        ("**JSON and forms**", "", "", ""),
        ("Values in a body, and in JSON inside its texts", f"{body.MOST_VALUES:,}", "400", ""),
        ("Values in one another", f"{body.DEEPEST}", "400", ""),
        ("Messages and calls", f"{MOST_TURNS:,}", "400", ""),
        ("Tools", f"{TOOLS_LIMIT:,}", "400", ""),
        ("Tokens of an answer", f"{MOST_TOKENS:,}", "400", ""),
        (
            "Texts to be embedded",
            f"{MOST_TEXTS:,}, {MOST_CHARACTERS:,} characters in all",
            "400",
            "",
        ),
        ("Parts of a form", f"{body.MOST_PARTS - 1}", "400", ""),
        ("A field of a form that is no file", size(body.LONGEST_TEXT), "400", ""),
        (
            "Text that is searched for personal data",
            f"{MOST_SEARCHED:,} characters",
            "stays on the device",
            "",
        ),
        ("**Pictures**", "", "", ""),
        ("Pictures in a request", f"{pictures.MOST_PICTURES}", "400", ""),
        ("A file", size(pictures.MOST_BYTES), "400", ""),
        ("All files of a request", size(pictures.MOST_BYTES_TOGETHER), "400", ""),
        ("A picture", million(pictures.MOST_PIXELS), "400", ""),
        ("All pictures of a request", million(pictures.MOST_PIXELS_TOGETHER), "400", ""),
        ("Pictures unpacked at once, of all requests", "1", "they wait", ""),
        ("Scans of a JPEG", f"{pictures.MOST_SCANS}", "400", ""),
        ("Strips of a TIFF", f"{pictures.MOST_STRIPS:,}", "400", ""),
        (
            "Time of a processor, to read a header and to unpack",
            f"{pictures.HEAD_S:g} s and {pictures.DECODE_S:g} s",
            "400",
            "",
        ),
        ("Time to fetch one", f"{fetch.FETCH_S:g} s", "400", ""),
        ("Time to fetch all of a request", f"{fetch.FETCH_ALL_S:g} s", "400", ""),
        ("Redirects", f"{fetch.MOST_REDIRECTS}", "400", ""),
        ("**Sound**", "", "", ""),
        ("Sound in an upload", f"{server.sound_s:g} s", "400", "sound_s"),
        ("Samples", rates, "400", ""),
        ("**Live sessions**", "", "", ""),
        ("Sessions at once", f"{server.live_sessions}", "closed, 1013", "live_sessions"),
        ("Of one key, where there are several", "half", "closed, 1013", ""),
        ("Recordings of a session", "each counts as a request", "429", "requests_per_minute"),
        ("A message", size(realtime.MESSAGE_BYTES), "closed, 1009", ""),
        (
            "Messages of a session that wait",
            f"{realtime.WAITING}, {size(realtime.WAITING_BYTES)}",
            "no more are read",
            "",
        ),
        ("Sound until it is committed", f"{server.sound_s:g} s", "it is committed", "sound_s"),
        ("Time without a message", f"{server.total_s:g} s", "closed, 1000", "total_s"),
        ("**`edgewise wyoming`**", "", "", ""),
        ("Clients", f"{wyoming.MOST_CLIENTS}", "refused", ""),
        (
            "Head, data and sound of an event",
            f"{wyoming.HEADER_BYTES:,}, {wyoming.DATA_BYTES:,}, {size(wyoming.PAYLOAD_BYTES)}",
            "an error",
            "",
        ),
        ("A recording", f"{wyoming.MOST_SECONDS:g} s", "an error", ""),
        ("Time without an event", f"{wyoming.IDLE_S:g} s", "closed", ""),
    )
    lines = [
        f"| {what} | {most} | {beyond} | {f'`{name}`' if name else ''} |"
        for what, most, beyond, name in rows
    ]
    head = "| What | At most | Beyond it | Setting |\n|---|---|---|---|"
    return "\n".join([head, *lines])


def test_the_limits_of_the_server_are_those_in_the_code() -> None:
    page = words("docs/guide/security.md")
    start, _, rest = page.partition(SERVED_BEGIN)
    _, _, end = rest.partition(SERVED_END)
    fresh = f"{start}{SERVED_BEGIN}\n{served_limits()}\n{SERVED_END}{end}"
    if WRITE:
        PAGES["docs/guide/security.md"].write_text(fresh, "utf-8")
        page = fresh
    assert page == fresh, "docs/guide/security.md is stale: run with EDGEWISE_WRITE_DOCS=1"


def test_every_limit_that_can_be_set_is_in_the_table() -> None:
    table = served_limits()
    not_limits = {"host", "port", "key", "keys", "hosts", "origins", "any_model", "remote_images"}
    not_limits |= {"otel", "drain_s", "isolate", "log_format", "proxies", "preload", "busy_after_s"}
    not_limits |= {"user_proxies", "user_headers", "group_headers", "open"}
    for each in fields(ServerSettings):
        assert each.name in not_limits or f"`{each.name}`" in table, each.name


NAMES_BEGIN, NAMES_END = "<!-- begin names -->", "<!-- end names -->"


def public_names() -> str:
    """The public names by what they are, each with the first sentence of its docstring.

    Errors are named alone: the page of codes says what each one means.
    """
    groups: dict[str, list[str]] = {"What a program opens, or replaces": [], "Values": []}
    errors = []
    for name in sorted(set(edgewise.__all__) - {"__version__"}):  # type: ignore[attr-defined]
        thing = getattr(edgewise, name)
        alias = not isinstance(thing, type)  # such as a Union, which has no docstring of its own
        if not alias and issubclass(thing, EdgewiseError):
            errors.append(f"`{name}`")
            continue
        value = alias or thing.__module__.startswith("edgewise.types.")
        said = "one of several types" if alias else (thing.__doc__ or "").strip()
        sentence = re.sub(r"\s+", " ", re.split(r"(?<=\.)\s", said)[0]).replace("|", "\\|")
        kind = "Values" if value else "What a program opens, or replaces"
        groups[kind].append(f"| `{name}` | {sentence} |")
    tables = [
        "\n".join((f"## {kind}", "", "| Name | What |", "|---|---|", *rows))
        for kind, rows in groups.items()
    ]
    meant = f"[What each means](codes.md#errorcode-when-there-is-no-reply): {', '.join(errors)}."
    return "\n\n".join((*tables, f"## Errors\n\n{meant}"))


def test_the_page_of_public_names_is_what_the_package_says() -> None:
    page = words("docs/reference/python.md")
    before, _, rest = page.partition(NAMES_BEGIN)
    table, _, after = rest.partition(NAMES_END)
    if WRITE:
        table = public_names()
        written = f"{before}{NAMES_BEGIN}\n{table}\n{NAMES_END}{after}"
        PAGES["docs/reference/python.md"].write_text(written, "utf-8")
    assert table.strip() == public_names()


SPEECH_BEGIN, SPEECH_END = "<!-- begin other models -->", "<!-- end other models -->"


def other_models_table() -> str:
    head = "| Name | Speech | Embeddings |\n|---|---|---|"
    rows = (
        f"| `{row.name}` | {_model(row.speech_model)} | {_model(row.embedding_model)} |"
        for row in PROVIDERS.values()
        if row.speech_model or row.embedding_model
    )
    return "\n".join((head, *rows))


WIRES_BEGIN, WIRES_END = "<!-- begin decision wires -->", "<!-- end decision wires -->"


def decision_wires_table() -> str:
    head = "| Name | Wire | Model | Where |\n|---|---|---|---|"
    rows = (
        f"| `{row.name}` | `{row.decisions}` | `{row.model_for('decide')}` "
        f"| `{urljoin(row.base_url + '/', row.decision_path or row.decisions)}` |"
        for row in PROVIDERS.values()
        if row.decisions
    )
    return "\n".join((head, *rows))


def test_the_table_of_decision_wires_is_the_directory() -> None:
    page = words("docs/guide/providers.md")
    before, _, rest = page.partition(WIRES_BEGIN)
    table, _, after = rest.partition(WIRES_END)
    if WRITE:
        table = decision_wires_table()
        written = f"{before}{WIRES_BEGIN}\n{table}\n{WIRES_END}{after}"
        PAGES["docs/guide/providers.md"].write_text(written, "utf-8")
    assert table.strip() == decision_wires_table()


def _model(name: str) -> str:
    return f"`{name}`" if name else "none"


def test_the_table_of_other_models_is_the_directory() -> None:
    page = words("docs/guide/providers.md")
    before, _, rest = page.partition(SPEECH_BEGIN)
    table, _, after = rest.partition(SPEECH_END)
    if WRITE:
        table = other_models_table()
        written = f"{before}{SPEECH_BEGIN}\n{table}\n{SPEECH_END}{after}"
        PAGES["docs/guide/providers.md"].write_text(written, "utf-8")
    assert table.strip() == other_models_table()


# -- the rest ---------------------------------------------------------------------------------


def test_the_changelog_is_about_this_version() -> None:
    text = words("CHANGELOG.md")
    headings = re.findall(r"^## (.*)$", text, re.M)
    assert headings[0].startswith(f"[{edgewise.__version__}] - ")
    for heading in headings:
        version, day = re.fullmatch(r"\[(\S+)\] - (\S+)", heading).groups()  # type: ignore[union-attr]
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert date.fromisoformat(day)
    kinds = set(re.findall(r"^### (.*)$", text, re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_readme_is_short_and_begins_with_the_two_commands() -> None:
    lines = words("README.md").splitlines()
    assert len(lines) <= 200
    first_screen = "\n".join(lines[:30])
    assert "make demo" in first_screen and "make test" in first_screen


@pytest.mark.parametrize(
    ("rung", "name", "kept"),
    [
        ("standard", "qwen2.5-coder-1.5b-instruct-q4_k_m", (0.48, 0.52)),  # "half of its answers"
        ("tiny", "smollm2-135m-instruct-q8_0", (0.0, 0.01)),  # "none of its answers"
    ],
)
def test_the_readme_quotes_the_shipped_calibrations(
    rung: str, name: str, kept: tuple[float, float]
) -> None:
    file = ROOT / "src" / "edgewise" / "calibrations" / f"{name}.json"
    report = json.loads(file.read_text("utf-8"))["with_state"]["report"]
    limits = words("README.md").partition(f"\n- `{rung}`")[2].partition("\n- ")[0]
    assert f"{report['accuracy']:.0%}".replace("%", " %") in limits
    assert f"{report['questions']:,}" in words("README.md")
    assert kept[0] <= report["kinds_kept_share_at_0.90"] <= kept[1]


def test_every_room_is_in_the_plan_of_the_house() -> None:
    page = words("docs/architecture.md")
    for path in (ROOT / "src" / "edgewise").iterdir():
        if path.name != "__pycache__":
            name = f"{path.name}/" if path.is_dir() else path.name
            assert re.search(rf"^    [├└]── {re.escape(name)} +\S", page, re.M), name


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    for path in docs.rglob("*.md"):
        index = docs / "decisions" if path.parent == docs / "decisions" else docs
        entry = f"({path.relative_to(index).as_posix()})"
        assert path.name == "README.md" or entry in (index / "README.md").read_text("utf-8"), entry


def test_decisions_are_numbered_and_have_their_three_parts() -> None:
    folder = ROOT / "docs" / "decisions"
    kept = sorted(path.name[:4] for path in folder.glob("0*.md"))
    merged = re.findall(r"((?:\d{4}(?:, )?)+) into (\d{4})", words("docs/decisions/README.md"))
    assert {now for _, now in merged} <= set(kept)
    gone = [was for many, _ in merged for was in many.split(", ")]
    numbers = sorted((*kept, *gone))
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    for path in folder.glob("0*.md"):
        text = path.read_text("utf-8")
        assert text.startswith(f"# {path.name[:4]} · ")
        assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Price"], path.name
        assert len(text.splitlines()) <= 45, f"{path.name} is more than half a page"


def test_every_dependency_is_explained_with_its_licence() -> None:
    page = words("docs/architecture.md")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement)[0]  # type: ignore[index]
        row = re.search(rf"^\|.*`{name}`.*\|$", page, re.M)
        assert row, name
        facts = metadata(name)
        if "License-Expression" in facts:
            assert facts["License-Expression"] in row[0], name


def test_every_promise_of_the_security_page_has_a_command_that_tests_it() -> None:
    promised = (ROOT / "docs/guide/security.md").read_text("utf-8")
    table = promised.split("## What is promised of private")[0]
    against = re.findall(r"^\| \*\*(.+?)\*\*", table, re.MULTILINE)
    _, *sections, _ = re.findall(r"^## (.+)$", promised, re.MULTILINE)  # the table, and the tests
    against += sections
    told = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \|$", told, re.MULTILINE)
    assert len(against) >= 14 and not set(against) - {name for name, _ in rows}
    for name, command in rows:
        files = [word for word in command.split() if word.endswith(".py")]
        assert files or command.startswith(("edgewise bench ", "make ")), name
        assert all((ROOT / file).is_file() for file in files), command
