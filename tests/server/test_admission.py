"""Promise: a viewer who sends too much is rejected, and nobody else."""

import asyncio
from typing import Any, cast

import pytest

from app.care.budgets import MAX_UNSENT, Budget, Budgets, Unsent
from app.server.admission import AdmissionControl
from app.settings import Environment, Settings

Request = asyncio.Task[None]


@pytest.fixture
def admission() -> AdmissionControl:
    return AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=8))


def received(admission: AdmissionControl, budget: Budget, number: int = 1) -> list[Request]:
    requests = [cast(Request, object()) for _ in range(number)]
    for request in requests:
        admission.enqueue(request, budget)
    return requests


def test_a_viewer_has_half_of_the_slots(admission: AdmissionControl) -> None:
    busy, other = Budget(), Budget()
    requests = received(admission, busy, 4)

    assert admission.rejects(busy)
    assert not admission.rejects(other)
    admission.leave(requests[0])
    admission.leave(requests[0])  # a stream has left before its task ends
    assert not admission.rejects(busy)


def test_the_slots_of_all_viewers_are_limited(admission: AdmissionControl) -> None:
    for _ in range(4):
        received(admission, Budget(), 2)

    assert admission.rejects(Budget())


def test_a_viewer_whose_requests_would_wait_too_long_is_rejected(admission: AdmissionControl) -> None:
    busy, other = Budget(), Budget()
    for _ in range(20):
        [request] = received(admission, busy)
        admission.dequeue(busy)
        busy.seconds += 0.1
        admission.leave(request)
    received(admission, busy, 3)

    assert admission.rejects(busy)
    assert not admission.rejects(other)
    for _ in range(3):
        admission.dequeue(busy)
    assert not admission.rejects(busy)


def test_if_all_requests_would_wait_too_long_those_who_wait_less_are_accepted(
    admission: AdmissionControl,
) -> None:
    busy, polite, other = Budget(), Budget(), Budget()
    received(admission, busy, 3)
    received(admission, polite, 1)
    admission.seconds_each = 0.07

    assert admission.is_full()
    assert [admission.rejects(each) for each in (busy, polite, other)] == [True, False, False]


def test_a_standing_queue_is_shorter_than_a_burst(admission: AdmissionControl) -> None:
    busy = Budget()
    received(admission, busy, 3)
    admission.seconds_each = 0.02
    assert not admission.rejects(busy)

    admission.last_start = admission.last_idle + 0.3  # requests have been waiting since then

    assert admission.rejects(busy)
    assert not admission.rejects(Budget())


def test_a_viewer_with_too_many_unsent_bytes_is_rejected(admission: AdmissionControl) -> None:
    slow, other = Budget(), Budget()
    connections = [Unsent() for _ in range(5)]

    accepted = [each.hold(slow, MAX_UNSENT // 4) for each in connections]

    assert accepted == [True, True, True, True, False]
    assert [admission.rejects(slow), admission.rejects(other)] == [True, False]
    for each in connections:
        each.release()
        each.release()
    assert slow.unsent == 0
    assert not admission.rejects(slow)


def test_the_viewer_of_a_known_token_is_known_before_the_request_runs() -> None:
    class Known:
        budget = Budget()

    budgets = Budgets()
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT), budgets, {"a-token": Known()})

    def of(authorization: bytes | None, address: str = "192.0.2.1") -> Any:
        return admission.budget_of(authorization, address)

    assert of(b"Bearer a-token") is of(b"bearer a-token") is Known.budget
    strangers = [of(None), of(b"Bearer another"), of(b"Basic a-token"), of(b"Bearer")]
    assert all(each is budgets.of_address("192.0.2.1") for each in strangers)
    assert of(None, "192.0.2.2") is not strangers[0]
    assert of(None, "2001:db8:1:2::7") is of(None, "2001:db8:1:2:3::8")
    assert of(None, "2001:db8:1:2::7") is not of(None, "2001:db8:1:3::7")
    assert of(None, "2001:db8::7") is of(None, "2001:db8::8")
    assert of(None, "::ffff:192.0.2.1") is strangers[0]
