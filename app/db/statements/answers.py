"""Statements for drafts, submissions and feedback."""

from sqlalchemy import Integer, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from app.db.reader.entities import is_final, table_of
from app.db.reader.relationship import without_index
from app.db.sql import (
    DatabaseKind,
    Statement,
    among,
    count_parameter,
    id_parameter,
    moment_parameter,
    text_parameter,
)
from app.db.tables import Answer, AnswerSet, Feedback, Question

SET = table_of(AnswerSet)
ANSWER = table_of(Answer)
FEEDBACK = table_of(Feedback)
QUESTION = table_of(Question)
ANSWER_COLUMNS = (
    "answer_set_id", "position", "caregiver_id", "client_id", "question_text", "answer", "question_id",
)  # fmt: skip


def find_questions(kind: DatabaseKind) -> ClauseElement:
    columns = (
        QUESTION.c.id,
        QUESTION.c.position,
        QUESTION.c.text,
        QUESTION.c.kind,
        QUESTION.c.options,
        QUESTION.c.is_required,
        QUESTION.c.minimum,
        QUESTION.c.maximum,
        QUESTION.c.weights,
    )
    return select(*columns).where(QUESTION.c.book_id == id_parameter("book")).order_by(QUESTION.c.position)


def of_locked_assignment(kind: DatabaseKind) -> ColumnElement[bool]:
    """The answer sets of the locked assignment. SQLite must not search the index on the caregiver."""
    caregiver: ColumnElement[int] = SET.c.caregiver_id
    if kind == "sqlite":
        caregiver = without_index(caregiver)
    return and_(SET.c.assignment_id == id_parameter("assignment"), caregiver == id_parameter("caregiver"))


def find_drafts(kind: DatabaseKind) -> ClauseElement:
    columns = (SET.c.id, SET.c.revision)
    return select(*columns).where(of_locked_assignment(kind), ~is_final(SET)).order_by(SET.c.id.desc())


def find_last_revision(kind: DatabaseKind) -> ClauseElement:
    return select(func.max(SET.c.revision)).where(of_locked_assignment(kind), is_final(SET))


def find_submission(kind: DatabaseKind) -> ClauseElement:
    return select(SET.c.id).where(
        of_locked_assignment(kind), is_final(SET), SET.c.attempt == count_parameter("attempt")
    )


def find_set(kind: DatabaseKind) -> ClauseElement:
    columns = (SET.c.assignment_id, SET.c.attempt, SET.c.own_score)
    return select(*columns).where(
        SET.c.id == id_parameter("answer_set"),
        SET.c.caregiver_id == id_parameter("caregiver"),
        is_final(SET),
    )


def find_answers(kind: DatabaseKind) -> ClauseElement:
    return (
        select(ANSWER.c.question_id, ANSWER.c.answer)
        .where(
            ANSWER.c.answer_set_id == id_parameter("answer_set"),
            ANSWER.c.caregiver_id == id_parameter("caregiver"),
        )
        .order_by(ANSWER.c.position)
    )


def add_set(kind: DatabaseKind) -> ClauseElement:
    columns = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "assignment_id": id_parameter("assignment"),
        "save_type": text_parameter("save_type"),
        "attempt": count_parameter("attempt"),
        "revision": count_parameter("revision"),
        "submit_date": moment_parameter("submitted"),
        "score": count_parameter("score"),
        "own_score": count_parameter("score"),
    }
    return insert(SET).values(columns)


def save_draft(kind: DatabaseKind) -> ClauseElement:
    mine = and_(SET.c.id == id_parameter("answer_set"), of_locked_assignment(kind))
    changed = {
        "save_type": text_parameter("save_type"),
        "attempt": count_parameter("attempt"),
        "revision": count_parameter("revision"),
    }
    return update(SET).where(mine).values(changed)


def drop_answers(kind: DatabaseKind) -> ClauseElement:
    return delete(ANSWER).where(
        among(ANSWER.c.answer_set_id, "sets", kind), ANSWER.c.caregiver_id == id_parameter("caregiver")
    )


def drop_sets(kind: DatabaseKind) -> ClauseElement:
    return delete(SET).where(among(SET.c.id, "sets", kind), of_locked_assignment(kind))


def score_set(kind: DatabaseKind) -> ClauseElement:
    return (
        update(SET)
        .where(SET.c.id == id_parameter("answer_set"), of_locked_assignment(kind))
        .values(score=count_parameter("score"))
    )


def find_feedback(kind: DatabaseKind) -> ClauseElement:
    return select(FEEDBACK.c.id, FEEDBACK.c.text, FEEDBACK.c.score).where(
        FEEDBACK.c.answer_set_id == id_parameter("answer_set"),
        FEEDBACK.c.caregiver_id == id_parameter("caregiver"),
    )


def add_feedback(kind: DatabaseKind) -> ClauseElement:
    columns = {
        "caregiver_id": id_parameter("caregiver"),
        "client_id": id_parameter("client"),
        "assignment_id": id_parameter("assignment"),
        "answer_set_id": id_parameter("answer_set"),
        "text": text_parameter("text"),
        "score": bindparam("given_score", type_=Integer),
        "submit_date": moment_parameter("now"),
    }
    return insert(FEEDBACK).values(columns)


def change_feedback(kind: DatabaseKind) -> ClauseElement:
    changed = {
        "text": text_parameter("text"),
        "score": bindparam("given_score", type_=Integer),
        "submit_date": moment_parameter("now"),
    }
    mine = (
        FEEDBACK.c.answer_set_id == id_parameter("answer_set"),
        FEEDBACK.c.caregiver_id == id_parameter("caregiver"),
    )
    return update(FEEDBACK).where(*mine).values(changed)


FIND_QUESTIONS = Statement(find_questions)
FIND_DRAFTS = Statement(find_drafts)
FIND_LAST_REVISION = Statement(find_last_revision)
FIND_SUBMISSION = Statement(find_submission)
FIND_SET = Statement(find_set)
FIND_ANSWERS = Statement(find_answers)
ADD_SET = Statement(add_set, gives_ids=True)
SAVE_DRAFT = Statement(save_draft)
DROP_ANSWERS = Statement(drop_answers)
DROP_SETS = Statement(drop_sets)
SCORE_SET = Statement(score_set)
FIND_FEEDBACK = Statement(find_feedback)
ADD_FEEDBACK = Statement(add_feedback, gives_ids=True)
CHANGE_FEEDBACK = Statement(change_feedback)
