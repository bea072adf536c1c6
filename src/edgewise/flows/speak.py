"""Speaking: the device's voice, or the cloud's if the device has none, in one sound.

A long text is spoken in parts, at the ends of sentences. Of a cloud, the provider that spoke the
first part speaks the rest: it is one voice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from typing_extensions import override

from edgewise.cloud.provider import Cloud
from edgewise.decide.policy import Misfit, Plan, Policy
from edgewise.errors import CloudMalformed, InvalidRequest, ModelNotFound
from edgewise.flows.route import Draft, Flow, LocalAttempt, run
from edgewise.local.backend import VoiceBackend, guarded
from edgewise.speech.audio import SOUND_TYPES, as_sound, in_wave
from edgewise.types.messages import Audio, Message, Request
from edgewise.types.replies import Attempt, Event, Finish, Place, Voiced
from edgewise.types.transcripts import Spoken, SpokenReply

MOST_CHARACTERS = 4_000  # of one part: OpenAI takes 4,096
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")  # noqa: RUF001 - other languages have other marks


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakNeeds:
    """What the engine provides. `voice` raises ModelNotFound if the device has none."""

    voice: Callable[[], VoiceBackend]
    cloud: Cloud
    policy: Policy
    clock: Callable[[], float]
    pause: Callable[[], None]


def speak(request: Request, parts: SpeakNeeds, attempts: list[Attempt]) -> SpokenReply:
    """The request's text as sound in the format `request.sound`."""
    flow = SpeakingFlow(request, parts, attempts)
    run(flow)
    return flow.finished()


class SpeakingFlow(Flow):
    """One text that is spoken."""

    def __init__(self, request: Request, parts: SpeakNeeds, attempts: list[Attempt]) -> None:
        self.draft = Draft(request=request, attempts=attempts, started=parts.clock())
        self.parts, self.cloud = parts, parts.cloud
        self.policy, self.clock = parts.policy, parts.clock
        self.texts = in_parts(request.state, MOST_CHARACTERS)
        self.place: Place | None = None
        self.spoken: list[Spoken] = []
        self.file = b""  # as a provider made it
        self.voice: VoiceBackend | None = None
        if request.policy != "cloud_only":
            try:
                self.voice = parts.voice()
            except ModelNotFound as error:
                self.misfit = Misfit(error.code, str(error))

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        yield from ()
        self._on_device()
        return False

    def _on_device(self) -> None:
        voice, request = self.voice, self.request
        assert voice is not None, "a plan that uses the device has one"
        facts = voice.facts()
        with LocalAttempt(request, self.draft.attempts, facts, self.clock) as attempt:
            attempt.finish = Finish()
            with guarded(facts.model):
                made = [
                    voice.speak(
                        text,
                        voice=request.voice,
                        language=request.language,
                        speed=request.speed,
                        pause=self.parts.pause,
                    )
                    for text in self.texts
                ]
            attempt.outcome = "answered"
        self.place, self.spoken, self.file = "local", made, b""

    @override
    def conclude_kept(self, plan: Plan) -> None:
        self.draft.conclude("spoken_local", self.surety())

    @override
    def surety(self) -> str:
        return "the device speaks whatever it can"

    @override
    def doubt(self) -> str:
        return ""  # a voice is never in doubt

    @override
    def fall_back(self) -> Iterator[Event]:
        yield from ()
        self._on_device()

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        yield from ()
        self.spoken, alone = [], len(self.texts) == 1
        # Parts can be joined as waves only.
        kind = self.request.sound if alone and self.request.sound != "pcm" else "wav"
        lane = self.request.lane
        for number, text in enumerate(self.texts):
            part = replace(
                self.request,
                messages=(Message("user", text),),
                part=f"{number}." if number else "",
                lane=lane,
                sound=kind,
            )
            voiced = self._ask(part)
            answered = self.draft.attempts[-1].backend
            if number and answered != lane:
                words = f"{lane} spoke the beginning, and {answered} would go on"
                raise CloudMalformed(words, provider=answered)
            lane = answered
            self._take(voiced)
        self.place = "cloud"

    def _ask(self, part: Request) -> Voiced:
        voiced: Voiced | None = None
        # Read to the end: the attempt is recorded after the last chunk.
        for chunk in self.cloud.stream(part, self.draft.attempts, live=False, patience_s=None):
            if isinstance(chunk, Voiced):
                voiced = chunk
        if voiced is None:
            raise CloudMalformed("the cloud sent no sound")
        return voiced

    def _take(self, voiced: Voiced) -> None:
        if voiced.kind != "wav":
            self.file = voiced.data
            return
        try:
            pcm, rate = in_wave(voiced.data)
        except InvalidRequest as error:
            raise CloudMalformed(str(error)) from error
        if self.spoken and rate != self.spoken[0].rate:
            raise CloudMalformed("the cloud spoke two parts at two rates")
        self.spoken.append(Spoken(pcm, rate, voiced.voice))

    def finished(self) -> SpokenReply:
        request = self.request
        pcm = b"".join(each.pcm for each in self.spoken)
        rate = self.spoken[0].rate if self.spoken else 0
        data = self.file or (as_sound(pcm, rate, request.sound) if self.spoken else b"")
        seconds = len(pcm) / 2 / rate if self.spoken else 0.0
        return SpokenReply(
            **self.draft.common(self.place or "none", self.clock()),
            text=request.state,
            decision=self.draft.decision(),
            audio=Audio(data, SOUND_TYPES[request.sound], round(seconds, 3)),
            voice=self.spoken[0].voice if self.spoken else request.voice,
        )


def in_parts(text: str, most: int) -> list[str]:
    """The text in parts of at most so many characters, cut at the ends of sentences, else of words,
    else anywhere."""
    found: list[str] = []
    for sentence in _SENTENCE.split(text.strip()):
        pieces = [sentence]
        while len(pieces[-1]) > most:
            cut = pieces[-1].rfind(" ", 0, most) + 1 or most
            pieces[-1:] = [pieces[-1][:cut], pieces[-1][cut:]]
        for piece in pieces:
            if found and len(found[-1]) + 1 + len(piece) <= most:
                found[-1] += f" {piece}"
            elif piece.strip():
                found.append(piece)
    return found
