"""Whole responses of the four legacy paths, byte for byte: members in the order of service.md, every member
present, nulls printed, non-ASCII text unescaped, moments truncated to the minute.

A golden file is the body itself; only line breaks and indentation are layout.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.callers import Caller, Gateway
from tests.factories import (
    DAY,
    NOW,
    Record,
    a_book,
    a_caregiver,
    a_client,
    a_complete_assignment,
    a_module,
    a_session,
    an_answer_set,
    an_assignment,
)
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, homework

FOLDER = Path(__file__).parent / "golden"


def golden(name: str) -> bytes:
    lines = (FOLDER / f"{name}.json").read_text(encoding="utf-8").split("\n")
    return "".join(line.lstrip(" ") for line in lines).encode()


def people_and_books() -> Iterator[Record]:
    yield a_caregiver(7, name="Dr. Ána Müller-李", position='Psychologist "CBT" / Ψ')
    yield a_client(3, name="Zoë Ünal 😀", opptId="OPPT-0003")
    yield from (a_caregiver(8), a_client(4))
    yield from (a_module(31, name="Módulo uno"), a_module(32, name="Módulo dos"))
    yield a_book(1, name="Sleep diary ☾", moduleId=31)
    yield a_book(2, name="Stimmung", moduleId=32, isTest=True)


def sessions() -> Iterator[Record]:
    """11 with homework, 12 without and running from this moment on, 13 from one second later on, 14
    closed."""
    yield a_session(
        11,
        caregiver=7,
        client=3,
        title='Sleep & "rest" – Schlaf\\Ruhe <b>',
        description="First line\nsecond\tline",
        createDate="2026-01-02T03:04:59.999999Z",
        startDate="2026-01-03T00:00:00Z",
    )
    yield a_session(
        12,
        caregiver=7,
        client=3,
        title="Erstgespräch",
        description="",
        createDate="2026-11-20T23:59:59Z",
        startDate=NOW,
    )
    yield a_session(13, caregiver=7, client=3, startDate="2026-11-21T09:00:01Z")
    yield a_session(14, caregiver=7, client=3, isClosed=True, closeDate=NOW - DAY)


def assignments() -> Iterator[Record]:
    """101 submitted, with feedback; 102 pending with a draft; 103 in a FUTURE session; 104 with score 0."""
    yield a_complete_assignment(
        101,
        session=11,
        assignDate="2026-02-01T08:15:30Z",
        startDate="2026-02-02T00:00:00Z",
        submitDate="2026-02-03T23:59:59.999Z",
        feedbackStatus="SUBMITTED",
        feedbackSubmitDate="2026-02-04T10:00:00Z",
    )
    yield an_assignment(102, session=11, book=2)
    yield an_assignment(103, session=13)
    yield a_complete_assignment(104, session=14, book=2, score=0)
    texts = (
        ("How did you sleep?", "Besser – über Nacht 😴"),
        ("Did you practise?", "true"),
        ("How many hours?", "7.5"),
    )
    answers = [{"questionText": question, "answer": answer} for question, answer in texts]
    yield an_answer_set(501, assignment=101, submitDate="2026-02-03T23:59:59.999Z", answers=answers)
    yield an_answer_set(502, assignment=101, saveType="AUTO_SAVE", submitDate=None)
    yield an_answer_set(503, assignment=102, saveType="DRAFT", submitDate=None)


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records([*people_and_books(), *sessions(), *assignments()])
    return gateway


def body_of(caller: Caller, path: str) -> bytes:
    response = caller.get(path)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.headers["content-length"] == str(len(response.content))
    return response.content


def test_a_client_reads_their_sessions_in_each_time_state(world: Gateway) -> None:
    client = world.as_client(3)

    bodies = {
        state: body_of(client, f"{SESSIONS}?time-state={state}")
        for state in ("RUNNING", "FUTURE", "COMPLETED")
    }

    assert bodies["RUNNING"] == golden("client_sessions_running")
    assert bodies["FUTURE"] == golden("client_sessions_future")
    assert bodies["COMPLETED"] == golden("client_sessions_completed")


def test_a_caregiver_reads_the_assignments_of_running_and_future_sessions(world: Gateway) -> None:
    caregiver = world.as_caregiver(7)

    running = body_of(caregiver, f"{ASSIGNMENTS}?time-state=RUNNING")
    future = body_of(caregiver, f"{ASSIGNMENTS}?time-state=FUTURE")

    assert running == golden("caregiver_assignments_running")
    assert future == golden("caregiver_assignments_future")


def test_a_caregiver_reads_one_assignment_pending_or_complete(world: Gateway) -> None:
    caregiver = world.as_caregiver(7)

    pending = body_of(caregiver, f"{ASSIGNMENTS}/102")
    complete = body_of(caregiver, f"{ASSIGNMENTS}/101")

    assert pending == golden("caregiver_assignment_pending")
    assert complete == golden("caregiver_assignment_complete")


@pytest.mark.sqlite_only
def test_an_empty_list_is_a_page(world: Gateway) -> None:
    sessions_of_a_newcomer = body_of(world.as_client(4), f"{SESSIONS}?time-state=RUNNING")
    assignments_of_a_newcomer = body_of(world.as_caregiver(8), f"{ASSIGNMENTS}?time-state=COMPLETED")

    assert sessions_of_a_newcomer == golden("empty_page")
    assert assignments_of_a_newcomer == golden("empty_page")


@pytest.mark.sqlite_only
def test_the_response_to_the_put_has_one_member(world: Gateway) -> None:
    response = world.as_caregiver(7).put(ASSIGNMENTS, json=homework(sessionId=11))

    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.content == golden("homework_assigned")
