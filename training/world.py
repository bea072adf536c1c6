"""Every tool there is, and how requests and further tools are drawn from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random

from training.frame_types import Frame, Objects, Parameter, Pool
from training.houses import House, pick_house
from training.naming import words_of
from training.sample import is_day, is_person, is_place
from training.styles import StyledTool, style_tool
from training.word_pools import pool_entries

# How often a request comes from each source, relative to the others.
SOURCE_SHARES = {"frames": 10, "seal": 2, "nlu": 0.8, "snips": 0.7, "seal_dev": 0.4}
_STOP = frozenset(pool_entries("stop_word"))


def content_words(text: str) -> frozenset[str]:
    """Words that say what something is about, without endings."""
    found = (word.rstrip("s") for word in words_of(text))
    return frozenset(word for word in found if word not in _STOP and len(word) > 2)


class World:
    """Every tool there is, and how to draw requests and other tools from it."""

    def __init__(
        self, frames: Sequence[Frame], small_talk: Sequence[str] = (), valid: bool = False
    ) -> None:
        self.frames = list(frames)
        self.valid = valid  # whether it is of the validation split
        self.small_talk = [*pool_entries("small_talk"), *small_talk]
        self.by_source: dict[str, list[Frame]] = defaultdict(list)
        self.by_domain: dict[str, list[Frame]] = defaultdict(list)
        self.words: dict[int, frozenset[str]] = {}
        for frame in self.frames:
            self.by_source[frame.source].append(frame)
            self.by_domain[frame.domain].append(frame)
            self.words[id(frame)] = content_words(f"{frame.name} {frame.description}")
        self.sources = list(self.by_source)
        self.weights = [SOURCE_SHARES.get(source, 1) for source in self.sources]
        self.with_misses = [frame for frame in self.frames if frame.near_misses]
        self.with_incomplete = [frame for frame in self.frames if frame.incomplete]
        self.with_place = [frame for frame in self.frames if _says(frame, is_place)]
        self.with_person = [frame for frame in self.frames if _says(frame, is_person)]
        self.with_day = [frame for frame in self.frames if _says(frame, is_day)]
        self.lookups = self.of_domains("lookups_")
        self.own_slots = self.of_domains("slots_")
        self.slots = [*self.own_slots, *self.by_source["snips"], *self.by_source["nlu"]]
        self.copied = self.of_domains("copied_")
        self._users: dict[Pool, list[Frame]] = {}
        self.nested = [frame for frame in self.frames if _is_nested(frame)]
        self._cache: dict[int, list[StyledTool]] = {}

    def of_domains(self, beginning: str) -> list[Frame]:
        return [frame for frame in self.frames if frame.domain.startswith(beginning)]

    def forget(self) -> None:
        """Drop what was kept for speed, so that a chunk depends on nothing but its seed."""
        self._cache.clear()

    def frame(self, rng: Random) -> Frame:
        """A tool, each source by its share."""
        source = rng.choices(self.sources, self.weights)[0]
        return rng.choice(self.by_source[source])

    def words_for(self, frame: Frame) -> frozenset[str]:
        """What a tool is about; also for one that was made from another meanwhile."""
        found = self.words.get(id(frame))
        return content_words(f"{frame.name} {frame.description}") if found is None else found

    def likeness(self, one: Frame, other: Frame) -> float:
        first, second = self.words_for(one), self.words_for(other)
        union = len(first | second)
        return len(first & second) / union if union else 1.0

    def others(self, frames: Sequence[Frame], count: int, rng: Random, most: float) -> list[Frame]:
        """Further tools: near ones from the same domain, far ones; none too much alike."""
        found: list[Frame] = []
        for _ in range(count * 4):
            if len(found) == count:
                break
            near = rng.random() < 0.5
            pool = self.by_domain[rng.choice(frames).domain] if near else self.frames
            candidate = rng.choice(pool)
            known = [*frames, *found]
            if all(
                candidate is not frame
                and candidate.name != frame.name
                and self.likeness(candidate, frame) < most
                for frame in known
            ):
                found.append(candidate)
        return found

    def users_of(self, pool: Pool) -> list[Frame]:
        """Tools with written requests that take a thing of this kind, but do not find it."""
        if pool not in self._users:
            self._users[pool] = [
                frame
                for frame in self.by_source["frames"]
                if not frame.domain.startswith("lookups_")
                and frame.templates
                and any(
                    one.values == pool and one.counts is None for one in frame.parameters.values()
                )
            ]
        return self._users[pool]

    def near(self, frame: Frame, text: str, rng: Random, count: int, most: float) -> list[Frame]:
        """The tools that a ranking by words leaves beside the right one, best first."""
        words = content_words(text) | self.words[id(frame)]
        domain = self.by_domain[frame.domain]
        drawn = [*rng.sample(domain, min(len(domain), 12)), *rng.choices(self.frames, k=48)]
        fit = {
            id(other): (len(words & self.words[id(other)]), other)
            for other in drawn
            if other is not frame and other.name != frame.name
        }
        ranked = sorted(fit.values(), key=lambda pair: -pair[0])
        found: list[Frame] = []
        for _, other in ranked:
            if len(found) == count:
                break
            if all(self.likeness(other, one) < most for one in (frame, *found)):
                found.append(other)
        return found

    def styled(self, frame: Frame, house: House, rng: Random, alike: bool = False) -> StyledTool:
        """A tool that is only offered; its writing may be used again in other examples."""
        if alike:
            return style_tool(frame, house, rng)
        kept = self._cache.setdefault(id(frame), [])
        if len(kept) >= 8:
            return rng.choice(kept)
        mixed = house if rng.random() < 0.6 else pick_house(rng)
        styled = style_tool(frame, mixed, rng)
        kept.append(styled)
        return styled


def _says(frame: Frame, wanted: Callable[[Parameter], bool]) -> bool:
    return frame.source == "frames" and any(
        wanted(parameter) and parameter.counts is None for parameter in frame.parameters.values()
    )


def _is_nested(frame: Frame) -> bool:
    return any(
        "." in name or isinstance(parameter.values, Objects)
        for name, parameter in frame.parameters.items()
    )


def tool_count(rng: Random, least: int) -> int:
    """How many tools a request is offered, at least so many."""
    counts = {1: 6, 2: 21, 3: 19, 4: 17, 5: 13, 6: 8, 7: 6, 8: 5, 10: 2.5, 13: 1.5, 16: 1, 22: 0.8,
              28: 0.6}  # fmt: skip
    return max(least, rng.choices(list(counts), list(counts.values()))[0])
