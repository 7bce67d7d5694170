"""A response stored for an idempotency key has no data of an erased client, in any order of response, storage
and erasure."""

import asyncio
from typing import Any

import orjson
import pytest

from app.care.idempotency import IdempotentRequest, KeyScope, performing_once, storing_response
from app.db.admin.erasing import erasing
from app.db.drivers.interface import Database
from tests.callers import Gateway
from tests.concurrency import before_database_calls, nothing
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import add_module, with_database
from tests.factories import NOW, a_caregiver, a_client, a_session, a_world, starting_with
from tests.schema.keyed import KEYED, post

pytestmark = starting_with(a_world)

on_postgresql = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)

OPEN = """mutation($input: CreateSessionInput!) { createSession(input: $input) {
    userErrors { code } sessions { legacyId title client { name } } } }"""
OPENED = {"clientOpptId": "OPPT-1", "title": "Moving out", "startDate": "2026-11-21T09:00:00Z"}


def opening() -> dict[str, Any]:
    return {"query": OPEN, "variables": {"input": OPENED}}


def payload(title: str, name: str) -> dict[str, Any]:
    session = {"legacyId": "6", "title": title, "client": {"name": name}}
    return {"data": {"createSession": {"userErrors": [], "sessions": [session]}}}


def kept(url: str) -> list[tuple[Any, ...]]:
    return raw.run(url, "SELECT result, body FROM idempotency_key")


def test_a_response_stored_after_the_erasure_has_no_name(gateway: Gateway) -> None:

    async def erase() -> None:
        await gateway.database.write(erasing(1, NOW))

    with before_database_calls(gateway, writes=[nothing, erase]):
        first = post(gateway.as_caregiver(1), opening())

    assert first.json() == payload("Moving out", "Zoë Client 1")  # it was read before the erasure
    assert kept(gateway.settings.database) == [("[6]", None)]
    repeated = post(gateway.as_caregiver(1), opening())
    assert repeated.json() == payload("", "erased")
    assert repeated.headers["idempotency-replayed"] == "true"
    assert kept(gateway.settings.database) == [("[6]", None)]


def test_the_erasure_empties_a_stored_response(gateway: Gateway) -> None:
    first = post(gateway.as_caregiver(1), opening())
    assert kept(gateway.settings.database) == [("[6]", first.text)]

    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.database.write, erasing(1, NOW))

    assert kept(gateway.settings.database) == [("[6]", None)]
    assert post(gateway.as_caregiver(1), opening()).json() == payload("", "erased")
    assert kept(gateway.settings.database) == [("[6]", None)]


def test_the_response_of_another_caregiver_with_the_number_of_the_client_stays(gateway: Gateway) -> None:
    gateway.import_records([a_client(3), a_caregiver(3), a_session(6, client=3), a_session(7, caregiver=3)])
    first = post(gateway.as_caregiver(3), opening())

    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.database.write, erasing(3, NOW))

    assert kept(gateway.settings.database) == [("[8]", first.text)]


# --- transactions of PostgreSQL that overlap ---

ONCE = IdempotentRequest(KeyScope("CAREGIVER", 1, "graphql", KEYED["idempotency-key"]), "fingerprint")
SHOWN = orjson.dumps(payload("Moving out", "Zoë Client 1"))


def changing() -> Any:
    """A change that does not touch the client, with a response that may show them."""
    yield add_module("new"), {}
    return [1]


@on_postgresql
def test_an_erasure_waits_for_a_change_whose_response_may_show_the_client(database_url: str) -> None:

    async def use(db: Database) -> bool:
        async with uncommitted(database_url, performing_once(ONCE, NOW, changing())):
            erased = asyncio.create_task(db.write(erasing(1, NOW)))
            has_waited = await until_blocked(database_url, erased)
        await erased
        await db.write(storing_response(ONCE, 200, SHOWN))  # read between the two
        return has_waited

    has_waited = with_database(database_url, use)

    assert kept(database_url) == [("[1]", None)]
    assert has_waited


@on_postgresql
def test_the_erasure_empties_a_response_that_is_being_stored(database_url: str) -> None:

    async def use(db: Database) -> None:
        await db.write(performing_once(ONCE, NOW, changing()))
        async with uncommitted(database_url, storing_response(ONCE, 200, SHOWN)):
            erased = asyncio.create_task(db.write(erasing(1, NOW)))
            assert await until_blocked(database_url, erased)
        await erased

    with_database(database_url, use)

    assert kept(database_url) == [("[1]", None)]


@on_postgresql
def test_a_response_that_waits_for_the_erasure_is_not_stored(database_url: str) -> None:

    async def use(db: Database) -> None:
        await db.write(performing_once(ONCE, NOW, changing()))
        async with uncommitted(database_url, erasing(1, NOW)):
            stored = asyncio.create_task(db.write(storing_response(ONCE, 200, SHOWN)))
            assert await until_blocked(database_url, stored)
        await stored

    with_database(database_url, use)

    assert kept(database_url) == [("[1]", None)]
