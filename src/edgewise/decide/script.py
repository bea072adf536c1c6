"""Which writing a text is in: enough to doubt a model that never read it."""

from __future__ import annotations

MOST_FOREIGN_LETTERS = 0.3  # a Greek letter in a formula is no foreign language
_LAST_LATIN = 0x024F
_LATIN_ADDITIONS = range(0x1E00, 0x1F00)
# Languages that are written in Latin letters alone. Words of one in another are not told apart.
_LATIN_LANGUAGES = {"de", "en", "es", "fr", "it", "nl", "pt"}


def outside_script(text: str, languages: tuple[str, ...]) -> bool:
    """Whether many of a text's letters are of no script that these languages are written in.

    Knows Latin letters from others, no more: French given to an English model passes.
    No languages, or one that is written otherwise, means nothing can be said.
    """
    if not languages or not _LATIN_LANGUAGES.issuperset(languages):
        return False
    letters = [ord(character) for character in text if character.isalpha()]
    foreign = sum(each > _LAST_LATIN and each not in _LATIN_ADDITIONS for each in letters)
    return foreign > MOST_FOREIGN_LETTERS * len(letters)
