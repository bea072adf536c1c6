"""One value with the words that say it, for every kind of parameter a frame can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from training import number_forms, time_forms
from training.frame_types import Choice, Choices, Flag, Number, Pairs, Parameter, Pool, Values

_POOLS = Path(__file__).parent / "pools"
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_MAIL_HOSTS = (
    "gmail.com", "outlook.com", "proton.me", "example.org", "acme.io", "uni-heidelberg.de",
    "yahoo.co.uk", "fastmail.com", "northwind.net", "lab.kyoto-u.ac.jp", "mail.ru", "icloud.com",
)  # fmt: skip
_SITES = (
    "example.com", "docs.acme.io", "shop.northwind.net", "news.example.org", "api.weatherly.dev",
    "blog.kestrel.io", "data.gov.example", "cdn.pixelmoor.com", "my-portfolio.dev",
    "wiki.hooli.xyz",
)  # fmt: skip
_PATHS = (
    "", "/pricing", "/login", "/v2/users", "/articles/2024/heat-pumps", "/status", "/index.html",
    "/products/4471?ref=mail", "/blog/why-rust", "/feed.xml", "/img/logo.png", "/a/b/c",
)  # fmt: skip
_STEMS = (
    "report", "budget_2024", "Q3-results", "holiday photos", "invoice_0087", "notes", "main",
    "thesis-final-v3", "meeting_minutes", "IMG_2041", "backup", "customers", "train_log", "README",
    "scan0007", "cv_siobhan", "roadmap", "schema", "contract-signed", "playlist", "Übersicht",
)  # fmt: skip
_ENDINGS = (
    "pdf", "docx", "xlsx", "csv", "txt", "md", "py", "json", "png", "jpg", "zip", "mp4", "log",
    "sql", "pptx", "wav", "yaml", "ipynb", "tar.gz",
)  # fmt: skip
_FOLDERS = ("", "", "", "", "/home/ana/", "~/Documents/", "C:\\Users\\lee\\", "/var/log/", "data/")


@dataclass(frozen=True, slots=True)
class Said:
    """A value, the words for it, and whether the value is those very words."""

    value: Any
    text: str
    verbatim: bool = False

    def lowered(self) -> Said:
        """The same in lower case, where the call copies the words."""
        if not self.verbatim:
            return replace(self, text=self.text.lower())
        value = self.value
        low = [item.lower() for item in value] if isinstance(value, list) else value.lower()
        return Said(low, self.text.lower(), True)


@cache
def pool_entries(name: str) -> tuple[str, ...]:
    """The entries of a pool's file, plus those added from public sources."""
    text = (_POOLS / f"{name}.txt").read_text("utf-8")
    return tuple(entry.strip() for entry in text.replace("\n", "|").split("|") if entry.strip())


_ADDED: dict[str, tuple[str, ...]] = {}


def add_entries(name: str, entries: tuple[str, ...]) -> None:
    """Names found in public sources; one in three values then comes from them."""
    _ADDED[name] = entries


def from_pool(name: str, rng: Random) -> str:
    """A value of a pool that is copied as it is said."""
    made = _MADE.get(name)
    if made:
        return made(rng)
    added = _ADDED.get(name)
    if added and rng.random() < 0.35:
        return rng.choice(added)
    return rng.choice(pool_entries(name))


def _person(rng: Random) -> str:
    first, last = rng.choice(pool_entries("first_name")), rng.choice(pool_entries("last_name"))
    chance = rng.random()
    if chance < 0.05:
        return f"Dr. {last}"
    if chance < 0.1:
        return f"{rng.choice(('Mr.', 'Ms.', 'Mrs.', 'Professor'))} {last}"
    if chance < 0.15:
        return f"{first} {rng.choice(_LETTERS)}. {last}"
    return f"{first} {last}" if chance < 0.85 else first


def _ascii(text: str) -> str:
    plain = text.lower().replace("ß", "ss").replace("ø", "o").replace(" ", "").replace("'", "")
    return "".join(letter for letter in plain if letter.isascii() and letter.isalnum()) or "kim"


def _email(rng: Random) -> str:
    first = _ascii(rng.choice(pool_entries("first_name")))
    last = _ascii(rng.choice(pool_entries("last_name")))
    local = rng.choice(
        (f"{first}.{last}", f"{first[0]}{last}", f"{first}_{last}{rng.randint(1, 99)}", first,
         f"{last}.{first}", rng.choice(("info", "support", "billing", "hr", "press-office")))
    )  # fmt: skip
    return f"{local}@{rng.choice(_MAIL_HOSTS)}"


def _phone(rng: Random) -> str:
    def group(count: int) -> str:
        return "".join(str(rng.randrange(10)) for _ in range(count))

    return rng.choice(
        (f"+1 555 {group(3)} {group(4)}", f"555-{group(4)}", f"({group(3)}) 555-{group(4)}",
         f"+44 20 7946 0{group(3)}", f"+49 151 {group(8)}", f"0{group(3)} {group(6)}",
         f"+91-{group(5)}-{group(5)}", f"+33 6 {group(2)} {group(2)} {group(2)} {group(2)}")
    )  # fmt: skip


def _url(rng: Random) -> str:
    scheme = rng.choice(("https://", "https://", "https://www.", "http://", "www.", ""))
    return f"{scheme}{rng.choice(_SITES)}{rng.choice(_PATHS)}"


def _username(rng: Random) -> str:
    first = _ascii(rng.choice(pool_entries("first_name")))
    animal = _ascii(rng.choice(pool_entries("animal")))
    return rng.choice(
        (f"{first}{rng.randint(1, 2010)}", f"{first}_{animal}", f"@{first}.codes",
         f"{animal}-{first}", f"x_{first}_x", f"{first}{animal}", f"@{animal}{rng.randint(1, 99)}",
         f"{first[0]}{animal}")
    )  # fmt: skip


def _filename(rng: Random) -> str:
    return f"{rng.choice(_FOLDERS)}{rng.choice(_STEMS)}.{rng.choice(_ENDINGS)}"


def _id(rng: Random) -> str:
    letters = "".join(rng.choice(_LETTERS) for _ in range(3))
    number = rng.randrange(10**6)
    return rng.choice(
        (f"{letters}-{number:06}", f"{letters}{number % 10000}", f"{rng.getrandbits(32):08x}",
         f"INV-20{rng.randint(19, 25)}-{number % 100000:05}", f"#{number}", str(number + 1000),
         f"{letters.lower()}_{rng.getrandbits(24):06x}", f"user_{number}",
         f"{letters[:2]}-{number % 1000}-{letters[2]}",
         f"{rng.getrandbits(16):04x}-{rng.getrandbits(8):02x}", f"ORD{number:06}")
    )  # fmt: skip


def _street(rng: Random) -> str:
    name, number = rng.choice(pool_entries("street_name")), rng.randint(1, 499)
    german = name.endswith(("straße", "allee", "Allee", "platz", "damm", "gracht"))
    address = f"{name} {number}" if german else f"{number} {name}"
    return address if rng.random() < 0.7 else f"{address}, {rng.choice(pool_entries('city'))}"


_MADE: dict[str, Callable[[Random], str]] = {
    "person": _person,
    "email": _email,
    "phone": _phone,
    "url": _url,
    "username": _username,
    "filename": _filename,
    "id": _id,
    "street": _street,
    "date": time_forms.say_date,
    "time": time_forms.say_time,
    "datetime": time_forms.say_datetime,
    "duration": time_forms.say_duration,
    "weekday": lambda rng: rng.choice(time_forms.WEEKDAYS),
    "month": lambda rng: rng.choice(time_forms.MONTHS),
}


def sample_value(parameter: Parameter, rng: Random, bare: bool = False) -> Said:
    """A value for a parameter; `bare` leaves out a unit that the sentence already has."""
    if parameter.counts is None:
        return _one(parameter.values, rng, bare)
    count = rng.randint(*parameter.counts)
    items: list[Said] = []
    for _ in range(count * 4):
        item = _one(parameter.values, rng, bare=True)
        if len(items) < count and all(item.value != other.value for other in items):
            items.append(item)
    verbatim = all(item.verbatim for item in items)
    texts = [item.text for item in items]
    if isinstance(parameter.values, Number) and parameter.values.kind == "plain":
        # One list is written in one manner: all digits.
        texts = [number_forms.digits(item.value) for item in items]
    return Said([item.value for item in items], join_list(texts, rng), verbatim)


def join_list(texts: list[str], rng: Random) -> str:
    """ "a, b and c", and the other ways to write a list."""
    if len(texts) == 1:
        return texts[0]
    plain = any("," in text or " and " in text for text in texts)
    if len(texts) == 2:
        return rng.choice((" and ", " and ", " & ", ", ") if not plain else (" and ",)).join(texts)
    if plain:
        return (
            "; ".join(texts) if rng.random() < 0.5 else ", ".join(texts[:-1]) + f", and {texts[-1]}"
        )
    chance = rng.random()
    if chance < 0.2:
        return ", ".join(texts)
    last = rng.choice((" and ", " and ", ", and ")) + texts[-1]
    return ", ".join(texts[:-1]) + last if chance < 0.95 else " and ".join(texts)


def _one(values: Values, rng: Random, bare: bool) -> Said:
    if isinstance(values, Choices):
        return _choice(rng.choice(values.options), rng)
    if isinstance(values, Number):
        value = number_forms.pick_number(values, rng)
        text = number_forms.say(values, value, rng, bare)
        return Said(int(value) if value == int(value) else value, text)
    if isinstance(values, Flag):
        phrases = [(True, text) for text in values.yes] + [(False, text) for text in values.no]
        value, text = rng.choice(phrases)
        return Said(value, text)
    if isinstance(values, Pairs):
        return _pairs(values, rng)
    return _pooled(values, rng)


def _choice(choice: Choice, rng: Random) -> Said:
    text = choice.said[0] if len(choice.said) == 1 else rng.choice(choice.said)
    return Said(choice.value, text, choice.verbatim)


def _pairs(values: Pairs, rng: Random) -> Said:
    keys = rng.sample(values.keys, min(len(values.keys), rng.randint(2, 3)))
    found = {key: _one(values.values, rng, bare=True) for key in keys}
    joint = rng.choice((": ", " ", " = "))
    text = join_list([f"{key}{joint}{said.text}" for key, said in found.items()], rng)
    return Said({key: said.value for key, said in found.items()}, text)


def _pooled(pool: Pool, rng: Random) -> Said:
    if not pool.form:
        text = from_pool(pool.name, rng)
        return Said(text, text, verbatim=True)
    if pool.name == "date":
        return Said(*time_forms.say_iso_date(rng))
    if pool.name == "time":
        return Said(*time_forms.say_exact_time(rng))
    if pool.name == "datetime":
        return Said(*time_forms.say_iso_datetime(rng))
    return Said(*time_forms.say_exact_duration(pool.form, rng))
