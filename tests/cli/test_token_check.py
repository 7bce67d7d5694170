"""Promise: `token check` says whether the service accepts a token, or why not, and repeats nothing of it."""

from collections.abc import Callable
from typing import Any

import pytest

from app.auth.refusals import Reason
from app.cli.token import EXPLANATIONS
from app.db.admin.importing import importing
from tests import keys
from tests.auth.bad_tokens import now
from tests.auth.issuer import issuing, jwk
from tests.auth.signing import caregiver, ec_key, signed
from tests.callers import run_write
from tests.cli.conftest import Command
from tests.db import raw
from tests.factories import a_caregiver, a_client, lines

pytestmark = pytest.mark.sqlite_only

STRANGER = keys.private_key("stranger")


@pytest.fixture
def check(command: Command, database_url: str) -> Callable[..., Any]:
    run_write(database_url, importing(lines([a_caregiver(1), a_client(1)])))

    def run(text: str, **changed: Any) -> Any:
        result = command("token", "check", input=text, **{"token_key": keys.public_pem(), **changed})
        for part in text.replace(".", " ").split():
            assert len(part) < 10 or part not in result.output
        assert "caregiver-1" not in result.output
        return result

    return run


@pytest.mark.parametrize(
    "written",
    ["{}", "{}\n", "bearer {}", "Bearer   {}\n", "Authorization: bearer {}\r\n", "authorization:{}"],
)
def test_a_token_that_is_accepted(check: Callable[..., Any], written: str) -> None:
    result = check(written.replace("{}", signed(caregiver())))

    assert result.output == "accepted: role CAREGIVER, the account is enabled, expires in 60 min\n"
    assert result.exit_code == 0


REFUSED: dict[Reason, Callable[[], str]] = {
    Reason.HEADER: lambda: "bearer two words",
    Reason.MALFORMED: lambda: signed(caregiver())[:-400],
    Reason.ALGORITHM: lambda: signed(caregiver(), ec_key()),
    Reason.SIGNATURE: lambda: signed(caregiver(), STRANGER),
    Reason.EXPIRED: lambda: signed(caregiver(exp=now(hours=-1))),
    Reason.NOT_YET_VALID: lambda: signed(caregiver(nbf=now(hours=1))),
    Reason.CLAIMS: lambda: signed(caregiver(user_name=None)),
    Reason.REFRESH_TOKEN: lambda: signed(caregiver(ati="x")),
    Reason.ROLE: lambda: signed(caregiver(authorities=[])),
    Reason.UNKNOWN_ACCOUNT: lambda: signed(caregiver(user_name="somebody.else@example.test")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_token_that_is_refused_is_explained(check: Callable[..., Any], reason: Reason) -> None:
    result = check(REFUSED[reason]())

    assert result.output == f"refused: {reason}\n{EXPLANATIONS[reason]}\n"
    assert result.exit_code == 1


def test_the_settings_of_the_service_are_those_that_it_is_checked_by(check: Callable[..., Any]) -> None:
    token = signed(caregiver(iss="issuer", aud="care"))

    assert check(token, token_issuer="issuer", token_audience="care").exit_code == 0
    assert check(token, token_issuer="other").output.startswith("refused: issuer\n")
    assert check(token, token_audience="other").output.startswith("refused: audience\n")


def test_a_key_set_without_its_key(check: Callable[..., Any]) -> None:
    with issuing(jwk(keys.private_key(), "known")) as issuer:
        settings = {"token_key": "", "token_jwks": issuer.url}

        assert check(signed(caregiver(), kid="known"), **settings).exit_code == 0
        unknown = check(signed(caregiver(), kid="unknown"), **settings)

    assert unknown.output.startswith("refused: unknown key\n")


def test_a_disabled_account(check: Callable[..., Any], database_url: str) -> None:
    raw.run(database_url, "UPDATE caregiver SET is_disabled = true")

    assert check(signed(caregiver())).output.startswith("refused: disabled account\n")


def test_every_reason_is_explained() -> None:
    assert {*Reason} - {Reason.KEYS_AWAITED} == EXPLANATIONS.keys()


def test_what_cannot_be_checked_ends_with_another_code(check: Callable[..., Any], command: Command) -> None:
    nothing = check(" \n")
    no_keys = check(signed(caregiver()), token_key="gone.pem")
    argument = command("token", "check", signed(caregiver()))

    assert (nothing.exit_code, no_keys.exit_code, argument.exit_code) == (2, 2, 2)
    assert nothing.output.endswith("there is no token on standard input\n")
    assert argument.output.endswith("give the token on standard input: other users can see command lines\n")
    assert "eyJ" not in argument.output
