"""The members of every response, their order and types, are those of the tables in service.md. The GraphQL
documents of the paths are valid."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from graphql import parse, validate

from app.main import schema_of_service
from app.rest_compat import bodies, routes
from tests.callers import Gateway
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS

# service.md, sections 2.1 to 2.5. A type ends in `?` where null occurs, or was decided to.
PAGE = """
content array, first boolean, last boolean, totalElements integer, totalPages integer,
numberOfElements integer, size integer, number integer, sort null
"""
SESSION = """
id integer, title string, description string, caregiverId integer, caregiverName string,
caregiverPosition string, clientId integer, clientOpptId string, clientName string, createDate date,
startDate date, chatId string, assignmentId integer?, assignmentName string?, bookId integer?,
assignmentCount integer, completedAssignmentCount integer, pendingAssignmentCount integer,
lastAssignmentScore integer?, isClosed boolean, runningStatus string, documents empty, assignments empty,
feedbacks empty
"""
ASSIGNMENT = """
id integer, bookId integer, name string, sessionTitle string, sessionId integer, moduleId integer,
moduleName string, caregiverId integer, caregiverName string, clientId integer, clientName string,
assignDate date, submitDate date?, feedbackStatus string, feedbackSubmitDate date?, startDate date,
status string, isTest boolean, score integer, drafts empty, answers array, autoSaveAnswers empty,
feedbacks empty
"""
ANSWER_SET = """
id integer, saveType string, metadata null, assignmentId integer, submitDate date, answers array
"""
ANSWER = "questionText string, answer string, metadata null, highlights empty"


def is_date(value: Any) -> bool:
    parts = value.replace("/", " ").replace(":", " ").split(" ")
    return [len(part) for part in parts] == [4, 2, 2, 2, 2] and all(part.isdigit() for part in parts)


KINDS = {
    "array": lambda value: isinstance(value, list),
    "empty": lambda value: value == [],
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int,
    "string": lambda value: isinstance(value, str),
    "null": lambda value: value is None,
    "date": is_date,
}


def assert_shape(item: dict[str, Any], table: str) -> None:
    """Checks the members against the table: their order and types."""
    members = [line.split() for line in table.replace("\n", " ").split(",")]
    assert list(item) == [name for name, _ in members]
    for name, kind in members:
        may_be_null = kind.endswith("?") and item[name] is None
        assert may_be_null or KINDS[kind.removesuffix("?")](item[name]), name


def assert_assignment(item: dict[str, Any]) -> int:
    """Checks an assignment and returns its number of answers."""
    assert_shape(item, ASSIGNMENT)
    for answer_set in item["answers"]:
        assert_shape(answer_set, ANSWER_SET)
        for answer in answer_set["answers"]:
            assert_shape(answer, ANSWER)
    return sum(len(answer_set["answers"]) for answer_set in item["answers"])


@pytest.mark.parametrize("state", ["RUNNING", "FUTURE", "COMPLETED"])
def test_a_session_has_the_documented_members(standing: Gateway, state: str) -> None:
    page = standing.as_client(1).get(f"{SESSIONS}?time-state={state}").json()

    assert_shape(page, PAGE)
    assert len(page["content"]) == 1
    for session in page["content"]:
        assert_shape(session, SESSION)


def test_an_assignment_has_the_documented_members(standing: Gateway) -> None:
    page = standing.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING").json()
    detail = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/1").json()

    assert_shape(page, PAGE)
    assert [assert_assignment(assignment) for assignment in page["content"]] == [0, 0, 2]
    assert assert_assignment(detail) == 2


# --- dates -----------------------------------------------------------------------------------------


def test_null_dates_stay_null_when_the_cache_of_moments_is_full() -> None:
    local_times = bodies.LocalTimes(ZoneInfo("Europe/Berlin"))
    first = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [first + timedelta(minutes=n) for n in range(2 * bodies.MAX_CACHED)]

    texts = [local_times[moment.isoformat().replace("+00:00", "Z")] for moment in moments]

    assert (texts[0], texts[-1]) == ("2026/01/01 01:00", "2026/01/12 10:03")
    assert len(local_times) <= bodies.MAX_CACHED + 1
    assert [local_times[None], local_times["2026-01-01T00:00:00Z"], local_times[None]] == [
        None,
        "2026/01/01 01:00",
        None,
    ]


# --- the documents behind the paths ----------------------------------------------------------------

DOCUMENTS = sorted(path.name for path in Path(routes.FOLDER).glob("*"))


def test_every_path_has_its_document() -> None:
    assert DOCUMENTS == [
        "assign_homework.graphql",
        "caregiver_assignment.graphql",
        "caregiver_assignments.graphql",
        "client_sessions.graphql",
    ]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_valid_against_the_schema(name: str) -> None:
    document = parse((Path(routes.FOLDER) / name).read_text())

    assert validate(schema_of_service(True)._schema, document) == []
