"""Promise: a response costs its viewer a point per full KiB, on every way out. Small ones cost nothing, and a
debt rejects later requests only."""

import re
from collections.abc import Iterator

import pytest
from httpx2 import Response

from app.settings import Settings
from tests.callers import Caller, Gateway
from tests.factories import a_world
from tests.schema.limited import described, limited_gateway, only_budget
from tests.schema.listening import insert_event, listening, streaming

POINTS = 99
KIB = 40
READ = "{ session(id: 1) { description } }"  # 15 points
CHANGE = "mutation { updateSession(input: {sessionId: 1, title: %s}) { session { description } } }"
CHANGES = "subscription($after: ID) { assignmentChanged(after: $after) { session { description } } }"


@pytest.fixture
def limited(settings: Settings) -> Iterator[Gateway]:
    """Session 1 has a description of 40 KiB; a viewer has 100 points, which do not grow."""
    records = described(a_world(), "\N{GRINNING FACE}" * (KIB * 256))
    with limited_gateway(settings, POINTS, records) as gateway:
        yield gateway


def left(response: Response) -> int:
    [points] = re.findall(r"r=(\d+)", response.headers["ratelimit"])
    return int(points)


def left_of(gateway: Gateway) -> float:
    """Also a debt."""
    return only_budget(gateway).left


@pytest.fixture
def caregiver(limited: Gateway) -> Caller:
    return limited.as_caregiver(1)


def test_a_response_costs_a_point_per_kib(caregiver: Caller) -> None:
    assert left(caregiver.post_graphql("{ viewer { role } }")) == POINTS - 2
    assert left(caregiver.post_graphql(READ)) == POINTS - 2 - 15 - KIB


def test_a_debt_rejects_later_requests_until_it_is_paid(limited: Gateway, caregiver: Caller) -> None:
    answers = [caregiver.post_graphql(READ) for _ in range(2)]

    assert [each.status_code for each in answers] == [200, 200]
    assert left_of(limited) == POINTS - 2 * (15 + KIB)
    refused = caregiver.post_graphql(READ)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "16")  # 11 + 15 points


def test_a_change_is_not_rejected_for_the_length_of_its_response(limited: Gateway, caregiver: Caller) -> None:
    caregiver.post_graphql("{ sessions { nodes { id } } }")  # 31 points

    response = caregiver.post_graphql(CHANGE % '"New"')

    assert (response.status_code, left(response)) == (200, 0)
    assert left_of(limited) < 0


def test_a_change_over_a_websocket_is_not_rejected_for_it_either(limited: Gateway, caregiver: Caller) -> None:
    caregiver.post_graphql("{ sessions { nodes { id } } }")  # 31 points

    with listening(caregiver) as listener:
        changed = listener.query(CHANGE % '"New"')

    assert len(changed["updateSession"]["session"]["description"].encode()) == KIB * 1024
    assert left_of(limited) < 0


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_legacy_path_charges_the_same(limited: Gateway, method: str) -> None:
    """For a HEAD too, whose body is made and not sent."""
    path = "/gateway/profile/client/session?time-state=RUNNING&size=1"
    response = limited.as_client(1).request(method, path)

    assert (response.status_code, left(response)) == (200, POINTS - 55 - KIB)


def test_a_stream_of_a_query_charges_the_same(limited: Gateway, caregiver: Caller) -> None:
    with streaming(caregiver, READ) as stream:
        assert len(list(stream.events)) == 2

    assert left(stream.response) == left_of(limited) == POINTS - 15 - KIB


def test_a_websocket_message_charges_the_same(limited: Gateway, caregiver: Caller) -> None:
    with listening(caregiver) as listener:
        listener.query(READ)

    assert left_of(limited) == POINTS - 15 - KIB


@pytest.mark.parametrize("way", ["stream", "websocket"])
def test_an_event_charges_the_same(limited: Gateway, caregiver: Caller, way: str) -> None:
    for number in (1, 2):
        insert_event(limited.settings.database, "EXTENDED", number=number)

    if way == "stream":
        with streaming(caregiver, CHANGES, after="1") as stream:
            stream.receive()
    else:
        with listening(caregiver) as listener:
            listener.subscribe(CHANGES, after="1")
            listener.receive_change()

    assert left_of(limited) == POINTS - 2 * 21 - KIB
