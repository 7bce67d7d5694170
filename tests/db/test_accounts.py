"""Adding, listing and disabling accounts; a rejected command changes nothing."""

import asyncio

import pytest

from app.db.admin.accounts import (
    Account,
    AccountRejected,
    adding_person,
    linking_person,
    listing_accounts,
    switching_account,
)
from app.db.admin.erasing import erasing
from app.db.drivers.interface import Database
from app.db.sql import Steps
from tests.callers import load, run_read, run_write
from tests.db import raw
from tests.db.overlapping import uncommitted, until_blocked
from tests.db.small_steps import with_database
from tests.factories import NOW, a_caregiver, a_client

ANA = {"name": "Ana", "position": "Nurse"}
BO = {"name": "Bo", "oppt_id": "OPPT-9"}
ALL = "SELECT id, user_name, is_disabled FROM {} ORDER BY id"


@pytest.fixture(autouse=True)
def _people(database_url: str) -> None:
    load(database_url, [a_caregiver(3), a_caregiver(4, userName=None), a_client(5)])


def stored(url: str, table: str) -> list[tuple[int, str | None, bool]]:
    return [(number, name, bool(off)) for number, name, off in raw.run(url, ALL.format(table))]


def adding_several(*people: tuple[str, dict[str, str]]) -> Steps[list[int]]:
    added = []
    for role, values in people:
        added.append((yield from adding_person(role, **values)))
    return added


def add(url: str, *people: tuple[str, dict[str, str]]) -> list[int]:
    return run_write(url, adding_several(*people))


def disable(url: str, role: str, user: str, is_disabled: bool = True) -> None:
    run_write(url, switching_account(role, user, is_disabled, NOW))


def test_a_new_person_gets_the_next_id(database_url: str) -> None:
    given = add(
        database_url,
        ("CAREGIVER", {**ANA, "user_name": "ana@example.test"}),
        ("CLIENT", {**BO, "user_name": "bo@example.test"}),
    )

    assert given == [5, 6]
    assert stored(database_url, "caregiver") == [
        (3, "caregiver-3", False),
        (4, None, False),
        (5, "ana@example.test", False),
    ]
    assert stored(database_url, "client") == [(5, "client-5", False), (6, "bo@example.test", False)]


@pytest.mark.parametrize(
    "person",
    [
        ("CAREGIVER", {**ANA, "user_name": "caregiver-3"}),
        ("CLIENT", {**BO, "user_name": "client-5"}),
        ("CLIENT", {**BO, "oppt_id": "OPPT-5", "user_name": "bo@example.test"}),
    ],
    ids=["a caregiver's user name", "a client's user name", "an identifier"],
)
def test_a_duplicate_user_name_or_identifier_is_rejected(
    database_url: str, person: tuple[str, dict[str, str]]
) -> None:
    before = raw.row_counts(database_url)

    with pytest.raises(
        AccountRejected, match=r"^(caregiver 3|client 5) has the (user name|identifier) .+ already$"
    ):
        add(database_url, ("CLIENT", {"name": "Di", "oppt_id": "OPPT-8", "user_name": "di"}), person)

    assert raw.row_counts(database_url) == before


def test_a_caregiver_and_a_client_may_share_a_user_name(database_url: str) -> None:
    assert add(database_url, ("CLIENT", {**BO, "user_name": "caregiver-3"})) == [6]


def test_accounts_are_listed_in_the_order_of_their_ids_without_people_who_have_none(
    database_url: str,
) -> None:
    """PostgreSQL stores a changed row behind the others."""
    load(database_url, [a_caregiver(6)])
    disable(database_url, "CAREGIVER", "caregiver-3")

    assert run_read(database_url, listing_accounts()) == [
        Account("CAREGIVER", 3, "caregiver-3", True),
        Account("CAREGIVER", 6, "caregiver-6", False),
        Account("CLIENT", 5, "client-5", False),
    ]


def test_an_account_is_disabled_and_enabled_again(database_url: str) -> None:
    disable(database_url, "CAREGIVER", "caregiver-3")
    assert stored(database_url, "caregiver") == [(3, "caregiver-3", True), (4, None, False)]

    disable(database_url, "CAREGIVER", "caregiver-3", is_disabled=False)
    assert stored(database_url, "caregiver") == [(3, "caregiver-3", False), (4, None, False)]


def test_an_account_of_the_other_role_is_not_found(database_url: str) -> None:
    with pytest.raises(AccountRejected, match="there is no such account in this role"):
        disable(database_url, "CLIENT", "caregiver-3")

    assert stored(database_url, "caregiver") == [(3, "caregiver-3", False), (4, None, False)]


def test_a_user_name_that_is_taken_meanwhile_is_not_added(database_url: str) -> None:
    """The row of a concurrent command is not visible to the check, but it is to the insertion."""

    def unseen() -> Steps[int]:
        adding = adding_person("CLIENT", **BO, user_name="client-5")
        step = next(adding)
        while "INSERT" not in step[0].for_("sqlite").sql:
            step = adding.send([])
        return adding.send((yield step))  # type: ignore[func-returns-value]

    with pytest.raises(AccountRejected, match=r"^this user name or client identifier is taken$"):
        run_write(database_url, unseen())


def test_a_user_name_that_is_taken_is_not_linked(database_url: str) -> None:
    with pytest.raises(AccountRejected, match=r"^this user name is taken$"):
        run_write(database_url, linking_person("CAREGIVER", 4, "caregiver-3"))

    assert stored(database_url, "caregiver") == [(3, "caregiver-3", False), (4, None, False)]


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("is_erased", "reason", "row"),
    [
        (True, "this client is erased", ("erased", None, True)),
        (False, "this person has an account already", ("Zoë Client 6", "first", False)),
    ],
    ids=["an erasure", "another link"],
)
def test_an_account_that_waits_for_a_change_of_the_person_is_not_linked(
    database_url: str, is_erased: bool, reason: str, row: tuple[str, str | None, bool]
) -> None:
    load(database_url, [a_client(6, userName=None)])

    async def use(db: Database) -> None:
        change: Steps[object] = erasing(6, NOW) if is_erased else linking_person("CLIENT", 6, "first")
        async with uncommitted(database_url, change):
            linked = asyncio.create_task(db.write(linking_person("CLIENT", 6, "jonas.berg@example.test")))
            assert await until_blocked(database_url, linked)
        with pytest.raises(AccountRejected, match=f"^{reason}$"):
            await linked

    with_database(database_url, use)

    person = "SELECT name, user_name, is_disabled FROM client WHERE id = 6"
    assert raw.run(database_url, person) == [row]
