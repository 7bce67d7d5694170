"""Authenticates a request: turns its Authorization header into a context with a viewer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Integer, Table, cast, func, select

from app.auth.keys import Key
from app.auth.rejections import Reason, rejection_for
from app.auth.tokens import MAX_TOKEN, Identity, Verifier, weight_of
from app.caches import BoundedCache
from app.care.budgets import Budget, Budgets, IdentifierLimiter
from app.care.context import Context, Role, Viewer, utc_now
from app.care.errors import CareError
from app.db.audit.recorder import AuditRecorder
from app.db.drivers.interface import Database
from app.db.sql import NUMBER, Batchable, Statement, Steps, text_parameter
from app.db.statements.switch import IS_WAITING
from app.db.tables import CAREGIVER, CLIENT, Contract


def find_account(table: Table) -> Statement:
    """Returns one row, also if there is no account: for a batch. User names are unique."""
    is_disabled = func.max(cast(table.c.is_disabled, Integer))
    found = select(NUMBER, func.max(table.c.id), is_disabled, IS_WAITING)
    return Statement(found.where(table.c.user_name == text_parameter("user")))


FIND_ACCOUNT = {Role.CAREGIVER: find_account(CAREGIVER), Role.CLIENT: find_account(CLIENT)}


def finding_account(identity: Identity) -> Steps[tuple[Viewer, bool]]:
    """The viewer, and whether changes are rejected because people use the old service."""
    [row] = yield Batchable(FIND_ACCOUNT[identity.role], {"user": identity.user, "number": 0})
    return viewer_in(row, identity), bool(row[3])


def finding_viewer(identity: Identity) -> Steps[Viewer]:
    """As one of several statements."""
    [row] = yield FIND_ACCOUNT[identity.role], {"user": identity.user, "number": 0}
    return viewer_in(row, identity)


def viewer_in(row: Sequence[Any], identity: Identity) -> Viewer:
    _, person, is_disabled, _ = row
    if person is None:
        raise rejection_for(Reason.UNKNOWN_ACCOUNT)
    if is_disabled:
        raise rejection_for(Reason.DISABLED_ACCOUNT)
    return Viewer(identity.role, person)


def token_in(authorization: str) -> str:
    """RFC 6750: the scheme in any case, one or more spaces, the token."""
    scheme, _, rest = authorization.partition(" ")
    token = rest.strip(" ")
    if scheme.lower() != "bearer" or not token or " " in token:
        raise rejection_for(Reason.HEADER)
    if len(token) > MAX_TOKEN:
        raise rejection_for(Reason.MALFORMED)
    return token


USUAL = ("Bearer ", "bearer ")  # of other forms the token is verified each time
# After this time at most a disabled account is rejected (docs/decisions/0009), and a switch is known.
ACCOUNT_CACHE_SECONDS = 5
RENEWAL_SECONDS = 1


@dataclass
class AcceptedToken:
    """The cached viewer of a token. The first request after `until` reads the account again, and `until`
    becomes `last`, so that the requests beside it do not read it too."""

    token: str
    viewer: Viewer
    is_read_only: bool
    budget: Budget
    application: str
    expiry: float  # of the token, by the wall clock
    until: float  # by the monotonic clock, like `last`
    last: float
    keys: list[Key]


@dataclass(eq=False)
class Authenticator:
    """Authenticates the requests of both contracts."""

    db: Database
    recorder: AuditRecorder | None  # of the audit log
    verifier: Verifier
    time_zone: str
    clock: Callable[[], datetime] = utc_now
    budgets: Budgets = field(default_factory=Budgets)
    identifier_limiter: IdentifierLimiter | None = None
    ticks: Callable[[], float] = time.monotonic
    accepted: BoundedCache[AcceptedToken] = field(init=False)  # by token

    def __post_init__(self) -> None:
        self.accepted = BoundedCache(self.verifier.settings.token_cache)

    async def open(
        self,
        authorization: str | None,
        request_id: str,
        contract: Contract = Contract.GRAPHQL,
        account: AcceptedToken | None = None,
    ) -> Context:
        """Returns the context of a request: without a token it has no viewer. Rejects an invalid token. The
        server may have found the account of the token already."""
        now = self.clock()
        if account is None and authorization is not None and authorization.startswith(USUAL):
            account = self.accepted.get(authorization[7:])
        is_known = (
            account is not None
            and self.ticks() < account.until
            and now.timestamp() < account.expiry
            and account.keys is self.verifier.keys.keys
        )
        if not is_known and (account is not None or authorization is not None):
            try:
                if account is not None:
                    account.until = account.last
                token = account.token if account else token_in(authorization or "")
                account = await self.authenticate(token, now)
            except CareError as rejection:
                if account is not None:
                    self.accepted.remove(account.token)
                self.verifier.rejections.note(rejection, request_id)
                raise
        return Context(
            account.viewer if account else None,
            self.db,
            now,
            request_id,
            self.time_zone,
            contract=contract,
            recorder=self.recorder,
            budget=account.budget if account else Budget(),
            identifier_limiter=self.identifier_limiter,
            application=account.application if account else "",
            is_read_only=account.is_read_only if account else False,
        )

    async def authenticate(self, token: str, now: datetime) -> AcceptedToken:
        since = self.ticks()
        identity = await self.verifier.identity(token, now)
        keys = self.verifier.keys.keys  # they may change during the read
        viewer, is_read_only = await self.db.read(finding_account(identity))
        budget = self.budgets.of(viewer)
        last = since + ACCOUNT_CACHE_SECONDS
        account = AcceptedToken(
            token,
            viewer,
            is_read_only,
            budget,
            identity.application,
            identity.expiry,
            last - RENEWAL_SECONDS,
            last,
            keys,
        )
        if self.verifier.settings.token_cache:
            self.accepted.put(token, account, weight_of(token))
        return account

    async def identity_of(self, authorization: str, now: datetime) -> Identity:
        return await self.verifier.identity(token_in(authorization), now)
