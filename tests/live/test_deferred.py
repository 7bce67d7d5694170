"""A request that would be rejected is deferred: after a moment it is rejected, or accepted if there is room
then. So clients that repeat rejected requests at once do not keep the process from its work."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from app.server import admission, protocol
from tests import keys
from tests.live.edge import (
    AUTHORIZATION,
    Connection,
    Edge,
    graphql,
    homework,
    request,
    serve_service,
    write_lock,
)
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.live

NAME = graphql('{ __type(name: "Query") { name } }')
NOT_DEFERRED = graphql('{ __type(name: "Query") { name } }', b"connection: close\r\n")
LIVEZ = request("GET", "/livez")


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with serve_service(tmp_path_factory.mktemp("one_request"), most_requests=1) as one:
        yield one


@pytest.fixture(autouse=True)
def deferred_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "DEFERRED_SECONDS", 3600)


@contextmanager
def occupied(edge: Edge) -> Iterator[None]:
    """The only request slot is occupied during the block."""
    with edge.connection() as first:
        with write_lock(edge.database):
            first.send(homework())
            while edge.fetch(NOT_DEFERRED).status != 503:
                pass
            yield
        assert first.receive().status == 200


@contextmanager
def deferred(edge: Edge, data: bytes = NAME, is_first: bool = False) -> Iterator[Connection]:
    """A connection with a deferred request."""
    with edge.connection() as connection:
        if not is_first:
            assert connection.fetch(LIVEZ).status == 200
        connection.send(data)
        assert edge.fetch(LIVEZ).status == 200  # the process has read what was sent before
        yield connection


@pytest.mark.parametrize("is_first", [True, False])
def test_a_deferred_request_is_accepted_if_there_is_room(edge: Edge, is_first: bool) -> None:
    with ExitStack() as stack:
        with occupied(edge):
            connection = stack.enter_context(deferred(edge, homework(), is_first))
        connection.socket.shutdown(socket.SHUT_WR)  # the decision does not wait for its time

        assert connection.receive().status == 200


@pytest.mark.parametrize("is_first", [True, False])
def test_a_deferred_request_is_rejected_if_there_is_none(edge: Edge, is_first: bool) -> None:
    with occupied(edge), deferred(edge, is_first=is_first) as connection:
        connection.socket.shutdown(socket.SHUT_WR)

        rejected = connection.receive()

    assert (rejected.status, rejected.message) == (503, "server overloaded")


def test_the_request_of_a_viewer_who_has_half_of_the_slots_is_deferred(tmp_path: Path) -> None:
    with serve_service(tmp_path, most_requests=2) as edge, ExitStack() as stack:
        assert edge.fetch(NAME).status == 200  # the process knows the token now
        with occupied(edge):
            connection = stack.enter_context(deferred(edge))
        connection.socket.shutdown(socket.SHUT_WR)

        assert connection.receive().status == 200


def test_another_viewer_of_the_same_address_has_the_next_slot(tmp_path: Path) -> None:
    """The process knows the viewer by the token, which it has verified before."""
    other = keys.token("CLIENT", "client-1")
    theirs = NOT_DEFERRED.replace(AUTHORIZATION, f"authorization: bearer {other}\r\n".encode())
    with serve_service(tmp_path, most_requests=2) as edge:
        assert [edge.fetch(each).status for each in (NAME, theirs)] == [200, 200]
        with occupied(edge):
            assert edge.fetch(theirs).status == 200


def test_the_decision_comes_when_its_time_is_over(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "DEFERRED_SECONDS", 0.01)

    with occupied(edge), deferred(edge) as connection:
        assert connection.receive().status == 503
        assert connection.fetch(NAME).status == 503  # the next one waits too


def test_what_a_client_sends_after_a_deferred_request_ends_the_wait(edge: Edge) -> None:
    with occupied(edge), deferred(edge) as connection:
        connection.send(NAME)

        assert [connection.receive().status, connection.receive().status] == [503, 503]


def test_a_health_check_with_a_query_is_answered(edge: Edge) -> None:
    with occupied(edge):
        assert edge.fetch(request("GET", "/livez?probe=lb")).status == 200


def test_the_body_may_arrive_after_the_head(edge: Edge) -> None:
    head, end, body = homework().partition(b"\r\n\r\n")
    with ExitStack() as stack:
        with occupied(edge):
            connection = stack.enter_context(deferred(edge, head + end))
            for piece in (body[:9], body[9:]):
                connection.send(piece)
                assert edge.fetch(LIVEZ).status == 200
        connection.socket.shutdown(socket.SHUT_WR)

        assert connection.receive().status == 200


def test_a_body_that_is_incomplete_at_the_decision_is_awaited(edge: Edge) -> None:
    with ExitStack() as stack:
        with occupied(edge):
            connection = stack.enter_context(deferred(edge, NAME[:-1]))
            connection.socket.shutdown(socket.SHUT_WR)

        assert connection.read_to_end() == b""


def test_a_rejection_has_the_id_of_its_request(edge: Edge) -> None:
    with occupied(edge), deferred(edge, graphql("{ a }", b"X-Request-Id: mine\r\n")) as connection:
        connection.socket.shutdown(socket.SHUT_WR)
        rejected = connection.receive()

    assert (rejected.status, rejected.headers["x-request-id"]) == (503, "mine")


def test_a_long_request_is_rejected_at_once(edge: Edge) -> None:
    with occupied(edge), deferred(edge, graphql("{ a }" + " " * 20_000)) as connection:
        assert connection.receive().status == 503


def test_a_client_may_leave_before_the_decision(edge: Edge) -> None:
    """When its service ends, this file's fixture checks that nothing of the request is left."""
    with occupied(edge):
        with deferred(edge):
            pass
        assert edge.fetch(LIVEZ).status == 200


def test_the_memory_of_deferred_requests_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_DEFERRED", len(NAME))

    with (
        serve_service(tmp_path, most_requests=1) as edge,
        occupied(edge),
        deferred(edge) as first,
        deferred(edge) as second,
    ):
        assert first.receive().status == 503  # the oldest is decided at once
        assert first.fetch(LIVEZ).status == 200  # and keeps its connection
        second.socket.shutdown(socket.SHUT_WR)
        assert second.receive().status == 503


def test_a_body_that_arrives_after_its_head_counts_for_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MAX_DEFERRED", len(NAME) - 1)

    with (
        serve_service(tmp_path, most_requests=1) as edge,
        occupied(edge),
        deferred(edge, NAME[:-1]) as connection,
    ):
        connection.send(NAME[-1:])

        assert connection.receive().status == 503  # it is decided at once


def test_a_deferred_request_is_answered_while_the_service_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "DEFERRED_SECONDS", 0.1)

    with ExitStack() as stack:
        with serve_service(tmp_path, shutdown=PATIENCE, most_requests=1) as edge, occupied(edge):
            connection = stack.enter_context(deferred(edge))
        response = connection.receive()

    assert response.status in (200, 503)
