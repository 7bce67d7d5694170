"""The PUT with an Idempotency-Key is performed once; retries get the first response."""

from hashlib import sha256

import orjson
import pytest

from app.main import create_app
from tests.callers import Gateway, opened
from tests.database_rows import stored, wrong_counters
from tests.db import raw
from tests.factories import NOW, a_world, starting_with
from tests.rest_compat.keyed import (
    AGAIN,
    FIRST,
    KEYED,
    OTHER_REQUEST,
    STORED,
    books,
    parts_of,
    put,
    stored_keys,
)
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

pytestmark = starting_with(a_world)


def test_a_retry_gets_the_first_response_and_changes_nothing(world: Gateway) -> None:
    first = put(world)
    once = stored(world)
    again = [put(world) for _ in range(3)]

    assert parts_of(first) == FIRST
    assert [parts_of(each) for each in again] == [AGAIN] * 3
    assert stored(world) == once
    assert books(world) == [1, 2]
    assert stored_keys(world) == [STORED]
    assert wrong_counters(world) == []


@pytest.mark.sqlite_only
def test_a_retry_reads_only_the_stored_response(world: Gateway) -> None:
    put(world)

    with world.watched() as steps:
        put(world)

    assert len(steps) == 1


def test_another_request_with_the_key_is_rejected(world: Gateway) -> None:
    put(world)
    once = stored(world)

    assert rejection_of(put(world, bookIds=[3])) == OTHER_REQUEST
    assert rejection_of(put(world, sessionId=999999)) == OTHER_REQUEST
    assert stored(world) == once
    assert parts_of(put(world)) == AGAIN


@pytest.mark.sqlite_only
def test_the_same_homework_in_other_bytes_is_another_request(world: Gateway) -> None:
    caregiver = world.as_caregiver(1)
    put(world)

    turned = caregiver.put(ASSIGNMENTS, json=dict(reversed(homework().items())), headers=KEYED)
    no_json = caregiver.put(ASSIGNMENTS, content=b"no JSON", headers=KEYED)

    assert rejection_of(turned) == OTHER_REQUEST
    assert rejection_of(no_json) == OTHER_REQUEST
    assert books(world) == [1, 2]


@pytest.mark.sqlite_only
def test_with_another_key_the_homework_is_assigned_again(world: Gateway) -> None:
    assert parts_of(put(world)) == FIRST
    assert parts_of(put(world, key="another")) == FIRST
    assert books(world) == [1, 2, 1, 2]
    assert wrong_counters(world) == []


def test_keys_are_separate_for_every_viewer(world: Gateway) -> None:
    theirs = homework(sessionId=5)
    put(world)

    first = world.as_caregiver(2).put(ASSIGNMENTS, json=theirs, headers=KEYED)
    again = world.as_caregiver(2).put(ASSIGNMENTS, json=theirs, headers=KEYED)

    assert (parts_of(first), parts_of(again)) == (FIRST, AGAIN)
    assert [row["session_id"] for row in stored(world)["assignment"][5:]] == [1, 1, 5, 5]


def test_a_rejection_is_not_stored(world: Gateway) -> None:
    """A rejected request can be corrected and sent again with the same key."""
    before = stored(world)

    assert rejection_of(put(world, sessionId=2)) == (409, "the session is not running")
    assert rejection_of(put(world, sessionId=2)) == (409, "the session is not running")
    assert rejection_of(put(world, bookIds=[1, 99])) == (404, "book not found: bookIds[1]")
    assert rejection_of(put(world, bookIds=[])) == (404, "required and missing: bookIds")
    assert stored(world) == before
    assert stored_keys(world) == []

    assert parts_of(put(world)) == FIRST
    assert books(world) == [1, 2]


@pytest.mark.sqlite_only
def test_a_rejected_request_can_succeed_later(world: Gateway) -> None:
    assert rejection_of(put(world, sessionId=2)) == (409, "the session is not running")

    raw.run(world.settings.database, "UPDATE session SET start_date = create_date WHERE id = 2")

    assert parts_of(put(world, sessionId=2)) == FIRST
    assert parts_of(put(world, sessionId=2)) == AGAIN


@pytest.mark.sqlite_only
def test_an_internal_error_leaves_the_key_free(world: Gateway) -> None:
    raw.run(world.settings.database, "ALTER TABLE event RENAME TO elsewhere")
    assert rejection_of(put(world)) == (500, "Internal error")
    raw.run(world.settings.database, "ALTER TABLE elsewhere RENAME TO event")

    assert stored_keys(world) == []
    assert parts_of(put(world)) == FIRST
    assert books(world) == [1, 2]


def test_a_retry_after_a_crash_before_the_response_is_replayed(world: Gateway) -> None:
    put(world)
    raw.run(world.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")

    assert rejection_of(put(world, bookIds=[3])) == OTHER_REQUEST
    assert parts_of(put(world)) == AGAIN
    assert stored_keys(world) == [STORED]
    assert parts_of(put(world)) == AGAIN
    assert books(world) == [1, 2]


def test_a_request_is_compared_with_the_fingerprint_of_an_earlier_version(world: Gateway) -> None:
    """It is stored in this form, so a retry after an upgrade gets the response from before it."""
    body = orjson.dumps(homework())
    headers = {**KEYED, "content-type": "application/json"}
    world.as_caregiver(1).request("PUT", ASSIGNMENTS, content=body, headers=headers)

    path = ASSIGNMENTS.encode()
    request = b"6:legacy3:PUT%d:%b%d:%b" % (len(path), path, len(body), body)
    assert raw.run(world.settings.database, "SELECT fingerprint FROM idempotency_key") == [
        (sha256(request).hexdigest(),)
    ]


def test_stored_responses_survive_a_restart(world: Gateway) -> None:
    first = put(world)

    with opened(create_app(world.settings, clock=lambda: NOW)) as client:
        again = put(Gateway(client, world.settings))

    assert (parts_of(first), parts_of(again)) == (FIRST, AGAIN)
    assert books(world) == [1, 2]
