"""Which device skill, if any, can answer a question about a picture?

Deliberately narrow: a question is taken only where all of its words fit a pattern. What is left
("why is she laughing", "is the dog happy", "what colour is the sign") is nobody's on the device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from edgewise.vision.classes import class_named
from edgewise.vision.documents import DOCUMENTS
from edgewise.vision.fields import field_named

Asked = Literal["all_text", "field", "document", "mention", "present", "count", "choose", "list"]
Skill = Literal["reads text", "names objects"]

_PICTURE = r"(?:(?:the|this|that|these) )?(?:picture|image|photo|photograph|screenshot|scene)s?"
_CARRIER = (
    r"(?:(?:the|this|that|these|it|they) ?)?(?:text|words?|writing|sign|label|screen|page|poster|"
    r"receipt|invoice|bill|menu|letter|note|document|card|business card|ticket|display|plate|"
    r"license plate|licence plate|number plate|banner|book cover|cover|board|whiteboard|"
    r"blackboard|slide|caption|title|headline|bottle|box|package|sticker|badge|t-shirt|shirt|"
    r"envelope|form|scan|picture|image|photo|screenshot)?s?"
)
# One word at a time, so that there is one way to match and a long question costs no more.
_WHERE = (
    r"(?: (?:in|on|from|of|at|here|there|visible|can|you|see|the|this|that|these|it|pictures?|"
    r"images?|photos?|photograph|screenshot|scene|text|sign|label|screen|page|poster|receipt|"
    r"invoice|bill|menu|letter|note|document|card|business|ticket|display|plate|banner|cover|"
    r"board|whiteboard|blackboard|slide|bottle|box|package|sticker|badge|envelope|form|scan))*"
)
# For questions that themselves name papers and signs.
_SHOWN = (
    r"(?: (?:in|on|here|there|visible|can|you|see|the|this|that|pictures?|images?|photos?|"
    r"photograph|screenshot|scene))*"
)
MOST_CHARACTERS = 300  # longer ones are no simple questions

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
_LIST = re.compile(
    rf"(?:what|which) (?:objects|things|items|known objects)"
    rf"(?: (?:are|do you see|can you see|does {_PICTURE} show|are visible|there))*{_SHOWN}|"
    rf"(?:list|name|detect|find)(?: all)?(?: the)? (?:objects|things|items){_SHOWN}"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question asks of a skill. `names` are classes, labels, a field or a kind of paper."""

    skill: Skill
    asked: Asked
    names: tuple[str, ...] = ()


def read_question(text: str) -> Wanted | None:
    """What the question wants, or None where no device skill answers it."""
    words = _plain(text)
    if not words or _ALL_TEXT.fullmatch(words):
        return Wanted("reads text", "all_text") if words else None
    for read in (_mention, _choice, _document, _presence, _number, _listing, _field):
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


def _mention(words: str) -> Wanted | None:
    found = _MENTION.fullmatch(words)
    return Wanted("reads text", "mention", (found["words"].strip(),)) if found else None


def _choice(words: str) -> Wanted | None:
    found = _CHOOSE.fullmatch(words) or _CHOOSE_OR.fullmatch(words)
    if not found:
        return None
    labels = [one.strip() for one in re.split(r",|;|\bor\b|\band\b|/", found["labels"])]
    labels = [label for label in labels if label]
    if len(labels) < 2:
        return None
    classes = tuple(class_named(label) for label in labels)
    if all(classes):
        return Wanted("names objects", "choose", classes)
    kinds = tuple(_document_named(label) for label in labels)
    return Wanted("reads text", "document", kinds) if all(kinds) else None


def _document(words: str) -> Wanted | None:
    found = _DOCUMENT.fullmatch(words)
    kind = _document_named(found["kind"]) if found else ""
    if kind:
        return Wanted("reads text", "document", (kind,))
    name = class_named(found["kind"]) if found else ""
    return Wanted("names objects", "present", (name,)) if name else None


def _presence(words: str) -> Wanted | None:
    found = _PRESENT.fullmatch(words)
    name = class_named(found["noun"]) if found else ""
    return Wanted("names objects", "present", (name,)) if name else None


def _number(words: str) -> Wanted | None:
    found = _COUNT.fullmatch(words)
    name = class_named(found["noun"]) if found else ""
    return Wanted("names objects", "count", (name,)) if name else None


def _listing(words: str) -> Wanted | None:
    return Wanted("names objects", "list") if _LIST.fullmatch(words) else None


def _field(words: str) -> Wanted | None:
    found = _FIELD.fullmatch(words) or _FIELD_OTHER.fullmatch(words)
    name = field_named(found["field"]) if found else ""
    return Wanted("reads text", "field", (name,)) if name else None


def _document_named(words: str) -> str:
    noun = re.sub(r"^(?:an?|the) ", "", words.strip())
    return next((kind for kind, cues in DOCUMENTS.items() if noun in (kind, *cues.other_words)), "")
