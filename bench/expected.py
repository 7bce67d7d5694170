"""The right answer of each of the eight operations: plain, slow queries over the data set's SQLite file.

R1 to R4 are the legacy paths, G1 to G4 the same work in GraphQL:

    1  a client's running sessions, first page
    2  a caregiver's running assignments with their answers, first page
    3  one assignment with its answers
    4  homework of two books with one reminder each; what it writes is counted, so it has no answer here

Lists are newest id first. An assignment's state is its session's. The assignment named in a session is its
newest one; `lastAssignmentScore` is the score of the newest complete one. Moments are written as on the
legacy paths.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dataset import HOT_CAREGIVER, HOT_CLIENT, WRITER

PAGE_SIZE = 20
DIFFERENT_REQUESTS = 100  # what operations 3 and 4 cycle through

Values = dict[str, int]  # what a request is filled in with: ids of an assignment, a session, two books
Json = dict[str, Any]


def open_dataset(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    return db


def request_values(db: sqlite3.Connection, operation: str) -> list[Values]:
    """What the requests of an operation ask for: lists always the same, details and homework in turn."""
    if operation[1] in "12":
        return [{}]
    read = ids(db, "assignment", "caregiver_id = ? AND status = 'COMPLETE' ORDER BY id", HOT_CAREGIVER)
    written = ids(db, "session", "caregiver_id = ? AND running_status = 'RUNNING' ORDER BY id", WRITER)
    books = ids(db, "book", "? ORDER BY id", 1)
    return [
        {
            "assignment": read[i % len(read)],
            "session": written[i % len(written)],
            "book": books[i * 7 % len(books)],
            "second_book": books[(i * 7 + 3) % len(books)],
        }
        for i in range(DIFFERENT_REQUESTS)
    ]


def r1(db: sqlite3.Connection, _: Values) -> Json:
    found = ids(db, "session", "client_id = ? AND running_status = 'RUNNING' ORDER BY id DESC", HOT_CLIENT)
    return page(session, db, found)


def r2(db: sqlite3.Connection, _: Values) -> Json:
    found = ids(
        db, "assignment", "caregiver_id = ? AND time_state = 'RUNNING' ORDER BY id DESC", HOT_CAREGIVER
    )
    return page(assignment, db, found)


def r3(db: sqlite3.Connection, values: Values) -> Json:
    return assignment(db, values["assignment"])


def g1(db: sqlite3.Connection, _: Values) -> Json:
    wanted = (
        "id", "title", "description", "caregiverName", "clientName",
        "createDate", "startDate", "chatId", "runningStatus", "assignmentCount",
    )  # fmt: skip
    rest = r1(db, {})
    items = [{name: item[name] for name in wanted} for item in rest["content"]]
    return {"page": {"totalCount": rest["totalElements"], "items": items}}


def g2(db: sqlite3.Connection, _: Values) -> Json:
    rest = r2(db, {})
    items = [
        {
            "id": a["id"],
            "name": a["name"],
            "status": a["status"],
            "startDate": a["startDate"],
            "session": {"id": a["sessionId"], "title": a["sessionTitle"]},
            "client": {"id": a["clientId"], "name": a["clientName"]},
            "answerSets": graphql_answer_sets(a),
        }
        for a in rest["content"]
    ]
    return {"page": {"totalCount": rest["totalElements"], "items": items}}


def g3(db: sqlite3.Connection, values: Values) -> Json:
    a = r3(db, values)
    state = row(db, "session", a["sessionId"])["running_status"]
    return {
        "assignment": {
            "id": a["id"],
            "name": a["name"],
            "status": a["status"],
            "assignDate": a["assignDate"],
            "submitDate": a["submitDate"],
            "score": a["score"],
            "session": {"id": a["sessionId"], "title": a["sessionTitle"], "runningStatus": state},
            "answerSets": graphql_answer_sets(a),
        }
    }


ANSWER: dict[str, Callable[[sqlite3.Connection, Values], Json]] = {
    "R1": r1,
    "R2": r2,
    "R3": r3,
    "G1": g1,
    "G2": g2,
    "G3": g3,
}


def session(db: sqlite3.Connection, i: int) -> Json:
    s = row(db, "session", i)
    caregiver, client = row(db, "caregiver", s["caregiver_id"]), row(db, "client", s["client_id"])
    homework = db.execute("SELECT * FROM assignment WHERE session_id = ? ORDER BY id", (i,)).fetchall()
    complete = [a for a in homework if a["status"] == "COMPLETE"]
    newest = homework[-1] if homework else None
    return {
        "id": i,
        "title": s["title"],
        "description": s["description"],
        "caregiverId": caregiver["id"],
        "caregiverName": caregiver["name"],
        "caregiverPosition": caregiver["position"],
        "clientId": client["id"],
        "clientOpptId": client["oppt_id"],
        "clientName": client["name"],
        "createDate": date(s["create_date"]),
        "startDate": date(s["start_date"]),
        "chatId": s["chat_id"],
        "assignmentId": newest and newest["id"],
        "assignmentName": newest and newest["name"],
        "bookId": newest and newest["book_id"],
        "assignmentCount": len(homework),
        "completedAssignmentCount": len(complete),
        "pendingAssignmentCount": len(homework) - len(complete),
        "lastAssignmentScore": complete[-1]["score"] if complete else None,
        "isClosed": bool(s["is_closed"]),
        "runningStatus": s["running_status"],
        "documents": [],
        "assignments": [],
        "feedbacks": [],
    }


def assignment(db: sqlite3.Connection, i: int) -> Json:
    a = row(db, "assignment", i)
    s, book = row(db, "session", a["session_id"]), row(db, "book", a["book_id"])
    module = row(db, "module", book["module_id"])
    caregiver, client = row(db, "caregiver", a["caregiver_id"]), row(db, "client", a["client_id"])
    return {
        "id": i,
        "bookId": book["id"],
        "name": a["name"],
        "sessionTitle": s["title"],
        "sessionId": s["id"],
        "moduleId": module["id"],
        "moduleName": module["name"],
        "caregiverId": caregiver["id"],
        "caregiverName": caregiver["name"],
        "clientId": client["id"],
        "clientName": client["name"],
        "assignDate": date(a["assign_date"]),
        "submitDate": date(a["submit_date"]),
        "feedbackStatus": a["feedback_status"],
        "feedbackSubmitDate": date(a["feedback_submit_date"]),
        "startDate": date(a["start_date"]),
        "status": a["status"],
        "isTest": bool(book["is_test"]),
        "score": a["score"],
        "drafts": [],
        "answers": answer_sets(db, i),
        "autoSaveAnswers": [],
        "feedbacks": [],
    }


def answer_sets(db: sqlite3.Connection, assignment_id: int) -> list[Json]:
    found = db.execute("SELECT * FROM answer_set WHERE assignment_id = ? ORDER BY id", (assignment_id,))
    return [
        {
            "id": s["id"],
            "saveType": s["save_type"],
            "metadata": None,
            "assignmentId": assignment_id,
            "submitDate": date(s["submit_date"]),
            "answers": answers(db, s["id"]),
        }
        for s in found.fetchall()
    ]


def answers(db: sqlite3.Connection, answer_set_id: int) -> list[Json]:
    found = db.execute("SELECT * FROM answer WHERE answer_set_id = ? ORDER BY position", (answer_set_id,))
    return [
        {"questionText": a["question_text"], "answer": a["answer"], "metadata": None, "highlights": []}
        for a in found
    ]


def graphql_answer_sets(a: Json) -> list[Json]:
    return [
        {
            "id": s["id"],
            "saveType": s["saveType"],
            "submitDate": s["submitDate"],
            "answers": [{"questionText": x["questionText"], "answer": x["answer"]} for x in s["answers"]],
        }
        for s in a["answers"]
    ]


def page(one: Callable[[sqlite3.Connection, int], Json], db: sqlite3.Connection, found: list[int]) -> Json:
    content = [one(db, i) for i in found[:PAGE_SIZE]]
    pages = -(-len(found) // PAGE_SIZE)
    return {
        "content": content,
        "first": True,
        "last": pages <= 1,
        "totalElements": len(found),
        "totalPages": pages,
        "numberOfElements": len(content),
        "size": PAGE_SIZE,
        "number": 0,
        "sort": None,
    }


def ids(db: sqlite3.Connection, table: str, where: str, value: int) -> list[int]:
    return [found[0] for found in db.execute(f"SELECT id FROM {table} WHERE {where}", (value,))]


def row(db: sqlite3.Connection, table: str, i: int) -> Any:
    return db.execute(f"SELECT * FROM {table} WHERE id = ?", (i,)).fetchone()


def date(text: str | None) -> str | None:
    return text and text[:16].replace("-", "/")
