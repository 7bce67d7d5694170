"""The checker finds an order where there is one, and none where a response contradicts all of them."""

from math import inf
from typing import Any

import pytest

from app.schema.types.scalars import global_id
from tests.history.checker import ANYTHING, Act, Call, check, cut, printed, shrink
from tests.history.life import DONE, FAR, Change, moment, new_life
from tests.history.looks import Look
from tests.history.subscribers import Subscriber, wrong

SESSION = "1"


def change(begin: float, end: float, verb: str, *arguments: Any, key: str = "", told: Any = DONE) -> Call:
    """One without an end got no response."""
    made = Change(verb, SESSION, key or None, arguments)
    return Call(f"{verb}{arguments}", begin, end, (Act(made, ANYTHING if end == inf else told),))


def pending(begin: float, end: float, told: int) -> Call:
    """A read of the number of pending assignments."""
    look = Look(SESSION, False)
    return Call("look", begin, end, (Act(lambda life: look(life)["pendingAssignmentCount"], told),))


def events(begin: float, *told: str) -> Call:
    act = Act(lambda life: sorted(kind for own in life.kinds.values() for kind in own), list(told))
    return Call("events", begin, begin, (act,))


def draft(begin: float, end: float, told: Any) -> Call:
    return Call("draft", begin, end, (Act(lambda life: life.homework[1].draft, told),))


ASSIGNED = change(0, 1, "assign", 1, 30)

FITTING = {
    "one after the other": [[ASSIGNED, pending(1, 2, 1), change(2, 3, "withdraw", 1), pending(3, 4, 0)]],
    "a read beside a change, before it": [[ASSIGNED, change(2, 5, "withdraw", 1)], [pending(3, 4, 1)]],
    "a read beside a change, after it": [[ASSIGNED, change(2, 5, "withdraw", 1)], [pending(3, 4, 0)]],
    "two saves at once, one of them stale": [
        [ASSIGNED, change(2, 4, "save", 1, "a", 0)],
        [change(2, 4, "save", 1, "b", 0, told="DRAFT_CONFLICT"), draft(5, 6, (1, "a"))],
    ],
    "without a response, never": [[ASSIGNED], [change(2, inf, "withdraw", 1)], [pending(8, 9, 1)]],
    "without a response, much later": [
        [ASSIGNED, pending(5, 6, 1), pending(7, 8, 0)],
        [change(2, inf, "withdraw", 1)],
    ],
    "repeated with its key": [
        [ASSIGNED, change(6, 7, "save", 1, "a", 0, key="k"), events(9, "ASSIGNED", "DRAFT_SAVED")],
        [change(2, inf, "save", 1, "a", 0, key="k")],
    ],
}

CONTRADICTING = {
    "a read of the past": [[ASSIGNED, change(2, 3, "withdraw", 1)], [pending(4, 5, 1)]],
    "a read of the future": [[pending(0, 1, 1)], [change(2, 3, "assign", 1, 30)]],
    "a lost change": [[ASSIGNED, change(2, 3, "save", 1, "a", 0), draft(4, 5, None)]],
    "both saves accepted": [
        [ASSIGNED, change(2, 4, "save", 1, "a", 0)],
        [change(2, 4, "save", 1, "b", 0)],
    ],
    "two reads see two changes in different orders": [
        [ASSIGNED, change(2, 9, "save", 1, "a", 0)],
        [draft(3, 4, (1, "a")), draft(5, 6, None)],
    ],
    "performed twice with one key": [
        [ASSIGNED, change(2, 3, "assign", 2, 30, key="k"), change(4, 5, "assign", 2, 30, key="k")],
        [events(9, "ASSIGNED", "ASSIGNED", "ASSIGNED")],
    ],
    "rejected, and performed all the same": [
        [ASSIGNED, change(2, 3, "withdraw", 1, told="WRONG_STATE"), pending(4, 5, 0)]
    ],
    "an event without its change": [[ASSIGNED, events(2, "ASSIGNED", "EXTENDED")]],
    "an event too few": [[ASSIGNED, change(2, 3, "extend", 1, 40), events(4, "ASSIGNED")]],
    "after a response that was lost, back again": [
        [ASSIGNED, pending(5, 6, 0), pending(7, 8, 1)],
        [change(2, inf, "withdraw", 1)],
    ],
}


@pytest.mark.parametrize("lines", FITTING.values(), ids=FITTING)
def test_a_history_with_an_order_fits(lines: list[list[Call]]) -> None:
    assert check(lines, new_life(SESSION)).order is not None


@pytest.mark.parametrize("lines", CONTRADICTING.values(), ids=CONTRADICTING)
def test_a_history_without_an_order_does_not_fit(lines: list[list[Call]]) -> None:
    assert check(lines, new_life(SESSION)).order is None


def test_a_history_that_does_not_fit_is_shrunk_to_what_contradicts() -> None:
    noise = [pending(number, number + 0.5, 1) for number in range(10, 60)]
    late = [change(number, number + 1, "assign", number, number + 30) for number in range(100, 130)]
    wrong = [ASSIGNED, *noise, change(70, 71, "save", 1, "a", 0), draft(72, 73, None), *late]

    small = shrink([wrong, [change(0, 2, "extend", 1, 10, told="UNREADABLE")]], new_life(SESSION))

    assert list(printed(small)) == [
        "0.0000 to 1.0000, caller 0: assign(1, 30) ['DONE']",
        "70.0000 to 71.0000, caller 0: save(1, 'a', 0) ['DONE']",
        "72.0000 to 73.0000, caller 0: draft [None]",
    ]


def test_a_history_that_is_cut_still_fits() -> None:
    for lines in FITTING.values():
        for end in range(10):
            assert check(cut(lines, end), new_life(SESSION)).order is not None, (lines, end)


# Sessions 1 and 2 have the events 5 to 9 of one caregiver.
EVENTS = [(5, "ASSIGNED", 1, 1), (7, "ASSIGNED", 2, 2), (8, "SUBMITTED", 1, 1), (9, "SUBMITTED", 2, 2)]


@pytest.mark.parametrize(
    ("received", "resumed", "found"),
    [
        ((5, 7, 8, 9), (), []),
        ((5, 8, 7, 8, 9), (7,), []),
        ((5, 7, 9), (9,), []),  # 8 was committed after 9 had been received
        ((5, 7, 9), (), [("missing", 8, "SUBMITTED")]),
        ((5, 7, 9), (7,), [("missing", 8, "SUBMITTED")]),
        ((5, 8, 9), (8,), []),
        ((5, 7, 8), (8,), [("missing", 9, "SUBMITTED")]),
        ((5, 9, 7, 8), (), [("after a later one", 7)]),
    ],
)
def test_a_subscriber_misses_only_what_was_committed_late_before_it_resumed(
    received: tuple[int, ...], resumed: tuple[int, ...], found: list[Any]
) -> None:
    ids = [global_id("Event", number) for number in received]
    subscriber = Subscriber("CAREGIVER", 1, [], set(), ids, resumed=list(resumed))

    assert wrong(subscriber, EVENTS, commits_in_order=False) == found
    if resumed and not found and len(set(received)) < len(EVENTS):
        assert wrong(subscriber, EVENTS, commits_in_order=True) != []


def test_the_model_plans_a_skipped_reminder_again() -> None:
    life, far = new_life("1"), moment(FAR)
    for verb, *arguments in (
        ("assign", 5, FAR, (far,)),
        ("submit", 5, "2", 0),
        ("reopen", 5),
        ("remind", 5, (far,)),
    ):
        assert Change(verb, "1", None, tuple(arguments))(life) == DONE

    assert life.homework[5].reminders == [(far, "SCHEDULED"), (far, "SKIPPED")]
