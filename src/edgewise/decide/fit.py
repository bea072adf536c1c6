"""Does the request fit the device? Asked before anything is generated, to waste no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.types.messages import Message, Request

# On average over a text, a token of our models is never longer than this, so a longer prompt
# cannot fit. Near the limit the runtime counts exactly, before it computes anything.
MOST_CHARACTERS_PER_TOKEN = 8.0
USUAL_CHARACTERS_PER_TOKEN = 4.0
TOKENS_PER_TURN = 5  # what a chat template adds around each message


MOST_FOREIGN_LETTERS = 0.3  # a few Greek letters in a formula are no foreign language
_LAST_LATIN = 0x024F
_LATIN_ADDITIONS = range(0x1E00, 0x1F00)
# Languages written in Latin letters only. They are not told apart.
_LATIN_LANGUAGES = {"de", "en", "es", "fr", "it", "nl", "pt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the device can take: the facts about a backend that this module needs."""

    context_tokens: int
    images: bool = False
    tools: bool = False
    schemas: bool = False
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why the device should not answer.

    A soft misfit can still be answered there: too slow, or too long but may be truncated.
    """

    code: str
    reason: str
    soft: bool = False


def count_characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def estimate_tokens(messages: Sequence[Message]) -> int:
    characters = count_characters(messages)
    return int(characters / USUAL_CHARACTERS_PER_TOKEN) + TOKENS_PER_TURN * len(messages)


def find_misfit(request: Request, capacity: Capacity) -> Misfit | None:
    """The first reason why the device cannot serve this request, or not in time."""
    if request.has_images and not capacity.images:
        return Misfit("images_unsupported", "the local model cannot see images")
    if request.tools and not capacity.tools and not request.has_results:
        return Misfit("tools_unsupported", "the local model cannot call tools")
    if request.response_format is not None and not capacity.schemas:
        return Misfit("schema_unsupported", "the local runtime cannot enforce a schema")
    characters = count_characters(request.messages)
    if characters > capacity.context_tokens * MOST_CHARACTERS_PER_TOKEN:
        return Misfit(
            "context_exceeded",
            f"the prompt has {characters:,} characters, far more than the "
            f"{capacity.context_tokens:,} tokens of the context window",
            soft=request.truncate,
        )
    return find_lateness(request, capacity, estimate_tokens(request.messages), request.max_tokens)


def find_lateness(
    request: Request, capacity: Capacity, prompt_tokens: int, output_tokens: int
) -> Misfit | None:
    """Whether the device, at its measured speed, would miss the request's deadline."""
    prompt_speed = capacity.prompt_tokens_per_second
    output_speed = capacity.output_tokens_per_second
    if request.deadline_ms is None or not prompt_speed or not output_speed:
        return None
    seconds = prompt_tokens / prompt_speed + output_tokens / output_speed
    return _late(request.deadline_ms, seconds, f"for up to {output_tokens} tokens")


def find_late_hearing(
    request: Request, sound_s: float, real_time_factor: float | None, spent_s: float = 0.0
) -> Misfit | None:
    """Whether the device, at its measured speed, would still be listening after the deadline.

    `sound_s` is how much sound is left, 0 if nobody knows; `spent_s` is the time already spent.
    """
    if request.deadline_ms is None or not real_time_factor or not sound_s:
        return None
    seconds = spent_s + sound_s * real_time_factor
    if not spent_s:
        return _late(request.deadline_ms, seconds, f"for {sound_s:,.0f} s of sound")
    return _late(request.deadline_ms, seconds, f"in all, with {sound_s:,.0f} s of sound to go")


def _late(deadline_ms: float, seconds: float, work: str) -> Misfit | None:
    if seconds * 1000 <= deadline_ms:
        return None
    return Misfit(
        "deadline",
        f"at its measured speed the device needs about {seconds * 1000:,.0f} ms {work}, "
        f"the deadline is {deadline_ms:,.0f} ms",
        soft=True,
    )


def drop_oldest(
    messages: Sequence[Message], prompt_tokens: int, room_tokens: int
) -> tuple[Message, ...]:
    """Truncate messages on request: system messages and the newest turns are kept.

    Whole turns are dropped first, oldest first. If the last turn alone is too long, its beginning
    is dropped. `prompt_tokens` is the runtime's exact count of `messages`, used to scale lengths.
    """
    kept = list(messages)
    per_character = prompt_tokens / max(1, count_characters(kept))
    excess = prompt_tokens - room_tokens
    while excess > 0 and len([m for m in kept if m.role != "system"]) > 1:
        oldest = next(i for i, message in enumerate(kept) if message.role != "system")
        excess -= int(len(kept.pop(oldest).content) * per_character)
    if excess > 0 and kept:
        cut = min(len(kept[-1].content), int(excess / per_character) + 1)
        kept[-1] = replace(kept[-1], content=kept[-1].content[cut:])
    return tuple(kept)


def outside_script(text: str, languages: tuple[str, ...]) -> bool:
    """Whether many letters of a text belong to no script of these languages.

    It only tells Latin letters from others: French passes as English. The answer is False if no
    language is given, or one that is not written in Latin letters.
    """
    if not languages or not _LATIN_LANGUAGES.issuperset(languages):
        return False
    letters = [ord(character) for character in text if character.isalpha()]
    foreign = sum(each > _LAST_LATIN and each not in _LATIN_ADDITIONS for each in letters)
    return foreign > MOST_FOREIGN_LETTERS * len(letters)
