"""Promise: the server rejects requests of a viewer who sends too many, and accepts those of other viewers."""

import asyncio
from typing import cast

import pytest

from app.care.budgets import MAX_UNSENT, MOST_POLITE, Budget, Budgets, Unsent
from app.server.admission import (
    MAX_STANDING_WAIT,
    MAX_WAIT,
    REJECTING_UNSENT,
    AdmissionControl,
    IncompleteRequests,
)
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


def test_there_is_a_slot_for_the_next_viewer(admission: AdmissionControl) -> None:
    first, second, third = Budget(), Budget(), Budget()
    for viewer in (first, second, third) * 8:
        if not admission.rejects(viewer):
            received(admission, viewer)

    assert [each.running for each in (first, second, third)] == [2, 2, 2]
    assert not admission.rejects(Budget())


def test_the_slots_of_all_viewers_are_limited(admission: AdmissionControl) -> None:
    for _ in range(8):
        received(admission, Budget())

    assert admission.rejects(Budget())


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_operation_gives_its_slot_back_when_it_ends(
    admission: AdmissionControl, is_cancelled: bool
) -> None:
    budget, states = Budget(), []

    async def operation(waits: asyncio.Event) -> None:
        states.append(admission.admit_operation(budget))
        await waits.wait()

    async def run() -> None:
        for _ in range(3 * admission.most_requests):
            waits = asyncio.Event()
            task = asyncio.create_task(operation(waits))
            await asyncio.sleep(0)
            task.cancel() if is_cancelled else waits.set()
            await asyncio.wait([task])

    asyncio.run(run())

    assert (set(states), len(admission.running), budget.running) == ({True}, 0, 0)


def test_if_all_requests_would_wait_too_long_those_who_wait_less_are_accepted(
    admission: AdmissionControl,
) -> None:
    busy, polite, other = Budget(), Budget(), Budget()
    received(admission, busy, 3)
    received(admission, polite, 1)
    for admission.seconds_each in (0.24, 0.25):  # at most a second for all
        assert [admission.rejects(each) for each in (busy, polite, other)] == [False] * 3
    admission.seconds_each = 0.26

    assert admission.may_reject()
    assert [admission.rejects(each) for each in (busy, polite, other)] == [True, False, False]


@pytest.mark.parametrize(
    "queued, each, standing, expected",
    [
        (0, 1.0, 9.0, False),
        (2, MAX_WAIT / 2, 0.0, False),
        (2, MAX_WAIT / 2 + 0.001, 0.0, True),
        (2, MAX_STANDING_WAIT / 2, 9.0, False),
        (2, MAX_STANDING_WAIT / 2 + 0.001, 9.0, True),
        (2, MAX_STANDING_WAIT / 2 + 0.001, MAX_WAIT, False),
        (2, MAX_STANDING_WAIT / 2 + 0.001, MAX_WAIT + 0.001, True),
    ],
)
def test_requests_wait_too_long_beyond_a_limit(
    admission: AdmissionControl, queued: int, each: float, standing: float, expected: bool
) -> None:
    admission.queued, admission.seconds_each = queued, each
    admission.last_idle, admission.last_start = 0.0, standing

    assert admission.waits_too_long() is expected
    assert admission.may_reject() is expected


@pytest.mark.parametrize("most, first", [(1, 0), (2, 1), (8, 4), (9, 4)])
def test_requests_may_be_rejected_from_half_of_the_slots_on(most: int, first: int) -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=most))

    may_reject = [(admission.may_reject(), received(admission, Budget()))[0] for _ in range(most + 1)]

    assert may_reject == [number >= first for number in range(most + 1)]


@pytest.mark.parametrize("unsent", [REJECTING_UNSENT, REJECTING_UNSENT + 1])
@pytest.mark.parametrize("connections", [1, 2])
def test_a_viewer_who_reads_several_responses_slowly_is_rejected_beyond_a_limit(
    admission: AdmissionControl, unsent: int, connections: int
) -> None:
    slow = Budget()
    slow.unsent, slow.slow_connections = unsent, connections

    assert admission.rejects(slow) == (unsent > REJECTING_UNSENT and connections > 1)


def test_a_standing_queue_is_shorter_than_a_burst() -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=100))
    busy, polite = Budget(), Budget()
    received(admission, busy, MOST_POLITE)
    received(admission, polite, MOST_POLITE - 1)
    admission.seconds_each = 0.005
    assert not admission.rejects(busy)

    admission.last_start = admission.last_idle + 0.3  # requests have been waiting since then

    assert [admission.rejects(each) for each in (busy, polite, Budget())] == [True, False, False]


def test_a_queue_stands_until_it_is_empty() -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1000))
    busy, waiting = Budget(), MOST_POLITE + 2
    received(admission, busy, waiting)
    admission.turns.slice_start = admission.last_idle

    for _ in range(100):
        admission.turns.slice_start += 0.005
        admission.dequeue(busy)
        received(admission, busy)
    assert admission.rejects(busy)

    for _ in range(waiting):
        admission.turns.slice_start += 0.005
        admission.dequeue(busy)
    received(admission, busy, waiting)
    assert not admission.rejects(busy)


def test_a_queue_of_many_viewers_stands_until_it_is_empty() -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1000))
    viewers = [Budget() for _ in range(20)]
    for viewer in viewers:
        received(admission, viewer)
    admission.turns.slice_start = admission.last_idle

    for viewer in viewers * 5:
        admission.turns.slice_start += 0.005
        admission.dequeue(viewer)
        received(admission, viewer)
    assert admission.waits_too_long()

    for viewer in viewers:
        admission.turns.slice_start += 0.005
        admission.dequeue(viewer)
    for viewer in viewers:
        received(admission, viewer)
    assert not admission.waits_too_long()


def test_only_the_time_of_a_request_while_another_one_is_queued_counts() -> None:
    """Otherwise the pauses of a process without work would count as slow requests."""
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=100))
    viewer, averages = Budget(), list[float]()
    admission.turns.slice_start = admission.last_start

    for queued in (2, 0, 0, 1, 0):
        received(admission, viewer, queued)
        admission.turns.slice_start += 0.02
        if admission.queued:
            admission.dequeue(viewer)
        averages.append(round(admission.seconds_each, 6))

    assert averages == [0, 0.001, 0.001, 0.001, 0.001]


def test_many_people_may_sign_in_from_one_address() -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=200))
    clinic, busy = admission.budgets.of_address("192.0.2.1"), Budget()
    received(admission, clinic, 40)
    received(admission, busy, 40)
    admission.seconds_each = 0.002
    admission.last_start = admission.last_idle + 0.3

    assert [admission.rejects(each) for each in (clinic, busy)] == [False, True]
    received(admission, clinic, 25)
    assert admission.rejects(clinic)


def test_a_viewer_with_few_requests_is_accepted_beside_a_busy_one() -> None:
    """The requests of the busy viewer wait for its turn, so there is always a queue."""
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=100))
    busy, other = Budget(), Budget()
    received(admission, busy)
    received(admission, other)
    admission.seconds_each = 0.05
    admission.last_start = admission.last_idle + 0.3

    assert not admission.rejects(other)


@pytest.mark.parametrize("usual", [0.0, 0.001, 0.003])
def test_one_pause_of_the_process_rejects_no_requests_of_many_viewers(usual: float) -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=200))
    viewers = [Budget() for _ in range(64)]
    for viewer in viewers:
        received(admission, viewer)
    admission.seconds_each = usual

    for seconds in (usual, 1000, usual):
        admission.turns.slice_start += seconds
        admission.dequeue(viewers[0])
        received(admission, viewers[0])

    assert not any(map(admission.rejects, viewers))


def test_repeated_pauses_of_the_process_reject_no_requests_of_a_program_with_16_connections() -> None:
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT, most_requests=1000))
    viewer = Budget()
    received(admission, viewer, MOST_POLITE)

    for seconds in (0.002, 1) * 50:
        admission.turns.slice_start += seconds
        admission.dequeue(viewer)
        assert not admission.rejects(viewer)
        received(admission, viewer)


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
    assert connections[0].hold(slow, 30 * 1024 * 1024)  # one long response may be read slowly
    assert not connections[1].hold(slow, 1)
    connections[0].release()
    connections[1].release()
    assert not admission.rejects(slow)


def test_a_viewer_with_one_long_response_that_is_read_slowly_is_accepted(admission: AdmissionControl) -> None:
    viewer = Budget()

    assert Unsent().hold(viewer, 30 * 1024 * 1024)
    assert not admission.rejects(viewer)


def test_the_bytes_that_a_connection_holds_count_once() -> None:
    viewer, first, second = Budget(), Unsent(), Unsent()

    held = [first.hold(viewer, 5), first.hold(viewer, 7), second.hold(viewer, 1)]
    counted = [(viewer.unsent, viewer.slow_connections)]
    first.release()
    counted.append((viewer.unsent, viewer.slow_connections))
    second.release()

    assert (held, counted) == ([True] * 3, [(8, 2), (1, 1)])
    assert (viewer.unsent, viewer.slow_connections) == (0, 0)
    assert Unsent().hold(viewer, MAX_UNSENT, is_one=False)


def test_a_connection_with_several_responses_has_no_longer_one() -> None:
    assert not Unsent().hold(Budget(), MAX_UNSENT + 1, is_one=False)


def test_the_viewer_of_a_known_token_is_known_before_the_request_runs() -> None:
    class Known:
        budget = Budget()

    signed_in: dict[str, Known] = {}
    admission = AdmissionControl(Settings(env=Environment.DEVELOPMENT), Budgets(), signed_in)
    signed_in["a-token"] = known = Known()

    found = [admission.account_of(each) for each in (b"Bearer a-token", b"bearer a-token")]
    unknown = [admission.account_of(each) for each in (None, b"Bearer another", b"Basic a-token", b"Bearer")]

    assert found == [known, known]
    assert unknown == [None] * 4


def test_strangers_share_the_budget_of_their_address_or_network() -> None:
    of = Budgets().of_address

    assert of("192.0.2.1") is of("192.0.2.1") is of("::ffff:192.0.2.1")
    assert of("192.0.2.1") is not of("192.0.2.2")
    assert of("2001:db8:1:2::7") is of("2001:db8:1:2:3::8")
    assert of("2001:db8:1:2::7") is not of("2001:db8:1:3::7")
    assert of("2001:db8::7") is of("2001:db8::8")


def test_a_long_request_makes_as_many_older_ones_leave_as_it_needs() -> None:
    incomplete = IncompleteRequests(most_bytes=10)

    class Connection:
        def make_room(self) -> None:
            incomplete.remove(self)

    *older, newest = (Connection() for _ in range(5))
    for each in older:
        incomplete.set_size(each, 2)
    incomplete.set_size(older[0], 4)
    assert (len(incomplete.sizes), incomplete.bytes) == (4, 10)  # exactly the limit

    incomplete.set_size(newest, 7)

    assert incomplete.sizes == {older[3]: 2, newest: 7}
    assert incomplete.bytes == 9
