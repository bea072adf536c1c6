"""Write the help texts in docs/reference/cli.md anew: `python scripts/write_cli_help.py [--check]`.

Each block between `<!-- help: edgewise ask -->` and `<!-- end of help -->` becomes what
`edgewise ask --help` prints, without the line of `--help` itself; the block of a group holds its
sub-commands' help too, but those of a package of its own. With --check nothing is written, and a
stale page is exit code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from edgewise.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
COLUMNS = 80
HELP_LINE = re.compile(r"  -h, --help +Show this message and exit\.")
BLOCK = re.compile(r"<!-- help: (.*?) -->\n.*?<!-- end of help -->", re.DOTALL)


def contexts(command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    """The command and what edgewise has below it, groups before their commands."""
    context = click.Context(
        command,
        parent=parent,
        info_name=command.name if parent else "edgewise",
        terminal_width=COLUMNS,
        help_option_names=["-h", "--help"],
    )
    yield context
    if isinstance(command, click.Group) and getattr(command.callback, "__module__", "").startswith(
        "edgewise."
    ):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from contexts(below, context)


def helps() -> dict[str, str]:
    """What `--help` prints, by command: `edgewise`, `edgewise ask`, …"""
    texts: dict[str, str] = {}
    for context in contexts(cli, None):
        lines = (line.rstrip() for line in context.get_help().splitlines())
        help_text = "\n".join(line for line in lines if not HELP_LINE.fullmatch(line))
        block = " ".join(context.command_path.split()[:2])
        texts[block] = f"{texts[block]}\n\n\n{help_text}" if block in texts else help_text
    return texts


def renewed(page: str) -> str:
    """The page with every help text as it is now."""
    texts = helps()
    shown = [match[1] for match in BLOCK.finditer(page)]
    if sorted(shown) != sorted(texts):
        raise SystemExit(
            f"docs/reference/cli.md must have one block for each of {', '.join(texts)}; "
            f"it has {', '.join(shown)}"
        )
    return BLOCK.sub(
        lambda match: (
            f"<!-- help: {match[1]} -->\n```text\n{texts[match[1]]}\n```\n<!-- end of help -->"
        ),
        page,
    )


def main() -> None:
    page = PAGE.read_text("utf-8")
    new = renewed(page)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new, "utf-8")
    elif new != page:
        raise SystemExit("docs/reference/cli.md is stale: run python scripts/write_cli_help.py")


if __name__ == "__main__":
    main()
