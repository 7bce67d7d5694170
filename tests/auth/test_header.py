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


@pytest.mark.parametrize("scheme", ["bearer ", "Bearer ", "BEARER ", "bEaReR ", "bearer   "])
def test_the_scheme_may_have_any_case(peopled: Gateway, scheme: str) -> None:
    headers = {"authorization": scheme + signed(caregiver())}

    by_graphql = peopled.as_nobody().request("POST", "/graphql", json={"query": ME}, headers=headers)
    by_legacy = peopled.as_nobody().get(PAGE, headers=headers)

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
def test_any_other_header_is_rejected(peopled: Gateway, written: str) -> None:
    authorization = written.replace("{}", signed(caregiver()))

    assert_refused(peopled, authorization, 401, HEADER)


@pytest.mark.parametrize(
    "written", ['bearer "{}"', "bearer {},", "bearer token={}", "bearer {}\x85", "bearer é{}"]
)
def test_a_token_with_extra_text_is_rejected(peopled: Gateway, written: str) -> None:
    authorization = written.replace("{}", signed(caregiver()))

    answer = peopled.as_nobody().get(PAGE, headers={"authorization": authorization.encode("latin-1")})

    assert (answer.status_code, answer.json()["message"]) == (401, BAD)


def test_two_authorization_headers_are_rejected(peopled: Gateway) -> None:
    one, other = (("authorization", f"bearer {signed(caregiver(jti=jti))}") for jti in "ab")

    for headers in ([one, other], [one, one], [one, ("authorization", "")]):
        by_graphql = peopled.client.post("/graphql", json={"query": ME}, headers=headers)
        by_legacy = peopled.client.get(PAGE, headers=headers)

        assert (by_graphql.status_code, by_legacy.status_code) == (401, 401)
        assert by_legacy.json()["message"] in (HEADER, BAD)


@pytest.mark.parametrize("name", ["access_token", "token", "authorization", "bearer", "jwt"])
def test_a_token_in_the_url_is_ignored(peopled: Gateway, name: str) -> None:
    token = signed(caregiver())
    nobody = peopled.as_nobody()

    by_legacy = nobody.get(f"{PAGE}&{name}={token}")
    by_graphql = nobody.request("POST", f"/graphql?{name}={token}", json={"query": ME})

    assert by_legacy.status_code == by_graphql.status_code == 401
    assert_not_repeated(token, by_legacy)
    assert_not_repeated(token, by_graphql)


def test_a_bad_token_in_the_url_does_not_affect_the_header(peopled: Gateway) -> None:
    answer = peopled.as_caregiver(1).get(f"{PAGE}&access_token=garbage")

    assert answer.status_code == 200


def test_a_token_in_a_cookie_or_body_is_ignored(peopled: Gateway) -> None:
    token = signed(caregiver())
    nobody = peopled.as_nobody()

    by_cookie = nobody.get(PAGE, headers={"cookie": f"access_token={token}; Authorization=bearer {token}"})
    by_body = nobody.request("POST", "/graphql", json={"query": ME, "access_token": token, "token": token})

    assert by_cookie.status_code == by_body.status_code == 401


@pytest.mark.parametrize("path", [PAGE, f"{ASSIGNMENTS}/1", f"{SESSIONS}?time-state=RUNNING"])
def test_every_legacy_path_needs_a_token(peopled: Gateway, path: str) -> None:
    answer = peopled.as_nobody().get(path)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["message"] == "sign in with a valid bearer token"


def test_without_a_token_only_the_schema_is_readable_in_development(peopled: Gateway) -> None:
    nobody = peopled.as_nobody()

    assert nobody.data("{ __schema { queryType { name } } }") == {
        "__schema": {"queryType": {"name": "Query"}}
    }
    assert nobody.post_graphql(ME).status_code == 401


def test_a_bad_token_is_rejected_even_where_none_is_needed(peopled: Gateway) -> None:
    answer = peopled.with_token("garbage").post_graphql("{ __schema { queryType { name } } }")

    assert answer.status_code == 401
    assert "data" not in answer.json()


def test_no_response_repeats_the_token(peopled: Gateway) -> None:
    token = signed(caregiver())

    for answer in (
        peopled.with_token(token).post_graphql(ME),
        peopled.with_token(token).get(f"{ASSIGNMENTS}/9"),
    ):
        assert_not_repeated(token, answer)


def test_a_token_authenticates_many_requests(peopled: Gateway) -> None:
    token = signed(caregiver())

    assert [me(peopled, token) for _ in range(3)] == [CAREGIVER_1] * 3
