"""Calls of the legacy paths are counted by path, application, role and day, without personal data. The counts
of several processes add up, and a killed process loses some seconds at most."""

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from typing import Any, cast

import pytest

from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable, sqlite_path
from app.db.statements.usage import Counted, adding_usage
from app.main import create_app
from app.server.background import in_background
from app.server.rejections import count_rejection
from app.settings import Settings
from app.usage.counts import MAX_APPLICATIONS, Usage, name_of, write_usage
from tests import keys
from tests.callers import Gateway, opened, run_write
from tests.db import raw
from tests.factories import DAY, HOUR, NOW, a_world, starting_with
from tests.fault_injection import Failing
from tests.patience import PATIENCE
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS
from tests.test_main import take_away

TODAY = "2026-11-21"
LIST, ONE, PUT, MINE = (
    f"GET {ASSIGNMENTS}",
    f"GET {ASSIGNMENTS}/{{id}}",
    f"PUT {ASSIGNMENTS}",
    f"GET {SESSIONS}",
)
LISTED = f"{ASSIGNMENTS}?time-state=RUNNING"
Rows = list[tuple[Any, ...]]


@contextmanager
def service(settings: Settings, now: datetime = NOW, **changed: Any) -> Iterator[Gateway]:
    """Runs the service from start to end."""
    own = settings.model_copy(update=changed)
    with opened(create_app(own, clock=lambda: now)) as client:
        yield Gateway(client, own)


def counted(settings: Settings) -> Rows:
    return sorted(
        raw.run(settings.database, "SELECT day, path, role, application, requests FROM legacy_usage")
    )


def minutes(settings: Settings) -> list[tuple[str, list[int]]]:
    """The minutes of each hour in which calls were counted."""
    rows = raw.run(settings.database, "SELECT hour, minutes FROM legacy_hour ORDER BY hour")
    return [(hour, [minute for minute in range(64) if bits >> minute & 1]) for hour, bits in rows]


@starting_with(a_world)
def test_each_path_is_counted_by_role_and_application(settings: Settings) -> None:
    with service(settings) as gateway:
        caregiver, client = gateway.as_caregiver(1), gateway.as_client(1)
        caregiver.get(LISTED)
        caregiver.request("HEAD", LISTED)
        caregiver.get(f"{ASSIGNMENTS}/1")
        caregiver.get(f"{ASSIGNMENTS}/none")
        caregiver.put(ASSIGNMENTS, json={})
        client.get(f"{SESSIONS}?time-state=RUNNING")
        client.get(LISTED)

    assert counted(settings) == [
        (TODAY, LIST, "CAREGIVER", "tests", 2),
        (TODAY, LIST, "CLIENT", "tests", 1),
        (TODAY, ONE, "CAREGIVER", "tests", 2),
        (TODAY, MINE, "CLIENT", "tests", 1),
        (TODAY, PUT, "CAREGIVER", "tests", 1),
    ]


@pytest.mark.sqlite_only
def test_other_requests_are_not_counted(settings: Settings) -> None:
    with service(settings) as gateway:
        gateway.as_caregiver(1).get("/gateway/nowhere")
        gateway.as_caregiver(1).request("DELETE", ASSIGNMENTS)
        gateway.as_caregiver(1).graphql("{ viewer { role } }")
        gateway.as_anonymous().get("/readyz")

    assert counted(settings) == []


@pytest.mark.sqlite_only
def test_unauthenticated_calls_are_counted_without_their_texts(settings: Settings) -> None:
    theirs = {"user-agent": "their-words/1"}
    with service(settings) as gateway:
        gateway.as_anonymous().get(LISTED, headers=theirs)
        gateway.with_token("no.token.atall").get(LISTED, headers=theirs)
        gateway.with_token(keys.token("CAREGIVER", "unheard-of", client_id="theirs")).get(LISTED)

    assert counted(settings) == [(TODAY, LIST, "", "unknown", 3)]


APPLICATIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "client_id": ({"client_id": "mobile-app", "azp": "other-app"}, "okhttp/4.9", "mobile-app"),
    "azp": ({"client_id": None, "azp": "web-app"}, "okhttp/4.9", "web-app"),
    "user agent": ({"client_id": None}, "okhttp/4.9.3 (Linux)", "okhttp"),
    "two words": ({"client_id": None}, "python-requests/2.31 okhttp/4.9", "python-requests"),
    "no version": ({"client_id": None}, "importer", "unknown"),
    "a person and a device": ({"client_id": None}, "Jonas.Berg-iPhone/17.1 CFNetwork/1410", "unknown"),
    "a device": ({"client_id": None}, "jonas-ipad/2", "unknown"),
    "a device as client_id": ({"client_id": "Jonas.Berg-iPhone"}, "okhttp/4.9", "okhttp"),
    "the recorder": ({"client_id": "mobile-app"}, "care-gateway-record/1", "record"),
    "no agent": ({"client_id": None}, "", "unknown"),
    "an unreadable agent": ({"client_id": None}, "(compatible)", "unknown"),
    "a long agent": ({"client_id": None}, "a" * 65, "unknown"),
    "somebody's address": ({"client_id": "jonas.berg@example.test"}, "okhttp/4.9", "okhttp"),
    "the longest name": ({"client_id": "a" * 64}, "okhttp/4.9", "a" * 64),
    "a long name": ({"client_id": "a" * 65}, "okhttp/4.9", "okhttp"),
    "no text": ({"client_id": ["a"]}, "okhttp/4.9", "okhttp"),
    "no name": ({"client_id": ""}, "okhttp/4.9", "okhttp"),
}


@starting_with(a_world)
@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("token_cache", [4096, 0])
def test_the_token_or_else_the_user_agent_names_the_application(settings: Settings, token_cache: int) -> None:
    with service(settings, token_cache=token_cache) as gateway:
        for number, (claims, agent, _) in enumerate(APPLICATIONS.values()):
            token = keys.token("CAREGIVER", "caregiver-1", jti=str(number), **claims)
            for _ in range(2):  # verified, and remembered
                gateway.with_token(token).get(LISTED, headers={"user-agent": agent})

    expected: dict[str, int] = {}
    for _, _, name in APPLICATIONS.values():
        expected[name] = expected.get(name, 0) + 2
    assert {row[3]: row[4] for row in counted(settings)} == expected


DEVICES = (
    "iPhone",
    "ipad",
    "ipod",
    "MacBook",
    "macmini",
    "mac-mini",
    "MacPro",
    "mac-pro",
    "Galaxy",
    "Pixel",
    "desktop",
    "laptop",
)


def test_names_of_devices_are_not_names_of_applications() -> None:
    assert {name: name_of(f"jonas-{name}/1") for name in DEVICES} == dict.fromkeys(DEVICES, "unknown")
    agents = ("macaroni/1", f"{'a' * 64}/1", f"{'a' * 65}/1", "a1-b_c/9", "1a/9", "a/b", "", None)
    assert [name_of(agent) for agent in agents] == [
        "macaroni",
        "a" * 64,
        "unknown",
        "a1-b_c",
        *["unknown"] * 4,
    ]


def test_calls_between_two_writes_are_one_count_of_the_day_of_the_last() -> None:
    usage = Usage(cast(Database, None), lambda: NOW)
    usage.add(LIST, "CLIENT", "one", NOW)
    usage.add(LIST, "CLIENT", "one", NOW + DAY, requests=2)

    assert usage.take() == [Counted("2026-11-22", LIST, "CLIENT", "one", 3, NOW + DAY)]
    assert usage.take() == []


def test_applications_over_the_limit_are_counted_as_other() -> None:
    usage = Usage(cast(Database, None), lambda: NOW)
    for number in range(MAX_APPLICATIONS + 20):
        for _ in range(3):
            usage.add(LIST, "CAREGIVER", f"application-{number}", NOW)

    found = {one.application: one.requests for one in usage.take()}

    assert len(found) == MAX_APPLICATIONS + 1
    assert found["other"] == 60
    assert set(found.values()) == {3, 60}


def test_the_limit_of_applications_counts_for_each_day(settings: Settings) -> None:
    async def write_on_two_days() -> None:
        db = await open_database(settings.database)
        now = NOW
        usage = Usage(db, lambda: now)
        for turn, now in enumerate((NOW, NOW, NOW + DAY)):
            for number in range(MAX_APPLICATIONS):
                usage.add(LIST, "CLIENT", f"application-{number}", now)
            await usage.write()
            usage.add(LIST, "CLIENT", f"another-{turn}", now)
            found.extend(each.application for each in usage.take())
        await db.close()

    found: list[str] = []
    asyncio.run(write_on_two_days())
    assert found == ["another-0", "other", "another-2"]


@starting_with(a_world)
def test_the_counts_of_processes_add_up(settings: Settings) -> None:
    with service(settings) as first, service(settings, now=NOW + HOUR) as second:
        for gateway in (first, second, second):
            gateway.as_caregiver(1).get(LISTED)
    with service(settings, now=NOW + DAY) as third:
        third.as_caregiver(1).get(LISTED)

    assert counted(settings) == [
        (TODAY, LIST, "CAREGIVER", "tests", 3),
        ("2026-11-22", LIST, "CAREGIVER", "tests", 1),
    ]
    last = raw.run(settings.database, "SELECT last_date FROM legacy_usage WHERE requests = 3")[0][0]
    assert datetime.fromisoformat(str(last)) == NOW + HOUR


@starting_with(a_world)
def test_days_are_those_of_utc(settings: Settings) -> None:
    """In the time zone of this process the next day has begun."""
    with service(settings, now=NOW.replace(hour=23, minute=30)) as gateway:
        gateway.as_caregiver(1).get(LISTED)

    assert counted(settings) == [(TODAY, LIST, "CAREGIVER", "tests", 1)]


def test_concurrent_writers_lose_no_calls(settings: Settings) -> None:
    async def write_at_once() -> None:
        db = await open_database(settings.database)
        processes = [Usage(db, lambda: NOW) for _ in range(8)]
        for _ in range(5):
            for usage in processes:
                for name in ("one", "two", "three"):
                    usage.add(LIST, "CAREGIVER", name, NOW)
            await asyncio.gather(*(usage.write() for usage in processes))
        await db.close()

    asyncio.run(write_at_once())

    assert [row[3:] for row in counted(settings)] == [("one", 40), ("three", 40), ("two", 40)]


def test_processes_add_their_counts_in_one_order() -> None:
    """Otherwise two of them could wait for each other's rows."""
    calls = [Counted(TODAY, LIST, "CAREGIVER", name, 1, NOW) for name in ("two", "one", "three")]

    steps: list[list[Any]] = [[*adding_usage(each)] for each in (calls, calls[::-1])]
    added = [[values["application"] for _, values in each] for each in steps]

    assert added == [["one", "three", "two"]] * 2


@pytest.mark.sqlite_only
def test_counts_are_written_periodically(settings: Settings) -> None:
    """A killed process loses only the calls since the last write."""

    async def serve_for_a_moment() -> Rows:
        db = await open_database(settings.database)
        usage = Usage(db, lambda: NOW)
        async with in_background(partial(write_usage, usage, pause=0.001)):
            usage.add(LIST, "CLIENT", "one", NOW)
            async with asyncio.timeout(10):
                while not (rows := await asyncio.to_thread(counted, settings)):
                    pass
        await db.close()
        return rows

    assert asyncio.run(serve_for_a_moment()) == [(TODAY, LIST, "CLIENT", "one", 1)]
    assert [row[4] for row in counted(settings)] == [1]


def test_counts_that_cannot_be_written_are_written_later(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async def write_often() -> None:
        db = await open_database(settings.database)
        usage = Usage(db, lambda: NOW)
        await asyncio.to_thread(raw.run, settings.database, "ALTER TABLE legacy_usage RENAME TO away")
        for _ in range(3):
            usage.add(LIST, "CLIENT", "one", NOW)
            await usage.write()
        await asyncio.to_thread(raw.run, settings.database, "ALTER TABLE away RENAME TO legacy_usage")
        await usage.write()
        written.append(await asyncio.to_thread(counted, settings))
        logged.append(len(caplog.records))
        await asyncio.to_thread(raw.run, settings.database, "DROP TABLE legacy_usage")
        usage.add(LIST, "CLIENT", "one", NOW)
        await usage.write()
        await db.close()

    written: list[Rows] = []
    logged: list[int] = []
    asyncio.run(write_often())

    assert [[row[3:] for row in rows] for rows in written] == [[("one", 3)]]
    assert (logged, len(caplog.records)) == ([1], 2)  # once for each outage
    message = "calls of the legacy paths cannot be written"
    assert all(record.message.startswith(message) for record in caplog.records)


def test_a_call_during_a_write_that_fails_is_counted_with_the_earlier_ones() -> None:
    usage = Usage(cast(Database, None), lambda: NOW)
    usage.add(LIST, "CLIENT", "one", NOW - HOUR)
    usage.add(ONE, "CAREGIVER", "two", NOW - 2 * HOUR, requests=3)
    counts = usage.take()

    usage.take_back(counts)
    assert usage.take() == counts

    usage.add(LIST, "CLIENT", "one", NOW + HOUR)
    usage.take_back(counts)
    assert usage.take() == [counts[0]._replace(requests=2, last_date=NOW + HOUR), counts[1]]


def test_a_process_stops_although_its_database_is_gone(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "care.legacy")
    with service(settings) as gateway:
        take_away(settings.database)
        gateway.as_anonymous().get(LISTED)

    assert any("calls of the legacy paths cannot be written" in record.message for record in caplog.records)


@pytest.mark.sqlite_only
def test_the_last_write_of_a_process_includes_what_the_one_before_could_not_write(settings: Settings) -> None:
    async def serve_for_a_moment() -> None:
        db = await open_database(settings.database)
        usage = Usage(Failing(db, [DatabaseUnavailable()]), lambda: NOW)
        usage.add(LIST, "CLIENT", "one", NOW)
        async with in_background(partial(write_usage, usage)), asyncio.timeout(PATIENCE):
            while not usage.is_failing:
                await asyncio.sleep(0)
        await db.close()

    asyncio.run(serve_for_a_moment())

    assert counted(settings) == [(TODAY, LIST, "CLIENT", "one", 1)]


class HangingDatabase:
    async def write(self, steps: object) -> None:
        await asyncio.Event().wait()


def test_a_process_stops_although_its_database_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a write that was cancelled are still there for another."""
    monkeypatch.setattr("app.usage.counts.END_SECONDS", 0.01)
    usage = Usage(cast(Database, HangingDatabase()), lambda: NOW)
    usage.add(LIST, "CLIENT", "one", NOW)

    async def stop_at_once() -> None:
        stop = asyncio.Event()
        stop.set()
        async with asyncio.timeout(PATIENCE):
            await write_usage(usage, stop)

    asyncio.run(stop_at_once())

    assert [each.requests for each in usage.take()] == [1]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_locked_database_is_logged_in_one_line(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.drivers.sqlite.BUSY_SECONDS", 0)

    async def write() -> None:
        db = await open_database(settings.database)
        usage = Usage(db, lambda: NOW)
        usage.add(LIST, "CLIENT", "one", NOW)
        with closing(sqlite3.connect(sqlite_path(settings.database), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await usage.write()
        await db.close()

    asyncio.run(write())

    message = "calls of the legacy paths cannot be written now: database is locked"
    assert [(each.levelname, each.message, each.exc_info) for each in caplog.records] == [
        ("WARNING", message, None)
    ]


def test_counts_older_than_400_days_are_removed(settings: Settings) -> None:
    for now in (NOW - 401 * DAY, NOW - 400 * DAY, NOW):
        with service(settings, now=now) as gateway:
            gateway.as_anonymous().get(LISTED)
        if now < NOW - 400 * DAY:
            hours = "('2025-10-16T23', 1), ('2025-10-17T00', 1)"
            raw.run(settings.database, f"INSERT INTO legacy_hour (hour, minutes) VALUES {hours}")

    assert [row[0] for row in counted(settings)] == ["2025-10-17", TODAY]
    assert minutes(settings) == [("2025-10-17T00", [0])]


def test_old_counts_are_removed_also_without_new_ones(settings: Settings) -> None:
    old = Counted("2025-10-16", LIST, "CLIENT", "one", 1, NOW - 401 * DAY)
    run_write(settings.database, adding_usage([old]))

    written_at(settings, "09:00:00", "09:01:00")

    assert counted(settings) == []


# --- which minutes were counted ---


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-21T{text}+00:00")


def written_at(
    settings: Settings, began: str, *moments: str, with_calls: bool = False
) -> list[tuple[str, list[int]]]:
    """The minutes after writes at these moments by a process that began then."""
    clock = iter(map(moment, (began, *moments)))

    async def write() -> None:
        db = await open_database(settings.database)
        usage = Usage(db, lambda: next(clock))
        for each in moments:
            if with_calls:
                usage.add(LIST, "CLIENT", "one", moment(each))
            await usage.write()
        await db.close()

    asyncio.run(write())
    return minutes(settings)


def test_a_minute_counts_when_it_was_counted_from_beginning_to_end(settings: Settings) -> None:
    assert written_at(settings, "09:57:30", "09:57:59") == []
    assert written_at(settings, "09:57:30", "09:58:20", "09:59:02", "10:00:01", "10:01:00") == [
        ("2026-11-21T09", [58, 59]),
        ("2026-11-21T10", [0]),
    ]


def test_a_minute_that_a_process_did_not_begin_is_not_complete_after_a_write_of_its_calls(
    settings: Settings,
) -> None:
    moments = ("09:57:44", "09:58:01", "09:59:00")

    assert written_at(settings, "09:57:40", *moments, with_calls=True) == [("2026-11-21T09", [58])]


def test_the_minutes_of_processes_add_up_and_a_killed_one_leaves_a_gap(settings: Settings) -> None:
    written_at(settings, "09:00:00", "09:00:50", "09:01:40", "09:01:59")  # killed at the end of 09:01
    written_at(settings, "09:02:10", "09:03:00", "09:04:00")
    assert minutes(settings) == [("2026-11-21T09", [0, 3])]

    written_at(settings, "09:00:40", "09:01:20", "09:02:00")
    written_at(settings, "09:00:00", "09:01:00")  # beside the first one

    assert minutes(settings) == [("2026-11-21T09", [0, 1, 3])]


def test_two_writes_at_one_moment_lose_no_minute(settings: Settings) -> None:
    assert written_at(settings, "09:00:00", "09:00:30", "09:00:30", "09:01:00") == [("2026-11-21T09", [0])]


def test_a_process_that_was_suspended_did_not_count_meanwhile(settings: Settings) -> None:
    assert written_at(settings, "09:00:00", "09:01:00", "09:10:20", "09:11:20", "09:12:00") == [
        ("2026-11-21T09", [0, 11])
    ]
    assert written_at(settings, "10:00:00", "10:01:00", "10:02:01", "10:03:00", "10:04:00")[1:] == [
        ("2026-11-21T10", [0, 3])
    ]


def test_a_process_counts_although_the_clock_was_ahead_at_its_start(settings: Settings) -> None:
    assert written_at(settings, "23:00:00", "09:00:20", "09:01:00", "09:02:00") == [("2026-11-21T09", [1])]


def test_minutes_that_cannot_be_written_are_written_later(settings: Settings) -> None:
    async def write() -> None:
        clock = iter(map(moment, ("09:58:00", "09:59:00", "10:00:00", "10:01:00", "10:02:00")))
        db = await open_database(settings.database)
        usage = Usage(db, lambda: next(clock))
        await asyncio.to_thread(raw.run, settings.database, "ALTER TABLE legacy_hour RENAME TO away")
        for _ in range(3):
            await usage.write()
        await asyncio.to_thread(raw.run, settings.database, "ALTER TABLE away RENAME TO legacy_hour")
        await usage.write()
        await db.close()

    asyncio.run(write())

    assert minutes(settings) == [("2026-11-21T09", [58, 59]), ("2026-11-21T10", [0, 1])]


# --- calls that are turned away ---


@starting_with(a_world)
@pytest.mark.sqlite_only
def test_calls_that_are_turned_away_are_counted_as_calls_of_unknown_people(settings: Settings) -> None:
    with service(settings) as gateway:
        caregiver = gateway.as_caregiver(1)
        raw.run(settings.database, "ALTER TABLE caregiver RENAME TO away")
        assert caregiver.get(LISTED).status_code == 500
        raw.run(settings.database, "ALTER TABLE away RENAME TO caregiver")
        for _ in range(3):
            count_rejection("requests at once", b"PUT", ASSIGNMENTS.encode())
        count_rejection("requests at once", b"GET", f"{ASSIGNMENTS}/7?x=1".encode())
        for method, target in ((b"POST", ASSIGNMENTS.encode()), (b"GET", b"/graphql"), (b"", b"")):
            count_rejection("requests at once", method, target)

    assert counted(settings) == [
        (TODAY, LIST, "UNKNOWN", "unknown", 1),
        (TODAY, ONE, "UNKNOWN", "unknown", 1),
        (TODAY, PUT, "UNKNOWN", "unknown", 3),
    ]
