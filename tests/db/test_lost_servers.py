"""PostgreSQL with several hosts, some of them dead, silent or read-only, and connections that are lost."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.db.drivers.connections import OTHER_DATA, Primary, look_at_each_host
from app.db.drivers.factory import open_database
from app.db.drivers.hosts import SILENT, UNIDENTIFIED, Host, Server, asyncpg, connect_to_host
from app.db.drivers.interface import (
    Database,
    DatabaseAway,
    DatabaseError,
    DatabaseUnavailable,
    OutcomeUnknown,
    reason_of,
)
from app.db.drivers.watching import look, watch_hosts
from app.db.sql import Bulk, Steps
from tests.db import raw
from tests.db.small_steps import adding, counting, modules, running, with_database
from tests.patience import PATIENCE
from tests.postgres import free_ports

pytestmark = pytest.mark.parametrize("kind", ["postgresql"], indirect=True)


def with_hosts(url: str, *hosts: str) -> str:
    """The URL with these hosts; an empty text stands for its own."""
    parts = urlsplit(url)
    user, _, own = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}@{','.join(host or own for host in hosts)}").geturl()


# --- hosts


def test_a_dead_first_host_is_skipped(database_url: str) -> None:
    url = with_hosts(database_url, f"127.0.0.1:{free_ports()[0]}", "")

    assert with_database(url, lambda db: db.read(counting())) == 0


def test_a_silent_first_host_is_skipped(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.drivers.connections.ACQUIRE_SECONDS", 3)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and sends nothing
        url = with_hosts(database_url, f"127.0.0.1:{silent.getsockname()[1]}", "")

        assert with_database(url, lambda db: db.read(counting())) == 0


def test_a_further_connection_leads_to_the_host_in_use_at_once(database_url: str) -> None:
    tries = []

    def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tries.append(writer)
        writer.close()

    async def use() -> int:
        server = await asyncio.start_server(close, "127.0.0.1", 0)
        async with server:
            primary = Primary(with_hosts(database_url, f"127.0.0.1:{server.sockets[0].getsockname()[1]}", ""))
            for _ in range(3):
                await (await primary.connect()).close()
        return len(tries)

    assert asyncio.run(use()) == 1


def test_one_connection_to_a_further_host_stays_open_while_it_is_watched(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both names lead to the same server."""
    monkeypatch.setattr("app.db.drivers.watching.WATCH_SECONDS", 0)
    url = with_hosts(database_url, "", f"localhost:{urlsplit(database_url).port}")
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    async def wait_for(number: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(raw.run, database_url, others) != [(number,)]:
                pass

    async def use() -> None:
        assert [host.fault for host in await look_at_each_host(url)] == ["", ""]
        await wait_for(0)
        primary = Primary(url)
        connection = await primary.connect()
        await wait_for(1)
        watching = asyncio.create_task(watch_hosts(primary, lambda: []))
        await wait_for(2)
        watching.cancel()
        await asyncio.wait([watching])
        await wait_for(1)
        await connection.close()

    asyncio.run(use())


def test_a_cancelled_attempt_leaves_no_connection(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: asyncio.Queue[Any] = asyncio.Queue()

    async def identify(connection: Any) -> Server:
        connections.put_nowait(connection)
        await asyncio.Event().wait()
        return UNIDENTIFIED

    monkeypatch.setattr("app.db.drivers.hosts.identify", identify)

    async def use() -> bool:
        connecting = asyncio.create_task(connect_to_host("host", database_url, PATIENCE))
        connection = await connections.get()
        connecting.cancel()
        await asyncio.wait([connecting])
        return bool(connection.is_closed())

    assert asyncio.run(use())


def test_an_attempt_that_finds_only_older_data_leaves_no_connection(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, opened = asyncpg.connect, []

    async def noted(*address: Any, **options: Any) -> Any:
        opened.append(await connect(*address, **options))
        return opened[-1]

    async def use() -> list[bool]:
        primary = Primary(database_url)
        used = await primary.connect()
        assert primary.server is not None
        primary.server = primary.server._replace(timeline=primary.server.timeline + 1)  # another was promoted
        monkeypatch.setattr(asyncpg, "connect", noted)
        with pytest.raises(DatabaseError, match=OTHER_DATA):
            await primary.connect()
        await used.close()
        return [connection.is_closed() for connection in opened]

    assert asyncio.run(use()) == [True]


def test_a_first_host_that_runs_again_with_older_data_is_skipped(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use() -> str:
        primary = Primary(with_hosts(database_url, "", f"localhost:{urlsplit(database_url).port}"))
        promoted = Server(7, "tuesday", 4)
        found = iter((UNIDENTIFIED, promoted, promoted._replace(timeline=3), promoted))

        async def identify(_: Any) -> Server:
            return next(found)

        monkeypatch.setattr("app.db.drivers.hosts.identify", identify)
        for _ in range(2):
            primary.host = primary.addresses[0][0]
            await (await primary.connect()).close()
        return primary.host.partition(":")[0]

    assert asyncio.run(use()) == "localhost"


def test_a_cancelled_start_leaves_no_connection(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: asyncio.Queue[Any] = asyncio.Queue()

    async def leads_through_pooler(connection: Any) -> bool:
        connections.put_nowait(connection._con)
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr("app.db.drivers.connections.leads_through_pooler", leads_through_pooler)

    async def use() -> bool:
        opening = asyncio.create_task(open_database(database_url))
        connection = await connections.get()
        opening.cancel()
        await asyncio.wait([opening])
        return bool(connection.is_closed())

    assert asyncio.run(use())


def test_a_host_that_can_be_identified_is_used_beside_one_that_cannot(database_url: str) -> None:
    async def use() -> list[str]:
        found, used = [await connect_to_host("one", database_url, PATIENCE) for _ in range(2)], []
        unidentified = found[0]._replace(name="unidentified", server=UNIDENTIFIED)
        for hosts in ([unidentified, found[1]], [found[1], unidentified], [unidentified, unidentified]):
            used.append(Primary(database_url).choose(hosts).name)
        for host in found:
            await host.connection.close()
        return used

    assert asyncio.run(use()) == ["one", "one", "unidentified"]


@pytest.mark.parametrize("code", ["42501", "0A000"], ids=["without the privilege", "not supported"])
def test_a_server_that_cannot_be_identified_is_used(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    caplog.set_level("INFO")
    identify = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"
    monkeypatch.setattr("app.db.drivers.hosts.IDENTIFY", identify)

    async def use(db: Database) -> int:
        found = await asyncio.gather(*(db.read(counting()) for _ in range(3)))
        return sum(found)

    assert with_database(database_url, use) == 0
    assert [message.rpartition(", ")[2] for message in caplog.messages] == ["timeline unknown"]


def test_a_standby_that_is_promoted_while_it_is_watched_is_used(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the connection to it stays open, and is replaced if it fails. It did not respond before."""

    async def use() -> None:
        primary = Primary(database_url)
        [(_, address)] = primary.addresses
        former = await primary.connect()
        assert primary.server is not None
        lost = asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        responses: Iterator[Any] = iter(
            (lost, OSError(), primary.server, primary.server._replace(timeline=99))
        )

        async def identify(_: Any) -> Server:
            response = next(responses)
            if isinstance(response, Exception):
                raise response
            return response

        async def look_again(standby: Host, address: str = address) -> Host:
            return await look(primary, standby, address, lambda: [])

        first = await look_again(Host("standby", fault=SILENT))
        monkeypatch.setattr("app.db.drivers.watching.identify", identify)
        second = await look_again(first)
        assert (first.connection.is_closed(), second.connection.is_closed()) == (True, False)
        without_file = await look_again(second, f"{address}?sslmode=require&sslcert=/nowhere/care.pem")
        assert (second.connection.is_closed(), without_file.connection) == (True, None)
        assert without_file.fault.endswith("which cannot be read: no such file or directory")
        third = await look_again(await look_again(Host("standby")))
        assert (primary.host != "standby", third.connection.is_closed()) == (True, False)
        assert await look_again(third) == Host("standby")
        assert (primary.host, primary.server.timeline) == ("standby", 99)
        assert (former.is_closed(), third.connection.is_closed()) == (True, True)

    asyncio.run(use())


def test_the_error_names_each_host_without_the_password(database_url: str) -> None:
    first, second, _ = free_ports()
    url = with_hosts(database_url, f"127.0.0.1:{first}", f"127.0.0.1:{second}")

    with pytest.raises(DatabaseError) as refused:
        asyncio.run(open_database(url))

    reason = "refuses connections (check the port, and that PostgreSQL runs and listens there)"
    assert str(refused.value) == (
        f"the PostgreSQL database cannot be opened: 127.0.0.1:{first} {reason}; 127.0.0.1:{second} {reason}"
    )
    assert (urlsplit(database_url).password or "") not in str(refused.value)


def test_a_wrong_password_is_named(database_url: str) -> None:
    parts = urlsplit(database_url)
    wrong = parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":wrong@")).geturl()

    with pytest.raises(DatabaseError) as rejected:
        asyncio.run(open_database(wrong))

    assert str(rejected.value) == (
        f"the PostgreSQL database cannot be opened: 127.0.0.1:{parts.port} rejects the user or the password "
        "(only this user may have access to the file of PGPASSFILE)"
    )


def test_a_read_only_server_is_rejected_and_may_accept_changes_later(database_url: str) -> None:
    """In a failover every host is a standby for a while."""

    async def use(db: Database) -> None:
        name = urlsplit(database_url).path[1:]
        await db.write(running(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        with pytest.raises(DatabaseAway, match=r"is a standby or read-only \(name the primary"):
            await open_database(database_url)

    with_database(database_url, use)


PRIMARY, STANDBY = (
    b"S" + (4 + len(text)).to_bytes(4, "big") + text
    for text in (b"in_hot_standby\0off\0", b"in_hot_standby\0on\0")
)


@asynccontextmanager
async def reporting_a_standby(url: str) -> AsyncIterator[str]:
    """The URL of a proxy that reports a standby, as PgBouncer does for a while after a promotion."""
    host, port = urlsplit(url).hostname, urlsplit(url).port

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while received := await reader.read(65536):
            writer.write(received.replace(PRIMARY, STANDBY))
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        await asyncio.gather(copy(reader, to_server), copy(from_server, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield with_hosts(url, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


@pytest.mark.parametrize("parameter", ["", "?target_session_attrs=read-write"])
def test_a_primary_that_is_reported_as_a_standby_is_accepted(database_url: str, parameter: str) -> None:
    async def use() -> tuple[str, int]:
        async with reporting_a_standby(database_url) as url:
            db: Any = await open_database(url + parameter)
            async with db.connection() as connection:
                reported = connection.get_settings().in_hot_standby
            await db.write(adding("one"))
            found = await db.read(counting())
            await db.close()
            return reported, found

    assert asyncio.run(use()) == ("on", 1)


# --- connections


def test_connections_to_a_server_that_became_read_only_are_closed(database_url: str) -> None:
    async def use(db: Any) -> tuple[bool, int]:
        async with db.connection(), db.connection(), db.connection():  # idle afterwards
            pass
        before = {connection.get_server_pid() for connection in db.idle}
        await db.write(running("SET default_transaction_read_only = on"))
        with pytest.raises(DatabaseUnavailable, match="nothing was changed"):
            await db.write(adding("never"))
        number_of_open = db.occupancy().open
        await db.write(adding("next"))
        return await db.read(running("SELECT pg_backend_pid()")) in before, number_of_open

    assert with_database(database_url, use) == (False, 0)
    assert modules(database_url) == ["next"]


def test_a_connection_in_use_during_a_loss_is_not_used_again(database_url: str) -> None:
    async def use(db: Any) -> tuple[int, int]:
        async with db.connection():
            with pytest.raises(DatabaseUnavailable):
                await db.read(running("SELECT pg_terminate_backend(pg_backend_pid())"))
        return len(db.idle), db.occupancy().open

    assert with_database(database_url, use) == (0, 0)


def test_a_connection_that_opens_during_a_loss_is_not_used_again(database_url: str) -> None:
    async def use(db: Any) -> tuple[int, int]:
        take = db.take_connection

        async def take_during_a_loss() -> Any:
            db.take_connection = take
            connection = await take()
            with pytest.raises(DatabaseUnavailable):
                await db.read(running("SELECT pg_terminate_backend(pg_backend_pid())"))
            return connection

        db.take_connection = take_during_a_loss
        return await db.read(counting()), len(db.idle)

    assert with_database(database_url, use) == (0, 0)


def test_closing_waits_for_a_connection_in_use(database_url: str) -> None:
    async def use() -> None:
        db: Any = await open_database(database_url)
        async with db.connection() as connection:
            closing = asyncio.create_task(db.close())
            await connection.fetchval("SELECT 1")  # meanwhile the closing begins
            assert not closing.done()
        async with asyncio.timeout(PATIENCE):
            await closing

    asyncio.run(use())


def test_an_idle_connection_that_the_server_closed_is_replaced(database_url: str) -> None:
    async def use(db: Any) -> int:
        async with db.connection(), db.connection():
            pass
        ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        await db.read(running(f"{ended} AND datname = current_database()"))
        return await db.read(counting()) + await db.read(counting())

    assert with_database(database_url, use) == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
def test_a_host_that_acknowledges_nothing_is_noticed(database_url: str) -> None:
    async def use(db: Any) -> list[int]:
        async with db.connection() as connection:
            options = connection._transport.get_extra_info("socket")
            names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT)
            is_checked = options.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            return [is_checked, *(options.getsockopt(socket.IPPROTO_TCP, name) for name in names)]

    assert with_database(database_url, use) == [1, 5, 5, 5000]


def test_the_server_notices_that_a_process_has_vanished(database_url: str) -> None:
    async def use(db: Any) -> list[str]:
        names = ("idle", "interval", "count")
        return [await db.read(running(f"SHOW tcp_keepalives_{name}")) for name in names]

    assert with_database(database_url, use) == ["30", "10", "3"]


def test_rows_are_not_written_to_a_lost_connection(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    written = []

    def rows() -> Iterator[tuple[str]]:
        for number in range(1000):
            if number == 10:
                with ThreadPoolExecutor(1) as pool:
                    end = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {others}"
                    pool.submit(raw.run, database_url, end).result()
            written.append(number)
            yield ("x" * 100_000,)

    def copying() -> Steps[None]:
        yield Bulk("module", ("name",), rows())

    async def use(db: Database) -> None:
        with pytest.raises(DatabaseUnavailable):
            await db.write(copying())

    with_database(database_url, use)
    assert len(written) < 100
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    assert modules(database_url) == []


# --- a lost COMMIT


@asynccontextmanager
async def cutting_commits(url: str, is_forwarded: bool) -> AsyncIterator[str]:
    """The URL of a proxy that closes the connection instead of returning the response to COMMIT."""
    host, port = urlsplit(url).hostname, urlsplit(url).port

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, port)
        is_cut = asyncio.Event()

        async def respond() -> None:
            while (received := await from_server.read(65536)) and not is_cut.is_set():
                writer.write(received)
            writer.close()

        responding = asyncio.create_task(respond())
        while received := await reader.read(65536):
            if b"COMMIT" in received:
                is_cut.set()
                if not is_forwarded:
                    break
            to_server.write(received)
        to_server.close()
        await responding

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield with_hosts(url, f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["before the server", "after the server"])
def test_the_outcome_of_a_commit_that_was_cut_off_is_unknown(database_url: str, is_forwarded: bool) -> None:
    async def use() -> None:
        async with cutting_commits(database_url, is_forwarded) as url:
            db = await open_database(url)
            with pytest.raises(OutcomeUnknown, match="whether the change was kept is not known") as raised:
                await db.write(adding("one"))
            assert reason_of(raised.value) == f"{raised.value}: {raised.value.__cause__}"
            await db.close()

    asyncio.run(use())

    assert modules(database_url) == (["one"] if is_forwarded else [])


@pytest.mark.parametrize(
    "message",
    ["postmaster was shut down, exiting", "failure on connection marked as essential: worker.internal:5432"],
)
def test_internal_errors_of_citus_about_a_lost_machine_are_unavailable(
    database_url: str, message: str
) -> None:
    async def use(db: Database) -> None:
        with pytest.raises(DatabaseUnavailable, match="nothing was changed"):
            await db.write(running(f"DO $$ BEGIN RAISE '{message}' USING ERRCODE = 'XX000'; END $$"))

    with_database(database_url, use)


def test_a_connection_that_is_closed_between_two_statements_is_lost(database_url: str) -> None:
    """As when the process changes to another server: the connection returns to the pool by itself."""

    async def use(db: Any) -> int:
        def reading() -> Steps[int]:
            yield from counting()
            for connection in list(db.primary.connections):
                connection.terminate()
            return (yield from counting())

        with pytest.raises(DatabaseUnavailable):
            await db.read(reading())
        return int(await db.read(counting()))

    assert with_database(database_url, use) == 0


def test_a_connection_that_is_closed_before_a_prepared_statement_is_lost(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = asyncpg.Connection._get_statement

    async def use(db: Any) -> int:
        async def prepare_and_close(connection: Any, *arguments: Any, **options: Any) -> Any:
            prepared = await prepare(connection, *arguments, **options)
            connection.terminate()
            return prepared

        for run in (db.read, db.write):
            with monkeypatch.context() as patched, pytest.raises(DatabaseUnavailable):
                patched.setattr(asyncpg.Connection, "_get_statement", prepare_and_close)
                await run(counting())
        return int(await db.read(counting()))

    assert with_database(database_url, use) == 0


@pytest.mark.parametrize(
    ("seconds", "has_responded", "is_closed"), [(0, False, True), (60, False, False), (0, True, False)]
)
def test_a_pause_of_the_process_or_a_response_meanwhile_is_not_silence_of_the_server(
    database_url: str, monkeypatch: pytest.MonkeyPatch, seconds: int, has_responded: bool, is_closed: bool
) -> None:
    clock = iter((0, seconds))
    monkeypatch.setattr("app.db.drivers.watching.ASK_SECONDS", 0.1)
    monkeypatch.setattr("app.db.drivers.watching.monotonic", lambda: next(clock))

    async def use() -> list[bool]:
        primary = Primary(database_url)
        connections = [await primary.connect() for _ in range(2)]
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = with_hosts(database_url, f"127.0.0.1:{silent.getsockname()[1]}")
            found = iter((connections, [] if has_responded else connections))
            await look(primary, Host(primary.host), url, lambda: next(found))
        are_closed = [bool(connection.is_closed()) for connection in connections]
        for connection in connections:
            connection.terminate()
        return are_closed

    assert asyncio.run(use()) == [is_closed] * 2


def test_every_connection_in_use_for_long_may_be_silent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(db: Any) -> bool:
        async with db.connection() as one, db.connection() as other:
            found = []
            for seconds in (3600, -1):
                monkeypatch.setattr("app.db.drivers.postgres.SILENT_SECONDS", seconds)
                found.append(db.silent_connections())
            return found == [[], [one, other]]

    assert with_database(database_url, use)


def test_a_server_that_refuses_another_connection_is_not_silent(database_url: str) -> None:
    async def use() -> bool:
        primary = Primary(database_url)
        connection = await primary.connect()
        with socket.socket() as refusing:
            refusing.bind(("127.0.0.1", 0))
            url = with_hosts(database_url, f"127.0.0.1:{refusing.getsockname()[1]}")
            await look(primary, Host(primary.host), url, lambda: [connection])
        found = bool(connection.is_closed())
        connection.terminate()
        return found

    assert not asyncio.run(use())


def test_a_change_to_a_newer_server_closes_every_connection_to_the_former_one(database_url: str) -> None:
    async def use() -> tuple[list[bool], list[bool]]:
        primary = Primary(database_url)
        older = [await primary.connect() for _ in range(3)]
        before = [connection.is_closed() for connection in older]
        [(name, address)] = primary.addresses
        host = await connect_to_host(name, address, 10)
        promoted, newest = (  # as after a failover, and another
            host._replace(server=host.server._replace(timeline=host.server.timeline + number))
            for number in (1, 2)
        )
        assert primary.choose([promoted, newest]) is newest
        after = [connection.is_closed() for connection in (*older, newest.connection)]
        primary.use(newest._replace(name="another name"))
        assert primary.host == "another name"
        await newest.connection.close()
        return before, after

    assert asyncio.run(use()) == ([False] * 3, [True, True, True, False])


def test_a_host_with_older_data_is_logged_once_for_each_server_in_use(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def use() -> list[str]:
        primary = Primary(database_url)
        [(name, address)] = primary.addresses
        old, first, second = [await connect_to_host(name, address, 10) for _ in range(3)]
        several = [old._replace(name=f"{name}:5432") for name in ("old", "another")]
        for number, host in enumerate((first, second), start=1):  # as after one failover, and another
            promoted = host.server._replace(timeline=old.server.timeline + number)
            in_use = host._replace(server=promoted)
            primary.use(in_use)
            for _ in range(2):
                assert primary.choose([in_use, *several]) == in_use
        for each in (old, second):
            await each.connection.close()
        return list(map(str, several))

    several = asyncio.run(use())

    assert caplog.messages == [f"{old} {OTHER_DATA}; to use it, restart the process" for old in several] * 2


def test_a_fault_does_not_end_the_watch_over_the_hosts(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.db.drivers.watching.WATCH_SECONDS", 0)

    async def watch() -> None:
        looks, again = 0, asyncio.Event()

        def silent() -> list[Any]:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise ValueError("planted")
            again.set()
            return []

        primary = Primary(database_url)
        connection = await primary.connect()
        watching = asyncio.create_task(watch_hosts(primary, silent))
        async with asyncio.timeout(PATIENCE):
            await again.wait()
        watching.cancel()
        await asyncio.wait([watching])
        await connection.close()

    asyncio.run(watch())

    [name] = [name for name, _ in Primary(database_url).addresses]
    assert caplog.messages[-1] == f"watching {name} failed and goes on"
