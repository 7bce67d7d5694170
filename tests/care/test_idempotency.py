"""A change with an Idempotency-Key is performed once; afterwards its stored result is replayed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.care.context import Context, Role, Viewer
from app.care.errors import KeyTaken, NotRunning
from app.care.idempotency import IdempotentRequest, KeyScope, Outcome, finding_result, storing_response
from app.db.drivers.interface import Database
from app.db.sql import Steps
from tests.db import raw
from tests.db.small_steps import add_module, modules, with_database
from tests.factories import NOW

PERFORMED, REPLAYED = Outcome.PERFORMED, Outcome.REPLAYED
SCOPE = KeyScope("CAREGIVER", 1, "graphql", "a key")


def once(fingerprint: str = "a", **changed: Any) -> IdempotentRequest:
    return IdempotentRequest(SCOPE._replace(**changed), fingerprint)


def context(db: Database, once: IdempotentRequest) -> Context:
    return Context(Viewer(Role.CAREGIVER, 1), db, NOW, "request", "UTC", once)


def adding(result: Any = "added", name: str = "new") -> Steps[Any]:
    yield add_module(name), {}
    return result


def refusing() -> Steps[Any]:
    yield add_module("never"), {}
    raise NotRunning("sessionId")


def kept(url: str) -> int:
    [(number,)] = raw.run(url, "SELECT count(*) FROM idempotency_key")
    return int(number)


def run(url: str, *steps: Callable[[Database], Awaitable[Any]]) -> list[Any]:
    async def one_after_the_other(db: Database) -> list[Any]:
        return [await step(db) for step in steps]

    return with_database(url, one_after_the_other)


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("result", [7, [6, 7], {"id": 7, "ids": [1]}, "text", None, True], ids=repr)
def test_a_change_is_performed_once_and_its_result_is_replayed(database_url: str, result: Any) -> None:
    first, second = once(), once()

    results = run(
        database_url,
        lambda db: context(db, first).write("change", adding(result)),
        lambda db: context(db, second).write("change", adding("another")),
    )

    assert results == [result, result]
    assert (first.outcome, second.outcome) == (PERFORMED, REPLAYED)
    assert modules(database_url) == ["new"]


def test_without_a_key_nothing_is_replayed(database_url: str) -> None:
    run(database_url, *[lambda db: Context(None, db, NOW, "request", "UTC").write("change", adding())] * 2)

    assert modules(database_url) == ["new", "new"]
    assert kept(database_url) == 0


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    "changed", [{"role": "CLIENT"}, {"viewer": 2}, {"contract": "legacy"}, {"key": "A KEY"}], ids=repr
)
def test_a_key_is_separate_in_every_scope(database_url: str, changed: dict[str, Any]) -> None:
    first, second = once(), once("b", **changed)

    run(
        database_url,
        lambda db: context(db, first).write("change", adding()),
        lambda db: context(db, second).write("change", adding()),
    )

    assert (first.outcome, second.outcome) == (PERFORMED, PERFORMED)
    assert modules(database_url) == ["new", "new"]


def test_another_request_with_the_key_changes_nothing(database_url: str) -> None:
    other = once("b")
    run(database_url, lambda db: context(db, once()).write("change", adding()))

    with pytest.raises(KeyTaken):
        run(database_url, lambda db: context(db, other).write("change", adding()))
    with pytest.raises(KeyTaken):
        run(database_url, lambda db: db.read(finding_result(other)))

    assert other.outcome is None
    assert modules(database_url) == ["new"]


def test_a_rejected_change_leaves_its_key_free(database_url: str) -> None:
    refused, corrected = once(), once("b")

    with pytest.raises(NotRunning):
        run(database_url, lambda db: context(db, refused).write("change", refusing()))
    assert kept(database_url) == 0
    run(database_url, lambda db: context(db, corrected).write("change", adding()))

    assert (refused.outcome, corrected.outcome) == (None, PERFORMED)
    assert modules(database_url) == ["new"]


@pytest.mark.sqlite_only
def test_a_result_that_json_cannot_represent_fails_on_the_first_run(database_url: str) -> None:
    with pytest.raises(TypeError):
        run(database_url, lambda db: context(db, once()).write("change", adding({1, 2})))

    assert modules(database_url) == []
    assert kept(database_url) == 0


@pytest.mark.sqlite_only
def test_a_request_with_a_key_has_one_change(database_url: str) -> None:
    """A second change would get the result of the first."""

    async def two(db: Database) -> None:
        ctx = context(db, once())
        await ctx.write("change", adding())
        await ctx.write("change", adding())

    with pytest.raises(AssertionError):
        run(database_url, two)


def test_the_first_response_is_the_stored_one(database_url: str) -> None:
    mine, others = once(), once("b")

    found = run(
        database_url,
        lambda db: context(db, mine).write("change", adding()),
        lambda db: db.read(finding_result(mine)),
        lambda db: db.write(storing_response(others, 200, b"not theirs to say")),
        lambda db: db.write(storing_response(mine, 200, "{“Zoë”}".encode())),
        lambda db: db.write(storing_response(mine, 500, b"later")),
        lambda db: db.read(finding_result(mine)),
        lambda db: db.read(finding_result(once(key="unknown"))),
    )

    assert (found[1], found[5], found[6]) == (
        ('"added"', None, None),
        ('"added"', 200, "{“Zoë”}"),
        None,
    )


# --- at the same time --------------------------------------------------------------------------------


def test_one_of_sixteen_concurrent_requests_performs_the_change(database_url: str) -> None:
    keys = [once() for _ in range(16)]

    async def together(db: Database) -> list[Any]:
        changes = [context(db, key).write("change", adding(number)) for number, key in enumerate(keys)]
        return await asyncio.gather(*changes)

    results = with_database(database_url, together)

    assert sorted(key.outcome or "" for key in keys) == [PERFORMED, *[REPLAYED] * 15]
    assert len(set(results)) == 1
    assert modules(database_url) == ["new"]


def test_after_a_rejection_another_request_performs_the_change(database_url: str) -> None:
    keys = [once() for _ in range(16)]

    async def together(db: Database) -> list[Any]:
        changes = [refusing() if number % 2 == 0 else adding() for number in range(16)]
        writes = [context(db, key).write("change", change) for key, change in zip(keys, changes, strict=True)]
        return await asyncio.gather(*writes, return_exceptions=True)

    results = with_database(database_url, together)

    outcomes = [key.outcome for key in keys]
    assert outcomes.count(PERFORMED) == 1
    assert all(isinstance(each, NotRunning) or each == "added" for each in results)
    assert outcomes.count(REPLAYED) == results.count("added") - 1
    assert modules(database_url) == ["new"]
