"""An answer set is one document: its column `answers` replaces the table `answer`."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import orjson
import sqlalchemy as sa
from alembic import op

from app.db.drivers.interface import DatabaseError
from app.db.migrations.columns import ID, INTEGER, JSON, TEXT, optional, reference, required

revision = "0009"
down_revision = "0008"

SETS_AT_ONCE = 200  # answer sets in memory
ANSWERS_OF_SETS = sa.text(
    "SELECT answer_set_id, caregiver_id, client_id, question_id, question_text, answer FROM answer"
    " WHERE answer_set_id > :after AND answer_set_id <= :last ORDER BY answer_set_id, position"
)
DOCUMENTS = sa.text(
    "SELECT id, caregiver_id, client_id, CAST(answers AS text) FROM answer_set"
    " WHERE id > :after AND id <= :last ORDER BY id"
)
LAST_OF_NEXT = sa.text(
    "SELECT max(id) FROM (SELECT id FROM answer_set WHERE id > :after ORDER BY id LIMIT :at_once) AS next"
)
INSERT_ANSWER = sa.text(
    "INSERT INTO answer (answer_set_id, position, caregiver_id, client_id, question_text, answer,"
    " question_id) VALUES (:answer_set, :position, :caregiver, :client, :text, :answer, :question)"
).bindparams(sa.bindparam("question", type_=sa.BigInteger()))
Answers = dict[Any, list[list[Any]]]  # by the id of the answer set, its caregiver and its client


def upgrade() -> None:
    document = JSON.with_variant(TEXT, "sqlite")
    op.add_column("answer_set", sa.Column("answers", document, nullable=False, server_default="[]"))
    converted = 0
    for bounds in batches():
        answers = stored_answers(bounds)
        write_documents(answers)
        check_documents(answers, bounds)
        converted += sum(map(len, answers.values()))
    (count,) = op.get_bind().execute(sa.text("SELECT count(*) FROM answer")).one()
    if count != converted:
        raise refusal(f"{count - converted} answers belong to no answer set")
    op.drop_table("answer")


def batches() -> Iterator[dict[str, int]]:
    """Ranges of ids of answer sets, which bound the memory that a migration needs."""
    last = 0
    while True:
        after = last
        (last,) = op.get_bind().execute(LAST_OF_NEXT, {"after": after, "at_once": SETS_AT_ONCE}).one()
        if last is None:
            return
        yield {"after": after, "last": last}


def stored_answers(bounds: dict[str, int]) -> Answers:
    answers: Answers = defaultdict(list)
    for answer_set, caregiver, client, *answer in op.get_bind().execute(ANSWERS_OF_SETS, bounds):
        answers[answer_set, caregiver, client].append(answer)
    return answers


def write_documents(answers: Answers) -> None:
    if not answers:
        return
    document = ":document" if op.get_context().dialect.name == "sqlite" else "CAST(:document AS json)"
    op.get_bind().execute(
        sa.text(f"UPDATE answer_set SET answers = {document} WHERE id = :id"),
        [{"id": key[0], "document": orjson.dumps(rows).decode()} for key, rows in answers.items()],
    )


def check_documents(answers: Answers, bounds: dict[str, int]) -> None:
    """Compares the documents with the rows, also their caregivers and clients: a document must not show an
    answer to a viewer who could not read its row."""
    for *key, document in op.get_bind().execute(DOCUMENTS, bounds):
        if json.loads(document) != answers.get(tuple(key), []):
            raise refusal(f"the answers of answer set {key[0]} are not those of its caregiver and client")


def refusal(reason: str) -> DatabaseError:
    return DatabaseError(
        f"nothing was changed: {reason}; delete the rows of answer for which answer_set has no row with "
        "the same id, caregiver_id and client_id. Then run `care-gateway migrate` again"
    )


def downgrade() -> None:
    op.create_table(
        "answer",
        *required(answer_set_id=ID, position=INTEGER, caregiver_id=ID, client_id=ID, question_text=TEXT),
        *required(answer=TEXT),
        *optional(question_id=ID),
        reference("answer_set"),
        sa.PrimaryKeyConstraint("answer_set_id", "position"),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    questions = connection.execute(sa.text("SELECT id, position FROM question"))
    positions = {question: position for question, position in questions}
    for bounds in batches():
        rows = [
            {
                "answer_set": answer_set,
                "position": positions.get(question, place),
                "caregiver": caregiver,
                "client": client,
                "text": text,
                "answer": answer,
                "question": question,
            }
            for answer_set, caregiver, client, document in connection.execute(DOCUMENTS, bounds)
            for place, (question, text, answer) in enumerate(json.loads(document), 1)
        ]
        if rows:
            connection.execute(INSERT_ANSWER, rows)
    op.drop_column("answer_set", "answers")
