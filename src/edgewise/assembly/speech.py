"""Speech for the engine: puts the flow's parts together. Loaded with the first sound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Unpack

from edgewise import plugins
from edgewise.assembly.arguments import checked
from edgewise.assembly.calibrations import (
    find_calibration,
    model_key,
)
from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.errors import InvalidRequest
from edgewise.flows import transcribe as flow
from edgewise.flows.listen import LiveTranscriber
from edgewise.local.backend import SpeechBackend
from edgewise.settings import Settings
from edgewise.speech.audio import (
    RATE,
    name_of,
)
from edgewise.speech.confidence import SPEECH
from edgewise.types.messages import (
    AudioLike,
    HearingOptions,
    ListenOptions,
    Request,
    RequestOptions,
    SpeechOptions,
    Task,
)
from edgewise.types.objectives import OBJECTIVES
from edgewise.types.replies import Attempt
from edgewise.types.transcripts import Transcript

if TYPE_CHECKING:
    from edgewise.flows.audit import Auditor


HURRY_S = 1.5  # so far behind the speaker, hypotheses are skipped
STEP_S, LEAST_STEP_S, MOST_STEP_S = 1.0, 0.2, 10.0  # seconds of live speech between two hypotheses


class Host(Protocol):
    """What speech needs of the engine."""

    settings: Settings
    _auditor: Auditor | None

    def _request(self, prompt: str, **options: Unpack[RequestOptions]) -> Request: ...

    def _open_transcriber(self) -> SpeechBackend: ...

    def _cloud_for(self, task: Task) -> Cloud: ...

    def _keep(
        self, request: Request, work: Callable[[list[Attempt]], Transcript]
    ) -> Transcript: ...


def transcribe(
    host: Host, audio: AudioLike, options: SpeechOptions, settled: flow.Settled = lambda _: None
) -> Transcript:
    """What is said in a sound file. `settled` is called with each final segment, in order."""
    request = speech_request(host, name_of(audio), options)
    parts = flow.Parts(
        transcriber=host._open_transcriber,
        cloud=host._cloud_for("transcribe"),
        policy=plugins.load("policies", request.policy),
        calibration=lambda transcriber: find_speech_calibration(host.settings, transcriber),
        clock=time.perf_counter,
        progress=options.get("progress", silent),
        settled=settled,
    )
    transcript = host._keep(
        request, lambda attempts: flow.transcribe(request, audio, parts, attempts)
    )
    if host._auditor is not None:
        host._auditor.heard(request, transcript, audio)
    return transcript


def listen(host: Host, options: ListenOptions) -> LiveTranscriber:
    """Live captions, not yet started."""
    request = speech_request(host, "live sound", options, ListenOptions)
    step_s = options.get("step_s", STEP_S)
    if not LEAST_STEP_S <= step_s <= MOST_STEP_S:
        raise InvalidRequest(f"step_s = {step_s!r}: {LEAST_STEP_S:g} to {MOST_STEP_S:g} seconds")
    parts = flow.Parts(
        transcriber=host._open_transcriber,
        cloud=host._cloud_for("transcribe"),
        policy=plugins.load("policies", request.policy),
        calibration=lambda transcriber: find_speech_calibration(host.settings, transcriber),
        clock=time.perf_counter,
        progress=silent,
    )
    return LiveTranscriber(
        request,
        parts,
        host._keep,
        rate=options.get("rate", RATE),
        step_s=step_s,
        drain_s=host.settings.speech_drain_s,
    )


def silent(done_s: float, total_s: float) -> None:
    """The default progress callback."""


def speech_request(
    host: Host, name: str, options: HearingOptions, kind: type = SpeechOptions
) -> Request:
    """A validated request. The ledger records the name of the sound, not the sound."""
    given = checked(options, kind)
    for option in ("progress", "rate", "step_s"):  # they are about the work, not the request
        given.pop(option, None)
    language = checked_language(given.pop("language", ""))
    hint = given.pop("hint", "").strip()
    if not any(aim in given for aim in OBJECTIVES):
        given["threshold"] = host.settings.speech_threshold
    request = host._request(name, **given)
    return replace(request, task="transcribe", language=language, hint=hint)


def checked_language(language: str) -> str:
    """As models and providers spell it: `en` for `en-GB`; empty if it is to be detected."""
    plain = language.strip().lower().replace("_", "-").partition("-")[0]
    if plain in ("", "auto"):
        return ""
    if not (plain.isascii() and plain.isalpha() and 2 <= len(plain) <= 3):
        raise InvalidRequest(f"language {language!r}: a code like 'en'")
    return plain


def find_speech_calibration(settings: Settings, transcriber: SpeechBackend | None) -> Calibration:
    """The calibration of this model and quantisation, else a plain one."""
    name = "" if transcriber is None else model_key(transcriber.facts())
    return find_calibration(settings, name, SPEECH)
