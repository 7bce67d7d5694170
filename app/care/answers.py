"""Answers: one draft per assignment, which only the client reads, and one submission per attempt."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, FromClause, or_

from app.care.assignments import (
    NOT_WITHDRAWN,
    LockedAssignment,
    assignment_of,
    is_of_client,
    is_submitted_since,
    locking_assignment,
    reject_unless_pending,
    reject_unless_running,
)
from app.care.bounds import ANSWER_BYTES, check_required, length_of
from app.care.context import Context, Role, read_one
from app.care.errors import CareError, DraftConflict, WrongState
from app.care.questions import (
    GivenAnswer,
    Question,
    check_count,
    check_fit,
    match_answers,
    match_storable_answers,
    read_questions,
    score_of,
)
from app.db.answers import Answer, as_document, read_answers
from app.db.audit.records import DRAFTS
from app.db.reader.access import is_final, is_own_draft, scope_values
from app.db.reader.reads import Page, Row, get_rows, known_rows, list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.sql import FastPath, FastRead, Steps, Together, Values, repeatable
from app.db.statements.answers import (
    ADD_SET,
    DROP_DRAFT,
    FIND_SUBMISSION,
    LOCK_FOR_ANSWERS,
    SAVE_DRAFT,
    TAKE_SET_ID,
)
from app.db.statements.assignments import COMPLETE, SKIP_REMINDERS
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.statements.fast_paths import FIND_FOR_ANSWERS, SAVE_ON_FAST_PATH, SUBMIT_ON_FAST_PATH
from app.db.statements.sessions import COUNT_COMPLETE
from app.db.tables import Actor, AnswerSet, AssignmentStatus, EventKind, SaveType

# --- reading --------------------------------------------------------------------------------------


def may_be_read(answer_set: FromClause) -> ColumnElement[bool]:
    """Both parties read submissions; only the client reads drafts."""
    return or_(is_final(answer_set), is_own_draft(answer_set))


async def get_my_answer_sets(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    where = (Where(may_be_read), NOT_WITHDRAWN)
    access = ctx.access()
    return await ctx.read("answerSet", access, get_rows(AnswerSet, access, ids, selection, where))


@dataclass(frozen=True)
class SubmissionFilter:
    since: datetime | None = None
    client_id: int | None = None


async def list_my_submissions(
    ctx: Context, filter: SubmissionFilter, page_request: PageRequest, selection: Selection
) -> Page:
    """Lists submissions of every attempt, newest first, also of assignments that were reopened since."""
    where = [Where(is_final), NOT_WITHDRAWN]
    if filter.since is not None:
        where.append(Where(is_submitted_since))
    if filter.client_id is not None:
        where.append(Where(is_of_client, narrows=True))
    values = {"since": filter.since, "of_client": filter.client_id}
    page_request = page_request._replace(where=tuple(where), values=values)
    access = ctx.access()
    return await ctx.read("submissions", access, list_rows(AnswerSet, access, page_request, selection))


# --- drafts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """A client's answers to an assignment, and the revision of the draft that the client saw last."""

    assignment_id: int | None
    given: tuple[GivenAnswer, ...]
    revision: int = 0


def stored_length(answers: Answers) -> int:
    return sum(length_of(one.answer) + ANSWER_BYTES for one in answers.given)


@dataclass(frozen=True)
class Draft:
    id: int
    revision: int
    answers: str  # the stored document


def checked_access(ctx: Context, answers: Answers) -> AccessScope:
    """The access of the client, after the checks that need no read."""
    access = ctx.access_as(Role.CLIENT)
    check_required(assignmentId=answers.assignment_id)
    check_count(answers.given)
    ctx.charge_stored(stored_length(answers))
    return access


async def save_answers(
    ctx: Context, answers: Answers, is_auto: bool, selection: Selection | None
) -> Row | None:
    """Returns the draft with its new revision. Raises DraftConflict if the stored revision is another one."""
    access = checked_access(ctx, answers)
    save_type = SaveType.AUTO_SAVE if is_auto else SaveType.DRAFT
    saved = await ctx.write("saveAnswers", saving(access, answers, save_type))
    if selection is None:
        return None
    known = {"id": saved}
    if answers.revision:  # else it may continue the revisions of an earlier attempt
        known["revision"] = answers.revision + 1
    if rows := known_rows(AnswerSet, selection, [known]):
        return rows[0]
    return await read_one(get_my_answer_sets, ctx, saved, selection)


@repeatable
def saving(access: AccessScope, answers: Answers, save_type: SaveType) -> Steps[int]:
    found = yield from finding_for_answers(access, answers, adds=not answers.revision)
    values = None
    with suppress(CareError):  # the assignment is locked and the draft then rejected
        values = draft_to_store(found, answers, save_type) if found else None
    if found is not None and values is not None:
        values["last"] = answers.revision
        statement, recorded = SAVE_ON_FAST_PATH[found.draft is None]
        if (yield FastPath(statement, recorded, values, (values,))):
            return int(values["answer_set"])
    found = yield from locking_for_answers(access, answers)
    values = draft_to_store(found, answers, save_type)
    if found.draft is not None and values is None:
        return found.draft.id
    assert values is not None
    saved = (SAVE_DRAFT if found.draft else ADD_SET, values)
    yield Together((saved, (INSERT_ASSIGNMENT_EVENTS, values)), is_last=True)
    return int(values["answer_set"])


class Answerable(NamedTuple):
    """An assignment with what its answers are checked against."""

    locked: LockedAssignment
    draft: Draft | None
    last_revision: int  # of earlier attempts, whose drafts a device may still show: revisions continue
    questions: list[Question]
    new_id: int  # for an answer set; None if none was taken


def finding_for_answers(access: AccessScope, answers: Answers, adds: bool) -> Steps[Answerable | None]:
    """The assignment without a lock, for a fast path, and the id of an answer set that it adds. None if there
    is no such assignment, or no fast path."""
    values = {**scope_values(access), "assignment": answers.assignment_id, "number": 0}
    for _, *row in (yield FastRead(FIND_FOR_ANSWERS[adds], values)):
        if row[0] is not None:
            return answerable_of(assignment_of(row, values))
    return None


def locking_for_answers(access: AccessScope, answers: Answers) -> Steps[Answerable]:
    locked = yield from locking_assignment(access, answers.assignment_id, statement=LOCK_FOR_ANSWERS)
    found = answerable_of(locked)
    return found if found.new_id is not None else found._replace(new_id=(yield TAKE_SET_ID, {})[0][0])


def answerable_of(assignment: LockedAssignment) -> Answerable:
    *draft, last_revision, questions, new_id = assignment.other_columns
    stored = Draft(*draft) if draft[0] is not None else None
    return Answerable(assignment, stored, last_revision or 0, read_questions(questions), new_id)


def draft_to_store(found: Answerable, answers: Answers, save_type: SaveType) -> Values | None:
    """The parameters of the statements that store the draft. None if it is stored, by the same save."""
    assignment, draft, last_revision, questions, new_id = found
    reject_unless_answerable(assignment, questions)
    given = match_answers(questions, answers.given)
    revision = (answers.revision or last_revision) + 1
    was_next = draft is not None and draft.revision == revision
    if draft is not None and was_next and is_stored(draft.answers, given):
        return None
    reject_stale(draft, answers.revision)
    draft_id = draft.id if draft else new_id
    return {
        **assignment.values,
        "answer_set": draft_id,
        "save_type": save_type,
        "attempt": assignment.attempt,
        "revision": revision,
        "submitted": None,
        "score": None,
        "answers": document_of(questions, given),
        "event": EventKind.DRAFT_SAVED,
        "actor": Actor.CLIENT,
        DRAFTS: [draft_id],
    }


def reject_unless_answerable(locked: LockedAssignment, questions: Sequence[Question]) -> None:
    reject_unless_running(locked)
    reject_unless_pending(locked)
    if locked.start_date > locked.now:
        raise WrongState("the assignment has not started", "assignmentId")
    # A book from the old service has no questions until the operator imports them. Without this check a
    # client could submit no answers, and that is final.
    if not questions:
        raise WrongState("the book has no questions yet", "assignmentId")


def reject_stale(draft: Draft | None, revision: int) -> None:
    if revision != (draft.revision if draft else 0):
        raise DraftConflict(draft.id if draft else None, "revision")


def is_stored(document: str, given: dict[int, str]) -> bool:
    return [(one.question_id, one.answer) for one in read_answers(document)] == list(given.items())


def document_of(questions: Sequence[Question], given: dict[int, str]) -> str:
    """The answers in the order of the book, each with the text of its question at that time."""
    return as_document(Answer(one.id, one.text, given[one.id]) for one in questions if one.id in given)


# --- submissions ----------------------------------------------------------------------------------


async def submit_answers(ctx: Context, answers: Answers) -> list[int]:
    """Returns the ids of the assignment and of the submission. Accepts late answers. Repeating the same
    answers returns the first submission; other answers are rejected."""
    access = checked_access(ctx, answers)
    return await ctx.write("submitAnswers", submitting(access, answers))


@repeatable
def submitting(access: AccessScope, answers: Answers) -> Steps[list[int]]:
    found = yield from finding_for_answers(access, answers, adds=True)
    values = None
    with suppress(CareError):  # the assignment is locked and the submission then rejected
        values = submission_to_store(found, answers) if found else None
    if values is not None:
        statement, recorded = SUBMIT_ON_FAST_PATH
        if (yield FastPath(statement, recorded, values, (values,))):
            return [values["assignment"], values["answer_set"]]
    found = yield from locking_for_answers(access, answers)
    locked, draft = found.locked, found.draft
    if locked.status is AssignmentStatus.COMPLETE:
        return (yield from finding_submitted(locked, found.questions, answers))
    scored = submission_to_store(found, answers)
    values = {**scored, "score": scored["own_score"]}
    changes = [(ADD_SET, values), (COMPLETE, scored), (COUNT_COMPLETE, scored), (SKIP_REMINDERS, values)]
    if draft is not None:
        changes.append((DROP_DRAFT, values))
    yield Together((*changes, (INSERT_ASSIGNMENT_EVENTS, values)), is_last=True)
    return [locked.id, values["answer_set"]]


def submission_to_store(found: Answerable, answers: Answers) -> Values:
    """The parameters of the statements that submit the answers."""
    locked, draft, last_revision, questions, new_id = found
    reject_unless_answerable(locked, questions)
    reject_stale(draft, answers.revision)
    storable, wrong = match_storable_answers(questions, answers.given)
    given = with_blanks(questions, storable)
    check_fit(questions, given, wrong)
    score = score_of(questions, given)
    return {
        **locked.values,
        "answer_set": new_id,
        "save_type": SaveType.FINAL,
        "attempt": locked.attempt,
        "last": answers.revision,
        "revision": answers.revision or last_revision + 1,
        "submitted": locked.now,
        "own_score": score,
        "score": score or 0,  # of the assignment
        "answers": document_of(questions, given),
        "event": EventKind.SUBMITTED,
        "actor": Actor.CLIENT,
    }


def with_blanks(questions: list[Question], given: dict[int, str]) -> dict[int, str]:
    """Adds an empty answer for every question without one."""
    return {question.id: given.get(question.id, "") for question in questions}


def finding_submitted(
    locked: LockedAssignment, questions: list[Question], answers: Answers
) -> Steps[list[int]]:
    """Returns the ids of an earlier submission of the same answers."""
    found = yield FIND_SUBMISSION, {**locked.values, "attempt": locked.attempt}
    given, wrong = match_storable_answers(questions, answers.given)
    if found and not wrong and is_stored(found[0][1], with_blanks(questions, given)):
        return [locked.id, found[0][0]]
    raise WrongState("the assignment is submitted", "assignmentId")
