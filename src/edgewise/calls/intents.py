"""What a request asks for, part by part, and what it says without asking for it. No model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from edgewise.calls.rank_tools import (
    CHOICE_WEIGHT,
    DESCRIPTION_WEIGHT,
    GENERIC_STEMS,
    ToolWords,
    assign,
    stem,
    stems,
    words_of,
)
from edgewise.calls.values.numbers import ONES, TENS, find_numbers
from edgewise.calls.values.text import read_request
from edgewise.calls.values.words import name_words, word_set
from edgewise.grammar.tools import per_toolbox
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Intent

# Words that open a request when they stand first: nobody needs to know the tools for these.
ACTION_VERBS = word_set(
    """activate add adjust alert analyse analyze answer arrange ask assign attach begin block
    broadcast browse buy calculate cancel capture categorise categorize choose clean clear close
    compare compile compose compute configure confirm connect convert create cut deactivate
    define delete deliver describe detect determine dial dim disable disconnect dismiss display
    download draft draw dump edit email enable encrypt enrol enroll enter estimate evaluate
    examine execute explain export extract fetch fill filter find fix forward generate get give
    grab help hide identify import increase increment decrease inform initiate insert install
    integrate inspect invite join keep launch let list listen locate lock log lower make measure
    merge message mix modify monitor move mute navigate notify obtain open organise organize
    pause pay perform pick ping predict prepare print provide publish pull purchase push put
    query raise read rebook recommend redo reduce refill register remind remove rename repeat
    replace reply request reschedule reserve reset resize restart resume retrieve return reverse
    review revoke run save scan scrape search select send set ship shift show shuffle shut sign
    silence simulate skip solve sort spell split start stop store stream submit subscribe
    substitute subtract suggest sum summarise summarize switch take tell terminate toggle
    transcribe transfer translate transpose trim trigger turn tune uninstall unlock unmute
    unsubscribe update upgrade upload use validate verify visit wake warn wash write arm brew
    dispatch plot fetch brief wish queue charge check play schedule"""
)
# These open a request too, but are nouns as often: what follows must look like an object.
NOUN_VERBS = word_set(
    """alarm archive back balance bill book brush call change chart chat command contact cook copy
    design dispute document drive feed file flag flip fly go guide heat hold hunt label light
    look map mark match need note order pack park phone photo pin place plan plant point post
    preview project quote rank rate record refund release report ride ring rip roll share shop
    slice snap step stock sync tag test text tip track trade train trash tweet vote walk want
    watch water weigh work rent rate load boost mail pass sell spin talk track water drop
    exchange dictate"""
)
QUESTION_WORDS = word_set(
    """what what's whats which who who's whos whom whose when when's where where's wheres why how
    how's hows is isn't are aren't was were am do does doesn't did didn't will would won't can
    could should shall may might has have had"""
)
# After these a question word or verb is an ordinary request ("can you find …").
FILLERS = word_set(
    """please pls plz kindly just now so well ok okay hey hi hello alright right uh um er oh yo
    maybe perhaps finally lastly first firstly second secondly third next afterwards also then
    too quickly quick actually again"""
)
REQUEST_OPENERS = (
    "can you", "could you", "would you", "will you", "can we", "could we", "can i", "could i",
    "i need to", "i need you to", "i need", "i want to", "i want you to", "i want", "i'd like to",
    "i'd like you to", "i'd like", "i would like to", "i would like you to", "i would like",
    "id like to", "i have to", "i must", "i wanna", "we need to", "we need", "we want to", "let's",
    "lets", "go ahead and", "help me", "be sure to", "make sure to", "make sure",
    "don't forget to", "don't forget",
    "i am looking for", "i'm looking for", "give me", "get me", "show me", "tell me", "find me",
    "let me know", "do me", "remember to",
)  # fmt: skip
DETERMINERS = word_set(
    """a an the my our your his her its their this that these those some any all every each no both
    another one two three four five six seven eight nine ten me us him them it i whether if to
    up on off out down in back away over"""
)
PREPOSITIONS = word_set(
    """in on at to for from by with without about into over under of as near around between through
    during until till before after since within via per than onto off against towards toward"""
)
# What comes after one of these is said to somebody, or is a thing to remember: it is content.
CONTENT_OPENERS = word_set("saying says say stating reading titled called named")
CONTENT_VERBS = word_set(
    """remind tell text message ask notify inform warn write note email tweet say announce
    broadcast reply answer translate quote remember send"""
)
NOT_A_NAME = word_set(
    """i i'm i'll i'd i've am pm monday tuesday wednesday thursday friday saturday sunday january
    february march april may june july august september october november december ok today
    tomorrow tonight yesterday spring summer autumn fall winter morning afternoon evening noon
    night english french german spanish italian russian chinese japanese"""
)
# Words that join: two that join values just as well, and those that say "another thing".
WEAK_WORDS = frozenset({"and", "&", "but"})
SEQUENCE = word_set(
    """then also plus afterwards afterward additionally furthermore moreover finally lastly besides
    next later"""
)
# These join only after punctuation ("next Friday", "7 plus 3").
AT_STOP_ONLY = frozenset({"next", "later", "besides", "finally", "lastly", "plus"})
ABBREVIATIONS = word_set("dr mr mrs ms st no op vs e.g i.e etc jr sr prof approx ave a.m p.m")
# Words by which a clause tells rather than asks.
STATEMENT = word_set("is are was were has have had isn't takes took lies goes looks")
AUXILIARY = word_set(
    "is isn't are aren't was were am do does doesn't did didn't will would won't can could should "
    "shall may might has have had"
)
PERSONS = word_set("i you we they he she it there anyone anybody")
RELATIVE = frozenset({"where", "which", "who", "whose", "when", "whom"})
# A left side that ends so is not over yet, or takes itself back.
UNFINISHED = word_set(
    """to for from by with without about into under of as near around between through during until
    till before after since within via per than onto against towards a an the my our your and or
    what when where which who how why go ahead try come wait sorry mean rather no"""
)
# "…, call it Draft" says more about what was asked for.
NAMING = word_set("call name title label make mark tag set keep give rate leave")
TELLERS = word_set("i i'm i've we we're we've my our")
SUBJECTS = word_set("i you we they he she it there the my our your a an this that these")
_TOKEN = re.compile(r"\S+")
_TRAILING = re.compile(r"[.,;:!?)\]\"”'\u2019]*$")
_QUOTED = re.compile(
    r"\"[^\"]*\"|“[^”]*”|«[^»]*»|`[^`]*`|\([^()]*\)|"
    r"(?<!\w)['\u2018](?=\S)(?:[^'\u2019]|['\u2019](?=\w)){0,400}['\u2019](?!\w)"
)
_PHRASES = tuple(
    tuple(phrase.split())
    for phrase in (
        "after that", "after this", "in addition", "as well as", "as well", "on top of that",
        "once done", "when done",
    )
)  # fmt: skip
_ENUMERATOR = re.compile(r"\(?\d{1,2}[.):]|[-*•]")
OBJECT_WORDS = 6
_WORD = re.compile(r"[^\s,;:!?()]+")
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][\w'\u2019-]*(?:\s+[^\W\d_a-z][\w'\u2019-]*)*")
_PLACE = re.compile(
    r"\b(?:in|at|near|around|to|from|of|for)\s+"
    r"([^\W\d_a-z][\w'\u2019-]*(?:,?\s+[^\W\d_a-z][\w'\u2019-]*)*|(?:the|my|a)\s+\w+(?:\s+\w+)?)"
)
_LOWER_PLACE = re.compile(r"\b(?:in|at|near)\s+([^\W\d]\w+)")
_CONTENT = re.compile(
    r"[:\"“«]|\b(?:" + "|".join(sorted(CONTENT_OPENERS)) + r")\b|"
    r"\bthat\s+(?!(?:to|in|for|from|on|at|with|day|time)\b)\w",
    re.IGNORECASE,
)
_TOLD = word_set("send text tell give message email ask remind show bring")
_PARTICLES = word_set("up out for me us down on off over")
_DETERMINERS = word_set("a an the my our your this that some")
_PLACE_PREPOSITIONS = frozenset({"in", "at", "near", "from", "on"})
_OPENING_WORDS = ACTION_VERBS | NOUN_VERBS | FILLERS | QUESTION_WORDS | DETERMINERS | {"there"}
_BEFORE_THERE = word_set("is are was were be hi hey hello over isn't aren't")
_GOING = word_set("go going off drive driving fly flying travel walk ride heading")
_NOT_AFTER_HER = PREPOSITIONS | {"a", "an", "the", "and", "my", "that", "i", "i'm", "i'll", "if"}
# A text with more characters or clause boundaries than these is a document, not a list of requests.
REQUEST_LIMIT = 8_000
BOUNDARIES_LIMIT = 80
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


def expected_calls(request: str, tools: Sequence[Tool] = ()) -> int:
    """How many calls the words ask for at the least; 0 for a request without words."""
    intents = split(request, tools)
    return len(intents) + sum(len(_SAME_AGAIN.findall(intent.text)) for intent in intents)


@per_toolbox
def _split(request: str, tools: Sequence[Tool]) -> tuple[Intent, ...]:
    spans = _spans(request, tools)
    texts = [request[start:end] for start, end in spans]
    return tuple(
        Intent(text, start, end, resolved)
        for text, (start, end), resolved in zip(texts, spans, resolve(texts), strict=True)
    )


def _spans(request: str, tools: Sequence[Tool]) -> list[tuple[int, int]]:
    words = read_words(request) if len(request) <= REQUEST_LIMIT else []
    whole = (len(request) - len(request.lstrip()), len(request.rstrip()))
    if not words:
        return [whole] if request.strip() else []
    spans = []
    start = 0
    for boundary in _Splitter(words, tools).splits():
        last = words[boundary.left_end - 1]
        spans.append((words[start].start, last.end + len(last.after.rstrip("\n.,;"))))
        start = boundary.right
    return [*spans, (words[start].start, whole[1])]


@dataclass(frozen=True, slots=True)
class SaidWord:
    text: str  # lower case, without the punctuation around it
    start: int
    end: int
    after: str  # the punctuation that follows, with "\n" where the line ends
    capital: bool
    inside: bool  # of quotes or brackets


@dataclass(frozen=True, slots=True)
class ClauseBoundary:
    """Words `left_end` to `right` join what is before to what is after."""

    left_end: int
    right: int
    stop: bool  # a full stop, a question mark, a semicolon or a new line
    sequence: bool  # "then", "also", ". And", ";", a new line
    firm: bool  # ". After that,", "2)": nothing else can be meant


def read_words(request: str) -> list[SaidWord]:
    quoted = [match.span() for match in _QUOTED.finditer(request)]
    words: list[SaidWord] = []
    tokens = list(_TOKEN.finditer(request))
    place = 0
    for number, token in enumerate(tokens):
        while place < len(quoted) and quoted[place][1] <= token.start():
            place += 1
        inside = place < len(quoted) and quoted[place][0] < token.end() < quoted[place][1]
        trailing = _TRAILING.search(token[0])
        after = trailing[0] if trailing else ""
        core = token[0][: len(token[0]) - len(after)]
        following = tokens[number + 1].start() if number + 1 < len(tokens) else token.end()
        line = "\n" if "\n" in request[token.end() : following] else ""
        bare = core.strip("(\"'“\u2018[:").lower().replace("\u2019", "'")
        end = token.end() - len(after)
        capital = core.lstrip("(\"'“\u2018[")[:1].isupper()
        words.append(SaidWord(bare, token.start(), end, after + line, capital, inside))
    return words


def find_clause_boundaries(words: Sequence[SaidWord]) -> Iterator[ClauseBoundary]:
    """Every place where a request might go on to another one, in order."""
    place = 1
    while place < len(words):
        before = words[place - 1]
        after = "" if before.text in ABBREVIATIONS or before.inside else before.after
        stop = any(mark in after for mark in ".!?;\n")
        right = _connecting_until(words, place, stop)
        between = {word.text for word in words[place:right]}
        if right < len(words) and (stop or "," in after or right > place):
            told = bool(between - WEAK_WORDS)
            sequence = told or (stop and bool(between)) or ";" in after or "\n" in after
            yield ClauseBoundary(place, right, stop, sequence, told and stop)
        place = right + 1


def _connecting_until(words: Sequence[SaidWord], place: int, stop: bool) -> int:
    right = place
    while right < len(words) and not words[right].inside:
        rest = tuple(word.text for word in words[right : right + 4])
        phrase = next((p for p in _PHRASES if rest[: len(p)] == p), None)
        fits = rest[0] in WEAK_WORDS | SEQUENCE
        if rest[0] in AT_STOP_ONLY and not (stop or "," in words[right - 1].after):
            fits = False
        listed = "\n" in words[right - 1].after and _ENUMERATOR.fullmatch(
            words[right].text + words[right].after[:1]
        )
        if not (phrase or fits or listed):
            break
        right += len(phrase) if phrase else 1
    return right


def resolve(texts: Sequence[str]) -> list[str]:
    """Each text with its pronouns replaced where an earlier text says by what; else as it is."""
    resolved: list[str] = []
    for text in texts:
        before = resolved[::-1]
        resolved.append(_complete(_replace(text, before), before) if before else text)
    return resolved


def _replace(text: str, before: Sequence[str]) -> str:
    """Pronouns up to where a message begins: what is said to others is left alone."""
    content = _CONTENT.search(text, 1) if text else None
    head = text[: content.start()] if content else text
    words = list(_WORD.finditer(head))
    pieces, done = [], 0
    for place, word in enumerate(words):
        said = [other[0].lower() for other in words[max(place - 1, 0) : place + 2]]
        previous = said[0] if place else ""
        following = said[-1] if place + 1 < len(words) else ""
        stands_for = _stands_for(word[0].lower(), previous, following, before)
        if stands_for:
            pieces += [text[done : word.start()], stands_for]
            done = word.end()
    return "".join([*pieces, text[done:]])


def _stands_for(word: str, previous: str, following: str, before: Sequence[str]) -> str | None:
    verb_before = previous in ACTION_VERBS | NOUN_VERBS
    if word in ("him", "them") and previous:
        return _person(before) or (_thing(before) if word == "them" else None)
    if word in ("her", "his", "their"):
        owner = word != "her" or not (
            not following or following in _NOT_AFTER_HER or previous in _TOLD
        )
        person = _person(before)
        return f"{person}'s" if person and owner else person
    if word == "it" and (verb_before or previous in PREPOSITIONS | _PARTICLES):
        return _thing(before)
    if word in ("that", "this") and verb_before and (not following or following in PREPOSITIONS):
        return _thing(before)
    if word == "there" and previous and previous not in _BEFORE_THERE:
        place = _place(before)
        if not place or previous in PREPOSITIONS - {"off"}:
            return place
        return f"to {place}" if previous in _GOING else f"in {place}"
    return None


def _person(before: Sequence[str]) -> str | None:
    for text in before:
        named = [name for name, left in _names(text) if left not in _PLACE_PREPOSITIONS]
        if named:
            return named[0]
        found = _thing([text])
        if found:
            return found
    return None


def _place(before: Sequence[str]) -> str | None:
    for text in before:
        places = [match[1].rstrip(".,") for match in _PLACE.finditer(text)]
        places += [match[1] for match in _LOWER_PLACE.finditer(text)]
        places += [name for name, _ in _names(text)]
        named = [place for place in places if place.lower() not in NOT_A_NAME]
        if named:
            return named[0]
    return None


def _names(text: str) -> list[tuple[str, str]]:
    """Capitalised words with the word before each; one that begins the text comes last."""
    names: list[tuple[str, str]] = []
    first: list[tuple[str, str]] = []
    for match in _NAME.finditer(text):
        words = match[0].removesuffix("'s").removesuffix("\u2019s").split()
        left = text[: match.start()].split()
        if not left:
            while words and words[0].lower() in _OPENING_WORDS:
                words = words[1:]
        name = " ".join(words)
        code = name.isupper() and len(name) <= 3  # EUR, USD, PM
        if name and name[0].isupper() and not code and name.lower() not in NOT_A_NAME:
            kept = names if left or len(words) < len(match[0].split()) else first
            kept.append((name, left[-1].lower() if left else ""))
    return names + first


def _thing(before: Sequence[str]) -> str | None:
    """The object of the nearest earlier verb: "the report" of "find the report from Monday"."""
    for text in before:
        quoted = re.search(r"\"[^\"]+\"|“[^”]+”|'[^']+'(?!\w)", text)
        if quoted:
            return quoted[0]
        _, rest = _verb_and_rest(text)
        words: list[str] = []
        for match in _WORD.finditer(rest):
            if match[0].lower() in PREPOSITIONS or len(words) == OBJECT_WORDS:
                break
            words.append(match[0])
        if words and words[-1].lower() not in _DETERMINERS | _PARTICLES:
            return " ".join(words).rstrip(".")
    return None


def _verb_and_rest(text: str) -> tuple[str, str]:
    """The words up to and with the first verb and its particles, and what comes after."""
    words = list(_WORD.finditer(text))
    place = 0
    while place < len(words) and words[place][0].lower() in FILLERS:
        place += 1
    said = " ".join(word[0].lower() for word in words[place:])
    opener = next((o for o in REQUEST_OPENERS if said.startswith(f"{o} ")), "")
    place += len(opener.split())
    if place >= len(words) or words[place][0].lower() not in ACTION_VERBS | NOUN_VERBS:
        return "", ""
    place += 1
    while place < len(words) and words[place][0].lower() in _PARTICLES:
        place += 1
    cut = words[place].start() if place < len(words) else len(text)
    return text[:cut], text[cut:]


def _complete(text: str, before: Sequence[str]) -> str:
    """ "another for 8" after "set an alarm for 7": "set an alarm for 8"."""
    ellipsis = re.match(r"(?:another|one)(?:\s+(?:one|more))?\s+(?=\w)", text, re.IGNORECASE)
    if ellipsis is None:
        return text
    verb, _ = _verb_and_rest(before[0])
    thing = _thing(before[:1])
    return f"{verb}{thing} {text[ellipsis.end() :]}" if verb and thing else text


class _Splitter:
    """Judges each clause boundary of one request."""

    def __init__(self, words: Sequence[SaidWord], tools: Sequence[Tool]) -> None:
        self.words = words
        self.offered = [words_of(tool) for tool in tools]
        # A tool's own verb: what both its name and its description begin with.
        firsts = ((stems(tool.name)[:1], stems(tool.description)[:1]) for tool in tools)
        self.verbs = {name[0] for name, described in firsts if name and name == described}
        self.titled = sum(word.capital for word in words) > 0.8 * len(words)
        self.boundaries = list(find_clause_boundaries(words))

    def splits(self) -> Iterator[ClauseBoundary]:
        """The boundaries that split. Words that ask for nothing yet belong to what follows."""
        start = 0
        for boundary in self.boundaries if len(self.boundaries) <= BOUNDARIES_LIMIT else ():
            if self._asked(start, boundary) and self._splits(start, boundary):
                yield boundary
                start = boundary.right

    def _asked(self, start: int, boundary: ClauseBoundary) -> bool:
        """Whether the words before the boundary ask for something complete."""
        end = boundary.left_end
        last = self.words[end - 1]
        if ":" in last.after or (
            last.text in UNFINISHED and not (boundary.stop and last.text == "no")
        ):
            return False
        pieces = [start, *(one.right for one in self.boundaries if start < one.right < end)]
        opens = [place for place in pieces if self.opens(place, end) >= 2]
        if (
            opens
            and end - opens[-1] >= 2
            and (boundary.firm or not self._is_statement(opens[-1], end))
        ):
            return (
                boundary.sequence or not boundary.stop or not self.offered or self._fits(start, end)
            )
        sentence = max(
            (one.right for one in self.boundaries if one.stop and one.right < end), default=start
        )
        sentence = max(sentence, start)
        if not self.offered or not (boundary.stop or boundary.sequence):
            return bool(opens) and self._fits(start, end)
        if self._is_statement(sentence, end):
            return bool(opens) and self._fits(start, end)
        if boundary.sequence:
            return self._fits(start, end) or (boundary.firm and end - start >= 2)
        until = self._sentence_end(boundary.right)
        return self._fits(start, end) and self._best(start, end) is not self._best(
            boundary.right, until
        )

    def _splits(self, start: int, boundary: ClauseBoundary) -> bool:
        place, until = boundary.right, self._sentence_end(boundary.right)
        opening = self.words[place]
        if opening.inside:
            return False
        if not (boundary.stop or boundary.sequence) and opening.capital and not self.titled:
            return False  # "Search and Destroy"
        strength = self.opens(place, until)
        fits = self._fits(place, until)
        if strength < 2:
            return self._splits_before_no_verb(boundary, place, until, fits)
        if self._continues(start, boundary, place, until):
            return False
        if opening.text in ("another", "one"):
            return self.opens(start, boundary.left_end) >= 2
        if self._content(start, boundary) and not boundary.firm:
            return fits if self.offered else boundary.sequence
        if not self.offered or boundary.sequence or fits:
            return True
        # No tool says it: then it must at least be whole. "send it to Rome" may end the same call.
        whole = until - place > 2 and self.words[place + 1].text not in ("it", "them")
        return len(self.offered) > 1 and not boundary.stop and whole

    def _splits_before_no_verb(
        self, boundary: ClauseBoundary, place: int, until: int, fits: bool
    ) -> bool:
        """A noun alone, or a statement that leads in: "Also, its id is 140. Please fetch it." """
        if not self.offered or not boundary.sequence or self.words[place].text in _ELLIPSIS:
            return False
        if {"same", "again", "more"} & {word.text for word in self.words[place : place + 4]}:
            return False
        if self._is_statement(place, until):
            following = next((one for one in self.boundaries if one.left_end == until), None)
            return (
                following is not None
                and not following.firm
                and (fits or boundary.firm)
                and (self.opens(following.right, len(self.words)) >= 2)
            )
        return boundary.firm or (fits and self.words[place].text not in ("a", "an", "one", "two"))

    def _sentence_end(self, place: int) -> int:
        ends = (
            one.left_end
            for one in self.boundaries
            if one.left_end > place and (one.stop or one.sequence)
        )
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
        return stem(word) in self.verbs and not word.endswith(("er", "or", "ion", "ing"))

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
        return stems(" ".join(word.text for word in self.words[start:end]))

    def _fits(self, start: int, end: int) -> bool:
        """Whether some tool says in its name, description or choices what these words ask for."""
        asked = set(self._stems(start, end)) - GENERIC_STEMS
        return any(
            known.weights.get(root, 0.0) >= CHOICE_WEIGHT
            for known in self.offered
            for root in asked
        )

    def _best(self, start: int, end: int) -> ToolWords:
        asked = set(self._stems(start, end)) - GENERIC_STEMS
        return max(
            self.offered, key=lambda known: sum(known.weights.get(root, 0.0) for root in asked)
        )

    def _continues(self, start: int, boundary: ClauseBoundary, place: int, end: int) -> bool:
        """ "… and sort by price", "…, call it Draft": more of the call that was asked for."""
        if boundary.sequence or not self.offered:
            return False
        texts = [word.text for word in self.words[place : place + 2]]
        if texts[0] in NAMING and texts[1:] == ["it"]:
            return True
        verb = stem(texts[0])
        before = self._stems(start, boundary.left_end)
        best = self._best(start, boundary.left_end)
        elsewhere = any(
            known.weights.get(verb, 0.0) >= DESCRIPTION_WEIGHT for known in self.offered
        )
        if 0.0 < best.weights.get(verb, 0.0) < DESCRIPTION_WEIGHT and not elsewhere:
            return True
        if not self._fits(place, end) or self._best(place, end) is not best:
            return False
        # The same tool again: only where the words say so again.
        said_twice = set(before) & set(self._stems(place, end)) & set(best.weights)
        return not said_twice

    def _content(self, start: int, boundary: ClauseBoundary) -> bool:
        """Whether the boundary stands in what somebody is to be told or reminded of."""
        left = self.words[start : boundary.left_end]
        texts = [word.text for word in left]
        opened = bool(CONTENT_OPENERS & set(texts[1:])) or any(
            text in CONTENT_VERBS and len(texts) - place > 3 for place, text in enumerate(texts[:4])
        )
        closed = any(word.inside or word.after[:1] in _CLOSING for word in left if word.after)
        return opened and not closed and not _TIME_END.search(" ".join(texts[-2:]))


# -- how a request is said -------------------------------------------------------------------------

_HESITATION = re.compile(
    r"(?<![\w'-])(?:(?:uh|uhm|erm|hmm+|hm)(?![\w'-])(?! (?:oh|huh)\b)|"
    # In German "um 7" is a time.
    r"(?:(?<=^)|(?<=, )|(?<=so )|(?<=okay )|(?<=and )|(?<=like ))um\b(?!\s+\d))[,.\s]*",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\s.!]*$")
_HALF_OF_DAY = re.compile(r"\b[ap]\.m$", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|\d+")


def as_written(said: str) -> str:
    """The request as most are written: a capital, a mark at its end, and no "um".

    Speech comes with or without a full stop, and an answer may not hang on it. Words that may be
    copied are not touched: nothing follows a name of a file, and a quotation keeps its end.
    """
    if len(said) > REQUEST_LIMIT or "\n" in said.strip() or not said.strip():
        return said
    text = said.strip()
    if not _QUOTED.search(text):
        text = _HESITATION.sub("", text) or text
    first = text.split(maxsplit=1)[0]
    if _PLAIN_WORD.fullmatch(first.rstrip(",")) and first.islower():
        text = text[0].upper() + text[1:]
    if text.endswith("?"):
        return text
    text = _MARKS.sub("", text)
    if _HALF_OF_DAY.search(text):
        return f"{text}."
    if not _PLAIN_WORD.fullmatch(text.split()[-1] if text else ""):
        return text or said
    asking = first.lower().rstrip(",") in QUESTION_WORDS
    return text + ("?" if asking else ".")


# -- what a request holds back ---------------------------------------------------------------------
#
# Negated, taken back, or merely considered: "turn off the lights, don't dim them" asks for the
# first and holds back the second. Words that are to be told to somebody ("text Tom: don't wait")
# hold nothing back, and neither does what only sounds like it ("don't forget to", "why don't you").

Kind = Literal["negated", "retracted", "considered"]

_DASHES = re.compile(r"\s+[-\u2013\u2014]+\s+|\s*(?:\.\.\.|\u2026|\u2014)\s*")
_OPENING = (FILLERS | word_set("and but or so because since yes yeah yep sorry thanks")) - word_set(
    "just maybe perhaps"
)
_NOT = r"(?:don't|dont|do not)"
# What is said after "do not" and still asks for something, or says nothing about doing.
_HARMLESS = (
    r"(?:forget|hesitate|worry|mind|you|disturb|know|think|care|see|remember|believe|understand|"
    r"get|only|just|have|be|let me|make me|stop until)\b"
)
_FEARED = r"(?:miss|forget|be|oversleep|lose|run|wait|have|get)\b"  # "I don't want to be late"
_NEGATED = re.compile(
    rf"(?:just |maybe |perhaps )*(?:{_NOT} (?!{_HARMLESS})|never (?!mind\b)|"
    rf"(?:could|can|would|will) you (?:please )?not (?!{_HARMLESS})|"
    rf"(?:you )?(?:mustn't|must not|shouldn't|should not|needn't|need not) |"
    rf"(?:there's |there is )?no need to |refrain from |under no circumstances (?:should you )?|"
    rf"(?:avoid|stop|hold off(?: on)?|wait before) (?=[a-z]+ing\b)|"
    rf"let's not |let us not |(?:(?:i|we|you)(?:'d| had) )?better not |"
    rf"(?:i|we) (?:won't|will not|wouldn't|would not|shouldn't|should not) (?!{_FEARED})|"
    rf"(?:i|we) (?:{_NOT} think|never (?:said|asked|wanted)|didn't (?:say|ask|want)|"
    rf"did not (?:say|ask|want)) (?:you )?(?:to|(?:i|we|you) (?:should|want to|need to)) |"
    rf"(?:i|we) {_NOT} (?:want|need) (?:you )?to (?!{_FEARED})|"
    rf"(?:i'd|i would|we'd|we would) rather (?:not|you didn't) )(?P<rest>.+)"
)
# What stands for the request before it: "don't do it yet", "don't send it", "don't".
_THAT = re.compile(
    rf"(?:just |please )*{_NOT}(?: (?:actually|really|just|even))*(?: (?P<verb>[a-z]+)"
    r"(?: (?:it|that|this|them|anything|so|one|(?:any|either|all) of (?:it|that|them)))?)?"
    r"(?P<yet>(?: just| quite)? yet| (?:right |for |just )?now)?"
    r"(?: (?:please|though|after all|today|actually|anymore))*"
)
_RETRACTED = re.compile(
    r"(?:never ?mind(?: (?:that|it|about .+))?|"
    r"forget (?:it|that|about (?:it|that))|scratch that|strike that|no wait|wait no|wait|"
    r"hold on|hold off|on second thoughts?|no|not|not (?:just |quite )?yet|"
    r"not (?:right |just |for )?now|not today|(?:but |only )?if i (?:confirm|agree|say so)|"
    r"ask me first|i'm not sure|i am not sure|(?:maybe|perhaps|rather) not|(?:maybe|perhaps) later|"
    r"i (?:take|took) (?:it|that) back|(?:i )?changed my mind|just kidding)(?: please)?"
)
_WEIGHED = r"(?:good idea|bad idea|wise|wiser|smart|smarter|better|best|okay|ok|worth it|safe)"
_CONSIDERED = re.compile(
    r"(?:(?:i|we) (?:might|may) (?:also |still |just |even )?(?!be\b|have\b(?! to\b))[a-z]|"
    r"(?:(?:i'm|i am|we're|we are|i was|i've been|i have been)(?: just| still| only| also)* )?"
    r"(?:thinking (?:of|about)|considering|contemplating|debating|toying with|tempted to|"
    r"wondering (?:if|whether) (?:i|we) should|(?:not sure|unsure) (?:if|whether) (?:i|we|to))|"
    r"(?:i|we) (?:was|were) (?:about|going) to |(?:i|we) wonder (?:if (?:i|we) should|whether)|"
    r"(?:do you think|had) (?:i|we) (?:should|better)|ask me before |"
    r"(?:should|shall) (?:i|we)\b|what (?:would|will|might|could) happen (?:if|when)|"
    r"what happens (?:if|when)|what if (?:i|we)\b|(?:suppose|imagine|say) (?:i|we)\b|"
    r"if (?:i|we) were to|(?:(?:would|will) it be|is it) (?:a )?" + _WEIGHED + r"\b|"
    r"(?:maybe|perhaps) (?:i|we)(?:'ll| will| should| could| might)?\b|"
    r"(?:i|we) (?:haven't|have not) decided|(?:i|we) (?:don't|do not) know (?:if|whether) (?:i|we)|"
    r"let me think about|i'll think about)"
)
# Verbs that every request may be taken up with: "write to Bob, but don't send it".
_ANY_ACT = word_set("do send submit proceed")
# "I am thinking of cancelling it. Yes, do it."
_AFTER_ALL = re.compile(r"(?:go ahead|do (?:it|that|so)|please do|let's do (?:it|that))\b.*")
# Tools whose own work is to undo or keep off: they do what "don't remind me any more" asks for.
_UNDOING = word_set(
    """cancel delete remove disable stop mute block deactivate dismiss unset off close lock pause
    silence decline reject clear unsubscribe avoid skip ignore never nevermind dnd disturb"""
)
# What such tools undo. Who keeps it from being done asks for less than that: "don't turn it on"
# turns nothing off, "don't leave it on" does.
_UNDONE = {
    "close": "open", "deactivate": "activate", "disable": "enable", "lock": "unlock",
    "off": r"(?:turn|switch|put|power)\b.* on", "stop": "start|begin", "unsubscribe": "subscribe",
}  # fmt: skip
_ENDED = _UNDOING | word_set("closed disabled locked muted paused stopped deactivated inactive")
_LASTS = re.compile(rf"(?:just |please )*(?:{_NOT}|never) (?:leave|keep|let)\b|stop [a-z]+ing\b")
_ANY_MORE = re.compile(r"\bany ?(?:more|longer)\b")
_NOT_YET = re.compile(r"\byet\b|\b(?:right|just) now\b")
# The first verb of a tool that changes nothing: asking whether is a reason to look it up.
_LOOKS_UP = word_set(
    """get find search look lookup check show list read fetch query view see tell count calculate
    compute convert compare describe explain translate track locate recommend suggest estimate
    predict detect analyse analyze determine evaluate retrieve return returns provide identify"""
)
_LEAST_SAID = 8  # letters; fewer stand in other words
_LOOKING_STEMS = frozenset(map(stem, _LOOKS_UP))
_VERB_STEMS = _LOOKING_STEMS | frozenset(map(stem, ACTION_VERBS | NOUN_VERBS))


@dataclass(frozen=True, slots=True)
class _Clause:
    text: str
    plain: str  # lower case, without what opens it
    sentence: int
    told: bool  # the sentence has begun to say what somebody is to be told
    last: bool  # of its sentence
    kind: Kind | None = None
    cue: str = ""


def held_back(call: ToolCall, request: str, tools: Sequence[Tool]) -> str:
    """The words by which a request holds a call back; empty if it asks for the call."""
    clauses = _read(request) if len(request) <= REQUEST_LIMIT else ()
    held = [clause for clause in clauses if clause.kind]
    tool = next((each for each in tools if each.name == call.name), None)
    if tool is not None and clauses and (undone := _says_the_opposite(tool, call, request)):
        return undone
    if not held or tool is None or _does_what_is_not_wanted(tool, held):
        return ""
    held = [clause for clause in held if not _is_for(tool, clause) and not _ends_it(call, clause)]
    if _only_looks_up(tool):
        held = [clause for clause in held if clause.kind != "considered"]
    rest = ". ".join(clause.text for clause in clauses if not clause.kind and clause.plain)
    for clause in held:
        texts = [read_request(rest), read_request(clause.text)]
        nearer = not rest or assign([call], {tool.name: tool}, texts) == (1,)
        # Beside what is asked for, "don't use highways" says how, not what.
        if nearer and (not rest or clause.kind != "negated" or _is_named_in(tool, clause)):
            return clause.cue
    return ""


def _says_the_opposite(tool: Tool, call: ToolCall, request: str) -> str:
    """The word that asks a tool for what undoes its work: "unmute", where one can only mute.

    A tool that knows the word, or that is told what to do, may serve it.
    """
    own = {*name_words(tool.name), *name_words(tool.description)}
    told = any(isinstance(value, bool) for value in call.arguments.values())
    said = request.split()
    plain = [word.strip(".,;:!?").lower() for word in said]
    named = set(name_words(tool.name)).difference(plain)
    undone = (prefix + word for prefix in ("un", "dis", "de") for word in named if len(word) > 2)
    found = next((word for word in undone if word in plain and word not in own), "")
    return said[plain.index(found)].strip(".,;:!?") if found and not told else ""


def _is_for(tool: Tool, clause: _Clause) -> bool:
    """Whether a tool is what one calls for these very words: "never mind"."""
    said = "".join(clause.plain.split())
    own = "".join(f"{tool.name} {tool.description}".lower().split())
    return len(said) >= _LEAST_SAID and said in own


def _is_named_in(tool: Tool, clause: _Clause) -> bool:
    """Whether the tool says of itself what the clause begins with: its verb."""
    found = _NEGATED.match(clause.plain)
    verb = (found["rest"] if found else clause.plain).split()[:2]
    weights = words_of(tool).weights
    return any(weights.get(stem(word), 0.0) >= DESCRIPTION_WEIGHT for word in verb)


def _does_what_is_not_wanted(tool: Tool, held: Sequence[_Clause]) -> bool:
    undoes = _UNDOING.intersection(name_words(tool.name))
    if any(clause.kind != "negated" or _only_keeps(clause, undoes) for clause in held):
        return False
    said = {word for clause in held for word in clause.text.lower().split()}
    roots = {stem(word) for word in said}
    own = {stem(word) for word in undoes}
    return bool(undoes) and own.isdisjoint(roots)


def _ends_it(call: ToolCall, clause: _Clause) -> bool:
    """Whether the words want something ended, and the call's value ends it: "don't leave it on"."""
    values = [value for value in call.arguments.values() if isinstance(value, str | bool)]
    ends = any(value is False or str(value).lower() in _ENDED for value in values)
    return ends and clause.kind == "negated" and bool(_LASTS.match(clause.plain))


def _only_keeps(clause: _Clause, undoes: Set[str]) -> bool:
    """Whether the words only keep from being done what a tool undoes: "don't open it yet"."""
    if _NOT_YET.search(clause.plain):
        return True
    found = _NEGATED.match(clause.plain)
    rest = found["rest"] if found else clause.plain
    acts = "|".join(_UNDONE[word] for word in undoes & _UNDONE.keys())
    return bool(acts and re.match(rf"(?:{acts})\b", rest)) and not _ANY_MORE.search(rest)


def _only_looks_up(tool: Tool) -> bool:
    for words in (name_words(tool.name), name_words(tool.description)[:6]):
        first = next((root for word in words if (root := stem(word)) in _VERB_STEMS), "")
        if first:
            return first in _LOOKING_STEMS
    return False


@lru_cache(maxsize=256)
def _read(request: str) -> tuple[_Clause, ...]:
    """The clauses of a request, those that are held back with the words that do it."""
    clauses: list[_Clause] = []
    for clause in _clauses(_DASHES.sub(", ", request)):
        _note(clauses, clause)
    return tuple(clauses)


def _clauses(request: str) -> list[_Clause]:
    words = read_words(request)
    spans, sentences, start, sentence = [], [], 0, 0
    for boundary in find_clause_boundaries(words):
        spans.append((start, boundary.left_end))
        sentences.append(sentence)
        start, sentence = boundary.right, sentence + boundary.stop
    spans.append((start, len(words)))
    sentences.append(sentence)
    found = []
    for place, (begin, end) in enumerate(spans):
        number = sentences[place]
        first = spans[sentences.index(number)][0]
        before = {word.text for word in words[first:begin]}
        told = bool(before & (CONTENT_VERBS | CONTENT_OPENERS))
        text = request[words[begin].start : words[end - 1].end] if begin < end else ""
        last = number not in sentences[place + 1 :]
        found.append(_Clause(text, _plain(words[begin:end]), number, told, last))
    return found


def _plain(words: Sequence[SaidWord]) -> str:
    """The words without what opens them; nothing where they stand in quotes."""
    place = 0
    while place < len(words) and words[place].text in _OPENING:
        place += 1
    if place + 1 < len(words) and words[place].text == "no" and words[place + 1].text != "need":
        place += 1
    words = words[place:]
    return "" if words and words[0].inside else " ".join(word.text for word in words)


def _note(clauses: list[_Clause], clause: _Clause) -> None:
    """Add a clause, and hold back what it holds back."""
    plain, before = clause.plain, [one for one in clauses if one.plain]
    that = _THAT.fullmatch(plain)
    if _AFTER_ALL.fullmatch(plain):
        clauses[:] = [
            replace(one, kind=None, cue="") if one.kind == "considered" else one for one in clauses
        ]
    elif before and that is not None and _means_the_one_before(that, before[-1]):
        clause = _hold(clauses, clause, verb="" if that["verb"] in _ANY_ACT else that["verb"])
    elif _RETRACTED.fullmatch(plain) and (before or len(plain.split()) > 1):
        clause = _hold(clauses, clause, whole=clause.last)
    elif not clause.told and _NEGATED.match(plain) and not _is_title(clause):
        clause = replace(clause, kind="negated", cue=clause.text)
    elif not clause.told and _CONSIDERED.match(plain):
        clause = replace(clause, kind="considered", cue=clause.text)
    clauses.append(clause)


def _means_the_one_before(that: re.Match[str], before: _Clause) -> bool:
    verb = that["verb"]
    return verb in (None, *_ANY_ACT) or bool(that["yet"]) or stem(verb) in _stems(before)


def _is_title(clause: _Clause) -> bool:
    """ "Don't Stop Me Now" is a song."""
    words = clause.text.split()[1:]
    return len(words) > 1 and all(word[:1].isupper() for word in words)


def _hold(
    clauses: list[_Clause], by: _Clause, *, whole: bool = True, verb: str | None = None
) -> _Clause:
    """Hold back what a clause takes back: the one with its verb, else the sentence before it.

    Not `whole`: something follows in its stead, so the clause before it alone.
    """
    places = [place for place, one in enumerate(clauses) if one.plain]
    named = [place for place in places if verb and stem(verb) in _stems(clauses[place])]
    last = clauses[places[-1]].sentence if places else 0
    sentence = [place for place in places if clauses[place].sentence == last]
    for place in named[-1:] or (sentence if whole else places[-1:]):
        clauses[place] = replace(clauses[place], kind="retracted", cue=by.text)
    return replace(by, kind="retracted", cue=by.text)


def _stems(clause: _Clause) -> set[str]:
    return {stem(word) for word in clause.plain.split()}


# -- what a request puts right ---------------------------------------------------------------------

_PUT_RIGHT = re.compile(
    r"(?:(?:,|\s[-\u2013\u2014]|\.\.\.?)\s*|\s)"
    r"(?P<cue>(?:oh |ah |uh |um )?(?:no,? wait|wait,? no|no,? sorry|sorry,? no|no,? actually|"
    r"actually,? no|no,? make|scratch that|i mean|i meant|make (?:that|it)|or rather|"
    r"(?<=, )(?:no|wait|sorry|actually|rather)))\b[,\s]*(?P<right>[^.!?;]+)",
    re.IGNORECASE,
)
_LOUD = re.compile(
    r"\b(?:no,? wait|wait,? no|make (?:that|it)|scratch that|i meant?)\b", re.IGNORECASE
)
_TAKES_BACK = re.compile(
    r"\b(?:no|wait|sorry|actually|mean|meant|rather|scratch|that)\b", re.IGNORECASE
)
# "make that twenty", "for 5 people please": what may stand around a number that puts one right.
_SPELLED = "|".join([*ONES, *TENS])
_NEW_NUMBER = re.compile(
    r"(?:(?:no|wait|sorry|actually|rather|make|it|that)\b[,\s]*)*"
    r"(?:(?P<joint>to|for|at|in|by)\s+)?"
    rf"(?P<number>[$€£]?(?:\d[\d.,]*(?<=\d)|(?:{_SPELLED})(?:[\s-](?:{_SPELLED}|hundred|and))*))"
    r"(?P<unit>\s*(?:%|°\s?[CF]?)|[ap]m|\s+(?!please|instead|thanks)[^\W\d]+|)"
    r"(?:,?\s(?:please|instead|thanks|thank you))*",
    re.IGNORECASE,
)
_OF_PERCENT = re.compile(r"\s*(?:%|per ?cent|pct)$", re.IGNORECASE)
_CLOCK = re.compile(r"\d:\d")
_LONGEST_RIGHT = 8  # words
_SAYS_LITTLE = (
    FILLERS
    | PREPOSITIONS
    | ACTION_VERBS
    | word_set("a an the my it that no wait sorry i mean or and")
)


def as_meant(said: str) -> str:
    """A request with its number put right: "5 minutes, no wait, make that 8" is for 8 minutes.

    Only where a number alone puts right the only one that it can mean: the rest is for a model.
    """
    found = _PUT_RIGHT.search(said) if len(said) <= REQUEST_LIMIT else None
    if found is None or not _TAKES_BACK.search(found["cue"]) or _QUOTED.search(said):
        return said
    left, right = said[: found.start()], found["right"].strip()
    lead = _NEW_NUMBER.fullmatch(right)
    new = next(find_numbers(right), None) if lead else None
    if lead is None or new is None or new.start != lead.start("number") or _CLOCK.search(said):
        return said
    unit = "%" if new.kind == "percent" else stem(lead["unit"].strip())
    old = [
        one
        for one in find_numbers(left)
        if not unit or not one.unit or stem(one.unit) in (unit, unit[:1])
    ]
    if (joint := (lead["joint"] or "").lower()) and len(old) > 1:
        old = [one for one in old if left[: one.start].lower().endswith(f" {joint} ")]
    if len(old) != 1:
        return said
    number, end = _OF_PERCENT.sub("", right[new.start :][: new.end - new.start]), old[0].end
    if kept := _OF_PERCENT.search(old[0].text):
        end -= len(kept[0])
    elif unit and not old[0].unit:
        number += lead["unit"]
    return left[: old[0].start] + number + left[end:] + said[found.end() :]


def left_wrong(call: ToolCall, request: str, others: Sequence[ToolCall] = ()) -> str:
    """The words that put a request right which this call has not understood; empty if none.

    "Five minutes, no, make that eight": a call for five, or with "make that eight" in a text, is
    not what is wanted. `others` are the calls made beside it: what is put right may be theirs, if
    they are of another tool.
    """
    found = _PUT_RIGHT.search(request) if len(request) <= REQUEST_LIMIT else None
    if found is None or len(found["right"].split()) > _LONGEST_RIGHT:
        return ""
    cue = " ".join(found["cue"].split())
    values = [one for value in call.arguments.values() for one in _texts(value)]
    if any(_LOUD.search(value) for value in values):
        return cue
    new = _says(found["right"]) - _says(request[: found.start()])
    if not new or any(new & _says(value) for value in values):
        return ""
    served = (
        value
        for other in others
        if other.name != call.name
        for argument in other.arguments.values()
        for value in _texts(argument)
    )
    return "" if any(new & _says(value) for value in served) else cue


def _says(text: str) -> set[str]:
    """Its words that are values, and its numbers however they are written."""
    read = read_request(text)
    numbers = {str(one.value) for one in read.found if isinstance(one.value, int | float)}
    numbers |= {f"{key:g}" for key, one in read.numbers.items() if one.score == 1.0}
    return numbers | {stem(word) for word in read.spaced.split() if word not in _SAYS_LITTLE}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, float):
        yield f"{value:g}"
    else:
        yield str(value)
