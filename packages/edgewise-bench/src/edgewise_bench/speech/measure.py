"""Speech on this machine: errors and speed beside the bare runtime, live captions, deferral."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from edgewise import parts
from edgewise.calibrations import calibration_of
from edgewise.engine import Engine
from edgewise.errors import SettingsError
from edgewise.flows.listen import LiveTranscriber
from edgewise.local.backend import SpeechBackend
from edgewise.local.faster_whisper import TEMPERATURES
from edgewise.settings import Settings
from edgewise.speech.audio import RATE, as_wav
from edgewise.speech.words import SPEECH, WordErrors, judge_features, said_in_segments
from edgewise.types.transcripts import LiveUpdate
from edgewise_bench.chat.overhead import percentile
from edgewise_bench.speech.deferral import Deferral, defer, key_of, larger_texts
from edgewise_bench.speech.fit import Judged, fit_speech, scores
from edgewise_bench.speech.recordings import LEVELS, Clip, Document, Samples, documents
from edgewise_bench.speech.traces import Trace, noisy, read_traces, trace, word_errors

LEAST_VOICES = 4  # to hold one out and still fit something
SPEED_DOCUMENTS = 4
REPEATS = 5
LEAST_WORDS = 0.8  # of ours, that the bare runtime must write for its time to mean anything
QUICK = 2  # documents

TARGETS: dict[str, tuple[str, float]] = {
    "runtime_ratio": ("<", 1.05),
    "segment_error_auroc": (">=", 0.75),
    "deferral_gain": (">=", 0.5),
}

Step = Callable[[], None]
CHUNK = RATE // 10
Clock = Callable[[], float]


@dataclass(slots=True)
class SpeechBench:
    """What was heard, in a folder: what is there already is not heard again."""

    settings: Settings
    clips: Sequence[Clip]
    folder: Path
    per_voice: int = 3
    seed: int = 0
    larger: str = "whisper-base"
    quick: bool = False
    _documents: list[Document] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many documents are heard, each level counted."""
        chosen = [each for each in self.documents() if each.number < self.per_voice]
        levels = sum(len(LEVELS) if each.kind == "human" else 1 for each in chosen)
        return min(QUICK, levels) if self.quick else levels

    def noisy(self) -> Iterator[Document]:
        """Noise is made for all, so that a smaller choice hears the same."""
        made = noisy(self.documents(), self.seed)
        return islice((each for each in made if each.number < self.per_voice), self.steps)

    def documents(self) -> list[Document]:
        self._documents = self._documents or list(documents(self.clips, self.seed))
        return self._documents

    def live_documents(self, chosen: Sequence[Document]) -> Sequence[Document]:
        """What is captioned live: real time is slow, so a quick look takes the shortest."""
        return [min(self.documents(), key=lambda each: each.seconds)] if self.quick else chosen

    def heard(self, step: Step) -> dict[str, Trace]:
        """Every document at its levels, as the device hears it."""
        path = self.folder / f"{self.settings.speech_model}.jsonl"
        known = {key_of(each): each for each in read_traces(path)} if path.is_file() else {}
        found = {}
        transcriber = parts.open_transcriber(self.settings)
        try:
            for document in self.noisy():
                key = key_of(document)
                if key not in known:
                    known[key] = trace(document, transcriber)
                    _append(path, known[key].to_dict())
                found[key] = known[key]
                step()
        finally:
            transcriber.close()
        return found

    def heard_by_larger(self, traces: Mapping[str, Trace], step: Step) -> dict[str, list[str]]:
        """Every segment, cut as for the cloud, as the larger model hears it."""
        path = self.folder / f"{self.settings.speech_model}.{self.larger}.json"
        known: dict[str, list[str]] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        transcriber = parts.open_transcriber(self.settings.with_changes(speech_model=self.larger))
        try:
            for document in self.noisy():
                if key_of(document) not in known:
                    known |= larger_texts(iter([document]), traces, transcriber)
                    path.write_text(json.dumps(known), "utf-8")
                step()
        finally:
            transcriber.close()
        return {key: known[key] for key in traces}


def _append(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def error_rates(traces: Sequence[Trace]) -> dict[str, float]:
    """Word error rate and real-time factor, by kind of voice and level of noise."""
    found = {}
    for kind in ("human", "made"):
        for level in LEVELS:
            chosen = [each for each in traces if (each.kind, each.level) == (kind, level)]
            if chosen:
                errors = sum((WordErrors(each.errors, each.words) for each in chosen),
                             WordErrors(0, 0))  # fmt: skip
                name = "clean" if level is None else f"{level:g}db"
                found[f"wer_{kind}_{name}"] = errors.rate
    seconds = sum(each.seconds for each in traces)
    found["real_time_factor"] = sum(each.wall_s for each in traces) / seconds
    return found


def measure_speed(settings: Settings, chosen: Sequence[Document], step: Step) -> dict[str, float]:
    """Our wall time over the bare runtime's, on the same files, taking turns; the best of five."""
    transcriber = parts.open_transcriber(settings)
    if transcriber.facts().backend != "faster_whisper":
        raise SettingsError("the bare runtime is faster-whisper: measure one of its models")
    ours = bare = ours_cpu = bare_cpu = seconds = 0.0
    said, heard, lost = WordErrors(0, 0), WordErrors(0, 0), 0
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        quiet = settings.with_changes(data_dir=folder)
        with Engine(quiet, transcriber=transcriber) as engine:
            for document in chosen:
                path = Path(folder) / "document.wav"
                path.write_bytes(as_wav(document.samples))
                times = [_both(engine, transcriber, path) for _ in range(REPEATS)]
                said += word_errors(document.text, times[0][0].text)
                heard += word_errors(document.text, times[0][1].text)
                step()
                if times[0][1].words < LEAST_WORDS * times[0][0].words:
                    lost += 1  # what is not written takes no time
                    continue
                ours += min(each[0].wall for each in times)
                bare += min(each[1].wall for each in times)
                ours_cpu += min(each[0].cpu for each in times)
                bare_cpu += min(each[1].cpu for each in times)
                seconds += document.seconds
    if not bare:
        return {"wer_file": said.rate, "bare_wer_file": heard.rate, "bare_lost_files": float(lost)}
    return {
        "runtime_ratio": ours / bare,
        "runtime_cpu_ratio": ours_cpu / bare_cpu,
        "real_time_factor_file": ours / seconds,
        "bare_real_time_factor_file": bare / seconds,
        "wer_file": said.rate,
        "bare_wer_file": heard.rate,
        "bare_lost_files": float(lost),
    }


@dataclass(frozen=True, slots=True)
class _Timed:
    wall: float
    cpu: float
    text: str

    @property
    def words(self) -> int:
        return len(self.text.split())


def _both(engine: Engine, transcriber: SpeechBackend, path: Path) -> tuple[_Timed, _Timed]:
    ours = _timed(lambda: engine.transcribe(path, policy="local_only", language="en").text)
    return ours, _timed(lambda: _bare(transcriber, path))


def _timed(work: Callable[[], str]) -> _Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    text = work()
    return _Timed(time.perf_counter() - wall, time.process_time() - cpu, text)


def _bare(transcriber: Any, path: Path) -> str:
    """The runtime by itself, with the options that ours gives it."""
    segments, _ = transcriber.runtime().transcribe(
        str(path),
        language="en",
        beam_size=1,
        best_of=1,
        temperature=TEMPERATURES,
        condition_on_previous_text=False,
        word_timestamps=True,
    )
    return " ".join(segment.text for segment in segments)


def judge(traces: Sequence[Trace], settings: Settings) -> tuple[list[Judged], dict[str, float]]:
    """The shipped confidence's scores; with enough voices, those of one that never heard them."""
    transcriber = parts.open_transcriber(settings)
    calibration = calibration_of(settings, transcriber.facts(), SPEECH)
    transcriber.close()
    shipped = [
        Judged(
            each, segment, *judge_features(calibration, segment.features, looping=segment.looping)
        )
        for each in traces
        for segment in each.segments
    ]
    if len({each.voice for each in traces}) < LEAST_VOICES:
        return shipped, _numbers(scores(shipped, calibration.threshold))
    _, held_out = fit_speech(traces, calibration.name)
    metrics = _numbers(scores(held_out, calibration.threshold))
    own = scores(shipped, calibration.threshold)
    return held_out, metrics | {"shipped_segment_error_auroc": own["segment_error_auroc"]}


def _numbers(given: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in given.items() if value is not None}


def deferral(
    traces: Mapping[str, Trace],
    texts: Mapping[str, list[str]],
    judged: Sequence[Judged],
    larger: str,
    seed: int,
) -> tuple[dict[str, Deferral], dict[str, float]]:
    """The curves with the larger model and with a perfect listener, and what they come to."""
    confidence = {
        (key_of(each.trace), each.trace.segments.index(each.segment)): each.chance
        for each in judged
    }
    found = defer(traces, texts, confidence, seed)
    perfect = {
        key: said_in_segments(each.text, [segment.text for segment in each.segments])
        for key, each in traces.items()
    }
    best = defer(traces, perfect, confidence, seed)
    return {f"corrected by {larger}": found, "corrected by a perfect listener": best}, {
        "deferral_gain": found.gain,
        "deferral_gain_perfect_cloud": best.gain,
        "wer_quarter_sent_perfect_cloud": best.ours.rates[len(best.ours.rates) // 4],
        "wer_nothing_sent": found.ours.rates[0],
        "wer_quarter_sent": found.ours.rates[len(found.ours.rates) // 4],
        "wer_quarter_sent_random": found.random.rates[len(found.random.rates) // 4],
        "wer_quarter_sent_oracle": found.oracle.rates[len(found.oracle.rates) // 4],
        "wer_half_sent": found.ours.rates[len(found.ours.rates) // 2],
        "wer_everything_sent": found.ours.rates[-1],
    }


def clean_documents(found: Sequence[Document]) -> Iterator[Document]:
    """Long recordings of people: what a file usually is."""
    human = [each for each in found if each.kind == "human" and each.number < 3] or list(found)
    yield from sorted(human, key=lambda each: -each.seconds)[:SPEED_DOCUMENTS]


@dataclass(slots=True)
class LiveMeasures:
    """What was seen of one or several streams; `delays` in seconds, one for each settled word."""

    delays: list[float] = field(default_factory=list)
    revisions: int = 0
    seconds: float = 0.0
    worked_s: float = 0.0
    _shown: list[str] = field(default_factory=list)

    def follow(self, live: LiveTranscriber, samples: Samples, clock: Clock) -> str:
        """Caption a stream as if it were spoken now; its text."""
        self._shown = []
        now = 0.0
        for start in range(0, len(samples), CHUNK):
            chunk = samples[start : start + CHUNK]
            spoken = (start + len(chunk)) / RATE
            begun = clock()
            update = live.process(chunk)
            took = clock() - begun
            now = max(now, spoken) + took
            self.worked_s += took
            self._note(update, now)
        begun = clock()
        transcript = live.stop()
        took = clock() - begun
        self.worked_s += took
        self._note(live.last_update, max(now, len(samples) / RATE) + took)
        self.seconds += len(samples) / RATE
        return transcript.text

    def _note(self, update: LiveUpdate, now: float) -> None:
        self.delays += [max(0.0, now - word.end) for word in update.new_words]
        shown = plain(f"{update.confirmed} {update.pending}")
        # Words that follow are no revision, and words that have gone are one.
        self.revisions += shown[: len(self._shown)] != self._shown
        self._shown = shown

    def metrics(self) -> dict[str, float]:
        return {
            "live_delay_ms_p50": 1000 * percentile(self.delays, 50),
            "live_delay_ms_p95": 1000 * percentile(self.delays, 95),
            "revisions_per_minute": 60 * self.revisions / self.seconds,
            "live_real_time_factor": self.worked_s / self.seconds,
        }


def plain(text: str) -> list[str]:
    """Words without case and punctuation: readers do not mind a comma."""
    return re.findall(r"[\w']+", text.casefold())


def measure_live(
    settings: Settings, chosen: Sequence[Document], step: Callable[[], None]
) -> dict[str, float]:
    """All documents, one after the other, on the device alone."""
    measures, errors = LiveMeasures(), WordErrors(0, 0)
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        Engine(settings.with_changes(data_dir=folder)) as engine,
    ):
        _warm_up(engine, chosen[0])
        for document in chosen:
            with engine.listen(policy="local_only", language="en") as live:
                heard = measures.follow(live, document.samples, time.perf_counter)
            errors += word_errors(document.text, heard)
            step()
    return measures.metrics() | {"wer_live": errors.rate}


def _warm_up(engine: Engine, document: Document) -> None:
    """Loading a model is not delay."""
    engine.parts.transcriber().hear(document.samples[: 2 * RATE], language="en")
