"""Feedback of a caregiver on a submission: one per answer set, and it can be edited."""

from dataclasses import dataclass

from app.care.assignments import (
    NOT_WITHDRAWN,
    emitting_event,
    locking_assignment,
    reject_unless_complete,
    reject_unless_running,
)
from app.care.bounds import MAX_TEXT, check_required, check_text, length_of
from app.care.context import Context, Role
from app.care.errors import InvalidValue, NotFound, WrongState
from app.db.reader.reads import Row, get_rows
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Steps, Together, Values, repeatable
from app.db.statements.answers import ADD_FEEDBACK, CHANGE_FEEDBACK, FIND_FEEDBACK, FIND_SET, SCORE_SET
from app.db.statements.assignments import STORE_FEEDBACK_STATUS
from app.db.statements.sessions import RECOUNT
from app.db.tables import Actor, EventKind, Feedback

MAX_SCORE = 1_000_000


@dataclass(frozen=True)
class FeedbackInput:
    """Without `score`, the submission keeps the score that its answers have."""

    answer_set_id: int | None
    text: str
    score: int | None = None


async def give_feedback(ctx: Context, feedback: FeedbackInput) -> list[int]:
    """Returns the ids of the feedback and of the assignment."""
    access = ctx.access_as(Role.CAREGIVER)
    check_required(answerSetId=feedback.answer_set_id, text=feedback.text)
    check_text("text", feedback.text, MAX_TEXT)
    if feedback.score is not None and not 0 <= feedback.score <= MAX_SCORE:
        raise InvalidValue("score", f"must lie between 0 and {MAX_SCORE}")
    ctx.charge_stored(length_of(feedback.text))
    return await ctx.write("giveFeedback", giving_feedback(access, feedback))


async def get_my_feedbacks(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    access = ctx.access()
    return await ctx.read("feedback", access, get_rows(Feedback, access, ids, selection, (NOT_WITHDRAWN,)))


@repeatable
def giving_feedback(access: AccessScope, feedback: FeedbackInput) -> Steps[list[int]]:
    values: Values = {"caregiver": access.caregiver, "answer_set": feedback.answer_set_id}
    found = yield FIND_SET, values
    if not found:
        raise NotFound("answer set", "answerSetId")
    assignment_id, attempt, own_score = found[0]
    locked = yield from locking_assignment(access, assignment_id, "answer set", "answerSetId")
    reject_unless_running(locked, "answerSetId")
    reject_unless_complete(locked, "answerSetId")
    if attempt != locked.attempt:
        raise WrongState("the answers are those of an earlier attempt", "answerSetId")
    score = feedback.score if feedback.score is not None else own_score
    values = {
        **locked.values,
        "answer_set": feedback.answer_set_id,
        "text": feedback.text,
        "given_score": feedback.score,
        "score": score,
    }
    existing = yield FIND_FEEDBACK, values
    if existing and tuple(existing[0][1:]) == (feedback.text, feedback.score):
        return [existing[0][0], assignment_id]
    if existing:
        feedback_id: int = existing[0][0]
        yield CHANGE_FEEDBACK, values
    else:
        feedback_id = (yield ADD_FEEDBACK, values)[0][0]
    yield Together(((SCORE_SET, values), (STORE_FEEDBACK_STATUS, {**values, "score": score or 0})))
    yield from emitting_event(locked, EventKind.FEEDBACK_GIVEN, Actor.CAREGIVER, (RECOUNT, values))
    return [feedback_id, locked.id]
