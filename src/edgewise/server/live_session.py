"""One live transcription: a client's messages in, events in OpenAI's realtime shape out."""

from __future__ import annotations

import base64
import binascii
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgewise.errors import EdgewiseError
from edgewise.server.answer import Incoming, fault_to_tell
from edgewise.server.chat_wire import openai_error
from edgewise.server.device_model import only, routed_options
from edgewise.server.faults import fault_of
from edgewise.server.fields import BadField, Fields
from edgewise.server.house import House
from edgewise.server.journal import Served
from edgewise.server.live_items import BUFFER, Event, LiveItems
from edgewise.server.transcript_shapes import full_report
from edgewise.types.transcripts import Transcript

RATE = 24_000  # of pcm16 where nobody says another
MOST_BYTES = 15 * 2**20  # of one piece of sound
UPDATES = ("session.update", "transcription_session.update")


class Ended(Exception):
    """Nothing more can come of this session."""


class LiveSession:
    """Made for one connection and used on one thread."""

    def __init__(self, house: House, incoming: Incoming) -> None:
        self._house, self._incoming = house, incoming
        self._id = f"sess_{uuid.uuid4().hex[:20]}"
        self._events = itertools.count(1)
        self._options: dict[str, Any] | None = None  # until a session is described
        self._rate, self._language, self._hint, self._model = RATE, "", "", "auto"
        self._live: Any = None
        self._served: Served | None = None
        self._items = self._new_items()

    def created(self) -> Event:
        return self._event("session.created", session=self._described())

    def take(self, message: Fields, *, hurry: bool = False) -> Iterator[Event]:
        """What one message leads to. A wrong one is told and passed over; worse raises Ended."""
        kind = message.text("type", "")
        known: Mapping[str, Callable[[Fields, bool], Iterator[Event]]] = {
            **dict.fromkeys(UPDATES, self._configure),
            f"{BUFFER}append": self._hear,
            f"{BUFFER}commit": self._commit,
            f"{BUFFER}clear": self._clear,
        }
        try:
            if kind not in known:
                raise BadField("type", f"expected one of {', '.join(known)}, got {kind[:60]!r}")
            yield from known[kind](message, hurry)
        except BadField as error:
            yield self.fault(error)
        except EdgewiseError as error:
            yield self.fault(error)
            if self._live is None:  # otherwise what was heard is noted when it is closed
                self._note(None, error=error)
            raise Ended from error

    def idle(self) -> Iterator[Event]:
        """Between two messages: corrections that have come meanwhile."""
        if self._live is not None and self._items.outstanding:
            yield from self._items.told(self._live.process(b""))

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

    def _configure(self, message: Fields, _: bool) -> Iterator[Event]:
        session = message.inner("session")
        if self._live is not None:
            raise session.bad("", "cannot be changed while sound is being heard: commit it first")
        sound = session.inner("audio").inner("input")
        heard_by = sound.inner("transcription")
        if session.has("input_audio_transcription"):
            heard_by = session.inner("input_audio_transcription")
        self._rate = _rate(session, sound)
        self._language = heard_by.text("language", "")
        self._hint = heard_by.text("prompt", "")
        self._model = heard_by.text("model", "auto")
        self._route(session.inner("edgewise" if session.has("edgewise") else "metadata"))
        name = message.text("type").replace(".update", ".updated")
        yield self._event(name, session=self._described())

    def _route(self, metadata: Fields) -> dict[str, Any]:
        ears = self._house.engine.ears
        options = routed_options(self._house, self._incoming, self._model, metadata, ears)
        self._options = only(options, without=("deadline_ms",))
        return self._options

    def _hear(self, message: Fields, hurry: bool) -> Iterator[Event]:
        sound = message.text("audio")
        try:
            data = base64.b64decode(sound, validate=True)
        except (binascii.Error, ValueError) as error:
            raise message.bad("audio", "expected base64") from error
        if len(data) > MOST_BYTES or len(data) % 2:
            raise message.bad("audio", f"expected 16-bit samples, at most {MOST_BYTES:,} bytes")
        if self._live is None:
            self._start()
        yield from self._items.told(self._live.process(data, hurry=hurry))

    def _start(self) -> None:
        routed = self._options if self._options is not None else self._route(Fields({}))
        guide = {"language": self._language, "hint": self._hint}
        options: Any = routed | guide | {"rate": self._rate}
        self._served = Served(
            endpoint="realtime", client=self._incoming.client.name, model=self._model[:80]
        )
        self._served.stream = True
        live = self._house.engine.listen(**options)
        live.start()
        self._live = live
        self._items = self._new_items()

    def _new_items(self) -> LiveItems:
        return LiveItems(self._event, self._first_word)

    def _first_word(self) -> None:
        if self._served is not None:
            self._served.first_s = time.perf_counter() - self._served.started

    def _commit(self, _: Fields, __: bool) -> Iterator[Event]:
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

    def _clear(self, _: Fields, __: bool) -> Iterator[Event]:
        self.close()
        yield self._event(f"{BUFFER}cleared")

    def _note(
        self,
        transcript: Transcript | None,
        *,
        left: bool = False,
        error: EdgewiseError | None = None,
    ) -> None:
        served, self._served = self._served, None
        if served is None:
            return
        served.left, served.status = left, 200
        if error is not None:
            fault = fault_of(error)
            served.status, served.code = fault.status, fault.code
        if transcript is not None:
            served.reply, served.id = transcript, transcript.id
            served.code = transcript.decision.code
        self._house.journal.note(served)

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

    def fault(self, error: EdgewiseError) -> Event:
        fault = fault_to_tell(error, self._incoming.visit)
        told = openai_error(fault)["error"] if fault else {"message": "left", "code": "cancelled"}
        return self._event("error", error=told)

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "event_id": f"event_{next(self._events)}", **fields}


def _rate(session: Fields, sound: Fields) -> int:
    if session.text("input_audio_format", "pcm16") != "pcm16":
        raise session.bad("input_audio_format", "only pcm16 is heard here")
    form = sound.inner("format")
    if form.text("type", "audio/pcm") != "audio/pcm":
        raise form.bad("type", "only audio/pcm is heard here")
    return form.whole("rate", RATE, low=8_000, high=48_000)
