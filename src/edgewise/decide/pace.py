"""How long an answer would take here, and how long the cloud usually takes: both as measured.

A `Pace` watches what is served. When the device would need longer to the end of an answer than the
cloud does, and longer than anybody likes to wait, that is a reason to hand off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from edgewise.decide.fit import Misfit, estimate_tokens
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Reply

WINDOW = 15  # values that a moving median is taken of
LEAST = 3  # fewer say nothing
FRESH_S = 1800.0  # older values are forgotten, so that a device that was busy gets another chance
LEAST_OUTPUT = 4  # tokens: fewer say nothing about speed

Clock = Callable[[], float]


class MovingMedian:
    """The median of the last few values that are still fresh; None while there are too few.

    Values are kept in one tuple that is replaced as a whole, so that threads need no lock: two that
    add at the same moment may lose one value, which does no harm.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: tuple[tuple[float, float], ...] = ()

    def add(self, value: float) -> None:
        self._values = (*self._values, (self._clock(), value))[-WINDOW:]

    @property
    def value(self) -> float | None:
        now = self._clock()
        fresh = [value for added, value in self._values if now - added <= FRESH_S]
        return median(fresh) if len(fresh) >= LEAST else None


@dataclass(frozen=True, slots=True)
class DevicePace:
    """Of one model on this device: seconds for a token of each kind, and tokens of an answer."""

    reading: MovingMedian
    writing: MovingMedian
    length: MovingMedian

    def seconds(self, prompt_tokens: int, most_tokens: int) -> float | None:
        """To the end of an answer of the usual length; None while too little is known."""
        writing, length = self.writing.value, self.length.value
        if writing is None or length is None:
            return None
        return prompt_tokens * (self.reading.value or 0.0) + min(length, most_tokens) * writing


class Pace:
    """What is served here in plain chat, by model. `slow_after_s` of 0: time is no reason."""

    def __init__(self, slow_after_s: float, clock: Clock = time.monotonic) -> None:
        self._slow_after_s = slow_after_s
        self._clock = clock
        self._devices: dict[str, DevicePace] = {}
        self._clouds: dict[str, MovingMedian] = {}
        self._last_cloud = ""  # the model that answered last is the one to expect

    def watch(self, request: Request, reply: Reply) -> None:
        """Measure an answer. Calls and pictures take other times than words."""
        if request.task != "chat" or request.tools or request.has_images:
            return
        for attempt in reply.attempts:
            if attempt.place == "local":
                self._watch_device(request, attempt)
            elif attempt.outcome == "answered":
                self._last_cloud = f"{attempt.backend}/{attempt.model}"
                usual = self._clouds.setdefault(self._last_cloud, MovingMedian(self._clock))
                usual.add(attempt.total_ms / 1000)

    def _watch_device(self, request: Request, attempt: Attempt) -> None:
        first_ms, tokens = attempt.first_token_ms, attempt.output_tokens
        if first_ms is None or tokens < LEAST_OUTPUT:
            return
        device = self._device(attempt.model)
        device.writing.add((attempt.total_ms - first_ms) / 1000 / (tokens - 1))
        if attempt.outcome == "answered":
            device.length.add(tokens)
        if len(new_turns(request)) == len(request.messages) and attempt.input_tokens:
            device.reading.add(first_ms / 1000 / attempt.input_tokens)

    def _device(self, model: str) -> DevicePace:
        if model not in self._devices:
            reading, writing, length = (MovingMedian(self._clock) for _ in range(3))
            self._devices[model] = DevicePace(reading, writing, length)
        return self._devices[model]

    def find_slowness(self, request: Request, model: str) -> Misfit | None:
        """Whether this model would take longer than the cloud, and longer than people like to wait.

        Not if the request says itself what it wants: a place, a deadline, or money that must last.
        """
        if not self._slow_after_s or request.policy == "local_only" or _states_its_own(request):
            return None
        cloud = self._clouds.get(self._last_cloud)
        cloud_s = None if cloud is None else cloud.value
        prompt_tokens = estimate_tokens(new_turns(request))
        device_s = self._device(model).seconds(prompt_tokens, request.max_tokens)
        if cloud_s is None or device_s is None or device_s <= max(cloud_s, self._slow_after_s):
            return None
        return Misfit(
            "slow_device",
            f"the device would need about {_told(device_s)}, "
            f"the cloud usually takes {_told(cloud_s)}",
            soft=True,
        )


def new_turns(request: Request) -> tuple[Message, ...]:
    """What the device has not read yet: the turns after its last answer."""
    places = [at for at, message in enumerate(request.messages) if message.role == "assistant"]
    return request.messages[places[-1] + 1 :] if places else request.messages


def _states_its_own(request: Request) -> bool:
    money = request.steering.money if request.steering else None
    short = money is not None and money.allowed_share < 1
    return request.handoff == "signal" or request.deadline_ms is not None or short


def _told(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
