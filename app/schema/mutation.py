"""The changes: a table of contents, one field each."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import strawberry

from app.care import opening
from app.care.answers import drafts, feedback, questions, submitting
from app.care.answers.reading import get_my_answer_sets
from app.care.assignments import homework, pending
from app.care.assignments.reading import get_my_assignments
from app.care.context import Context, Role
from app.care.errors import DraftConflict, Incomplete, Refused
from app.care.sessions import changing
from app.db.reader.entities import Table
from app.db.reader.reads import Row
from app.db.tables import AnswerSet, Assignment, Book, Client, Feedback, Question, Session
from app.schema.errors import user_errors
from app.schema.inputs.answers import (
    SaveAnswersInput,
    SaveAnswersPayload,
    SubmitAnswersInput,
    SubmitAnswersPayload,
)
from app.schema.inputs.assignments import (
    AssignHomeworkInput,
    AssignHomeworkPayload,
    ExtendAssignmentInput,
    ExtendAssignmentPayload,
    GiveFeedbackInput,
    GiveFeedbackPayload,
    ReopenAssignmentInput,
    ReopenAssignmentPayload,
    SetRemindersInput,
    SetRemindersPayload,
    WithdrawAssignmentInput,
    WithdrawAssignmentPayload,
)
from app.schema.inputs.sessions import (
    CloseSessionInput,
    CloseSessionPayload,
    CreateSessionInput,
    CreateSessionPayload,
    SessionHomeworkInput,
    UpdateSessionInput,
    UpdateSessionPayload,
)
from app.schema.selection import Info, wanted_under
from app.schema.types.node import read_id

ASSIGNED = "The assignments were added to the session."
Payload = TypeVar("Payload")


async def ready(info: Info, role: Role) -> Context:
    """Checks the role before anything else; a refusal is on record."""
    await info.context.require_role(role, info.field_name)
    return info.context


def refuse_missing(**given: str | list[strawberry.ID]) -> None:
    """Required texts and ids must not be blank, and lists of ids neither empty nor with a blank item."""
    missing = [
        name
        for name, value in given.items()
        if not value or not all(map(str.strip, value if isinstance(value, list) else [value]))
    ]
    if missing:
        raise Incomplete(*missing)


async def changed(
    payload: type[Payload], member: str, change: Callable[[], Awaitable[Row | None]], **required: str
) -> Payload:
    """The payload of a change of one object, or of its refusal."""
    try:
        refuse_missing(**required)
        return payload(**{member: await change(), "user_errors": []})
    except Refused as refusal:
        return payload(**{member: None, "user_errors": user_errors(refusal)})


async def row_under(info: Info, name: str, table: Table, number: int) -> Any:
    """The row that the payload holds under `name`, as far as it was selected; None if it is gone by now."""
    wanted = wanted_under(info, name, table)
    if wanted is None:
        return None
    rows = await ROWS[table](info.context, [number], wanted)
    return rows[0] if rows else None


ROWS: dict[Table, Any] = {
    Assignment: get_my_assignments,
    AnswerSet: get_my_answer_sets,
    Feedback: feedback.get_my_feedbacks,
}


def read_homework(session_id: int | None, given: AssignHomeworkInput | SessionHomeworkInput) -> Any:
    return homework.Homework(
        session_id=session_id,
        book_ids=tuple(read_id(book_id, Book) for book_id in given.book_ids),
        start_date=given.start_date,
        end_date=given.end_date,
        remind_dates=tuple(given.remind_dates or ()),
    )


def read_new_session(input: CreateSessionInput) -> opening.NewSession:
    given, repeat = input.homework, input.repeat
    if input.client_id is None:
        required: dict[str, Any] = {"clientOpptId": input.client_oppt_id or ""}
    else:
        required = {"clientId": input.client_id}
    required["title"] = input.title
    if given is not None:
        required["homework.bookIds"] = given.book_ids
    refuse_missing(**required)
    return opening.NewSession(
        client_id=None if input.client_id is None else read_id(input.client_id, Client) or 0,
        oppt_id=input.client_oppt_id,
        title=input.title,
        description=input.description or "",
        start_date=input.start_date,
        homework=None if given is None else read_homework(None, given),
        repeat=opening.Repeat(1, 1) if repeat is None else opening.Repeat(repeat.count, repeat.every_days),
    )


def read_answers(input: SaveAnswersInput | SubmitAnswersInput) -> drafts.Answers:
    return drafts.Answers(
        read_id(input.assignment_id, Assignment),
        tuple(questions.GivenAnswer(read_id(one.question_id, Question), one.answer) for one in input.answers),
        input.revision or 0,
    )


async def stored_draft(info: Info, refusal: Refused) -> Any:
    """After a conflict the draft there is, so that no device loses what another one saved."""
    if not isinstance(refusal, DraftConflict):
        return None
    return await drafts.read_draft(info.context, refusal.draft_id, wanted_under(info, "draft", AnswerSet))


@strawberry.type(
    description="What can be changed. Where `userErrors` of a payload says why not, nothing was changed."
)
class Mutation:
    # --- sessions ---

    @strawberry.mutation(description="For caregivers: open a session with a client, or several.")
    async def create_session(self, info: Info, input: CreateSessionInput) -> CreateSessionPayload:
        ctx = await ready(info, Role.CAREGIVER)
        try:
            asked = read_new_session(input)
            rows: Any = await opening.create_session(ctx, asked, wanted_under(info, "sessions", Session))
        except Refused as refusal:
            return CreateSessionPayload(sessions=[], user_errors=user_errors(refusal))
        return CreateSessionPayload(sessions=rows, user_errors=[])

    @strawberry.mutation(description="For caregivers: change a session that is not closed.")
    async def update_session(self, info: Info, input: UpdateSessionInput) -> UpdateSessionPayload:
        ctx = await ready(info, Role.CAREGIVER)
        change = changing.SessionChange(
            read_id(input.session_id, Session), input.title, input.description, input.start_date
        )
        wanted = wanted_under(info, "session", Session)
        return await changed(
            UpdateSessionPayload,
            "session",
            lambda: changing.update_session(ctx, change, wanted),
            sessionId=input.session_id,
        )

    @strawberry.mutation(
        description="For caregivers: close a session for good; it takes no homework and no answers any more."
    )
    async def close_session(self, info: Info, input: CloseSessionInput) -> CloseSessionPayload:
        ctx, session_id = await ready(info, Role.CAREGIVER), read_id(input.session_id, Session)
        wanted = wanted_under(info, "session", Session)
        return await changed(
            CloseSessionPayload,
            "session",
            lambda: changing.close_session(ctx, session_id, wanted),
            sessionId=input.session_id,
        )

    # --- homework ---

    @strawberry.mutation(
        description="For caregivers: assign books to the client of a running session, all of them or none."
    )
    async def assign_homework(self, info: Info, input: AssignHomeworkInput) -> AssignHomeworkPayload:
        ctx = await ready(info, Role.CAREGIVER)
        wanted = wanted_under(info, "assignments", Assignment)
        try:
            refuse_missing(bookIds=input.book_ids, sessionId=input.session_id)
            asked = read_homework(read_id(input.session_id, Session), input)
            rows: Any = await homework.assign_homework(ctx, asked, wanted)
        except Refused as refusal:
            return AssignHomeworkPayload(assignments=[], message=None, user_errors=user_errors(refusal))
        return AssignHomeworkPayload(assignments=rows, message=ASSIGNED, user_errors=[])

    @strawberry.mutation(description="For caregivers: give a pending assignment more time.")
    async def extend_assignment(self, info: Info, input: ExtendAssignmentInput) -> ExtendAssignmentPayload:
        ctx, assignment_id = await ready(info, Role.CAREGIVER), read_id(input.assignment_id, Assignment)
        wanted = wanted_under(info, "assignment", Assignment)
        return await changed(
            ExtendAssignmentPayload,
            "assignment",
            lambda: pending.extend_assignment(ctx, assignment_id, input.end_date, wanted),
            assignmentId=input.assignment_id,
        )

    @strawberry.mutation(description="For caregivers: take a pending assignment back; it is gone for both.")
    async def withdraw_assignment(
        self, info: Info, input: WithdrawAssignmentInput
    ) -> WithdrawAssignmentPayload:
        ctx, assignment_id = await ready(info, Role.CAREGIVER), read_id(input.assignment_id, Assignment)
        wanted = wanted_under(info, "session", Session)
        return await changed(
            WithdrawAssignmentPayload,
            "session",
            lambda: pending.withdraw_assignment(ctx, assignment_id, wanted),
            assignmentId=input.assignment_id,
        )

    @strawberry.mutation(
        description="For caregivers: say when the client is reminded of a pending assignment."
    )
    async def set_reminders(self, info: Info, input: SetRemindersInput) -> SetRemindersPayload:
        ctx, assignment_id = await ready(info, Role.CAREGIVER), read_id(input.assignment_id, Assignment)
        wanted = wanted_under(info, "assignment", Assignment)
        return await changed(
            SetRemindersPayload,
            "assignment",
            lambda: pending.set_reminders(ctx, assignment_id, tuple(input.remind_dates), wanted),
            assignmentId=input.assignment_id,
        )

    @strawberry.mutation(
        description="For caregivers: have a submitted assignment answered once more; its history stays."
    )
    async def reopen_assignment(self, info: Info, input: ReopenAssignmentInput) -> ReopenAssignmentPayload:
        ctx, assignment_id = await ready(info, Role.CAREGIVER), read_id(input.assignment_id, Assignment)
        wanted = wanted_under(info, "assignment", Assignment)
        return await changed(
            ReopenAssignmentPayload,
            "assignment",
            lambda: submitting.reopen_assignment(ctx, assignment_id, wanted),
            assignmentId=input.assignment_id,
        )

    @strawberry.mutation(description="For caregivers: give feedback on a submission, or edit it.")
    async def give_feedback(self, info: Info, input: GiveFeedbackInput) -> GiveFeedbackPayload:
        ctx = await ready(info, Role.CAREGIVER)
        opinion = feedback.FeedbackInput(read_id(input.answer_set_id, AnswerSet), input.text, input.score)
        try:
            refuse_missing(answerSetId=input.answer_set_id, text=input.text)
            given = await feedback.give_feedback(ctx, opinion)
        except Refused as refusal:
            return GiveFeedbackPayload(feedback=None, assignment=None, user_errors=user_errors(refusal))
        return GiveFeedbackPayload(
            feedback=await row_under(info, "feedback", Feedback, given.feedback_id),
            assignment=await row_under(info, "assignment", Assignment, given.assignment_id),
            user_errors=[],
        )

    # --- answers ---

    @strawberry.mutation(description="For clients: save the draft of an assignment; nobody else sees it.")
    async def save_answers(self, info: Info, input: SaveAnswersInput) -> SaveAnswersPayload:
        ctx = await ready(info, Role.CLIENT)
        answers = read_answers(input)
        wanted = wanted_under(info, "draft", AnswerSet)
        try:
            refuse_missing(assignmentId=input.assignment_id)
            draft: Any = await drafts.save_answers(ctx, answers, bool(input.auto_save), wanted)
        except Refused as refusal:
            stored = await stored_draft(info, refusal)
            return SaveAnswersPayload(assignment=None, draft=stored, user_errors=user_errors(refusal))
        assert answers.assignment_id is not None  # or it would have been refused
        assignment = await row_under(info, "assignment", Assignment, answers.assignment_id)
        return SaveAnswersPayload(assignment=assignment, draft=draft, user_errors=[])

    @strawberry.mutation(description="For clients: submit the answers to an assignment, for good.")
    async def submit_answers(self, info: Info, input: SubmitAnswersInput) -> SubmitAnswersPayload:
        ctx = await ready(info, Role.CLIENT)
        answers = read_answers(input)
        try:
            refuse_missing(assignmentId=input.assignment_id)
            done = await submitting.submit_answers(ctx, answers)
        except Refused as refusal:
            stored = await stored_draft(info, refusal)
            return SubmitAnswersPayload(
                assignment=None, answer_set=None, draft=stored, user_errors=user_errors(refusal)
            )
        return SubmitAnswersPayload(
            assignment=await row_under(info, "assignment", Assignment, done.assignment_id),
            answer_set=await row_under(info, "answerSet", AnswerSet, done.answer_set_id),
            draft=None,
            user_errors=[],
        )
