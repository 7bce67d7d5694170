"""A worker may be killed at any moment: the next one repeats its deliveries with the same ids. A regular
stop exits with 0."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from app.db.admin.migrate import migrate
from tests.callers import load
from tests.db import raw
from tests.events.receiver import SECRET, Receiver, receiving
from tests.factories import a_world, an_assignment
from tests.live.processes import PATIENCE, Process, run, serving, start
from tests.ports import free_port
from tests.schema.listening import insert_event, wait_for

pytestmark = pytest.mark.live
LONG_AGO = "2020-01-01T09:00:00Z"
REMINDERS = "SELECT state, count(*) FROM reminder GROUP BY state"
DELIVERIES = "SELECT state, count(*) FROM delivery GROUP BY state"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def care(database_url: str, receiver: Receiver, tmp_path: Path) -> dict[str, str]:
    """Three overdue reminders, and a webhook that leads to the receiver."""
    due = [{"remindDate": LONG_AGO}] * 3
    load(database_url, [*a_world(), an_assignment(6, reminders=due)])
    raw.run(database_url, "UPDATE reminder SET state = 'SKIPPED' WHERE assignment_id = 2")
    return {
        "env": "development",
        "database_url": database_url,
        "var": str(tmp_path / "var"),
        "webhook_url": receiver.url,
        "webhook_secret": SECRET,
    }


def add_expired_event(url: str) -> None:
    insert_event(url, "ASSIGNED", number=900, moment=datetime(2020, 1, 1, tzinfo=UTC))
    raw.run(url, "UPDATE event SET hand_over_date = moment WHERE id = 900")


def wait_for_retention(url: str) -> None:
    wait_for(lambda: raw.run(url, "SELECT count(*) FROM event WHERE id = 900") == [(0,)])


@contextmanager
def running_worker(care: dict[str, str]) -> Iterator[Process]:
    process = start("worker", **care)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_requests(receiver: Receiver, times: int) -> None:
    for _ in range(times):
        assert receiver.has_received.acquire(timeout=PATIENCE)


def stop(process: Process, number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    output = process.communicate(timeout=PATIENCE)
    return process.returncode, "".join(output)


def test_deliveries_of_a_killed_worker_are_repeated_with_the_same_id(
    care: dict[str, str], receiver: Receiver
) -> None:
    url = care["database_url"]
    receiver.hold()
    with running_worker(care) as first:
        wait_for_requests(receiver, 3)
        first.kill()
        first.wait()
    taken = raw.run(url, "SELECT event_id, state, attempts, last_answer FROM delivery ORDER BY event_id")
    receiver.is_released.set()

    raw.run(url, f"UPDATE delivery SET next_date = '{LONG_AGO}'")  # as if the lease had passed
    with running_worker(care) as second:
        wait_for_requests(receiver, 3)
        code, output = stop(second, signal.SIGTERM)

    ids = ["evt_1", "evt_2", "evt_3"]
    assert taken == [(number, "WAITING", 1, None) for number in (1, 2, 3)]
    assert sorted(receiver.ids()) == sorted(ids * 2)
    assert {one.verified(SECRET)["type"] for one in receiver.received} == {"reminder.due"}
    assert raw.run(url, DELIVERIES) == [("DELIVERED", 3)]
    assert raw.run(url, "SELECT count(*), count(DISTINCT reminder_id) FROM event") == [(3, 3)]
    assert (code, "Traceback" in output, SECRET in output) == (0, False, False)


def test_several_workers_deliver_each_reminder_once(care: dict[str, str], receiver: Receiver) -> None:
    more = [{"remindDate": LONG_AGO}] * 50
    load(care["database_url"], [an_assignment(10 + at, reminders=more) for at in range(4)])
    with running_worker(care) as one, running_worker(care) as other:
        wait_for_requests(receiver, 203)
        ended = [stop(each, signal.SIGTERM)[0] for each in (one, other)]

    assert ended == [0, 0]
    assert sorted(receiver.ids()) == sorted(f"evt_{number}" for number in range(1, 204))
    assert raw.run(care["database_url"], DELIVERIES) == [("DELIVERED", 203)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_stopped_worker_completes_its_deliveries_and_exits_with_0(
    care: dict[str, str], receiver: Receiver, number: signal.Signals
) -> None:
    receiver.hold()
    add_expired_event(care["database_url"])
    with running_worker(care) as one:
        wait_for_requests(receiver, 3)
        wait_for_retention(care["database_url"])
        one.send_signal(number)
        receiver.is_released.set()
        output = "".join(one.communicate(timeout=PATIENCE))

    assert (one.returncode, "Traceback" in output) == (0, False)
    assert raw.run(care["database_url"], DELIVERIES) == [("DELIVERED", 3)]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_worker_processes_of_serve_dispatch(
    care: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    with serving(tmp_path / "log", "--workers", "2", **care) as served:
        wait_for_requests(receiver, 3)
        code, output = served.stop(signal.SIGTERM)

    assert sorted(receiver.ids()) == ["evt_1", "evt_2", "evt_3"]
    assert (code, "Traceback" in output, SECRET in output) == (0, False, False)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_serve_does_not_dispatch_if_the_dispatcher_is_off(
    care: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    care = care | {"dispatcher": "off"}

    with serving(tmp_path / "log", **care) as served:
        code, _ = served.stop(signal.SIGTERM)
    before = raw.run(care["database_url"], REMINDERS)
    with running_worker(care) as one:
        wait_for_requests(receiver, 3)
        ended, _ = stop(one, signal.SIGTERM)

    assert (code, ended) == (0, 0)
    assert dict(before)["SCHEDULED"] == 3
    assert dict(raw.run(care["database_url"], REMINDERS)) == {"SENT": 3, "SKIPPED": 1}


def test_a_worker_reports_a_missing_database(tmp_path: Path) -> None:
    asyncio.run(migrate(f"sqlite:///{tmp_path}/there.db"))

    done = run("worker", database_url=f"sqlite:///{tmp_path}/none.db")

    sentence = f"care-gateway: there is no database at {tmp_path}/none.db; run `care-gateway migrate` first\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


@pytest.mark.sqlite_only
def test_a_worker_exports_its_changes_as_traces_and_the_metrics_of_its_webhook(
    care: dict[str, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    port = str(free_port())

    with running_worker(care | {"metrics_port": port}) as process:
        wait_for_requests(receiver, 3)
        wait_for(lambda: raw.run(care["database_url"], DELIVERIES) == [("DELIVERED", 3)])
        lines = httpx2.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
        status, output = stop(process, signal.SIGTERM)

    assert status == 0
    changes = ("reminding", "queueing_deliveries", "counting_attempts")
    assert [change for change in changes if f'"name": "dispatcher {change}"' not in output] == []
    assert {line for line in lines if line.startswith(("care_webhook_configured", "care_delivery_att"))} == {
        "care_webhook_configured 1.0",
        'care_delivery_attempts_total{outcome="accepted"} 3.0',
        'care_delivery_attempts_total{outcome="failed"} 0.0',
    }


@pytest.mark.sqlite_only
def test_a_worker_without_a_webhook_marks_reminders_and_delivers_nothing(care: dict[str, str]) -> None:
    url, port = care["database_url"], str(free_port())
    without = care | {"webhook_url": "", "webhook_secret": "", "metrics_port": port}

    with running_worker(without) as process:
        wait_for(lambda: dict(raw.run(url, REMINDERS)) == {"SENT": 3, "SKIPPED": 1})
        lines = httpx2.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
        status, output = stop(process, signal.SIGTERM)

    assert (status, raw.run(url, DELIVERIES)) == (0, [])
    assert "dispatching without a webhook" in output
    assert "care_webhook_configured 0.0" in lines
