"""The `edgewise` command. Its subcommands load when they are called, so `--version` is quick."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from edgewise import __version__
from edgewise.cli.streams import drop_stdout, prepare_streams, print_json, printable
from edgewise.errors import (
    CloudError,
    DoesNotFit,
    EdgewiseError,
    InvalidRequest,
    LedgerError,
    ModelNotFound,
    SettingsError,
    SpaceMismatch,
    StoreError,
)

# docs/reference/cli.md documents these; scripts rely on them.
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CODES: tuple[tuple[type[EdgewiseError], int], ...] = (
    (SettingsError, EXIT_USAGE),
    (InvalidRequest, EXIT_USAGE),
    (SpaceMismatch, 3),
    (DoesNotFit, 3),
    (CloudError, 4),
    (ModelNotFound, 5),
    (StoreError, 6),
    (LedgerError, 7),
)
EXIT_SIGNALLED = 10
EXIT_STOPPED = 130

COMMANDS = {
    "act": ("edgewise.cli.act:act", "Say it, and let it be done: speech to function calls."),
    "ask": ("edgewise.cli.ask:ask", "Ask one question."),
    "auth": ("edgewise.cli.auth:auth", "Store, show and remove providers' keys."),
    "calibrate": (
        "edgewise.cli.calibrate:calibrate",
        "Fit confidences to a model or your requests.",
    ),
    "call": ("edgewise.cli.call:call", "Turn a request into function calls."),
    "chat": ("edgewise.cli.chat:chat", "Talk: one history across device and cloud."),
    "completion": ("edgewise.cli.options:completion", "Print a shell completion script."),
    "decide": (
        "edgewise.cli.decide:decide",
        "Answer typed questions: a chance for each option.",
    ),
    "demo": ("edgewise.cli.demo:demo", "Watch a few requests being answered and routed."),
    "doctor": ("edgewise.cli.doctor:doctor", "What works here, what is missing, how to fix it."),
    "embed": ("edgewise.cli.search:embed", "Turn texts into vectors of one space."),
    "feedback": ("edgewise.cli.ledger:feedback", "Say whether an answer was right."),
    "find": ("edgewise.cli.search:find", "Search a folder by meaning."),
    "index": ("edgewise.cli.search:index", "Read a folder, so that find can search it."),
    "keys": ("edgewise.cli.auth:keys", "Keys for a server's clients: make, list, rotate, revoke."),
    "ledger": ("edgewise.cli.ledger:ledger", "Spend, share kept on the device, latency, reasons."),
    "listen": ("edgewise.cli.transcribe:listen", "Caption live what is being said."),
    "mcp": ("edgewise.cli.serve:mcp", "Be an MCP server: ask, call, decide, see and more."),
    "models": ("edgewise.cli.models:models", "List models: installed ones and those to pull."),
    "pull": ("edgewise.cli.models:pull", "Get a model's weights, verified."),
    "say": ("edgewise.cli.transcribe:say", "Speak a text, or write it as a sound file."),
    "see": ("edgewise.cli.ask:see", "Ask about pictures."),
    "serve": ("edgewise.cli.serve:serve", "Serve OpenAI's, Anthropic's and Ollama's APIs."),
    "setup": ("edgewise.cli.setup:setup", "Choose the model for this machine, and get it."),
    "transcribe": ("edgewise.cli.transcribe:transcribe", "Write down what sound files say."),
    "tune": ("edgewise.cli.setup:tune", "Measure which runtime is the quickest here."),
    "verify": ("edgewise.cli.models:verify", "Hash installed models again."),
    "warm": ("edgewise.cli.models:warm", "Which models are kept loaded for the next command."),
    "why": ("edgewise.cli.ledger:why", "Why a request stayed or left, and what would change it."),
    "wyoming": ("edgewise.cli.serve:wyoming", "Serve Home Assistant's voice: speech, intents."),
}

# Commands in separately installed packages of ours, and the line of help.
OFFERED = {
    "bench": "Measure speed and quality on this machine.",
    "deploy": "Run replicas of server and models on Ray Serve.",
}


# What other programs call it.
_ELSEWHERE = {
    **dict.fromkeys(("list", "ls", "ps", "show", "search"), "models"),
    **dict.fromkeys(("get", "install", "download", "add"), "pull"),
    **dict.fromkeys(("classify", "judge", "route"), "decide"),
    **dict.fromkeys(("speak", "speech", "tts"), "say"),
    **dict.fromkeys(("run", "complete", "generate", "prompt"), "ask"),
    **dict.fromkeys(("login", "key", "keys"), "auth"),
    **dict.fromkeys(("config", "init", "configure"), "setup"),
    **dict.fromkeys(("status", "check", "info", "settings"), "doctor"),
    **dict.fromkeys(("start", "server", "up"), "serve"),
    **dict.fromkeys(("usage", "cost", "stats", "log", "logs", "history"), "ledger"),
    **dict.fromkeys(("rm", "remove", "delete", "uninstall"), "models --remove"),
    **dict.fromkeys(("stop", "kill", "unload"), "warm --stop"),
    "help": "--help",
    "version": "--version",
}


class ReaderLeft(Exception):
    """A closed pipe under another name: click would exit with code 1 for the original."""


class LazyGroup(click.Group):
    """Knows the names and one-line helps of its commands without importing them."""

    @override
    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(command_helps())

    @override
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return plugged_command(name, context)
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    @override
    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(command_helps().items()))

    @override
    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        helps = sorted(command_helps().items())
        items = [
            CompletionItem(name, help=line) for name, line in helps if name.startswith(incomplete)
        ]
        # Not click.Group's own method, which would import every command for its help.
        return items + click.Command.shell_complete(self, context, incomplete)

    @override
    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-"):
            known = command_helps()
            near = [_ELSEWHERE[name]] if name in _ELSEWHERE else None
            near = near or difflib.get_close_matches(name, known)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            if name not in known:
                raise click.UsageError(f"No such command {name!r}.{hint}", ctx=context)
        return super().resolve_command(context, args)

    @override
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)  # prints the help if requested
        except BrokenPipeError as error:
            raise ReaderLeft from error

    @override
    def invoke(self, context: click.Context) -> Any:
        try:
            result = super().invoke(context)
            sys.stdout.flush()
            return result
        except BrokenPipeError as error:
            raise ReaderLeft from error

    @override
    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command; an error becomes one line (or JSON) and a documented exit code."""
        prepare_streams()
        as_json = wants_json(sys.argv[1:] if args is None else args)
        extra |= {"prog_name": "edgewise", "standalone_mode": False}
        try:
            with _leaving_properly():
                result: Any = super().main(args, *rest, **extra)
            sys.exit(result if isinstance(result, int) else 0)
        except click.UsageError as error:
            if as_json:
                _say(error.format_message(), "usage", as_json)
            else:
                error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            _say(error.format_message(), "failed", as_json)
            sys.exit(error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            _say("stopped", "cancelled", as_json)
            sys.exit(EXIT_STOPPED)
        except ReaderLeft:
            drop_stdout()
            sys.exit(0)
        except EdgewiseError as error:
            _say(str(error), error.code, as_json)
            sys.exit(exit_code(error))
        except OSError as error:  # a full disk, a folder without write permission
            _say(str(error), "system", as_json)
            try:
                sys.stdout.flush()
            except OSError:  # it is what is full: Python would try again, and exit with 120
                drop_stdout()
            sys.exit(EXIT_FAILED)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 fits nowhere,\n"
    "4 cloud, 5 no model, 6 weights, 7 ledger, 10 handoff signalled, 130 stopped.",
)
@click.version_option(__version__, prog_name="edgewise")
def cli() -> None:
    """Answers on the device, measures its own confidence, hands off when in doubt.

    Start with:  edgewise demo
    """


def main(args: list[str] | None = None) -> None:
    """The entry point of the `edgewise` script."""
    cli.main(args=args)


@contextlib.contextmanager
def _leaving_properly() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what was spent is recorded first."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP; `nohup` ignores it
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)


def command_helps() -> dict[str, str]:
    """Every command and its line in the help, without importing any plug-in."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - `--version` needs none of it

    helps = {name: line for name, (_, line) in COMMANDS.items()}
    plugged = {point.name: point.dist for point in entry_points(group="edgewise.commands")}
    for name, line in OFFERED.items():
        helps[name] = line if name in plugged else f"Not installed: edgewise {name} says how."
    for name, owner in plugged.items():
        facts = dict(owner.metadata.json if owner is not None else {})
        helps.setdefault(name, str(facts.get("summary", "")))
    return helps


def plugged_command(name: str, context: click.Context) -> click.Command | None:
    """A command that another package adds through the entry point group `edgewise.commands`."""
    from edgewise import plugins  # noqa: PLC0415

    missing = name in plugins.OURS["commands"] and not context.resilient_parsing
    if name in plugins.names("commands") or missing:
        command = plugins.load("commands", name)
        if not isinstance(command, click.Command):
            raise SettingsError(f"the plug-in for {name!r} is no click command: {command!r}")
        return command
    if name in OFFERED and not context.resilient_parsing:
        from edgewise.extras import package_command  # noqa: PLC0415 - reads metadata

        how = package_command(f"edgewise-{name}")
        raise click.UsageError(f"{name!r} comes with a package of its own: {how}", ctx=context)
    return None


def exit_code(error: EdgewiseError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), EXIT_FAILED)


def wants_json(args: Sequence[str]) -> bool:
    """From the arguments themselves: a wrong option is reported before any option is parsed."""
    words = list(args)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _say(message: str, code: str, as_json: bool) -> None:
    line = message if code == "cancelled" else f"edgewise: {printable(message)} [{code}]"
    try:
        if as_json:
            print_json({"success": False, "error": message, "code": code})
        else:
            click.echo(line, err=True)
    except OSError:  # standard output itself may be broken
        drop_stdout()
        click.echo(line, err=True)


if __name__ == "__main__":
    main()
