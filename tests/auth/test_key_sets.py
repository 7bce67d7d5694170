"""Keys of an issuer are fetched again without a restart, and no caller can cause many fetches."""

import asyncio
import math
from collections.abc import Iterator
from concurrent.futures import Future, wait
from functools import partial
from threading import Event
from typing import Any

import orjson
import pytest

from app.auth import key_sources
from app.auth import keys as app_keys
from app.auth.key_sources import KeysUnreadable, fetch
from app.auth.keys import (
    KEY_FILE_SECONDS,
    KEY_SET_GRACE,
    KEY_SET_PAUSE,
    KEY_SET_SECONDS,
    MAX_WAITING,
    Key,
    KeySet,
    Source,
)
from app.care.budgets import Budget
from app.care.errors import CannotVerify
from app.db.drivers.fair_turns import CALLER
from app.server.turns import Turns
from tests import keys
from tests.auth.bad_tokens import now
from tests.auth.conftest import Opening
from tests.auth.issuer import Issuer, Ticks, jwk, keys_of, serving_issuer, ticks_of, wait_until_read
from tests.auth.signing import (
    ASSIGNMENTS,
    BAD,
    CAREGIVER_1,
    ME,
    assert_refused,
    caregiver,
    ec_key,
    hmac_signed,
    me,
    signed,
    unsigned,
)
from tests.callers import Gateway
from tests.concurrency import ApiCall, ApiResponse, send_call
from tests.patience import PATIENCE
from tests.schema.listening import connected

pytestmark = pytest.mark.sqlite_only

OLD, NEW = keys.private_key("old"), keys.private_key("new")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with serving_issuer(jwk(OLD, "old")) as issuer:
        yield issuer


def test_a_key_set_is_read_once_for_many_tokens(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)

    for number in range(5):
        assert me(gateway, signed(caregiver(jti=str(number)), OLD, "old")) == CAREGIVER_1

    assert issuer.requests == 1


@pytest.mark.parametrize("new", [NEW, ec_key()], ids=["RS256", "ES256"])
def test_a_token_of_a_new_key_is_accepted_without_a_restart(
    open_with: Opening, issuer: Issuer, new: keys.Private
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)
    assert_refused(gateway, f"bearer {signed(caregiver(), new, 'new')}", 401, BAD)

    issuer.publish(jwk(OLD, "old"), jwk(new, "new"))
    ticks.pass_(KEY_SET_PAUSE)

    assert me(gateway, signed(caregiver(), new, "new")) == CAREGIVER_1
    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    assert issuer.requests == 2


def test_a_withdrawn_key_is_no_longer_accepted(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)
    remembered = signed(caregiver(), OLD, "old")
    assert me(gateway, remembered) == CAREGIVER_1

    issuer.publish(jwk(NEW, "new"))
    ticks.pass_(KEY_SET_PAUSE)

    assert me(gateway, signed(caregiver(), NEW, "new")) == CAREGIVER_1
    assert_refused(gateway, f"bearer {remembered}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver(jti='other'), OLD, 'old')}", 401, BAD)


def test_an_old_key_set_is_fetched_again(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url, token_cache=0)
    ticks = ticks_of(gateway)
    token = signed(caregiver(), OLD, "old")
    issuer.publish(jwk(NEW, "old"))

    ticks.pass_(KEY_SET_SECONDS)
    assert me(gateway, token) == CAREGIVER_1
    assert issuer.requests == 1
    ticks.pass_(1)
    assert me(gateway, token) == CAREGIVER_1  # does not wait for the fetch that it starts
    wait_until_read(gateway)

    assert_refused(gateway, f"bearer {token}", 401, BAD)
    assert issuer.requests == 2


def test_after_a_pause_the_first_request_waits_for_current_keys(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks, token = ticks_of(gateway), signed(caregiver(), OLD, "old")
    issuer.publish(jwk(NEW, "old"))

    ticks.pass_(KEY_SET_SECONDS + KEY_SET_GRACE + 1)

    assert_refused(gateway, f"bearer {token}", 401, BAD)
    assert issuer.requests == 2


def test_unknown_kids_cause_at_most_one_fetch_per_pause(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)

    def knock(count: int) -> None:
        for number in range(count):
            assert_refused(gateway, f"bearer {signed(caregiver(), NEW, f'unknown {number}')}", 401, BAD)
            assert_refused(gateway, f"bearer {unsigned(caregiver())}", 401, BAD)

    knock(3)
    assert issuer.requests == 1
    ticks.pass_(KEY_SET_PAUSE)
    knock(3)
    assert issuer.requests == 2
    ticks.pass_(KEY_SET_PAUSE - 0.1)
    knock(3)
    assert issuer.requests == 2


def test_wrong_signatures_with_a_known_kid_cause_no_fetch(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks_of(gateway).pass_(KEY_SET_PAUSE)

    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'old')}", 401, BAD)

    assert issuer.requests == 1


# --- an issuer that hangs -------------------------------------------------------------------------


def start_requests(gateway: Gateway, tokens: list[str], is_legacy: bool = False) -> list[Future[ApiResponse]]:
    """Starts all requests in this order without waiting for responses."""
    path, body = (f"{ASSIGNMENTS}/1", None) if is_legacy else ("/graphql", {"query": ME})
    portal = gateway.client.portal
    assert portal is not None
    method = "GET" if is_legacy else "POST"
    requests = [ApiCall(gateway.with_token(token), method, path, body) for token in tokens]
    return [portal.start_task_soon(send_call, gateway.client, one) for one in requests]


def responses_of(futures: list[Future[ApiResponse]]) -> list[ApiResponse]:
    _, unfinished = wait(futures, timeout=PATIENCE)
    assert not unfinished
    return [future.result() for future in futures]


@pytest.mark.parametrize("is_legacy", [False, True], ids=["GraphQL", "legacy"])
def test_a_hanging_issuer_delays_only_a_few_requests_with_an_unknown_kid(
    open_with: Opening, issuer: Issuer, is_legacy: bool
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks_of(gateway).pass_(KEY_SET_SECONDS + 1)
    issuer.may_answer.clear()
    invented = [signed(caregiver(), NEW, f"invented {number}") for number in range(MAX_WAITING + 40)]

    pending = start_requests(gateway, invented, is_legacy)
    beyond = responses_of(pending[MAX_WAITING:])

    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    assert not any(future.done() for future in pending[:MAX_WAITING])
    assert {(one.status, one.headers["retry-after"]) for one in beyond} == {(503, "1")}
    for one in beyond:
        body = orjson.loads(one.body)
        if is_legacy:
            assert (body["error"], body["message"]) == (
                "Service Unavailable",
                "the token cannot be verified now",
            )
        else:
            [error] = body["errors"]
            assert error["message"] == "the token cannot be verified now"
            assert error["extensions"]["code"] == "OVERLOADED"
    with connected(gateway.with_token(signed(caregiver(), NEW, "invented"))) as listener:
        listener.send(type="connection_init")
        assert listener.receive_close() == (1013, "the token cannot be verified now")

    issuer.may_answer.set()
    assert {one.status for one in responses_of(pending[:MAX_WAITING])} == {401}
    assert issuer.requests == 2
    assert keys_of(gateway).waiting == 0


def test_all_waiting_requests_accept_a_new_key(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks_of(gateway).pass_(KEY_SET_PAUSE)
    issuer.publish(jwk(OLD, "old"), jwk(NEW, "new"))
    issuer.may_answer.clear()

    pending = start_requests(gateway, [signed(caregiver(jti=str(number)), NEW, "new") for number in range(5)])
    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    issuer.may_answer.set()

    assert {one.status for one in responses_of(pending)} == {200}
    assert issuer.requests == 2


def test_a_request_that_waits_too_long_for_a_key_gets_a_503(
    open_with: Opening, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks_of(gateway).pass_(KEY_SET_PAUSE)
    issuer.may_answer.clear()
    monkeypatch.setattr(app_keys, "WAIT_SECONDS", 0.01)

    answer = gateway.with_token(signed(caregiver(), NEW, "new")).post_graphql(ME)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def own_claims(**changed: Any) -> dict[str, Any]:
    return caregiver(**{"iss": "issuer", "aud": "care", **changed})


HOPELESS = {
    "no algorithm": lambda: f"{unsigned(own_claims())}AAAA",
    "another algorithm": lambda: hmac_signed(b"secret", own_claims(), kid="new"),
    "expired": lambda: signed(own_claims(exp=now(hours=-1)), NEW, "new"),
    "not yet valid": lambda: signed(own_claims(nbf=now(minutes=5)), NEW, "new"),
    "issued later": lambda: signed(own_claims(iat=now(minutes=5)), NEW, "new"),
    "sub a number": lambda: signed(own_claims(sub=7), NEW, "new"),
    "jti a number": lambda: signed(own_claims(jti=7), NEW, "new"),
    "no exp": lambda: signed(own_claims(exp=None), NEW, "new"),
    "no person": lambda: signed(own_claims(user_name=None), NEW, "new"),
    "a refresh token": lambda: signed(own_claims(ati="x"), NEW, "new"),
    "of another issuer": lambda: signed(own_claims(iss="other"), NEW, "new"),
    "for others": lambda: signed(own_claims(aud="other"), NEW, "new"),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_no_key_is_fetched_for_a_token_that_is_invalid_anyway(
    open_with: Opening, issuer: Issuer, name: str
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url, token_issuer="issuer", token_audience="care")
    ticks_of(gateway).pass_(KEY_SET_PAUSE)

    assert_refused(gateway, f"bearer {HOPELESS[name]()}", 401, BAD)

    assert issuer.requests == 1


def test_the_pause_counts_from_the_end_of_a_fetch(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)
    ticks.pass_(KEY_SET_PAUSE)
    issuer.may_answer.clear()
    pending = start_requests(gateway, [signed(caregiver(), NEW, "new")])
    while keys_of(gateway).waiting == 0 and not pending[0].done():
        pass
    ticks.pass_(KEY_SET_PAUSE)
    issuer.may_answer.set()
    responses_of(pending)

    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'new')}", 401, BAD)

    assert issuer.requests == 2


def test_a_slow_issuer_does_not_extend_a_fetch(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sources, "FETCH_SECONDS", 0.2)
    issuer.trickles = True

    with pytest.raises(KeysUnreadable) as refusal:
        fetch(issuer.url)

    assert str(refusal.value) == "CARE_TOKEN_JWKS cannot be fetched: no response in time"
    assert not issuer.has_trickled_out


def test_a_proxy_may_change_the_status_of_a_key_set(open_with: Opening, issuer: Issuer) -> None:
    issuer.status = 203

    gateway = open_with(token_key="", token_jwks=issuer.url)

    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1


# --- an issuer that is away -----------------------------------------------------------------------

AWAY = {
    "error": (500, b""),
    "not found": (404, b""),
    "no keys": (200, b'{"keys": []}'),
    "no JSON": (200, b"<html>"),
    "no HTTP": (0, b""),
}


@pytest.mark.parametrize("name", AWAY)
def test_known_keys_work_while_the_issuer_fails(open_with: Opening, issuer: Issuer, name: str) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)

    issuer.status, issuer.body = AWAY[name]
    ticks.pass_(KEY_SET_SECONDS + 1)

    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'new')}", 401, BAD)
    assert (issuer.requests, keys_of(gateway).is_failing) == (2, True)

    issuer.publish(jwk(NEW, "new"))
    ticks.pass_(KEY_SET_PAUSE)

    assert me(gateway, signed(caregiver(), NEW, "new")) == CAREGIVER_1
    assert not keys_of(gateway).is_failing  # the next failure is logged and exported again


def test_each_outage_of_the_issuer_is_logged_and_ends_with_the_same_keys(
    open_with: Opening, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks, states = ticks_of(gateway), []
    for status in (500, 500, 200, 500, 200):
        issuer.status = status
        ticks.pass_(KEY_SET_PAUSE)
        assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'new')}", 401, BAD)
        states.append(keys_of(gateway).is_failing)
    outages = [record for record in caplog.records if record.name == "care.auth"]
    issuer.publish(jwk(NEW, "old"))
    ticks.pass_(KEY_SET_SECONDS + KEY_SET_GRACE + 1)

    assert_refused(gateway, f"bearer {signed(caregiver(), OLD, 'old')}", 401, BAD)  # waits for the new key
    assert (states, len(outages)) == ([True, True, False, True, False], 2)


def test_known_keys_work_while_the_issuer_is_unreachable(open_with: Opening) -> None:
    with serving_issuer(jwk(OLD, "old")) as issuer:
        gateway = open_with(token_key="", token_jwks=issuer.url)

    ticks_of(gateway).pass_(KEY_SET_SECONDS + 1)

    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'new')}", 401, BAD)


def test_a_token_without_kid_is_tried_with_every_key_of_its_algorithm(
    open_with: Opening, issuer: Issuer
) -> None:
    issuer.publish(jwk(OLD, "old"), jwk(NEW, "new"))
    gateway = open_with(token_key="", token_jwks=issuer.url)

    assert me(gateway, signed(caregiver(), OLD)) == CAREGIVER_1
    assert me(gateway, signed(caregiver(), NEW)) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), keys.private_key('stranger'))}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver(), ec_key())}", 401, BAD)


def test_a_request_that_leaves_makes_room_for_one_that_waits_for_a_key() -> None:
    may_load = Event()
    may_load.set()

    def load() -> bytes:
        assert may_load.wait(PATIENCE)
        return b""

    async def wait_for_keys() -> tuple[bool, int]:
        keys_read = KeySet(Source(load, lambda _: [], KEY_SET_SECONDS, KEY_SET_GRACE))
        Ticks(keys_read).pass_(KEY_SET_PAUSE)
        may_load.clear()
        tasks = [asyncio.create_task(keys_read.fetch_unknown()) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(CannotVerify):
            await keys_read.fetch_unknown()
        first = tasks.pop()
        first.cancel()
        await asyncio.wait([first])
        tasks.append(asyncio.create_task(keys_read.fetch_unknown()))
        await asyncio.sleep(0)
        is_waiting = not tasks[-1].done()
        with pytest.raises(CannotVerify):
            await keys_read.fetch_unknown()
        may_load.set()
        await asyncio.gather(*tasks)
        return is_waiting, keys_read.waiting

    assert asyncio.run(wait_for_keys()) == (True, 0)


@pytest.mark.parametrize("is_read", [False, True], ids=["unreadable", "invalid"])
@pytest.mark.parametrize(
    "fault", [KeysUnreadable("no file", "make one"), RuntimeError()], ids=["known", "other"]
)
def test_keys_stay_in_use_and_count_as_failing_until_they_can_be_read(
    fault: Exception, is_read: bool
) -> None:
    faults: list[Exception] = []

    def load() -> bytes:
        if faults and not is_read:
            raise faults[0]
        return b"invalid" if faults else b"keys"

    def parse(text: bytes) -> list[Key]:
        if faults:
            raise faults[0]
        return []

    async def read() -> list[tuple[int, bool]]:
        read_keys, states = KeySet(Source(load, parse, KEY_FILE_SECONDS)), []
        ticks, before = Ticks(read_keys), read_keys.keys
        for given in ([fault], [fault], []):
            faults[:] = given
            ticks.pass_(KEY_FILE_SECONDS + 1)
            await read_keys.refresh()
            states.append((read_keys.keys is before, read_keys.is_failing))
        return states

    assert asyncio.run(read()) == [(True, True), (True, True), (True, False)]


def test_an_unexpected_fault_is_logged_also_while_keys_cannot_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = [KeysUnreadable("no file", "make one"), KeysUnreadable("no file", "make one"), RuntimeError()]
    loads = iter([lambda: b"keys", *(partial(throw, fault) for fault in faults)])

    async def read() -> None:
        read_keys = KeySet(Source(lambda: next(loads)(), lambda _: [], KEY_FILE_SECONDS))
        ticks = Ticks(read_keys)
        for _ in faults:
            ticks.pass_(KEY_FILE_SECONDS + 1)
            await read_keys.refresh()

    asyncio.run(read())

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "no file; the previous keys stay in use"),
        ("ERROR", "the keys that verify tokens cannot be read; the previous keys stay in use"),
    ]


def throw(fault: Exception) -> bytes:
    raise fault


def test_reading_the_keys_does_not_wait_for_the_turn_of_the_first_request() -> None:
    """All requests use them."""

    async def read() -> None:
        asyncio.get_running_loop().set_task_factory(Turns().create_task)
        keys_read = KeySet(Source(bytes, lambda _: [], KEY_SET_SECONDS, KEY_SET_GRACE))
        Ticks(keys_read).pass_(KEY_SET_SECONDS + 1)
        busy = Budget()
        busy.seconds_owed = math.inf  # it has no turn
        CALLER.state = {"budget": busy}
        await keys_read.refresh()
        CALLER.state = None
        assert keys_read.reading is not None
        async with asyncio.timeout(PATIENCE):
            await keys_read.reading

    asyncio.run(read())
