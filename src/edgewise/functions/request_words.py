"""The small closed classes of English that say where one request ends and another begins."""

from __future__ import annotations


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
