"""A world, writers, and a service that is killed."""

from pathlib import Path
from random import Random
from threading import Semaphore

import pytest

from tests import keys
from tests.callers import load
from tests.crash.crashes import Crashes
from tests.crash.writers import a_world, writers

SESSIONS = 8


@pytest.fixture
def crashes(database_url: str, tmp_path: Path) -> Crashes:
    return made(database_url, tmp_path)


def made(database_url: str, tmp_path: Path) -> Crashes:
    load(database_url, a_world(SESSIONS))
    care = {
        "env": "development",
        "database_url": database_url,
        "token_key": keys.public_pem(),
        "var": str(tmp_path / "var"),
        "legacy_retry_window": "3600",  # a slow machine may take long to start again
    }
    chance = Random()
    acknowledged = Semaphore(0)
    return Crashes(care, tmp_path, writers(SESSIONS, chance, acknowledged), acknowledged, chance)
