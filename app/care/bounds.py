"""Checks of inputs that need no data: what is missing, and limits of texts and moments."""

from datetime import datetime

from app.care.errors import Incomplete, InvalidValue
from app.db.moments import is_storable

BLANK_ID = -1  # in an input: a blank text, which is missing; None is a text that is not an id
MAX_TITLE = 200
MAX_TEXT = 10_000
MAX_NAMED = 50  # blank items of a list that one error names

# Bytes that a row takes with its indexes, roughly; of a session or an assignment also those of its event.
REMINDER_BYTES = 200
ANSWER_BYTES = 100
ROW_BYTES = 500


def check_required(**given: str | int | tuple[int | None, ...] | None) -> None:
    """Required texts and ids must not be blank, and lists of ids neither empty nor with a blank item."""
    missing = [place for name, value in given.items() for place in missing_places(name, value)]
    if missing:
        raise Incomplete(*missing)


def missing_places(name: str, value: object) -> list[str]:
    if isinstance(value, tuple) and value:
        return [f"{name}.{index}" for index, each in enumerate(value[:MAX_NAMED]) if each == BLANK_ID]
    is_missing = value in ((), BLANK_ID) or (isinstance(value, str) and not value.strip())
    return [name] if is_missing else []


def check_text(member: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise InvalidValue(member, f"may have at most {longest} characters")
    if "\0" in text:  # PostgreSQL cannot store it
        raise InvalidValue(member, "holds a character that cannot be stored")


def length_of(*texts: str | None) -> int:
    """Bytes of the texts in UTF-8."""
    return sum(len(text.encode(errors="replace")) for text in texts if text)


def check_moment(member: str, moment: datetime, index: int | None = None) -> None:
    if not is_storable(moment):
        raise InvalidValue(member, "must lie between the years 1900 and 2999", index)
