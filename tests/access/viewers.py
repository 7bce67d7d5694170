"""The viewers of the tests: four people with data of their own, and outsiders who must get nothing."""

from collections.abc import Callable
from functools import cache
from typing import Any

from httpx2 import Response

from tests import keys
from tests.access.table import filled
from tests.access.world import KNOWN, OF, PEOPLE, SHARED, owner_of, owners_in, readable, user
from tests.callers import Caller, Gateway

PEOPLE_WITH_DATA = tuple(KNOWN)
MINE = {"A": "AX", "B": "BX", "X": "AX", "Y": "BY"}
REQUEST_ID = {"x-request-id": "r"}


def role_of(person: str) -> str:
    return "CAREGIVER" if person in "ABD" else "CLIENT"


@cache  # signing one takes longer than most answers
def token_of(person: str, role: str | None = None, **changed: Any) -> str:
    return keys.token(role or role_of(person), user(person), **changed)


def sign_in(gateway: Gateway, person: str) -> Caller:
    return gateway.with_token(token_of(person))


ERASED = keys.token("CLIENT", "erased")

# Who is refused at the door, and with which status.
OUTSIDERS: dict[str, tuple[Callable[[], str | None], int]] = {
    "nobody": (lambda: None, 401),
    "with the refresh token of A": (lambda: token_of("A", ati="f3c1"), 401),
    "with the refresh token of X": (lambda: token_of("X", ati="f3c1"), 401),
    "the disabled caregiver": (lambda: token_of("D"), 403),
    "the disabled client": (lambda: token_of("W"), 403),
    "the erased client": (lambda: token_of("Z"), 403),
    "the erased client, by the name that was left": (lambda: ERASED, 403),
    "A as a client": (lambda: token_of("A", "CLIENT"), 403),
    "X as a caregiver": (lambda: token_of("X", "CAREGIVER"), 403),
}


def post(caller: Caller, query: str, variables: dict[str, Any] | None = None) -> Response:
    body = {"query": query, "variables": variables or {}}
    return caller.request("POST", "/graphql", json=body, headers=REQUEST_ID)


def assert_shows_only_known(answer: Response, viewer: str) -> str:
    """Checks that a response contains nothing of people unknown to the viewer, and returns it."""
    shown = readable(answer)
    assert owners_in(shown) <= KNOWN[viewer], shown
    return shown


def assert_rejects_outsiders(gateway: Gateway, send: Callable[[Caller], Response]) -> None:
    """Checks that outsiders get nothing from any request."""
    for name, (token, status) in OUTSIDERS.items():
        answer = send(Caller(gateway.client, token()))

        assert answer.status_code == status, name
        assert owners_in(readable(answer)) == set(), name


def is_known(viewer: str, number: str) -> bool:
    """Whether the viewer may find an object; books have no owner."""
    return len(number) < 6 or owner_of(int(number)) in KNOWN[viewer]


def shared_with(viewer: str, shared: str, number: str) -> str:
    """The relationship that the viewer finds at an object; at a person, the relationship with them."""
    person = owner_of(int(number))
    if person in PEOPLE and person != viewer:
        return next(one for one in SHARED if viewer in one and person in one)
    return shared if viewer in shared else MINE[viewer]


def write_in(row: Any, shared: str) -> Any:
    """Fills the values of two people into a row of the table."""
    return filled(row, shared, OF[shared], caregiver=PEOPLE[shared[0]], client=PEOPLE[shared[1]])
