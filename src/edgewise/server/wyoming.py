"""Wyoming, the protocol of Home Assistant's voice: speech to text, and requests to intents.

A client sends events. `describe` asks what is here; sound (`audio-start`, `audio-chunk`,
`audio-stop`) becomes a `transcript`; words (`transcript` or `recognize`) become `intent` events.
A value that is missing is asked for in a `handled` event. One connection does one thing at a time,
and a client that leaves calls its work off.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
import warnings
import wave
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise import __version__
from edgewise.aio import AsyncEngine, AsyncLiveTranscriber
from edgewise.calls.home import home_facts, intent_tools
from edgewise.errors import EdgewiseError, ExtraMissing, InvalidRequest, SettingsError
from edgewise.local.catalogue import row_named
from edgewise.server.errors import BROKEN
from edgewise.types.messages import Context, Message, ToolCall
from edgewise.types.replies import CallReply

try:
    with warnings.catch_warnings():
        # Of `audioop`, which Python 3.13 no longer has; the package brings its own by then.
        warnings.simplefilter("ignore", DeprecationWarning)
        from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
    from wyoming.error import Error
    from wyoming.event import Event
    from wyoming.handle import Handled
    from wyoming.info import (
        AsrModel,
        AsrProgram,
        Attribution,
        Describe,
        Info,
        IntentModel,
        IntentProgram,
    )
    from wyoming.intent import Entity, Intent, IntentsStart, IntentsStop, NotRecognized, Recognize
    from wyoming.ping import Ping, Pong
    from wyoming.server import AsyncEventHandler, AsyncStdioServer
except ImportError as error:
    raise ExtraMissing("wyoming", error.name or str(error)) from error

HEADER_BYTES = 65_536  # of an event: one line of JSON
DATA_BYTES = 262_144
PAYLOAD_BYTES = 2**20  # of one chunk of sound: half a minute of speech
MOST_SECONDS = 300.0  # of one recording
RATES = (8_000, 48_000)
IDLE_S = 300.0  # a silent client is sent away
WRITE_S = 30.0  # and so is one that does not read
MOST_CLIENTS = 32
MOST_TALKS = 64  # conversations that are remembered, the last turns of each
TALK_TURNS = 8
TALK_S = 300.0
LONGEST_REQUEST = 4_000  # characters
HOME = "https://github.com/home-assistant/intents"
# A smart speaker has no use for these: the first says nothing, the second answers for us.
LEFT_OUT = ("HassRespond",)
NOT_UNDERSTOOD = "Sorry, I do not know what to do."
# What Home Assistant says after an intent; it fills these in from what it found. Older ones would
# read them out as they stand: see `_renders`.
_SPOKEN = {
    "HassGetState": "{{ state.name }} is {{ state.state_with_unit }}",
    "HassClimateGetTemperature": "It is {{ state.attributes.current_temperature }} degrees",
    "HassGetWeather": "{{ state.state }}, {{ state.attributes.temperature }} degrees",
    "HassGetCurrentTime": "It is {{ slots.time.strftime('%H:%M') }}",
    "HassGetCurrentDate": "It is {{ slots.date.strftime('%A, %-d %B') }}",
}
_YES_OR_NO = (
    "{% if query.matched %}Yes: {{ query.matched | map(attribute='name') | join(', ') }}"
    "{% else %}No{% endif %}"
)
_DONE = "Okay"


class BadEvent(Exception):
    """What a client sent is no event, or one that is too large."""


class HomeFile:
    """The list of a home's devices in a file; read again when it has changed."""

    def __init__(self, path: Path | None, area: str = "") -> None:
        self._path, self._area = path, area
        self._stamp: tuple[int, int] | None = None
        self._facts: dict[str, Any] = {}
        self.facts()

    def facts(self) -> Context:
        """Raises SettingsError the first time; later the last good list stays."""
        here = {"area": self._area} if self._area else {}
        if self._path is None:
            return here
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                self._facts = home_facts(self._path.read_text("utf-8-sig"))
                self._stamp = stamp
        except (OSError, ValueError) as error:
            if self._stamp is None:
                raise SettingsError(f"--entities {self._path}: {error}") from error
        return {**self._facts, **here}


@dataclass(slots=True)
class Talks:
    """The last turns of each conversation, by the id that the client gave it."""

    clock: Callable[[], float] = time.monotonic
    _held: OrderedDict[str, tuple[float, list[Message]]] = field(default_factory=OrderedDict)

    def before(self, talk: str) -> list[Message]:
        since, turns = self._held.get(talk, (0.0, []))
        return list(turns) if self.clock() - since < TALK_S else []

    def note(self, talk: str, turns: Sequence[Message]) -> None:
        if not talk:
            return
        self._held[talk] = (self.clock(), list(turns)[-TALK_TURNS:])
        self._held.move_to_end(talk)
        while len(self._held) > MOST_TALKS:
            self._held.popitem(last=False)


@dataclass(slots=True, kw_only=True)
class Service:
    """What all connections share. `options` go with every request: the policy, for one."""

    engine: AsyncEngine
    home: HomeFile
    live: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    talks: Talks = field(default_factory=Talks)

    def info(self) -> Info:
        settings = self.engine.engine.settings
        ours = Attribution(name="edgewise", url="")
        heard = row_named(settings.speech_model)
        asr = AsrModel(
            name=settings.speech_model,
            attribution=ours,
            installed=True,
            description=heard.title if heard else None,
            version=__version__,
            languages=list(heard.languages if heard else ()) or ["en"],
        )
        intents = IntentModel(
            name=settings.function_model,
            attribution=Attribution(name="Home Assistant's intents, read by edgewise", url=HOME),
            installed=True,
            description="Requests to a home become intents, on this device",
            version=__version__,
            languages=["en"],
        )
        about: dict[str, Any] = {
            "name": "edgewise",
            "attribution": ours,
            "installed": True,
            "version": __version__,
        }
        return Info(
            asr=[
                AsrProgram(
                    **about,
                    description="Speech to text on this device",
                    models=[asr],
                    supports_transcript_streaming=self.live,
                )
            ],
            intent=[IntentProgram(**about, description="Requests to intents", models=[intents])],
        )


class WyomingClient(AsyncEventHandler):
    """One client. Events are answered in their order."""

    def __init__(
        self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__(reader, writer)
        self._service = service
        self._language = ""
        self._sound: _Recording | None = None

    @override
    async def run(self) -> None:
        """Until the client leaves, falls silent or sends what is no event."""
        reading = asyncio.create_task(self._next())
        try:
            while (event := await reading) is not None:
                reading = asyncio.create_task(self._next())
                if not await self._unless_it_leaves(self.handle_event(event), reading):
                    return
        except BadEvent as error:
            with contextlib.suppress(OSError, TimeoutError):
                await self.write_event(Error(str(error), "bad_event").event())
        except (OSError, EOFError, TimeoutError):
            pass  # it has left
        finally:
            if not reading.cancel() and not reading.cancelled():
                reading.exception()  # seen, or the event loop would log it
            await self.disconnect()
            self.writer.close()

    async def _next(self) -> Event | None:
        return await asyncio.wait_for(read_event(self.reader), IDLE_S)

    async def _unless_it_leaves(
        self, work: Awaitable[bool], reading: asyncio.Task[Event | None]
    ) -> bool:
        """What `work` returns; called off if the client leaves before it is done."""
        doing = asyncio.ensure_future(work)
        both: set[asyncio.Future[Any]] = {doing, reading}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done() and reading.result() is None:  # raises what reading raised
                return False
            return await doing
        finally:
            if not doing.done():
                doing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await doing

    @override
    async def write_event(self, event: Event) -> None:
        await asyncio.wait_for(super().write_event(event), WRITE_S)

    @override
    async def disconnect(self) -> None:
        if self._sound is not None:
            await self._sound.close()
            self._sound = None

    @override
    async def handle_event(self, event: Event) -> bool:
        """False ends the connection. Unknown events are passed over, as the protocol asks."""
        try:
            await self._handle(event)
        except EdgewiseError as error:
            await self.disconnect()
            await self.write_event(Error(str(error), error.code).event())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{event.type}: {type(error).__name__}: {error}"
            await self.write_event(Error(message, "bad_event").event())
            return False
        except (OSError, EOFError, TimeoutError):
            raise  # it has left
        except Exception:
            await self.write_event(Error(BROKEN.message, BROKEN.code).event())
            raise
        return True

    async def _handle(self, event: Event) -> None:
        kind = event.type
        if Describe.is_type(kind):
            await self.write_event(self._service.info().event())
        elif Ping.is_type(kind):
            await self.write_event(Pong(text=Ping.from_event(event).text).event())
        elif Transcribe.is_type(kind):
            self._language = _text(Transcribe.from_event(event).language)
        elif AudioStart.is_type(kind):
            await self._start(AudioStart.from_event(event))
        elif AudioChunk.is_type(kind):
            await self._hear(AudioChunk.from_event(event))
        elif AudioStop.is_type(kind):
            await self._stop()
        elif Transcript.is_type(kind):
            said = Transcript.from_event(event)
            await self._recognize(said.text, said.context)
        elif Recognize.is_type(kind):
            asked = Recognize.from_event(event)
            await self._recognize(asked.text, asked.context)

    # -- speech --

    async def _start(self, start: AudioStart) -> None:
        await self.disconnect()
        if start.width != 2 or start.channels not in (1, 2):
            raise InvalidRequest(
                f"audio-start: 16-bit samples, one or two channels; got {8 * int(start.width)}-bit "
                f"samples, {start.channels} channels"
            )
        if not RATES[0] <= start.rate <= RATES[1]:
            raise InvalidRequest(f"audio-start: rate {start.rate}: {RATES[0]} to {RATES[1]}")
        options = {**self._service.options, "language": self._language}
        if self._service.live and start.channels == 1:
            live = self._service.engine.listen(rate=start.rate, **options)
            self._sound = _Live(live, start, self.write_event)
            await self._sound.begin()
        else:
            self._sound = _Recording(start, self._service.engine, options)

    async def _hear(self, chunk: AudioChunk) -> None:
        if self._sound is None:
            return  # of a recording that was refused
        form = self._sound.form
        if (chunk.rate, chunk.width, chunk.channels) != (form.rate, form.width, form.channels):
            raise InvalidRequest("audio-chunk: its format is not that of audio-start")
        await self._sound.add(chunk.audio)
        if self._sound.seconds > MOST_SECONDS:
            raise InvalidRequest(f"a recording has at most {MOST_SECONDS:g} seconds")

    async def _stop(self) -> None:
        sound, self._sound = self._sound, None
        if sound is None:
            return
        try:
            text, language = await sound.end()
        finally:
            await sound.close()
        await self.write_event(Transcript(text, language=language or None).event())

    # -- words --

    async def _recognize(self, text: Any, context: Any) -> None:
        if not isinstance(text, str) or not text.strip():
            await self.write_event(NotRecognized(NOT_UNDERSTOOD, context).event())
            return
        if len(text) > LONGEST_REQUEST:
            raise InvalidRequest(f"a request has at most {LONGEST_REQUEST:,} characters")
        service = self._service
        talk = _text(context.get("conversation_id")) if isinstance(context, dict) else ""
        turns = [*service.talks.before(talk), Message("user", text.strip())]
        reply = await service.engine.call(
            turns,
            intent_tools(leave_out=LEFT_OUT),
            context=service.home.facts(),
            **service.options,
        )
        said = Message("assistant", reply.text, tool_calls=reply.tool_calls)
        service.talks.note(talk, [*turns, said])
        for event in answer_events(reply, context if isinstance(context, dict) else None):
            await self.write_event(event)


def answer_events(reply: CallReply, context: dict[str, Any] | None) -> Iterator[Event]:
    """A reply as events: one intent, several between a start and a stop, a question, or neither."""
    if not reply.tool_calls:
        if reply.needs and reply.text:
            yield Handled(reply.text, context).event()
        else:
            yield NotRecognized(NOT_UNDERSTOOD, context).event()
        return
    several = len(reply.tool_calls) > 1
    if several:
        yield IntentsStart(context).event()
    for call in reply.tool_calls:
        entities = [Entity(name, value) for name, value in call.arguments.items()]
        text = _spoken(call, renders=_renders(context))
        yield Intent(call.name, entities, text=text, context=context).event()
    if several:
        yield IntentsStop(context).event()


def _spoken(call: ToolCall, *, renders: bool) -> str | None:
    """The sentence after an intent; None: it would be a template, and the client reads no such."""
    asks = call.name == "HassGetState" and "state" in call.arguments
    template = _YES_OR_NO if asks else _SPOKEN.get(call.name)
    if template is None:
        return _DONE
    return template if renders else None


def _renders(context: dict[str, Any] | None) -> bool:
    """Whether a client fills in templates. Home Assistant began to name the device that heard the
    words (`device_id`) with the very change that made it do so; there is no other sign of it."""
    return bool(context and context.get("device_id"))


class _Recording:
    """Sound that is transcribed when it has ended."""

    def __init__(self, form: AudioStart, engine: AsyncEngine, options: dict[str, Any]) -> None:
        self.form = form
        self._engine, self._options = engine, options
        self._bytes = bytearray()

    @property
    def seconds(self) -> float:
        return len(self._bytes) / (2 * self.form.channels * self.form.rate)

    async def add(self, sound: bytes) -> None:
        self._bytes += sound

    async def end(self) -> tuple[str, str]:
        """What was said, and its language."""
        frame = 2 * self.form.channels
        whole = bytes(self._bytes[: len(self._bytes) // frame * frame])
        if not whole:
            return "", ""
        file = io.BytesIO()
        with wave.open(file, "wb") as written:
            written.setparams((self.form.channels, 2, self.form.rate, 0, "NONE", ""))
            written.writeframes(whole)
        heard = await self._engine.transcribe(file.getvalue(), **self._options)
        return heard.text, heard.language

    async def close(self) -> None:
        self._bytes.clear()


class _Live(_Recording):
    """Sound that is transcribed while it comes; confirmed words are sent at once."""

    def __init__(
        self,
        live: AsyncLiveTranscriber,
        form: AudioStart,
        write: Callable[[Event], Awaitable[None]],
    ) -> None:
        self.form = form
        self._live, self._write = live, write
        self._count = 0
        self._shown = ""

    @property
    @override
    def seconds(self) -> float:
        return self._count / (2 * self.form.rate)

    async def begin(self) -> None:
        await self._live.start()
        await self._write(TranscriptStart().event())

    @override
    async def add(self, sound: bytes) -> None:
        self._count += len(sound)
        await self._show((await self._live.process(sound)).confirmed)

    @override
    async def end(self) -> tuple[str, str]:
        heard = await self._live.stop()
        await self._show(heard.text)
        await self._write(TranscriptStop().event())
        return heard.text, heard.language

    async def _show(self, confirmed: str) -> None:
        if confirmed.startswith(self._shown) and confirmed != self._shown:
            await self._write(TranscriptChunk(confirmed[len(self._shown) :]).event())
            self._shown = confirmed

    @override
    async def close(self) -> None:
        await self._live.close()


async def read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event, None at the end. Unlike the package's own reader, it limits the sizes.

    Raises BadEvent, and EOFError where the client left in the middle of an event.
    """
    try:
        line = await reader.readline()
    except ValueError as error:
        raise BadEvent(f"the header of an event has at most {HEADER_BYTES:,} bytes") from error
    if not line:
        return None
    header = _object(line, "the header of an event")
    if not isinstance(kind := header.get("type"), str):
        raise BadEvent("the header of an event needs a type")
    data = header.get("data") or {}
    if more := await _block(reader, header, "data_length", DATA_BYTES):
        data = {**data, **_object(more, "the data of an event")} if isinstance(data, dict) else data
    payload = await _block(reader, header, "payload_length", PAYLOAD_BYTES)
    if not isinstance(data, dict):
        raise BadEvent("the data of an event must be a JSON object")
    return Event(type=kind, data=data, payload=payload or None)


async def _block(
    reader: asyncio.StreamReader, header: dict[str, Any], name: str, most: int
) -> bytes:
    length = header.get(name) or 0
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= most:
        raise BadEvent(f"{name} = {length!r}: a whole number up to {most:,}")
    return await reader.readexactly(length) if length else b""


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadEvent(f"{what} must be a JSON object") from error
    if not isinstance(found, dict):
        raise BadEvent(f"{what} must be a JSON object")
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


async def serve(
    service: Service,
    uri: str,
    announce: Callable[[str], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Answer clients until `stop` is set; over standard input and output, until these end."""
    target = urlsplit(uri)
    if target.scheme == "stdio":
        await AsyncStdioServer().run(lambda reader, writer: WyomingClient(service, reader, writer))
        return
    tasks: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = WyomingClient(service, reader, writer)
        if len(tasks) >= MOST_CLIENTS:
            with contextlib.suppress(OSError, TimeoutError):
                await connection.write_event(Error("too many clients", "busy").event())
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None, "a client is met in a task"
        tasks.add(task)
        try:
            await connection.run()
        except asyncio.CancelledError:
            pass  # told to stop; asyncio would print the cancellation of a client's task
        finally:
            tasks.discard(task)

    if target.scheme == "unix":
        server = await asyncio.start_unix_server(meet, target.path, limit=HEADER_BYTES)
    else:
        server = await asyncio.start_server(
            meet, target.hostname, target.port or 0, limit=HEADER_BYTES
        )
        host, port = server.sockets[0].getsockname()[:2]
        uri = f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
    async with server:
        announce(uri)
        await (stop or asyncio.Event()).wait()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
