"""The words of a book's name, as they are stored to be searched by how they begin."""

import re
import unicodedata

LONGEST_WORD = 63
AFTER_EVERY_LETTER = "\U0010ffff"


def words_of(text: str) -> list[str]:
    """Folded, so that case does not matter in any script, nor how a letter and its accent were typed."""
    folded = unicodedata.normalize("NFC", text.casefold())
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in re.findall(r"\w+", folded)))


def end_of(beginning: str) -> str:
    """Behind every word that begins like this."""
    return beginning + AFTER_EVERY_LETTER
