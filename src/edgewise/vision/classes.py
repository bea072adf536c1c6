"""The eighty kinds of objects that the device names, and the words people have for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The finder's own numbers (COCO's, with its gaps) and names.
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

# Other words for a class that mean no less and no more. "animal" would: most are not among these.
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


def class_named(words: str) -> str:
    """The class that a noun means; empty where it means none, or something more particular."""
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
