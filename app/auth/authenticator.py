"""Authenticates a request: turns its Authorization header into a context with a viewer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from app.auth.keys import Key
from app.auth.refusals import Reason, refusal_for
from app.auth.tokens import MAX_TOKEN, Identity, Verifier
from app.care.context import Context, Role, Viewer, utc_now
from app.care.errors import CareError
from app.care.rate_limits import Allowances, IdentifierLimiter
from app.db.audit.recorder import Recorder
from app.db.drivers.interface import Database
from app.db.sql import Operation
from app.db.statements.accounts import FIND_CAREGIVER, FIND_CLIENT
from app.db.tables import Contract

FIND_ACCOUNT = {Role.CAREGIVER: FIND_CAREGIVER, Role.CLIENT: FIND_CLIENT}


def viewer_for(identity: Identity) -> Operation[Viewer]:
    found = yield FIND_ACCOUNT[identity.role], {"user": identity.user}
    if not found:
        raise refusal_for(Reason.UNKNOWN_ACCOUNT)
    if found[0][1]:
        raise refusal_for(Reason.DISABLED_ACCOUNT)
    return Viewer(identity.role, found[0][0])


def token_in(authorization: str) -> str:
    """RFC 6750: the scheme in any case, one or more spaces, the token."""
    scheme, _, rest = authorization.partition(" ")
    token = rest.strip(" ")
    if scheme.lower() != "bearer" or not token or " " in token:
        raise refusal_for(Reason.HEADER)
    if len(token) > MAX_TOKEN:
        raise refusal_for(Reason.MALFORMED)
    return token


# A disabled account is rejected after this time at most (docs/decisions/0009).
ACCOUNT_CACHE_SECONDS = 5


@dataclass(frozen=True)
class AcceptedToken:
    """The cached viewer of a token. Until `until` the account is not read again."""

    viewer: Viewer
    application: str
    expiry: float  # of the token, by the wall clock
    until: float  # by the monotonic clock
    keys: list[Key]


@dataclass(frozen=True)
class Authenticator:
    """Authenticates the requests of both contracts."""

    db: Database
    recorder: Recorder | None  # of the audit log
    verifier: Verifier
    time_zone: str
    clock: Callable[[], datetime] = utc_now
    allowances: Allowances | None = None
    identifier_limiter: IdentifierLimiter | None = None
    ticks: Callable[[], float] = time.monotonic
    accepted: dict[str, AcceptedToken] = field(default_factory=dict, compare=False)  # by token

    async def open(
        self, authorization: str | None, request_id: str, contract: Contract = Contract.GRAPHQL
    ) -> Context:
        """Returns the context of a request. Without a token it has no viewer; an invalid token is
        rejected."""
        now = self.clock()
        viewer, application = None, ""
        if authorization is not None:
            try:
                viewer, application = await self.authenticate(token_in(authorization), now)
            except CareError as refusal:
                self.verifier.refusals.note(refusal, request_id)
                raise
        return Context(
            viewer,
            self.db,
            now,
            request_id,
            self.time_zone,
            contract=contract,
            recorder=self.recorder,
            allowance=self.allowances.of(viewer) if self.allowances and viewer else None,
            identifier_limiter=self.identifier_limiter,
            application=application,
        )

    async def authenticate(self, token: str, now: datetime) -> tuple[Viewer, str]:
        """Returns the viewer and the application."""
        known = self.accepted.get(token)
        if (
            known
            and self.ticks() < known.until
            and now.timestamp() < known.expiry
            and known.keys is self.verifier.keys.keys
        ):
            return known.viewer, known.application
        since = self.ticks()
        identity = await self.verifier.identity(token, now)
        viewer = await self.db.read(viewer_for(identity))
        self.cache(token, viewer, since)
        return viewer, identity.application

    async def identity_of(self, authorization: str, now: datetime) -> Identity:
        return await self.verifier.identity(token_in(authorization), now)

    def cache(self, token: str, viewer: Viewer, since: float) -> None:
        """Caches the viewer for ACCOUNT_CACHE_SECONDS, but no longer than the verified token."""
        verified = self.verifier.cached.get(token)
        keys = self.verifier.keys.keys
        if verified is None or keys is not self.verifier.cached_keys:  # the keys have just changed
            return
        self.accepted.pop(token, None)
        while len(self.accepted) >= self.verifier.settings.token_cache:
            del self.accepted[next(iter(self.accepted))]  # the oldest
        identity, until = verified
        until = min(until, since + ACCOUNT_CACHE_SECONDS)
        self.accepted[token] = AcceptedToken(viewer, identity.application, identity.expiry, until, keys)
