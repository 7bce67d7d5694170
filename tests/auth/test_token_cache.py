"""The cache of verified tokens: its duration, its size, and when it is cleared. Failures are not cached."""

from asyncio import create_task, run, sleep, wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import jwt
import pytest

from app.auth.keys import KEY_FILE_SECONDS, open_keys
from app.auth.tokens import TOKEN_CACHE_SECONDS, USUAL_LENGTH, Identity, Verifier
from app.care.context import Role
from app.care.errors import NotAllowed, NotSignedIn
from app.settings import Environment, Settings
from tests import keys
from tests.auth.issuer import Ticks, jwk, key_set
from tests.auth.signing import caregiver, signed
from tests.patience import PATIENCE

MARA = Identity("caregiver-1", Role.CAREGIVER)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens whose signatures were verified, in order."""
    seen: list[str] = []
    decode = jwt.decode

    def decode_and_note(token: str, *arguments: Any, **options: Any) -> Any:
        seen.append(token)
        return decode(token, *arguments, **options)

    monkeypatch.setattr(jwt, "decode", decode_and_note)
    return seen


def a_verifier(**changed: Any) -> Verifier:
    settings = Settings(**{"env": Environment.PRODUCTION, "token_key": keys.public_pem(), **changed})
    return Verifier(settings, open_keys(settings))


def now() -> datetime:
    return datetime.now(UTC)


async def refused(verifier: Verifier, token: str, moment: datetime) -> None:
    with pytest.raises(NotSignedIn):
        await verifier.identity(token, moment)


def test_a_cached_token_is_not_verified_again(verified: list[str]) -> None:
    verifier, token = a_verifier(), signed(caregiver())
    began = verifier.ticks()

    for second in (0, 1, TOKEN_CACHE_SECONDS - 1):
        verifier.ticks = lambda second=second: began + second  # type: ignore[misc]
        assert run(verifier.identity(token, now())) == MARA

    assert verified == [token]


@pytest.mark.parametrize("step", [timedelta(0), timedelta(minutes=-30)], ids=["on", "set back"])
def test_a_token_is_cached_for_a_minute_of_the_monotonic_clock(verified: list[str], step: timedelta) -> None:
    verifier, token, moment = a_verifier(), signed(caregiver()), now()
    began = float(int(verifier.ticks()))  # whole seconds add up exactly
    verifier.ticks = lambda: began
    run(verifier.identity(token, moment))

    verifier.ticks = lambda: began + TOKEN_CACHE_SECONDS
    run(verifier.identity(token, moment + step))

    assert verified == [token] * 2


def test_a_token_is_not_cached_beyond_its_expiry(verified: list[str]) -> None:
    end = now().replace(microsecond=0) + timedelta(seconds=30)
    verifier, token = a_verifier(), signed(caregiver(exp=end))
    run(verifier.identity(token, now()))

    run(verifier.identity(token, end - timedelta(seconds=2)))
    assert verified == [token]
    run(verifier.identity(token, end))

    assert verified == [token] * 2


def test_a_token_that_expired_by_the_wall_clock_is_rejected(verified: list[str]) -> None:
    end = now().replace(microsecond=0) + timedelta(seconds=30)
    verifier, token = a_verifier(), signed(caregiver(exp=end))
    run(verifier.identity(token, now()))

    verifier.keys.keys[:] = []  # whatever is not remembered is refused from here on

    assert run(verifier.identity(token, end - timedelta(seconds=2))) == MARA
    run(refused(verifier, token, end))


def test_failures_are_not_cached(verified: list[str]) -> None:
    verifier, token = a_verifier(), signed(caregiver(), keys.private_key("stranger"))

    run(refused(verifier, token, now()))
    run(refused(verifier, token, now()))

    assert verified == [token] * 2
    assert verifier.cached.values == {}


def test_a_token_without_a_role_is_not_cached() -> None:
    verifier, token = a_verifier(), signed(caregiver(authorities=[]))

    with pytest.raises(NotAllowed):
        run(verifier.identity(token, now()))

    assert verifier.cached.values == {}


def test_the_oldest_token_leaves_a_full_cache() -> None:
    verifier = a_verifier(token_cache=3)
    tokens = [signed(caregiver(jti=str(number))) for number in range(5)]

    for token in tokens:
        run(verifier.identity(token, now()))

    assert list(verifier.cached.values) == tokens[2:]


def test_a_long_token_takes_the_place_of_several() -> None:
    verifier = a_verifier(token_cache=4)
    short = [signed(caregiver(jti=str(number))) for number in range(4)]
    long = signed(caregiver(jti="x" * 3500))
    assert max(map(len, short)) <= USUAL_LENGTH < 2 * USUAL_LENGTH < len(long) <= 3 * USUAL_LENGTH

    for token in (*short, long):
        run(verifier.identity(token, now()))

    assert list(verifier.cached.values) == [short[3], long]


def test_a_size_of_zero_disables_the_cache(verified: list[str]) -> None:
    verifier, token = a_verifier(token_cache=0), signed(caregiver())

    assert [run(verifier.identity(token, now())) for _ in range(3)] == [MARA] * 3

    assert verified == [token] * 3
    assert verifier.cached.values == {}


def test_a_change_of_keys_clears_the_cache(tmp_path: Path, verified: list[str]) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk(keys.private_key(), "old")))
    verifier = a_verifier(token_key="", token_jwks=str(path), token_cache=7)
    ticks = Ticks(verifier.keys)
    old, new = signed(caregiver(), kid="old"), signed(caregiver(), keys.private_key("new"), "new")
    run(verifier.identity(old, now()))

    path.write_bytes(key_set(jwk(keys.private_key("new"), "new")))
    ticks.pass_(60)

    assert run(verifier.identity(new, now())) == MARA
    run(refused(verifier, old, now()))
    assert (list(verifier.cached.values), verifier.cached.max_weight) == ([new], 7)


def test_reading_unchanged_keys_keeps_the_cache(tmp_path: Path, verified: list[str]) -> None:
    path = tmp_path / "issuer.pem"
    path.write_text(keys.public_pem())
    verifier, token, moment = a_verifier(token_key=str(path)), signed(caregiver()), now()
    ticks = Ticks(verifier.keys)
    known = verifier.keys.keys

    for _ in range(3):
        assert run(verifier.identity(token, moment)) == MARA
        ticks.pass_(KEY_FILE_SECONDS + 1)

    assert verified == [token]
    assert verifier.keys.keys is known
    assert verifier.keys.read_at == ticks.now - KEY_FILE_SECONDS - 1  # it was looked at


def test_a_cancelled_request_does_not_cancel_reading_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "issuer.pem"
    path.write_text(keys.public_pem())
    verifier = a_verifier(token_key=str(path))
    ticks, has_begun, is_let_on = Ticks(verifier.keys), Event(), Event()

    def load_slowly() -> bytes:
        has_begun.set()
        assert is_let_on.wait(PATIENCE)
        return path.read_bytes()

    async def go_away() -> None:
        looking = create_task(verifier.keys.refresh())
        while not has_begun.is_set():
            await sleep(0)
        looking.cancel()
        await wait({looking})
        is_let_on.set()
        assert verifier.keys.reading is not None
        await wait({verifier.keys.reading})

    verifier.keys.source = replace(verifier.keys.source, load=load_slowly)
    path.write_text(keys.public_pem(keys.private_key("new")))
    ticks.pass_(KEY_FILE_SECONDS + 1)

    run(go_away())

    run(refused(verifier, signed(caregiver()), now()))
    assert run(verifier.identity(signed(caregiver(), keys.private_key("new")), now())) == MARA


def test_a_closed_event_loop_does_not_block_reading_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "issuer.pem"
    path.write_text(keys.public_pem())
    verifier = a_verifier(token_key=str(path))
    ticks = Ticks(verifier.keys)

    async def begin() -> None:
        verifier.keys.start_reading()

    run(begin())
    path.write_text(keys.public_pem(keys.private_key("new")))
    ticks.pass_(KEY_FILE_SECONDS + 1)

    assert run(verifier.identity(signed(caregiver(), keys.private_key("new")), now())) == MARA
