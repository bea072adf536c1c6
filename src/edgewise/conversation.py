"""A conversation: one history, whoever said what; either side can continue it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Unpack

from edgewise.engine import Engine
from edgewise.types.messages import Message, RequestOptions, Source
from edgewise.types.replies import Event, Finished, Reply, TextDelta


class Conversation:
    """Turns of a user and an assistant. Options given here apply to every turn.

    conversation = Conversation(engine, system="Answer in one sentence.")
    conversation.ask("Who wrote Faust?")
    conversation.ask("When was he born?", policy="cloud_only")
    """

    def __init__(self, engine: Engine, **options: Unpack[RequestOptions]) -> None:
        system = options.pop("system", "")
        self.engine = engine
        self.messages: list[Message] = [Message("system", system)] if system else []
        self.options = options

    def ask(self, text: str, **options: Unpack[RequestOptions]) -> Reply:
        turn = Message("user", text)
        reply = self.engine.complete([*self.messages, turn], **self._merged(options))
        self._remember(turn, reply.text, reply.source, reply)
        return reply

    def stream(self, text: str, **options: Unpack[RequestOptions]) -> Generator[Event, None, None]:
        """As `Engine.stream`. A turn that is left half way is remembered as far as it was shown."""
        turn = Message("user", text)
        shown: list[TextDelta] = []
        reply: Reply | None = None
        try:
            for event in self.engine.stream([*self.messages, turn], **self._merged(options)):
                if isinstance(event, TextDelta):
                    shown.append(event)
                elif isinstance(event, Finished):
                    reply = event.reply
                yield event
        finally:
            if reply is not None or shown:
                source: Source = reply.source if reply else shown[-1].source
                self._remember(turn, "".join(delta.text for delta in shown), source, reply)

    def _merged(self, options: RequestOptions) -> RequestOptions:
        return {**self.options, **options}

    def _remember(self, turn: Message, text: str, source: Source, reply: Reply | None) -> None:
        if reply is not None and reply.signalled:
            self.messages.append(turn)  # the application answers; it appends the answer itself
            return
        calls = reply.tool_calls if reply is not None else ()
        self.messages += [turn, Message("assistant", text, tool_calls=calls, source=source)]
