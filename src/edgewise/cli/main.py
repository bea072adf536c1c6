"""The `edgewise` command: its groups load when they are called, so that `--version` is quick."""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Any

import click
from typing_extensions import override

from edgewise import __version__
from edgewise.errors import (
    CloudError,
    DoesNotFit,
    EdgewiseError,
    InvalidRequest,
    LedgerError,
    ModelNotFound,
    SettingsError,
    StoreError,
)

# docs/cli.md documents these; scripts rely on them.
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CODES: tuple[tuple[type[EdgewiseError], int], ...] = (
    (SettingsError, EXIT_USAGE),
    (InvalidRequest, EXIT_USAGE),
    (DoesNotFit, 3),
    (CloudError, 4),
    (ModelNotFound, 5),
    (StoreError, 6),
    (LedgerError, 7),
)
EXIT_SIGNALLED = 10

COMMANDS = {
    "ask": ("edgewise.cli.ask:ask", "Ask one question."),
    "auth": ("edgewise.cli.auth:auth", "Store, show and remove providers' keys."),
    "bench": ("edgewise.cli.bench:bench", "Measure speed and quality on this machine."),
    "chat": ("edgewise.cli.chat:chat", "Talk: one history across device and cloud."),
    "completion": ("edgewise.cli.completion:completion", "Print a shell completion script."),
    "demo": ("edgewise.cli.demo:demo", "Watch a few requests being answered and routed."),
    "doctor": ("edgewise.cli.doctor:doctor", "What works here, what is missing, how to fix it."),
    "ledger": ("edgewise.cli.ledger:ledger", "Spend, share kept on the device, latency, reasons."),
    "models": ("edgewise.cli.models:models", "List models: installed ones and those to pull."),
    "pull": ("edgewise.cli.models:pull", "Get a model's weights, verified."),
}


class LazyGroup(click.Group):
    """Knows its commands' names and one-line helps without importing them."""

    @override
    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    @override
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    @override
    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])

    @override
    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], COMMANDS) if args else []
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(error.message + hint, ctx=context) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="edgewise")
def cli() -> None:
    """Answers on the device, measures its own confidence, hands off when in doubt.

    Start with:  edgewise demo
    """


def main(args: list[str] | None = None) -> None:
    """Run a command; our errors become one line on standard error and a documented exit code."""
    try:
        result: Any = cli.main(args=args, standalone_mode=False)
        sys.exit(result if isinstance(result, int) else 0)
    except click.exceptions.Exit as request:
        sys.exit(request.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except EdgewiseError as error:
        click.echo(f"edgewise: {error} [{error.code}]", err=True)
        sys.exit(exit_code(error))


def exit_code(error: EdgewiseError) -> int:
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), EXIT_FAILED)


if __name__ == "__main__":
    main()
