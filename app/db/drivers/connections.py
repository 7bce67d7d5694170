"""Opens connections to PostgreSQL: to the server that accepts changes, directly or through PgBouncer."""

import logging
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from app.db.drivers.citus import HAS_CITUS, is_distributed
from app.db.drivers.hosts import (
    NEEDS_NEWER_POOLER,
    WITHOUT_STATEMENT,
    Host,
    Server,
    addresses_of,
    asyncpg,
    cannot_be_opened,
    connect_to_host,
)
from app.db.drivers.interface import DatabaseError
from app.db.sql import DatabaseKind

OLDEST_POSTGRES = 15  # the oldest major version that PostgreSQL supports
# PostgreSQL then closes the connections of a process whose machine has vanished, instead of after two hours.
KEEPALIVE = """
SET tcp_keepalives_idle = 30;
SET tcp_keepalives_interval = 10;
SET tcp_keepalives_count = 3
"""
# Without generic plans PostgreSQL plans some reads at every run, which takes longer than the read: it
# compares their estimated costs, and a generic plan expects a tenth of all rows where a page has a limit.
# The default random_page_cost is for rotating disks: PostgreSQL then reads all clients to join 20 names.
FAST_READS = """
SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('random_page_cost', '1.1', false),
    set_config('TimeZone', 'UTC', false)  -- text_of_json converts moments in UTC fastest
"""
# The array types of our parameters, as asyncpg would read them from pg_type in each connection. That takes
# PostgreSQL 12 ms, and Citus 0.2 s, which a change must not spend while it holds a lock.
NO_PARTS = dict.fromkeys(("basetype", "range_subtype", "attrtypoids", "attrnames"))
ARRAY: dict[str, Any] = {"ns": "pg_catalog", "kind": b"b", "elemdelim": b",", **NO_PARTS}
ARRAY_TYPES = [
    ARRAY | {"oid": 1016, "name": "_int8", "elemtype": 20},
    ARRAY | {"oid": 1185, "name": "_timestamptz", "elemtype": 1184},
]
ACQUIRE_SECONDS = 10  # to get a connection; the same as the lock timeout of SQLite
MAX_STATEMENT_TEXT = 64 * 1024  # characters; PostgreSQL keeps about 100 bytes for each, in each connection
OTHER_DATA = "has older data than the server in use, or is another database system"

logger = logging.getLogger("care.database")


class Primary:
    """The server that accepts changes, on the newest timeline that was seen. Its connections never lead to
    two servers at a time: an old primary that runs again after a failover accepts changes too, and has the
    data of before."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.addresses = addresses_of(url)
        self.seconds = ACQUIRE_SECONDS / (1 + len(self.addresses))  # all hosts take less than ACQUIRE_SECONDS
        self.host = ""  # the name of the one in use
        self.server: Server | None = None
        self.connections: WeakSet[Any] = WeakSet()
        self.unused: set[str] = set()  # hosts of another server, each logged once

    async def connect(self, _: object = None, /, **options: Any) -> Any:
        """Connects to the server in use. If its host does not lead to it, or none is in use yet, it looks at
        all hosts, and changes to a newer one. asyncpg alone would spend all the time on a first host that
        does not respond, and accept any server."""
        hosts: list[Host] = []
        chosen = None
        try:
            for name, address in sorted(self.addresses, key=lambda each: each[0] != self.host):
                host = await connect_to_host(name, address, self.seconds, **options)
                hosts.append(host)
                if host.connection and host.server.has_data_of(self.server):
                    break
            chosen = self.choose(hosts)
            return chosen.connection
        finally:
            for host in hosts:
                if host.connection and host is not chosen:
                    host.connection.terminate()

    def choose(self, hosts: list[Host]) -> Host:
        found = [host for host in hosts if host.connection]
        usable = [host for host in found if host.server.follows(self.server)]
        if self.server and usable:
            newest = max(host.server.timeline for host in usable)
            usable = [host for host in usable if host.server.timeline == newest]
        usable = usable or [host for host in found if host.server.has_data_of(self.server)]
        for host in found:
            if host not in usable and host.name not in self.unused:
                self.unused.add(host.name)
                logger.warning("%s %s; to use it, restart the process", host, OTHER_DATA)
        if not usable:
            reasons = "; ".join(f"{host.name} {host.fault or OTHER_DATA}" for host in hosts)
            raise cannot_be_opened(reasons, any(host.is_away for host in hosts))
        reject_several(usable)
        chosen = max(usable, key=lambda host: host.server.timeline)
        self.use(chosen)
        return chosen

    def use(self, host: Host) -> None:
        if not host.server.has_data_of(self.server):
            version = host.connection.get_settings().server_version
            name, database = host.name, unquote(urlsplit(self.url).path)
            logger.info(
                "the database is PostgreSQL %s at %s%s, timeline %s", version, name, database, host.timeline
            )
            former, self.connections = self.connections, WeakSet()
            for connection in former:
                connection.terminate()
            self.server = host.server
            self.unused.clear()
        self.host = host.name
        self.connections.add(host.connection)


def reject_several(hosts: list[Host]) -> None:
    """Several hosts may lead to one server. A new process does not know which of several servers has the
    right data: the newest timeline may be that of a standby that was promoted by mistake."""
    primaries = {host.server: host for host in hosts if host.server.timeline}
    if len(primaries) > 1:
        named = " and ".join(map(str, primaries.values()))
        raise cannot_be_opened(f"{named} accept changes; stop the server with the older data")


async def look_at_each_host(url: str) -> list[Host]:
    """The hosts with their servers; all connections are closed again."""
    primary = Primary(url)
    hosts = [
        await connect_to_host(name, address, primary.seconds, True) for name, address in primary.addresses
    ]
    for host in hosts:
        if host.connection:
            host.connection.terminate()
    return hosts


async def open_pool(
    primary: Primary, connections: int, patience: float | None
) -> tuple[Any, bool, DatabaseKind]:
    """Returns a pool, whether its connections lead through a pooler, and the kind of the database. One more
    connection is for the audit records of reads."""
    pool = await asyncpg.create_pool(
        min_size=0,
        max_size=connections + 1,
        command_timeout=patience,
        connect=primary.connect,
        init=prepare_connection,
        reset=keep_session,
    )
    try:
        async with pool.acquire() as connection:
            version = connection.get_server_version()
            if version.major < OLDEST_POSTGRES:
                found = f"PostgreSQL {version.major}.{version.minor}"
                raise DatabaseError(f"{found} is too old; {OLDEST_POSTGRES} or newer is needed")
            is_pooled = await leads_through_pooler(connection)
            return pool, is_pooled, "citus" if await is_distributed(connection) else "postgresql"
    except BaseException:
        pool.terminate()
        raise


class StatementCache(asyncpg.connection._StatementCache):  # type: ignore[misc]
    """Bounds the text of the prepared statements, which callers choose. asyncpg bounds only their number."""

    __slots__ = ()

    def _maybe_cleanup(self) -> None:
        super()._maybe_cleanup()
        while sum(len(text) for text, *_ in self._entries) > MAX_STATEMENT_TEXT:
            _, oldest = self._entries.popitem(last=False)
            self._clear_entry_callback(oldest)
            self._on_remove(oldest._statement)


async def prepare_connection(connection: Any) -> None:
    """Citus plans a statement for several shards with its values, so FAST_READS are not set there."""
    connection._stmt_cache.__class__ = StatementCache
    connection._protocol.get_settings().register_data_types(ARRAY_TYPES)
    await connection.execute(f"{KEEPALIVE}; {FAST_READS} WHERE NOT ({HAS_CITUS})")


async def keep_session(connection: Any) -> None:
    """Runs before a connection returns to the pool, in place of a round trip that resets the session: no
    statement of ours sets a parameter, listens, or takes an advisory lock. asyncpg has ended an open
    transaction."""


async def leads_through_pooler(connection: Any) -> bool:
    """Rejects a pooler that gives statements to a server that has not prepared them. Such a pooler passes on
    the names of prepared statements; PgBouncer from 1.21 on replaces them by names of its own."""
    try:
        found = await connection.fetch("SELECT pg_backend_pid(), name FROM pg_prepared_statements")
    except WITHOUT_STATEMENT:
        raise cannot_be_opened(NEEDS_NEWER_POOLER) from None
    if {process for process, _ in found} == {connection.get_server_pid()}:
        return False
    if not any(name.startswith("PGBOUNCER_") for _, name in found):
        raise cannot_be_opened(NEEDS_NEWER_POOLER)
    return True
