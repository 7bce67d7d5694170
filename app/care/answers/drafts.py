"""Drafts: unsubmitted answers that only the client sees, one draft per assignment."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.care.answers.questions import GivenAnswer, Question, check_count, finding_questions, match_answers
from app.care.answers.reading import get_my_answer_sets
from app.care.assignments.locking import (
    LockedAssignment,
    locking_assignment,
    refuse_unless_pending,
    refuse_unless_running,
)
from app.care.context import Context, Role
from app.care.errors import DraftConflict, WrongState
from app.db.audit.records import DRAFTS
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Bulk, Operation
from app.db.statements.answers import (
    ADD_SET,
    ANSWER_COLUMNS,
    DROP_ANSWERS,
    DROP_SETS,
    FIND_ANSWERS,
    FIND_DRAFTS,
    FIND_LAST_REVISION,
    SAVE_DRAFT,
)
from app.db.statements.events import INSERT_ASSIGNMENT_EVENTS
from app.db.tables import Actor, EventKind, SaveType


@dataclass(frozen=True)
class Answers:
    """A client's answers to an assignment, and the revision of the draft that the client saw last."""

    assignment_id: int | None
    given: tuple[GivenAnswer, ...]
    revision: int = 0


@dataclass(frozen=True)
class Draft:
    id: int
    revision: int


async def save_answers(ctx: Context, answers: Answers, is_auto: bool, wanted: Selection | None) -> Row | None:
    """Returns the draft with its new revision. Raises DraftConflict if the stored revision is another one."""
    access = ctx.access_as(Role.CLIENT)
    check_count(answers.given)
    save_type = SaveType.AUTO_SAVE if is_auto else SaveType.DRAFT
    saved = await ctx.write("saveAnswers", saving(access, answers, save_type))
    return await read_draft(ctx, saved, wanted)


async def read_draft(ctx: Context, draft_id: int | None, wanted: Selection | None) -> Row | None:
    if draft_id is None or wanted is None:
        return None
    rows = await get_my_answer_sets(ctx, [draft_id], wanted)
    return rows[0] if rows else None


def saving(access: AccessScope, answers: Answers, save_type: SaveType) -> Operation[int]:
    locked = yield from locking_assignment(access, answers.assignment_id)
    refuse_unless_answerable(locked)
    questions = yield from finding_questions({"book": locked.book_id})
    refuse_without_questions(questions)
    given = match_answers(questions, answers.given)
    draft = yield from finding_draft(locked)
    revision = (answers.revision or (yield from last_revision(locked))) + 1
    was_next = draft is not None and draft.revision == revision
    if draft is not None and was_next and (yield from is_stored(locked, draft.id, given)):
        return draft.id  # a retry of the last save
    refuse_stale(draft, answers.revision)
    values = {**locked.values, "save_type": save_type, "attempt": locked.attempt, "revision": revision}
    if draft is None:
        draft_id = (yield ADD_SET, {**values, "submitted": None, "score": None})[0][0]
    else:
        draft_id = draft.id
        yield SAVE_DRAFT, {**values, "answer_set": draft_id}
        yield DROP_ANSWERS, {**values, "sets": [draft_id]}
    yield from adding_answers(locked, draft_id, questions, given)
    event = {"event": EventKind.DRAFT_SAVED, "actor": Actor.CLIENT, DRAFTS: [draft_id]}
    yield INSERT_ASSIGNMENT_EVENTS, {**locked.values, **event}
    return int(draft_id)


def refuse_unless_answerable(locked: LockedAssignment) -> None:
    refuse_unless_running(locked)
    refuse_unless_pending(locked)
    if locked.start_date > locked.now:
        raise WrongState("the assignment has not started", "assignmentId")


def refuse_without_questions(questions: Sequence[Question]) -> None:
    """A book from the old service has no questions until the operator imports them. Without this check a
    client could submit no answers, and that is final."""
    if not questions:
        raise WrongState("the book has no questions yet", "assignmentId")


def finding_draft(locked: LockedAssignment) -> Operation[Draft | None]:
    found = yield FIND_DRAFTS, locked.values
    return Draft(*found[0]) if found else None


def last_revision(locked: LockedAssignment) -> Operation[int]:
    """Revisions continue after those of earlier attempts, whose drafts a device may still show."""
    return int((yield FIND_LAST_REVISION, locked.values)[0][0] or 0)


def refuse_stale(draft: Draft | None, revision: int) -> None:
    if revision != (draft.revision if draft else 0):
        raise DraftConflict(draft.id if draft else None, "revision")


def is_stored(locked: LockedAssignment, answer_set_id: int, given: dict[int, str]) -> Operation[bool]:
    stored = yield FIND_ANSWERS, {**locked.values, "answer_set": answer_set_id}
    return [tuple(row) for row in stored] == list(given.items())


def adding_answers(
    locked: LockedAssignment, answer_set_id: int, questions: Sequence[Question], given: dict[int, str]
) -> Operation[None]:
    """Adds answers in the order of the book, each with the text of its question at that time."""
    caregiver, client = locked.values["caregiver"], locked.values["client"]
    rows = [
        (answer_set_id, one.position, caregiver, client, one.text, given[one.id], one.id)
        for one in questions
        if one.id in given
    ]
    if rows:
        yield Bulk("answer", ANSWER_COLUMNS, rows)


def dropping_draft(locked: LockedAssignment, draft: Draft) -> Operation[None]:
    yield DROP_ANSWERS, {**locked.values, "sets": [draft.id]}
    yield DROP_SETS, {**locked.values, "sets": [draft.id]}
