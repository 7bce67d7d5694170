"""The legacy response bodies, member by member in the documented order (docs/legacy-contract.md).

Their values come from the rows that the resolvers of the GraphQL documents return.
"""

from collections.abc import Callable
from datetime import datetime
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from app.care.sessions import time_state
from app.db.moments import known_moment
from app.db.reader.plans import Place, Row
from app.db.tables import AssignmentStatus

MAX_CACHED = 8192
MAX_READERS = 64  # of a body; a document has a class of rows for each combination of filters

# Reads all values of a row, and converts those of some members.
Reader = tuple[Callable[[Any], tuple[Any, ...]], list[tuple[str, Callable[[Any], Any]]]]


class LocalTimes(dict[str | datetime | None, str | None]):
    """Maps a stored moment to local time in the service zone, truncated to the minute. A cache, as a page has
    up to some hundred of them."""

    def __init__(self, zone: ZoneInfo) -> None:
        super().__init__({None: None})
        self.zone = zone

    def __missing__(self, moment: str | datetime) -> str:
        if len(self) > MAX_CACHED:
            self.clear()
            self[None] = None
        local = known_moment(moment).astimezone(self.zone)
        text = local.isoformat(" ", "minutes")[:16].replace("-", "/")
        self[moment] = text
        return text


class Members:
    """The members of a body in order, each with the path of its value in a row, such as `book.name`. A member
    without a path starts as None. Behind a missing row every value is None. `moments` names the members that
    are local times.

    The values are read by their indexes in the row: a page has some thousand values, and an attribute of a
    row takes several times as long.
    """

    def __init__(self, moments: tuple[str, ...], **paths: str | None) -> None:
        self.moments = moments
        self.paths = {name: path for name, path in paths.items() if path is not None}
        self.without_values = dict.fromkeys(paths)
        self.readers: dict[type[Row], Reader] = {}

    def of(self, row: Row, local_times: LocalTimes) -> dict[str, Any]:
        get_values, conversions = self.readers.get(row.__class__) or self.add_reader(row.__class__)
        body: dict[str, Any] = self.without_values.copy()
        body.update(zip(self.paths, get_values(row), strict=True))
        for name in self.moments:
            body[name] = local_times[body[name]]
        for name, convert in conversions:
            body[name] = convert(body[name])
        return body

    def add_reader(self, kind: type[Row]) -> Reader:
        """A plan that is built again has new classes."""
        if len(self.readers) >= MAX_READERS:
            self.readers.clear()
        places = {name: place_of(kind, path) for name, path in self.paths.items()}
        get_values = itemgetter(*(index for index, _ in places.values()))
        converted = [(name, convert) for name, (_, convert) in places.items() if convert]
        reader = get_values, [each for each in converted if each[0] not in self.moments]
        self.readers[kind] = reader
        return reader


def place_of(kind: type[Row], path: str) -> Place:
    layout = kind.__layout__
    *links, member = path.split(".")
    for link in links:
        _, layout = layout.joined[link]
    return layout.lists[member][0] if member in layout.lists else layout.columns[member]


Body = Callable[[Row, LocalTimes], dict[str, Any]]


def page(content: list[dict[str, Any]], total: int, number: int, size: int) -> dict[str, Any]:
    total_pages = -(-total // size)
    return {
        "content": content,
        "first": number == 0,
        "last": number + 1 >= total_pages,
        "totalElements": total,
        "totalPages": total_pages,
        "numberOfElements": len(content),
        "size": size,
        "number": number,
        "sort": None,
    }


SESSION = Members(
    ("createDate", "startDate"),
    id="id",
    title="title",
    description="description",
    caregiverId="caregiver.id",
    caregiverName="caregiver.name",
    caregiverPosition="caregiver.position",
    clientId="client.id",
    clientOpptId="client.oppt_id",
    clientName="client.name",
    createDate="create_date",
    startDate="start_date",
    chatId="chat_id",
    assignmentId="latest_assignment.id",
    assignmentName="latest_assignment.name",
    bookId="latest_assignment.book.id",
    assignmentCount="assignment_count",
    completedAssignmentCount="completed_assignment_count",
    pendingAssignmentCount=None,
    lastAssignmentScore="last_assignment_score",
    isClosed="is_closed",
    runningStatus=None,
    documents=None,
    assignments=None,
    feedbacks=None,
)


def session(row: Row, local_times: LocalTimes) -> dict[str, Any]:
    body = SESSION.of(row, local_times)
    body["runningStatus"] = time_state(row.is_closed, row.start_date, row.now)
    body["pendingAssignmentCount"] = row.assignment_count - row.completed_assignment_count
    body["documents"] = body["assignments"] = body["feedbacks"] = []
    return body


ASSIGNMENT = Members(
    ("assignDate", "submitDate", "feedbackSubmitDate", "startDate"),
    id="id",
    bookId="book.id",
    name="name",
    sessionTitle="session.title",
    sessionId="session.id",
    moduleId="module.id",
    moduleName="module.name",
    caregiverId="caregiver.id",
    caregiverName="caregiver.name",
    clientId="client.id",
    clientName="client.name",
    assignDate="assign_date",
    submitDate="submit_date",
    feedbackStatus="feedback_status",
    feedbackSubmitDate="feedback_submit_date",
    startDate="start_date",
    status="status",
    isTest="is_test",
    score="score",
    drafts=None,
    answers=None,
    autoSaveAnswers=None,
    feedbacks=None,
)


def assignment(row: Row, local_times: LocalTimes) -> dict[str, Any]:
    body = ASSIGNMENT.of(row, local_times)
    body["answers"] = [answer_set(each, row.id, local_times) for each in submitted(row)]
    body["drafts"] = body["autoSaveAnswers"] = body["feedbacks"] = []
    return body


def submitted(row: Row) -> list[Row]:
    """The submission of the current attempt; earlier attempts are not shown while pending."""
    if row.status != AssignmentStatus.COMPLETE:
        return []
    return [each for each in row.answer_sets if each.attempt == row.attempt][:1]


ANSWER_SET = Members(
    ("submitDate",),
    id="id",
    saveType="save_type",
    metadata=None,
    assignmentId=None,
    submitDate="submit_date",
    answers="answers",
)


def answer_set(row: Row, assignment_id: int, local_times: LocalTimes) -> dict[str, Any]:
    body = ANSWER_SET.of(row, local_times)
    body["assignmentId"] = assignment_id
    body["answers"] = [
        {"questionText": text, "answer": answer, "metadata": None, "highlights": []}
        for _, text, answer in body["answers"]
    ]
    return body
