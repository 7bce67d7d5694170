"""A token is read from the header `Authorization: bearer <token>` only, with the scheme in any case. Any
other value is rejected, even where no token is needed."""

import pytest

from tests.auth.signing import (
    ASSIGNMENTS,
    BAD,
    CAREGIVER_1,
    HEADER,
    ME,
    SESSIONS,
    assert_not_repeated,
    assert_refused,
    caregiver,
    me,
    signed,
)
from tests.callers import Gateway

pytestmark = pytest.mark.sqlite_only

PAGE = f"{ASSIGNMENTS}?time-state=RUNNING"


@pytest.mark.parametrize(
    "written", ["bearer {}", "Bearer {}", "BEARER {}", "bEaReR {}", "bearer   {}", "bearer {} "]
)
def test_the_scheme_may_have_any_case_and_the_token_spaces_around_it(
    with_accounts: Gateway, written: str
) -> None:
    headers = {"authorization": written.format(signed(caregiver()))}

    by_graphql = with_accounts.as_anonymous().request("POST", "/graphql", json={"query": ME}, headers=headers)
    by_legacy = with_accounts.as_anonymous().get(PAGE, headers=headers)

    assert by_graphql.json() == {"data": {"viewer": CAREGIVER_1}}
    assert by_legacy.status_code == 200


@pytest.mark.parametrize(
    "written",
    [
        "",
        "bearer",
        "bearer ",
        "{}",
        "Basic {}",
        "Token {}",
        "bearer{}",
        "bearer: {}",
        "bearer {} {}",
        "bearer {}, {}",
        "bearer {}, bearer {}",
        "bearer\t{}",
        "bearer bearer {}",
    ],
)
def test_any_other_header_is_rejected(with_accounts: Gateway, written: str) -> None:
    authorization = written.replace("{}", signed(caregiver()))

    assert_refused(with_accounts, authorization, 401, HEADER)


@pytest.mark.parametrize(
    "written", ['bearer "{}"', "bearer {},", "bearer token={}", "bearer {}\x85", "bearer é{}"]
)
def test_a_token_with_extra_text_is_rejected(with_accounts: Gateway, written: str) -> None:
    authorization = written.replace("{}", signed(caregiver()))

    answer = with_accounts.as_anonymous().get(
        PAGE, headers={"authorization": authorization.encode("latin-1")}
    )

    assert (answer.status_code, answer.json()["message"]) == (401, BAD)


def test_two_authorization_headers_are_rejected(with_accounts: Gateway) -> None:
    one, other = (("authorization", f"bearer {signed(caregiver(jti=jti))}") for jti in "ab")

    for headers in ([one, other], [one, one], [one, ("authorization", "")]):
        by_graphql = with_accounts.client.post("/graphql", json={"query": ME}, headers=headers)
        by_legacy = with_accounts.client.get(PAGE, headers=headers)

        assert (by_graphql.status_code, by_legacy.status_code) == (401, 401)
        assert by_legacy.json()["message"] in (HEADER, BAD)


@pytest.mark.parametrize("name", ["access_token", "token", "authorization", "bearer", "jwt"])
def test_a_token_in_the_url_is_ignored(with_accounts: Gateway, name: str) -> None:
    token = signed(caregiver())
    anonymous = with_accounts.as_anonymous()

    by_legacy = anonymous.get(f"{PAGE}&{name}={token}")
    by_graphql = anonymous.request("POST", f"/graphql?{name}={token}", json={"query": ME})

    assert by_legacy.status_code == by_graphql.status_code == 401
    assert_not_repeated(token, by_legacy)
    assert_not_repeated(token, by_graphql)


def test_a_bad_token_in_the_url_does_not_affect_the_header(with_accounts: Gateway) -> None:
    answer = with_accounts.as_caregiver(1).get(f"{PAGE}&access_token=garbage")

    assert answer.status_code == 200


def test_a_token_in_a_cookie_or_body_is_ignored(with_accounts: Gateway) -> None:
    token = signed(caregiver())
    anonymous = with_accounts.as_anonymous()

    by_cookie = anonymous.get(PAGE, headers={"cookie": f"access_token={token}; Authorization=bearer {token}"})
    by_body = anonymous.request("POST", "/graphql", json={"query": ME, "access_token": token, "token": token})

    assert by_cookie.status_code == by_body.status_code == 401


@pytest.mark.parametrize("path", [PAGE, f"{ASSIGNMENTS}/1", f"{SESSIONS}?time-state=RUNNING"])
def test_every_legacy_path_needs_a_token(with_accounts: Gateway, path: str) -> None:
    answer = with_accounts.as_anonymous().get(path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["message"] == "sign in with a valid bearer token"


def test_without_a_token_only_the_schema_is_readable_in_development(with_accounts: Gateway) -> None:
    anonymous = with_accounts.as_anonymous()

    assert anonymous.data("{ __schema { queryType { name } } }") == {
        "__schema": {"queryType": {"name": "Query"}}
    }
    assert anonymous.post_graphql(ME).status_code == 401


def test_a_bad_token_is_rejected_even_where_none_is_needed(with_accounts: Gateway) -> None:
    answer = with_accounts.with_token("garbage").post_graphql("{ __schema { queryType { name } } }")

    assert answer.status_code == 401
    assert "data" not in answer.json()


def test_no_response_repeats_the_token(with_accounts: Gateway) -> None:
    token = signed(caregiver())

    for answer in (
        with_accounts.with_token(token).post_graphql(ME),
        with_accounts.with_token(token).get(f"{ASSIGNMENTS}/9"),
    ):
        assert_not_repeated(token, answer)


def test_a_token_authenticates_many_requests(with_accounts: Gateway) -> None:
    token = signed(caregiver())

    assert [me(with_accounts, token) for _ in range(3)] == [CAREGIVER_1] * 3
