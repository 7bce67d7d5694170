"""The changes: a table of contents, one field each."""

from typing import Any

import strawberry

from app.care import homework
from app.care.context import Role
from app.care.errors import Refused
from app.db.tables import Assignment, Book, Session
from app.schema.assignments import AssignHomeworkInput, AssignHomeworkPayload
from app.schema.errors import user_errors
from app.schema.node import read_id
from app.schema.selection import Info, wanted_under

ASSIGNED = "The assignments were added to the session."


@strawberry.type(description="What can be changed.")
class Mutation:
    @strawberry.mutation(description="Assign books to the client of a running session: all of them or none.")
    async def assign_homework(self, info: Info, input: AssignHomeworkInput) -> AssignHomeworkPayload:
        info.context.signed_in_as(Role.CAREGIVER)
        asked = homework.Homework(
            session_id=read_id(input.session_id, Session),
            book_ids=tuple(read_id(book_id, Book) for book_id in input.book_ids),
            start_date=input.start_date,
            end_date=input.end_date,
            remind_dates=tuple(input.remind_dates or ()),
        )
        wanted = wanted_under(info, "assignments", Assignment)
        try:
            rows = await homework.assign_homework(info.context, asked, wanted)
        except Refused as refusal:
            return AssignHomeworkPayload(assignments=[], message=None, user_errors=user_errors(refusal))
        assigned: Any = rows  # rows stand for objects everywhere in this schema
        return AssignHomeworkPayload(assignments=assigned, message=ASSIGNED, user_errors=[])
