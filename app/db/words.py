"""The words of a book's name, stored for the prefix search."""

import re
import unicodedata

LONGEST_WORD = 63
AFTER_EVERY_LETTER = "\U0010ffff"


def words_of(text: str) -> list[str]:
    """Folds case and normalizes accents, so that the search ignores both."""
    folded = unicodedata.normalize("NFC", text.casefold())
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in re.findall(r"\w+", folded)))


def end_of(beginning: str) -> str:
    """Greater than every word with this prefix."""
    return beginning + AFTER_EVERY_LETTER
