"""Pools of names and things: files of entries, entries from public data, and made-up ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from training import time_forms

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


@cache
def pool_entries(name: str) -> tuple[str, ...]:
    """The entries of a pool's file, plus those added from public sources."""
    text = (_POOLS / f"{name}.txt").read_text("utf-8")
    return tuple(entry.strip() for entry in text.replace("\n", "|").split("|") if entry.strip())


@cache
def full_cities() -> dict[str, str]:
    """Cities in lower case → "Boston, MA", "Lyon, France"."""
    lines = (_POOLS / "city_country.txt").read_text("utf-8").splitlines()
    groups = [line.partition(": ") for line in lines if line.strip()]
    return {
        city.lower(): f"{city}, {place}"
        for place, _, cities in groups
        for city in cities.split("|")
    }


_ADDED: dict[str, tuple[str, ...]] = {}


def add_entries(name: str, entries: tuple[str, ...]) -> None:
    """Names found in public sources; one in three values then comes from them."""
    _ADDED[name] = entries


def from_pool(name: str, rng: Random) -> str:
    """A value of a pool that is copied as it is said."""
    made = _MADE.get(name)
    if made:
        return made(rng)
    if name == "city" and rng.random() < 0.08:
        return rng.choice(list(full_cities().values()))
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


_WHO = (
    "the caterer", "Nadia", "the night shift", "our landlord", "somebody from the bank", "Tomasz",
    "the choir", "the new intern", "my sister", "the inspector", "the bus driver", "the board",
)  # fmt: skip
_DOES = (
    "needs the keys before noon", "will be two hours late", "has moved to the third floor",
    "left a parcel by the gate", "wants the blue folder back", "cannot open the cellar door",
    "asked for a smaller table", "forgot the charger again", "is bringing forty chairs",
    "changed the door code", "found a cat in the stairwell", "starts at a quarter past six",
)  # fmt: skip
_BECAUSE = (
    "because the lift is broken", "so please leave the light on", "and nobody told us",
    "since the trains are not running", "so we meet in the yard", "but that can wait until spring",
    "and the soup is getting cold", "although it was agreed last week", "so bring an umbrella",
    "because the meeting was moved",
)  # fmt: skip


def _sentence(rng: Random) -> str:
    """Something to write down, of a length that takes care to copy."""
    who = rng.choice(_WHO)
    text = f"{who} {rng.choice(_DOES)}"
    if rng.random() < 0.6:
        text += f" {rng.choice(_BECAUSE)}"
    return text


def _code(rng: Random) -> str:
    """Keys, serial numbers and hashes."""
    chance = rng.random()
    if chance < 0.3:
        return "".join(rng.choice("0123456789abcdef") for _ in range(rng.choice((7, 8, 10, 12))))
    if chance < 0.7:
        signs = _LETTERS + "23456789"
        groups = ["".join(rng.choice(signs) for _ in range(4)) for _ in range(rng.randint(2, 4))]
        return "-".join(groups)
    return f"{rng.choice(_LETTERS)}{rng.choice(_LETTERS)}{rng.randrange(10**8):08}"


_MADE: dict[str, Callable[[Random], str]] = {
    "person": _person,
    "email": _email,
    "phone": _phone,
    "url": _url,
    "username": _username,
    "filename": _filename,
    "id": _id,
    "street": _street,
    "sentence": _sentence,
    "code": _code,
    "date": time_forms.say_date,
    "time": time_forms.say_time,
    "datetime": time_forms.say_datetime,
    "duration": time_forms.say_duration,
    "weekday": lambda rng: rng.choice(time_forms.WEEKDAYS),
    "month": lambda rng: rng.choice(time_forms.MONTHS),
}
