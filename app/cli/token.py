"""The `token` commands: mint a development token, or explain why a token is rejected."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import click

from app.auth.authenticator import finding_account, token_in
from app.auth.rejections import Reason
from app.auth.tokens import MAX_TOKEN, Verifier
from app.care.context import Role, utc_now
from app.care.errors import CannotVerify, CareError
from app.cli.common import ROLE, Group, WholeNumber, main, read_database, settings_or_warn
from app.dev.quickstart import DEMO_USERS

MAX_INPUT = MAX_TOKEN + 1000  # allows the header name, the scheme and spaces before the token

EXPLANATIONS = {
    Reason.HEADER: "The value has more than one word. Give the token alone, or the header: bearer <token>.",
    Reason.MALFORMED: "The token is not a valid JWT: truncated, too long, or with a duplicate member.",
    Reason.ALGORITHM: "No key supports the algorithm (`alg`). An RSA key verifies RS256, an EC key ES256.",
    Reason.UNKNOWN_KEY: "The key set of CARE_TOKEN_JWKS has no key with this id (`kid`).",
    Reason.SIGNATURE: "No key verifies the signature: another issuer signed the token, or it was changed.",
    Reason.EXPIRED: "The token has expired (`exp`). The application needs a new one from the issuer.",
    Reason.NOT_YET_VALID: "The token is not valid yet (`nbf`, `iat`). Compare this clock with the issuer's.",
    Reason.ISSUER: "The issuer (`iss`) is not CARE_TOKEN_ISSUER.",
    Reason.AUDIENCE: "The audience (`aud`) does not contain CARE_TOKEN_AUDIENCE.",
    Reason.CLAIMS: "The token has no valid `exp`, or no user name in CARE_CLAIM_USER or `sub`.",
    Reason.REFRESH_TOKEN: "This is a refresh token (`ati`). Send the access token.",
    Reason.ROLE: "CARE_CLAIM_ROLE must contain exactly one of CAREGIVER and CLIENT.",
    Reason.UNKNOWN_ACCOUNT: "No account has this role and user name: care-gateway account add, or link.",
    Reason.DISABLED_ACCOUNT: "The account is disabled. Use care-gateway account enable.",
}


@main.group(cls=Group, invoke_without_command=True)
@click.option("--role", type=ROLE)
@click.option("--user", metavar="NAME", help="The user name of the account; default is the demo user.")
@click.option("--hours", type=WholeNumber(1, 24 * 365), default=24, show_default=True)
@click.option(
    "--seconds", type=WholeNumber(1, 3600), help="A short life instead, to rehearse the end of a token."
)
@click.option("--expired", is_flag=True, help="A token that has expired an hour ago.")
@click.option(
    "--application", metavar="NAME", default="development", show_default=True, help="The client_id claim."
)
@click.pass_context
def token(
    ctx: click.Context,
    role: Role | None,
    user: str | None,
    hours: int,
    seconds: int | None,
    expired: bool,
    application: str,
) -> None:
    """Mint a development token, or check a token."""
    if ctx.invoked_subcommand:
        return
    if role is None:
        raise click.MissingParameter(param_hint="'--role'", param_type="option")
    if expired and seconds:
        raise click.UsageError("give either --expired or --seconds")
    from app.dev.tokens import KEY_FILE, mint_token

    settings = settings_or_warn()
    user = user or DEMO_USERS[role]
    key = Path(settings.var) / KEY_FILE
    is_old_key = key.exists()
    life = timedelta(seconds=seconds) if seconds else timedelta(hours=-1 if expired else hours)
    click.echo(mint_token(settings, role, user, utc_now() + life, application))
    if seconds and settings.token_leeway:
        click.echo(f"the service accepts it for {settings.token_leeway} s more: CARE_TOKEN_LEEWAY", err=True)
    if key.exists() and not is_old_key:
        click.echo(f"created {key}: a service with another CARE_VAR rejects this token", err=True)


@token.command()
@click.argument("words", nargs=-1, metavar="")
def check(words: tuple[str, ...]) -> None:
    """Read a token from standard input, and print whether the service accepts it or why it does not.

    Uses the settings, keys and accounts of the service. Prints neither the token nor the person. The exit
    code is 0 if the token is accepted, 1 if it is rejected, and 2 if it cannot be checked.
    """
    if words:  # the default error would print them
        raise click.UsageError("give the token on standard input: other users can see command lines")
    from app.main import keys_for

    settings = settings_or_warn()
    authorization = read_authorization()
    verifier = Verifier(settings, keys_for(settings))
    try:
        identity = asyncio.run(verifier.identity(token_in(authorization), utc_now()))
        read_database(settings, finding_account(identity))
    except CannotVerify:
        raise
    except CareError as error:
        reason = Reason(error.reason or "")
        click.echo(f"refused: {reason}\n{EXPLANATIONS[reason]}")
        raise SystemExit(1) from None
    minutes = max(0, round((identity.expiry - utc_now().timestamp()) / 60))
    click.echo(f"accepted: role {identity.role}, the account is enabled, expires in {minutes} min")


def read_authorization() -> str:
    """Accepts the token alone, with its scheme, or as the whole header."""
    text = sys.stdin.buffer.read(MAX_INPUT).decode("latin-1").strip()
    name, _, value = text.partition(":")
    if name.strip().lower() == "authorization":
        text = value.strip()
    if not text:
        raise click.UsageError("there is no token on standard input")
    return text if text.lower().startswith("bearer ") else f"bearer {text}"
