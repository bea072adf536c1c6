from __future__ import annotations

import io
import itertools
import threading
import wave
from dataclasses import replace
from typing import Any

import numpy
import pytest
from typing_extensions import override

from edgewise import plugins
from edgewise.errors import (
    CloudClosed,
    CloudError,
    CloudFailed,
    CloudTimeout,
    DoesNotFit,
    GenerationFailed,
    InvalidRequest,
    ModelNotFound,
)
from edgewise.flows.transcribe import MOST_OUTSTANDING, TranscribeNeeds, transcribe
from edgewise.local.backend import DeviceFacts, SpeechBackend
from edgewise.speech.words import SPEECH
from edgewise.testing import ScriptedTranscriber, heard
from edgewise.testing.scripted import SCRIPTED_TRANSCRIBER_FACTS
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt
from edgewise.types.transcripts import Heard, Segment, Transcript
from tests.flows.hearing_clouds import HearingCloud
from tests.speech.made_voice import Samples, noise, silence, stereo, voice, wav

SURE, UNSURE = 0.97, 0.15
TWO = [heard("the first part", 0.2, 2.0, SURE), heard("mumble mumble", 2.6, 4.4, UNSURE)]
TALK = wav(silence(0.5), voice(5.0), silence(0.5))


def run(
    transcriber: SpeechBackend | Exception,
    cloud: HearingCloud,
    audio: bytes = TALK,
    *,
    attempts: list[Attempt] | None = None,
    progress: list[tuple[float, float]] | None = None,
    settled: list[Segment] | None = None,
    split: bool = False,
    **options: Any,
) -> Transcript:
    request = Request(messages=(Message("user", "a file"),), task="transcribe", **options)

    def open_transcriber() -> SpeechBackend:
        if isinstance(transcriber, Exception):
            raise transcriber
        return transcriber

    ticks = itertools.count()
    parts = TranscribeNeeds(
        transcriber=open_transcriber,
        cloud=cloud,
        policy=plugins.load("policies", request.policy),
        calibration=lambda _: SPEECH.uncalibrated,
        clock=lambda: float(next(ticks)),
        progress=lambda done, total: (progress if progress is not None else []).append(
            (done, total)
        ),
        settled=(settled if settled is not None else []).append,
    )
    found = attempts if attempts is not None else []
    return transcribe(request, audio, parts, found, split=split)


def seconds_of(data: bytes) -> float:
    with wave.open(io.BytesIO(data)) as file:
        return float(file.getnframes() / file.getframerate())


def test_only_the_segment_in_doubt_goes_to_the_cloud_and_comes_back_into_its_place() -> None:
    cloud = HearingCloud({1: "the second part"})
    result = run(ScriptedTranscriber([TWO]), cloud)
    assert cloud.segments == [1]
    assert result.text == "the first part the second part"
    assert [segment.source for segment in result.segments] == ["local", "cloud"]
    assert (result.segments[1].replaced, result.segments[0].replaced) == ("mumble mumble", None)
    assert result.source == "mixed" and result.cloud_handoff and not result.degraded
    assert result.decision.code == "handoff_low_confidence"
    assert not result.needs_cloud_handoff


def test_times_stay_and_the_clouds_words_share_them() -> None:
    result = run(ScriptedTranscriber([TWO]), HearingCloud({1: "a longer second part"}))
    before, after = TWO[1], result.segments[1]
    assert after.end - after.start == pytest.approx(before.end - before.start)
    assert [word.text for word in after.words] == ["a", "longer", "second", "part"]
    assert after.words[0].start == pytest.approx(after.start)
    assert after.words[-1].end == pytest.approx(after.end)
    assert all(word.probability is None for word in after.words)
    assert all(one.end <= two.start + 1e-6 for one, two in itertools.pairwise(after.words))


def test_a_little_sound_around_the_segment_is_sent_but_not_the_neighbours_words() -> None:
    close = [heard("sure words here", 0.2, 2.5, SURE), heard("mumble", 2.6, 3.6, UNSURE)]
    cloud = HearingCloud()
    run(ScriptedTranscriber([close]), cloud)
    (audio,) = cloud.asked[0].messages[0].audio
    # Half of the 0.1 s before it; after it nobody speaks, and 0.4 s is as much as is ever sent.
    assert audio.media_type == "audio/wav"
    assert seconds_of(audio.data) == pytest.approx(1.0 + 0.05 + 0.4, abs=0.02)
    assert audio.seconds == pytest.approx(seconds_of(audio.data), abs=0.001)
    assert cloud.asked[0].messages[0].content == "sure words here"


def test_a_sure_device_asks_nobody() -> None:
    cloud = HearingCloud()
    result = run(ScriptedTranscriber([TWO[:1]]), cloud)
    assert not cloud.asked
    assert (result.decision.code, result.source) == ("kept_confident", "local")
    assert result.confidence is not None and 0.5 < result.confidence < 1.0


def test_a_threshold_of_zero_never_hands_off_and_one_of_one_always_does() -> None:
    cloud = HearingCloud()
    assert run(ScriptedTranscriber([TWO]), cloud, threshold=0.0).source == "local"
    assert not cloud.asked
    assert run(ScriptedTranscriber([TWO]), cloud, threshold=1.0).source == "cloud"
    assert cloud.segments == [0, 1]


@pytest.mark.parametrize(
    ("options", "shut", "code"),
    [
        ({"private": True}, None, "private"),
        ({}, CloudClosed("no key", code="no_key"), "no_key"),
        ({}, CloudClosed("spent", code="budget_spent"), "budget_spent"),
    ],
)
def test_a_closed_cloud_leaves_the_devices_words_and_says_why(
    options: dict[str, Any], shut: CloudClosed | None, code: str
) -> None:
    cloud = HearingCloud(shut=shut)
    result = run(ScriptedTranscriber([TWO]), cloud, **options)
    assert not cloud.asked
    assert result.text == "the first part mumble mumble"
    assert result.decision.code == "kept_in_doubt"
    assert result.degraded and result.decision.degraded_code == code
    assert result.needs_cloud_handoff


def test_a_failing_cloud_leaves_the_devices_words_and_the_segment_says_why() -> None:
    cloud = HearingCloud(otherwise=CloudFailed("500"))
    attempts: list[Attempt] = []
    result = run(ScriptedTranscriber([TWO]), cloud, attempts=attempts)
    assert result.text == "the first part mumble mumble"
    assert result.segments[1].error == "cloud_server_error"
    assert result.segments[1].source == "local"
    assert (result.decision.code, result.decision.degraded_code) == (
        "fallback_local",
        "cloud_server_error",
    )
    assert [attempt.outcome for attempt in attempts] == ["answered", "cloud_server_error"]


def test_one_failure_among_many_degrades_the_whole_and_spoils_no_other() -> None:
    four = [heard(f"mumble number {n}", n + 0.1, n + 0.9, UNSURE) for n in range(4)]
    answers: dict[int, str | CloudError] = {n: f"segment {n}" for n in (0, 1, 3)}
    cloud = HearingCloud(answers | {2: CloudTimeout("late")})
    result = run(ScriptedTranscriber([four]), cloud)
    assert [segment.text for segment in result.segments] == [
        "segment 0",
        "segment 1",
        "mumble number 2",
        "segment 3",
    ]
    assert result.degraded and result.decision.degraded_code == "cloud_timeout"
    assert result.source == "mixed"


def test_answers_out_of_order_land_in_their_own_segments() -> None:
    four = [heard(f"mumble number {n}", n + 0.1, n + 0.9, UNSURE) for n in range(4)]
    cloud = HearingCloud({n: f"segment {n}" for n in range(4)}, late=frozenset({0, 1}))

    # Segments 0 and 1 are held until 2 and 3 were asked for: three are under way at once.
    def watch() -> None:
        while not {2, 3} <= set(cloud.segments):
            threading.Event().wait(0.005)
        cloud.release()

    threading.Thread(target=watch, daemon=True).start()
    result = run(ScriptedTranscriber([four]), cloud)
    assert [segment.text for segment in result.segments] == [f"segment {n}" for n in range(4)]
    assert 2 <= cloud.most_busy <= 3


def test_each_segments_attempts_are_named_apart_and_the_devices_comes_first() -> None:
    attempts: list[Attempt] = []
    cloud = HearingCloud()
    result = run(ScriptedTranscriber([TWO]), cloud, attempts=attempts, threshold=1.0)
    assert sorted(request.part for request in cloud.asked) == ["s0.", "s1."]
    assert len({request.id for request in cloud.asked}) == 1
    assert [attempt.place for attempt in attempts] == ["local", "cloud", "cloud"]
    assert result.attempts[-1].shown_chars == len("the cloud heard this") * 2


def test_signal_sends_nothing_and_names_the_doubt() -> None:
    cloud = HearingCloud()
    result = run(ScriptedTranscriber([TWO]), cloud, handoff="signal")
    assert not cloud.asked
    assert result.decision.code == "signalled_low_confidence"
    assert result.cloud_handoff and result.needs_cloud_handoff
    assert result.text == "the first part mumble mumble"


def test_local_only_keeps_what_is_in_doubt_without_being_degraded() -> None:
    result = run(ScriptedTranscriber([TWO]), HearingCloud(), policy="local_only")
    assert result.decision.code == "policy_local_only"
    assert result.source == "local" and not result.degraded and result.needs_cloud_handoff


def test_cloud_only_never_opens_the_device() -> None:
    cloud = HearingCloud({0: "all of it"})
    result = run(AssertionError("opened"), cloud, policy="cloud_only")
    assert (result.text, result.source) == ("all of it", "cloud")
    assert result.decision.code == "policy_cloud_only"
    assert result.confidence is None


def test_cloud_only_raises_where_the_cloud_fails_or_is_shut() -> None:
    with pytest.raises(CloudFailed):
        run(
            ScriptedTranscriber([TWO]),
            HearingCloud(otherwise=CloudFailed("500")),
            policy="cloud_only",
        )
    shut = HearingCloud(shut=CloudClosed("no key", code="no_key"))
    with pytest.raises(CloudClosed):
        run(ScriptedTranscriber([TWO]), shut, policy="cloud_only")


def test_prefer_cloud_falls_back_to_the_device_for_what_the_cloud_did_not_hear() -> None:
    transcriber = ScriptedTranscriber([TWO])
    result = run(transcriber, HearingCloud(otherwise=CloudFailed("500")), policy="prefer_cloud")
    assert (result.text, result.source) == ("the first part mumble mumble", "local")
    assert result.decision.code == "fallback_local"
    assert result.degraded and result.decision.degraded_code == "cloud_server_error"


def test_without_a_model_the_cloud_transcribes_all_and_without_both_there_is_an_error() -> None:
    missing = ModelNotFound("no ears")
    result = run(missing, HearingCloud({0: "all of it"}))
    assert (result.text, result.decision.code) == ("all of it", "handoff_no_local_model")
    with pytest.raises(ModelNotFound, match="no ears"):
        run(missing, HearingCloud(shut=CloudClosed("no key", code="no_key")))
    with pytest.raises(DoesNotFit, match="cloud failed"):
        run(missing, HearingCloud(otherwise=CloudFailed("500")))


def test_a_language_the_model_does_not_know_is_the_clouds_or_refused() -> None:
    facts = DeviceFacts(
        backend="scripted", model="deaf", quantisation="none", context_tokens=1, languages=("en",)
    )
    transcriber = ScriptedTranscriber([TWO], facts=facts)
    cloud = HearingCloud({0: "alles"})
    result = run(transcriber, cloud, language="de")
    assert (result.text, result.decision.code) == ("alles", "handoff_language_unsupported")
    assert (result.language, cloud.asked[0].language) == ("de", "de")
    with pytest.raises(DoesNotFit, match="knows en"):
        run(transcriber, cloud, language="de", policy="local_only")
    assert not transcriber.listened


def test_a_device_that_breaks_off_hands_the_chunk_over_or_raises() -> None:
    result = run(ScriptedTranscriber([TWO], fails=True), HearingCloud({0: "all of it"}))
    assert (result.text, result.decision.code) == ("all of it", "handoff_local_failed")
    with pytest.raises(GenerationFailed):
        run(ScriptedTranscriber([TWO], fails=True), HearingCloud(), policy="local_only")


def test_words_on_silence_are_dropped_and_kept_apart() -> None:
    quiet = [TWO[0], heard("Thanks for watching!", 5.3, 5.9, SURE)]
    result = run(ScriptedTranscriber([quiet]), HearingCloud(), wav(voice(5.0), silence(1.5)))
    assert result.text == "the first part"
    (dropped,) = result.dropped
    assert (dropped.text, dropped.codes, dropped.confidence) == (
        "Thanks for watching!",
        ("silence",),
        0.0,
    )


def test_silence_and_noise_hold_no_words_and_never_reach_the_model() -> None:
    transcriber = ScriptedTranscriber([TWO])
    for sound in (silence(8.0), noise(8.0)):
        result = run(transcriber, HearingCloud(), wav(sound))
        assert (result.text, result.segments, result.confidence) == ("", (), None)
        assert result.seconds == pytest.approx(8.0, abs=0.1)
        assert result.speech_seconds == 0.0
    assert not transcriber.listened


def test_music_and_noise_leave_a_trace_and_silence_leaves_none() -> None:
    sound = wav(voice(3.0), silence(5.0), noise(8.0), silence(5.0), noise(2.0))
    result = run(ScriptedTranscriber([[TWO[0]]]), HearingCloud(), sound)
    (trace,) = result.dropped
    assert (trace.text, trace.codes) == ("", ("no_voice",))
    assert (trace.start, trace.end) == pytest.approx((8.0, 16.0), abs=1.0)
    assert result.text == "the first part"


def test_another_language_is_named_and_doubted() -> None:
    """tiny.en makes English nonsense of German: clear voice, and hardly a word is likely."""
    nonsense = [heard("all in order to do it we come", 0.3, 4.6, 0.25)]
    cloud = HearingCloud(otherwise="Guten Morgen, ich möchte heute nach Hamburg fahren")
    sound = wav(silence(0.6), voice(4.0), silence(1.0))
    english = replace(SCRIPTED_TRANSCRIBER_FACTS, languages=("en",))
    result = run(ScriptedTranscriber([nonsense], facts=english), cloud, sound)
    (segment,) = result.segments
    assert (segment.source, segment.confidence) == ("cloud", 0.0)
    assert segment.codes == ("other_language",) and segment.text.startswith("Guten")
    many = replace(SCRIPTED_TRANSCRIBER_FACTS, languages=("en", "de"))
    result = run(ScriptedTranscriber([nonsense], facts=many), HearingCloud(), sound)
    assert not result.segments[0].codes


def test_a_loop_is_said_once_and_doubted_however_sure_it_looks() -> None:
    loop = " ".join(["and so on"] * 20)
    cloud = HearingCloud(shut=CloudClosed("no key", code="no_key"))
    result = run(ScriptedTranscriber([[heard(loop, 0.2, 4.8, 0.99)]]), cloud)
    (segment,) = result.segments
    assert segment.text == "and so on"
    assert segment.codes == ("repetition",)
    assert segment.confidence is not None and segment.confidence <= 0.05
    assert segment.expected_error is not None and segment.expected_error >= 0.95


def test_the_same_segment_again_and_again_is_dropped_after_the_second() -> None:
    again = [heard("Thank you.", n + 0.1, n + 0.9, SURE) for n in range(5)]
    result = run(ScriptedTranscriber([again]), HearingCloud())
    assert result.text == "Thank you. Thank you."
    assert [segment.codes for segment in result.dropped] == [("repetition",)] * 3


def test_if_the_cloud_hears_no_speech_the_devices_words_are_dropped() -> None:
    result = run(ScriptedTranscriber([TWO]), HearingCloud({1: ""}))
    assert result.text == "the first part"
    assert [segment.replaced for segment in result.dropped] == ["mumble mumble"]


@pytest.mark.parametrize(
    "nonsense", ["thank you " * 12, " ".join(f"word{number}" for number in range(60))]
)
def test_a_cloud_that_loses_itself_does_not_replace_anything(nonsense: str) -> None:
    result = run(ScriptedTranscriber([TWO]), HearingCloud({1: nonsense}))
    assert result.text == "the first part mumble mumble"
    assert result.segments[1].error == "cloud_malformed"
    assert result.degraded and result.decision.code == "fallback_local"


def test_the_neighbours_words_at_the_edge_of_an_answer_are_not_said_twice() -> None:
    cloud = HearingCloud({1: "part the second part"})
    assert run(ScriptedTranscriber([TWO]), cloud).text == "the first part the second part"


def test_speech_that_the_model_makes_nothing_of_goes_to_the_cloud() -> None:
    cloud = HearingCloud({0: "what was said"})
    result = run(ScriptedTranscriber([[]]), cloud)
    assert (result.text, result.source) == ("what was said", "cloud")
    assert (result.segments[0].replaced, result.segments[0].codes) == ("", ("unheard",))
    alone = run(ScriptedTranscriber([[]]), cloud, policy="local_only")
    assert (alone.text, alone.segments) == ("", ())
    assert [segment.codes for segment in alone.dropped] == [("unheard",)]


def test_times_are_those_of_the_whole_sound() -> None:
    sound = wav(silence(3.0), voice(3.0), silence(6.0), voice(3.0))
    transcriber = ScriptedTranscriber([[heard("one", 0.5, 1.5)], [heard("two", 0.5, 1.5)]])
    result = run(transcriber, HearingCloud(), sound)
    assert [segment.text for segment in result.segments] == ["one", "two"]
    first, second = result.segments
    assert 2.5 < first.start < 4.5 and 11.5 < second.start < 14.5
    assert second.words[0].start == pytest.approx(second.start)


def test_progress_grows_to_the_end_of_the_sound() -> None:
    told: list[tuple[float, float]] = []
    run(ScriptedTranscriber([TWO]), HearingCloud(), wav(silence(20.0), voice(2.0)), progress=told)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == pytest.approx((22.0, 22.0), abs=0.1)


def test_no_more_than_a_few_segments_wait_for_the_cloud_at_once() -> None:
    many = [heard(f"mumble number {n}", n / 2 + 1, n / 2 + 1.5, UNSURE) for n in range(16)]
    cloud = HearingCloud({n: f"segment {n}" for n in range(16)})
    result = run(ScriptedTranscriber([many]), cloud, wav(voice(10.0)))
    assert len(result.segments) > MOST_OUTSTANDING  # the made voice is not always taken for one
    assert all(segment.text == f"segment {segment.id}" for segment in result.segments)
    assert cloud.most_busy <= 3 < MOST_OUTSTANDING


def test_leaving_stops_running_requests_and_settles_them() -> None:
    class Leaving(ScriptedTranscriber):
        @override
        def hear(self, samples: Samples, **options: Any) -> list[Heard]:
            if self.listened:
                raise KeyboardInterrupt
            return super().hear(samples, **options)

    attempts: list[Attempt] = []
    sound = wav(voice(3.0), silence(6.0), voice(3.0))
    with pytest.raises(KeyboardInterrupt):
        run(Leaving([TWO]), HearingCloud(late=frozenset({1})), sound, attempts=attempts)
    assert [(each.place, each.outcome) for each in attempts] == [
        ("local", "cancelled"),
        ("cloud", "cancelled"),
    ]


def test_what_is_not_sound_is_refused_before_anything_is_opened() -> None:
    for data, words in ((b"", "empty"), (b"dear diary, " * 50, "not sound")):
        with pytest.raises(InvalidRequest, match=words):
            run(AssertionError("opened"), HearingCloud(), data)


def paced(factor: float | None) -> DeviceFacts:
    return replace(SCRIPTED_TRANSCRIBER_FACTS, real_time_factor=factor)


def test_a_sound_that_would_be_heard_too_late_goes_to_the_cloud_at_once() -> None:
    cloud, slow = HearingCloud(), ScriptedTranscriber([TWO], facts=paced(0.5))
    result = run(slow, cloud, deadline_ms=2_000)
    assert (result.source, result.decision.code) == ("cloud", "handoff_deadline")
    assert result.decision.reason == (
        "at its measured speed the device needs about 3,000 ms for 6 s of sound, "
        "the deadline is 2,000 ms"
    )
    assert cloud.asked and not slow.listened, "the device lost no time on it"


def test_a_device_that_is_quick_enough_or_unmeasured_hears_it_itself() -> None:
    for factor in (0.01, None):
        device = ScriptedTranscriber([TWO[:1]], facts=paced(factor))
        result = run(device, HearingCloud(), deadline_ms=60_000)
        assert (result.source, result.decision.code) == ("local", "kept_confident")


def test_without_a_cloud_the_device_hears_it_late_and_says_so() -> None:
    shut = HearingCloud(shut=CloudClosed("no provider has a key", code="no_key"))
    slow = ScriptedTranscriber([TWO], facts=paced(0.5))
    result = run(slow, shut, deadline_ms=2_000)
    assert (result.source, result.decision.code) == ("local", "deadline")
    assert result.degraded and result.decision.degraded_code == "no_key"
    assert "the deadline is 2,000 ms" in result.decision.reason
    alone = run(slow, HearingCloud(), deadline_ms=2_000, policy="local_only")
    assert (alone.source, alone.degraded) == ("local", False)
    private = run(slow, HearingCloud(), deadline_ms=2_000, private=True)
    assert (private.source, private.decision.degraded_code) == ("local", "private")


class FirstFile(ScriptedTranscriber):
    """Knows its speed when it has heard something."""

    @override
    def hear(self, samples: Samples, **options: Any) -> list[Heard]:
        self._facts = paced(2.0)
        return super().hear(samples, **options)


LATE = wav(voice(3.0), silence(6.0), voice(3.0))
ONE_EACH = [[heard("one", 0.5, 1.5, SURE)], [heard("two", 0.5, 1.5, SURE)]]


def test_the_first_file_shows_how_slow_the_device_is_and_the_rest_of_it_leaves() -> None:
    result = run(FirstFile(ONE_EACH), HearingCloud(), LATE, deadline_ms=9_000)
    assert [segment.source for segment in result.segments] == ["local", "cloud"]
    assert (result.source, result.decision.code) == ("mixed", "handoff_deadline")
    assert "of sound to go" in result.decision.reason


def test_a_rest_that_the_cloud_cannot_hear_is_heard_by_the_device() -> None:
    down = HearingCloud(otherwise=CloudFailed("500"))
    result = run(FirstFile(ONE_EACH), down, LATE, deadline_ms=9_000)
    assert [segment.text for segment in result.segments] == ["one", "two"]
    assert (result.source, result.decision.code) == ("local", "fallback_local")
    assert result.degraded


MANY = replace(SCRIPTED_TRANSCRIBER_FACTS, languages=(), translates=True, word_times=True)


def test_a_model_that_can_translate_is_asked_to_and_what_is_in_doubt_leaves_as_that() -> None:
    transcriber, cloud = ScriptedTranscriber([TWO], facts=MANY), HearingCloud({1: "the rest"})
    result = run(transcriber, cloud, translate=True)
    assert [each.translate for each in transcriber.listened] == [True]
    assert [(each.translate, each.service) for each in cloud.asked] == [(True, "translate")]
    assert result.text == "the first part the rest"


def test_words_that_were_put_into_english_are_not_cut_at_the_pauses_of_the_speech() -> None:
    apart = [heard("one two", 0.2, 1.0), heard("three four", 3.0, 4.0)]
    words = (*apart[0].words, *apart[1].words)
    joined = replace(apart[0], end=4.0, words=words, text="one two three four")
    transcriber = ScriptedTranscriber([[joined]], facts=MANY)
    assert len(run(transcriber, HearingCloud(), translate=True).segments) == 1
    assert len(run(ScriptedTranscriber([[joined]], facts=MANY), HearingCloud()).segments) == 2


def test_what_the_device_cannot_translate_leaves_and_private_speech_is_an_honest_error() -> None:
    transcriber, cloud = ScriptedTranscriber([TWO]), HearingCloud(otherwise="in English")
    result = run(transcriber, cloud, translate=True)
    assert (result.source, result.text) == ("cloud", "in English")
    assert result.decision.code == "handoff_language_unsupported"
    assert not transcriber.listened
    with pytest.raises(DoesNotFit, match="cannot translate"):
        run(transcriber, HearingCloud(), translate=True, private=True)


# Two people on a telephone: one speaks while the other is silent.
CALL = stereo(
    numpy.concatenate([voice(3.0), silence(5.0), voice(3.0, seed=2)]),
    numpy.concatenate([silence(4.0), voice(3.0, seed=1), silence(4.0)]),
)
TURNS = [[heard("hello", 0.2, 1.0)], [heard("good day", 0.2, 1.0)], [heard("bye", 0.2, 1.0)]]


def test_channels_are_heard_one_by_one_in_the_order_of_time() -> None:
    told: list[Segment] = []
    transcriber = ScriptedTranscriber(TURNS)
    result = run(transcriber, HearingCloud(), CALL, split=True, settled=told)
    assert [(each.speaker, each.text) for each in result.segments] == [
        ("1", "hello"),
        ("2", "good day"),
        ("1", "bye"),
    ]
    assert told == list(result.segments)  # a stream adds up to the text
    assert result.seconds == pytest.approx(11.0, abs=0.1)
    assert {each.speaker for each in run(transcriber, HearingCloud(), CALL).segments} == {""}


def test_a_channel_in_doubt_is_sent_alone() -> None:
    doubtful = [[heard("hello", 0.2, 1.0)], [heard("mumble", 0.2, 1.0, UNSURE)], TURNS[2]]
    cloud = HearingCloud(otherwise="good day")
    result = run(ScriptedTranscriber(doubtful), cloud, CALL, split=True)
    assert [(each.speaker, each.source) for each in result.segments] == [
        ("1", "local"),
        ("2", "cloud"),
        ("1", "local"),
    ]
    (asked,) = cloud.asked
    (sent,) = asked.messages[0].audio
    with wave.open(io.BytesIO(sent.data)) as file:
        sound = numpy.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert file.getnchannels() == 1 and numpy.abs(sound).max() > 1000


def test_a_channel_that_only_the_cloud_hears_keeps_its_speaker() -> None:
    result = run(ScriptedTranscriber(TURNS), HearingCloud(), CALL, split=True, policy="cloud_only")
    assert [each.speaker for each in result.segments] == ["1", "2", "1"]
