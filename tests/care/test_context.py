"""Access control in the context: every function needs a viewer, and some need a role."""

import asyncio
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from app.care.answers import SubmissionFilter, list_my_submissions
from app.care.assignments import AssignmentFilter, list_my_assignments
from app.care.books import BookFilter, list_books
from app.care.budgets import Budget
from app.care.context import Context, Role, Viewer
from app.care.errors import CareError, NotAllowed, NotSignedIn, RateLimited
from app.care.homework import Homework, assign_homework
from app.care.people import get_my_caregivers, get_my_clients, get_myself, list_my_clients
from app.care.sessions import get_my_sessions, list_my_sessions
from app.db.reader.selection import AccessScope, PageRequest, Selection
from app.db.sql import Steps
from tests.factories import NOW

APP = Path(__file__).parents[2] / "app"
IDS = Selection(frozenset({"id"}))
HOMEWORK = Homework(1, (1,), NOW, NOW)
CAREGIVER, CLIENT = Viewer(Role.CAREGIVER, 7), Viewer(Role.CLIENT, 8)


class Untouched:
    """A database that fails on every use: a rejection must come before any statement."""

    async def read(self, steps: Steps[Any]) -> NoReturn:
        raise AssertionError("the database was used")

    write = read

    async def close(self) -> None: ...


def context(viewer: Viewer | None) -> Context:
    return Context(viewer, Untouched(), NOW, "request", "UTC")


@pytest.mark.parametrize(
    ("viewer", "role", "expected"),
    [
        (CAREGIVER, Role.CAREGIVER, 7),
        (CLIENT, Role.CLIENT, 8),
        (CAREGIVER, Role.CLIENT, NotAllowed("only a client may do this")),
        (CLIENT, Role.CAREGIVER, NotAllowed("only a caregiver may do this")),
        (None, Role.CAREGIVER, NotSignedIn("sign in with a valid bearer token")),
        (None, Role.CLIENT, NotSignedIn("sign in with a valid bearer token")),
    ],
)
def test_signed_in_as(viewer: Viewer | None, role: Role, expected: int | CareError) -> None:
    if isinstance(expected, int):
        assert context(viewer).signed_in_as(role) == expected
        return
    with pytest.raises(type(expected)) as refused:
        context(viewer).signed_in_as(role)
    assert (refused.value.code, refused.value.message) == (expected.code, expected.message)


def test_the_access_scope_is_the_viewers_side_of_the_relationship() -> None:
    assert context(CAREGIVER).access() == AccessScope(NOW, caregiver=7)
    assert context(CLIENT).access() == AccessScope(NOW, client=8)
    with pytest.raises(NotSignedIn):
        context(None).access()


def test_an_access_scope_for_a_role_rejects_other_viewers() -> None:
    assert context(CAREGIVER).access_as(Role.CAREGIVER) == AccessScope(NOW, caregiver=7)
    assert context(CLIENT).access_as(Role.CLIENT) == AccessScope(NOW, client=8)
    with pytest.raises(NotAllowed, match="only a client may do this"):
        context(CAREGIVER).access_as(Role.CLIENT)


def test_the_access_scope_has_the_time_zone_of_the_service() -> None:
    there = replace(context(CAREGIVER), time_zone="Europe/Berlin")

    assert there.access() == AccessScope(NOW, caregiver=7, time_zone="Europe/Berlin")
    assert replace(there, viewer=CLIENT).access() == AccessScope(NOW, client=8, time_zone="Europe/Berlin")


def test_every_read_for_a_viewer_uses_the_access_scope_of_the_context() -> None:
    """A scope made by hand has no time zone, so weeks would begin at another moment."""
    made = re.compile(r"AccessScope\([^)]*\b(caregiver|client)=")
    files = [*APP.glob("care/*.py"), *APP.glob("schema/*.py")]

    assert [path.name for path in files if made.search(path.read_text())] == ["context.py"]


@pytest.mark.parametrize(("length", "points"), [(0, 0), (1023, 0), (1024, 32), (2047, 32), (2048, 64)])
def test_each_whole_kib_that_a_change_stores_is_charged(length: int, points: int) -> None:
    budget = Budget(1000, ticks=lambda: 0.0)

    replace(context(CAREGIVER), budget=budget).charge_stored(length)

    assert budget.left == 1000 - points


@pytest.mark.parametrize(("left", "is_accepted"), [(501, True), (500, True), (499, False)])
def test_a_change_that_stores_much_needs_half_of_the_points(left: int, is_accepted: bool) -> None:
    budget = Budget(1000, ticks=lambda: 0.0)
    budget.left = left

    with nullcontext() if is_accepted else pytest.raises(RateLimited):
        replace(context(CAREGIVER), budget=budget).charge_stored(1024 * 1024)

    assert budget.left == left - 32 * 1024 * is_accepted


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx: list_my_sessions(ctx, None, PageRequest(), IDS),
        lambda ctx: get_my_sessions(ctx, [1], IDS),
        lambda ctx: list_my_assignments(ctx, AssignmentFilter(), PageRequest(), IDS),
        lambda ctx: list_books(ctx, BookFilter(), PageRequest(), IDS),
        lambda ctx: get_myself(ctx, Role.CLIENT, IDS),
        lambda ctx: get_my_caregivers(ctx, [1], IDS),
        lambda ctx: get_my_clients(ctx, [1], IDS),
        lambda ctx: list_my_clients(ctx, PageRequest(), IDS),
        lambda ctx: list_my_submissions(ctx, SubmissionFilter(), PageRequest(), IDS),
        lambda ctx: assign_homework(ctx, HOMEWORK, IDS),
    ],
)
def test_every_function_requires_a_viewer(call: Any) -> None:
    with pytest.raises(NotSignedIn):
        asyncio.run(call(context(None)))


def test_a_client_cannot_list_clients() -> None:
    with pytest.raises(NotAllowed, match="only a caregiver may do this"):
        asyncio.run(list_my_clients(context(CLIENT), PageRequest(), IDS))


def test_a_client_cannot_assign_homework() -> None:
    with pytest.raises(NotAllowed, match="only a caregiver may do this"):
        asyncio.run(assign_homework(context(CLIENT), HOMEWORK, IDS))
