"""Options and arguments that several commands share, and their meaning for the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from edgewise import plugins
from edgewise.cli.render import console
from edgewise.cli.streams import PATIENCE_S, read_all, read_if_piped, without_surrogates
from edgewise.errors import InvalidRequest
from edgewise.settings import Settings
from edgewise.types.messages import Image
from edgewise.types.objectives import (
    OBJECTIVES,
    as_share,
)
from edgewise.types.personal_data import as_kinds

Command = TypeVar("Command", bound=Callable[..., Any])
Completer = Callable[[click.Context, click.Parameter, str], list[str]]
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors included.")
POLICIES = ("prefer_local", "local_only", "prefer_cloud", "cloud_only")


def read_prompt(words: tuple[str, ...], nothing: str) -> str:
    """The words, then standard input; a final - waits for it. `nothing`: the usage error."""
    waits = words[-1:] == ("-",)
    said = without_surrogates(" ".join(words[:-1] if waits else words)).strip()
    piped = read_all() if waits else read_if_piped()
    if piped is None:  # silent: without a question, wait
        piped = "" if said else read_all()
        if said:
            console(stderr=True).say(
                f"nothing came on standard input for {PATIENCE_S:g} s; asking without it "
                "(end the question with - to wait)"
            )
    prompt = f"{said}\n\n{piped}" if said and piped else said or piped
    if not prompt:
        raise click.UsageError(nothing)
    return prompt


def read_images(names: Sequence[str]) -> list[Image]:
    """One for each name. Addresses are fetched when the request runs. Raises InvalidRequest."""
    return [_read(name) for name in names]


def _read(name: str) -> Image:
    if name.startswith(("http://", "https://")):
        return Image.from_url(name)
    try:
        return Image.from_path(name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidRequest(f"image {name!r} cannot be read: {reason}") from error


def _completer(names: Callable[[], list[str]]) -> Completer:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def model_names() -> list[str]:
    # Only <Tab> needs the list.
    from edgewise.local.store.catalogue import MODELS, ladder  # noqa: PLC0415
    from edgewise.local.store.store import ModelStore  # noqa: PLC0415

    here = ModelStore(Settings.load().models_dir).installed()
    return [*ladder(), *MODELS, *(model.name for model in here if model.engine)]


def _engine_names() -> list[str]:
    from edgewise.local.store.engines import ENGINES  # noqa: PLC0415

    return list(ENGINES)


def _provider_names() -> list[str]:
    from edgewise.cloud.providers import PROVIDERS  # noqa: PLC0415

    return list(PROVIDERS)


complete_models = _completer(model_names)
complete_engines = _completer(_engine_names)


def complete_models_and_files(
    context: click.Context, option: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = complete_models(context, option, incomplete)
    # The shell can list files itself.
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


complete_providers = _completer(_provider_names)
complete_policies = _completer(lambda: plugins.names("policies"))


class _Share(click.ParamType[float]):
    """A share as `5%` or `0.05`."""

    name = "share"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            share = value if isinstance(value, float) else as_share(value)
        except ValueError:
            self.fail(f"{value!r} is not a share like 5% or 0.05", param, ctx)
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not between 0 and 100 %", param, ctx)
        return share


_AIMS = (
    click.option(
        "--max-error",
        type=_Share(),
        metavar="SHARE",
        help="At most this share of kept answers may be wrong, such as 5%; replaces --threshold.",
    ),
    click.option(
        "--cloud-share",
        type=_Share(),
        metavar="SHARE",
        help="Hand off about this share of requests; replaces --threshold.",
    ),
)

_PLACE = (
    click.option(
        "--policy",
        "-p",
        help=f"Where it may be answered: {', '.join(POLICIES)}, or a plug-in's.",
        shell_complete=complete_policies,
    ),
    click.option("--local", is_flag=True, help="Short for --policy local_only."),
    click.option("--cloud", is_flag=True, help="Short for --policy cloud_only."),
    click.option("--private", is_flag=True, help="Never leaves the device."),
)


class _Kinds(click.ParamType[tuple[str, ...]]):
    """Kinds of personal data, as `EMAIL,CARD` or `all`."""

    name = "kinds"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        try:
            return as_kinds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_PERSONAL = (
    click.option(
        "--redact",
        type=_Kinds(),
        metavar="KINDS",
        help="Send these kinds of data only as placeholders: EMAIL,CARD, or all.",
    ),
    click.option(
        "--private-kinds",
        type=_Kinds(),
        metavar="KINDS",
        help="A request with data of these kinds never leaves the device.",
    ),
    click.option(
        "--cloud-every",
        "cloud_every_s",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="At most one handoff in this many seconds.",
    ),
)


def speech_routing(command: Command) -> Command:
    """--policy and related options, for commands that transcribe."""
    return _all_of(
        command,
        *_PLACE,
        click.option(
            "--threshold",
            "-t",
            type=click.FloatRange(0, 1),
            help="Hand off segments below this confidence; 0 never does.",
        ),
        *_AIMS,
        click.option(
            "--model",
            "-m",
            help="Local model: a name, or a folder with a Whisper for CTranslate2.",
            shell_complete=complete_models,
        ),
    )


def routing(command: Command) -> Command:
    """--policy and related options, for commands that ask."""
    return _all_of(
        command,
        *_PLACE,
        *_PERSONAL,
        click.option(
            "--threshold",
            "-t",
            type=click.FloatRange(0, 1),
            help="Hand off below this confidence; 0 never does.",
        ),
        *_AIMS,
        click.option(
            "--model",
            "-m",
            help="Local model: a name, a GGUF file, or a server that runs (ollama:NAME, a URL).",
            shell_complete=complete_models_and_files,
        ),
        click.option("--system", "-s", help="System prompt."),
        click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens."),
        click.option("--temperature", type=click.FloatRange(0), help="0 is repeatable (default)."),
    )


def mcp_tools(command: Command) -> Command:
    """--mcp and what goes with it, for commands that offer the tools of MCP servers."""
    return _all_of(
        command,
        click.option(
            "--mcp",
            "servers",
            metavar="SERVER",
            multiple=True,
            help="Offer the tools of an MCP server: a command in quotes, or an http(s) address.",
        ),
        click.option(
            "--mcp-timeout",
            type=click.FloatRange(0, min_open=True),
            metavar="SECONDS",
            default=60.0,
            show_default=True,
            help="For an MCP server to start, and for each call.",
        ),
        click.option("--yes", "-y", is_flag=True, help="Run calls of MCP tools without asking."),
    )


def _all_of(command: Command, *given: Callable[[Command], Command]) -> Command:
    for option in reversed(given):
        command = option(command)
    return command


def placement(command: Command) -> Command:
    """--policy and related options, for commands without a prompt."""
    doing = click.option(
        "--policy",
        "-p",
        help=f"Where it may be done: {', '.join(POLICIES)}, or a plug-in's.",
        shell_complete=complete_policies,
    )
    return _all_of(command, doing, *_PLACE[1:])


def personal(command: Command) -> Command:
    """--redact and related options, for commands without other routing options."""
    return _all_of(command, *_PERSONAL)


def objectives(command: Command) -> Command:
    """--max-error and --cloud-share, for commands without other routing options."""
    return _all_of(command, *_AIMS)


def split(given: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Split options into settings for the engine and options for its requests."""
    overrides = {"model": model} if (model := given.pop("model")) else {}
    if (seconds := given.pop("cloud_every_s", None)) is not None:
        overrides["cloud_every_s"] = seconds
    options = placed(given)
    if "system" in options:
        options["system"] = without_surrogates(options["system"])
    return Settings.load(**overrides), options


def placed(given: dict[str, Any]) -> dict[str, Any]:
    """The given options, with the three ways to say a policy as one."""
    policy, local, cloud = given.pop("policy"), given.pop("local"), given.pop("cloud")
    if sum(map(bool, (policy, local, cloud))) > 1:
        raise click.UsageError("--policy, --local and --cloud exclude each other")
    if local or cloud:
        policy = "local_only" if local else "cloud_only"
    # Not by truth: a threshold of 0 was given, a flag that is False was not.
    options = {name: v for name, v in given.items() if v is not None and v is not False}
    if len(stated := [f"--{aim.replace('_', '-')}" for aim in OBJECTIVES if aim in options]) > 1:
        raise click.UsageError(f"{' and '.join(stated)} exclude each other")
    if policy:
        plugins.load("policies", policy)  # fail on a typo before a model is fetched
        options["policy"] = policy
    return options
