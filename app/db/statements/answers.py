"""Statements for drafts, submissions and feedback."""

from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    select,
    update,
)

from app.db.reader.access import client_key, is_final, is_of_caregiver, without_index
from app.db.sql import (
    PerDatabase,
    Statement,
    after_lock,
    count_parameter,
    id_parameter,
    literal_text,
    moment_parameter,
    new_id,
    new_id_if_here,
    text_parameter,
)
from app.db.statements.assignments import LOCKED, locked, select_assignment
from app.db.tables import ANSWER_SET, FEEDBACK, QUESTION

# The relationship and the assignment, which the transaction has locked.
OF_ASSIGNMENT = {
    "caregiver_id": id_parameter("caregiver"),
    "client_id": id_parameter("client"),
    "assignment_id": id_parameter("assignment"),
}

ANSWERS = bindparam("answers", type_=JSON)  # the document, as text

# --- locking an assignment for answers ------------------------------------------------------------


def questions_of(book: ColumnElement[int]) -> ColumnElement[Any]:
    """A JSON array of the questions in any order; each is an array of its columns."""
    head, is_required = QUESTION.c["id", "position", "text", "kind"], QUESTION.c.is_required
    (options, weights), limits = QUESTION.c["options", "weights"], QUESTION.c["minimum", "maximum"]
    sqlite_tail = func.json(options), is_required, *map(with_all_digits, limits), func.json(weights)
    array = PerDatabase(
        sqlite=func.json_group_array(func.json_array(*head, *sqlite_tail)),
        postgresql=func.json_agg(func.json_build_array(*head, options, is_required, *limits, weights)),
    )
    return select(array).where(QUESTION.c.book_id == book).scalar_subquery()


def with_all_digits(number: ColumnElement[float]) -> ColumnElement[Any]:
    """The number as JSON. json_array of SQLite writes only 15 digits."""
    digits = func.printf(literal_text("%!.18g"), number)
    return func.json(case((number.is_not(None), digits)))


def select_for_answers(questions: ColumnElement[Any], new_set: ColumnElement[Any]) -> Select[Any]:
    """An assignment of the client with its draft, its last submitted revision, the questions of its book, and
    the id for a new answer set."""
    draft, earlier = ANSWER_SET.alias("d"), ANSWER_SET.alias("e")
    is_draft = and_(draft.c.assignment_id == LOCKED.c.id, ~is_final(draft), client_key(draft))
    last_revision = select(func.max(earlier.c.revision)).where(
        earlier.c.assignment_id == LOCKED.c.id, is_final(earlier), client_key(earlier)
    )
    return (
        select_assignment(client_key)
        .outerjoin(draft, is_draft)
        .add_columns(
            *draft.c["id", "revision", "answers"],
            last_revision.scalar_subquery().label("last_revision"),
            questions.label("questions"),
            new_set.label("new_set"),
        )
    )


QUESTIONS = questions_of(LOCKED.c.book_id)
LOCK_FOR_ANSWERS = Statement(
    locked(select_for_answers(after_lock(QUESTIONS), after_lock(new_id_if_here("answer_set")))),
    reads_after_lock=True,
)
TAKE_SET_ID = Statement(select(new_id("answer_set")))

# --- answer sets ----------------------------------------------------------------------------------

# SQLite must not search the index on the caregiver.
IS_OF_ASSIGNMENT = and_(
    ANSWER_SET.c.assignment_id == id_parameter("assignment"),
    without_index(ANSWER_SET.c.caregiver_id) == id_parameter("caregiver"),
)

FIND_SUBMISSION = Statement(
    select(*ANSWER_SET.c["id", "answers"]).where(
        IS_OF_ASSIGNMENT, is_final(ANSWER_SET), ANSWER_SET.c.attempt == count_parameter("attempt")
    )
)
FIND_SET = Statement(
    select(*ANSWER_SET.c["assignment_id", "attempt", "own_score"]).where(
        ANSWER_SET.c.id == id_parameter("answer_set"), is_of_caregiver(ANSWER_SET), is_final(ANSWER_SET)
    )
)
COLUMNS_OF_SET: dict[str, Any] = {
    "id": id_parameter("answer_set"),
    **OF_ASSIGNMENT,
    "save_type": text_parameter("save_type"),
    "attempt": count_parameter("attempt"),
    "revision": count_parameter("revision"),
    "submit_date": moment_parameter("submitted"),
    "score": count_parameter("score"),
    "own_score": count_parameter("score"),
    "answers": ANSWERS,
}
ADD_SET = Statement(insert(ANSWER_SET).values(COLUMNS_OF_SET))
UPDATE_SET = update(ANSWER_SET).where(ANSWER_SET.c.id == id_parameter("answer_set"), IS_OF_ASSIGNMENT)
SAVE_DRAFT = Statement(
    UPDATE_SET.values(
        save_type=text_parameter("save_type"),
        attempt=count_parameter("attempt"),
        revision=count_parameter("revision"),
        answers=ANSWERS,
    )
)
DROP_DRAFT = Statement(delete(ANSWER_SET).where(IS_OF_ASSIGNMENT, ~is_final(ANSWER_SET)))
SCORE_SET = Statement(UPDATE_SET.values(score=count_parameter("score")))

# --- feedback -------------------------------------------------------------------------------------

IS_FEEDBACK_ON_SET = and_(FEEDBACK.c.answer_set_id == id_parameter("answer_set"), is_of_caregiver(FEEDBACK))
CONTENT = {
    "text": text_parameter("text"),
    "score": bindparam("given_score", type_=Integer),
    "submit_date": moment_parameter("now"),
}

FIND_FEEDBACK = Statement(select(*FEEDBACK.c["id", "text", "score"]).where(IS_FEEDBACK_ON_SET))
ADD_FEEDBACK = Statement(
    insert(FEEDBACK).values(**OF_ASSIGNMENT, answer_set_id=id_parameter("answer_set"), **CONTENT),
    returns_ids=True,
)
CHANGE_FEEDBACK = Statement(update(FEEDBACK).where(IS_FEEDBACK_ON_SET).values(CONTENT))
