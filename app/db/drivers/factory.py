"""Opens the database at an address."""

from app.db.drivers.interface import Database, Failed, location_of, log_failure, logger, sqlite_path


async def open_database(
    url: str,
    readers: int = 4,
    patience: float | None = 60,
    loop_read_ms: int = 5,
    failed: Failed = log_failure,
) -> Database:
    """`patience` limits the seconds of a statement on PostgreSQL; commands on the whole database pass None.

    `loop_read_ms` limits a SQLite read on the event loop; a longer read continues in a thread.
    `failed` is called when the writer thread has ended and the database cannot be used any more.
    """
    # Only the driver in use is imported.
    if url.startswith("sqlite:///"):
        from app.db.drivers.sqlite import SqliteDatabase

        logger.info("the database is SQLite at %s", location_of(url))
        return SqliteDatabase(sqlite_path(url), readers, loop_read_ms, failed)
    from app.db.drivers.postgres import open_postgres

    return await open_postgres(url, readers, patience)
