"""Options and arguments that several commands share, their meaning, and completion in shells."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem, get_completion_class
from typing_extensions import override

from edgewise import plugins
from edgewise.cli.render import console
from edgewise.cli.streams import PATIENCE_S, print_json, read_all, read_if_piped, without_surrogates
from edgewise.settings import Settings
from edgewise.types.messages import OBJECTIVES, POLICIES, as_kinds, as_share

Command = TypeVar("Command", bound=Callable[..., Any])
Completer = Callable[[click.Context, click.Parameter, str], list[str]]
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors included.")
language = click.option(
    "--language", "-l", metavar="CODE", help="Such as en or de. Detected if not set."
)
hint = click.option(
    "--hint", metavar="WORDS", help="Names and words as they are spelt, for the transcriber."
)
USUAL_WARM_S = 300.0  # that `ask`, `call` and `chat` leave their model loaded


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


def _completer(names: Callable[[], list[str]]) -> Completer:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def model_names() -> list[str]:
    # Only <Tab> needs the list.
    from edgewise.local.catalogue import MODELS, ladder  # noqa: PLC0415
    from edgewise.local.store import ModelStore  # noqa: PLC0415

    here = ModelStore(Settings.load().models_dir).installed()
    return [*ladder(), *MODELS, *(model.name for model in here if model.runtime)]


def _engine_names() -> list[str]:
    from edgewise.local.store import runtime_names  # noqa: PLC0415

    return runtime_names()


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
    """A share as `5%`, `5` or `0.05`. `1` is everything where that makes sense, else 1 %."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    name = "share"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            share = value if isinstance(value, float) else as_share(value)
        except ValueError:
            self.fail(f"{value!r} is not a share like 5% or 0.05", param, ctx)
        plain = isinstance(value, str) and not value.strip().endswith("%")
        if plain and (share > 1 or (share == 1 and not self._whole)):
            share /= 100
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not between 0 and 100 %", param, ctx)
        return share


_AIMS = (
    click.option(
        "--max-error",
        type=_Share(whole=False),
        metavar="SHARE",
        help="At most this share of kept answers may be wrong, such as 5%; replaces --threshold.",
    ),
    click.option(
        "--cloud-share",
        type=_Share(whole=True),
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


class _Chance(click.ParamType[float]):
    """A confidence as `0.8` or `80%`. A number above 1 is no confidence."""

    name = "share"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        with contextlib.suppress(ValueError):
            chance = value if isinstance(value, float) else as_share(value)
            if 0 <= chance <= 1:
                return chance
        self.fail(f"{value!r} is not a confidence between 0 and 1, like 0.8 or 80%", param, ctx)


def _threshold(words: str) -> Callable[[Command], Command]:
    return click.option("--threshold", "-t", type=_Chance(), help=words)


chat_model = click.option(
    "--model",
    "-m",
    help="Local model: a name, a GGUF file, or a server that runs (ollama:NAME, a URL).",
    shell_complete=complete_models_and_files,
)


def speech_routing(command: Command) -> Command:
    """--policy and related options, for commands that transcribe."""
    return _all_of(
        command,
        *_PLACE,
        _threshold("Hand off segments below this confidence; 0 never does."),
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
        _threshold("Hand off below this confidence; 0 never does."),
        *_AIMS,
        chat_model,
        click.option("--system", "-s", help="System prompt."),
        click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens."),
        click.option("--temperature", type=click.FloatRange(0), help="0 is repeatable (default)."),
    )


def deciding(command: Command) -> Command:
    """--policy and related options, for commands whose model writes nothing."""
    return _all_of(
        command,
        *_PLACE,
        *_PERSONAL,
        _threshold("Hand off a question below this confidence; 0 never does."),
        *_AIMS,
        chat_model,
    )


warm = click.option(
    "--no-warm",
    is_flag=True,
    help="Load the model for this command alone: use no process that keeps it, leave none behind.",
)
signal = click.option(
    "--signal", is_flag=True, help="Only say that it should be handed off (exit 10)."
)
deadline = click.option(
    "--deadline-ms",
    type=click.FloatRange(0, min_open=True),
    help="Go to the cloud if the device is too slow.",
)
run_always = click.option(
    "--always", is_flag=True, help="Run calls without asking, those in doubt too."
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
        click.option(
            "--yes",
            "-y",
            is_flag=True,
            help="Run calls of MCP tools without asking, but for those in doubt.",
        ),
        run_always,
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
    may_warm, cold = "no_warm" in given, given.pop("no_warm", False)
    options = placed(given)
    if "system" in options:
        options["system"] = without_surrogates(options["system"])
    settings = Settings.load(**overrides)
    if may_warm and (cold or settings.keep_warm_s is None):
        settings = settings.with_changes(keep_warm_s=0.0 if cold else USUAL_WARM_S)
    return settings, options


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


# -- completion in the shell -----------------------------------------------------------------------


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@as_json
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool) -> None:
    """Print a completion script for SHELL: commands, options, models, providers, policies.

    \b
    bash:  edgewise completion bash >> ~/.bashrc
    zsh:   edgewise completion zsh >> ~/.zshrc
    fish:  edgewise completion fish > ~/.config/fish/completions/edgewise.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    script = kind(context.find_root().command, {}, "edgewise", "_EDGEWISE_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
