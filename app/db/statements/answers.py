"""Statements for drafts, submissions and feedback."""

from sqlalchemy import JSON, Integer, and_, bindparam, delete, func, insert, select, update

from app.db.reader.access import is_final, is_of_caregiver, without_index
from app.db.sql import Statement, count_parameter, id_parameter, moment_parameter, text_parameter
from app.db.tables import AnswerSet, Feedback, Question, table_of

SET, FEEDBACK, QUESTION = table_of(AnswerSet), table_of(Feedback), table_of(Question)

# The relationship and the assignment, which the transaction has locked.
OF_ASSIGNMENT = {
    "caregiver_id": id_parameter("caregiver"),
    "client_id": id_parameter("client"),
    "assignment_id": id_parameter("assignment"),
}

ANSWERS = bindparam("answers", type_=JSON)  # the document, as text

# --- questions ------------------------------------------------------------------------------------

FIND_QUESTIONS = Statement(
    select(
        *QUESTION.c[
            "id", "position", "text", "kind", "options", "is_required", "minimum", "maximum", "weights"
        ]
    )
    .where(QUESTION.c.book_id == id_parameter("book"))
    .order_by(QUESTION.c.position)
)

# --- answer sets ----------------------------------------------------------------------------------

# SQLite must not search the index on the caregiver.
IS_OF_ASSIGNMENT = and_(
    SET.c.assignment_id == id_parameter("assignment"),
    without_index(SET.c.caregiver_id) == id_parameter("caregiver"),
)

FIND_DRAFT = Statement(select(*SET.c["id", "revision", "answers"]).where(IS_OF_ASSIGNMENT, ~is_final(SET)))
FIND_LAST_REVISION = Statement(select(func.max(SET.c.revision)).where(IS_OF_ASSIGNMENT, is_final(SET)))
FIND_SUBMISSION = Statement(
    select(*SET.c["id", "answers"]).where(
        IS_OF_ASSIGNMENT, is_final(SET), SET.c.attempt == count_parameter("attempt")
    )
)
FIND_SET = Statement(
    select(*SET.c["assignment_id", "attempt", "own_score"]).where(
        SET.c.id == id_parameter("answer_set"), is_of_caregiver(SET), is_final(SET)
    )
)
ADD_SET = Statement(
    insert(SET).values(
        **OF_ASSIGNMENT,
        save_type=text_parameter("save_type"),
        attempt=count_parameter("attempt"),
        revision=count_parameter("revision"),
        submit_date=moment_parameter("submitted"),
        score=count_parameter("score"),
        own_score=count_parameter("score"),
        answers=ANSWERS,
    ),
    returns_ids=True,
)
SAVE_DRAFT = Statement(
    update(SET)
    .where(SET.c.id == id_parameter("answer_set"), IS_OF_ASSIGNMENT)
    .values(
        save_type=text_parameter("save_type"),
        attempt=count_parameter("attempt"),
        revision=count_parameter("revision"),
        answers=ANSWERS,
    )
)
DROP_DRAFT = Statement(delete(SET).where(SET.c.id == id_parameter("answer_set"), IS_OF_ASSIGNMENT))
SCORE_SET = Statement(
    update(SET)
    .where(SET.c.id == id_parameter("answer_set"), IS_OF_ASSIGNMENT)
    .values(score=count_parameter("score"))
)

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
