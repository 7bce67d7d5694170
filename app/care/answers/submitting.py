"""Submitting answers, once per attempt, and reopening an assignment for another attempt."""

from dataclasses import dataclass

from app.care.answers.drafts import (
    Answers,
    adding_answers,
    dropping_draft,
    finding_draft,
    is_stored,
    last_revision,
    refuse_stale,
    refuse_unless_answerable,
    refuse_without_questions,
)
from app.care.answers.questions import (
    Question,
    check_count,
    check_fit,
    finding_questions,
    match_answers,
    match_valid_answers,
    score_of,
)
from app.care.assignments.locking import (
    LockedAssignment,
    emitting_event,
    locking_assignment,
    refuse_unless_complete,
    refuse_unless_running,
)
from app.care.assignments.pending import changed_assignment
from app.care.context import Context, Role
from app.care.errors import WrongAnswers, WrongState
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Operation
from app.db.statements.answers import ADD_SET, FIND_SUBMISSION
from app.db.statements.assignments import COMPLETE, REOPEN, SKIP_REMINDERS
from app.db.statements.sessions import RECOUNT
from app.db.tables import Actor, AssignmentStatus, EventKind, SaveType


@dataclass(frozen=True)
class Submitted:
    assignment_id: int
    answer_set_id: int


async def submit_answers(ctx: Context, answers: Answers) -> Submitted:
    """Accepts late answers. Repeating the same answers returns the first submission; other answers are
    rejected."""
    access = ctx.access_as(Role.CLIENT)
    check_count(answers.given)
    return Submitted(*(await ctx.write("submitAnswers", submitting(access, answers))))


def submitting(access: AccessScope, answers: Answers) -> Operation[list[int]]:
    """Returns the ids of the assignment and of its new answer set."""
    locked = yield from locking_assignment(access, answers.assignment_id)
    questions = yield from finding_questions({"book": locked.book_id})
    if locked.status is AssignmentStatus.COMPLETE:
        return (yield from submitted_before(locked, questions, answers))
    refuse_unless_answerable(locked)
    refuse_without_questions(questions)
    draft = yield from finding_draft(locked)
    refuse_stale(draft, answers.revision)
    revision = answers.revision or (yield from last_revision(locked)) + 1
    valid, wrong = match_valid_answers(questions, answers.given)
    given = with_blanks(questions, valid)
    check_fit(questions, given, wrong)
    score = score_of(questions, given)
    values = {
        **locked.values,
        "save_type": SaveType.FINAL,
        "attempt": locked.attempt,
        "revision": revision,
        "submitted": locked.now,
        "score": score,
    }
    if draft is not None:
        yield from dropping_draft(locked, draft)
    answer_set_id: int = (yield ADD_SET, values)[0][0]
    yield from adding_answers(locked, answer_set_id, questions, given)
    yield COMPLETE, {**values, "score": score or 0}
    yield SKIP_REMINDERS, values
    yield RECOUNT, values
    return [(yield from emitting_event(locked, EventKind.SUBMITTED, Actor.CLIENT)), answer_set_id]


def with_blanks(questions: list[Question], given: dict[int, str]) -> dict[int, str]:
    """Adds an empty answer for every question without one."""
    return {question.id: given.get(question.id, "") for question in questions}


def submitted_before(
    locked: LockedAssignment, questions: list[Question], answers: Answers
) -> Operation[list[int]]:
    found = yield FIND_SUBMISSION, {**locked.values, "attempt": locked.attempt}
    try:
        given = with_blanks(questions, match_answers(questions, answers.given))
    except WrongAnswers:
        given = None
    if found and given is not None and (yield from is_stored(locked, found[0][0], given)):
        return [int(locked.values["assignment"]), found[0][0]]
    raise WrongState("the assignment is submitted", "assignmentId")


# --- another attempt ------------------------------------------------------------------------------


async def reopen_assignment(ctx: Context, assignment_id: int | None, wanted: Selection | None) -> Row | None:
    """Makes the assignment pending again. Earlier submissions stay readable."""
    access = ctx.access_as(Role.CAREGIVER)
    reopened = await ctx.write("reopenAssignment", reopening(access, assignment_id))
    return await changed_assignment(ctx, reopened, wanted)


def reopening(access: AccessScope, assignment_id: int | None) -> Operation[int]:
    locked = yield from locking_assignment(access, assignment_id)
    refuse_unless_running(locked)
    refuse_unless_complete(locked)
    yield REOPEN, locked.values
    yield RECOUNT, locked.values
    return (yield from emitting_event(locked, EventKind.REOPENED, Actor.CAREGIVER))
