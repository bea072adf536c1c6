"""Which vision skill, if any, can answer a question about a picture, and the words that tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

# The object finder's own numbers (COCO's, with gaps) and names.
CLASSES: Mapping[int, str] = MappingProxyType(
    {
        1: "person", 2: "bicycle", 3: "car", 4: "motorcycle", 5: "airplane", 6: "bus", 7: "train",
        8: "truck", 9: "boat", 10: "traffic light", 11: "fire hydrant", 13: "stop sign",
        14: "parking meter", 15: "bench", 16: "bird", 17: "cat", 18: "dog", 19: "horse",
        20: "sheep", 21: "cow", 22: "elephant", 23: "bear", 24: "zebra", 25: "giraffe",
        27: "backpack", 28: "umbrella", 31: "handbag", 32: "tie", 33: "suitcase", 34: "frisbee",
        35: "skis", 36: "snowboard", 37: "sports ball", 38: "kite", 39: "baseball bat",
        40: "baseball glove", 41: "skateboard", 42: "surfboard", 43: "tennis racket",
        44: "bottle", 46: "wine glass", 47: "cup", 48: "fork", 49: "knife", 50: "spoon",
        51: "bowl", 52: "banana", 53: "apple", 54: "sandwich", 55: "orange", 56: "broccoli",
        57: "carrot", 58: "hot dog", 59: "pizza", 60: "donut", 61: "cake", 62: "chair",
        63: "couch", 64: "potted plant", 65: "bed", 67: "dining table", 70: "toilet", 72: "tv",
        73: "laptop", 74: "mouse", 75: "remote", 76: "keyboard", 77: "cell phone",
        78: "microwave", 79: "oven", 80: "toaster", 81: "sink", 82: "refrigerator", 84: "book",
        85: "clock", 86: "vase", 87: "scissors", 88: "teddy bear", 89: "hair drier",
        90: "toothbrush",
    }
)  # fmt: skip

# Kinds that have several classes: asked which one it is, the answer is a class or in doubt,
# because most animals have none.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "animal": ("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra",
               "giraffe"),
    "vehicle": ("bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat"),
    "fruit": ("banana", "apple", "orange"),
    "food": ("banana", "apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza",
             "donut", "cake"),
}  # fmt: skip
# Exact synonyms of a class. "animal" is none: most animals have no class.
_OTHER_WORDS: Mapping[str, str] = {
    "people": "person", "human": "person", "human being": "person", "somebody": "person",
    "someone": "person", "anybody": "person", "anyone": "person", "persons": "person",
    "bike": "bicycle", "motorbike": "motorcycle", "aeroplane": "airplane", "plane": "airplane",
    "lorry": "truck", "kitty": "cat", "puppy": "dog", "sofa": "couch", "television": "tv",
    "tv set": "tv", "smartphone": "cell phone", "mobile phone": "cell phone",
    "phone": "cell phone", "fridge": "refrigerator", "doughnut": "donut", "mug": "cup",
    "coffee cup": "cup", "rucksack": "backpack", "ski": "skis", "knives": "knife",
    "hair dryer": "hair drier", "necktie": "tie", "remote control": "remote",
}  # fmt: skip

_NAMES = frozenset(CLASSES.values())
_ARTICLES = ("a ", "an ", "any ", "the ", "some ")


_AMOUNT = r"(?:[$€£¥]\s?\d|\d+[.,]\d\d\b)"
_UNIT = r"(?:[$€£¥]|usd|eur|gbp|chf)"
_MONEY = rf"(?:{_UNIT} ?)?\d{{1,3}}(?:[ ,.']?\d{{3}})*[.,]\d{{2}}(?: ?{_UNIT})?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|"
    rf"\d{{1,2}}\.? {_MONTH}\.?,? \d{{4}}|{_MONTH}\.? \d{{1,2}},? \d{{4}}"
)
_CODE = r"[a-z]{0,4}[-/#]?\d[\w/-]*"
Asked = Literal[
    "all_text", "field", "value", "document", "mention", "present", "count", "choose", "kind",
    "list", "describe",
]  # fmt: skip
Skill = Literal["reads text", "names objects"]
_PICTURE = r"(?:(?:the|this|that|these) )?(?:picture|image|photo|photograph|screenshot|scene)s?"
_CARRIER = (
    r"(?:(?:the|this|that|these|it|they) ?)?(?:text|words?|writing|sign|label|screen|page|poster|"
    r"receipt|invoice|bill|menu|letter|note|document|card|business card|ticket|display|plate|"
    r"license plate|licence plate|number plate|banner|book cover|cover|board|whiteboard|"
    r"blackboard|slide|caption|title|headline|bottle|box|package|sticker|badge|t-shirt|shirt|"
    r"envelope|form|scan|picture|image|photo|screenshot)?s?"
)
# One word at a time: there is one way to match, so a long question costs no more.
_WHERE = (
    r"(?: (?:in|on|from|of|at|here|there|visible|can|you|see|the|this|that|these|it|pictures?|"
    r"images?|photos?|photograph|screenshot|scene|text|sign|label|screen|page|poster|receipt|"
    r"invoice|bill|menu|letter|note|document|card|business|ticket|display|plate|banner|cover|"
    r"board|whiteboard|blackboard|slide|bottle|box|package|sticker|badge|envelope|form|scan))*"
)
# For questions that name papers and signs themselves.
_SHOWN = (
    r"(?: (?:in|on|here|there|visible|can|you|see|the|this|that|pictures?|images?|photos?|"
    r"photograph|screenshot|scene))*"
)
MOST_CHARACTERS = 300  # longer questions are not simple
_ALL_TEXT = re.compile(
    rf"(?:what (?:does|do|did) {_CARRIER} (?:say|read|show|tell)|"
    rf"what(?:'s| is| was) (?:written|printed|said|the (?:text|writing|wording|words?))|"
    rf"what (?:text|words?|writing) (?:is|are|do you see|can you see|appears?)(?: there)?|"
    rf"(?:read|transcribe|ocr|extract|copy|give me|show me|write down|type out)"
    rf"(?: out| aloud| me)?(?: all| all of)?(?: {_CARRIER})|"
    rf"(?:extract|ocr|transcribe|read)(?: all)?(?: the)? text){_WHERE}"
)
_FIELD = re.compile(
    r"(?:what(?:'s| is| was)|give me|find|tell me|read|extract|which(?: is)?)"
    rf"(?: the)? (?P<field>[a-z][a-z /-]*?)(?: (?:on|in|of|from) {_CARRIER}{_WHERE})?"
)
_FIELD_OTHER = re.compile(rf"(?P<field>how much|when)(?: (?:is|was) {_CARRIER})?{_WHERE}")
_DOCUMENT = re.compile(
    rf"(?:is|are) (?:this|it|that|{_PICTURE}|this (?:a )?(?:picture|image|photo) of)"
    rf"(?: (?:picture|image|photo) of)? (?:an? )?(?P<kind>[a-z ]+?){_SHOWN}"
)
_MENTION = re.compile(
    rf"(?:does {_CARRIER} (?:say|mention|contain|read|include)|"
    rf"is (?:the )?(?:word|name|text|number)) (?:the (?:word|words|name|text|number) )?"
    rf"[\"'](?P<words>[^\"]+?)[\"'](?: (?:written|printed|mentioned))?{_WHERE}"
)
# Up to three words without quotation marks; not "does it say when it opens".
_MENTION_BARE = re.compile(
    rf"does {_CARRIER} (?:say|mention|read) (?:the (?:word|words|name|text|number) )?"
    r"(?P<words>(?!(?:an?|any\w*|some\w*|what|when|where|which|who|why|how|if|that|whether|to|"
    rf"something) )[^\"' ]+(?: [^\"' ]+){{0,2}}?){_WHERE}"
)
_PRESENT = re.compile(
    rf"(?:is there|are there|do you see|can you see|does {_PICTURE} (?:show|contain|have)) "
    rf"(?P<noun>[a-z -]+?){_SHOWN}"
)
_COUNT = re.compile(
    rf"how many (?P<noun>[a-z -]+?)(?: (?:are|is|do you see|can you see|does {_PICTURE} show))?"
    rf"(?: there)?{_SHOWN}"
)
_CHOOSE = re.compile(
    r"(?:which|what) (?:of (?:these|the following)(?: labels?| classes| things| objects)?|labels?|"
    r"class)(?: (?:is|are|fits?|applies|apply|describes?|matches|best|it|there|the|this|picture|"
    r"image|photo|in|here))* ?[:,-] ?(?P<labels>.+)"
)
_CHOOSE_OR = re.compile(rf"is (?:this|it|that|there) (?P<labels>.+ or .+?){_SHOWN}")
_WHICH_KIND = re.compile(
    rf"(?:what|which)(?: (?:kind|sort|type) of)? (?P<group>animal|vehicle|fruit|food)"
    rf"(?: (?:is|are|do you see|can you see))?(?: (?:this|that|it|there))?{_SHOWN}"
)
_LIST = re.compile(
    rf"(?:what|which) (?:objects|things|items|known objects)"
    rf"(?: (?:are|do you see|can you see|does {_PICTURE} show|are visible|there))*{_SHOWN}|"
    rf"(?:list|name|detect|find)(?: all)?(?: the)? (?:objects|things|items){_SHOWN}"
)
_DESCRIBE = re.compile(
    rf"(?:what (?:is|do you see|can you see|can be seen|does {_PICTURE} show) ?(?:in|on)? ?"
    rf"(?:{_PICTURE}|this|that|here|there)?(?: (?:a )?(?:picture|image|photo) of)?|"
    rf"(?:describe|explain|caption) {_PICTURE}|what is {_PICTURE} (?:of|about))"
)
# A question for a time or a sum that the text may hold: the rest of its words say which one.
_VALUE = re.compile(
    r"(?P<kind>when|(?:at )?what time|how much|what price) (?:is|are|was|does|do|did|will) "
    r"(?P<rest>[a-z0-9' -]+)"
)
_NOON = r"(?: ?[ap]\.?m\b\.?)"
_CLOCK = rf"\b(?:[01]?\d|2[0-3])[:h][0-5]\d{_NOON}?|\b(?:1[0-2]|0?[1-9]){_NOON}"
_DOTTED = r"\b(?:[01]?\d|2[0-3])\.[0-5]\d\b"  # it may as well be a sum
_VALUES = {"time": (_CLOCK, _DOTTED, _DATE), "price": (_MONEY,)}  # the first that is there counts
_LITTLE_WORDS = frozenset({
    "a", "an", "and", "are", "at", "be", "by", "cost", "costs", "do", "does", "for", "from", "get",
    "go", "goes", "happen", "i", "in", "is", "it", "next", "of", "on", "or", "picture", "start",
    "starts", "take", "takes", "that", "the", "there", "this", "to", "was", "we", "will", "you",
})  # fmt: skip
_ASKING = frozenset({
    "all", "any", "can", "did", "does", "each", "first", "has", "have", "her", "his", "how",
    "image", "its", "last", "many", "more", "most", "much", "not", "one", "out", "she", "tell",
    "than", "they", "two", "what", "when", "where", "which", "who", "whose", "why", "with", "you",
    "your",
})  # fmt: skip
MOST_RIVALS = 4  # values that are told; of more, none is


def class_named(words: str) -> str:
    """The class that a noun means; empty if there is none, or if it means something narrower."""
    noun = words.strip().lower()
    for article in _ARTICLES:
        noun = noun.removeprefix(article)
    for form in (noun, *_singulars(noun)):
        if form in _NAMES:
            return form
        if form in _OTHER_WORDS:
            return _OTHER_WORDS[form]
    return ""


def plural(name: str, count: int) -> str:
    """A class with its number, as people say it."""
    if count == 1 or name in ("sheep", "skis", "scissors"):
        return f"{count} {name}"
    if name == "person":
        return f"{count} people"
    if name == "knife":
        return f"{count} knives"
    ends = name.endswith(("s", "x", "ch", "sh"))
    return f"{count} {name}{'es' if ends else 's'}"


def _singulars(noun: str) -> list[str]:
    found = []
    if noun.endswith("ies"):
        found.append(noun[:-3] + "y")
    if noun.endswith("es"):
        found.append(noun[:-2])
    if noun.endswith("s"):
        found.append(noun[:-1])
    return found


@dataclass(frozen=True, slots=True)
class Cues:
    """`telling`: patterns that count one each. `foreign`: those of another kind of paper."""

    telling: tuple[str, ...]
    foreign: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()


DOCUMENTS: Mapping[str, Cues] = {
    "receipt": Cues(
        (
            r"\breceipt\b", r"\btotal\b", r"\bsub-?total\b", r"\b(?:cash|card|visa|mastercard)\b",
            r"\bchange\b", r"\b(?:vat|tax)\b", r"\bthank you\b", r"\bcashier\b|\bterminal\b",
            _AMOUNT + r"[\s\S]*" + _AMOUNT,
        ),
        (r"\binvoice\b", r"\bbill to\b", r"\bdue date\b|\bpayment due\b"),
        ("till receipt", "sales receipt"),
    ),
    "invoice": Cues(
        (
            r"\binvoice\b", r"\bbill(?:ed)? to\b", r"\bdue\b", r"\binvoice (?:no|number|#)",
            r"\b(?:iban|bic|swift|account no)", r"\bquantity\b|\bqty\b", r"\bunit price\b",
            r"\btotal\b", r"\b(?:vat|tax)\b",
        ),
        (r"\breceipt\b", r"\bcashier\b", r"\bchange\b"),
        ("bill",),
    ),
    "menu": Cues(
        (
            r"\bmenu\b", r"\bstarters?\b|\bappeti[sz]ers?\b", r"\bmains?\b|\bmain courses?\b",
            r"\bdesserts?\b", r"\b(?:soup|salad|pasta|pizza|burger|fish|chicken|steak)\b",
            r"\b(?:coffee|tea|wine|beer|drinks)\b", _AMOUNT + r"[\s\S]*" + _AMOUNT,
        ),
        (r"\breceipt\b", r"\binvoice\b", r"\btotal\b"),
    ),
    "business card": Cues(
        (
            r"[\w.+-]+@[\w-]+\.\w+", r"\+?\d[\d ()/-]{7,}\d", r"\bwww\.|https?://|\.com\b",
            r"\b(?:manager|director|engineer|consultant|ceo|founder|sales|dr|phd)\b",
            r"\b(?:phone|tel|mobile|fax|e-?mail)\b",
        ),
        (r"\binvoice\b", r"\breceipt\b", r"\btotal\b"),
    ),
    "letter": Cues(
        (
            r"\bdear\b", r"\b(?:sincerely|regards|faithfully|love)\b", r"\byours\b",
            r"\bi am writing\b|\bwe are writing\b", r"\bsigned?\b",
        ),
        (r"\btotal\b", r"\bqty\b"),
    ),
    "ticket": Cues(
        (
            r"\bticket\b", r"\badmit one\b", r"\bseat\b", r"\brow\b", r"\bgate\b|\bplatform\b",
            r"\bdeparture\b|\barrival\b|\bboarding\b", r"\bvalid\b",
        ),
        (r"\binvoice\b",),
    ),
}  # fmt: skip


def count_cues(text: str, kind: str) -> tuple[int, int]:
    """(how many cues speak for this kind of paper, how many against it)."""
    cues, words = DOCUMENTS[kind], text.lower()
    telling = sum(bool(re.search(pattern, words)) for pattern in cues.telling)
    foreign = sum(bool(re.search(pattern, words)) for pattern in cues.foreign)
    return telling, foreign


@dataclass(frozen=True, slots=True)
class Entry:
    """`labels` stand before the value, on its line or on the line above."""

    pattern: str
    labels: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()
    not_after: tuple[str, ...] = ()  # labels that contain one of ours but mean something else


FIELDS: Mapping[str, Entry] = {
    "total": Entry(
        _MONEY,
        ("grand total", "total due", "amount due", "total", "to pay", "balance due", "sum"),
        ("amount", "grand total", "sum", "total amount", "amount due", "total price", "how much",
         "total sum", "total cost", "final price"),
        ("sub total", "subtotal", "sub-total", "total tax", "total vat"),
    ),
    "subtotal": Entry(_MONEY, ("subtotal", "sub total", "sub-total", "net"), ("sub total", "net")),
    "tax": Entry(_MONEY, ("vat", "tax", "gst", "mwst"), ("vat", "sales tax", "gst")),
    "date": Entry(
        _DATE, ("date", "issued", "dated"), ("when", "invoice date", "issue date"), ("due date",)
    ),
    "due date": Entry(_DATE, ("due date", "payment due", "due"), ("deadline", "payment date")),
    "time": Entry(r"\d{1,2}[:.]\d{2}(?::\d{2})?(?: ?[ap]\.?m\.?)?", ("time",)),
    "invoice number": Entry(
        _CODE, ("invoice number", "invoice no", "invoice #", "invoice"), ("invoice no",)
    ),
    "order number": Entry(_CODE, ("order number", "order no", "order #", "order"), ("order id",)),
    "phone number": Entry(
        r"\+?\d[\d ()/.-]{6,}\d", ("phone", "tel", "mobile", "call"),
        ("phone", "telephone number", "telephone", "number to call"),
    ),
    "email": Entry(
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", (), ("e-mail", "email address", "e-mail address")
    ),
    "website": Entry(
        r"(?:https?://|www\.)[^\s,;]+", (), ("url", "web address", "web site", "link", "homepage")
    ),
}  # fmt: skip


def field_named(words: str) -> str:
    """The field that a noun means; empty if there is none."""
    noun = words.strip().lower()
    return next((name for name, one in FIELDS.items() if noun in (name, *one.other_words)), "")


def find_field(rows: Sequence[str], name: str) -> tuple[str, int]:
    """(the value as written, how many values competed); ("", 0) if there is none."""
    field = FIELDS[name]
    labelled = [value for label in field.labels for value in _after_label(rows, label, field)]
    if labelled:
        first = _longest_label(rows, field)
        return labelled[0], len(set(first or labelled[:1]))
    alone = [found[0] for row in rows for found in re.finditer(field.pattern, row, re.IGNORECASE)]
    if field.labels and name not in ("date", "time", "phone number"):
        return "", 0  # without its label, an amount could be any amount
    return (alone[0], len(set(alone))) if alone else ("", 0)


def _longest_label(rows: Sequence[str], field: Entry) -> list[str]:
    for label in field.labels:
        values = list(_after_label(rows, label, field))
        if values:
            return values
    return []


def _after_label(rows: Sequence[str], label: str, field: Entry) -> list[str]:
    found = []
    for number, row in enumerate(rows):
        place = re.search(rf"\b{re.escape(label)}(?!\w)", row, re.IGNORECASE)
        if place is None or any(word in row.lower() for word in field.not_after):
            continue
        rest = row[place.end() :]
        value = re.search(rf"(?<![\w.,])(?:{field.pattern})", rest, re.IGNORECASE)
        if value is None and not re.search(r"\d", rest) and number + 1 < len(rows):
            value = re.match(rf"\W*(?:{field.pattern})$", rows[number + 1].strip(), re.IGNORECASE)
        if value is not None:
            found.append(value[0].strip(" :"))
    return found


@dataclass(frozen=True, slots=True)
class SkillQuestion:
    """What a question asks of a skill. `names` are classes, labels, a field or a kind of paper."""

    skill: Skill
    asked: Asked
    names: tuple[str, ...] = ()


def read_question(text: str) -> SkillQuestion | None:
    """What the question asks for; None if no vision skill can answer it."""
    words = _plain(text)
    if not words or _ALL_TEXT.fullmatch(words):
        return SkillQuestion("reads text", "all_text") if words else None
    readers = (
        _mention, _choice, _kind, _document, _presence, _number, _listing, _field, _description,
        _value,
    )  # fmt: skip
    for read in readers:
        found = read(words)
        if found is not None:
            return found
    return None


def _plain(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        return ""
    words = re.sub(r"[“”‘’]", '"', text.strip().lower())  # noqa: RUF001 - as people paste them
    words = re.sub(r"\s+", " ", words).rstrip(" ?.!")
    words = re.sub(r"^(?:please|hey|ok|hi),? |,? please$", "", words)
    words = re.sub(
        r"^(?:can|could|would) you (?:please )?(?=read|tell|transcribe|extract|find)", "", words
    )
    return re.sub(r"^what's ", "what is ", words)


def _mention(words: str) -> SkillQuestion | None:
    found = _MENTION.fullmatch(words)
    found = found or _MENTION_BARE.fullmatch(words)
    return SkillQuestion("reads text", "mention", (found["words"].strip(),)) if found else None


def _choice(words: str) -> SkillQuestion | None:
    found = _CHOOSE.fullmatch(words) or _CHOOSE_OR.fullmatch(words)
    if not found:
        return None
    labels = [one.strip() for one in re.split(r",|;|\bor\b|\band\b|/", found["labels"])]
    labels = [label for label in labels if label]
    if len(labels) < 2:
        return None
    classes = tuple(class_named(label) for label in labels)
    if all(classes):
        return SkillQuestion("names objects", "choose", classes)
    kinds = tuple(_document_named(label) for label in labels)
    return SkillQuestion("reads text", "document", kinds) if all(kinds) else None


def _kind(words: str) -> SkillQuestion | None:
    found = _WHICH_KIND.fullmatch(words)
    return SkillQuestion("names objects", "kind", _GROUPS[found["group"]]) if found else None


def _document(words: str) -> SkillQuestion | None:
    found = _DOCUMENT.fullmatch(words)
    kind = _document_named(found["kind"]) if found else ""
    if kind:
        return SkillQuestion("reads text", "document", (kind,))
    name = class_named(found["kind"]) if found else ""
    return SkillQuestion("names objects", "present", (name,)) if name else None


def _presence(words: str) -> SkillQuestion | None:
    found = _PRESENT.fullmatch(words)
    name = class_named(found["noun"]) if found else ""
    return SkillQuestion("names objects", "present", (name,)) if name else None


def _number(words: str) -> SkillQuestion | None:
    found = _COUNT.fullmatch(words)
    name = class_named(found["noun"]) if found else ""
    return SkillQuestion("names objects", "count", (name,)) if name else None


def _listing(words: str) -> SkillQuestion | None:
    return SkillQuestion("names objects", "list") if _LIST.fullmatch(words) else None


def _field(words: str) -> SkillQuestion | None:
    found = _FIELD.fullmatch(words) or _FIELD_OTHER.fullmatch(words)
    name = field_named(found["field"]) if found else ""
    return SkillQuestion("reads text", "field", (name,)) if name else None


def _description(words: str) -> SkillQuestion | None:
    return SkillQuestion("names objects", "describe") if _DESCRIBE.fullmatch(words) else None


def _value(words: str) -> SkillQuestion | None:
    found = _VALUE.fullmatch(words)
    if not found:
        return None
    kind = "price" if found["kind"] in ("how much", "what price") else "time"
    about = [word for word in found["rest"].split() if word not in _LITTLE_WORDS]
    return SkillQuestion("reads text", "value", (kind, *about)) if about else None


def find_values(rows: Sequence[str], kind: str, about: Sequence[str]) -> tuple[list[str], bool]:
    """(the times or sums that may be meant, whether the words about them stand beside).

    Words count on the same row, and less on a row above: a timetable has them in its head.
    """
    for pattern in _VALUES[kind]:
        found = [
            (_shared(row, about) + 0.5 * any(_shared(one, about) for one in rows[:number]), one[0])
            for number, row in enumerate(rows)
            for one in re.finditer(pattern, row, re.IGNORECASE)
        ]
        if found:
            best = max(score for score, _ in found)
            return list(dict.fromkeys(value for score, value in found if score == best)), best > 0
    return [], False


def words_in_both(question: str, text: str) -> set[str]:
    """Beginnings of words that say what a question is about, and that a text has too."""
    about = {
        word[:4]
        for word in re.findall(r"[^\W_]{3,}", question.lower())
        if word not in _LITTLE_WORDS and word not in _ASKING
    }
    return about & {word[:4] for word in re.findall(r"[^\W_]{3,}", text.lower())}


def _shared(row: str, about: Sequence[str]) -> int:
    """How many of the words a row has; their endings do not count."""
    words = [word[:4] for word in re.findall(r"[a-z0-9]+", row.lower())]
    return sum(word[:4] in words for word in about)


def _document_named(words: str) -> str:
    noun = re.sub(r"^(?:an?|the) ", "", words.strip())
    return next((kind for kind, cues in DOCUMENTS.items() if noun in (kind, *cues.other_words)), "")
