"""Limit: the least Python that does the whole job of the legacy paths.

Starlette routes, PyJWT, the C sqlite3 module called straight from the event loop (one connection,
hand-written SQL), dicts, orjson. Shows what is left for a Python server on one core.
"""

import os
import sqlite3
from datetime import datetime
from math import ceil

import auth
import orjson
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

db = sqlite3.connect(
    os.environ["BENCH_DB"], isolation_level=None, check_same_thread=False, cached_statements=256
)
for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "mmap_size=268435456"):
    db.execute("PRAGMA " + pragma)
SIZE = 20
WHEN = "replace(substr({0},1,16),'-','/')".format

SESSIONS = f"""SELECT s.id, s.title, s.description, s.caregiver_id, g.name, g.position, s.client_id,
  c.oppt_id, c.name,
  {WHEN("s.create_date")}, {WHEN("s.start_date")}, s.chat_id, s.is_closed, s.running_status
  FROM session s JOIN caregiver g ON g.id=s.caregiver_id JOIN client c ON c.id=s.client_id
  WHERE s.client_id=? AND s.running_status=? ORDER BY s.id DESC LIMIT {SIZE}"""
STATS = """WITH st AS (SELECT session_id, count(*) n, sum(status='COMPLETE') done, max(id) last_id,
    max(CASE WHEN status='COMPLETE' THEN id END) scored_id
    FROM assignment WHERE session_id IN ({}) GROUP BY session_id)
  SELECT st.session_id, n, done, a.id, a.name, a.book_id, b.score
  FROM st JOIN assignment a ON a.id=last_id LEFT JOIN assignment b ON b.id=scored_id"""
ASSIGNMENTS = f"""SELECT a.id, a.book_id, a.name, s.title, a.session_id, b.module_id, m.name, a.caregiver_id,
  g.name,
  a.client_id, c.name, {WHEN("a.assign_date")}, {WHEN("a.submit_date")}, a.feedback_status,
  {WHEN("a.feedback_submit_date")},
  {WHEN("a.start_date")}, a.status, b.is_test, a.score
  FROM assignment a JOIN session s ON s.id=a.session_id JOIN book b ON b.id=a.book_id
  JOIN module m ON m.id=b.module_id
  JOIN caregiver g ON g.id=a.caregiver_id JOIN client c ON c.id=a.client_id WHERE """
SETS = f"""SELECT id, assignment_id, save_type, {WHEN("submit_date")} FROM answer_set
  WHERE assignment_id IN ({{}}) ORDER BY id"""
ANSWERS = """SELECT answer_set_id, question_text, answer FROM answer WHERE answer_set_id IN ({})
  ORDER BY answer_set_id, position"""


def many(sql, ids):
    return db.execute(sql.format(",".join("?" * len(ids))), ids)


def sessions(client_id, state):
    total = db.execute(
        "SELECT count(*) FROM session WHERE client_id=? AND running_status=?", (client_id, state)
    ).fetchone()[0]
    found = db.execute(SESSIONS, (client_id, state)).fetchall()
    stats = {r[0]: r for r in many(STATS, [r[0] for r in found])}
    content = []
    for i, title, text, gid, gname, gpos, cid, oppt, cname, created, start, chat, closed, status in found:
        _, n, done, aid, aname, book, score = stats.get(i) or (i, 0, 0, None, None, None, None)
        content.append(
            {
                "id": i,
                "title": title,
                "description": text,
                "caregiverId": gid,
                "caregiverName": gname,
                "caregiverPosition": gpos,
                "clientId": cid,
                "clientOpptId": oppt,
                "clientName": cname,
                "createDate": created,
                "startDate": start,
                "chatId": chat,
                "assignmentId": aid,
                "assignmentName": aname,
                "bookId": book,
                "assignmentCount": n,
                "completedAssignmentCount": done,
                "pendingAssignmentCount": n - done,
                "lastAssignmentScore": score,
                "isClosed": closed == 1,
                "runningStatus": status,
                "documents": [],
                "assignments": [],
                "feedbacks": [],
            }
        )
    return content, total


def assignments(where, args):
    content, answers, sets = [], {}, {}
    for (
        i,
        book,
        name,
        title,
        sid,
        mid,
        mname,
        gid,
        gname,
        cid,
        cname,
        assigned,
        submitted,
        fstatus,
        fdate,
        start,
        status,
        test,
        score,
    ) in db.execute(ASSIGNMENTS + where, args):
        answers[i] = []
        content.append(
            {
                "id": i,
                "bookId": book,
                "name": name,
                "sessionTitle": title,
                "sessionId": sid,
                "moduleId": mid,
                "moduleName": mname,
                "caregiverId": gid,
                "caregiverName": gname,
                "clientId": cid,
                "clientName": cname,
                "assignDate": assigned,
                "submitDate": submitted,
                "feedbackStatus": fstatus,
                "feedbackSubmitDate": fdate,
                "startDate": start,
                "status": status,
                "isTest": test == 1,
                "score": score,
                "drafts": [],
                "answers": answers[i],
                "autoSaveAnswers": [],
                "feedbacks": [],
            }
        )
    for i, aid, kind, submitted in many(SETS, list(answers)).fetchall():
        sets[i] = []
        answers[aid].append(
            {
                "id": i,
                "saveType": kind,
                "metadata": None,
                "assignmentId": aid,
                "submitDate": submitted,
                "answers": sets[i],
            }
        )
    for i, question, text in many(ANSWERS, list(sets)):
        sets[i].append({"questionText": question, "answer": text, "metadata": None, "highlights": []})
    return content


def reply(data, status=200):
    return Response(orjson.dumps(data), status, media_type="application/json")


def page(content, total):
    pages = ceil(total / SIZE)
    return reply(
        {
            "content": content,
            "first": True,
            "last": pages <= 1,
            "totalElements": total,
            "totalPages": pages,
            "numberOfElements": len(content),
            "size": SIZE,
            "number": 0,
            "sort": None,
        }
    )


def user(request, role):
    user_id, user_role = auth.user(request.headers.get("authorization"))
    if user_role != role:
        raise auth.Unauthorized
    return user_id


async def r1(request):
    return page(*sessions(user(request, "client"), request.query_params["time-state"]))


async def r2(request):
    if request.method == "PUT":
        return await r4(request)
    args = user(request, "caregiver"), request.query_params["time-state"]
    total = db.execute(
        "SELECT count(*) FROM assignment WHERE caregiver_id=? AND time_state=?", args
    ).fetchone()[0]
    return page(
        assignments(f"a.caregiver_id=? AND a.time_state=? ORDER BY a.id DESC LIMIT {SIZE}", args), total
    )


async def r3(request):
    found = assignments(
        "a.id=? AND a.caregiver_id=?", (request.path_params["id"], user(request, "caregiver"))
    )
    return reply(found[0]) if found else reply({"message": "not found"}, 404)


def at(day, clock):
    moment = datetime.strptime(f"{day.replace('/', '-')} {clock}", "%Y-%m-%d %H:%M")
    return moment.strftime("%Y-%m-%d %H:%M:%S.000000")


async def r4(request):
    caregiver = user(request, "caregiver")
    b = orjson.loads(await request.body())
    start, end = at(b["startDate"], b["startTime"]), at(b["endDate"], b["endTime"])
    now = datetime.now().strftime("%Y-%m-%d %H:%M:%S.000000")
    names = dict(many("SELECT id, name FROM book WHERE id IN ({})", b["bookIds"]))
    db.execute("BEGIN IMMEDIATE")
    try:
        found = db.execute(
            "SELECT client_id FROM session WHERE id=? AND caregiver_id=? AND running_status='RUNNING'",
            (b["sessionId"], caregiver),
        ).fetchone()
        if not found or not names or any(i not in names for i in b["bookIds"]):
            db.execute("ROLLBACK")
            return reply({"message": "not enough information"}, 404)
        for i in b["bookIds"]:
            made = db.execute(
                """INSERT INTO assignment (session_id, book_id, caregiver_id, client_id, name, time_state,
                assign_date, start_date, end_date, status, feedback_status, score)
                VALUES (?,?,?,?,?,'RUNNING',?,?,?,'PENDING','WAITING',0)""",
                (b["sessionId"], i, caregiver, found[0], names[i], now, start, end),
            ).lastrowid
            for r in b["remindDates"]:
                db.execute(
                    "INSERT INTO reminder (assignment_id, remind_at) VALUES (?,?)",
                    (made, at(r["date"], r["time"])),
                )
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return reply({"message": "Assignments added to the session"})


async def unauthorized(request, error):
    return reply({"message": "Unauthorized"}, 401)


app = Starlette(
    exception_handlers={auth.Unauthorized: unauthorized},
    routes=[
        Route("/gateway/profile/client/session", r1),
        Route("/gateway/profile/caregiver/session/assignment", r2, methods=["GET", "PUT"]),
        Route("/gateway/profile/caregiver/session/assignment/{id:int}", r3),
    ],
)
