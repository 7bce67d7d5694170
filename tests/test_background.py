"""A failed background task is restarted. When the thread that writes to SQLite ends, every change gets a
503 and the process is not ready."""

import asyncio
import atexit
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from app.care.context import Role, Viewer
from app.db.audit.recorder import AuditRecorder
from app.db.audit.records import recording
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database, DatabaseUnavailable
from app.db.drivers.sqlite import SqliteDatabase
from app.events.dispatcher import dispatch
from app.events.notifications import Notifier
from app.main import create_app
from app.server.background import Vitals, in_background, keep_running, log_fault, repeat
from app.settings import Settings
from app.telemetry.metrics import server as metrics_server
from app.telemetry.metrics.server import FOLDER, serve_tcp, start_aggregator
from app.telemetry.tracing.requests import Tracing
from app.usage.counts import Usage, write_usage
from tests.audit.test_recording import a_record
from tests.callers import Gateway, opened
from tests.db import raw
from tests.factories import NOW, a_world
from tests.fault_injection import UNEXPECTED, Failing, kill_writer, raise_in
from tests.live.processes import PATIENCE
from tests.ports import free_port
from tests.rest_compat.legacy import ASSIGNMENTS, homework

ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
EACH_FAULT = pytest.mark.parametrize("fault", UNEXPECTED)

SUBMITTED = '{ assignment(id: "1") { answerSets { answers { answer } } } }'
RENAME = 'mutation { updateSession(input: {sessionId: "1", title: "New"}) { session { id } } }'
ENDED = "the database writer has ended"


# --- the thread that writes to SQLite -------------------------------------------------------------


@pytest.fixture
def without_writer(gateway: Gateway) -> Gateway:
    """The writer thread ends at the next change."""
    gateway.import_records(a_world())
    assert isinstance(gateway.database, SqliteDatabase)
    kill_writer(gateway.database.writer.thread)
    return gateway


@ON_SQLITE
def test_a_process_without_its_writer_rejects_changes_and_is_not_ready(
    without_writer: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    ready = [without_writer.as_anonymous().get("/readyz")]
    caregiver = without_writer.as_caregiver(1)

    first, second = (caregiver.put(ASSIGNMENTS, json=homework()) for _ in range(2))
    change, responses = caregiver.graphql(RENAME), caregiver.graphql(SUBMITTED)
    read = caregiver.graphql("{ sessions { totalCount } }")
    ready.append(without_writer.as_anonymous().get("/readyz"))

    assert [(one.status_code, one.json()["message"]) for one in (first, second)] == [
        (503, f"{ENDED}; whether the change was kept is not known"),
        (503, f"{ENDED}; nothing was changed"),
    ]
    assert [error["extensions"]["code"] for one in (change, responses) for error in one["errors"]] == [
        "OVERLOADED",
        "OVERLOADED",
    ]
    assert read == {"data": {"sessions": {"totalCount": 4}}}
    assert [(one.status_code, one.json()) for one in ready] == [
        (200, {"status": "ready"}),
        (503, {"status": ENDED}),
    ]
    assert [one.message for one in caplog.records if one.levelno == logging.CRITICAL] == [
        f"{ENDED}, so the process ends"
    ]


# --- tasks ----------------------------------------------------------------------------------------


def run(work: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.005)


async def on_database(url: str, work: Callable[[Database], Any]) -> Any:
    db = await open_database(url)
    try:
        return await work(db)
    finally:
        await db.close()


@EACH_FAULT
def test_a_failed_task_is_restarted(fault: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    runs = []

    async def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise fault

    run(keep_running("the work", work, 0))

    assert len(runs) == 3
    assert caplog.messages == ["the work failed and is started again"] * 2


LOGGED = {
    "a database": (DatabaseUnavailable("the disk is full"), "waits for the database: the disk is full"),
    "a connection": (ConnectionResetError(), "waits for what it depends on: ConnectionResetError"),
    "time": (TimeoutError(), "waits for what it depends on: TimeoutError"),
    "SQLite": (sqlite3.OperationalError("locked"), "waits for what it depends on: sqlite3.OperationalError"),
    "a fault of the program": (ValueError(), "failed and is started again"),
}


@pytest.mark.parametrize(("fault", "line"), LOGGED.values(), ids=LOGGED)
def test_a_failed_task_is_an_error_unless_it_waits_for_others(
    fault: Exception, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    log_fault("the work", fault)

    is_error = isinstance(fault, ValueError)
    [record] = caplog.records
    assert (record.getMessage(), record.levelno) == (
        f"the work {line}",
        logging.ERROR if is_error else logging.WARNING,
    )
    assert bool(record.exc_info) == is_error


def test_a_cancelled_task_ends() -> None:
    async def cancelled() -> bool:
        task = asyncio.create_task(keep_running("the work", asyncio.Event().wait, 0))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run(cancelled())


def test_background_work_is_finished_also_after_an_error_of_the_start() -> None:
    """Such as that of a later part, whose port is in use."""
    finished = []

    async def work(stop: asyncio.Event) -> None:
        await stop.wait()
        finished.append(1)

    async def start() -> None:
        async with in_background(work):
            await asyncio.sleep(0)
            raise OSError

    with pytest.raises(OSError):
        run(start())

    assert finished == [1]


def test_a_failed_task_is_restarted_after_a_pause() -> None:
    """It would fail at once again, and fill the log."""
    runs, stop = [], asyncio.Event()

    async def work() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise MemoryError

    async def main() -> int:
        running = asyncio.create_task(keep_running("the work", work, PATIENCE, stop))
        for _ in range(10):
            await asyncio.sleep(0)
        stop.set()
        await running
        return len(runs)

    assert run(main()) == 1


def test_a_task_is_not_restarted_during_shutdown() -> None:
    runs, stop = [], asyncio.Event()

    async def work() -> None:
        runs.append(1)
        stop.set()
        raise MemoryError

    run(keep_running("the work", work, PATIENCE, stop))

    assert runs == [1]


@pytest.mark.parametrize("more", [True, False, None])
def test_work_is_repeated_at_once_if_more_remains_and_otherwise_after_a_pause(more: bool | None) -> None:
    runs, stop = [], asyncio.Event()

    async def work() -> bool | None:
        runs.append(1)
        if len(runs) == 3:
            stop.set()
        return more

    async def main() -> int:
        repeating = asyncio.create_task(repeat(work, stop, PATIENCE))
        await asyncio.sleep(0)
        before = len(runs)
        stop.set()
        await repeating
        return before

    assert run(main()) == (3 if more else 1)


@pytest.mark.parametrize("more", [True, False])
def test_work_is_not_repeated_during_shutdown_although_more_remains(more: bool) -> None:
    runs, stop = [], asyncio.Event()

    async def work() -> bool:
        runs.append(1)
        stop.set()
        return more and len(runs) < 3

    for _ in range(2):  # the second time it has stopped before
        run(repeat(work, stop, PATIENCE))

    assert runs == [1]


@ON_SQLITE
@EACH_FAULT
def test_each_task_of_the_dispatcher_continues_after_an_error(
    database_url: str, fault: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(db: Database) -> None:
        await db.write(recording([a_record(1)]))  # something to seal
        stop, failing = asyncio.Event(), Failing(db, [fault()] * 3)  # one for each work
        working = asyncio.create_task(dispatch(failing, None, lambda: NOW, stop, pause=0.001))
        await until(lambda: raw.run(database_url, "SELECT count(*) FROM audit_seal") == [(1,)])
        stop.set()
        await working

    run(on_database(database_url, work))

    assert sorted(caplog.messages) == [
        f"the dispatcher ({work}) failed and is started again"
        for work in ("audit trail", "outbox", "removal")
    ]


@ON_SQLITE
@EACH_FAULT
def test_counted_legacy_calls_are_written_after_an_error(
    database_url: str, fault: type[BaseException]
) -> None:
    async def work(db: Database) -> None:
        usage = Usage(Failing(db, [fault(), fault()]), lambda: NOW)
        usage.add("GET /", "CLIENT", "one", NOW)
        async with in_background(partial(write_usage, usage, pause=0.001)):
            await until(lambda: raw.run(database_url, "SELECT requests FROM legacy_usage") == [(1,)])

    run(on_database(database_url, work))


@EACH_FAULT
def test_the_event_feed_continues_after_an_error(
    fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.notifications.PAUSE_SECONDS", 0)
    faults = [fault(), fault()]

    async def follow(notify: Any) -> None:
        if faults:
            raise faults.pop()
        notify(None)
        await asyncio.Event().wait()

    async def listen() -> None:
        with Notifier(follow).listener(Viewer(Role.CLIENT, 1)) as wakeup:
            await wakeup.wait()

    run(listen())


@ON_SQLITE
def test_a_failed_audit_record_raises_and_the_next_one_is_stored(database_url: str) -> None:
    async def keep(db: Database) -> list[Any]:
        recorder = AuditRecorder(Failing(db, [MemoryError()]))
        failed = await asyncio.gather(*(recorder.keep(a_record(at)) for at in (1, 2)), return_exceptions=True)
        await recorder.keep(a_record(3))
        return failed

    failed = run(on_database(database_url, keep))

    assert [type(one) for one in failed] == [MemoryError, MemoryError]
    assert raw.run(database_url, "SELECT actor_id FROM audit_record") == [(3,)]


# --- metrics and traces ---------------------------------------------------------------------------


def test_a_failed_collection_of_metrics_is_a_500_and_the_server_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults: list[Exception] = [OSError("the disk"), MemoryError()]

    async def notify() -> bytes:
        if faults:
            raise faults.pop()
        return b"care 1\n"

    async def fetch(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        response = await reader.read(-1)
        writer.close()
        return response

    async def fetch_three() -> list[bytes]:
        port = free_port()
        async with serve_tcp("127.0.0.1", port, notify):
            return [(await fetch(port)).split(b"\r\n")[0] for _ in range(3)]

    assert run(fetch_three()) == [b"HTTP/1.1 500 Internal Server Error"] * 2 + [b"HTTP/1.1 200 OK"]
    assert caplog.messages == ["metrics cannot be collected"] * 2


@pytest.fixture
def metrics_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(FOLDER, "")  # put back at the end, whatever it is set to
    yield


@ON_SQLITE
def test_the_metrics_aggregator_retries_a_port_in_use(
    settings: Settings,
    metrics_folder: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(metrics_server, "keep_running", partial(keep_running, pause=0.01))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        start_aggregator(settings.model_copy(update={"metrics_port": port}))
        while "the metrics server failed and is started again" not in caplog.messages:
            time.sleep(0.005)

    async def connect() -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                continue
            writer.close()
            return

    run(connect())


@ON_SQLITE
def test_the_metrics_aggregator_removes_its_folder_when_the_process_ends(
    settings: Settings, metrics_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", lambda *call, **options: ends.append(partial(*call, **options)))

    start_aggregator(settings.model_copy(update={"metrics_port": free_port()}))

    folder = Path(os.environ[FOLDER])
    assert folder.is_dir()
    for end in ends:
        end()
    assert not folder.exists()


class Broken(SpanExporter):
    """Fails in the thread that exports spans."""

    def export(self, spans: Any) -> SpanExportResult:
        raise MemoryError


@ON_SQLITE
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is brought about
def test_requests_are_answered_without_the_thread_that_exports_spans(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    processor = BatchSpanProcessor(Broken(), max_queue_size=2, max_export_batch_size=1)
    tracing = Tracing(lambda: processor)
    thread = processor._batch_processor._worker_thread
    raise_in(thread, SystemExit)

    with opened(create_app(settings, clock=lambda: NOW, tracing=tracing)) as client:
        gateway = Gateway(client, settings)
        gateway.import_records(a_world())
        responses = [gateway.as_caregiver(1).graphql("{ sessions { totalCount } }") for _ in range(5)]

    assert responses == [{"data": {"sessions": {"totalCount": 4}}}] * 5
    assert "Queue full, dropping Span." in caplog.messages


def test_a_part_that_fails_before_the_process_can_be_ended_ends_it_later() -> None:
    vitals, ends = Vitals(), list[str]()
    vitals.fail("the writer", RuntimeError())

    vitals.on_failure(lambda: ends.append(vitals.failed_part))

    assert ends == ["the writer"]
