"""A subscriber receives the events of own assignments once and in order, and the missed ones after a
disconnect."""

import asyncio
from datetime import timedelta
from itertools import count

import pytest

from app.care.homework import Homework, assigning
from app.db.reader.selection import AccessScope
from app.main import create_app
from app.schema.types.scalars import global_id
from app.settings import Settings
from tests.callers import Caller, Gateway, opened
from tests.db import raw
from tests.db.overlapping import uncommitted
from tests.events.conftest import dispatching
from tests.factories import DAY, NOW, a_world, starting_with
from tests.schema.listening import insert_event, listening, wait_for_subscription

pytestmark = starting_with(a_world)

CHANGES = """
subscription ($sessionId: ID, $after: ID) {
  assignmentChanged(sessionId: $sessionId, after: $after) { id what }
}
"""
EVERYTHING = """
subscription ($after: ID) {
  changed: assignmentChanged(after: $after) {
    id what moment assignmentId sessionId
    assignment { legacyId name status lateness { state } client { name } }
    session { legacyId title pendingAssignmentCount }
  }
}
"""
DUE = """
subscription ($after: ID) {
  reminderDue(after: $after) { id moment reminder { id remindDate state } assignment { legacyId name } }
}
"""
ASSIGN = """
mutation ($books: [ID!]!, $start: DateTime!, $end: DateTime!) {
  assignHomework(input: {sessionId: "1", bookIds: $books, startDate: $start, endDate: $end}) {
    userErrors { message }
  }
}
"""
HOMEWORK = {"start": "2026-11-22T09:00:00Z", "end": "2026-11-25T09:00:00Z"}


def event(number: int) -> str:
    return global_id("Event", number)


@pytest.fixture
def url(gateway: Gateway) -> str:
    """A database in which event 1 exists already."""
    insert_event(gateway.settings.database, "ASSIGNED", number=1)
    return gateway.settings.database


def test_missed_events_are_sent_before_new_ones(gateway: Gateway, url: str) -> None:
    insert_event(url, "EXTENDED", number=2, moment=NOW - DAY)
    caregiver = gateway.as_caregiver(1)

    with listening(caregiver) as listener:
        listener.subscribe(EVERYTHING, after=event(1))
        missed = listener.receive_change()
        caregiver.data(ASSIGN, books=["3"], **HOMEWORK)
        new = listener.receive_change()

    assert missed == {
        "id": event(2),
        "what": "EXTENDED",
        "moment": "2026-11-20T09:00:00Z",
        "assignmentId": global_id("Assignment", 2),
        "sessionId": global_id("Session", 1),
        "assignment": {
            "legacyId": "2",
            "name": "Evening routine",
            "status": "PENDING",
            "lateness": {"state": "ON_TIME"},
            "client": {"name": "Zoë Client 1"},
        },
        "session": {"legacyId": "1", "title": "Session 1", "pendingAssignmentCount": 1},
    }
    assert new == {
        "id": event(3),
        "what": "ASSIGNED",
        "moment": "2026-11-21T09:00:00Z",
        "assignmentId": global_id("Assignment", 6),
        "sessionId": global_id("Session", 1),
        "assignment": {
            "legacyId": "6",
            "name": "Mood check",
            "status": "PENDING",
            "lateness": {"state": "ON_TIME"},
            "client": {"name": "Zoë Client 1"},
        },
        "session": {"legacyId": "1", "title": "Session 1", "pendingAssignmentCount": 2},
    }


def test_a_subscription_without_a_position_starts_now(gateway: Gateway, url: str) -> None:
    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(gateway)
        gateway.as_caregiver(1).data(ASSIGN, books=["1", "2"], **HOMEWORK)

        assert listener.receive_change() == {"id": event(2), "what": "ASSIGNED"}
        assert listener.receive_change() == {"id": event(3), "what": "ASSIGNED"}


def test_a_subscription_may_be_limited_to_one_session(gateway: Gateway, url: str) -> None:
    insert_event(url, "EXTENDED", assignment=4, session=4, client=2, number=2)
    insert_event(url, "EXTENDED", number=3)

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES, sessionId="1", after="1")
        assert listener.receive_change() == {"id": event(3), "what": "EXTENDED"}

        listener.subscribe(CHANGES, id="2", sessionId=global_id("Session", 4), after=event(1))
        assert listener.receive_change() == {"id": event(2), "what": "EXTENDED"}


def test_a_viewer_receives_only_own_events(gateway: Gateway, url: str) -> None:
    insert_event(url, "EXTENDED", assignment=5, session=5, caregiver=2, client=2, number=2)
    insert_event(url, "EXTENDED", assignment=4, session=4, client=2, number=3)
    insert_event(url, "EXTENDED", number=4)

    received = {}
    for viewer, caller, after in (
        ("caregiver 1", gateway.as_caregiver(1), 1),
        ("client 1", gateway.as_client(1), 1),
        ("client 2", gateway.as_client(2), 2),
    ):
        with listening(caller) as listener:
            listener.subscribe(CHANGES, after=event(after))
            received[viewer] = listener.receive_change()["id"]

    assert received == {"caregiver 1": event(3), "client 1": event(4), "client 2": event(3)}


WHATS = (
    *("DRAFT_SAVED", "SUBMITTED", "EXTENDED", "REMINDERS_SET"),
    *("WITHDRAWN", "REOPENED", "FEEDBACK_GIVEN", "ASSIGNED"),
)


def test_both_receive_every_change_and_only_the_client_saved_drafts(gateway: Gateway, url: str) -> None:
    for number, what in enumerate(WHATS, 2):
        insert_event(url, what, number=number)

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(CHANGES, after=event(1))
        of_client = [listener.receive_change() for _ in WHATS]
    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES, after=event(1))
        of_caregiver = [listener.receive_change() for _ in WHATS[1:]]
        listener.subscribe(CHANGES, id="2", after=event(2))
        refused = listener.receive()

    assert of_client == [{"id": event(number), "what": what} for number, what in enumerate(WHATS, 2)]
    assert of_caregiver == of_client[1:]
    assert refused["payload"][0]["extensions"] == {"code": "NOT_FOUND"}


@pytest.mark.sqlite_only
def test_session_events_are_not_sent(gateway: Gateway, url: str) -> None:
    insert_event(url, "SESSION_UPDATED", assignment=None, number=2)
    insert_event(url, "REMINDER_DUE", number=3)
    insert_event(url, "REOPENED", number=4)

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES, after=event(1))

        assert listener.receive_change() == {"id": event(4), "what": "REOPENED"}


@pytest.mark.sqlite_only
def test_the_event_of_a_withdrawn_assignment_has_only_its_id(gateway: Gateway, url: str, kind: str) -> None:
    raw.run(url, "UPDATE assignment SET withdraw_date = '2026-11-21T09:00:00.000000Z' WHERE id = 2")
    insert_event(url, "WITHDRAWN", number=2)

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(EVERYTHING, after=event(1))
        change = listener.receive_change()

    assert (change["what"], change["assignmentId"]) == ("WITHDRAWN", global_id("Assignment", 2))
    assert (change["assignment"], change["session"]["legacyId"]) == (None, "1")


def test_a_client_receives_due_reminders(gateway: Gateway, url: str) -> None:
    insert_event(url, "REMINDER_DUE", number=2, reminder=1)
    insert_event(url, "REMINDER_DUE", number=3, reminder=77)

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(DUE, after=event(1))
        due, of_another = listener.receive_change(), listener.receive_change()

    assert due == {
        "id": event(2),
        "moment": "2026-11-21T09:00:00Z",
        "reminder": {
            "id": global_id("Reminder", 1),
            "remindDate": "2026-11-22T09:00:00Z",
            "state": "SCHEDULED",
        },
        "assignment": {"legacyId": "2", "name": "Evening routine"},
    }
    assert (of_another["id"], of_another["reminder"]) == (event(3), None)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("subscription", "what"), [("assignmentChanged", "EXTENDED"), ("reminderDue", "REMINDER_DUE")]
)
def test_an_assignment_is_read_at_the_time_of_its_event(
    settings: Settings, subscription: str, what: str
) -> None:
    """And not at the time when the client subscribed. Each look at the clock is a day later."""
    days = count(30)
    for number in (1, 2, 3):
        insert_event(settings.database, what, number=number, reminder=1)
    with (
        opened(create_app(settings, clock=lambda: NOW + next(days) * DAY)) as client,
        listening(Gateway(client, settings).as_client(1)) as listener,
    ):
        query = f"{subscription}(after: 1) {{ assignment {{ lateness {{ state seconds }} }} }}"
        listener.subscribe(f"subscription {{ {query} }}")
        first, second = (listener.receive_change()["assignment"]["lateness"] for _ in range(2))

    assert (first["state"], second["seconds"] - first["seconds"]) == ("OVERDUE", DAY.total_seconds())


@pytest.mark.sqlite_only
def test_a_reminder_of_a_time_without_a_dispatcher_has_a_later_moment(gateway: Gateway, url: str) -> None:
    asyncio.run(dispatching(gateway.settings, NOW + 2 * DAY))

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(DUE, after=event(1))
        due = listener.receive_change()

    assert due == {
        "id": event(2),
        "moment": "2026-11-23T09:00:00Z",
        "reminder": {"id": global_id("Reminder", 1), "remindDate": "2026-11-22T09:00:00Z", "state": "SENT"},
        "assignment": {"legacyId": "2", "name": "Evening routine"},
    }


@pytest.mark.sqlite_only
def test_the_reminder_of_a_withdrawn_assignment_is_null(gateway: Gateway, url: str) -> None:
    raw.run(url, "UPDATE assignment SET withdraw_date = '2026-11-21T09:00:00.000000Z' WHERE id = 2")
    insert_event(url, "REMINDER_DUE", number=2, reminder=1)

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(DUE, after=event(1))
        due = listener.receive_change()

    assert due == {"id": event(2), "moment": "2026-11-21T09:00:00Z", "reminder": None, "assignment": None}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(
    ("query", "variables", "path", "code", "message"),
    [
        (DUE, {}, "reminderDue", "FORBIDDEN", "only a client may do this"),
        (CHANGES, {"sessionId": "5"}, "assignmentChanged", "NOT_FOUND", "session not found"),
        (CHANGES, {"sessionId": "77"}, "assignmentChanged", "NOT_FOUND", "session not found"),
        (CHANGES, {"sessionId": "x"}, "assignmentChanged", "NOT_FOUND", "session not found"),
        (CHANGES, {"sessionId": ""}, "assignmentChanged", "NOT_FOUND", "session not found"),
        (CHANGES, {"after": "2"}, "assignmentChanged", "NOT_FOUND", "event not found"),
        (CHANGES, {"after": "77"}, "assignmentChanged", "NOT_FOUND", "event not found"),
        (CHANGES, {"after": ""}, "assignmentChanged", "NOT_FOUND", "event not found"),
        (CHANGES, {"after": global_id("Session", 1)}, "assignmentChanged", "NOT_FOUND", "event not found"),
    ],
)
def test_a_foreign_or_missing_id_is_rejected(
    gateway: Gateway, url: str, query: str, variables: dict[str, str], path: str, code: str, message: str
) -> None:
    insert_event(url, "ASSIGNED", assignment=5, session=5, caregiver=2, client=2, number=2)

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(query, **variables)
        refused = listener.receive()
        still = listener.query("{ viewer { role } }")

    [error] = refused.pop("payload")
    assert refused == {"id": "1", "type": "error"}
    assert (error["message"], error["path"], error["extensions"]) == (message, [path], {"code": code})
    assert still == {"viewer": {"role": "CAREGIVER"}}


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("query", [CHANGES, DUE], ids=["changes", "reminders"])
@pytest.mark.parametrize("number", [1, 2, 3], ids=["still there", "another's", "removed"])
def test_a_position_before_the_retained_events_is_rejected(
    gateway: Gateway, url: str, query: str, number: int
) -> None:
    insert_event(url, "ASSIGNED", assignment=5, session=5, caregiver=2, client=2, number=2)
    insert_event(url, "ASSIGNED", number=5)
    raw.run(url, f"INSERT INTO event_removal (last_event_id, moment) VALUES (4, '{NOW.isoformat()}')")

    with listening(gateway.as_client(1)) as listener:
        listener.subscribe(query, after=event(number))
        refused = listener.receive()
        listener.subscribe(CHANGES, id="2", after=event(5))
        insert_event(url, "EXTENDED", number=6)
        received = listener.receive_change()

    [error] = refused.pop("payload")
    assert (error["message"], error["extensions"]) == (
        "events after this one were removed; read the current state and subscribe without `after`",
        {"code": "EXPIRED"},
    )
    assert received == {"id": event(6), "what": "EXTENDED"}


LAST = "{ viewer { lastEventId } }"


def last_event_id(caller: Caller) -> str:
    return str(caller.data(LAST)["viewer"]["lastEventId"])


def test_a_page_subscribes_after_the_events_that_its_first_query_shows(gateway: Gateway) -> None:
    """Also after those of the last minute, which may have been committed later than they were read."""
    url, caregiver = gateway.settings.database, gateway.as_caregiver(1)
    insert_event(url, "ASSIGNED", number=1, moment=NOW - timedelta(minutes=1))
    insert_event(url, "EXTENDED", number=2, moment=NOW - timedelta(seconds=59))

    last = last_event_id(caregiver)
    insert_event(url, "SUBMITTED", number=3)
    with listening(caregiver) as listener:
        listener.subscribe(CHANGES, after=last)
        received = [listener.receive_change() for _ in range(2)]

    assert last == event(1)
    assert received == [{"id": event(2), "what": "EXTENDED"}, {"id": event(3), "what": "SUBMITTED"}]


@pytest.mark.parametrize("removed", [0, 4])
def test_a_page_that_has_seen_no_event_receives_the_first(gateway: Gateway, removed: int) -> None:
    url, client = gateway.settings.database, gateway.as_client(1)
    if removed:
        raw.run(url, f"INSERT INTO event_removal (last_event_id, moment) VALUES (4, '{NOW.isoformat()}')")

    last = last_event_id(client)
    insert_event(url, "ASSIGNED", number=5)
    with listening(client) as listener:
        listener.subscribe(CHANGES, after=last)
        received = listener.receive_change()

    assert last == event(removed)
    assert received == {"id": event(5), "what": "ASSIGNED"}


def test_the_last_event_is_one_that_the_viewer_may_see(gateway: Gateway) -> None:
    url, day_ago = gateway.settings.database, NOW - DAY
    insert_event(url, "ASSIGNED", number=1, moment=day_ago)
    insert_event(url, "DRAFT_SAVED", number=2, moment=day_ago)
    insert_event(url, "ASSIGNED", assignment=5, session=5, caregiver=2, client=2, number=3, moment=day_ago)

    last = [last_event_id(each) for each in (gateway.as_caregiver(1), gateway.as_client(1))]

    assert last == [event(1), event(2)]


@pytest.mark.sqlite_only
def test_the_last_event_counts_reminders_for_the_client_alone(gateway: Gateway) -> None:
    """A caregiver receives no reminders, and cannot begin after one."""
    url = gateway.settings.database
    insert_event(url, "ASSIGNED", number=1, moment=NOW - DAY)
    insert_event(url, "REMINDER_DUE", number=2, moment=NOW - DAY)

    last = [last_event_id(each) for each in (gateway.as_caregiver(1), gateway.as_client(1))]

    assert last == [event(1), event(2)]


@pytest.mark.sqlite_only
def test_the_last_event_is_not_one_before_a_removed_event(gateway: Gateway) -> None:
    """Event 1 is kept longer than events of others: a subscription after it would end as expired."""
    url = gateway.settings.database
    insert_event(url, "ASSIGNED", number=1, moment=NOW - DAY)
    raw.run(url, f"INSERT INTO event_removal (last_event_id, moment) VALUES (4, '{NOW.isoformat()}')")

    assert last_event_id(gateway.as_caregiver(1)) == event(4)


@pytest.mark.parametrize("moment", [NOW - DAY, NOW], ids=["long ago", "just now"])
def test_many_missed_events_arrive_once_and_in_order(gateway: Gateway, url: str, moment: object) -> None:
    rows = ", ".join(
        f"({number}, 1, 1, 'EXTENDED', 1, 2, '{moment:%Y-%m-%dT%H:%M:%S.%fZ}')" for number in range(2, 252)
    )
    columns = "id, caregiver_id, client_id, kind, session_id, assignment_id, moment"
    raw.run(url, f"INSERT INTO event ({columns}) VALUES {rows} RETURNING id")

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES, after=event(1))
        received = [listener.receive_change()["id"] for _ in range(250)]
        insert_event(url, "SUBMITTED", number=252)
        last = listener.receive_change()

    assert received == [event(number) for number in range(2, 252)]
    assert last == {"id": event(252), "what": "SUBMITTED"}


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
def test_an_event_committed_after_a_later_one_is_sent(gateway: Gateway, url: str) -> None:
    """The transaction with the lower id commits last."""
    portal = gateway.client.portal
    assert portal is not None
    homework = Homework(1, (3,), NOW, NOW + DAY)

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES, after=event(1))
        early = assigning(AccessScope(NOW - DAY, caregiver=1), homework)
        with portal.wrap_async_context_manager(uncommitted(url, early)):
            for number in (3, 4, 5):
                insert_event(url, "REOPENED", session=4, assignment=4, client=2, number=number)
                assert listener.receive_change() == {"id": event(number), "what": "REOPENED"}
        insert_event(url, "EXTENDED", number=6)
        late, last = listener.receive_change(), listener.receive_change()

    assert (late, last) == ({"id": event(2), "what": "ASSIGNED"}, {"id": event(6), "what": "EXTENDED"})


@pytest.mark.sqlite_only
def test_all_subscribers_receive_the_same_events(gateway: Gateway, url: str) -> None:
    with listening(gateway.as_caregiver(1)) as caregiver, listening(gateway.as_client(1)) as client:
        for listener in (caregiver, client):
            listener.subscribe(CHANGES, id="one", after=event(1))
            listener.subscribe(CHANGES, id="two", after=event(1))
        insert_event(url, "FEEDBACK_GIVEN", number=2)

        received = [[listener.receive(), listener.receive()] for listener in (caregiver, client)]

    change = {"data": {"assignmentChanged": {"id": event(2), "what": "FEEDBACK_GIVEN"}}}
    expected = [{"id": id, "type": "next", "payload": change} for id in ("one", "two")]
    assert [sorted(each, key=lambda message: message["id"]) for each in received] == [expected] * 2


def test_the_event_feed_runs_only_with_subscribers(gateway: Gateway, url: str) -> None:
    notifier = gateway.client.app_state["notifier"]
    before = (notifier.wakeups, notifier.follower)

    with listening(gateway.as_caregiver(1)) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(gateway)
        meanwhile = notifier.follower
    after = (notifier.wakeups, notifier.follower)

    assert before == after == ({}, None)
    assert meanwhile is not None
