"""What tests stand on: a fresh database of either kind, the app on it, real tokens, a frozen moment."""

import asyncio
import faulthandler
import gc
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, cast

import httpx2
import hypothesis
import pytest

from app.db.admin.migrate import migrate
from app.db.drivers.interface import sqlite_path
from app.dev import building
from app.main import create_app
from app.settings import Environment, Settings
from tests import citus, keys
from tests.callers import WIDE, Gateway, load, opened
from tests.client import LOOPS
from tests.factories import NOW, Prepare, Records
from tests.patience import PATIENCE
from tests.postgres import Copies, create_database, folder_in_memory, running_postgres, url_of

# These take longest by the file, and begin first: the short ones fill what is left at the end.
FIRST = ("crash", "history", "live", "fuzz", "engine", "db")
# The time zone of the tests and of the processes that they start. No result may depend on it. The value is a
# POSIX rule, so the machine needs no time zone database.
SUMMER_TIME = "CET-1CEST,M3.5.0,M10.5.0/3"
# Hypothesis generates the same examples in every run, and does not limit their time.
hypothesis.settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=True,
    database=None,
)
hypothesis.settings.load_profile("suite")
TEARDOWN_SECONDS = 120  # for each step of a teardown; pytest-timeout stops its timer when a test fails


def pytest_configure() -> None:
    """Databases are files in memory where there is room: nobody has to wait for a disk at each commit."""
    gc.disable()  # until everything is collected
    os.environ["CARE_RECENT_REQUESTS"] = "0"  # responses are those of production; tests/dev has the others
    # Each client of httpx2 reads all certificates. For those of the machine it takes up to 60 ms. This folder
    # has none.
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    os.environ.pop("SSL_CERT_FILE", None)  # httpx2 would read this file instead of the folder
    # The default of 5 s is too short on a busy machine. All functions and clients share the object.
    patience: Any = signature(httpx2.get).parameters["timeout"].default
    patience.connect = patience.read = patience.write = patience.pool = PATIENCE
    os.environ["TZ"] = SUMMER_TIME
    time.tzset()
    if folder := folder_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)


def pytest_xdist_auto_num_workers() -> int:
    """Three for two cores: a worker spends a fifth of its time waiting for processes and PostgreSQL."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


def pytest_unconfigure() -> None:
    faulthandler.dump_traceback_later(TEARDOWN_SECONDS, exit=True)  # a loop that is busy never closes
    LOOPS.close()
    faulthandler.cancel_dump_traceback_later()
    gc.freeze()  # the process ends: what is in caches need not be collected


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Limits the teardown as pytest-timeout limits the test."""

    def fail(*_: object) -> None:
        raise TimeoutError(f"the teardown of {item.nodeid} takes more than {TEARDOWN_SECONDS} s")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, TEARDOWN_SECONDS, TEARDOWN_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the collector need not walk it again for thousands of tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as in the service: statements and schemas stay in caches
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def without_built_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whether or not the pages are built in this checkout; tests of them bring their own build."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "BUILT", tmp_path_factory.mktemp("built") / "nothing")
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session", params=["citus"] if citus.COORDINATOR else ["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The template of every database on SQLite. A test that writes to it would change what others find."""
    path = tmp_path_factory.mktemp("migrated") / "care.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    content = path.read_bytes()
    yield f"sqlite:///{path}"
    assert path.read_bytes() == content


@pytest.fixture
def sqlite_copy(migrated_sqlite: str, tmp_path: Path) -> str:
    """An empty database on SQLite, for tests that need no other kind."""
    return f"sqlite:///{shutil.copyfile(sqlite_path(migrated_sqlite), tmp_path / 'care.db')}"


@pytest.fixture(scope="session")
def migrated_postgresql(postgres: str) -> str:
    url = create_database(postgres, f"migrated_{uuid.uuid4().hex}")
    asyncio.run(migrate(url))
    return url


@pytest.fixture(scope="session")
def migrated(kind: str, request: pytest.FixtureRequest) -> str:
    """A migrated, empty database that every test's own is a copy of; each kind is made once, though files
    go from one kind to the other and back."""
    return str(request.getfixturevalue(f"migrated_{kind}"))


@pytest.fixture(scope="session")
def copies(postgres: str, migrated_postgresql: str) -> Iterator[Copies]:
    one = Copies([postgres], migrated_postgresql.rsplit("/", 1)[1])
    yield one
    one.close()


@pytest.fixture(scope="session")
def migrated_citus() -> Iterator[str]:
    urls = citus.servers()
    name = citus.create_distributed(urls)
    yield url_of(citus.COORDINATOR, name)
    citus.drop_database(urls, name)


@pytest.fixture(scope="session")
def distributed_copies(migrated_citus: str) -> Iterator[Copies]:
    one = Copies(citus.servers(), migrated_citus.rsplit("/", 1)[1])
    yield one
    for name in one.close():
        citus.drop_database(one.server_urls, name)


@pytest.fixture(scope="session")
def prepared_sqlite(
    migrated_sqlite: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Prepare], str]:
    """A database that a function has prepared, at its first use, for copies."""

    @cache
    def prepared(prepare: Prepare) -> str:
        path = tmp_path_factory.mktemp("prepared") / "care.db"
        shutil.copyfile(sqlite_path(migrated_sqlite), path)
        prepare(f"sqlite:///{path}")
        return f"sqlite:///{path}"

    return prepared


@pytest.fixture(scope="session")
def prepared_copies(postgres: str, migrated_postgresql: str) -> Iterator[Callable[[Prepare], Copies]]:
    """The same on PostgreSQL."""
    with ExitStack() as stack:

        @cache
        def prepared(prepare: Prepare) -> Copies:
            name = f"prepared_{uuid.uuid4().hex}"
            prepare(create_database(postgres, name, migrated_postgresql.rsplit("/", 1)[1]))
            copies = Copies([postgres], name)
            stack.callback(copies.close)
            return copies

        yield prepared


@cache
def loading(records: Records) -> Prepare:
    return lambda url: load(url, records())


@contextmanager
def fresh_database(
    kind: str, migrated: str, request: pytest.FixtureRequest, path: Path, prepare: Prepare | None = None
) -> Iterator[str]:
    """A database of its own, which is empty or prepared by the function."""
    if kind == "sqlite":
        template = request.getfixturevalue("prepared_sqlite")(prepare) if prepare else migrated
        shutil.copyfile(sqlite_path(template), path)
        yield f"sqlite:///{path}"
        return
    if prepare and kind == "postgresql":
        copies = request.getfixturevalue("prepared_copies")(prepare)
    else:
        copies = request.getfixturevalue("copies" if kind == "postgresql" else "distributed_copies")
    name = copies.take()
    url = url_of(copies.server_urls[0], name)
    if prepare and kind == "citus":
        prepare(url)
    yield url
    copies.drop(name)


@pytest.fixture
def database_url(kind: str, migrated: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Empty, with the records of the mark `starting_with`, or prepared by the function of `prepared_by`."""
    with fresh_database(kind, migrated, request, tmp_path / "care.db", preparation(request.node)) as url:
        yield url


def preparation(item: pytest.Item) -> Prepare | None:
    if prepared_by := item.get_closest_marker("prepared_by"):
        return cast(Prepare, prepared_by.args[0])
    mark = item.get_closest_marker("starting_with")
    return loading(mark.args[0]) if mark else None


@pytest.fixture(scope="session")
def usual_settings() -> Settings:
    """Read once: that takes as long as a request or two."""
    return Settings(
        env=Environment.DEVELOPMENT,
        token_key=keys.public_pem(),
        dispatcher=False,  # who tests it does one round at a time
        **WIDE,
    )


@pytest.fixture
def settings(usual_settings: Settings, database_url: str, tmp_path: Path) -> Settings:
    return usual_settings.model_copy(update={"database_url": database_url, "var": str(tmp_path)})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects what PostgreSQL need not repeat and starts the longest folders first."""
    left_out = set(repeated(items))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = sorted((item for item in items if item not in left_out), key=begins)
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(0))  # the caller chooses how long it runs


def repeated(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """On PostgreSQL: `sqlite_only` tests, and `once_on_postgresql` tests after their first parameters."""
    once: set[str] = set()
    for item in items:
        if not is_on_postgresql(item):
            continue
        if item.get_closest_marker("once_on_postgresql"):
            function = item.nodeid.partition("[")[0]
            if function in once:
                yield item
            once.add(function)
        elif item.get_closest_marker("sqlite_only"):
            yield item


def is_on_postgresql(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("kind") in ("postgresql", "citus")


def begins(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


@pytest.fixture
def gateway(settings: Settings) -> Iterator[Gateway]:
    """The whole service on a fresh database, at the frozen moment."""
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


@pytest.fixture
def world(request: pytest.FixtureRequest, gateway: Gateway) -> Gateway:
    """The service over the records of the mark `starting_with`."""
    assert request.node.get_closest_marker("starting_with")
    return gateway
