"""`/v1/realtime`: a WebSocket whose messages a thread answers, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from typing import Any

from starlette.types import Receive, Scope, Send

from edgewise.server.answer import Incoming
from edgewise.server.fields import BadField, Fields, parse_body
from edgewise.server.house import House
from edgewise.server.live_session import Ended, LiveSession
from edgewise.server.visit import Visit, current
from edgewise.server.wire import to_json

PROTOCOL = "realtime"
WAITING = 256  # messages that wait to be heard before no more are read
BEHIND = 20  # of them: then only whole utterances are heard
LOOK_S = 0.25
NORMAL, GOING_AWAY, BUSY = 1000, 1001, 1013


class Realtime:
    """An ASGI app for WebSockets."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        talk = Talk(self._house, scope)
        if not self._house.inside.enter(talk.thread, talk.visit, self._house.server.requests):
            await send({"type": "websocket.close", "code": BUSY, "reason": "server_busy"})
            return
        offered = PROTOCOL in scope.get("subprotocols", ())
        await send({"type": "websocket.accept", "subprotocol": PROTOCOL if offered else None})
        talk.thread.start()
        reader = asyncio.create_task(_read(receive, talk))
        try:
            await _write(send, talk)
        finally:
            reader.cancel()
            talk.visit.leave()
            talk.messages.put(None)


class Talk:
    """One connection: messages one way and events the other, between the loop and a thread."""

    def __init__(self, house: House, scope: Scope) -> None:
        client = scope["edgewise.client"]
        self.visit = Visit(client.name)
        self.messages: queue.SimpleQueue[Fields | BadField | None] = queue.SimpleQueue()
        self.events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.room = asyncio.Semaphore(WAITING)
        self.house = house
        self._loop = asyncio.get_running_loop()
        headers = scope["edgewise.headers"]
        self._session = LiveSession(house, Incoming(headers, b"", client, self.visit, {}))
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name="edgewise-request-live", daemon=True
        )

    def _run(self) -> None:
        current.set(self.visit)
        try:
            self._tell(self._session.created())
            with contextlib.suppress(Ended):
                self._answer_all()
        finally:
            current.set(None)  # leaving has been heard: what was said is still to be recorded
            try:
                self._session.close()
            finally:
                self.house.inside.leave(threading.current_thread())
                self._tell(None)

    def _answer_all(self) -> None:
        while not (self.visit.left or self.house.draining):
            try:
                message = self.messages.get(timeout=LOOK_S)
            except queue.Empty:
                for event in self._session.idle():
                    self._tell(event)
                continue
            if message is None:
                return
            self._on_loop(self.room.release)
            if isinstance(message, BadField):
                self._tell(self._session.fault(message))
                continue
            for event in self._session.take(message, hurry=self.messages.qsize() > BEHIND):
                self._tell(event)

    def _tell(self, event: dict[str, Any] | None) -> None:
        self._on_loop(lambda: self.events.put_nowait(event))

    def _on_loop(self, do: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server is going down
            self._loop.call_soon_threadsafe(do)


async def _read(receive: Receive, talk: Talk) -> None:
    while True:
        message = await receive()
        if message["type"] != "websocket.receive":
            talk.visit.leave()
            talk.messages.put(None)
            return
        await talk.room.acquire()
        data = message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace")
        try:
            talk.messages.put(parse_body(data))
        except BadField as error:
            talk.messages.put(error)


async def _write(send: Send, talk: Talk) -> None:
    """A client that is gone is written to no more; what is left is let go of."""
    while (event := await talk.events.get()) is not None:
        if not talk.visit.left:
            with contextlib.suppress(OSError, RuntimeError):
                await send({"type": "websocket.send", "text": to_json(event).decode()})
    if not talk.visit.left:
        code = GOING_AWAY if talk.house.draining else NORMAL
        with contextlib.suppress(OSError, RuntimeError):
            await send({"type": "websocket.close", "code": code})
