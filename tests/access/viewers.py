"""The callers of the access tests: four viewers with data of their own, and outsiders, who are rejected."""

from collections.abc import Callable
from functools import cache
from typing import Any

from httpx2 import Response

from tests import keys
from tests.access.table import fill
from tests.access.world import KNOWN, OF, PEOPLE, SHARED, owners_in, readable, user, whose
from tests.callers import Caller, Gateway

VIEWERS = tuple(KNOWN)
OWN_PAIR = {"A": "AX", "B": "BX", "X": "AX", "Y": "BY"}
REQUEST_ID = {"x-request-id": "r"}


def role_of(whose: str) -> str:
    return "CAREGIVER" if whose in "ABD" else "CLIENT"


@cache  # signing takes longer than most requests
def token_of(whose: str, role: str | None = None, **changed: Any) -> str:
    return keys.token(role or role_of(whose), user(whose), **changed)


def caller_of(gateway: Gateway, whose: str) -> Caller:
    return gateway.with_token(token_of(whose))


ERASED = keys.token("CLIENT", "erased")

# Callers that are rejected, with the status.
OUTSIDERS: dict[str, tuple[Callable[[], str | None], int]] = {
    "without a token": (lambda: None, 401),
    "with the refresh token of A": (lambda: token_of("A", ati="f3c1"), 401),
    "with the refresh token of X": (lambda: token_of("X", ati="f3c1"), 401),
    "the disabled caregiver": (lambda: token_of("D"), 403),
    "the disabled client": (lambda: token_of("W"), 403),
    "the erased client": (lambda: token_of("Z"), 403),
    "the erased client, by the remaining name": (lambda: ERASED, 403),
    "A as a client": (lambda: token_of("A", "CLIENT"), 403),
    "X as a caregiver": (lambda: token_of("X", "CAREGIVER"), 403),
}


def post(caller: Caller, query: str, variables: dict[str, Any] | None = None) -> Response:
    body = {"query": query, "variables": variables or {}}
    return caller.request("POST", "/graphql", json=body, headers=REQUEST_ID)


def assert_known_only(response: Response, viewer: str) -> str:
    """Checks that the response has data of known owners only, and returns its content."""
    content = readable(response)
    assert owners_in(content) <= KNOWN[viewer], content
    return content


def assert_outsiders_rejected(gateway: Gateway, send: Callable[[Caller], Response]) -> None:
    """Checks that outsiders get an error without any data."""
    for name, (token, status) in OUTSIDERS.items():
        response = send(Caller(gateway.client, token()))

        assert response.status_code == status, name
        assert owners_in(readable(response)) == set(), name


def is_known(viewer: str, number: str) -> bool:
    """Whether the viewer may read the object; books (small numbers) have no owner."""
    return len(number) < 6 or whose(int(number)) in KNOWN[viewer]


def pair_at(viewer: str, shared: str, number: str) -> str:
    """The pair whose data the viewer reads at an object; at a person, the pair of the two."""
    person = whose(int(number))
    if person in PEOPLE and person != viewer:
        return next(one for one in SHARED if viewer in one and person in one)
    return shared if viewer in shared else OWN_PAIR[viewer]


def fill_for(row: Any, shared: str) -> Any:
    """A row of the table with the names and numbers of this pair."""
    return fill(row, shared, OF[shared], caregiver=PEOPLE[shared[0]], client=PEOPLE[shared[1]])
