"""Adding, listing and disabling accounts; a rejected command changes nothing."""

import asyncio

import pytest

from app.db.admin.accounts import AccountRefused, Person, add_person, list_people, set_disabled
from app.db.admin.orm import transaction
from app.db.tables import Caregiver, Client
from tests.callers import load
from tests.db import raw
from tests.factories import NOW, a_caregiver, a_client

ALL = "SELECT id, user_name, is_disabled FROM {} ORDER BY id"


@pytest.fixture(autouse=True)
def _people(database_url: str) -> None:
    load(database_url, [a_caregiver(3), a_caregiver(4, userName=None), a_client(5)])


def stored(url: str, table: str) -> list[tuple[int, str | None, bool]]:
    return [(number, name, bool(off)) for number, name, off in raw.run(url, ALL.format(table))]


def add(url: str, *people: Person) -> list[int]:
    async def added() -> list[int]:
        async with transaction(url) as tx:
            return [(await add_person(tx, person)).id for person in people]

    return asyncio.run(added())


def disable(url: str, table: type[Person], user: str, is_disabled: bool = True) -> None:
    async def changed() -> None:
        async with transaction(url) as tx:
            await set_disabled(tx, table, user, is_disabled, NOW)

    asyncio.run(changed())


def test_a_new_person_gets_the_next_id(database_url: str) -> None:
    given = add(
        database_url,
        Caregiver(name="Ana", position="Nurse", user_name="ana@example.test"),
        Client(name="Bo", oppt_id="OPPT-9", user_name="bo@example.test"),
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
        lambda: Caregiver(name="Ana", position="Nurse", user_name="caregiver-3"),
        lambda: Client(name="Bo", oppt_id="OPPT-9", user_name="client-5"),
        lambda: Client(name="Bo", oppt_id="OPPT-5", user_name="bo@example.test"),
    ],
    ids=["a caregiver's user name", "a client's user name", "an identifier"],
)
def test_a_duplicate_user_name_or_identifier_is_rejected(database_url: str, person: object) -> None:
    before = raw.row_counts(database_url)

    with pytest.raises(
        AccountRefused, match=r"^(caregiver 3|client 5) has the (user name|identifier) .+ already$"
    ):
        add(database_url, Client(name="Di", oppt_id="OPPT-8"), person())  # type: ignore[operator]

    assert raw.row_counts(database_url) == before


def test_a_caregiver_and_a_client_may_share_a_user_name(database_url: str) -> None:
    assert add(database_url, Client(name="Bo", oppt_id="OPPT-9", user_name="caregiver-3")) == [6]


def test_people_without_an_account_are_not_listed(database_url: str) -> None:
    async def listed() -> list[tuple[str, int]]:
        async with transaction(database_url) as tx:
            return [(type(person).__name__, person.id) for person in await list_people(tx)]

    assert asyncio.run(listed()) == [("Caregiver", 3), ("Client", 5)]


def test_an_account_is_disabled_and_enabled_again(database_url: str) -> None:
    disable(database_url, Caregiver, "caregiver-3")
    assert stored(database_url, "caregiver") == [(3, "caregiver-3", True), (4, None, False)]

    disable(database_url, Caregiver, "caregiver-3", is_disabled=False)
    assert stored(database_url, "caregiver") == [(3, "caregiver-3", False), (4, None, False)]


def test_an_account_of_the_other_role_is_not_found(database_url: str) -> None:
    with pytest.raises(AccountRefused, match="there is no such account in this role"):
        disable(database_url, Client, "caregiver-3")

    assert stored(database_url, "caregiver") == [(3, "caregiver-3", False), (4, None, False)]
