from __future__ import annotations

import random
import resource
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from edgewise import Engine, Settings, tasks
from edgewise.errors import (
    CloudClosed,
    CloudError,
    CloudFailed,
    DeviceBusy,
    DoesNotFit,
    GenerationFailed,
    InvalidRequest,
    LocalError,
    ModelNotFound,
)
from edgewise.flows import listen as flow
from edgewise.flows.listen import LiveTranscriber
from edgewise.flows.transcribe import Corrected as Answered
from edgewise.flows.transcribe import spread_words
from edgewise.local.backend import DeviceFacts
from edgewise.local.store import InstalledModel
from edgewise.settings import ProviderSettings
from edgewise.speech import audio
from edgewise.testing import Answer, LoopbackCloud, ScriptedTranscriber, Silence, Status, heard
from edgewise.types.transcripts import Heard, LiveUpdate, Transcript
from tests.flows.hearing_clouds import HearingCloud
from tests.flows.live_sound import (
    LevelTranscriber,
    LoudnessActivity,
    Samples,
    pause,
    said_in,
    spoken,
)
from tests.recordings import sound_of
from tests.speech.made_voice import noise, silence, voice

# Three utterances: sure, in doubt, sure.
TALK = numpy.concatenate(
    [pause(0.5), spoken(101, 102, 103), pause(), spoken(501, 502), pause(), spoken(104, 105)]
)
PIECE = 1600

Make = Callable[..., Engine]


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    opened: list[Engine] = []

    def engine(cloud: Any = None, transcriber: Any = None, **changes: Any) -> Engine:
        made = Engine(
            Settings.load(data_dir=tmp_path / f"data{len(opened)}", **changes),
            transcriber=transcriber or LevelTranscriber(),
            cloud=cloud if cloud is not None else HearingCloud(),
        )
        opened.append(made)
        return made

    yield engine
    for each in opened:
        each.close()


def over_http(server: LoopbackCloud, tmp_path: Path, **changes: Any) -> Engine:
    """An engine whose cloud is real HTTP to a server that transcribes."""
    row = ProviderSettings(
        protocol="openai", base_url=server.openai_url, speech_model="gpt-transcribe"
    )
    environment = {"OPENAI_API_KEY": "k"}
    found = Settings.load(environment, data_dir=tmp_path / "data", providers={"openai": row},
                          chain=("openai",), **changes)  # fmt: skip
    return Engine(found, transcriber=LevelTranscriber())


def feed(live: LiveTranscriber, sound: Samples, piece: int = PIECE) -> list[LiveUpdate]:
    return [live.process(sound[start : start + piece]) for start in range(0, len(sound), piece)]


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up, "it never came to pass"
        time.sleep(0.005)


class Reader:
    """A reader of the updates who believes only what they announce."""

    def __init__(self) -> None:
        self.segments: dict[int, str] = {}
        self.confirmed = ""

    def read(self, update: LiveUpdate) -> None:
        for segment in update.new_segments:
            assert segment.id == len(self.segments), "segments end in order, each once"
            self.segments[segment.id] = segment.text
        for each in update.corrections:
            assert self.segments[each.segment_id] == each.replaced
            if each.cloud_result is not None:
                self.segments[each.segment_id] = each.cloud_result
        ended = " ".join(text for text in self.segments.values() if text)
        assert update.confirmed.startswith(ended)
        if not any(each.cloud_result is not None for each in update.corrections):
            assert update.confirmed.startswith(self.confirmed), "only corrections take words back"
        self.confirmed = update.confirmed


def test_words_are_pending_then_confirmed_and_segments_end_at_pauses(make: Make) -> None:
    with make().listen(policy="local_only") as live:
        updates = feed(live, numpy.concatenate([spoken(*range(101, 110)), pause()]))
        transcript = live.stop()
    assert any(update.pending for update in updates)
    early = next(update for update in updates if update.new_words)
    assert early.seconds < 3.0 and early.confirmed.startswith("w101")
    assert not any("uh" in update.confirmed for update in updates), "half a word is never settled"
    assert transcript.text == " ".join(f"w{n}" for n in range(101, 110))
    (segment,) = transcript.segments
    assert [word.text for word in segment.words] == transcript.text.split()
    assert segment.words[3].start == pytest.approx(1.0, abs=0.05)
    assert transcript.seconds == pytest.approx(4.0, abs=0.01)


def test_the_words_are_in_the_ledger_only_where_that_was_asked_for(make: Make) -> None:
    for store_text in (False, True):
        engine = make()
        with engine.listen(store_text=store_text, policy="local_only", step_s=0.5) as live:
            feed(live, TALK)
            transcript = live.stop()
        row = engine.ledger.get(transcript.id)
        assert row is not None and ("w101" in str(row)) == store_text
        assert ("live sound" in str(row)) == store_text


def test_only_the_segment_in_doubt_is_corrected_and_captions_never_wait(make: Make) -> None:
    cloud = HearingCloud({1: "W501 W502"}, late=frozenset({1}))
    reader = Reader()
    with make(cloud).listen() as live:
        for update in feed(live, TALK):
            reader.read(update)  # the cloud has not answered, and everything goes on
        assert update.confirmed.startswith("w101 w102 w103 w501 w502") and update.outstanding == 1
        cloud.release()
        wait_for(lambda: live._corrections.outstanding == 0)
        update = live.process(b"")
        reader.read(update)
        (correction,) = update.corrections
        transcript = live.stop()
    assert (correction.segment_id, correction.cloud_result) == (1, "W501 W502")
    assert (correction.replaced, correction.error) == ("w501 w502", "")
    assert transcript.text == "w101 w102 w103 W501 W502 w104 w105"
    assert [each.source for each in transcript.segments] == ["local", "cloud", "local"]
    assert transcript.decision.code == "handoff_low_confidence" and not transcript.degraded
    assert cloud.segments == [1]


def test_stop_waits_for_what_is_outstanding_and_puts_it_in_its_place(make: Make) -> None:
    cloud = HearingCloud({1: "W501 W502"}, late=frozenset({1}))
    with make(cloud).listen() as live:
        feed(live, TALK)
        threading.Timer(0.2, cloud.release).start()
        assert live.stop().text == "w101 w102 w103 W501 W502 w104 w105"
        (correction,) = live.last_update.corrections
    assert correction.segment_id == 1


def test_a_cloud_that_is_too_late_is_reported_and_the_devices_words_stand(make: Make) -> None:
    engine = make(HearingCloud(late=frozenset({1})))  # never released: late by ever so much
    with engine.listen() as live:
        feed(live, TALK)
        transcript = live.stop(0.1)
    (correction,) = live.last_update.corrections
    assert (correction.error, correction.cloud_result) == ("correction_late", None)
    assert transcript.text == "w101 w102 w103 w501 w502 w104 w105"
    assert transcript.segments[1].error == "correction_late"
    assert transcript.degraded and transcript.decision.degraded_code == "correction_late"
    assert transcript.decision.code == "fallback_local"


def test_a_failing_cloud_leaves_the_devices_words_and_says_why(make: Make) -> None:
    with make(HearingCloud(otherwise=CloudFailed("500"))).listen() as live:
        feed(live, TALK)
        transcript = live.stop()
    assert transcript.segments[1].error == "cloud_server_error"
    assert transcript.decision.degraded_code == "cloud_server_error"
    assert transcript.text == "w101 w102 w103 w501 w502 w104 w105"


@pytest.mark.parametrize(
    ("options", "shut", "code"),
    [
        ({"private": True}, None, "private"),
        ({}, CloudClosed("no key", code="no_key"), "no_key"),
        ({}, CloudClosed("spent", code="budget_spent"), "budget_spent"),
    ],
)
def test_a_closed_cloud_is_not_asked(
    make: Make, options: dict[str, Any], shut: CloudClosed | None, code: str
) -> None:
    cloud = HearingCloud(shut=shut)
    with make(cloud).listen(**options) as live:
        feed(live, TALK)
        transcript = live.stop()
    assert not cloud.asked
    assert transcript.decision.code == "kept_in_doubt"
    assert transcript.decision.degraded_code == code
    assert transcript.segments[1].error == code and transcript.needs_cloud_handoff


def test_a_cloud_that_opens_again_on_the_way_is_asked_from_then_on(make: Make) -> None:
    cloud = HearingCloud({1: "W502"}, shut=CloudClosed("moments ago", code="breaker_open"))
    with make(cloud).listen() as live:
        feed(live, numpy.concatenate([spoken(501), pause()]))
        cloud.shut = None
        feed(live, numpy.concatenate([spoken(502), pause()]))
        transcript = live.stop()
    assert [each.text for each in transcript.segments] == ["w501", "W502"]
    assert [each.error for each in transcript.segments] == ["breaker_open", ""]


def test_policies_and_signals(make: Make) -> None:
    def heard_with(cloud: HearingCloud, **options: Any) -> Transcript:
        with make(cloud).listen(**options) as live:
            feed(live, TALK)
            return live.stop()

    cloud = HearingCloud()
    result = heard_with(cloud, policy="local_only")
    assert (result.decision.code, result.source, cloud.asked) == ("policy_local_only", "local", [])
    result = heard_with(cloud, handoff="signal")
    assert (result.decision.code, cloud.asked) == ("signalled_low_confidence", [])
    assert result.needs_cloud_handoff and result.cloud_handoff
    result = heard_with(cloud, policy="prefer_cloud")
    assert (result.source, cloud.segments) == ("cloud", [0, 1, 2])
    assert heard_with(HearingCloud(), threshold=0.0).source == "local"
    with pytest.raises(InvalidRequest, match="cloud_only"):
        heard_with(cloud, policy="cloud_only")


def test_a_full_queue_refuses_what_comes_next_and_blocks_nobody(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "MOST_OUTSTANDING", 2)
    cloud = HearingCloud(late=frozenset(range(9)))
    with make(cloud).listen() as live:
        feed(
            live,
            numpy.concatenate([each for n in range(501, 505) for each in (spoken(n), pause())]),
        )
        assert live._corrections.outstanding == 2
        cloud.release()
        transcript = live.stop()
    assert [each.error for each in transcript.segments] == ["", "", "queue_full", "queue_full"]


def test_a_segment_without_speech_for_the_cloud_is_removed(make: Make) -> None:
    with make(HearingCloud({1: ""})).listen() as live:
        feed(live, TALK)
        transcript = live.stop()
    assert transcript.text == "w101 w102 w103 w104 w105"
    assert [each.replaced for each in transcript.dropped] == ["w501 w502"]


def test_a_second_answer_to_the_same_segment_changes_nothing(make: Make) -> None:
    with make(HearingCloud({1: "W501 W502"})).listen() as live:
        updates = feed(live, TALK)
        wait_for(lambda: live._corrections.outstanding == 0)
        updates.append(live.process(b""))  # whichever of them it came with
        assert sum(len(update.corrections) for update in updates) == 1
        live._take([Answered(1, "something else"), Answered(77, "nobody's"),
                    Answered(1, error=CloudError("late"))])  # fmt: skip
        assert live.process(b"").corrections == ()
        assert live.stop().text == "w101 w102 w103 W501 W502 w104 w105"


def test_a_cloud_in_a_loop_is_not_believed(make: Make) -> None:
    with make(HearingCloud({1: "thank you " * 40})).listen() as live:
        feed(live, TALK)
        transcript = live.stop()
    assert transcript.segments[1].error == "cloud_malformed"
    assert transcript.segments[1].text == "w501 w502"


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(0, 9_000), max_size=30), whole=st.booleans())
def test_how_the_sound_is_cut_into_chunks_does_not_matter(
    make: Make, cuts: list[int], whole: bool
) -> None:
    def run(sizes: list[int]) -> tuple[Any, ...]:
        transcriber, reader = LevelTranscriber(), Reader()
        data = (TALK * 32768).astype("<i2").tobytes() if whole else None
        with make(transcriber=transcriber).listen() as live:
            start = 0
            for size in [*sizes, len(TALK) * 2]:
                part = data or TALK
                reader.read(live.process(part[start : start + size]))
                start += size
            result = live.stop()
        shape = [(each.id, each.start, each.end, each.text, each.words) for each in result.segments]
        return shape, result.text, result.seconds, transcriber.listened

    assert run(cuts) == run([])


@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_every_correction_finds_its_own_segment_whatever_the_order(
    make: Make, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, 5))
    order = data.draw(st.permutations(range(count)))
    gone = data.draw(st.sets(st.integers(0, count - 1)))
    sound = [spoken(500 + n, 600 + n) for n in range(count)]
    reader = Reader()
    with make(HearingCloud(late=frozenset(range(count)))).listen() as live:
        for each in sound:
            for update in feed(live, numpy.concatenate([each, pause()])):
                reader.read(update)
        for number in order:  # as they would come from the cloud, twice each
            error = CloudFailed("500") if number in gone else None
            answer = Answered(number, f"W{500 + number} W{600 + number}", error)
            live._take([answer, answer])
            reader.read(live.process(b""))
        result = live.stop(0.0)
    for segment in result.segments:
        case = "w" if segment.id in gone else "W"
        assert segment.text == f"{case}{500 + segment.id} {case}{600 + segment.id}"
    assert reader.confirmed == result.text


def test_silence_noise_and_nothing_are_no_words(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # real voice activity
    hum = 0.2 * numpy.sin(2 * numpy.pi * 220 * numpy.arange(8 * 16_000) / 16_000)
    transcriber = ScriptedTranscriber([[heard("Thanks for watching!", 0.0, 1.0)]])
    for sound in (silence(8.0), noise(8.0), hum.astype("float32"), silence(0.0)):
        with make(transcriber=transcriber).listen() as live:
            for update in feed(live, sound):
                assert (update.confirmed, update.pending, update.new_segments) == ("", "", ())
            assert live.process(numpy.zeros(0, "float32")) == LiveUpdate(
                seconds=live.last_update.seconds
            )
            result = live.stop()
        assert (result.text, result.segments, result.confidence) == ("", (), None)
    assert not transcriber.listened


def test_a_made_voice_is_heard_and_words_after_it_are_not_believed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    hello = heard("hello there", 0.3, 0.9)
    transcriber = ScriptedTranscriber(
        [[hello], [hello], [hello, heard("Thanks for watching!", 2.1, 2.4)]]
    )
    with make(transcriber=transcriber).listen(policy="local_only") as live:
        feed(live, numpy.concatenate([voice(2.0), silence(2.0)]))
        result = live.stop()
    assert len(transcriber.listened) >= 3 and result.text == "hello there"
    assert [each.text for each in result.dropped] == ["Thanks for watching!"]


def test_speech_without_a_pause_is_cut_and_no_word_is_lost_or_said_twice(make: Make) -> None:
    transcriber = LevelTranscriber()
    with make(transcriber=transcriber).listen(policy="local_only") as live:
        reader = Reader()
        for update in feed(live, spoken(*range(101, 201))):  # 33 s in one breath
            reader.read(update)
        result = live.stop()
    assert len(result.segments) >= 3
    assert max(transcriber.listened) <= 16_000 * 13
    assert result.text.split() == [f"w{n}" for n in range(101, 201)]


class UntimedTranscriber(LevelTranscriber):
    """Knows no times of words: they share the stretch by their length, as Moonshine's do."""

    @override
    def facts(self) -> DeviceFacts:
        return replace(super().facts(), word_times=False)

    @override
    def hear(self, samples: Samples, **options: Any) -> list[Heard]:
        end = len(samples) / 16_000
        return [
            replace(one, start=0.0, end=end, words=spread_words(one.text, 0.0, end))
            for one in super().hear(samples, **options)
        ]


@pytest.mark.parametrize("seed", [2, 4])
def test_no_word_is_said_twice_where_a_long_breath_is_cut(make: Make, seed: int) -> None:
    chance = random.Random(seed)
    numbers = [chance.choice([chance.randint(11, 99), chance.randint(100, 480)]) for _ in range(80)]
    sound: list[Samples] = []
    at = 0
    while at < len(numbers):  # breaths of different lengths; names of different lengths
        count = chance.randint(1, 6)
        sound += [spoken(*numbers[at : at + count]), pause(chance.choice([0.1, 0.2, 0.4]))]
        at += count
    with make(transcriber=UntimedTranscriber()).listen(policy="local_only") as live:
        reader = Reader()
        for update in feed(live, numpy.concatenate(sound)):
            reader.read(update)
        result = live.stop()
        reader.read(live.last_update)
    assert len(result.segments) >= 3
    assert result.text.split() == [f"w{number}" for number in numbers]
    assert reader.confirmed == result.text


def test_somebody_who_hurries_gets_whole_utterances_only(make: Make) -> None:
    transcriber = LevelTranscriber()
    with make(transcriber=transcriber).listen(policy="local_only") as live:
        sound = numpy.concatenate([spoken(*range(101, 110)), pause()])
        updates = [
            live.process(sound[at : at + PIECE], hurry=True) for at in range(0, len(sound), PIECE)
        ]
        assert live.stop().text == " ".join(f"w{n}" for n in range(101, 110))
    assert len(transcriber.listened) == 1 and not any(update.pending for update in updates)


class SlowTranscriber(LevelTranscriber):
    """Takes `slow` seconds of a clock of its own for each pass."""

    def __init__(self, slow: float) -> None:
        super().__init__()
        self.slow, self.now = slow, 0.0

    def perf_counter(self) -> float:
        return self.now

    @override
    def hear(self, samples: Samples, **options: Any) -> list[Heard]:
        self.now += self.slow
        return super().hear(samples, **options)


@pytest.mark.parametrize(("slow", "passes"), [(0.2, 8), (3.0, 4)])
def test_who_falls_behind_skips_hypotheses_by_itself(
    make: Make, monkeypatch: pytest.MonkeyPatch, slow: float, passes: int
) -> None:
    transcriber = SlowTranscriber(slow)
    monkeypatch.setattr(tasks, "time", transcriber)
    with make(transcriber=transcriber).listen(policy="local_only") as live:
        feed(live, numpy.concatenate([spoken(*range(101, 125)), pause()]))  # 8 s
        assert live.stop().text == " ".join(f"w{n}" for n in range(101, 125))
    assert len(transcriber.listened) == passes


def test_a_pause_between_two_chunks_is_no_delay(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber = SlowTranscriber(0.2)
    monkeypatch.setattr(tasks, "time", transcriber)
    with make(transcriber=transcriber).listen(policy="local_only") as live:
        feed(live, spoken(*range(101, 107)))
        transcriber.now += 60.0
        before = len(transcriber.listened)
        feed(live, spoken(*range(107, 113)))
        assert len(transcriber.listened) > before


@pytest.mark.parametrize(
    ("error", "code"), [(GenerationFailed, "generation_failed"), (DeviceBusy, "device_busy")]
)
def test_a_runtime_that_breaks_off_costs_one_utterance_at_most(
    make: Make, error: type[LocalError], code: str
) -> None:
    cloud = HearingCloud({0: "W101"})
    with make(cloud, LevelTranscriber(fails=[0], error=error)).listen() as live:
        updates = feed(live, numpy.concatenate([spoken(101), pause(), spoken(102), pause()]))
        result = live.stop()
    assert code in {update.error for update in updates}
    assert result.text == "W101 w102"
    assert result.segments[0].codes == (code,)
    busy = LevelTranscriber(fails=[0], error=error)
    with make(transcriber=busy).listen(policy="local_only") as live:
        feed(live, numpy.concatenate([spoken(101), pause(), spoken(102), pause()]))
        assert live.stop().text == "w102"


def test_two_streams_at_once_keep_to_themselves(make: Make, tmp_path: Path) -> None:
    results: dict[int, Transcript] = {}
    with LoopbackCloud() as server:
        server.always(lambda seen: Answer(text=said_in(seen.audio), delay_first_s=0.05))
        with over_http(server, tmp_path) as engine:

            def run(first: int) -> None:
                with engine.listen() as live:
                    for n in range(first, first + 4):
                        feed(live, numpy.concatenate([spoken(n, n + 100), pause()]))
                    results[first] = live.stop(20.0)

            threads = [threading.Thread(target=run, args=(first,)) for first in (500, 700)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            recorded = engine.ledger.recent()
    for first, result in results.items():
        assert [each.text for each in result.segments] == [
            f"W{n} W{n + 100}" for n in range(first, first + 4)
        ]
    assert len(recorded) == 2


def test_each_answer_is_that_of_its_own_sound_and_one_request_is_recorded(tmp_path: Path) -> None:
    delays = {f"W{500 + n}": 0.3 - 0.06 * n for n in range(5)}  # the first comes last

    with LoopbackCloud() as server:
        server.always(
            lambda seen: Answer(
                text=said_in(seen.audio), delay_first_s=delays.get(said_in(seen.audio), 0.0)
            )
        )
        with over_http(server, tmp_path) as engine:
            with engine.listen() as live:
                reader = Reader()
                for n in range(5):
                    for update in feed(live, numpy.concatenate([spoken(500 + n), pause()])):
                        reader.read(update)
                    if n == 0:
                        wait_for(lambda: live._corrections.outstanding == 0)
                        paid = engine.ledger.report().spent_microdollars
                result = live.stop(20.0)
            reader.read(live.last_update)
            row = engine.ledger.get(result.id)
    assert paid > 0, "what was spent is in the ledger before the end"
    assert [each.text for each in result.segments] == [f"W{500 + n}" for n in range(5)]
    assert reader.confirmed == result.text
    assert row is not None
    places = [attempt["place"] for attempt in row["attempts"]]
    assert sorted(places) == ["cloud"] * 5 + ["local"]
    assert result.usage.cost_microdollars > 0


@pytest.mark.parametrize("fault", [Silence(), Status(500)])
def test_a_cloud_that_is_gone_at_the_end_is_reported_within_the_limit(
    tmp_path: Path, fault: Any
) -> None:
    with LoopbackCloud() as server:
        server.always(fault)
        with over_http(server, tmp_path, first_token_s=30.0) as engine:
            with engine.listen() as live:
                feed(live, TALK)
                result = live.stop(0.3)
            row = engine.ledger.get(result.id)
    assert result.text == "w101 w102 w103 w501 w502 w104 w105"
    assert result.segments[1].error in ("correction_late", "cloud_server_error")
    assert row is not None
    assert {attempt["state"] for attempt in row["attempts"]} == {"settled"}


def test_a_budget_that_is_spent_stops_the_corrections_and_not_the_captions(tmp_path: Path) -> None:
    with LoopbackCloud() as server:
        server.always(lambda seen: said_in(seen.audio))
        with (
            over_http(server, tmp_path, budgets="$0.000001/day") as engine,
            engine.listen() as live,
        ):
            feed(live, TALK)
            result = live.stop(20.0)
        assert not server.requests
    assert result.decision.degraded_code == "budget_spent"
    assert result.segments[1].error == "budget_spent"


def test_three_hours_take_no_more_memory_than_minutes(make: Make) -> None:
    """Sound alone would be 690 MB; text is kept, and may be a few."""
    minute = numpy.concatenate([spoken(101, 102, 501), pause(59.0)])
    transcriber = LevelTranscriber()
    with make(HearingCloud(otherwise="W"), transcriber).listen() as live:
        feed(live, numpy.tile(minute, 10), 16_000 * 10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(18):
            feed(live, numpy.tile(minute, 10), 16_000 * 10)
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        result = live.stop()
    assert result.seconds == pytest.approx(190 * 60, rel=0.01)
    assert len(result.segments) == 190 and max(transcriber.listened) < 3 * 16_000
    assert grown_kb < 60_000


def test_leaving_in_the_middle_records_what_was_heard_and_breaks_off_the_rest(make: Make) -> None:
    engine = make(HearingCloud(late=frozenset({1})))
    with pytest.raises(KeyboardInterrupt), engine.listen() as live:
        feed(live, TALK)
        raise KeyboardInterrupt
    assert engine.ledger.get(live._request.id) is not None
    with pytest.raises(InvalidRequest):
        live.process(b"")


def test_an_engine_that_closes_ends_its_captions(make: Make) -> None:
    engine = make(HearingCloud(late=frozenset({1})))
    live = engine.listen().start()
    feed(live, TALK)
    engine.close()
    assert live.stop().text.startswith("w101")


def test_what_is_out_of_order_is_refused(make: Make) -> None:
    live = make().listen()
    for wrong in (lambda: live.process(b""), live.stop):
        with pytest.raises(InvalidRequest, match="start it first"):
            wrong()
    live.close()
    live.start()
    with pytest.raises(InvalidRequest, match="before"):
        live.start()
    assert live.stop() is live.stop()


def test_what_the_device_cannot_transcribe_is_refused_at_the_start(
    make: Make, tmp_path: Path
) -> None:
    facts = DeviceFacts(
        backend="scripted", model="m", quantisation="none", context_tokens=1, languages=("en",)
    )
    with pytest.raises(DoesNotFit, match="knows en"):
        make(transcriber=ScriptedTranscriber([[]], facts=facts)).listen(language="de").start()
    with pytest.raises(InvalidRequest, match="step_s"):
        make().listen(step_s=0.0)
    deaf = Settings.load(data_dir=tmp_path, cache_dir=tmp_path, fetch_default_model=False)
    with Engine(deaf, cloud=HearingCloud()) as engine, pytest.raises(ModelNotFound):
        engine.listen().start()


@pytest.mark.real_model
def test_the_real_model_captions_somebody_who_speaks(
    default_transcriber: InstalledModel,
    beckett: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cloud is real HTTP; it is asked if the model is in doubt."""
    monkeypatch.undo()
    with LoopbackCloud() as server:
        server.always(lambda seen: Answer(text="said better"))
        with over_http(
            server, tmp_path, threads=1, speech_model=default_transcriber.name
        ) as engine:
            engine.parts._transcriber = None  # the settings' own
            with engine.listen(language="en") as live:
                reader = Reader()
                updates = feed(live, sound_of(beckett), 4_800)
                for update in updates:
                    reader.read(update)
                result = live.stop(20.0)
            reader.read(live.last_update)
    said = "".join(each.replaced or each.text for each in result.segments).casefold()
    assert "tried" in said and "no matter" in said and "better" in said
    assert len(result.segments) >= 3 and any(update.pending for update in updates)
    assert all(0 < (each.confidence or 0) < 1 for each in result.segments)
    assert reader.confirmed == result.text
