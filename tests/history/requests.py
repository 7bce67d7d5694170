"""The requests of changes on both contracts, and what their responses say about the outcome."""

from typing import Any

from app.care.context import CHANGED
from app.care.errors import KeyTaken
from app.db.drivers.postgres import UNCONFIRMED, UNKNOWN
from app.http.idempotency import IN_PROGRESS
from tests.history.life import BOOK, FIRST, FIRST_BOOK, Change, moment
from tests.history.looks import CLIENT_FIELDS, FIELDS

OUTCOME_UNKNOWN = (UNKNOWN, UNCONFIRMED, CHANGED)  # messages of the legacy paths

MUTATIONS = {
    "open": ("createSession", "CreateSessionInput", "sessions"),
    "update": ("updateSession", "UpdateSessionInput", None),
    "assign": ("assignHomework", "AssignHomeworkInput", "assignments"),
    "extend": ("extendAssignment", "ExtendAssignmentInput", "assignment"),
    "remind": ("setReminders", "SetRemindersInput", "assignment"),
    "withdraw": ("withdrawAssignment", "WithdrawAssignmentInput", None),
    "give": ("giveFeedback", "GiveFeedbackInput", "assignment"),
    "reopen": ("reopenAssignment", "ReopenAssignmentInput", "assignment"),
    "close": ("closeSession", "CloseSessionInput", None),
    "save": ("saveAnswers", "SaveAnswersInput", "assignment"),
    "submit": ("submitAnswers", "SubmitAnswersInput", "assignment"),
}


def mutation(change: Change, is_client: bool, ids: "Ids") -> dict[str, Any]:
    name, type_name, member = MUTATIONS[change.verb]
    fields = "legacyId" if change.verb == "open" else CLIENT_FIELDS if is_client else FIELDS
    selected = f"{member} {{ {fields} }}" if member else ""
    query = (
        f"mutation($input: {type_name}!) {{ {name}(input: $input) {{ {selected} userErrors {{ code }} }} }}"
    )
    return {"query": query, "variables": {"input": input_of(change, ids)}}


class Ids:
    """The legacy ids that responses have named. All callers share them."""

    def __init__(self, sessions: dict[str, str]) -> None:
        self.sessions = sessions  # by name
        self.assignments: dict[tuple[str, int], str] = {}  # by session and number
        self.answer_sets: dict[tuple[str, int, int], str] = {}  # by session, number and attempt
        self.numbers: dict[str, int] = {}  # of assignments, by id

    def note(self, session: str, number: int, node: dict[str, Any]) -> None:
        self.assignments[session, number] = node["legacyId"]
        self.numbers[node["legacyId"]] = number
        for each in node["answerSets"]:
            self.answer_sets[session, number, each["attempt"]] = each["legacyId"]

    def attempts(self, session: str, number: int) -> list[int]:
        return [of[2] for of in list(self.answer_sets) if of[:2] == (session, number)]


def input_of(change: Change, ids: Ids) -> dict[str, Any]:
    name, arguments = change.session, change.arguments
    if change.verb == "open":
        return input_to_open(name, *arguments)
    of_session = {"sessionId": ids.sessions[name]}
    if change.verb == "close":
        return of_session
    if change.verb == "update":
        title, start = arguments
        moved = {} if start is None else {"startDate": moment(start).isoformat()}
        return {**of_session, "title": title, **moved}
    if change.verb == "assign":
        return {**of_session, **homework(BOOK, *arguments)}
    number, *others = arguments
    if change.verb == "give":
        attempt, text, score = others
        return {"answerSetId": ids.answer_sets[name, number, attempt], "text": text, "score": score}
    given: dict[str, Any] = {"assignmentId": ids.assignments[name, number]}
    if change.verb == "extend":
        given["endDate"] = moment(others[0]).isoformat()
    elif change.verb == "remind":
        given["remindDates"] = [each.isoformat() for each in others[0]]
    elif change.verb in ("save", "submit"):
        question = FIRST_BOOK if number == FIRST else BOOK
        given |= {"answers": [{"questionId": str(question), "answer": others[0]}], "revision": others[1]}
    return given


def input_to_open(name: str, start: int, parties: tuple[int, int], reminders: Any) -> dict[str, Any]:
    first = {} if reminders is None else {"homework": homework(FIRST_BOOK, start, start + 60, reminders)}
    begin = moment(start).isoformat()
    return {"clientId": str(parties[1]), "title": name, "description": name, "startDate": begin, **first}


def homework(book: int, start: int, end: int, reminders: Any) -> dict[str, Any]:
    return {
        "bookIds": [str(book)],
        "startDate": moment(start).isoformat(),
        "endDate": moment(end).isoformat(),
        "remindDates": [each.isoformat() for each in reminders],
    }


def legacy_body(change: Change, ids: Ids) -> dict[str, Any]:
    start, end, reminders = change.arguments
    times = {"startDate": moment(start), "endDate": moment(end)}
    return {
        "sessionId": int(ids.sessions[change.session]),
        "bookIds": [BOOK],
        "remindDates": [{"date": f"{each:%Y/%m/%d}", "time": f"{each:%H:%M}"} for each in reminders],
        **{name: f"{each:%Y/%m/%d}" for name, each in times.items()},
        **{name.replace("Date", "Time"): f"{each:%H:%M}" for name, each in times.items()},
    }


def codes_in(body: Any) -> set[str]:
    if "httpStatus" not in body:
        return {each["extensions"]["code"] for each in body.get("errors", ())}
    if body["httpStatus"] == 503:
        return {"OUTCOME_UNKNOWN" if body["message"] in OUTCOME_UNKNOWN else "OVERLOADED"}
    return {KeyTaken.code} if body.get("message") == IN_PROGRESS else set()


def is_unknown(body: Any) -> bool:
    return body is None or "OUTCOME_UNKNOWN" in codes_in(body)


def is_unavailable(body: Any) -> bool:
    """Nothing was changed."""
    return bool(codes_in(body) & {"OVERLOADED", KeyTaken.code})
