"""Reading answer sets: both parties read submissions, and only the client reads drafts."""

from sqlalchemy import ColumnElement, FromClause, or_

from app.care.context import Context
from app.db.reader.access import is_final, is_own_draft
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import Selection, Where
from app.db.tables import AnswerSet


def may_be_read(answer_set: FromClause) -> ColumnElement[bool]:
    return or_(is_final(answer_set), is_own_draft(answer_set))


def is_joined(assignment: FromClause) -> ColumnElement[bool]:
    """False for a withdrawn assignment, whose columns are null in the join."""
    return assignment.c.id.is_not(None)


async def get_my_answer_sets(ctx: Context, ids: list[int], wanted: Selection) -> list[Row]:
    where = (Where(may_be_read), Where(is_joined, via="assignment"))
    access = ctx.access()
    return await ctx.read("answerSet", access, get_rows(AnswerSet, access, ids, wanted, where))
