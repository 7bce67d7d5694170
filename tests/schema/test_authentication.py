"""Authentication: without a token every query is rejected, and an invalid token is rejected for every query.

Contract: no token is UNAUTHENTICATED (401, `WWW-Authenticate: Bearer`), except for introspection in
development; an invalid token is 401; a token without an account is FORBIDDEN.
"""

from collections.abc import Iterator

import pytest

from app.main import create_app
from app.settings import Environment
from tests import keys
from tests.callers import Caller, Gateway, opened
from tests.factories import NOW
from tests.schema.worlds import global_id, refusal

pytestmark = pytest.mark.sqlite_only

SIGN_IN = "sign in with a valid bearer token"
NULLABLE = {
    "viewer": "{ viewer { role } }",
    "node": '{ node(id: "U2Vzc2lvbjox") { id } }',
    "session": "{ session(id: 1) { title } }",
    "assignment": "{ assignment(id: 1) { name } }",
    "book": "{ book(id: 1) { name } }",
}
REQUIRED = {
    "nodes": '{ nodes(ids: ["U2Vzc2lvbjox"]) { id } }',
    "sessions": "{ sessions { totalCount } }",
    "assignments": "{ assignments { nodes { name } } }",
    "books": "{ books { nodes { name } } }",
}
INTROSPECTION = "{ __schema { queryType { name } } __typename }"


@pytest.mark.parametrize("root", [*NULLABLE, *REQUIRED])
def test_every_root_field_requires_a_token(standing: Gateway, root: str) -> None:
    query = (NULLABLE | REQUIRED)[root]

    response = standing.as_anonymous().post_graphql(query)

    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert standing.as_anonymous().graphql(query) == {
        "data": {root: None} if root in NULLABLE else None,
        "errors": [refusal("UNAUTHENTICATED", SIGN_IN, root, column=3)],
    }


def test_without_a_token_an_unknown_id_gets_the_same_error(standing: Gateway) -> None:
    for text in ("999", "", global_id("Session", 1), str(2**63)):
        response = standing.as_anonymous().graphql("query($id: ID!) { session(id: $id) { id } }", id=text)
        assert response["errors"] == [refusal("UNAUTHENTICATED", SIGN_IN, "session", column=19)]


def test_introspection_needs_no_token_in_development(standing: Gateway) -> None:
    assert standing.as_anonymous().data(INTROSPECTION) == {
        "__schema": {"queryType": {"name": "Query"}},
        "__typename": "Query",
    }


BAD_TOKENS = {
    "no token": "x",
    "two words": "x y",
    "expired": keys.token("CLIENT", "client-1", exp=1),
    "a refresh token": keys.token("CLIENT", "client-1", ati="x"),
    "without expiry": keys.token("CLIENT", "client-1", exp=None),
    "without a user": keys.token("CLIENT", "client-1", user_name=None),
    "unsigned": keys.token("CLIENT", "client-1").rsplit(".", 1)[0] + ".",
}


@pytest.mark.parametrize("query", ["{ __typename }", INTROSPECTION, "{ viewer { role } }", "{ nope }", "{"])
@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
def test_an_invalid_token_is_rejected_for_every_query(standing: Gateway, token: str, query: str) -> None:
    response = standing.with_token(token).post_graphql(query)
    answer = standing.with_token(token).graphql(query)

    message = (
        "the Authorization header must read: bearer <token>"
        if " " in token
        else "the bearer token is not valid"
    )
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert answer == {"errors": [{"message": message, "extensions": {"code": "UNAUTHENTICATED"}}]}


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (keys.token("CLIENT", "nobody"), "there is no enabled account for this token"),
        (keys.token("CAREGIVER", "client-1"), "there is no enabled account for this token"),
        (
            keys.token("ADMIN", "client-1"),
            "the token must name exactly one of the roles CAREGIVER and CLIENT",
        ),
    ],
    ids=["an unknown account", "the account of a client as a caregiver", "an unknown role"],
)
def test_a_token_without_an_account_is_forbidden(standing: Gateway, token: str, message: str) -> None:
    assert standing.with_token(token).post_graphql("{ __typename }").status_code == 403
    assert standing.with_token(token).graphql("{ __typename }") == {
        "errors": [{"message": message, "extensions": {"code": "FORBIDDEN"}}]
    }


# --- in production ---------------------------------------------------------------------------------


@pytest.fixture
def production(standing: Gateway) -> Iterator[Gateway]:
    settings = standing.settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


@pytest.mark.parametrize("query", ["{ __typename }", INTROSPECTION, "{ viewer { role } }", "{ nope }", "{"])
def test_every_query_requires_a_token_in_production(production: Gateway, query: str) -> None:
    response = production.as_anonymous().post_graphql(query)

    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert production.as_anonymous().graphql(query) == {
        "errors": [{"message": SIGN_IN, "extensions": {"code": "UNAUTHENTICATED"}}]
    }


def test_a_signed_in_viewer_can_query_in_production(production: Gateway) -> None:
    assert production.as_client(1).data("{ __typename }") == {"__typename": "Query"}
    assert production.as_client(1).data("{ viewer { role } }") == {"viewer": {"role": "CLIENT"}}


def test_production_serves_no_page(production: Gateway) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    stranger = production.as_anonymous().get("/graphql", headers=browser)
    signed_in = production.as_client(1).get("/graphql", headers=browser)
    script = Caller(production.client, None).get("/assets/page.js")

    assert (stranger.status_code, stranger.headers["content-type"]) == (401, "application/json")
    assert (signed_in.status_code, signed_in.headers["content-type"]) == (400, "application/json")
    assert script.status_code == 404
