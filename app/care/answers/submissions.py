"""Listing submissions, newest first."""

from dataclasses import dataclass, replace
from datetime import datetime

from app.care.answers.reading import is_joined
from app.care.context import Context
from app.db.reader.access import is_final
from app.db.reader.reads import Page, list_rows
from app.db.reader.selection import PageRequest, Selection, Where
from app.db.statements.conditions import is_of_client, is_submitted_since
from app.db.tables import AnswerSet


@dataclass(frozen=True)
class SubmissionFilter:
    since: datetime | None = None
    client_id: int | None = None


async def list_my_submissions(
    ctx: Context, filter: SubmissionFilter, window: PageRequest, wanted: Selection
) -> Page:
    """Lists submissions of every attempt, also of assignments that were reopened since."""
    where = [Where(is_final), Where(is_joined, via="assignment")]
    if filter.since is not None:
        where.append(Where(is_submitted_since))
    if filter.client_id is not None:
        where.append(Where(is_of_client, narrows=True))
    values = {"since": filter.since, "of_client": filter.client_id}
    window = replace(window, where=tuple(where), values=values)
    access = ctx.access()
    return await ctx.read("submissions", access, list_rows(AnswerSet, access, window, wanted))
