"""Statements that add, replace, retire and restore modules and books, and the words of their names."""

import re
import unicodedata

from sqlalchemy import Boolean, bindparam, delete, func, insert, null, select, update

from app.db.sql import Statement, among, id_parameter, moment_parameter, text_parameter
from app.db.tables import BOOK, BOOK_WORD, MODULE, QUESTION

# --- the words of a name, stored for the prefix search --------------------------------------------

LONGEST_WORD = 63
AFTER_EVERY_LETTER = "\U0010ffff"


# The dot that `İ` keeps when it is folded to `i`; soft hyphens and joiners, which can stand within a word.
NOT_SEARCHED = re.compile("(?<=i)\u0307|[\u00ad\u200c\u200d\u2060]")


def words_of(text: str) -> list[str]:
    """Folds case, and the forms in which a character can be written, so that the search ignores both.

    `migrate` stores the words again where this function finds others than before.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = "".join(map(letter_or_blank, NOT_SEARCHED.sub("", folded))).split()
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in words if re.search(r"\w", word)))


def letter_or_blank(character: str) -> str:
    """Many scripts write vowels as combining marks, which `\\w` does not match."""
    is_letter = character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
    return character if is_letter else " "


def end_of(beginning: str) -> str:
    """Greater than every word with this prefix."""
    return beginning + AFTER_EVERY_LETTER


# --- finding and locking --------------------------------------------------------------------------

IS_AMONG_BOOKS = among(BOOK.c.id, "books")

FIND_MODULES = Statement(select(MODULE.c.id))

# Locks `books`, so that no other transaction assigns them.
LOCK_BOOKS = Statement(select(BOOK.c.id).where(IS_AMONG_BOOKS).order_by(BOOK.c.id).with_for_update())

# The ids of `books` that were ever assigned; their questions cannot change.
FIND_ASSIGNED = Statement(select(BOOK.c.id).where(IS_AMONG_BOOKS, BOOK.c.is_assigned))

# Finds `books` without questions, as the legacy migration imports them.
FIND_BOOKS_WITHOUT_QUESTIONS = Statement(
    select(*BOOK.c["id", "module_id", "name", "is_test"]).where(
        IS_AMONG_BOOKS, ~select(QUESTION.c.id).where(QUESTION.c.book_id == BOOK.c.id).exists()
    )
)

# --- adding and changing, by the kind of entry ----------------------------------------------------

NAME = {"name": text_parameter("name")}
CONTENT = {"module_id": id_parameter("module"), **NAME, "is_test": bindparam("is_test", type_=Boolean)}
RETIRED = moment_parameter("retired")
ID = id_parameter("id")

UPDATE_BOOK = update(BOOK).where(BOOK.c.id == ID)

ADD = {
    "module": Statement(insert(MODULE).values(NAME), returns_ids=True),
    "book": Statement(insert(BOOK).values(retire_date=RETIRED, **CONTENT), returns_ids=True),
}
ADD_NUMBERED = {
    "module": Statement(insert(MODULE).values(id=ID, **NAME)),
    "book": Statement(insert(BOOK).values(id=ID, retire_date=RETIRED, **CONTENT)),
}
CHANGE = {
    "module": Statement(update(MODULE).where(MODULE.c.id == ID).values(NAME)),
    "book": Statement(UPDATE_BOOK.values(retire_date=func.coalesce(RETIRED, BOOK.c.retire_date), **CONTENT)),
}
DROP_WORDS = Statement(delete(BOOK_WORD).where(among(BOOK_WORD.c.book_id, "books")))
DROP_QUESTIONS = Statement(delete(QUESTION).where(among(QUESTION.c.book_id, "books")))
RETIRE_BOOK = Statement(
    UPDATE_BOOK.returning(BOOK.c.id).values(
        retire_date=func.coalesce(BOOK.c.retire_date, moment_parameter("now"))
    )
)
RESTORE_BOOK = Statement(UPDATE_BOOK.returning(BOOK.c.id).values(retire_date=null()))
