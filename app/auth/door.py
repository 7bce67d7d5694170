"""Where requests come in: from an Authorization header to a context with its viewer."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from app.auth.keys import Key
from app.auth.tokens import Identity, Verifier
from app.care.allowance import Allowances
from app.care.context import Context, Role, Viewer, utc_now
from app.care.errors import NotAllowed, NotSignedIn
from app.db.audit.records import Recorder
from app.db.drivers import Database
from app.db.entities import Table, table_of
from app.db.statements import Operation, Statement, text_parameter
from app.db.tables import Caregiver, Client, Contract


def find_account(table: Table) -> Statement:
    account = table_of(table).c
    return Statement(
        lambda kind: select(account.id, account.is_disabled).where(
            account.user_name == text_parameter("user")
        )
    )


ACCOUNT = {Role.CAREGIVER: find_account(Caregiver), Role.CLIENT: find_account(Client)}


def viewer_for(identity: Identity) -> Operation[Viewer]:
    found = yield ACCOUNT[identity.role], {"user": identity.user}
    if not found or found[0][1]:
        raise NotAllowed("there is no enabled account for this token")
    return Viewer(identity.role, found[0][0])


def token_in(authorization: str) -> str:
    match = re.fullmatch(r"bearer +([^ ]+) *", authorization, re.IGNORECASE)
    if match is None:
        raise NotSignedIn("the Authorization header must read: bearer <token>")
    return match[1]


# An account that is disabled is shut this much later at most (docs/decisions/0009).
ACCOUNT_SECONDS = 5


@dataclass(frozen=True)
class Entered:
    """Who came in by an Authorization header, and how long that need not be asked again."""

    viewer: Viewer
    application: str
    until: float
    keys: list[Key]


@dataclass(frozen=True)
class Door:
    """Where requests of both contracts come in."""

    db: Database
    recorder: Recorder | None  # of the audit trail
    verifier: Verifier
    time_zone: str
    clock: Callable[[], datetime] = utc_now
    allowances: Allowances | None = None
    entered: dict[str, Entered] = field(default_factory=dict, compare=False)

    async def open(
        self, authorization: str | None, request_id: str, contract: Contract = Contract.GRAPHQL
    ) -> Context:
        """The context of a request. Without a token there is no viewer; a bad token is refused."""
        now = self.clock()
        viewer, application = (None, "") if authorization is None else await self.enter(authorization, now)
        return Context(
            viewer,
            self.db,
            now,
            request_id,
            self.time_zone,
            contract=contract,
            recorder=self.recorder,
            allowance=self.allowances.of(viewer, now) if self.allowances and viewer else None,
            application=application,
        )

    async def enter(self, authorization: str, now: datetime) -> tuple[Viewer, str]:
        """Who asks, and by which application."""
        known = self.entered.get(authorization)
        if known and now.timestamp() < known.until and known.keys is self.verifier.keys.keys:
            return known.viewer, known.application
        token = token_in(authorization)
        identity = await self.verifier.identity(token, now)
        viewer = await self.db.read(viewer_for(identity))
        self.remember(authorization, token, viewer, now)
        return viewer, identity.application

    async def end_of(self, authorization: str, now: datetime) -> float:
        """Until when its token is taken."""
        identity = await self.verifier.identity(token_in(authorization), now)
        return identity.expiry + self.verifier.settings.token_leeway

    def remember(self, authorization: str, token: str, viewer: Viewer, now: datetime) -> None:
        """For a moment, and no longer than the token itself is remembered."""
        verified = self.verifier.remembered.get(token)
        keys = self.verifier.keys.keys
        if verified is None or keys is not self.verifier.remembered_keys:  # they changed just now
            return
        self.entered.pop(authorization, None)
        while len(self.entered) >= self.verifier.settings.token_cache:
            del self.entered[next(iter(self.entered))]  # the oldest
        until = min(verified[1], now.timestamp() + ACCOUNT_SECONDS)
        self.entered[authorization] = Entered(viewer, verified[0].application, until, keys)
