"""`/v1/realtime`: live transcription over a WebSocket, in OpenAI's realtime shape."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import itertools
import queue
import re
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Annotated, Any, Literal

from starlette.types import Receive, Scope, Send

from edgewise.bridge import Cancellation, NoThread, Worker, current
from edgewise.errors import EdgewiseError
from edgewise.server.access import Served, take_one
from edgewise.server.answer import Incoming, fault_to_tell, only, routed_options
from edgewise.server.body import BadField, Between, Model, Object, Text, parse_body, read_model
from edgewise.server.errors import BROKEN, Refusal, fault_of, openai_error
from edgewise.server.state import ServerState
from edgewise.server.transcriptions import full_report, segment_report
from edgewise.server.wire import PREFIX, check_names, kept_in, stricter, to_json
from edgewise.types.messages import Word
from edgewise.types.transcripts import Correction, LiveUpdate, Segment, Transcript, Utterance

BUFFER = "input_audio_buffer."
TRANSCRIPTION = "conversation.item.input_audio_transcription."
UPDATES = ("session.update", "transcription_session.update")
RATE = 24_000  # of pcm16 where nobody says another
MESSAGE_BYTES = 4 * 2**20  # of one message: a minute of sound
PROTOCOL = "realtime"
WAITING = 256  # messages that wait to be heard before no more are read
WAITING_BYTES = MESSAGE_BYTES  # and their bytes
BEHIND = 20  # of them: then only whole utterances are heard
LOOK_S = 0.25
OURS, METADATA = "session.edgewise", "session.metadata"  # what says where the sound may go
KEEPS_IN = re.compile(rb"priva|policy|local|redact|edgewise", re.IGNORECASE)
DEPTH = 5  # of a message: nothing in it is the client's own data
NORMAL, GOING_AWAY, INTERNAL_ERROR, BUSY = 1000, 1001, 1011, 1013

Event = dict[str, Any]


class SoundFormat(Model):
    type: Literal["audio/pcm"] | None = None
    rate: Annotated[int, Between(8_000, 48_000)] | None = None


class TranscriptionSettings(Model):
    model: Text | None = None
    language: Text | None = None
    prompt: Text | None = None


class InputSound(Model):
    format: SoundFormat | None = None
    transcription: TranscriptionSettings | None = None


class SessionSound(Model):
    input: InputSound | None = None


class SessionSettings(Model):
    audio: SessionSound | None = None
    input_audio_format: Literal["pcm16"] | None = None
    input_audio_transcription: TranscriptionSettings | None = None
    edgewise: Object | None = None
    metadata: Object | None = None


class SessionUpdate(Model):
    session: SessionSettings | None = None


class Append(Model):
    audio: Text


class Realtime:
    """An ASGI app for WebSockets."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        state, client = self._state, scope["edgewise.client"]
        cancellation = Cancellation(client.name, via=scope["edgewise.via"])
        cancellation.user, cancellation.group = client.user, client.group
        incoming = Incoming(scope["edgewise.headers"], b"", client, cancellation, {})
        inbox = Inbox()
        worker = Worker(
            cancellation,
            lambda: _answers(state, incoming, inbox),
            lambda failure: state.request_ended(cancellation, failure),
            name="edgewise-request-live",
        )
        if not state.start_live(worker):
            await send({"type": "websocket.accept"})  # otherwise it would be told 403, and no more
            await send({"type": "websocket.close", "code": BUSY, "reason": "server_busy"})
            return
        reader = asyncio.create_task(_read(receive, worker, inbox))
        offered = PROTOCOL in scope.get("subprotocols", ())
        try:
            with contextlib.suppress(OSError, RuntimeError):  # the client is gone
                protocol = PROTOCOL if offered else None
                await send({"type": "websocket.accept", "subprotocol": protocol})
                async for event in worker.pieces():
                    await send({"type": "websocket.send", "text": event})
                if not cancellation.left:
                    code = _close_code(worker.failure, draining=state.draining)
                    await send({"type": "websocket.close", "code": code})
        finally:
            reader.cancel()
            worker.leave()
            inbox.close()


def _close_code(failure: Exception | None, *, draining: bool) -> int:
    if failure is not None:
        return BUSY if isinstance(failure, NoThread) else INTERNAL_ERROR
    return GOING_AWAY if draining else NORMAL


class Inbox:
    """Messages on their way from the loop to a thread; no more are read than may wait."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._bytes = 0  # of the messages that wait; used on the loop only, like the event
        self._fewer = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def put(self, message: bytes) -> None:
        """Waits for room. A message that waits alone always has it."""
        while self._is_full(len(message)):
            self._fewer.clear()
            await self._fewer.wait()
        self._bytes += len(message)
        self._messages.put(message)

    def _is_full(self, more: int) -> bool:
        waiting = self._messages.qsize()
        return waiting >= WAITING or (waiting > 0 and self._bytes + more > WAITING_BYTES)

    def close(self) -> None:
        self._messages.put(None)

    def get(self) -> bytes | None:
        """On the thread: the next message, None at the end. Raises queue.Empty after a while."""
        message = self._messages.get(timeout=LOOK_S)
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server is going down
            self._loop.call_soon_threadsafe(self._taken, len(message or b""))
        return message

    def _taken(self, count: int) -> None:
        self._bytes -= count
        self._fewer.set()

    @property
    def behind(self) -> bool:
        return self._messages.qsize() > BEHIND


async def _read(receive: Receive, worker: Worker[str], inbox: Inbox) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        await inbox.put(
            message.get("bytes") or (message.get("text") or "").encode("utf-8", "replace")
        )
    worker.leave()
    inbox.close()


def _answers(state: ServerState, incoming: Incoming, inbox: Inbox) -> Generator[str, None, None]:
    """One connection on its thread: what each message leads to, as JSON."""
    session = LiveSession(state, incoming)

    def events() -> Iterator[Event]:
        yield session.created()
        last = time.monotonic()
        while not (incoming.cancellation.left or state.draining):
            try:
                message = inbox.get()
            except queue.Empty:
                if time.monotonic() - last > state.server.total_s:
                    return  # nobody speaks: others may have its place
                yield from session.idle()
                continue
            if message is None:
                return
            last = time.monotonic()
            yield from session.take(message, hurry=inbox.behind)

    try:
        with contextlib.suppress(Ended):
            for event in events():
                yield to_json(event).decode()
    except Exception as error:
        yield to_json(session.broken(error)).decode()
        raise
    finally:
        current.set(None)  # leaving has been heard: what was said is still to be recorded
        session.close()


class Ended(Exception):
    """Nothing more can come of this session."""


class LiveSession:
    """Made for one connection and used on one thread."""

    def __init__(self, state: ServerState, incoming: Incoming) -> None:
        self._state, self._incoming = state, incoming
        self._id = f"sess_{uuid.uuid4().hex[:20]}"
        self._events = itertools.count(1)
        self._options: dict[str, Any] | None = None  # until a session is described
        self._refused = False  # the last description: it may have said that the sound must stay
        self._rate, self._language, self._hint, self._model = RATE, "", "", "auto"
        self._live: Any = None
        self._recorded = False  # something was heard before
        self._served: Served | None = None
        self._items = self._new_items()

    def created(self) -> Event:
        return self._event("session.created", session=self._described())

    def take(self, sent: bytes, *, hurry: bool = False) -> Iterator[Event]:
        """What one message leads to. A wrong one is told and passed over; worse raises Ended."""
        known: Mapping[str, Callable[[Object, bool], Iterator[Event]]] = {
            **dict.fromkeys(UPDATES, self._configure),
            f"{BUFFER}append": self._hear,
            f"{BUFFER}commit": self._commit,
            f"{BUFFER}clear": self._clear,
        }
        kind = UPDATES[0] if b"session" in sent else ""  # as far as is known before it is read
        try:
            message = parse_body(sent, read_at=(OURS, METADATA), depth=DEPTH)
            kind = str(message.get("type"))
            if kind not in known:
                raise BadField("type", f"expected one of {', '.join(known)}, got {kind[:60]!r}")
            yield from known[kind](message, hurry)
        except BadField as error:
            if kind in UPDATES:
                self._refuse(sent)
            yield self._fault(error)
        except Refusal as error:  # it asks too often: what is sent now is lost, later it may go on
            yield self._fault(error)
        except EdgewiseError as error:
            yield self._fault(error)
            if self._live is None:  # otherwise what was heard is logged when it is closed
                self._note(None, error=error)
            raise Ended from error

    def idle(self) -> Iterator[Event]:
        """Between two messages: corrections that have come meanwhile."""
        if self._live is not None and self._items.outstanding:
            yield from self._items.told(self._live.process(b""))

    def broken(self, error: Exception) -> Event:
        """Nobody foresaw it, and the session ends."""
        if self._live is None:  # otherwise what was heard is logged when it is closed
            self._note(None, error=error)
        return self._fault(error)

    def close(self) -> None:
        """The client is gone: what was heard is recorded, and the cloud is not waited for."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.close()
            self._note(live.stop(), left=True)
        except EdgewiseError as error:  # it is in the ledger as failed
            self._note(None, left=True, error=error)

    def _configure(self, message: Object, _: bool) -> Iterator[Event]:
        session = read_model(SessionUpdate, message).session or SessionSettings()
        if self._live is not None:
            raise BadField(
                "session", "cannot be changed while sound is being heard: commit it first"
            )
        sound = (session.audio and session.audio.input) or InputSound()
        heard_by = session.input_audio_transcription or sound.transcription
        heard_by = heard_by or TranscriptionSettings()
        self._rate = (sound.format and sound.format.rate) or RATE
        self._language = heard_by.language or ""
        self._hint = heard_by.prompt or ""
        self._model = heard_by.model or "auto"
        own = (name.removeprefix(PREFIX) for name in session.edgewise or {})
        check_names(own, "", "session.edgewise.")
        self._options = stricter(
            stricter(kept_in(self._options or {}), self._route(session.metadata, METADATA)),
            self._route(session.edgewise, OURS),
        )
        self._refused = False
        name = message["type"].replace(".update", ".updated")
        yield self._event(name, session=self._described())

    def _refuse(self, update: bytes) -> None:
        """Sound may follow before the client reads of it, and another update that says less."""
        self._refused = True
        if KEEPS_IN.search(update):
            self._options = {**(self._options or {}), "private": True}

    def _route(self, metadata: Object | None = None, path: str = METADATA) -> dict[str, Any]:
        options = routed_options(
            self._state,
            self._incoming,
            self._model,
            metadata or {},
            self._state.engine.parts.transcriber,
            path,
        )
        return only(options, without=("deadline_ms",))

    def _hear(self, message: Object, hurry: bool) -> Iterator[Event]:
        if self._refused:
            raise BadField(
                "session", "the last update was refused: nothing is heard until one is accepted"
            )
        try:
            data = base64.b64decode(read_model(Append, message).audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadField("audio", "expected base64") from error
        if len(data) % 2:
            raise BadField("audio", "expected 16-bit samples: two bytes each")
        if self._live is None:
            self._start()
        update = self._live.process(data, hurry=hurry)
        yield from self._items.told(update)
        if update.seconds >= self._state.server.sound_s:
            yield from self._commit(message, hurry)

    def _start(self) -> None:
        client = self._incoming.client
        if self._recorded:  # the first one was paid for when the connection was opened
            take_one(client, client.allowance)
        self._recorded = True
        routed = self._options if self._options is not None else self._route()
        guide = {"language": self._language, "hint": self._hint}
        options: Any = routed | guide | {"rate": self._rate}
        self._served = Served(
            endpoint="realtime", client=self._incoming.client.name, model=self._model[:80]
        )
        self._served.stream = True
        live = self._state.engine.listen(**options)
        live.start()
        self._live = live
        self._state.access_log.begin(self._served)
        self._items = self._new_items()

    def _new_items(self) -> LiveItems:
        return LiveItems(self._event, self._first_word)

    def _first_word(self) -> None:
        if self._served is not None:
            self._served.first_s = time.perf_counter() - self._served.started

    def _commit(self, _: Object, __: bool) -> Iterator[Event]:
        """The end of the sound: the rest is heard, and corrections are waited for."""
        if self._live is None:
            raise BadField("type", "there is no sound to commit")
        live, self._live = self._live, None
        transcript: Transcript = live.stop()
        yield from self._items.told(live.last_update)
        self._note(transcript)
        yield self._event(
            "edgewise.session.finished", text=transcript.text, edgewise=full_report(transcript)
        )

    def _clear(self, _: Object, __: bool) -> Iterator[Event]:
        self.close()
        yield self._event(f"{BUFFER}cleared")

    def _note(
        self,
        transcript: Transcript | None,
        *,
        left: bool = False,
        error: Exception | None = None,
    ) -> None:
        served, self._served = self._served, None
        if served is None:
            return
        served.left, served.status = left, 200
        if error is not None:
            fault = fault_of(error) if isinstance(error, EdgewiseError) else BROKEN
            served.status, served.code = fault.status, fault.code
        if transcript is not None:
            served.reply, served.id = transcript, transcript.id
            served.code = transcript.decision.code
        self._state.access_log.note(served)

    def _described(self) -> dict[str, Any]:
        transcription = {
            "model": self._model,
            "language": self._language or None,
            "prompt": self._hint,
        }
        sound = {"format": {"type": "audio/pcm", "rate": self._rate}}
        return {
            "id": self._id,
            "object": "realtime.transcription_session",
            "type": "transcription",
            "audio": {"input": sound | {"transcription": transcription}},
        }

    def _fault(self, error: Exception) -> Event:
        fault = fault_to_tell(error, self._incoming.cancellation)
        told = openai_error(fault)["error"] if fault else {"message": "left", "code": "cancelled"}
        return self._event("error", error=told)

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "event_id": f"event_{next(self._events)}", **fields}


class LiveItems:
    """The items of one stretch of sound, from its first append to its commit."""

    def __init__(self, event: Callable[..., Event], first_word: Callable[[], None]) -> None:
        self._event, self._first_word = event, first_word
        self.outstanding = 0  # at the cloud
        self._prefix = uuid.uuid4().hex[:12]
        self._of_segment: dict[int, str] = {}
        self._count = 0
        self._begun = -1  # the last item that was said to have begun
        self._words = 0  # of the open item
        self._any_word = False
        self._pending = ""

    def told(self, update: LiveUpdate) -> Iterator[Event]:
        """An update in events."""
        self.outstanding = update.outstanding
        words = list(update.new_words)
        segments = {segment.id: segment for segment in update.new_segments}
        for spoken in update.utterances:
            own = [word for word in words if word.start < spoken.end]
            words = words[len(own) :]
            yield from self._began(spoken.start)
            yield from self._deltas(own)
            yield from self._ended(spoken, segments)
        if update.speaking_since is not None:
            yield from self._began(update.speaking_since)
        yield from self._deltas(words)
        if update.pending != self._pending:
            self._pending = update.pending
            yield self._event(
                "edgewise.transcription.provisional", item_id=self._item, text=update.pending
            )
        for correction in update.corrections:
            yield self._corrected(correction)

    @property
    def _item(self) -> str:
        """The one being spoken."""
        return f"item_{self._prefix}_{self._count}"

    def _began(self, start: float) -> Iterator[Event]:
        """Somebody speaks: said once of each item."""
        if self._begun < self._count:
            self._begun = self._count
            yield self._event(
                f"{BUFFER}speech_started", item_id=self._item, audio_start_ms=round(1000 * start)
            )

    def _deltas(self, words: list[Word]) -> Iterator[Event]:
        for word in words:
            space = " " if self._words else ""
            self._words += 1
            if not self._any_word:
                self._any_word = True
                self._first_word()
            yield self._event(
                f"{TRANSCRIPTION}delta",
                item_id=self._item,
                content_index=0,
                delta=space + word.text,
                edgewise={
                    "start": word.start,
                    "end": word.end,
                    "probability": word.probability,
                },
            )

    def _ended(self, spoken: Utterance, segments: Mapping[int, Segment]) -> Iterator[Event]:
        """The item is complete; one in which no word was heard has an empty text."""
        segment = None if spoken.segment_id is None else segments[spoken.segment_id]
        item = self._item
        if segment is not None:
            self._of_segment[segment.id] = item
        before = f"item_{self._prefix}_{self._count - 1}" if self._count else None
        self._count += 1
        self._words, self._pending = 0, ""
        end = round(1000 * spoken.end)
        yield self._event(f"{BUFFER}speech_stopped", item_id=item, audio_end_ms=end)
        yield self._event(f"{BUFFER}committed", item_id=item, previous_item_id=before)
        yield self._event(
            f"{TRANSCRIPTION}completed",
            item_id=item,
            content_index=0,
            transcript=segment.text if segment else "",
            usage={"type": "duration", "seconds": round(spoken.end - spoken.start, 3)},
            edgewise=segment_report(segment) if segment else None,
        )

    def _corrected(self, correction: Correction) -> Event:
        item = self._of_segment.get(correction.segment_id, "")
        if correction.cloud_result is None:
            return self._event("edgewise.transcription.kept", item_id=item, error=correction.error)
        return self._event(
            "edgewise.transcription.corrected",
            item_id=item,
            transcript=correction.cloud_result,
            replaced=correction.replaced,
            source="cloud",
        )
