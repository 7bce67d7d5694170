"""Who comes: four people with things of their own, and those who must be told nothing at all."""

from collections.abc import Callable
from functools import cache
from typing import Any

from httpx2 import Response

from tests import keys
from tests.access.table import filled
from tests.access.world import KNOWN, OF, PEOPLE, SHARED, legible, told_of, user, whose
from tests.callers import Caller, Gateway

PEOPLE_WITH_THINGS = tuple(KNOWN)
MINE = {"A": "AX", "B": "BX", "X": "AX", "Y": "BY"}
REQUEST_ID = {"x-request-id": "r"}


def role_of(whose: str) -> str:
    return "CAREGIVER" if whose in "ABD" else "CLIENT"


@cache  # signing one takes longer than most answers
def token_of(whose: str, role: str | None = None, **changed: Any) -> str:
    return keys.token(role or role_of(whose), user(whose), **changed)


def come(gateway: Gateway, whose: str) -> Caller:
    return gateway.with_token(token_of(whose))


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


def assert_not_told(answer: Response, viewer: str) -> str:
    """Nothing is said of anybody whom the viewer does not know. Returns what is said."""
    said = legible(answer)
    assert told_of(said) <= KNOWN[viewer], said
    return said


def assert_shut_out(gateway: Gateway, ask: Callable[[Caller], Response]) -> None:
    """Outsiders are told nothing, whatever is asked."""
    for name, (token, status) in OUTSIDERS.items():
        answer = ask(Caller(gateway.client, token()))

        assert answer.status_code == status, name
        assert told_of(legible(answer)) == set(), name


def is_known(viewer: str, number: str) -> bool:
    """Whether an object may be found; books are nobody's."""
    return len(number) < 6 or whose(int(number)) in KNOWN[viewer]


def shared_with(viewer: str, shared: str, number: str) -> str:
    """Between whom lies what the viewer finds at an object: at a person it is what the two share."""
    person = whose(int(number))
    if person in PEOPLE and person != viewer:
        return next(one for one in SHARED if viewer in one and person in one)
    return shared if viewer in shared else MINE[viewer]


def write_in(row: Any, shared: str) -> Any:
    """A row of the table with what it says of these two."""
    return filled(row, shared, OF[shared], caregiver=PEOPLE[shared[0]], client=PEOPLE[shared[1]])
