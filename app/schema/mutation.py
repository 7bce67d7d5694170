"""The mutations, one field each. Each resolver reads its input and calls one function of `care`."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import strawberry

from app.care import answers as care_answers
from app.care import assignment_changes, feedback, homework, new_sessions, questions, sessions
from app.care.answers import get_my_answer_sets
from app.care.assignments import get_my_assignments
from app.care.context import Context, Role, read_one
from app.care.errors import DraftConflict, Rejected
from app.db.reader.plans import Row
from app.db.tables import AnswerSet, Assignment, Book, Client, Feedback, Question, Session, Table
from app.schema.errors import user_errors
from app.schema.inputs import (
    AssignHomeworkInput,
    AssignHomeworkPayload,
    CloseSessionInput,
    CloseSessionPayload,
    CreateSessionInput,
    CreateSessionPayload,
    ExtendAssignmentInput,
    ExtendAssignmentPayload,
    GiveFeedbackInput,
    GiveFeedbackPayload,
    ReopenAssignmentInput,
    ReopenAssignmentPayload,
    SaveAnswersInput,
    SaveAnswersPayload,
    SessionHomeworkInput,
    SetRemindersInput,
    SetRemindersPayload,
    SubmitAnswersInput,
    SubmitAnswersPayload,
    UpdateSessionInput,
    UpdateSessionPayload,
    WithdrawAssignmentInput,
    WithdrawAssignmentPayload,
)
from app.schema.selection import Info, selected_member
from app.schema.types.scalars import read_id, read_input_id

ASSIGNED = "The assignments were added to the session."
Payload = TypeVar("Payload")


async def require_role(info: Info, role: Role) -> Context:
    """Checks the role before the selection; a rejection is recorded in the audit log."""
    await info.context.require_role(role, info.field_name)
    return info.context


async def change_one(
    info: Info,
    payload: type[Payload],
    member: str,
    change: Callable[..., Awaitable[Row | None]],
    *given: object,
) -> Payload:
    """The payload of a mutation by which a caregiver changes one object; `change` returns its `member`."""
    ctx = await require_role(info, Role.CAREGIVER)
    selection = selected_member(info, member, Session if member == "session" else Assignment)
    try:
        return payload(**{member: await change(ctx, *given, selection), "user_errors": []})
    except Rejected as rejection:
        return payload(**{member: None, "user_errors": user_errors(rejection)})


def row_under(info: Info, name: str, table: Table, number: int) -> Awaitable[Any]:
    """The row for the payload member `name`; None if not selected or deleted meanwhile."""
    return read_one(ROWS[table], info.context, number, selected_member(info, name, table))


def check_selected(info: Info, **members: Table) -> None:
    """Rejects arguments out of range in what the payload selects. Called before the change is made."""
    for name, table in members.items():
        selected_member(info, name, table)


ROWS: dict[Table, Any] = {
    Assignment: get_my_assignments,
    AnswerSet: get_my_answer_sets,
    Feedback: feedback.get_my_feedbacks,
}


def read_homework(session_id: int | None, given: AssignHomeworkInput | SessionHomeworkInput) -> Any:
    return homework.Homework(
        session_id=session_id,
        book_ids=tuple([read_input_id(book_id, Book) for book_id in given.book_ids]),
        start_date=given.start_date,
        end_date=given.end_date,
        remind_dates=tuple(given.remind_dates or ()),
    )


def read_new_session(input: CreateSessionInput) -> new_sessions.NewSession:
    given, repeat = input.homework, input.repeat
    client_id = None if input.client_id is None else read_input_id(input.client_id, Client) or 0
    return new_sessions.NewSession(
        client_id=client_id,
        oppt_id=input.client_oppt_id,
        title=input.title,
        description=input.description or "",
        start_date=input.start_date,
        homework=None if given is None else read_homework(None, given),
        repeat=new_sessions.Repeat(1, 1)
        if repeat is None
        else new_sessions.Repeat(repeat.count, repeat.every_days),
    )


def read_answers(input: SaveAnswersInput | SubmitAnswersInput) -> care_answers.Answers:
    return care_answers.Answers(
        read_input_id(input.assignment_id, Assignment),
        tuple(questions.GivenAnswer(read_id(one.question_id, Question), one.answer) for one in input.answers),
        input.revision or 0,
    )


async def stored_draft(info: Info, rejection: Rejected) -> Any:
    """The stored draft after a DRAFT_CONFLICT, so that no device overwrites another's changes unseen."""
    if not isinstance(rejection, DraftConflict) or rejection.draft_id is None:
        return None
    return await row_under(info, "draft", AnswerSet, rejection.draft_id)


@strawberry.type(description="All mutations. A mutation with `userErrors` in its payload changed nothing.")
class Mutation:
    # --- sessions ---

    @strawberry.mutation(description="Create one or more sessions with a client. Caregivers only.")
    async def create_session(self, info: Info, input: CreateSessionInput) -> CreateSessionPayload:
        ctx = await require_role(info, Role.CAREGIVER)
        selection = selected_member(info, "sessions", Session)
        try:
            rows: Any = await new_sessions.create_session(ctx, read_new_session(input), selection)
        except Rejected as rejection:
            return CreateSessionPayload(sessions=[], user_errors=user_errors(rejection))
        return CreateSessionPayload(sessions=rows, user_errors=[])

    @strawberry.mutation(description="Update a session that is not closed. Caregivers only.")
    async def update_session(self, info: Info, input: UpdateSessionInput) -> UpdateSessionPayload:
        change = sessions.SessionChange(
            read_input_id(input.session_id, Session), input.title, input.description, input.start_date
        )
        return await change_one(info, UpdateSessionPayload, "session", sessions.update_session, change)

    @strawberry.mutation(
        description="Close a session permanently; it accepts no more homework or answers. Caregivers only."
    )
    async def close_session(self, info: Info, input: CloseSessionInput) -> CloseSessionPayload:
        session_id = read_input_id(input.session_id, Session)
        return await change_one(info, CloseSessionPayload, "session", sessions.close_session, session_id)

    # --- homework ---

    @strawberry.mutation(
        description="Assign books to the client of a running session: all of them or none. Caregivers only."
    )
    async def assign_homework(self, info: Info, input: AssignHomeworkInput) -> AssignHomeworkPayload:
        ctx = await require_role(info, Role.CAREGIVER)
        selection = selected_member(info, "assignments", Assignment)
        try:
            request = read_homework(read_input_id(input.session_id, Session), input)
            rows: Any = await homework.assign_homework(ctx, request, selection)
        except Rejected as rejection:
            return AssignHomeworkPayload(assignments=[], message=None, user_errors=user_errors(rejection))
        return AssignHomeworkPayload(assignments=rows, message=ASSIGNED, user_errors=[])

    @strawberry.mutation(description="Move the end date of a pending assignment. Caregivers only.")
    async def extend_assignment(self, info: Info, input: ExtendAssignmentInput) -> ExtendAssignmentPayload:
        assignment_id = read_input_id(input.assignment_id, Assignment)
        return await change_one(
            info,
            ExtendAssignmentPayload,
            "assignment",
            assignment_changes.extend_assignment,
            assignment_id,
            input.end_date,
        )

    @strawberry.mutation(description="Withdraw a pending assignment. Caregivers only.")
    async def withdraw_assignment(
        self, info: Info, input: WithdrawAssignmentInput
    ) -> WithdrawAssignmentPayload:
        assignment_id = read_input_id(input.assignment_id, Assignment)
        return await change_one(
            info, WithdrawAssignmentPayload, "session", assignment_changes.withdraw_assignment, assignment_id
        )

    @strawberry.mutation(description="Set the reminders of a pending assignment. Caregivers only.")
    async def set_reminders(self, info: Info, input: SetRemindersInput) -> SetRemindersPayload:
        assignment_id = read_input_id(input.assignment_id, Assignment)
        return await change_one(
            info,
            SetRemindersPayload,
            "assignment",
            assignment_changes.set_reminders,
            assignment_id,
            tuple(input.remind_dates),
        )

    @strawberry.mutation(
        description="Reopen a submitted assignment for another attempt; its history is kept. Caregivers only."
    )
    async def reopen_assignment(self, info: Info, input: ReopenAssignmentInput) -> ReopenAssignmentPayload:
        assignment_id = read_input_id(input.assignment_id, Assignment)
        return await change_one(
            info, ReopenAssignmentPayload, "assignment", assignment_changes.reopen_assignment, assignment_id
        )

    @strawberry.mutation(description="Give or edit feedback on a submission. Caregivers only.")
    async def give_feedback(self, info: Info, input: GiveFeedbackInput) -> GiveFeedbackPayload:
        ctx = await require_role(info, Role.CAREGIVER)
        check_selected(info, feedback=Feedback, assignment=Assignment)
        change = feedback.FeedbackInput(
            read_input_id(input.answer_set_id, AnswerSet), input.text, input.score
        )
        try:
            feedback_id, assignment_id = await feedback.give_feedback(ctx, change)
        except Rejected as rejection:
            return GiveFeedbackPayload(feedback=None, assignment=None, user_errors=user_errors(rejection))
        return GiveFeedbackPayload(
            feedback=await row_under(info, "feedback", Feedback, feedback_id),
            assignment=await row_under(info, "assignment", Assignment, assignment_id),
            user_errors=[],
        )

    # --- answers ---

    @strawberry.mutation(
        description="Save the draft of an assignment, visible only to the client. Clients only."
    )
    async def save_answers(self, info: Info, input: SaveAnswersInput) -> SaveAnswersPayload:
        ctx = await require_role(info, Role.CLIENT)
        check_selected(info, assignment=Assignment)
        answers = read_answers(input)
        selection = selected_member(info, "draft", AnswerSet)
        try:
            draft: Any = await care_answers.save_answers(ctx, answers, bool(input.auto_save), selection)
        except Rejected as rejection:
            stored = await stored_draft(info, rejection)
            return SaveAnswersPayload(assignment=None, draft=stored, user_errors=user_errors(rejection))
        assert answers.assignment_id is not None  # otherwise rejected
        assignment = await row_under(info, "assignment", Assignment, answers.assignment_id)
        return SaveAnswersPayload(assignment=assignment, draft=draft, user_errors=[])

    @strawberry.mutation(description="Submit the answers to an assignment. Cannot be undone. Clients only.")
    async def submit_answers(self, info: Info, input: SubmitAnswersInput) -> SubmitAnswersPayload:
        ctx = await require_role(info, Role.CLIENT)
        check_selected(info, assignment=Assignment, answerSet=AnswerSet, draft=AnswerSet)
        answers = read_answers(input)
        try:
            assignment_id, answer_set_id = await care_answers.submit_answers(ctx, answers)
        except Rejected as rejection:
            stored = await stored_draft(info, rejection)
            return SubmitAnswersPayload(
                assignment=None, answer_set=None, draft=stored, user_errors=user_errors(rejection)
            )
        return SubmitAnswersPayload(
            assignment=await row_under(info, "assignment", Assignment, assignment_id),
            answer_set=await row_under(info, "answerSet", AnswerSet, answer_set_id),
            draft=None,
            user_errors=[],
        )
