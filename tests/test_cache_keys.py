"""Promise: no cache keeps long text that a caller chooses, or a statement that no plan uses any more."""

import gc
from weakref import ref

from sqlalchemy import text

from app.db.sql import OnlyStatement, Statement
from app.schema.transport.content_negotiation import MAX_CACHED, negotiate, read_cached
from app.server.request_heads import MAX_HOST, find_head_error, is_host
from app.telemetry.tracing.database import attributes_of


def test_long_accept_headers_are_read_and_not_cached() -> None:
    long = "application/graphql-response+json, " + "x/y, " * MAX_CACHED
    entries = read_cached.cache_info().currsize

    assert negotiate(long).graphql
    assert read_cached.cache_info().currsize == entries
    assert negotiate(long[:MAX_CACHED]) == negotiate(long)
    assert read_cached.cache_info().currsize <= entries + 1


def test_long_hosts_are_rejected_and_not_cached() -> None:
    def error_of(host: bytes) -> tuple[int, str] | None:
        headers = [(b"host", host)]
        return find_head_error("1.1", b"/", headers, dict(headers))

    assert error_of(b"a" * MAX_HOST) is None
    entries = is_host.cache_info().currsize
    assert error_of(b"a" * (MAX_HOST + 1)) == (400, "the Host header is not a valid host")
    assert is_host.cache_info().currsize == entries


def test_traces_do_not_keep_statements() -> None:
    statement = Statement(text("SELECT 1"))
    kept = ref(statement)

    assert attributes_of(OnlyStatement(statement, {}), "sqlite")["db.query.text"] == "SELECT 1"
    del statement
    gc.collect()

    assert kept() is None
