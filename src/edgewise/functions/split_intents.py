"""Split a compound request into the things it asks for, without a model.

A joint ("and", "then", a comma, a full stop, …) splits only where both sides can stand alone: the
right side opens like a request, the left side has asked for something, and neither is the inside
of a value. A joint in doubt does not split: one intent with two requests still reaches the model
whole, half a value does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from edgewise.functions import narrow
from edgewise.functions.joints import Joint, Word, find_joints, read_words
from edgewise.functions.pronouns import resolve
from edgewise.functions.remember import per_toolbox
from edgewise.functions.request_words import (
    ACTION_VERBS,
    AUXILIARY,
    CONTENT_OPENERS,
    CONTENT_VERBS,
    DETERMINERS,
    FILLERS,
    NAMING,
    NOUN_VERBS,
    PERSONS,
    PREPOSITIONS,
    QUESTION_WORDS,
    RELATIVE,
    REQUEST_OPENERS,
    STATEMENT,
    SUBJECTS,
    TELLERS,
    UNFINISHED,
)
from edgewise.types.calls import Intent
from edgewise.types.messages import Tool

# A text with more characters or joints than these is a document, not a list of requests.
REQUEST_LIMIT = 8_000
JOINTS_LIMIT = 80
_SAME_AGAIN = re.compile(
    r"(?:^|[,.;!?]\s|\b(?:and|then|also)\s|\bdo\s)(?:and\s|then\s|also\s)?(?:do\s)?"
    r"(?:the\ssame(?:\sthing)?|same(?:\sthing)?|what\sabout|how\sabout|repeat\s(?:it|that))"
    r"\s(?:for|with|in|to|on|at)?\s?\w",
    re.IGNORECASE,
)
_CLOSING = frozenset("'\"”\u2019")
_ELLIPSIS = PREPOSITIONS | {"same", "again", "likewise", "ditto", "once"}
_TIME_END = re.compile(
    r"(?:\b\d{1,2}(?::\d\d)?\s*(?:[ap]\.?m\.?|o'clock)|\b\d{1,2}:\d\d|\b(?:today|tomorrow|"
    r"tonight|noon|midnight|morning|afternoon|evening|(?:mon|tues|wednes|thurs|fri|satur|sun)day))$",
    re.IGNORECASE,
)


def split(request: str, tools: Sequence[Tool] = ()) -> tuple[Intent, ...]:
    """The intents of a request in order; their spans hold every word but the connecting ones."""
    return _split(request, tools)


@per_toolbox
def _split(request: str, tools: Sequence[Tool]) -> tuple[Intent, ...]:
    spans = _spans(request, tools)
    texts = [request[start:end] for start, end in spans]
    return tuple(
        Intent(text, start, end, resolved)
        for text, (start, end), resolved in zip(texts, spans, resolve(texts), strict=True)
    )


def expected_calls(request: str, tools: Sequence[Tool] = ()) -> int:
    """How many calls the words ask for at the least; 0 for a request without words."""
    intents = split(request, tools)
    return len(intents) + sum(len(_SAME_AGAIN.findall(intent.text)) for intent in intents)


def _spans(request: str, tools: Sequence[Tool]) -> list[tuple[int, int]]:
    words = read_words(request) if len(request) <= REQUEST_LIMIT else []
    whole = (len(request) - len(request.lstrip()), len(request.rstrip()))
    if not words:
        return [whole] if request.strip() else []
    spans = []
    start = 0
    for joint in _Splitter(words, tools).splits():
        last = words[joint.left_end - 1]
        spans.append((words[start].start, last.end + len(last.after.rstrip("\n.,;"))))
        start = joint.right
    return [*spans, (words[start].start, whole[1])]


class _Splitter:
    """The judgement of each joint in one request."""

    def __init__(self, words: Sequence[Word], tools: Sequence[Tool]) -> None:
        self.words = words
        self.offered = [narrow.words_of(tool) for tool in tools]
        # A tool's own verb: what both its name and its description begin with.
        firsts = (
            (narrow.stems(tool.name)[:1], narrow.stems(tool.description)[:1]) for tool in tools
        )
        self.verbs = {name[0] for name, described in firsts if name and name == described}
        self.titled = sum(word.capital for word in words) > 0.8 * len(words)
        self.joints = list(find_joints(words))

    def splits(self) -> Iterator[Joint]:
        """The joints that split. What has not asked for anything yet belongs to what follows."""
        start = 0
        for joint in self.joints if len(self.joints) <= JOINTS_LIMIT else ():
            if self._asked(start, joint) and self._splits(start, joint):
                yield joint
                start = joint.right

    def _asked(self, start: int, joint: Joint) -> bool:
        """Whether the words before the joint ask for something complete."""
        end = joint.left_end
        last = self.words[end - 1]
        if ":" in last.after or (
            last.text in UNFINISHED and not (joint.stop and last.text == "no")
        ):
            return False
        pieces = [start, *(j.right for j in self.joints if start < j.right < end)]
        opens = [place for place in pieces if self.opens(place, end) >= 2]
        if (
            opens
            and end - opens[-1] >= 2
            and (joint.firm or not self._is_statement(opens[-1], end))
        ):
            return joint.sequence or not joint.stop or not self.offered or self._fits(start, end)
        sentence = max((j.right for j in self.joints if j.stop and j.right < end), default=start)
        sentence = max(sentence, start)
        if not self.offered or not (joint.stop or joint.sequence):
            return bool(opens) and self._fits(start, end)
        if self._is_statement(sentence, end):
            return bool(opens) and self._fits(start, end)
        if joint.sequence:
            return self._fits(start, end) or (joint.firm and end - start >= 2)
        until = self._sentence_end(joint.right)
        return self._fits(start, end) and self._best(start, end) is not self._best(
            joint.right, until
        )

    def _splits(self, start: int, joint: Joint) -> bool:
        place, until = joint.right, self._sentence_end(joint.right)
        opening = self.words[place]
        if opening.inside:
            return False
        if not (joint.stop or joint.sequence) and opening.capital and not self.titled:
            return False  # "Search and Destroy"
        strength = self.opens(place, until)
        fits = self._fits(place, until)
        if strength < 2:
            return self._splits_before_no_verb(joint, place, until, fits)
        if self._continues(start, joint, place, until):
            return False
        if opening.text in ("another", "one"):
            return self.opens(start, joint.left_end) >= 2
        if self._content(start, joint) and not joint.firm:
            return fits if self.offered else joint.sequence
        if not self.offered or joint.sequence or fits:
            return True
        # No tool says it: then it must at least be whole. "send it to Rome" may end the same call.
        whole = until - place > 2 and self.words[place + 1].text not in ("it", "them")
        return len(self.offered) > 1 and not joint.stop and whole

    def _splits_before_no_verb(self, joint: Joint, place: int, until: int, fits: bool) -> bool:
        """A noun alone, or a statement that leads in: "Also, its id is 140. Please fetch it." """
        if not self.offered or not joint.sequence or self.words[place].text in _ELLIPSIS:
            return False
        if {"same", "again", "more"} & {word.text for word in self.words[place : place + 4]}:
            return False
        if self._is_statement(place, until):
            following = next((j for j in self.joints if j.left_end == until), None)
            return (
                following is not None
                and not following.firm
                and (fits or joint.firm)
                and (self.opens(following.right, len(self.words)) >= 2)
            )
        return joint.firm or (fits and self.words[place].text not in ("a", "an", "one", "two"))

    def _sentence_end(self, place: int) -> int:
        ends = (j.left_end for j in self.joints if j.left_end > place and (j.stop or j.sequence))
        return next(ends, len(self.words))

    def opens(self, place: int, end: int) -> int:
        """3: asks in so many words; 2: a verb or question that can; 1: may; 0: does not open."""
        while place < end and self.words[place].text in FILLERS:
            place += 1
        texts = [word.text for word in self.words[place : min(place + 6, end)]]
        plain = " ".join(text for text in texts if text not in FILLERS) + " "
        if any(plain.startswith(f"{opener} ") for opener in REQUEST_OPENERS):
            return 3
        first, second = (*texts, "", "")[:2]
        if first in AUXILIARY:
            return 3 if second in (PERSONS if first[:2] == "ha" else SUBJECTS) else 0
        if first in RELATIVE:
            begins = place == 0 or bool(set(".!?\n") & set(self.words[place - 1].after))
            return 3 if second in AUXILIARY or (second and begins) else 1
        if first in QUESTION_WORDS:
            return 3 if second else 0
        if first in NOUN_VERBS:
            return 2 if self._object_follows(place, end) else 1
        if first in ACTION_VERBS or self._own_verb(first):
            return 2 if second else 1
        return 2 if self._is_ellipsis(first, second) else 0

    def _own_verb(self, word: str) -> bool:
        return narrow.stem(word) in self.verbs and not word.endswith(("er", "or", "ion", "ing"))

    def _is_ellipsis(self, first: str, second: str) -> bool:
        """ "(an alarm for 7 and) another at 8": the clause before says what."""
        return first in ("another", "one") and second in PREPOSITIONS | {"one", "more"}

    def _object_follows(self, place: int, end: int) -> bool:
        if place + 1 >= end:
            return False
        following = self.words[place + 1]
        return (
            following.text in DETERMINERS
            or following.capital
            or following.text[:1].isdigit()
            or following.inside
            or self._own_verb(self.words[place].text)
        )

    def _is_statement(self, start: int, end: int) -> bool:
        texts = [word.text for word in self.words[start:end] if word.text not in FILLERS]
        if not texts:
            return True
        opens = self.opens(start, end)
        if opens < 2:
            return bool(STATEMENT & set(texts[1:12])) or texts[0] in TELLERS
        return texts[0] in TELLERS and not self._fits(start, end)

    def _stems(self, start: int, end: int) -> list[str]:
        return narrow.stems(" ".join(word.text for word in self.words[start:end]))

    def _fits(self, start: int, end: int) -> bool:
        """Whether some tool says in its name, description or choices what these words ask for."""
        asked = set(self._stems(start, end)) - narrow.GENERIC_STEMS
        return any(
            known.weights.get(stem, 0.0) >= narrow.CHOICE_WEIGHT
            for known in self.offered
            for stem in asked
        )

    def _best(self, start: int, end: int) -> narrow.ToolWords:
        asked = set(self._stems(start, end)) - narrow.GENERIC_STEMS
        return max(
            self.offered, key=lambda known: sum(known.weights.get(stem, 0.0) for stem in asked)
        )

    def _continues(self, start: int, joint: Joint, place: int, end: int) -> bool:
        """ "… and sort by price", "…, call it Draft": more of the call that was asked for."""
        if joint.sequence or not self.offered:
            return False
        texts = [word.text for word in self.words[place : place + 2]]
        if texts[0] in NAMING and texts[1:] == ["it"]:
            return True
        verb = narrow.stem(texts[0])
        before = self._stems(start, joint.left_end)
        best = self._best(start, joint.left_end)
        elsewhere = any(
            known.weights.get(verb, 0.0) >= narrow.DESCRIPTION_WEIGHT for known in self.offered
        )
        if 0.0 < best.weights.get(verb, 0.0) < narrow.DESCRIPTION_WEIGHT and not elsewhere:
            return True
        if not self._fits(place, end) or self._best(place, end) is not best:
            return False
        # The same tool again: only where the words say so again.
        said_twice = set(before) & set(self._stems(place, end)) & set(best.weights)
        return not said_twice

    def _content(self, start: int, joint: Joint) -> bool:
        """Whether the joint stands in what somebody is to be told or reminded of."""
        left = self.words[start : joint.left_end]
        texts = [word.text for word in left]
        opened = bool(CONTENT_OPENERS & set(texts[1:])) or any(
            text in CONTENT_VERBS and len(texts) - place > 3 for place, text in enumerate(texts[:4])
        )
        closed = any(word.inside or word.after[:1] in _CLOSING for word in left if word.after)
        return opened and not closed and not _TIME_END.search(" ".join(texts[-2:]))
