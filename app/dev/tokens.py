"""Development only: a generated key pair, tokens signed with it, and which visitors get them."""

import os
import re
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from starlette.types import Scope

from app.auth.key_sources import is_loopback
from app.care.context import Role, utc_now
from app.dev.quickstart import DEMO_USERS
from app.http.cors import LOCAL_HOST
from app.http.messages import header
from app.settings import Settings, SettingsError

KEY_FILE = "development-key.pem"
PROXY_HEADERS = (
    b"forwarded",
    b"via",
    b"x-forwarded-",
    b"x-real-ip",
    b"x-client-ip",
    b"true-client-ip",
    b"cf-",
)


def has_own_keys(settings: Settings) -> bool:
    """Whether the service uses its own key pair: in development without a configured key."""
    given = settings.token_key or settings.token_jwks or settings.token_secret
    return settings.in_development and not given


def has_key_file(settings: Settings) -> bool:
    """Returns False if this user may not enter the folder; `Path.exists` raises before Python 3.14."""
    return os.path.exists(Path(settings.var) / KEY_FILE)


def private_key(settings: Settings) -> rsa.RSAPrivateKey:
    """Loads the key pair under CARE_VAR, or creates it."""
    path = Path(settings.var) / KEY_FILE
    try:
        if not path.exists():
            make_key_file(path)
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise SettingsError(f"the development key at {path} cannot be created or read: {error}") from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise SettingsError(f"the development key at {path} cannot be used; remove it")
    return key


def make_key_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    new = path.with_suffix(f".{os.getpid()}")  # processes that start at once must share one key
    new.touch(mode=0o600)
    new.write_bytes(pem)
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()


def public_key(settings: Settings) -> str:
    public = private_key(settings).public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def mint_token(
    settings: Settings, role: str, user: str, expires: datetime, application: str = "development"
) -> str:
    """Signs a token with the claims that the settings require; by default those of the old service."""
    claims = {
        "exp": expires,
        "jti": str(uuid.uuid4()),
        "client_id": application,
        "scope": ["read", "write"],
        settings.claim_user: user,
        settings.claim_role: [role],
    }
    if settings.token_issuer:
        claims["iss"] = settings.token_issuer
    if settings.token_audience:
        claims["aud"] = settings.token_audience
    if has_own_keys(settings):
        return jwt.encode(claims, private_key(settings), algorithm="RS256")
    if settings.in_development and settings.token_secret:
        return jwt.encode(claims, settings.token_secret, algorithm="HS256")
    raise SettingsError(
        "tokens can be minted only with CARE_ENV=development and without CARE_TOKEN_KEY and CARE_TOKEN_JWKS"
    )


def reject_own_key(settings: Settings, keys: Iterable[object]) -> None:
    """Rejects the development key in production: a copy of CARE_VAR would allow signing in as anyone."""
    if settings.in_development or not has_key_file(settings):
        return
    own = private_key(settings).public_key()
    if any(key == own for key in keys):
        path = Path(settings.var) / KEY_FILE
        raise SettingsError(f"the development key at {path} cannot verify tokens in production")


# --- demo tokens ----------------------------------------------------------------------------------


def demo_tokens(settings: Settings) -> dict[Role, str]:
    """Uses the system clock, because tokens are verified against it."""
    expires = utc_now() + timedelta(hours=24)
    return {role: mint_token(settings, role, user, expires) for role, user in DEMO_USERS.items()}


def tokens_for_visitor(settings: Settings, scope: Scope) -> dict[Role, str]:
    return demo_tokens(settings) if has_own_keys(settings) and is_local(scope) else {}


def is_local(scope: Scope) -> bool:
    """Whether the visitor is on this machine, the Host header is local, and no proxy forwarded the request.

    The Host check prevents DNS rebinding: a page of another site could resolve its own name to this machine.
    A proxy or tunnel on this machine connects from a local address for visitors from everywhere.
    """
    if any(name.startswith(PROXY_HEADERS) for name, _ in scope["headers"]):
        return False
    if not re.fullmatch(LOCAL_HOST, header(scope, b"host") or "", re.IGNORECASE):
        return False
    client = scope.get("client")
    return client is not None and is_loopback(client[0])
