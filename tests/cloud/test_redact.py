"""Redaction at the door: what leaves, what comes back, and what stays when it cannot be done."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from edgewise import (
    AsyncEngine,
    CloudClosed,
    Conversation,
    Engine,
    InvalidRequest,
    Settings,
    SettingsError,
    plugins,
)
from edgewise.calls.tools import as_toolbox
from edgewise.cloud import personal_data
from edgewise.cloud.personal_data import Finder, Found
from edgewise.cloud.provider import Chunk
from edgewise.cloud.redact import MOST_SEARCHED, Redactor
from edgewise.extras import install_command
from edgewise.record.ledger import Ledger
from edgewise.record.rows import parse_budget
from edgewise.tasks import run_call
from edgewise.testing import (
    Answer,
    Cut,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    SeenRequest,
    Status,
    loopback_cloud,
)
from edgewise.testing.scripted import heard
from edgewise.types.messages import (
    KINDS,
    Audio,
    Image,
    Message,
    Request,
    ResponseFormat,
    RunnableTool,
    Tool,
    ToolCall,
)
from edgewise.types.replies import Attempt, Finish, Finished, TextDelta, Vectors
from tests.cloud.planted import PLANTED
from tests.speech.made_voice import silence, voice, wav

MAIL, CARD = "ann@example.org", "4111 1111 1111 1111"
TALK = wav(silence(0.5), voice(2.0), silence(0.5))
DOUBT = "I am not at all sure but perhaps it is over there somewhere"
PLACEHOLDER = re.compile(r"\[[A-Z]+_[0-9]+\]")


class Wiretap:
    """Every byte that the loopback cloud read."""

    def __init__(self) -> None:
        self.read_bytes = b""

    def tapped(self, stream: BinaryIO) -> Any:
        tap = self

        class Tapped:
            def readline(self, *limit: int) -> bytes:
                line = stream.readline(*limit)
                tap.read_bytes += line
                return line

            def read(self, *size: int) -> bytes:
                block = stream.read(*size)
                tap.read_bytes += block
                return block

        return Tapped()

    def holds(self, value: str) -> bool:
        """Whether a value left: as it is, as JSON escapes it, or its digits without the gaps."""
        written = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
        plain = re.sub(r"\W", "", value)
        return any(each.encode() in self.read_bytes for each in (*written, plain))


@pytest.fixture
def wiretap(monkeypatch: pytest.MonkeyPatch) -> Wiretap:
    tap, read = Wiretap(), loopback_cloud.read_request
    monkeypatch.setattr(loopback_cloud, "read_request", lambda stream: read(tap.tapped(stream)))
    return tap


@pytest.fixture
def cloud(wiretap: Wiretap) -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(echo)
        yield server


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)


def echo(seen: SeenRequest, chunk_size: int = 3) -> Answer:
    """What stood between the marks of the last message, and a call with every placeholder."""
    found = [text for text in leaves(seen.body) if "<<" in text and ">>" in text]
    said = found[-1].rpartition("<<")[2].partition(">>")[0] if found else "Nothing."
    names = sorted(set(PLACEHOLDER.findall(json.dumps(seen.body))))
    calls = (ToolCall("note", {"values": names}),) if seen.body.get("tools") else ()
    return Answer(text=said, tool_calls=calls, chunk_size=chunk_size)


def engine_for(
    cloud: LoopbackCloud,
    provider: str = "openai",
    backend: ScriptedBackend | None = None,
    function_model: ScriptedFunctionModel | None = None,
    **changes: Any,
) -> Engine:
    keys = {
        "openai": {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url},
        "anthropic": {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": cloud.anthropic_url},
        "gemini": {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url},
        "cactus_cloud": {"CACTUS_CLOUD_KEY": "k", "CACTUS_CLOUD_API_BASE": cloud.cactus_url},
    }
    settings = Settings.load({**os.environ, **keys[provider]}, chain=(provider,), **changes)
    backend = backend or ScriptedBackend.doubtful(DOUBT)
    return Engine(settings, backend=backend, function_model=function_model)


# -- the story ---------------------------------------------------------------------------------


def test_an_address_leaves_as_a_placeholder_and_comes_back(
    cloud: LoopbackCloud, wiretap: Wiretap
) -> None:
    with engine_for(cloud) as engine:
        reply = engine.complete(
            f"<<Write to {MAIL} about {CARD}, and again to {MAIL}.>>", redact=True
        )
        assert reply.text == f"Write to {MAIL} about {CARD}, and again to {MAIL}."
        (sent,) = cloud.requests
        said = sent.body["messages"][-1]["content"]
        assert said == "<<Write to [EMAIL_1] about [CARD_1], and again to [EMAIL_1].>>"
        assert not wiretap.holds(MAIL) and not wiretap.holds(CARD)
        assert reply.attempts[-1].redacted == {"EMAIL": 1, "CARD": 1}
        entry = engine.ledger.get(reply.id)
        assert entry is not None
        assert [each["redacted"] for each in entry["attempts"]] == [
            {"EMAIL": 1, "CARD": 1},
            {},
        ]
        assert engine.ledger.report().redacted == {"CARD": 1, "EMAIL": 1}
        on_disk = b"".join(
            path.read_bytes() for path in engine.settings.data_dir.iterdir() if path.is_file()
        )
        assert MAIL.encode() not in on_disk


def test_without_it_everything_leaves_as_it_is(cloud: LoopbackCloud, wiretap: Wiretap) -> None:
    with engine_for(cloud) as engine:
        reply = engine.complete(f"<<{MAIL}>>")
        assert (reply.text, wiretap.holds(MAIL)) == (MAIL, True)
        assert reply.attempts[-1].redacted == {}


def test_only_the_kinds_that_were_asked_for_are_replaced(
    cloud: LoopbackCloud, wiretap: Wiretap
) -> None:
    with engine_for(cloud) as engine:
        engine.complete(f"<<{MAIL} {CARD}>>", redact=["CARD"])
        assert wiretap.holds(MAIL) and not wiretap.holds(CARD)


def test_a_placeholder_that_the_user_wrote_or_the_model_invented_stays(
    cloud: LoopbackCloud,
) -> None:
    cloud.always(Answer(text="[EMAIL_1] [EMAIL_2] [EMAIL_9] [CARD_1]", chunk_size=1))
    with engine_for(cloud) as engine:
        reply = engine.complete(f"What is [EMAIL_1] beside {MAIL}?", redact=True)
        assert reply.text == f"[EMAIL_1] {MAIL} [EMAIL_9] [CARD_1]"


def test_a_value_found_once_is_replaced_where_no_pattern_knows_it(
    cloud: LoopbackCloud, wiretap: Wiretap
) -> None:
    with engine_for(cloud) as engine:
        engine.complete("Phone: 5551234567. <<Is 5551234567 mine? x5551234567>>", redact=True)
        assert not wiretap.holds("5551234567")


SEND = Tool(
    "send",
    f"Sends mail; {MAIL} is the owner.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string", "enum": [MAIL, "nobody"]},
            "card": {"type": "integer", "default": 4111111111111111},
        },
    },
)
HISTORY = (
    Message("system", f"You help {MAIL}."),
    Message("user", f"Pay with {CARD}."),
    Message(
        "assistant",
        tool_calls=(
            ToolCall("send", {"to": MAIL, MAIL: 1, "card": 5555555555554444}, id=f"c-{MAIL}"),
        ),
    ),
    Message("tool", json.dumps({"sent_to": MAIL, "ip": "10.1.2.3"}), tool_call_id=f"c-{MAIL}"),
    Message("assistant", f"Sent to {MAIL}."),
    Message("user", f"<<Again to {MAIL}>>"),
)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "cactus_cloud"])
def test_nothing_of_a_conversation_leaves_through_any_protocol(
    cloud: LoopbackCloud, wiretap: Wiretap, provider: str
) -> None:
    with engine_for(cloud, provider) as engine:
        reply = engine.complete(
            list(HISTORY),
            tools=[SEND],
            context={"owner": MAIL, "hosts": [{"ip": "10.1.2.3"}]},
            stop=[MAIL],
            redact=True,
            policy="cloud_only",
        )
        assert reply.text == f"Again to {MAIL}" or provider == "cactus_cloud"
        for value in (MAIL, CARD, "4111111111111111", "5555555555554444", "10.1.2.3"):
            assert not wiretap.holds(value), value
        assert b"send" in wiretap.read_bytes


def test_arguments_have_the_values_again_and_names_never_do(cloud: LoopbackCloud) -> None:
    calls = (ToolCall("[EMAIL_1]", {"to": "[EMAIL_1]", "body": ["Dear [EMAIL_1],"], "n": 3}),)
    cloud.always(Answer(text="", tool_calls=calls))
    with engine_for(cloud) as engine:
        reply = engine.complete(f"Mail {MAIL}", tools=[SEND], redact=True, policy="cloud_only")
        (call,) = reply.tool_calls
        assert call.name == "[EMAIL_1]"
        assert call.arguments == {"to": MAIL, "body": [f"Dear {MAIL},"], "n": 3}


def test_a_number_that_was_replaced_is_a_number_again(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="", tool_calls=(ToolCall("send", {"card": "[CARD_1]"}),)))
    history = [
        Message("user", "Pay."),
        Message("assistant", tool_calls=(ToolCall("send", {"card": 5555555555554444}, id="a"),)),
        Message("tool", "done", tool_call_id="a"),
        Message("user", "Once more."),
    ]
    with engine_for(cloud) as engine:
        reply = engine.complete(history, tools=[SEND], redact=True, policy="cloud_only")
        assert reply.tool_calls[0].arguments == {"card": 5555555555554444}


def test_a_structured_answer_stays_json_whatever_the_value_holds(cloud: LoopbackCloud) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMII\\abc\n-----END PRIVATE KEY-----"
    cloud.always(Answer(text='{"key": "[KEY_1]"}', chunk_size=2))
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    with engine_for(cloud) as engine:
        reply = engine.complete(
            f"Which key? {key}", response_format=ResponseFormat(schema), redact=True,
            policy="cloud_only",
        )  # fmt: skip
        assert json.loads(reply.text) == {"key": key}


def test_vectors_are_made_of_the_redacted_text(cloud: LoopbackCloud, wiretap: Wiretap) -> None:
    with engine_for(cloud) as engine:
        made = engine.embed([f"from {MAIL}", "plain"], redact=True, policy="cloud_only")
        assert len(made.vectors) == 2
        assert not wiretap.holds(MAIL)


def test_speculation_and_rescue_of_calls_are_redacted(
    cloud: LoopbackCloud, wiretap: Wiretap
) -> None:
    cloud.always(Answer(text="", tool_calls=(ToolCall("send", {"to": "[EMAIL_1]"}),)))
    with engine_for(cloud) as engine:
        reply = engine.call(
            f"send it to {MAIL}", [SEND], redact=True, policy="prefer_cloud", speculative=True
        )
        assert [call.arguments for call in reply.calls] == [{"to": MAIL}]
        assert not wiretap.holds(MAIL)


def test_an_audit_and_its_judge_are_redacted(cloud: LoopbackCloud, wiretap: Wiretap) -> None:
    cloud.script(Answer(text="Something else entirely for [EMAIL_1]."), Answer(text="no"))
    backend = ScriptedBackend.confident(f"The owner is {MAIL}, who lives in a small town.")
    with engine_for(cloud, backend=backend, audit_share=1.0) as engine:
        reply = engine.complete(f"Who is {MAIL}?", redact=True)
        assert reply.source == "local"
        assert engine.parts.auditor is not None and engine.parts.auditor.wait(60)
        assert len(cloud.requests) == 2
        assert not wiretap.holds(MAIL)


# -- streams -----------------------------------------------------------------------------------


def seal(text: str, kinds: Sequence[str] = KINDS, finders: Sequence[Finder] = ()) -> Any:
    return Redactor(finders).seal(Request(messages=(Message("user", text),), redact=tuple(kinds)))


def chunked(pieces: Iterable[Chunk]) -> Generator[Chunk, None, None]:
    yield from pieces


def opened(sealed: Any, pieces: Sequence[str]) -> list[str]:
    chunks = sealed.open(chunked([*pieces, Finish()]))
    return [each for each in chunks if isinstance(each, str)]


ANSWER = "Hi [EMAIL_1], [[CARD_1]] and [EMAIL_10] or [EMA [NAME_1] [EMAIL_1"


def test_a_stream_split_anywhere_gives_the_same_text() -> None:
    sealed = seal(f"{MAIL} {CARD}")
    (whole,) = ["".join(opened(sealed, [ANSWER]))]
    assert whole == f"Hi {MAIL}, [{CARD}] and [EMAIL_10] or [EMA [NAME_1] [EMAIL_1"
    for first in range(len(ANSWER) + 1):
        for second in range(first, len(ANSWER) + 1):
            pieces = [ANSWER[:first], ANSWER[first:second], ANSWER[second:]]
            shown = ""
            for piece in opened(sealed, pieces):
                shown += piece
                assert whole.startswith(shown), "what is shown is never taken back"
            assert shown == whole
    assert "".join(opened(sealed, list(ANSWER))) == whole


@given(st.lists(st.sampled_from(["[", "]", "EMAIL_1", "CARD", "_1", "[EMAIL_1]", "x", "1", " "])))
def test_any_pieces_give_what_the_whole_gives(pieces: list[str]) -> None:
    sealed = seal(f"{MAIL} {CARD}")
    assert "".join(opened(sealed, pieces)) == sealed.open_text("".join(pieces))


def test_only_a_possible_placeholder_is_held() -> None:
    sealed = seal(MAIL)
    assert opened(sealed, ["a [1] b [TODO", " c", " [EMAIL", "_1] d"]) == [
        "a [1] b [TODO", " c", " ", f"{MAIL} d",
    ]  # fmt: skip


def test_a_stream_that_is_cut_shows_no_half_of_a_placeholder(cloud: LoopbackCloud) -> None:
    cloud.always(Cut(text="Dear [EMAIL_1], hello", chunk_size=4, after_chunks=3))
    with engine_for(cloud, backend=ScriptedBackend.confident("Dear sir.")) as engine:
        events = list(engine.stream(f"Greet {MAIL}", redact=True, policy="prefer_cloud"))
        shown = [each.text for each in events if isinstance(each, TextDelta)]
        assert shown[0] == "Dear" and not any("[" in text for text in shown)
        assert isinstance(events[-1], Finished) and events[-1].reply.source == "mixed"


# -- what may not leave ------------------------------------------------------------------------


class Finds:
    """A finder of one word."""

    kinds = ("NAME",)

    def __init__(self, word: str = "Ann") -> None:
        self.word = word

    def find(self, text: str) -> Iterator[Found]:
        for match in re.finditer(re.escape(self.word), text):
            yield Found(*match.span(), "NAME")


class Breaks(Finds):
    @override
    def find(self, text: str) -> Iterator[Found]:
        raise RuntimeError(f"cannot read {text}")


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> list[Finder]:
    """The finder called "own" in the settings; a test puts it in."""
    found: list[Finder] = [Finds()]
    installed = plugins.names
    monkeypatch.setattr(plugins, "names", lambda group: [*installed(group), "own"])
    monkeypatch.setattr("edgewise.parts._open_finder", lambda name, model: {"own": found[0]}[name])
    return found


def test_a_finder_adds_a_kind(cloud: LoopbackCloud, wiretap: Wiretap, finder: list[Finder]) -> None:
    with engine_for(cloud, finders=("own",)) as engine:
        reply = engine.complete("<<Ann met Anna, said Ann.>>", redact=["NAME"])
        assert reply.text == "Ann met Anna, said Ann."
        assert b"[NAME_1] met [NAME_1]a, said [NAME_1]." in wiretap.read_bytes


def test_a_finder_looks_at_each_text_of_a_request_once(
    cloud: LoopbackCloud, finder: list[Finder]
) -> None:
    looked: list[str] = []

    class Counts(Finds):
        @override
        def find(self, text: str) -> Iterator[Found]:
            looked.append(text)
            return super().find(text)

    finder[0] = Counts()
    turns = [Message("user" if turn % 2 == 0 else "assistant", f"{turn} Ann") for turn in range(21)]
    with engine_for(cloud, finders=("own",)) as engine:
        assert engine.complete(turns, redact=True, policy="cloud_only").source == "cloud"
        assert len(looked) == len(set(looked)) >= 21
        before = len(looked)
        engine.complete(
            [*turns, Message("assistant", "22"), Message("user", "23")],
            redact=True,
            policy="cloud_only",
        )
        assert len(looked) - before <= 4, "the turns before are known"


def test_if_redaction_fails_nothing_leaves_and_nothing_is_told(
    cloud: LoopbackCloud, finder: list[Finder], caplog: pytest.LogCaptureFixture
) -> None:
    finder[0] = Breaks()
    caplog.set_level(logging.DEBUG)
    with engine_for(cloud, finders=("own",)) as engine:
        reply = engine.complete("A secret of Ann", redact=True)
        assert (reply.source, reply.decision.degraded_code) == ("local", "redaction_failed")
        assert "secret" not in f"{reply.decision.reason} {reply.attempts} {caplog.text}"
        with pytest.raises(CloudClosed) as failure:
            engine.complete("A secret of Ann", redact=True, policy="cloud_only")
        assert failure.value.code == "redaction_failed"
        assert failure.value.__context__ is None and "secret" not in str(failure.value)
        assert engine.complete("Ann", private_kinds=["NAME"]).degraded
        assert cloud.connections == 0


def test_presidio_finds_names_or_says_what_is_missing(tmp_path: Path) -> None:
    finder = personal_data.PresidioFinder(str(tmp_path / "model"))
    try:
        spacy: Any = importlib.import_module("spacy")
        importlib.import_module("presidio_analyzer")
    except ImportError:
        shut = Redactor([finder]).closed(
            Request(messages=(Message("user", "Hi"),), private_kinds=("NAME",))
        )
        assert shut is not None and install_command("redact") in str(shut)
        return
    model = spacy.blank("en")
    rules = model.add_pipe("entity_ruler")
    rules.add_patterns([{"label": "PERSON", "pattern": "Ada Lovelace"}])
    model.to_disk(tmp_path / "model")
    text = "I met Ada Lovelace."
    assert [text[found.start : found.end] for found in finder.find(text)] == ["Ada Lovelace"]
    with pytest.raises(Exception, match="spacy download"):
        list(personal_data.PresidioFinder("no_such_model").find(text))


def test_a_finder_whose_package_is_missing_is_no_silent_no_op(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    monkeypatch.setitem(sys.modules, "spacy", None)
    with engine_for(cloud, finders=("presidio",)) as engine:
        reply = engine.complete("Who is Ann?", redact=True)
        assert reply.decision.degraded_code == "redaction_failed"
        assert install_command("redact") in reply.decision.reason
        assert cloud.connections == 0


def test_a_finder_that_nobody_has_registered_is_a_clear_error(cloud: LoopbackCloud) -> None:
    with pytest.raises(SettingsError, match="no such finder"):
        engine_for(cloud, finders=("nobody",))


def test_an_unknown_kind_is_refused_at_once(cloud: LoopbackCloud) -> None:
    with engine_for(cloud) as engine:
        for options in ({"redact": ["EMIAL"]}, {"private_kinds": ["NAME"]}):
            with pytest.raises(InvalidRequest, match="nothing here finds"):
                engine.complete("Hi", **options)  # type: ignore[call-overload]


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154"
    "789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


@pytest.mark.parametrize("option", ["redact", "private_kinds"])
def test_what_is_too_long_to_be_searched_stays(option: str) -> None:
    """A search holds Python's lock, and with it every other request."""
    kinds: dict[str, Any] = {option: ("CARD",)}
    half = Message("user", "x" * (MOST_SEARCHED // 2))
    assert Redactor().closed(Request(messages=(half, half), redact=())) is None
    assert Redactor().closed(Request(messages=(half,), **kinds)) is None
    shut = Redactor().closed(Request(messages=(half, half, half), **kinds))
    assert shut is not None and shut.code == "not_redactable" and "5,000,000" in str(shut)


@pytest.mark.parametrize("options", [{"redact": ["CARD"]}, {"private_kinds": ["CARD"]}])
def test_a_picture_or_a_sound_cannot_be_looked_into_and_stays(options: dict[str, Any]) -> None:
    kinds: dict[str, Any] = {name: tuple(value) for name, value in options.items()}
    for message in (
        Message("user", "What is it?", images=(Image(PIXEL),)),
        Message("user", audio=(Audio(b"RIFF"),)),
    ):
        shut = Redactor().closed(Request(messages=(message,), **kinds))
        assert shut is not None and shut.code == "not_redactable"
    speech = Request(messages=(Message("user", "a.wav"),), task="transcribe", **kinds)
    shut = Redactor().closed(speech)
    assert shut is not None and shut.code == "not_redactable"


@pytest.mark.parametrize(
    "request_options",
    [
        {"tools": [Tool("pay_4111111111111111_", "Pays.")]},
        {"request_id": MAIL},
        {"response_format": ResponseFormat({"type": "object"}, name=MAIL)},
    ],
)
def test_a_name_that_holds_a_value_keeps_the_request_in(
    cloud: LoopbackCloud, request_options: dict[str, Any]
) -> None:
    with engine_for(cloud) as engine:
        with pytest.raises(CloudClosed) as shut:
            engine.complete("Hi", redact=True, policy="cloud_only", **request_options)
        assert shut.value.code == "not_redactable"
        assert cloud.connections == 0


def test_private_kinds_keep_a_request_on_the_device(cloud: LoopbackCloud) -> None:
    with engine_for(cloud) as engine:
        reply = engine.complete(f"Is {CARD} valid?", private_kinds=["CARD"], redact=True)
        assert (reply.source, reply.decision.degraded_code) == ("local", "private_kind")
        assert "CARD" in reply.decision.reason and CARD not in reply.decision.reason
        with pytest.raises(CloudClosed) as shut:
            engine.complete(f"Is {CARD} valid?", private_kinds=["CARD"], policy="cloud_only")
        assert shut.value.code == "private_kind"
        signal = engine.complete(CARD, private_kinds=["CARD"], handoff="signal")
        assert not signal.signalled, "the application must not send it either"
        assert cloud.connections == 0
        assert engine.complete(f"<<{MAIL}>>", private_kinds=["CARD"]).source == "cloud"


def test_settings_are_a_floor_that_no_request_lowers(
    cloud: LoopbackCloud, wiretap: Wiretap
) -> None:
    with engine_for(cloud, redact=("EMAIL",), private_kinds=("IBAN",)) as engine:
        engine.complete(f"<<{MAIL} {CARD}>>", redact=False)
        assert not wiretap.holds(MAIL) and wiretap.holds(CARD)
        kept = engine.complete("DE89370400440532013000", private_kinds=())
        assert kept.decision.degraded_code == "private_kind"


class Own:
    """A cloud of the user's own: it knows nothing of privacy and keeps whatever it is shown."""

    def __init__(self) -> None:
        self.seen: list[Request] = []

    def closed(self, request: Request) -> CloudClosed | None:
        self.seen.append(request)
        return None

    def stream(
        self, request: Request, journal: list[Attempt], **_: Any
    ) -> Generator[Chunk, None, None]:
        self.seen.append(request)
        journal.append(Attempt(place="cloud", backend="own", model="own-1", outcome="answered"))
        if request.task == "embed":
            yield Vectors(tuple((0.1, 0.2) for _ in request.messages))
        else:
            yield "To [EMAIL_1]"
        yield Finish()

    @property
    def read(self) -> str:
        return "".join(map(repr, self.seen))


def engine_beside(own: Own, **changes: Any) -> Engine:
    return Engine(
        Settings.load(**changes),
        backend=ScriptedBackend.doubtful(DOUBT),
        function_model=ScriptedFunctionModel.doubtful("send to=you"),
        transcriber=ScriptedTranscriber([[heard("perhaps", 0.0, 1.0, chance=0.2)]]),
        embedder=ScriptedEmbedder(),
        cloud=own,
    )


ASKED: dict[str, Callable[[Engine, dict[str, Any]], object]] = {
    "complete": lambda engine, said: engine.complete(f"Mail {MAIL}", **said),
    "stream": lambda engine, said: list(engine.stream(f"Mail {MAIL}", **said)),
    "call": lambda engine, said: engine.call(f"send {MAIL}", [SEND], **said),
    "speculative": lambda engine, said: engine.call(
        f"send {MAIL}", [SEND], speculative=True, **said
    ),
    "embed": lambda engine, said: engine.embed([MAIL], **said),
    "conversation": lambda engine, said: Conversation(engine).ask(f"Mail {MAIL}", **said),
    "async": lambda engine, said: asyncio.run(
        AsyncEngine(
            engine.settings, backend=engine.parts._backend, cloud=engine.parts._cloud
        ).complete(MAIL, **said)
    ),
    "transcribe": lambda engine, said: engine.transcribe(TALK, **said),
}


@pytest.mark.parametrize("policy", ["prefer_local", "prefer_cloud", "cloud_only"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_private_request_never_reaches_a_cloud_of_ones_own(asked: str, policy: str) -> None:
    own = Own()
    with engine_beside(own) as engine:
        refused = pytest.raises(CloudClosed) if policy == "cloud_only" else nullcontext()
        with refused:
            ASKED[asked](engine, {"private": True, "policy": policy})
    assert own.seen == [], "not even when it is asked whether it is open"


@pytest.mark.parametrize("asked", ASKED)
def test_a_cloud_of_ones_own_is_not_shown_what_the_policy_keeps_on_the_device(asked: str) -> None:
    own = Own()
    with engine_beside(own) as engine:
        ASKED[asked](engine, {"policy": "local_only"})
    assert own.seen == []


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_not_private_reaches_a_cloud_of_ones_own(asked: str) -> None:
    own = Own()
    with engine_beside(own) as engine:
        ASKED[asked](engine, {"policy": "cloud_only"})
    assert MAIL in own.read or asked == "transcribe"
    assert own.seen


def test_a_cloud_of_ones_own_gets_no_more_than_ours() -> None:
    own = Own()
    with engine_beside(own) as engine:
        assert engine.complete(f"Mail {MAIL}", redact=True).text == f"To {MAIL}"
        assert own.seen[-1].messages[-1].content == "Mail [EMAIL_1]"
        assert MAIL not in own.read
        own.seen.clear()
        kept = engine.complete(f"Mail {CARD}", private_kinds=["CARD"])
        assert (kept.decision.degraded_code, own.seen) == ("private_kind", [])


def test_an_audit_asks_no_cloud_of_ones_own_about_what_is_private() -> None:
    own = Own()
    with Engine(
        Settings.load(audit_share=1.0), backend=ScriptedBackend.confident("Paris."), cloud=own
    ) as engine:
        engine.complete(MAIL, private=True)
        engine.complete(CARD, private_kinds=["CARD"])
        assert engine.parts.auditor is not None and engine.parts.auditor.wait(60)
        assert own.seen == []
        engine.complete("Open")
        assert engine.parts.auditor.wait(60) and own.seen


@pytest.mark.parametrize(
    "limit",
    [{"budgets": ["$1/day"]}, {"audit_budget": "$1/day"}, {"cloud_every_s": ["30"]}],
    ids=str,
)
def test_limits_that_a_cloud_of_ones_own_would_pass_are_refused(
    limit: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=next(iter(limit))):
        Engine(Settings.load(**limit), cloud=Own())
    ledger = Ledger(tmp_path / "ledger.sqlite3", budgets=[parse_budget("$1/day")])
    with pytest.raises(SettingsError, match="budgets"):
        Engine(Settings.load(), cloud=Own(), ledger=ledger)
    ledger.close()


# -- tools that leave --------------------------------------------------------------------------


class Far:
    """A tool of a server elsewhere, and one of this machine; both keep what they get."""

    def __init__(self) -> None:
        self.got: dict[str, list[Any]] = {"book": [], "note": []}
        parameters = {"type": "object", "properties": {"card": {"type": "string"}}}
        self.tools = [
            RunnableTool(
                name=name,
                description=f"Can {name}.",
                parameters=parameters,
                run=partial(self._keep, name),
                leaves=name == "book",
            )
            for name in self.got
        ]

    def _keep(self, name: str, **arguments: Any) -> str:
        self.got[name].append(arguments)
        return "done"


def book(card: str, tool: str = "book") -> Answer:
    return Answer(text="", tool_calls=(ToolCall(tool, {"card": card}),))


def talk_with(engine: Engine, far: Far, **said: Any) -> Conversation:
    return Conversation(engine, tools=far.tools, policy="cloud_only", redact=True, **said)


@pytest.mark.parametrize("said", [{"private": True}, {"private_kinds": ["CARD"]}], ids=str)
def test_what_may_not_leave_for_a_cloud_may_not_leave_through_a_tool(
    cloud: LoopbackCloud, said: dict[str, Any]
) -> None:
    far = Far()
    model = ScriptedFunctionModel([f'book {{"card": "{CARD}"}}', f'note {{"card": "{CARD}"}}'])
    with engine_for(cloud, function_model=model) as engine:
        asked = engine.parts.request(f"book {CARD}", tools=far.tools, **said)
        assert [tool.name for tool in asked.tools] == ["note"]
        with pytest.raises(InvalidRequest, match="there are no tools"):
            engine.complete(f"book {CARD}", tools=far.tools[:1], tool_choice="required", **said)
        made = ToolCall("book", {"card": CARD}, source="local")
        result = run_call(made, as_toolbox(far.tools), engine.parts.seal(asked))
        assert result.error.startswith("not run: the request")
        Conversation(engine, tools=far.tools, **said).ask(f"book {CARD}")
        engine.call(f"book {CARD}", far.tools, execute=True, **said)
    assert far.got["book"] == [] and cloud.connections == 0


def test_a_kind_in_an_argument_alone_keeps_the_call_from_being_run() -> None:
    request = Request(messages=(Message("user", "Book it"),), private_kinds=("CARD",))
    with pytest.raises(CloudClosed) as shut:
        Redactor().seal_call(request, ToolCall("book", {"card": [CARD]}))
    assert shut.value.code == "private_kind"
    assert Redactor().seal_call(request, ToolCall("book", {"n": 3})).arguments == {"n": 3}


@pytest.mark.parametrize("written", ["[CARD_1]", "no. [CARD_1]!", "x[CARD_1]x"])
def test_a_provider_cannot_have_the_device_send_what_was_redacted(
    cloud: LoopbackCloud, written: str
) -> None:
    far = Far()
    cloud.script(book(written), book(written, "note"), Answer(text="Booked."))
    with engine_for(cloud) as engine:
        talk = talk_with(engine, far)
        assert talk.ask(f"Book with {CARD}").text == "Booked."
    assert far.got["book"] == [{"card": written}]
    assert far.got["note"] == [{"card": written.replace("[CARD_1]", CARD)}]


def test_a_call_that_a_provider_hides_in_words_or_a_near_name_leaks_nothing(
    cloud: LoopbackCloud,
) -> None:
    far = Far()
    said = '{"name": "book", "arguments": {"card": "[CARD_1]"}}'
    for answer in (
        Answer(text=said),
        Answer(text=f"```json\n{said}\n```"),
        book("[CARD_1]", "Book"),
    ):
        cloud.always(answer)
        with engine_for(cloud) as engine:
            engine.call(
                f"Book with {CARD}", far.tools, execute=True, redact=True, policy="cloud_only"
            )
            talk_with(engine, far, max_steps=2).ask(f"Book with {CARD}")
    assert far.got["book"], "the call was run"
    assert CARD not in str(far.got["book"])


def test_a_call_of_the_device_leaves_as_a_placeholder_too(cloud: LoopbackCloud) -> None:
    far = Far()
    model = ScriptedFunctionModel([f'book {{"card": "{CARD}"}}'])
    with engine_for(cloud, function_model=model) as engine:
        reply = engine.call(
            f"book with {CARD}", far.tools, execute=True, redact=True, policy="local_only"
        )
    assert reply.calls[0].arguments == {"card": CARD}
    assert far.got["book"] == [{"card": "[CARD_1]"}]
    assert reply.results[0].call.arguments == {"card": "[CARD_1]"}, "what left, and no more"


def test_a_name_that_somebody_hid_inside_of_a_word_keeps_the_call_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Names:
        kinds = ("NAME",)

        def find(self, text: str) -> Iterable[Found]:
            return [Found(place, place + 3, "NAME") for place in [text.find("Ann ")] if place >= 0]

    redactor = Redactor((Names(),))
    request = Request(messages=(Message("user", "Ann said"),), redact=("NAME",))
    assert redactor.seal_call(request, ToolCall("book", {"a": "by Ann"})).arguments == {
        "a": "by [NAME_1]"
    }
    with pytest.raises(CloudClosed, match="holds what is redacted"):
        redactor.seal_call(request, ToolCall("book", {"a": "xAnnx"}))


def test_a_call_that_leaves_is_not_run_where_nobody_knows_its_request() -> None:
    far = Far()
    result = run_call(ToolCall("book", {"card": "1"}), as_toolbox(far.tools))
    assert result.error.startswith("not run:") and far.got["book"] == []


def test_errors_of_a_provider_tell_nothing(cloud: LoopbackCloud) -> None:
    cloud.always(lambda seen: Status(400, message=f"bad: {json.dumps(seen.body)}"))
    with engine_for(cloud) as engine:
        reply = engine.complete(f"Mail {MAIL}", redact=True)
        assert reply.source == "local"
        assert MAIL not in f"{reply.decision.reason} {reply.attempts}"


# -- the promise -------------------------------------------------------------------------------

FILLER = st.text(
    st.characters(codec="utf-8", exclude_characters="<>[]", exclude_categories=["Cs", "Cc"]),
    max_size=20,
)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_planted_value_reaches_the_socket_and_all_come_back(
    cloud: LoopbackCloud, wiretap: Wiretap, provider: str, data: st.DataObject
) -> None:
    def text() -> tuple[str, list[str]]:
        planted = data.draw(st.lists(PLANTED, min_size=1, max_size=3))
        pieces = [data.draw(FILLER)]
        for _, value in planted:
            pieces += [f" , {value} ; ", data.draw(FILLER)]
        return "".join(pieces), [value for _, value in planted]

    asked, values = text()
    result, more = text()
    system, others = text()
    size = data.draw(st.integers(1, 9))
    cloud.always(lambda seen: echo(seen, chunk_size=size))
    history = [
        Message("system", system),
        Message("user", "First."),
        Message("assistant", tool_calls=(ToolCall("note", {"all": [*more]}, id="a"),)),
        Message("tool", result, tool_call_id="a"),
        Message("user", f"<<{asked}>>"),
    ]
    wiretap.read_bytes = b""
    with engine_for(cloud, provider) as engine:
        tools = [Tool("note", "Notes values.")]
        stream = engine.stream(history, tools=tools, redact=True, policy="cloud_only")
        events = list(stream)
        assert "".join(each.text for each in events if isinstance(each, TextDelta)) == asked
        assert isinstance(events[-1], Finished)
        (call,) = events[-1].reply.tool_calls
        assert set(values) <= {value for text in call.arguments["values"] for value in values
                               if value in str(text)}  # fmt: skip
    for value in (*values, *more, *others):
        assert not wiretap.holds(value), value


def test_vectors_pass_through_unopened() -> None:
    sealed = seal(MAIL)
    vectors = Vectors(((1.0,),))
    assert list(sealed.open(chunked([vectors, Finish()]))) == [vectors, Finish()]
