"""Splits a compound request into the things it asks for, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgewise.calls import rank_tools
from edgewise.calls.memory import per_toolbox
from edgewise.calls.values.words import word_set
from edgewise.types.calls import Intent
from edgewise.types.messages import Tool

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
class Word:
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


def read_words(request: str) -> list[Word]:
    quoted = [match.span() for match in _QUOTED.finditer(request)]
    words: list[Word] = []
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
        words.append(Word(bare, token.start(), end, after + line, capital, inside))
    return words


def find_clause_boundaries(words: Sequence[Word]) -> Iterator[ClauseBoundary]:
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


def _connecting_until(words: Sequence[Word], place: int, stop: bool) -> int:
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

    def __init__(self, words: Sequence[Word], tools: Sequence[Tool]) -> None:
        self.words = words
        self.offered = [rank_tools.words_of(tool) for tool in tools]
        # A tool's own verb: what both its name and its description begin with.
        firsts = (
            (rank_tools.stems(tool.name)[:1], rank_tools.stems(tool.description)[:1])
            for tool in tools
        )
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
        return rank_tools.stem(word) in self.verbs and not word.endswith(("er", "or", "ion", "ing"))

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
        return rank_tools.stems(" ".join(word.text for word in self.words[start:end]))

    def _fits(self, start: int, end: int) -> bool:
        """Whether some tool says in its name, description or choices what these words ask for."""
        asked = set(self._stems(start, end)) - rank_tools.GENERIC_STEMS
        return any(
            known.weights.get(stem, 0.0) >= rank_tools.CHOICE_WEIGHT
            for known in self.offered
            for stem in asked
        )

    def _best(self, start: int, end: int) -> rank_tools.ToolWords:
        asked = set(self._stems(start, end)) - rank_tools.GENERIC_STEMS
        return max(
            self.offered, key=lambda known: sum(known.weights.get(stem, 0.0) for stem in asked)
        )

    def _continues(self, start: int, boundary: ClauseBoundary, place: int, end: int) -> bool:
        """ "… and sort by price", "…, call it Draft": more of the call that was asked for."""
        if boundary.sequence or not self.offered:
            return False
        texts = [word.text for word in self.words[place : place + 2]]
        if texts[0] in NAMING and texts[1:] == ["it"]:
            return True
        verb = rank_tools.stem(texts[0])
        before = self._stems(start, boundary.left_end)
        best = self._best(start, boundary.left_end)
        elsewhere = any(
            known.weights.get(verb, 0.0) >= rank_tools.DESCRIPTION_WEIGHT for known in self.offered
        )
        if 0.0 < best.weights.get(verb, 0.0) < rank_tools.DESCRIPTION_WEIGHT and not elsewhere:
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
