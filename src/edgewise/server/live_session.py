"""One live transcription: a client's messages in, events in OpenAI's realtime shape out.

Each utterance is an item. Its words come as deltas once they are settled, and its text as
`completed` when it has ended. What the cloud corrects afterwards is an event of our own, tied to
the item: nothing that was shown changes without being said.
"""

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
from edgewise.server.transcript_shapes import full_report, segment_report
from edgewise.types.transcripts import Correction, LiveUpdate, Segment, Transcript, Word

TRANSCRIPTION = "conversation.item.input_audio_transcription."
RATE = 24_000  # of pcm16 where nobody says another
MOST_BYTES = 15 * 2**20  # of one piece of sound
UPDATES = ("session.update", "transcription_session.update")

Event = dict[str, Any]


class Ended(Exception):
    """Nothing more can come of this session."""


class LiveSession:
    """Made for one connection and used on one thread."""

    def __init__(self, house: House, incoming: Incoming) -> None:
        self._house, self._incoming = house, incoming
        self._id = f"sess_{uuid.uuid4().hex[:20]}"
        self._events = itertools.count(1)
        self._options: dict[str, Any] | None = None  # until a session is described
        self._rate, self._language, self._model = RATE, "", "auto"
        self._live: Any = None
        self._served: Served | None = None
        self._begin_items()

    def created(self) -> Event:
        return self._event("session.created", session=self._described())

    def take(self, message: Fields, *, hurry: bool = False) -> Iterator[Event]:
        """What one message leads to. A wrong one is told and passed over; worse raises Ended."""
        kind = message.text("type", "")
        known: Mapping[str, Callable[[Fields, bool], Iterator[Event]]] = {
            **dict.fromkeys(UPDATES, self._configure),
            "input_audio_buffer.append": self._hear,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
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
        if self._live is not None and self._outstanding:
            yield from self._told(self._live.process(b""))

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
        yield from self._told(self._live.process(data, hurry=hurry))

    def _start(self) -> None:
        routed = self._options if self._options is not None else self._route(Fields({}))
        options: Any = routed | {"language": self._language, "rate": self._rate}
        self._served = Served(
            endpoint="realtime", client=self._incoming.client.name, model=self._model[:80]
        )
        self._served.stream = True
        live = self._house.engine.listen(**options)
        live.start()
        self._live = live
        self._begin_items()

    def _commit(self, _: Fields, __: bool) -> Iterator[Event]:
        """The end of the sound: the rest is heard, and corrections are waited for."""
        if self._live is None:
            raise BadField("type", "there is no sound to commit")
        live, self._live = self._live, None
        transcript: Transcript = live.stop()
        yield from self._told(live.last_update)
        self._note(transcript)
        yield self._event(
            "edgewise.session.finished", text=transcript.text, edgewise=full_report(transcript)
        )

    def _clear(self, _: Fields, __: bool) -> Iterator[Event]:
        self.close()
        yield self._event("input_audio_buffer.cleared")

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

    # Items

    def _begin_items(self) -> None:
        self._prefix = uuid.uuid4().hex[:12]
        self._items: dict[int, str] = {}  # by segment
        self._count = 0
        self._open_words = 0
        self._pending = ""
        self._outstanding = 0

    @property
    def _item(self) -> str:
        """The one being spoken."""
        return f"item_{self._prefix}_{self._count}"

    def _told(self, update: LiveUpdate) -> Iterator[Event]:
        self._outstanding = update.outstanding
        words = list(update.new_words)
        for segment in update.new_segments:
            own = [word for word in words if word.start < segment.end]
            words = words[len(own) :]
            yield from self._deltas(own)
            yield from self._completed(segment)
        yield from self._deltas(words)
        if update.pending != self._pending:
            self._pending = update.pending
            yield self._event(
                "edgewise.transcription.provisional", item_id=self._item, text=update.pending
            )
        for correction in update.corrections:
            yield self._corrected(correction)

    def _deltas(self, words: list[Word]) -> Iterator[Event]:
        for word in words:
            space = " " if self._open_words else ""
            self._open_words += 1
            if self._served is not None and self._served.first_s is None:
                self._served.first_s = time.perf_counter() - self._served.started
            yield self._event(
                f"{TRANSCRIPTION}delta",
                item_id=self._item,
                content_index=0,
                delta=space + word.text,
            )

    def _completed(self, segment: Segment) -> Iterator[Event]:
        item = self._items[segment.id] = self._item
        before = f"item_{self._prefix}_{self._count - 1}" if self._count else None
        self._count += 1
        self._open_words, self._pending = 0, ""
        yield self._event("input_audio_buffer.committed", item_id=item, previous_item_id=before)
        yield self._event(
            f"{TRANSCRIPTION}completed",
            item_id=item,
            content_index=0,
            transcript=segment.text,
            usage={"type": "duration", "seconds": round(segment.seconds, 3)},
            edgewise=segment_report(segment),
        )

    def _corrected(self, correction: Correction) -> Event:
        item = self._items.get(correction.segment_id, "")
        if correction.cloud_result is None:
            return self._event("edgewise.transcription.kept", item_id=item, error=correction.error)
        return self._event(
            "edgewise.transcription.corrected",
            item_id=item,
            transcript=correction.cloud_result,
            replaced=correction.replaced,
            source="cloud",
        )

    def _described(self) -> dict[str, Any]:
        transcription = {"model": self._model, "language": self._language or None}
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
