"""`edgewise chat`: a conversation in the terminal that shows when it changes sides."""

from __future__ import annotations

from typing import Any

import click

from edgewise import plugins
from edgewise.cli import options
from edgewise.cli.ready import ensure_model
from edgewise.cli.render import COLOURS, console, print_json, summary, why
from edgewise.conversation import Conversation
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError
from edgewise.types.replies import Finished, Reply, Switched, TextDelta

HELP = """\
/policy NAME   where answers may come from (prefer_local, local_only, prefer_cloud, cloud_only)
/private       toggle: nothing typed leaves the device
/why           how the last answer was decided
/history       the conversation, and who said what
/new           forget it and start over
/quit          leave (or Ctrl-D)"""


@click.command()
@options.routing
@options.as_json
def chat(as_json: bool, **given: Any) -> None:
    """Talk. Type /help for what can be done meanwhile.

    With --json: one line of JSON per answer, questions read line by line.
    """
    settings, request = options.split(given)
    if request.get("policy", settings.policy) != "cloud_only":
        ensure_model(settings, quiet=as_json)
    with Engine(settings) as engine:
        talk = Talk(Conversation(engine, **request), as_json)
        if not as_json:
            console().print("[dim]/help shows the commands, Ctrl-D leaves.[/dim]")
        while (line := talk.read()) is not None:
            if line.strip():
                talk.take(line.strip())
            if talk.over:
                break


class Talk:
    """One session at the terminal."""

    def __init__(self, conversation: Conversation, as_json: bool) -> None:
        self.conversation = conversation
        self.as_json = as_json
        self.last: Reply | None = None
        self.over = False
        self._screen = console()

    def read(self) -> str | None:
        try:
            if self.as_json:
                return input()
            return self._screen.input("\n[bold]you >[/bold] ")
        except EOFError:
            return None

    def take(self, line: str) -> None:
        try:
            if line.startswith("/"):
                self._command(line[1:])
            elif self.as_json:
                self.last = self.conversation.ask(line)
                print_json(self.last.to_dict())
            else:
                self._answer(line)
        except EdgewiseError as error:
            if self.as_json:
                print_json({"success": False, "error": str(error), "code": error.code})
            else:
                self._screen.print(f"[red]{error}[/red] [dim]\\[{error.code}][/dim]")
        except KeyboardInterrupt:
            self._screen.print("\n[dim]stopped[/dim]")

    def _answer(self, line: str) -> None:
        for event in self.conversation.stream(line):
            match event:
                case TextDelta(text, source):
                    self._screen.print(text, end="", style=COLOURS[source], markup=False)
                case Switched(to, _, reason, _):
                    arrow = "→ cloud" if to == "cloud" else "→ device"
                    self._screen.print(f"[dim]{arrow}: {reason}[/dim]")
                case Finished(reply):
                    self.last = reply
                    self._screen.print()
                    self._screen.print(summary(reply))

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = getattr(self, f"_do_{name}", None)
        if command is None:
            self._screen.print(f"[dim]no command /{name}; /help lists them[/dim]")
            return
        command(rest.strip())

    def _do_help(self, _: str) -> None:
        self._screen.print(HELP, markup=False)

    def _do_quit(self, _: str) -> None:
        self.over = True

    def _do_policy(self, name: str) -> None:
        options_now = self.conversation.options
        if name:
            plugins.load("policies", name)
            options_now["policy"] = name
        policy = options_now.get("policy", self.conversation.engine.settings.policy)
        self._screen.print(f"[dim]policy: {policy}[/dim]")

    def _do_private(self, _: str) -> None:
        private = not self.conversation.options.get("private", False)
        self.conversation.options["private"] = private
        self._screen.print(f"[dim]private: {'on' if private else 'off'}[/dim]")

    def _do_why(self, _: str) -> None:
        self._screen.print(why(self.last) if self.last else "[dim]nothing asked yet[/dim]")

    def _do_history(self, _: str) -> None:
        for message in self.conversation.messages:
            side = f" ({message.source})" if message.role == "assistant" else ""
            self._screen.print(f"[bold]{message.role}{side}:[/bold] ", end="")
            self._screen.print(message.content, markup=False)

    def _do_new(self, _: str) -> None:
        kept = [message for message in self.conversation.messages if message.role == "system"]
        self.conversation.messages[:] = kept
        self._screen.print("[dim]started over[/dim]")
