"""Limits of texts and moments in inputs."""

from datetime import datetime

from app.care.errors import Incomplete, Unreadable
from app.db.moments import is_storable

MAX_TITLE = 200
MAX_TEXT = 10_000


def check_text(member: str, text: str, longest: int, is_required: bool = True) -> None:
    if is_required and not text.strip():
        raise Incomplete(member)
    if len(text) > longest:
        raise Unreadable(member, f"may have at most {longest} characters")
    if "\0" in text:  # PostgreSQL cannot store it
        raise Unreadable(member, "holds a character that cannot be stored")


def check_moment(member: str, moment: datetime) -> None:
    if not is_storable(moment):
        raise Unreadable(member, "must lie between the years 1900 and 2999")
