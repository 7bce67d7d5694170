"""An expired token or a disabled account ends a subscription; an unavailable database does not."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import app.care.subscriptions
import app.events.notifications
import app.schema.transport.subscriptions
from app.auth.rejections import Reason
from app.care.context import Viewer
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.sql import Steps
from app.main import create_app
from app.schema.types.scalars import global_id
from app.settings import Settings
from app.telemetry import counters
from tests import keys
from tests.callers import Gateway, opened
from tests.concurrency import before_database_calls, nothing
from tests.db import raw
from tests.factories import DAY, NOW, a_world
from tests.schema.listening import (
    PATIENCE,
    connected,
    insert_event,
    listening,
    streaming,
    wait_for,
    wait_for_subscription,
)

CHANGES = "subscription ($after: ID) { assignmentChanged(after: $after) { id } }"
DISABLED = [
    ("next", {"data": None, "errors": [{"message": "there is no enabled account for this token"}]}),
    ("complete", None),
]


@contextmanager
def a_gateway(
    settings: Settings, clock: Callable[[], datetime] = lambda: NOW, **changed: Any
) -> Iterator[Gateway]:
    """Without a token cache, so that a disabled account takes effect at once."""
    settings = settings.model_copy(update={"token_cache": 0, **changed})
    with opened(create_app(settings, clock=clock)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_world())
        insert_event(settings.database, "ASSIGNED", number=1)
        yield gateway


def events_of(stream: Any) -> list[Any]:
    """The remaining events, with only the messages of errors."""
    events = list(stream.events)
    for _, data in events:
        for error in (data or {}).get("errors", ()):
            assert error.pop("extensions")["code"] in ("UNAUTHENTICATED", "FORBIDDEN")
    return events


@pytest.mark.sqlite_only
def test_an_expired_token_ends_its_subscriptions(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no event. The close code makes clients reconnect with another token."""
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 3600)
    with a_gateway(settings, token_leeway=0) as gateway:
        end = datetime.now(UTC) + timedelta(seconds=3)
        caller = gateway.with_token(keys.token("CLIENT", "client-1", exp=end))
        with streaming(caller, CHANGES) as stream, listening(caller) as listener:
            listener.subscribe(CHANGES, id="one")
            listener.subscribe(CHANGES, id="two")
            closed = listener.receive_close()
            events = events_of(stream)

    assert closed == (4403, "the bearer token has expired")
    assert events == [
        ("next", {"data": None, "errors": [{"message": "the bearer token has expired"}]}),
        ("complete", None),
    ]


@pytest.mark.sqlite_only
def test_a_token_within_the_leeway_still_receives_events(settings: Settings) -> None:
    with a_gateway(settings, token_leeway=300) as gateway:
        end = datetime.now(UTC) - timedelta(seconds=3)
        caller = gateway.with_token(keys.token("CLIENT", "client-1", exp=end))
        with streaming(caller, CHANGES, after="1") as stream:
            insert_event(settings.database, "EXTENDED", number=2)
            received = stream.receive()

    assert received == ("next", {"data": {"assignmentChanged": {"id": global_id("Event", 2)}}})


@pytest.mark.sqlite_only
def test_a_subscription_that_was_too_slow_ends_with_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention has removed an event that it has not received."""
    monkeypatch.setattr(app.care.subscriptions, "OLD", timedelta(days=-1))  # as if a day ago
    with a_gateway(settings) as gateway, listening(gateway.as_client(1)) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(gateway)
        removal = f"INSERT INTO event_removal (last_event_id, moment) VALUES (4, '{NOW.isoformat()}')"
        raw.run(settings.database, removal)
        insert_event(settings.database, "EXTENDED", number=5)
        received = listener.receive()

    assert (received["type"], received["payload"][0]["extensions"]["code"]) == ("error", "EXPIRED")


@pytest.mark.sqlite_only
def test_an_idle_subscription_does_not_end_when_events_of_others_are_removed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It last looked for events within the day before, and began earlier."""
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 0.01)
    looks: list[datetime] = []

    def clock() -> datetime:
        """Half a day later at each look."""
        looks.append(NOW + len(looks) * DAY / 2)
        return looks[-1]

    with a_gateway(settings, clock) as gateway, listening(gateway.as_client(1)) as listener:
        listener.subscribe(CHANGES)
        wait_for_subscription(gateway)
        begun = len(looks)
        wait_for(lambda: len(looks) > begun + 4)
        removal = f"INSERT INTO event_removal (last_event_id, moment) VALUES (4, '{NOW.isoformat()}')"
        raw.run(settings.database, removal)
        insert_event(settings.database, "EXTENDED", number=5)
        received = listener.receive_change()

    assert received == {"id": global_id("Event", 5)}


def test_a_disabled_account_receives_no_more_events(settings: Settings) -> None:
    with a_gateway(settings) as gateway:
        client = gateway.as_client(1)
        with streaming(client, CHANGES, after="1") as stream, listening(client) as listener:
            listener.subscribe(CHANGES, after="1")
            insert_event(settings.database, "EXTENDED", number=2)
            received = (listener.receive_change()["id"], stream.receive()[0])
            raw.run(settings.database, "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id")
            insert_event(settings.database, "EXTENDED", number=3)
            closed = listener.receive_close()
            events = events_of(stream)

    assert received == (global_id("Event", 2), "next")
    assert closed == (4403, "there is no enabled account for this token")
    assert events == DISABLED


@pytest.mark.sqlite_only
def test_a_disabled_account_ends_an_idle_subscription(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 0.01)

    with a_gateway(settings) as gateway, streaming(gateway.as_client(1), CHANGES) as stream:
        wait_for_subscription(gateway)
        raw.run(settings.database, "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id")
        events = events_of(stream)

    assert events == DISABLED


@pytest.mark.sqlite_only
def test_a_disabled_account_executes_nothing_at_an_open_websocket(settings: Settings) -> None:
    with a_gateway(settings) as gateway, listening(gateway.as_client(1)) as listener:
        before = listener.query("{ viewer { role } }")
        raw.run(settings.database, "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id")
        listener.subscribe("{ viewer { role } }")

        assert before == {"viewer": {"role": "CLIENT"}}
        assert listener.receive_close() == (4403, "there is no enabled account for this token")


@pytest.mark.sqlite_only
def test_an_operation_that_ends_after_another_closed_the_websocket_is_no_fault(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The account is disabled between the two."""
    is_reading, may_read = threading.Event(), asyncio.Event()

    async def wait() -> None:
        is_reading.set()
        await may_read.wait()

    with a_gateway(settings) as gateway:
        client, admission = gateway.client, gateway.client.app_state["admission"]
        reads = [nothing, nothing, wait]  # of the account, twice, and of the sessions
        with before_database_calls(gateway, reads), listening(gateway.as_client(1)) as listener:
            listener.subscribe("{ sessions { totalCount } }", "late")
            assert is_reading.wait(PATIENCE)
            raw.run(settings.database, "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id")
            listener.subscribe("{ viewer { role } }", "closing")
            closed = listener.receive_close()
            assert client.portal is not None
            client.portal.call(may_read.set)
            wait_for(lambda: not admission.running)

    assert closed == (4403, "there is no enabled account for this token")
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.sqlite_only
def test_the_refusal_that_ends_a_subscription_is_counted_and_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while the account is cached: then the statement that reads events finds it disabled."""
    before = counters.rejected_tokens.copy()
    with a_gateway(settings, token_cache=100) as gateway, listening(gateway.as_client(1)) as listener:
        listener.subscribe(CHANGES, after="1")
        wait_for_subscription(gateway)
        raw.run(settings.database, "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id")
        with caplog.at_level(logging.INFO, "care.auth"):
            insert_event(settings.database, "EXTENDED", number=2)
            closed = listener.receive_close()

    assert closed == (4403, "there is no enabled account for this token")
    assert counters.rejected_tokens - before == {Reason.DISABLED_ACCOUNT: 1}
    assert [line.partition(": ")[2] for line in caplog.messages] == ["token refused: disabled account"]


@pytest.mark.sqlite_only
def test_the_refusal_of_a_user_name_of_another_person_is_counted(settings: Settings) -> None:
    before = counters.rejected_tokens.copy()
    with a_gateway(settings) as gateway, listening(gateway.as_client(1)) as listener:
        link_to_another_person(settings)
        listener.subscribe("{ viewer { role } }")
        closed = listener.receive_close()

    assert closed == (4403, "there is no enabled account for this token")
    assert counters.rejected_tokens - before == {Reason.UNKNOWN_ACCOUNT: 1}


def link_to_another_person(settings: Settings) -> None:
    """The user name of an erased client 1 goes to client 2."""
    raw.run(settings.database, "UPDATE client SET user_name = NULL WHERE id = 1 RETURNING id")
    raw.run(settings.database, "UPDATE client SET user_name = 'client-1' WHERE id = 2 RETURNING id")


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("token_cache", "next_client"), [(0, 2), (100, 1)])
def test_a_subscription_ends_when_its_user_name_is_linked_to_another_person(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, token_cache: int, next_client: int
) -> None:
    """Also while the account is cached: then the statement that reads events finds the other
    one, before it reads an event of the erased person."""
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 0.1)
    with a_gateway(settings, token_cache=token_cache) as gateway:
        client = gateway.as_client(1)
        with streaming(client, CHANGES, after="1") as stream, listening(client) as listener:
            listener.subscribe(CHANGES, after="1")
            insert_event(settings.database, "EXTENDED", number=2)
            received = (listener.receive_change()["id"], stream.receive()[0])
            link_to_another_person(settings)
            insert_event(settings.database, "EXTENDED", number=3, client=next_client)
            closed = listener.receive_close()
            events = events_of(stream)

    assert received == (global_id("Event", 2), "next")
    assert closed == (4403, "there is no enabled account for this token")
    assert events == DISABLED


def test_an_open_websocket_executes_nothing_for_another_person(settings: Settings) -> None:
    with a_gateway(settings) as gateway, listening(gateway.as_client(1)) as listener:
        before = listener.query("{ viewer { role } }")
        link_to_another_person(settings)
        listener.subscribe("{ viewer { role } }")

        assert before == {"viewer": {"role": "CLIENT"}}
        assert listener.receive_close() == (4403, "there is no enabled account for this token")


@dataclass
class UnavailableDatabase:
    """A database that can be made unavailable."""

    db: Database
    is_unavailable: bool = False
    rejected: list[str] = field(default_factory=list)

    async def read(self, steps: Steps[Any]) -> Any:
        if self.is_unavailable:
            steps.close()
            self.rejected.append("read")
            raise DatabaseUnavailable
        return await self.db.read(steps)


def test_an_unavailable_database_closes_a_new_websocket_with_1013(settings: Settings) -> None:
    """Clients reconnect after this code."""
    with a_gateway(settings) as gateway:
        authenticator = gateway.client.app_state["authenticator"]
        gateway.client.app_state["authenticator"] = replace(
            authenticator, db=UnavailableDatabase(authenticator.db, is_unavailable=True)
        )
        with connected(gateway.as_caregiver(1)) as listener:
            listener.send(type="connection_init")

            assert listener.receive_close() == (
                1013,
                "the database cannot take this now; nothing was changed",
            )


def test_subscriptions_survive_an_unavailable_database(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 0.01)

    with a_gateway(settings) as gateway:
        authenticator = gateway.client.app_state["authenticator"]
        db = UnavailableDatabase(authenticator.db)
        gateway.client.app_state["authenticator"] = replace(authenticator, db=db)
        with listening(gateway.as_caregiver(1)) as listener:
            listener.subscribe(CHANGES)
            wait_for_subscription(gateway)
            db.is_unavailable = True
            insert_event(settings.database, "EXTENDED", number=2)
            wait_for(lambda: bool(db.rejected))
            listener.subscribe("{ viewer { role } }", id="2")
            rejected = listener.receive()
            db.is_unavailable = False
            received = listener.receive_change()

    assert rejected == {
        "id": "2",
        "type": "error",
        "payload": [
            {
                "message": "the database cannot take this now; nothing was changed",
                "extensions": {"code": "OVERLOADED"},
            }
        ],
    }
    assert received == {"id": global_id("Event", 2)}


@pytest.mark.sqlite_only
def test_an_event_that_cannot_be_read_is_read_again_at_the_next_check(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once: that would keep the process busy until the database is available again."""
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 1000)
    changes = "subscription { assignmentChanged(after: 1) { assignment { legacyId } } }"
    failures: list[object] = []

    async def fail() -> None:
        failures.append(None)
        raise DatabaseUnavailable

    async def follow_nothing(_: object) -> None:
        await asyncio.Event().wait()

    with a_gateway(settings, token_cache=100) as gateway:
        notifier = gateway.client.app_state["notifier"]
        notifier.follow = follow_nothing
        insert_event(settings.database, "EXTENDED", number=2)
        reads = [*[nothing] * 3, fail]  # of the account, the position, the events and the assignment
        with before_database_calls(gateway, reads), listening(gateway.as_caregiver(1)) as listener:
            listener.subscribe(changes)
            wait_for(lambda: bool(failures))
            viewer = listener.query("{ viewer { role } }")
            assert gateway.client.portal is not None
            gateway.client.portal.call(notifier.notify, None)
            change = listener.receive_change()

    assert (viewer, change) == ({"viewer": {"role": "CAREGIVER"}}, {"assignment": {"legacyId": "2"}})


# --- changes during a read ---


@dataclass
class InterruptedDatabase:
    """A database that calls `interruption` after the next read whose result is awaited."""

    db: Database
    is_awaited: Callable[[Any], bool]
    interruption: Callable[[], Awaitable[None]]
    is_armed: bool = False

    async def read(self, steps: Steps[Any]) -> Any:
        result = await self.db.read(steps)
        if self.is_armed and self.is_awaited(result):
            self.is_armed = False
            await self.interruption()
        return result


def interrupt(
    gateway: Gateway, is_awaited: Callable[[Any], bool], interruption: Callable[[], Awaitable[None]]
) -> InterruptedDatabase:
    authenticator = gateway.client.app_state["authenticator"]
    db = InterruptedDatabase(authenticator.db, is_awaited, interruption)
    gateway.client.app_state["authenticator"] = replace(authenticator, db=db)
    return db


def read_now(gateway: Gateway, db: InterruptedDatabase) -> None:
    wait_for_subscription(gateway)
    db.is_armed = True
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.client.app_state["notifier"].notify, None)


@pytest.mark.sqlite_only
def test_an_event_that_arrives_during_a_read_is_sent_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.schema.transport.subscriptions, "POLL_SECONDS", 3600)

    with a_gateway(settings) as gateway:
        wakeups = gateway.client.app_state["notifier"].wakeups

        async def insert_and_wait() -> None:
            [wakeup] = (wakeup for each in wakeups.values() for wakeup in each)
            await asyncio.wait_for(wakeup.wait(), PATIENCE)  # set when the event feed starts
            wakeup.clear()
            await asyncio.to_thread(insert_event, settings.database, "EXTENDED", number=2)
            await asyncio.wait_for(wakeup.wait(), PATIENCE)

        db = interrupt(gateway, lambda result: isinstance(result, tuple) and not result[0], insert_and_wait)
        db.is_armed = True
        with listening(gateway.as_caregiver(1)) as listener:
            listener.subscribe(CHANGES)
            received = listener.receive_change()

    assert received == {"id": global_id("Event", 2)}


@pytest.mark.sqlite_only
def test_an_account_disabled_just_before_a_read_receives_none_of_its_events(settings: Settings) -> None:
    def is_account(result: object) -> bool:
        return isinstance(result, tuple) and isinstance(result[0], Viewer)

    async def disable_and_insert_event() -> None:
        disable = "UPDATE client SET is_disabled = TRUE WHERE id = 1 RETURNING id"
        await asyncio.to_thread(raw.run, settings.database, disable)
        await asyncio.to_thread(insert_event, settings.database, "EXTENDED", number=2)

    with a_gateway(settings) as gateway:
        db = interrupt(gateway, is_account, disable_and_insert_event)
        with listening(gateway.as_client(1)) as listener:
            listener.subscribe(CHANGES)
            read_now(gateway, db)
            closed = listener.receive_close()

    assert closed == (4403, "there is no enabled account for this token")


@pytest.mark.sqlite_only
def test_events_that_were_read_before_a_new_link_of_the_user_name_are_not_sent_after_it(
    settings: Settings,
) -> None:
    async def link() -> None:
        await asyncio.to_thread(link_to_another_person, settings)

    def has_events(result: object) -> bool:
        return isinstance(result, tuple) and isinstance(result[0], list) and len(result[0]) > 1

    with a_gateway(settings) as gateway:
        for number in (2, 3):
            insert_event(settings.database, "EXTENDED", number=number)
        interrupt(gateway, has_events, link).is_armed = True
        with listening(gateway.as_client(1)) as listener:
            listener.subscribe(CHANGES, after="1")
            received = listener.receive_change()
            closed = listener.receive_close()

    assert received == {"id": global_id("Event", 2)}
    assert closed == (4403, "there is no enabled account for this token")


# --- the number of subscriptions ---


TOO_MANY = {
    "message": "there are 2 subscriptions already, and no more are allowed",
    "extensions": {"code": "RATE_LIMITED"},
}


@pytest.mark.sqlite_only
def test_a_viewer_has_a_limited_number_of_subscriptions(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.events.notifications, "MAX_LISTENERS", 2)
    gateway.import_records(a_world())
    caregiver = gateway.as_caregiver(1)
    wakeups = gateway.client.app_state["notifier"].wakeups

    with listening(caregiver) as listener:
        listener.subscribe(CHANGES, "a")
        listener.subscribe(CHANGES, "b")
        wait_for(lambda: [len(each) for each in wakeups.values()] == [2])
        listener.subscribe(CHANGES, "c")
        assert listener.receive() == {"id": "c", "type": "error", "payload": [TOO_MANY]}
        with streaming(caregiver, CHANGES) as stream:
            kind, events = stream.receive()
            assert events["errors"][0]["extensions"].pop("requestId")
            assert [(kind, events), *stream.events] == [
                ("next", {"data": None, "errors": [TOO_MANY]}),
                ("complete", None),
            ]
        listener.send(type="complete", id="a")
        wait_for(lambda: [len(each) for each in wakeups.values()] == [1])
        with streaming(caregiver, CHANGES):
            wait_for(lambda: [len(each) for each in wakeups.values()] == [2])
