"""Promise: an issuer changes its keys without anybody restarting us; and nobody makes us ask it often."""

from collections.abc import Iterator

import pytest

from app.auth.keys import KEY_SET_PAUSE, KEY_SET_SECONDS
from tests import keys
from tests.auth.conftest import Opening
from tests.auth.issuer import Issuer, issuing, jwk, ticks_of
from tests.auth.signing import BAD, CAREGIVER_1, assert_refused, caregiver, ec_key, me, signed, unsigned

OLD, NEW = keys.private_key("old"), keys.private_key("new")


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing(jwk(OLD, "old")) as issuer:
        yield issuer


def test_a_key_set_is_read_once_for_many_tokens(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)

    for number in range(5):
        assert me(gateway, signed(caregiver(jti=str(number)), OLD, "old")) == CAREGIVER_1

    assert issuer.asked == 1


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
    assert issuer.asked == 2


def test_a_key_that_was_taken_back_opens_nothing_anymore(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)
    remembered = signed(caregiver(), OLD, "old")
    assert me(gateway, remembered) == CAREGIVER_1

    issuer.publish(jwk(NEW, "new"))
    ticks.pass_(KEY_SET_PAUSE)

    assert me(gateway, signed(caregiver(), NEW, "new")) == CAREGIVER_1
    assert_refused(gateway, f"bearer {remembered}", 401, BAD)
    assert_refused(gateway, f"bearer {signed(caregiver(jti='other'), OLD, 'old')}", 401, BAD)


def test_a_key_set_is_read_again_when_it_is_old(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url, token_cache=0)
    ticks = ticks_of(gateway)
    token = signed(caregiver(), OLD, "old")
    issuer.publish(jwk(NEW, "old"))

    ticks.pass_(KEY_SET_SECONDS)
    assert me(gateway, token) == CAREGIVER_1
    ticks.pass_(1)

    assert_refused(gateway, f"bearer {token}", 401, BAD)
    assert issuer.asked == 2


def test_unknown_kids_do_not_make_us_ask_the_issuer_more_than_once_in_a_while(
    open_with: Opening, issuer: Issuer
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)

    def knock(count: int) -> None:
        for number in range(count):
            assert_refused(gateway, f"bearer {signed(caregiver(), NEW, f'unknown {number}')}", 401, BAD)
            assert_refused(gateway, f"bearer {unsigned(caregiver())}", 401, BAD)

    knock(3)
    assert issuer.asked == 1
    ticks.pass_(KEY_SET_PAUSE)
    knock(3)
    assert issuer.asked == 2
    ticks.pass_(KEY_SET_PAUSE - 0.1)
    knock(3)
    assert issuer.asked == 2


def test_wrong_signatures_under_a_known_kid_do_not_make_us_ask(open_with: Opening, issuer: Issuer) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks_of(gateway).pass_(KEY_SET_PAUSE)

    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'old')}", 401, BAD)

    assert issuer.asked == 1


AWAY = {
    "error": (500, b""),
    "not found": (404, b""),
    "no keys": (200, b'{"keys": []}'),
    "no JSON": (200, b"<html>"),
    "no HTTP": (0, b""),
}


@pytest.mark.parametrize("name", AWAY)
def test_an_issuer_that_is_away_does_not_take_its_keys_with_it(
    open_with: Opening, issuer: Issuer, name: str
) -> None:
    gateway = open_with(token_key="", token_jwks=issuer.url)
    ticks = ticks_of(gateway)

    issuer.status, issuer.body = AWAY[name]
    ticks.pass_(KEY_SET_SECONDS + 1)

    assert me(gateway, signed(caregiver(), OLD, "old")) == CAREGIVER_1
    assert_refused(gateway, f"bearer {signed(caregiver(), NEW, 'new')}", 401, BAD)
    assert issuer.asked == 2

    issuer.publish(jwk(NEW, "new"))
    ticks.pass_(KEY_SET_PAUSE)

    assert me(gateway, signed(caregiver(), NEW, "new")) == CAREGIVER_1


def test_an_issuer_whose_server_is_gone_does_not_take_its_keys_with_it(open_with: Opening) -> None:
    with issuing(jwk(OLD, "old")) as issuer:
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
