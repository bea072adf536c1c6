"""`edgewise chat`: a conversation in the terminal that shows who answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgewise import plugins
from edgewise.cli import options
from edgewise.cli.call import allowed, call_line
from edgewise.cli.render import Waiting, console, print_json, show_answer, summary, why
from edgewise.cli.setup import choose_model, ensure_function_model, ensure_model
from edgewise.cli.streams import without_surrogates
from edgewise.conversation import Conversation
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, InvalidRequest
from edgewise.local.catalogue import MODELS, model_name
from edgewise.parts import find_chat_model, pulled_chat_models
from edgewise.types.messages import Message, ToolCall
from edgewise.types.replies import Reply

if TYPE_CHECKING:
    from edgewise.cli.line_editor import LineEditor


HISTORY_FILE = "chat-history"  # in the data folder

# The commands and what they do, as /help and completion show them.
COMMANDS = {
    "help": "this list",
    "model": "NAME: another local model from here on; without NAME, which there are",
    "policy": "NAME: where answers may come from; without NAME, list the policies",
    "system": "TEXT: the system prompt from here on; without TEXT, show it; - removes it",
    "private": "on: nothing leaves the device; off: forget what was said meanwhile",
    "why": "how the last answer was decided",
    "history": "the conversation, and who said what",
    "save": "FILE: write the conversation to a file",
    "load": "FILE: go on with a saved conversation",
    "clear": "forget the conversation and start over; the system prompt stays (or /new)",
    "exit": "leave (or /quit, Ctrl-D); Ctrl-C stops an answer",
}
ALIASES = {"new": "clear", "quit": "exit", "bye": "exit"}
HELP = "\n".join(
    [
        *(f"/{name:<9} {words}" for name, words in COMMANDS.items()),
        'Several lines: begin and end with """, or press Esc and then Enter for a new line.',
    ]
)


@click.command()
@options.routing
@options.warm
@options.mcp_tools
@click.option("--no-history", is_flag=True, help="Do not keep what is typed for the next run.")
@options.as_json
def chat(
    as_json: bool,
    servers: tuple[str, ...],
    mcp_timeout: float,
    yes: bool,
    always: bool,
    no_history: bool,
    **given: Any,
) -> None:
    """Talk: one history, whichever side answers. /help lists the commands.

    In a terminal the arrow keys bring back what you typed, in earlier runs too, and Tab completes.
    Questions and /commands may be piped in, one per line. With --json each gets one line of
    JSON, errors included. Calls of an MCP server's tools are run after your yes, or with --yes, but
    not those in doubt.

    \b
    edgewise chat
    edgewise chat --policy prefer_cloud --system "Answer in one sentence."
    edgewise chat --mcp "uvx mcp-server-time"
    edgewise chat --json < questions.txt
    """
    settings, request = options.split(given)
    policy = request.get("policy")
    settings = ensure_model(choose_model(settings, policy), policy)
    if servers:
        settings = ensure_function_model(settings, policy)
    waiting = Waiting(console(stderr=True), "thinking")
    approve = Approval(waiting, yes=yes, always=always, as_json=as_json)
    talking: dict[str, Any] = {"mcp": servers, "mcp_timeout_s": mcp_timeout, "approve": approve}
    if no_history:
        settings = settings.with_changes(chat_history=False)
    with (
        Engine(settings) as engine,
        Conversation(engine, **talking, **request) as conversation,
    ):
        talk = Talk(conversation, as_json, waiting)
        if not as_json:
            talk.greet()
        while not talk.over and (line := talk.read()) is not None:
            if line.strip():
                talk.take(line.strip())


class Approval:
    """Asks before a call of a tool is run; the sign of life is away meanwhile."""

    def __init__(self, waiting: Waiting, *, yes: bool, always: bool, as_json: bool) -> None:
        self._waiting = waiting
        self._may = {"yes": yes, "always": always, "may_ask": not as_json}

    def __call__(self, call: ToolCall) -> bool:
        side = console(stderr=True)
        self._waiting.stop()
        doubt = (f"  in doubt: {call.doubt}" if call.doubt else "", "yellow")
        side.say(("call  ", "dim"), call_line(call), doubt)
        try:
            execute = allowed([call], side, **self._may)
        except click.Abort:  # Ctrl-C: this answer is stopped, not the talk
            raise KeyboardInterrupt from None
        run = execute == "always" or (execute and not call.doubt)
        if execute and not run:
            side.say(("not run: in doubt (--always runs it)", "yellow"))
        self._waiting.start("running" if run else "thinking")
        return run


class Talk:
    """One session at the terminal."""

    def __init__(self, conversation: Conversation, as_json: bool, waiting: Waiting) -> None:
        self.conversation = conversation
        self.as_json = as_json
        self._waiting = waiting
        self.last: Reply | None = None
        self.over = False
        self._private_from = len(conversation.messages)
        if self._private_now:  # --private: the system prompt is part of it
            conversation.secrets += conversation.messages
        self._screen = console()
        self._typed = sys.stdin is not None and sys.stdin.isatty()
        self._editor: LineEditor | None = None
        self._commands: dict[str, Callable[[str], Any]] = {
            "help": self._help,
            "model": self._model,
            "policy": self._policy,
            "system": self._system,
            "private": self._private,
            "why": self._why,
            "history": self._history,
            "save": self._save,
            "load": self._load,
            "clear": self._clear,
            "exit": self._exit,
        }

    def greet(self) -> None:
        self._screen.say(("/help shows the commands, Ctrl-D leaves.", "dim"))
        if self._typed and self._screen.is_terminal:
            self._editor = self._open_editor()

    def _open_editor(self) -> LineEditor:
        # A quarter of a second, and only a person at a terminal needs it.
        from edgewise.cli.line_editor import LineEditor  # noqa: PLC0415

        settings = self.conversation.engine.settings
        return LineEditor(
            commands=COMMANDS,
            arguments={
                "model": options.model_names,
                "policy": lambda: plugins.names("policies"),
            },
            files=("save", "load"),
            history=settings.data_dir / HISTORY_FILE if settings.chat_history else None,
            private=lambda: self._private_now or self.conversation.private,
            coloured=self._screen.color_system is not None,
        )

    def read(self) -> str | None:
        """The next line; None at the end. Ctrl-C drops the line, a second one leaves."""
        for hint in ("Ctrl-C again, or Ctrl-D, leaves.", None):
            try:
                return self._input()
            except EOFError:
                if self._typed and not self.as_json:
                    self._screen.say()
                return None
            except KeyboardInterrupt:
                if hint is None or not self._typed:
                    raise
                self._note(f"\n{hint}")
        raise AssertionError("the second Ctrl-C is raised")

    def take(self, line: str) -> None:
        try:
            if line.startswith("/"):
                self._command(line[1:])
            else:
                self._answer(line)
        except EdgewiseError as error:
            if self.as_json:
                print_json({"success": False, "error": str(error), "code": error.code})
            else:
                self._screen.say((str(error), "red"), (f" [{error.code}]", "dim"))
        except KeyboardInterrupt:
            if not self._typed:
                raise
            self._note("\nstopped")

    def _input(self) -> str:
        if self.as_json:
            return without_surrogates(input())
        self._screen.say()
        if self._editor is not None:
            return without_surrogates(self._editor.read())
        line = without_surrogates(input())
        self._screen.say(("you > ", "bold"), line)  # not typed, but it should still be seen
        return line

    def _answer(self, line: str) -> None:
        if self.as_json:
            with self._waiting:
                self.last = self.conversation.ask(line)
            print_json(self.last.to_dict())
            return
        events = self.conversation.stream(line)
        self.last = show_answer(events, self._screen, self._screen, self._waiting)
        self._screen.print(summary(self.last))

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        command = self._commands.get(ALIASES.get(name, name))
        if command is None:
            self._tell({"success": False, "code": "usage"}, f"no command /{name}; /help lists them")
        else:
            command(rest.strip())

    def _tell(self, facts: dict[str, Any], words: str) -> None:
        """What a command did: words for people, facts for programs."""
        if not self.as_json:
            self._note(words)
        elif facts.get("success") is False:
            print_json(facts | {"error": words})
        else:
            print_json({"success": True} | facts)

    def _note(self, words: str) -> None:
        (console(stderr=True) if self.as_json else self._screen).say((words, "dim"))

    def _help(self, _: str) -> None:
        self._tell({"commands": sorted(self._commands)}, HELP)

    def _exit(self, _: str) -> None:
        self.over = True

    def _model(self, name: str) -> None:
        settings, options_now = self.conversation.engine.settings, self.conversation.options
        if name:
            ensure_model(settings.with_changes(model=name), options_now.get("policy"))
            # A download may have failed: then the old one stays.
            options_now["model"] = find_chat_model(settings, name)
        now = options_now.get("model", settings.model)
        installed = [each.name for each in pulled_chat_models(settings)]
        others = [each for each in installed if each != model_name(now, MODELS)]
        also = f" (also installed: {', '.join(others)})" if others and not name else ""
        words = f"model: {now}{also}"
        self._tell({"model": now, "others": others}, words)

    def _system(self, text: str) -> None:
        messages = self.conversation.messages
        said = [message for message in messages if message.role != "system"]
        now = next((message.content for message in messages if message.role == "system"), "")
        if text:
            now = "" if text == "-" else text
            prompt = [Message("system", now)] if now else []
            if self._private_now:
                self.conversation.secrets += prompt
            changed = [*prompt, *said]
            self._private_from += len(changed) - len(messages)
            messages[:] = changed
        self._tell({"system": now}, f"system: {now}" if now else "no system prompt")

    def _save(self, name: str) -> None:
        path, conversation = _file(name, "save"), self.conversation
        model = conversation.options.get("model", conversation.engine.settings.model)
        save(path, conversation.messages, conversation.secrets, model)
        count = len(conversation.messages)
        self._tell({"file": str(path), "messages": count}, f"saved: {path}")

    def _load(self, name: str) -> None:
        path, conversation = _file(name, "load"), self.conversation
        messages, private_from = load(path)
        conversation.messages[:] = messages
        self._private_from, self.last = len(messages), None
        words = f"loaded: {len(messages)} messages"
        if private_from is not None:  # what follows a private turn may repeat it
            self._private_from = private_from
            conversation.secrets += messages[private_from:]
            conversation.options["private"] = True
            words += "; some are private, so nothing leaves the device"
        self._tell({"file": str(path), "messages": len(messages)}, words)

    def _policy(self, name: str) -> None:
        options_now = self.conversation.options
        if name:
            plugins.load("policies", name)
            options_now["policy"] = name
        policy = options_now.get("policy", self.conversation.engine.settings.policy)
        others = [other for other in plugins.names("policies") if other != policy]
        words = f"policy: {policy}" if name else f"policy: {policy} (or {', '.join(others)})"
        self._tell({"policy": policy, "others": others}, words)

    def _private(self, wanted: str) -> None:
        """Private turns may never leave, so a history that may leave cannot keep them."""
        if wanted not in ("", "on", "off"):
            raise InvalidRequest("/private takes on or off; alone it changes from one to the other")
        messages, before = self.conversation.messages, self._private_now
        private = not before if not wanted else wanted == "on"
        self.conversation.options["private"] = private
        if private:
            self._private_from = self._private_from if before else len(messages)
            self._tell({"private": True}, "private: nothing leaves the device")
            return
        if not before:
            self._private_from = len(messages)  # nothing was private: nothing is forgotten
        said = messages[: self._private_from]
        secrets = self.conversation.secrets  # among them a system prompt of that time
        kept = [each for each in said if not any(each is secret for secret in secrets)]
        forgotten = len(messages) - len(kept)
        messages[:] = kept
        words = "no longer private" + ("; what was said meanwhile is forgotten" * bool(forgotten))
        self._tell({"private": False, "forgotten": forgotten}, words)

    @property
    def _private_now(self) -> bool:
        return self.conversation.options.get("private", False)

    def _why(self, _: str) -> None:
        if self.last is None:
            self._tell({"decision": None}, "nothing asked yet")
        elif self.as_json:
            reply = self.last.to_dict()
            print_json({name: reply[name] for name in ("success", "id", "decision", "attempts")})
        else:
            self._screen.print(why(self.last))

    def _history(self, _: str) -> None:
        messages = self.conversation.messages
        if self.as_json:
            plain = [{"role": m.role, "content": m.content, "source": m.source} for m in messages]
            print_json({"success": True, "messages": plain})
            return
        for message in messages:
            side = f" ({message.source})" if message.role == "assistant" else ""
            self._screen.say((f"{message.role}{side}: ", "bold"), message.content)
        if not messages:
            self._note("nothing said yet")

    def _clear(self, _: str) -> None:
        kept = [message for message in self.conversation.messages if message.role == "system"]
        self.conversation.messages[:] = kept
        self._private_from = len(kept)
        self.last = None
        self._tell({"messages": len(kept)}, "started over")


def _file(name: str, command: str) -> Path:
    if not name:
        raise InvalidRequest(f"/{command} needs the name of a file: /{command} talk.json")
    return Path(name).expanduser()


# -- a conversation as a file: /save writes it, /load reads it -------------------------------------


FORMAT = "edgewise chat"  # the mark of such a file
_SIMPLE = ("role", "content", "source", "tool_call_id")


def save(path: Path, messages: Sequence[Message], private: Sequence[Message], model: str) -> None:
    """Write a file that only the user can read. Another kind of file is not overwritten."""
    rows = [_saved_row(each, any(each is secret for secret in private)) for each in messages]
    whole = {"format": FORMAT, "model": model, "messages": rows}
    try:
        if path.exists():
            _read_file(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(whole, file, indent=2, ensure_ascii=False)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path} is something else already; choose another name") from error
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from error


def load(path: Path) -> tuple[list[Message], int | None]:
    """The messages, and the place of the first private one."""
    try:
        rows = _read_file(path)["messages"]
        messages = [_loaded_message(row) for row in rows]
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error
    except (AttributeError, LookupError, TypeError) as error:
        raise InvalidRequest(f"{path} is damaged: {type(error).__name__}") from error
    return messages, next((at for at, row in enumerate(rows) if row.get("private")), None)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InvalidRequest(f"{path} is no conversation that /save wrote")
    return found


def _saved_row(message: Message, private: bool) -> dict[str, Any]:
    row: dict[str, Any] = {name: value for name in _SIMPLE if (value := getattr(message, name))}
    if message.tool_calls:
        row["tool_calls"] = [
            {"name": call.name, "arguments": dict(call.arguments), "id": call.id}
            for call in message.tool_calls
        ]
    return row | ({"private": True} if private else {})


def _loaded_message(row: dict[str, Any]) -> Message:
    calls = tuple(
        ToolCall(str(each["name"]), dict(each["arguments"]), str(each["id"]))
        for each in row.get("tool_calls", ())
    )
    if row["role"] not in ("system", "user", "assistant", "tool"):
        raise LookupError(row["role"])
    simple = {name: str(row[name]) for name in _SIMPLE if name in row}
    return Message(**simple, tool_calls=calls)  # type: ignore[arg-type]  # the role is checked
