"""A key file, PEM or key set, can be replaced while the service runs. Tokens of a removed key are rejected
within seconds by every transport; an invalid file changes nothing."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.auth.authenticator import ACCOUNT_CACHE_SECONDS, Authenticator
from app.auth.keys import KEY_FILE_SECONDS, Key, KeySet, Source
from app.db.sql import Steps
from tests import keys
from tests.auth.conftest import Opening
from tests.auth.issuer import Ticks, jwk, key_set, keys_of, ticks_of
from tests.auth.signing import BAD, CAREGIVER_1, assert_refused, caregiver, ec_key, me, signed
from tests.auth.test_accounts import after
from tests.callers import Gateway
from tests.keys import Private
from tests.schema.listening import PATIENCE, insert_event, listening, wait_for_subscription

pytestmark = pytest.mark.sqlite_only

OLD, NEW, CURVE = keys.private_key("old"), keys.private_key("new"), ec_key()
NEWER = keys.private_key("newer")
ANY_CHANGE = "subscription { assignmentChanged { what } }"


def pem(*of: Private) -> bytes:
    return "".join(keys.public_pem(key) for key in of).encode()


def as_key_set(*of: Private) -> bytes:
    return key_set(*(jwk(key) for key in of))


@pytest.fixture(params=["pem", "key set"])
def write(request: pytest.FixtureRequest) -> Callable[..., bytes]:
    return pem if request.param == "pem" else as_key_set


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "issuer"


@pytest.fixture
def gateway(open_with: Opening, path: Path, write: Callable[..., bytes]) -> Gateway:
    path.write_bytes(write(OLD))
    if write is pem:
        return open_with(token_key=str(path))
    return open_with(token_key="", token_jwks=str(path))


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def wait(gateway: Gateway) -> None:
    """Waits for the documented maximum."""
    ticks_of(gateway).pass_(KEY_FILE_SECONDS + 1)
    after(gateway, ACCOUNT_CACHE_SECONDS)


def test_a_replaced_key_file_takes_effect_without_a_restart(
    gateway: Gateway, path: Path, write: Callable[..., bytes]
) -> None:
    remembered, new = signed(caregiver(), OLD), signed(caregiver(), NEW)
    assert me(gateway, remembered) == CAREGIVER_1
    assert_refused(gateway, f"bearer {new}", 401, BAD)

    replace(path, write(NEW))
    wait(gateway)

    assert_refused(gateway, f"bearer {remembered}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver(jti='other'), OLD)}", 401, BAD)
    assert me(gateway, new) == CAREGIVER_1
    assert gateway.with_token(new).get("/gateway/profile/caregiver/session/assignment/9").status_code == 404


def test_an_unchanged_file_is_not_logged_and_keeps_what_is_cached_for_its_keys(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    before = keys_of(gateway).keys

    with caplog.at_level(logging.INFO, "care.auth"):
        for _ in range(2):
            wait(gateway)
            assert me(gateway, signed(caregiver(), OLD)) == CAREGIVER_1

    assert keys_of(gateway).keys is before
    assert caplog.messages == []


def test_a_key_that_is_removed_while_an_account_is_read_verifies_no_further_request(
    gateway: Gateway, path: Path, write: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    token, read = signed(caregiver(), OLD), authenticator.db.read

    async def read_meanwhile(steps: Steps[Any]) -> Any:
        replace(path, write(NEW))
        await authenticator.verifier.keys.start_reading()
        return await read(steps)

    with monkeypatch.context() as patched:
        patched.setattr(authenticator.db, "read", read_meanwhile)
        assert me(gateway, token) == CAREGIVER_1

    assert_refused(gateway, f"bearer {token}", 401, BAD)


def test_one_file_may_contain_old_and_new_keys(
    gateway: Gateway, path: Path, write: Callable[..., bytes]
) -> None:
    replace(path, write(OLD, NEW, NEWER, CURVE))
    wait(gateway)

    for key in (OLD, NEW, NEWER, CURVE):
        assert me(gateway, signed(caregiver(), key)) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), keys.private_key('stranger'))}", 401, BAD)


def test_requests_wait_for_the_running_reload_of_a_file() -> None:
    """Otherwise a token of the new key is rejected, and one of the old key accepted, after the maximum."""
    texts, may_read = [b"old", b"new"], threading.Event()
    may_read.set()

    def load() -> bytes:
        assert may_read.wait(PATIENCE)
        return texts.pop(0)

    keys_of_file = KeySet(Source(load, lambda text: [Key(None, "RS256", text.decode())], seconds=1))
    now = keys_of_file.read_at + 2
    keys_of_file.ticks = lambda: now

    async def refresh_and_read() -> str:
        await keys_of_file.refresh()
        return str(keys_of_file.keys[0].material)

    async def read_often() -> list[str]:
        may_read.clear()
        requests = [asyncio.create_task(refresh_and_read()) for _ in range(2)]
        await asyncio.sleep(0)  # both have begun
        await asyncio.sleep(0)  # the reload has begun
        requests.append(asyncio.create_task(refresh_and_read()))
        await asyncio.sleep(0)
        may_read.set()
        return [await request for request in requests]

    assert asyncio.run(read_often()) == ["new"] * 3


FILE, OF_ISSUER = (5, 0), (300, 60)  # seconds until a reload, and of the grace period
NOTHING, RELOADS, RELOADS_AND_WAITS = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    "times, age, has_failed, expected",
    [
        (FILE, 5, False, NOTHING),
        (FILE, 5.5, False, RELOADS_AND_WAITS),
        (FILE, 5.5, True, RELOADS_AND_WAITS),
        (OF_ISSUER, 300, False, NOTHING),
        (OF_ISSUER, 301, False, RELOADS),
        (OF_ISSUER, 360, False, RELOADS),
        (OF_ISSUER, 361, False, RELOADS_AND_WAITS),
        (OF_ISSUER, 361, True, RELOADS),
    ],
)
def test_a_request_waits_for_a_reload_only_if_its_keys_may_be_withdrawn(
    times: tuple[float, float], age: float, has_failed: bool, expected: tuple[bool, bool]
) -> None:
    """It does not wait for an issuer that has just failed: each request would wait for seconds."""
    may_read = threading.Event()
    may_read.set()

    def load() -> bytes:
        assert may_read.wait(PATIENCE)
        return b""

    one = KeySet(Source(load, lambda _: [], *times))
    Ticks(one).pass_(age)
    one.is_failing = has_failed

    async def refresh() -> tuple[bool, bool]:
        may_read.clear()
        request = asyncio.create_task(one.refresh())
        for _ in range(5):
            await asyncio.sleep(0)
        found = one.is_reading(), not request.done()
        may_read.set()
        await request
        if one.reading:
            await one.reading
        return found

    assert asyncio.run(refresh()) == expected


def test_a_subscription_with_a_token_of_the_old_key_ends(
    gateway: Gateway, path: Path, write: Callable[..., bytes]
) -> None:
    with listening(gateway.with_token(signed(caregiver(), OLD))) as listener:
        listener.subscribe(ANY_CHANGE)
        wait_for_subscription(gateway)

        replace(path, write(NEW))
        wait(gateway)
        assert me(gateway, signed(caregiver(), NEW)) == CAREGIVER_1
        insert_event(gateway.settings.database, "ASSIGNED")

        assert listener.receive_close() == (4403, BAD)


WRONG = {
    "empty": b"",
    "cut": pem(NEW)[:-30],
    "cut after the first": pem(OLD, NEW)[:-30],
    "a word": b"keys",
    "no keys": b'{"keys": []}',
    "no text": b"\xff\xfe\x00",
    "gone": None,
}


def test_an_invalid_file_keeps_the_old_keys_and_is_logged_once(
    gateway: Gateway, path: Path, write: Callable[..., bytes], caplog: pytest.LogCaptureFixture
) -> None:
    name = "KEY" if write is pem else "JWKS"
    for content in WRONG.values():
        if content is None:
            path.unlink()
        else:
            replace(path, content)
        wait(gateway)
        assert me(gateway, signed(caregiver(), OLD)) == CAREGIVER_1
        assert_refused(gateway, f"bearer {signed(caregiver(), NEW)}", 401, BAD)

    [told] = [record.getMessage() for record in caplog.records if record.name == "care.auth"]
    assert told.startswith(f"CARE_TOKEN_{name} ")
    assert told.endswith("; the previous keys stay in use")

    with caplog.at_level(logging.INFO, "care.auth"):
        replace(path, write(NEW))
        wait(gateway)

        assert me(gateway, signed(caregiver(), NEW)) == CAREGIVER_1
        assert_refused(gateway, f"bearer {signed(caregiver(), OLD)}", 401, BAD)
    assert "the keys that verify tokens have changed; there are 1 now" in caplog.messages
