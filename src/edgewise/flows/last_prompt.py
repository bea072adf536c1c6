"""What each function caller read last: it need not read again what the next prompt shares."""

from __future__ import annotations

import weakref
from contextlib import suppress

from edgewise.local.backend import CallBackend

_last: weakref.WeakKeyDictionary[CallBackend, str] = weakref.WeakKeyDictionary()


def note(caller: CallBackend, prompt: str) -> None:
    with suppress(TypeError):  # somebody's backend that cannot be referred to weakly
        _last[caller] = prompt


def unread(caller: CallBackend, prompt: str) -> str:
    """The part of a prompt that is new to the caller, as far as we gave it the one before."""
    before = ""
    with suppress(TypeError):
        before = _last.get(caller, "")
    pairs = enumerate(zip(before, prompt, strict=False))
    most = min(len(before), len(prompt))
    return prompt[next((place for place, (one, two) in pairs if one != two), most) :]
