"""Development only: a generated key pair, and tokens signed with it."""

import os
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

from app.settings import Settings, SettingsError

KEY_FILE = "development-key.pem"


def has_own_keys(settings: Settings) -> bool:
    """Whether the service uses its own key pair: in development without a configured key."""
    given = settings.token_key or settings.token_jwks or settings.token_secret
    return settings.in_development and not given


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
    settings: Settings, role: str, user: str, now: datetime, hours: int = 24, application: str = "development"
) -> str:
    """Signs a token with the same claims as the old service."""
    claims = {
        "exp": now + timedelta(hours=hours),
        "user_name": user,
        "authorities": [role],
        "jti": str(uuid.uuid4()),
        "client_id": application,
        "scope": ["read", "write"],
    }
    if has_own_keys(settings):
        return jwt.encode(claims, private_key(settings), algorithm="RS256")
    if settings.in_development and settings.token_secret:
        return jwt.encode(claims, settings.token_secret, algorithm="HS256")
    raise SettingsError(
        "tokens can be minted only with CARE_ENV=development and without CARE_TOKEN_KEY and CARE_TOKEN_JWKS"
    )


def reject_own_key(settings: Settings, keys: Iterable[object]) -> None:
    """Rejects the development key in production: a copy of CARE_VAR would allow signing in as anyone."""
    path = Path(settings.var) / KEY_FILE
    if settings.in_development or not path.exists():
        return
    own = private_key(settings).public_key()
    if any(key == own for key in keys):
        raise SettingsError(f"the development key at {path} cannot verify tokens in production")
