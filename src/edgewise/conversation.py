"""A conversation: one history, whoever said what; either side can continue it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Unpack

from edgewise.engine import Engine
from edgewise.types.messages import Message, RequestOptions, Source
from edgewise.types.replies import Event, Finished, Reply, TextDelta


class Conversation:
    """Turns of a user and an assistant. Options given here apply to every turn.

        conversation = Conversation(engine, system="Answer in one sentence.")
        conversation.ask("Who wrote Faust?")
        conversation.ask("When was he born?", policy="cloud_only")

    Every turn sends the whole history. So once a private turn is in it, all later turns are
    private too, whatever they say; a conversation without it may leave the device again.
    """

    def __init__(self, engine: Engine, **options: Unpack[RequestOptions]) -> None:
        system = options.pop("system", "")
        self.engine = engine
        self.messages: list[Message] = [Message("system", system)] if system else []
        self.options = options
        self._private: list[Message] = []

    @property
    def private(self) -> bool:
        """Whether a turn of this history was private, so that none of it may leave the device."""
        return any(message is secret for secret in self._private for message in self.messages)

    def ask(self, text: str, **options: Unpack[RequestOptions]) -> Reply:
        turn, merged = self._turn(text, options)
        reply = self.engine.complete([*self.messages, turn], **merged)
        self._remember(turn, reply.text, reply.source, reply)
        return reply

    def stream(self, text: str, **options: Unpack[RequestOptions]) -> Generator[Event, None, None]:
        """As `Engine.stream`. A turn that is left half way is remembered as far as it was shown."""
        turn, merged = self._turn(text, options)
        shown: list[TextDelta] = []
        reply: Reply | None = None
        try:
            with closing(self.engine.stream([*self.messages, turn], **merged)) as events:
                for event in events:
                    if isinstance(event, TextDelta):
                        shown.append(event)
                    elif isinstance(event, Finished):
                        reply = event.reply
                    yield event
        finally:
            if reply is not None or shown:
                source: Source = reply.source if reply else shown[-1].source
                self._remember(turn, "".join(delta.text for delta in shown), source, reply)

    def _turn(self, text: str, options: RequestOptions) -> tuple[Message, RequestOptions]:
        """The user's message, and the options of this turn without what went into it."""
        merged: RequestOptions = {**self.options, **options}
        turn = Message("user", text, images=tuple(merged.pop("images", ())))
        if self.private:
            merged["private"] = True
        if merged.get("private"):
            self._private.append(turn)
        return turn, merged

    def _remember(self, turn: Message, text: str, source: Source, reply: Reply | None) -> None:
        if reply is not None and reply.signalled:
            self.messages.append(turn)  # the application answers; it appends the answer itself
            return
        calls = reply.tool_calls if reply is not None else ()
        answer = Message("assistant", text, tool_calls=calls, source=source)
        self.messages += [turn, answer]
        if self.private:
            self._private.append(answer)  # it may repeat what it was told
