"""Configured claims of the token name the user and exactly one role. An unknown user is a 401, a missing or
ambiguous role is a 403."""

from typing import Any

import pytest

from tests.auth.conftest import Opening
from tests.auth.signing import (
    ASSIGNMENTS,
    BAD,
    CAREGIVER_1,
    CLIENT_1,
    ONE_ROLE,
    SESSIONS,
    assert_refused,
    caregiver,
    me,
    signed,
)
from tests.callers import Gateway

pytestmark = pytest.mark.sqlite_only


@pytest.mark.parametrize(
    "claims",
    [
        {"authorities": ["CAREGIVER"]},
        {"authorities": "CAREGIVER"},
        {"authorities": ["CAREGIVER", "CAREGIVER"]},
        {"authorities": ["AUDITOR", "CAREGIVER", 7, None]},
        {"authorities": None, "role": "CAREGIVER"},
        {"authorities": None, "role": ["CAREGIVER"]},
        {"authorities": None, "roles": ["CAREGIVER"]},
        {"authorities": None, "roles": "CAREGIVER"},
        {"authorities": ["CAREGIVER"], "role": "CLIENT", "roles": ["CLIENT"]},
        {"authorities": None, "role": "CAREGIVER", "roles": ["CLIENT"]},
    ],
    ids=str,
)
def test_a_token_names_one_role(with_accounts: Gateway, claims: dict[str, Any]) -> None:
    assert me(with_accounts, signed(caregiver(**claims))) == CAREGIVER_1


@pytest.mark.parametrize(
    "claims",
    [
        {"authorities": None},
        {"authorities": []},
        {"authorities": ""},
        {"authorities": ["CAREGIVER", "CLIENT"]},
        {"authorities": ["ADMIN"]},
        {"authorities": ["caregiver"]},
        {"authorities": "caregiver"},
        {"authorities": "CAREGIVER,CLIENT"},
        {"authorities": "CAREGIVER "},
        {"authorities": ["ROLE_CAREGIVER"]},
        {"authorities": {"CAREGIVER": True}},
        {"authorities": [["CAREGIVER"]]},
        {"authorities": [{"authority": "CAREGIVER"}]},
        {"authorities": True},
        {"authorities": 1},
        {"authorities": [], "role": "CAREGIVER"},
        {"authorities": ["ADMIN"], "roles": ["CAREGIVER"]},
        {"authorities": None, "role": "Caregiver", "roles": ["CAREGIVER"]},
        {"authorities": None, "roles": ["CLIENT", "CAREGIVER"]},
        {"authorities": None, "scope": ["CAREGIVER"]},
    ],
    ids=str,
)
def test_a_token_needs_exactly_one_known_role(with_accounts: Gateway, claims: dict[str, Any]) -> None:
    assert_refused(with_accounts, f"bearer {signed(caregiver(**claims))}", 403, ONE_ROLE)


def test_a_path_requires_its_role(with_accounts: Gateway) -> None:
    as_caregiver = with_accounts.as_caregiver(1).get(f"{SESSIONS}?time-state=RUNNING")
    as_client = [
        with_accounts.as_client(1).get(f"{ASSIGNMENTS}?time-state=RUNNING"),
        with_accounts.as_client(1).get(f"{ASSIGNMENTS}/1"),
        with_accounts.as_client(1).put(ASSIGNMENTS, json={}),
    ]

    assert (as_caregiver.status_code, as_caregiver.json()["message"]) == (403, "only a client may do this")
    for answer in as_client:
        assert (answer.status_code, answer.json()["message"]) == (403, "only a caregiver may do this")


@pytest.mark.parametrize(
    "claims",
    [
        {"user_name": "caregiver-1"},
        {"user_name": "caregiver-1", "sub": "caregiver-2"},
        {"user_name": None, "sub": "caregiver-1"},
    ],
    ids=["user_name", "user_name before sub", "sub alone"],
)
def test_a_token_names_its_user(with_accounts: Gateway, claims: dict[str, Any]) -> None:
    assert me(with_accounts, signed(caregiver(**claims))) == CAREGIVER_1


@pytest.mark.parametrize("claims", [{"user_name": None}, {"authorities": None, "role": "CAREGIVER"}], ids=str)
def test_a_claim_that_is_null_is_absent(with_accounts: Gateway, claims: dict[str, Any]) -> None:
    token = signed({**caregiver(sub="caregiver-1"), **claims})

    assert me(with_accounts, token) == CAREGIVER_1


NO_NAMES = {
    "none": {"user_name": None},
    "empty": {"user_name": ""},
    "empty, with a sub": {"user_name": "", "sub": "caregiver-1"},
    "empty sub": {"user_name": None, "sub": ""},
    "a number": {"user_name": 1},
    "zero, with a sub": {"user_name": 0, "sub": "caregiver-1"},
    "false, with a sub": {"user_name": False, "sub": "caregiver-1"},
    "a list": {"user_name": ["caregiver-1"]},
    "an object": {"user_name": {"name": "caregiver-1"}},
    "an empty list, with a sub": {"user_name": [], "sub": "caregiver-1"},
    "a name that no database keeps": {"user_name": "caregiver-1\0"},
    "half of a character": {"user_name": "caregiver-1\ud800"},
}


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_token_without_a_name_is_not_valid(with_accounts: Gateway, name: str) -> None:
    assert_refused(with_accounts, f"bearer {signed(caregiver(**NO_NAMES[name]))}", 401, BAD)


def test_claims_are_read_under_their_configured_names(open_with: Opening) -> None:
    gateway = open_with(claim_user="preferred_username", claim_role="groups")
    claims = caregiver(user_name="client-1", authorities=["CAREGIVER"])

    assert me(gateway, signed({**claims, "preferred_username": "client-1", "groups": ["CLIENT"]})) == CLIENT_1
    assert me(gateway, signed({**claims, "sub": "caregiver-1", "groups": ["CAREGIVER"]})) == CAREGIVER_1
    assert me(gateway, signed({**claims, "sub": "caregiver-1", "role": "CAREGIVER"})) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed({**claims, 'groups': ['CLIENT']})}", 401, BAD)
    assert_refused(gateway, f"bearer {signed({**claims, 'sub': 'caregiver-1'})}", 403, ONE_ROLE)
