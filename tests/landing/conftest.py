"""The public pages do not depend on the kind of database, so these tests use SQLite only."""

import pytest


@pytest.fixture
def database_url(sqlite_copy: str) -> str:
    return sqlite_copy
