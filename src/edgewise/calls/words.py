"""Words as they are compared, and the small closed classes of English that shape a request."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_ENDINGS = (
    ("ies", "y"), ("sses", "ss"), ("ings", ""), ("ing", ""), ("edly", ""), ("ed", ""), ("ly", ""),
    ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("s", ""), ("e", ""),
)  # fmt: skip


def fold(text: str) -> str:
    """Lower case without accents: `Älvsjö` becomes `alvsjo`."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in apart if not unicodedata.combining(letter)).casefold()


def spaced(text: str) -> str:
    """The folded words with single spaces between and around: ` new york `, to search in."""
    inner = _NOT_ALPHANUMERIC.sub(" ", fold(text.replace("'", "").replace("\u2019", ""))).strip()
    return f" {inner} " if inner else " "


def words(text: str) -> list[str]:
    return spaced(text).split()


def name_words(name: str) -> list[str]:
    """The words in an identifier: `maxPrice_eur` has three."""
    return words(_CAMEL.sub(" ", name))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word without its ending. Crude on purpose: it only has to bring inflections together.

    Values are compared by it, so it cuts less than `narrow.stem`, for which `add` is `create`.
    """
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            root = word[: len(word) - len(ending)] + instead
            if ending in ("ing", "ed", "ings") and len(root) > 3 and root[-1] == root[-2]:
                root = root[:-1]
            return root.removesuffix("e") if len(root) > 3 else root
    return word


def stems(text: str) -> list[str]:
    return [stem(word) for word in words(text)]


def tokens(text: str) -> list[tuple[str, int, int]]:
    """Each word's stem with where it stands."""
    return [(stem("".join(words(match.group()))), *match.span()) for match in WORD.finditer(text)]


def locate(phrase: str, among: Sequence[tuple[str, int, int]]) -> tuple[int, int] | None:
    """Where the words of a phrase stand side by side in a tokenised text, inflected or not."""
    wanted = [root for root, _, _ in tokens(phrase)]
    if not wanted:
        return None
    for index in range(len(among) - len(wanted) + 1):
        if among[index][0] == wanted[0]:
            here = among[index : index + len(wanted)]
            if [root for root, _, _ in here] == wanted:
                return here[0][1], here[-1][2]
    return None


def distance(first: Sequence[str], second: Sequence[str], limit: int) -> int:
    """How many edits lie between two texts (a swap of neighbours counts one), `limit + 1` if more.

    Only the diagonal band of width `limit` is computed, so the cost is linear in the length.
    """
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    before: dict[int, int] = {}
    row = {column: column for column in range(min(limit, len(second)) + 1)}
    for line in range(1, len(first) + 1):
        older, before, row = before, row, {}
        for column in range(max(0, line - limit), min(len(second), line + limit) + 1):
            if column == 0:
                row[0] = line
                continue
            same = first[line - 1] == second[column - 1]
            best = min(
                before.get(column, limit) + 1,
                row.get(column - 1, limit) + 1,
                before.get(column - 1, limit) + (not same),
            )
            if line > 1 and column > 1 and _swapped(first, second, line, column):
                best = min(best, older.get(column - 2, limit) + 1)
            row[column] = best
        if min(row.values()) > limit:
            return limit + 1
    return min(row.get(len(second), limit + 1), limit + 1)


def _swapped(first: Sequence[str], second: Sequence[str], line: int, column: int) -> bool:
    return first[line - 1] == second[column - 2] and first[line - 2] == second[column - 1]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
NUMBER_WORDS = word_set(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty
    ninety hundred thousand million half quarter dozen noon midnight"""
)
