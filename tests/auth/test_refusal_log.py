"""The reason for rejecting a token is logged with the request id and counted, but it is not in the response.
The log of a minute is limited."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from app.auth.authenticator import Authenticator
from app.auth.keys import open_keys
from app.auth.rejections import MAX_LOGGED, MINUTE, Reason, RejectionLog
from app.auth.tokens import Verifier
from app.care.errors import NotSignedIn
from app.settings import Environment, Settings
from app.telemetry import counters
from app.telemetry.logs import LOG_FIELDS
from tests import keys
from tests.auth.bad_tokens import now, with_exp
from tests.auth.conftest import Opening
from tests.auth.issuer import jwk, key_set
from tests.auth.signing import (
    BAD,
    HEADER,
    NO_ACCOUNT,
    ONE_ROLE,
    assert_refused,
    caregiver,
    ec_key,
    hmac_signed,
    me,
    signed,
)
from tests.callers import Gateway
from tests.db import raw
from tests.factories import a_caregiver
from tests.schema.listening import connected

pytestmark = pytest.mark.sqlite_only

MORE = "further refused tokens are not logged within this minute; the metric counts them"


def ours(**changed: object) -> str:
    return signed(caregiver(**{"iss": "issuer", "aud": "care", **changed}))


NO_NUMBERS = (b'"soon"', b'"9999999999"', b"[]", b"NaN", b"1e400")


def with_other_exp(exp: bytes) -> str:
    return "bearer " + with_exp(exp + b',"iss":"issuer","aud":"care"')


REFUSED: list[tuple[Reason, int, str, Callable[[], str]]] = [
    (Reason.HEADER, 401, HEADER, lambda: f"Basic {ours()}"),
    (Reason.MALFORMED, 401, BAD, lambda: "bearer garbage"),
    (Reason.MALFORMED, 401, BAD, lambda: f"bearer {'a' * 10_000}"),
    (Reason.ALGORITHM, 401, BAD, lambda: f"bearer {signed(caregiver(), ec_key())}"),
    (Reason.SIGNATURE, 401, BAD, lambda: f"bearer {signed(caregiver(), keys.private_key('stranger'))}"),
    (Reason.EXPIRED, 401, BAD, lambda: f"bearer {ours(exp=now(hours=-1))}"),
    (Reason.NOT_YET_VALID, 401, BAD, lambda: f"bearer {ours(nbf=now(hours=1))}"),
    (Reason.NOT_YET_VALID, 401, BAD, lambda: f"bearer {ours(iat=now(hours=1))}"),
    (Reason.ISSUER, 401, BAD, lambda: f"bearer {ours(iss='other')}"),
    (Reason.ISSUER, 401, BAD, lambda: f"bearer {ours(iss=None)}"),
    (Reason.AUDIENCE, 401, BAD, lambda: f"bearer {ours(aud=['other'])}"),
    (Reason.AUDIENCE, 401, BAD, lambda: f"bearer {ours(aud=None)}"),
    (Reason.CLAIMS, 401, BAD, lambda: f"bearer {ours(exp=None)}"),
    *((Reason.CLAIMS, 401, BAD, partial(with_other_exp, exp)) for exp in NO_NUMBERS),
    (Reason.CLAIMS, 401, BAD, lambda: f"bearer {ours(user_name=None)}"),
    (Reason.REFRESH_TOKEN, 401, BAD, lambda: f"bearer {ours(ati='x')}"),
    (Reason.ROLE, 403, ONE_ROLE, lambda: f"bearer {ours(authorities=['ADMIN'])}"),
    (Reason.UNKNOWN_ACCOUNT, 403, NO_ACCOUNT, lambda: f"bearer {ours(user_name='mara.lind@example.test')}"),
]


def test_the_reason_is_logged_and_counted_but_not_in_the_response(
    open_with: Opening, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = open_with(token_issuer="issuer", token_audience="care")

    for reason, status, message, authorization in REFUSED:
        header = authorization()
        caplog.clear()
        before = counters.rejected_tokens[reason]
        with caplog.at_level(logging.INFO, "care.auth"):
            assert_refused(gateway, header, status, message)

        assert caplog.messages == [f"request r: token refused: {reason}"] * 2
        assert [getattr(record, LOG_FIELDS) for record in caplog.records] == [{"reason": reason}] * 2
        assert counters.rejected_tokens[reason] == before + 2


def test_an_unknown_key_and_an_unknown_algorithm_have_different_reasons(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk(ec_key(), "curve"), jwk(keys.private_key("old"), "old")))
    settings = Settings(env=Environment.PRODUCTION, token_jwks=str(path))
    verifier, reasons = Verifier(settings, open_keys(settings)), []

    for token in (
        signed(caregiver(), keys.private_key("old"), "other"),
        signed(caregiver(), ec_key(), "other"),
        hmac_signed(b"a" * 32, caregiver()),
    ):
        with pytest.raises(NotSignedIn) as rejected:
            asyncio.run(verifier.identity(token, now()))
        reasons.append(rejected.value.reason)

    assert reasons == [Reason.UNKNOWN_KEY, Reason.UNKNOWN_KEY, Reason.ALGORITHM]


@pytest.mark.parametrize("signer", ["first", "second"])
def test_each_of_two_keys_gives_the_same_reason(tmp_path: Path, signer: str) -> None:
    """The keys after the one that has signed the token do not turn the reason into "signature"."""
    path = tmp_path / "keys.pem"
    path.write_text("".join(keys.public_pem(keys.private_key(name)) for name in ("first", "second")))
    settings = Settings(env=Environment.PRODUCTION, token_key=str(path))
    verifier = Verifier(settings, open_keys(settings))
    expired = signed(caregiver(exp=datetime.now(UTC) - timedelta(hours=1)), keys.private_key(signer))

    with pytest.raises(NotSignedIn) as rejected:
        asyncio.run(verifier.identity(expired, now()))

    assert rejected.value.reason is Reason.EXPIRED


def test_a_disabled_and_an_unknown_account_have_different_reasons(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.import_records([a_caregiver(1)])
    raw.run(gateway.settings.database, "UPDATE caregiver SET is_disabled = true")

    with caplog.at_level(logging.INFO, "care.auth"):
        assert_refused(gateway, f"bearer {signed(caregiver())}", 403, NO_ACCOUNT)

    assert caplog.messages == ["request r: token refused: disabled account"] * 2


def test_a_rejected_websocket_is_logged_with_its_request_id(
    with_accounts: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "care.auth"), connected(with_accounts.as_anonymous()) as listener:
        listener.send(type="connection_init", payload={"Authorization": f"bearer {ours(exp=now(hours=-1))}"})
        listener.receive_close()

    [message] = [one for one in caplog.messages if one.endswith(": token refused: expired")]
    assert message.startswith("request ")


def test_a_request_without_a_token_is_not_logged_as_rejected(
    with_accounts: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    before = counters.rejected_tokens.total()

    with caplog.at_level(logging.INFO, "care.auth"):
        assert me(with_accounts, signed(caregiver())) is not None
        assert with_accounts.as_anonymous().post_graphql("{ viewer { role } }").status_code == 401

    assert caplog.messages == []
    assert counters.rejected_tokens.total() == before


def rejections(gateway: Gateway) -> RejectionLog:
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    return authenticator.verifier.rejections


@pytest.mark.parametrize("logs_all", [False, True])
def test_the_log_of_a_minute_is_limited_unless_all_requests_are_logged(
    open_with: Opening, caplog: pytest.LogCaptureFixture, logs_all: bool
) -> None:
    gateway = open_with(log_requests=logs_all)
    moment = 1000.0
    log = rejections(gateway)
    log.ticks, log.began = lambda: moment, moment
    before = counters.rejected_tokens[Reason.MALFORMED]

    with caplog.at_level(logging.INFO, "care.auth"):
        for minutes in (0, 1, 60):
            moment += minutes * MINUTE
            for _ in range(MAX_LOGGED + 10):
                gateway.with_token("garbage").post_graphql("{ viewer { role } }")

    logged = [one for one in caplog.messages if one.endswith(": token refused: malformed")]
    assert len(logged) == 3 * (MAX_LOGGED + 10 if logs_all else MAX_LOGGED)
    assert caplog.messages.count(MORE) == (0 if logs_all else 3)
    assert counters.rejected_tokens[Reason.MALFORMED] == before + 3 * (MAX_LOGGED + 10)
