"""The keys that verify tokens: PEM, a key set, or a secret in development. Changed keys are reloaded."""

import json
import logging
import math
import re
import time
from asyncio import Task, create_task, to_thread, wait
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from app.auth.key_sources import FETCH_SECONDS, fetch, is_insecure, read_file
from app.care.errors import CannotVerify
from app.settings import Settings, SettingsError

USABLE = "an RSA key of at least 2048 bits or an EC key on P-256"
NO_PEM = "CARE_TOKEN_KEY must contain PEM public keys; one is missing, damaged or of another kind"
PRIVATE = "CARE_TOKEN_KEY contains a private key, which only the issuer may have; use its public key"
NO_KEY_SET = "CARE_TOKEN_JWKS is not a JSON Web Key Set"
INSECURE = "CARE_TOKEN_JWKS must be a path, an https:// URL, or an http:// URL of this machine"
PEM_BLOCK = re.compile(r"-----BEGIN ((?:RSA )?PUBLIC KEY)-----[^-]*-----END \1-----")
MIN_SECRET_BYTES = 32
KEY_FILE_SECONDS = 5  # after which a key file is read again
KEY_SET_SECONDS = 300  # after which the key set of an issuer is fetched again
KEY_SET_GRACE = 60  # for which an old key set stays in use while a new one is fetched
KEY_SET_PAUSE = 10  # between two fetches for unknown `kid`s
WAIT_SECONDS = FETCH_SECONDS + 1  # how long a request waits for a fetch
MAX_WAITING = 16  # requests that wait for a fetch, of CARE_MOST_REQUESTS
KEY_SET_ALGORITHMS = ("RS256", "ES256")

logger = logging.getLogger("care.auth")


@dataclass(frozen=True)
class Key:
    """A key and the one algorithm that it verifies: a token must not choose the algorithm."""

    kid: str | None
    algorithm: str
    material: Any


@dataclass(frozen=True)
class Source:
    """Where keys are read from, how they are parsed, and for how long they are used."""

    load: Callable[[], bytes]
    parse: Callable[[bytes], list[Key]]
    seconds: float = math.inf
    grace: float = 0


class KeySet:
    """The keys that verify tokens. One task at a time reloads them: when they are old, and when a token names
    an unknown `kid`. Requests with an unknown `kid` wait for it, at most MAX_WAITING at once.

    `keys` is replaced by a new list only when the keys change, so caches compare lists with `is`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.ticks = time.monotonic
        self.text = source.load()
        self.keys = source.parse(self.text)
        self.read_at = self.ticks()
        self.is_failing = False
        self.reading: Task[None] | None = None
        self.waiting = 0

    async def refresh(self) -> None:
        """Starts a reload if the keys are old. Requests meanwhile use the old keys during the grace period.

        After it the request that starts the reload waits, so that a key which the issuer has withdrawn
        verifies no further token. It does not wait if the previous fetch failed. For a file, which is read
        in no time, those beside it wait too.
        """
        source, age = self.source, self.ticks() - self.read_at
        if age <= source.seconds or (self.is_reading() and source.grace > 0):
            return
        has_failed = self.is_failing and source.grace > 0
        reading = self.reading if self.is_reading() else self.start_reading()
        assert reading is not None
        if age > source.seconds + source.grace and not has_failed:
            await wait({reading}, timeout=WAIT_SECONDS)

    def matching(self, kid: str | None, algorithm: str) -> list[Key]:
        """All keys of the algorithm if the token has no `kid`, like sample tokens of the old service."""
        return [
            key
            for key in self.keys
            if key.algorithm == algorithm and (kid is None or key.kid is None or key.kid == kid)
        ]

    def may_add(self, algorithm: str) -> bool:
        """Whether a reload can add a key for this algorithm."""
        return self.source.seconds < math.inf and algorithm in KEY_SET_ALGORITHMS

    async def fetch_unknown(self) -> None:
        """Reloads the keys for a token with an unknown `kid`, at most once in KEY_SET_PAUSE seconds."""
        reading = self.reading
        if reading is None or reading.done():
            if self.ticks() - self.read_at < KEY_SET_PAUSE:
                return
            reading = self.start_reading()
        if self.waiting >= MAX_WAITING:
            raise CannotVerify
        self.waiting += 1
        try:
            _, unfinished = await wait({reading}, timeout=WAIT_SECONDS)
        finally:
            self.waiting -= 1
        if unfinished:
            raise CannotVerify

    def is_reading(self) -> bool:
        return self.reading is not None and not self.reading.done()

    def start_reading(self) -> Task[None]:
        # Not in the turns of this caller, because all callers wait for it.
        self.reading = create_task(self.read(), context=Context())
        return self.reading

    async def read(self) -> None:
        """Reloads the keys. The time until the next reload counts from the end of this one."""
        try:
            text = await to_thread(self.source.load)
            if text != self.text:
                self.keys, self.text = self.source.parse(text), text
                logger.info("the keys that verify tokens have changed; there are %d now", len(self.keys))
            self.is_failing = False
        except SettingsError as rejection:
            # An unavailable issuer or a half-written file must not lock all users out.
            if not self.is_failing:
                logger.warning("%s; the previous keys stay in use", rejection)
            self.is_failing = True
        except Exception:
            logger.exception("the keys that verify tokens cannot be read; the previous keys stay in use")
            self.is_failing = True
        finally:
            self.read_at = self.ticks()


def open_keys(settings: Settings) -> KeySet:
    given = [name for name in ("token_key", "token_jwks", "token_secret") if getattr(settings, name)]
    if not given:
        raise SettingsError(
            "no key to verify tokens with: set CARE_TOKEN_KEY or CARE_TOKEN_JWKS (or CARE_ENV=development)"
        )
    if len(given) > 1:
        names = " and ".join(f"CARE_{name.upper()}" for name in given)
        raise SettingsError(f"{names} cannot be combined; set only one of them")
    return KeySet(source_of(settings))


def source_of(settings: Settings) -> Source:
    if address := settings.token_jwks:
        if not address.startswith(("http://", "https://")):
            return Source(
                lambda: read_file(address, "CARE_TOKEN_JWKS", "JSON Web Key Set"),
                keys_of_set,
                KEY_FILE_SECONDS,
            )
        if not settings.in_development and is_insecure(address):
            raise SettingsError(INSECURE)
        return Source(lambda: fetch(address), keys_of_set, KEY_SET_SECONDS, KEY_SET_GRACE)
    if settings.token_secret:
        key = secret_key(settings)
        return Source(lambda: b"", lambda _: [key])
    given = settings.token_key
    if "-----BEGIN" in given:
        return Source(given.encode, pem_keys)
    return Source(lambda: read_file(given, "CARE_TOKEN_KEY", "PEM file"), pem_keys, KEY_FILE_SECONDS)


def secret_key(settings: Settings) -> Key:
    if not settings.in_development:
        raise SettingsError(
            "CARE_TOKEN_SECRET is for development only; set CARE_TOKEN_KEY or CARE_TOKEN_JWKS"
        )
    if len(settings.token_secret.encode()) < MIN_SECRET_BYTES:
        raise SettingsError(f"CARE_TOKEN_SECRET must have at least {MIN_SECRET_BYTES} bytes")
    return Key(None, "HS256", settings.token_secret)


def pem_keys(pem: bytes) -> list[Key]:
    """Reads one or more keys: during a rotation, old and new keys are valid. Other text is ignored."""
    text = pem.decode(errors="replace")
    if "PRIVATE KEY-----" in text:
        raise SettingsError(PRIVATE)
    blocks = [found[0] for found in PEM_BLOCK.finditer(text)]
    if not blocks or len(blocks) != text.count("-----BEGIN"):
        raise SettingsError(NO_PEM)
    return [pem_key(block) for block in blocks]


def pem_key(pem: str) -> Key:
    try:
        material = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(NO_PEM) from None
    algorithm = algorithm_of(material)
    if algorithm is None:
        raise SettingsError(f"CARE_TOKEN_KEY must hold {USABLE}")
    return Key(None, algorithm, material)


def algorithm_of(material: Any) -> str | None:
    if isinstance(material, rsa.RSAPublicKey) and material.key_size >= 2048:
        return "RS256"
    if isinstance(material, ec.EllipticCurvePublicKey) and isinstance(material.curve, ec.SECP256R1):
        return "ES256"
    return None


# --- key sets -------------------------------------------------------------------------------------


def keys_of_set(text: bytes) -> list[Key]:
    try:
        entries = [entry for entry in json.loads(text)["keys"] if entry.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SettingsError(NO_KEY_SET) from None
    keys = [key for entry in entries if (key := key_of(entry)) is not None]
    if not keys:
        raise SettingsError(f"CARE_TOKEN_JWKS must hold {USABLE}")
    return keys


def key_of(entry: Mapping[str, Any]) -> Key | None:
    """Ignores keys of other kinds, as RFC 7517 requires."""
    try:
        key = jwt.PyJWK(dict(entry))
    except (ValueError, TypeError, KeyError, jwt.PyJWTError):
        return None
    algorithm = algorithm_of(key.key)
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    return Key(key.key_id, algorithm, key.key)
