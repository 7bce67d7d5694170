"""The legacy response bodies, member by member in the documented order (docs/legacy-contract.md).

Their values come from the rows that the resolvers of the GraphQL documents return.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from app.care.sessions import time_state
from app.db.moments import known_moment
from app.db.reader.plans import Place, Row
from app.db.tables import AssignmentStatus

MAX_CACHED = 8192
EMPTY: list[Any] = []  # of members that the old service left empty
MAX_BUILDERS = 64  # of a body; a document has a class of rows for each combination of filters


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


Body = Callable[[Row, LocalTimes], dict[str, Any]]


class Members:
    """The members of a body in order, each with the path of its value in a row, such as `book.name`, or None
    for a value that is added later. Behind a missing row every value is None. `moments` names the members
    that are local times.

    A page has some thousand values, so the function that builds a body is generated for each class of rows:
    it reads the values by their indexes, which takes a fraction of the time of an attribute.
    """

    def __init__(self, moments: tuple[str, ...], **paths: str | None) -> None:
        self.moments = moments
        self.paths = paths
        self.builders: dict[type[Row], Body] = {}

    def of(self, row: Row, local_times: LocalTimes) -> dict[str, Any]:
        build = self.builders.get(row.__class__) or self.add_builder(row.__class__)
        return build(row, local_times)

    def add_builder(self, kind: type[Row]) -> Body:
        """A plan that is built again has new classes."""
        if len(self.builders) >= MAX_BUILDERS:
            self.builders.clear()
        names: dict[str, Any] = {}
        members = [f"{name!r}: {self.value_code(kind, name, names)}" for name in self.paths]
        builder: Body = eval(f"lambda row, times: {{{', '.join(members)}}}", names)
        self.builders[kind] = builder
        return builder

    def value_code(self, kind: type[Row], name: str, names: dict[str, Any]) -> str:
        """The code of a value; what converts it is added to `names`."""
        path = self.paths[name]
        if path is None:
            return "None"
        index, convert = place_of(kind, path)
        value = f"row[{index}]"
        if name in self.moments:
            return f"times[{value}]"
        if convert is None:
            return value
        names[f"convert_{name}"] = convert
        return f"convert_{name}({value})"


def place_of(kind: type[Row], path: str) -> Place:
    layout = kind.__layout__
    *links, member = path.split(".")
    for link in links:
        _, layout = layout.joined[link]
    return layout.lists[member][0] if member in layout.lists else layout.columns[member]


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
    body["documents"] = body["assignments"] = body["feedbacks"] = EMPTY
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
    body["drafts"] = body["autoSaveAnswers"] = body["feedbacks"] = EMPTY
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
        {"questionText": text, "answer": answer, "metadata": None, "highlights": EMPTY}
        for _, text, answer in body["answers"]
    ]
    return body
