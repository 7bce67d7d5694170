"""Opens the database that an address names."""

from app.db.drivers.interface import Database, Failed, log_failure, sqlite_path


async def open_database(
    url: str,
    readers: int = 4,
    patience: float | None = 60,
    loop_read_ms: int = 5,
    failed: Failed = log_failure,
) -> Database:
    """`patience` is how many seconds a statement may take on PostgreSQL; None is for whole-world commands.

    `loop_read_ms` is how long a read of SQLite may take on the event loop before it goes on in a thread.
    `failed` is called when a thread has ended without which the database cannot be used.
    """
    # The drivers stand on this module, and the one that is not asked for is not loaded.
    if url.startswith("sqlite:///"):
        from app.db.drivers.sqlite import SqliteDatabase

        return SqliteDatabase(sqlite_path(url), readers, loop_read_ms, failed)
    from app.db.drivers.postgres import open_postgres

    return await open_postgres(url, readers, patience)
