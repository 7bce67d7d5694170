"""Limits of texts and moments in inputs."""

from datetime import datetime

from app.care.errors import Incomplete, Unreadable
from app.db.moments import is_storable

MAX_TITLE = 200
MAX_TEXT = 10_000

# Bytes that a row takes with its indexes, roughly; of a session or an assignment also those of its event.
REMINDER_BYTES = 200
ANSWER_BYTES = 100
ROW_BYTES = 500


def check_text(member: str, text: str, longest: int, is_required: bool = True) -> None:
    if is_required and not text.strip():
        raise Incomplete(member)
    if len(text) > longest:
        raise Unreadable(member, f"may have at most {longest} characters")
    if "\0" in text:  # PostgreSQL cannot store it
        raise Unreadable(member, "holds a character that cannot be stored")


def length_of(*texts: str | None) -> int:
    """Bytes of the texts in UTF-8."""
    return sum(len(text.encode(errors="replace")) for text in texts if text)


def check_moment(member: str, moment: datetime) -> None:
    if not is_storable(moment):
        raise Unreadable(member, "must lie between the years 1900 and 2999")
