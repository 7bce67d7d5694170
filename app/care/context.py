"""Who is asking, of which database, at what moment: the first argument of every care function."""

from asyncio import Future
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar

from app.care.allowance import Allowance
from app.care.errors import CareError, NotAllowed, NotSignedIn
from app.care.idempotency import IdempotentRequest, performing_once
from app.care.sessions.identifiers import IdentifierTries
from app.db.audit.records import DONE, About, Record, Recorder, about_answers, as_text, recorded
from app.db.drivers.interface import Database
from app.db.reader.selection import AccessScope
from app.db.sql import Operation
from app.db.tables import AuditActor, Contract

Result = TypeVar("Result")
Named = Mapping[str, list[int]]  # ids by the kind of row, as the audit trail names kinds
NOTHING_NAMED: Named = {}


def utc_now() -> datetime:
    return datetime.now(UTC)


class Role(StrEnum):
    CAREGIVER = "CAREGIVER"
    CLIENT = "CLIENT"


@dataclass(frozen=True)
class Viewer:
    role: Role
    id: int


@dataclass(eq=False)  # not frozen: every request would pay a microsecond for what nobody does
class Context:
    viewer: Viewer | None
    db: Database
    now: datetime
    request_id: str
    time_zone: str  # of the legacy wall times, and of the days and weeks that are counted by
    idempotent_request: IdempotentRequest | None = None  # of a change with an Idempotency-Key
    repeats_within: timedelta | None = None  # how soon the same homework is taken for a repetition
    contract: Contract = Contract.GRAPHQL
    recorder: Recorder | None = None  # of the audit trail; none where nothing is recorded
    allowance: Allowance | None = None  # how much the viewer may still ask for; None: any number
    tries: IdentifierTries | None = None  # of client identifiers; None: any number
    application: str = ""  # the software that asks, as its token names it
    sealing: Future[bool] | None = None  # of the audit trail, by this request; whether more is to be sealed

    async def read(self, what: str, access: AccessScope, operation: Operation[Result]) -> Result:
        """What may show a person's answers. If it did, that is on record before anybody hears of them."""
        result = await self.db.read(operation)
        if access.shown:
            if self.idempotent_request is not None:
                self.idempotent_request.shows_answers = True
            if self.recorder is not None:
                await self.record(what, about_answers(access.shown))
        return result

    async def write(self, what: str, operation: Operation[Result]) -> Result:
        """One change and its record, in one transaction. A refusal is recorded by itself."""
        if self.recorder is None:
            return await self.write_once(operation)
        try:
            return await self.write_once(recorded(operation, partial(self.record_of, what, DONE)))
        except CareError as refusal:
            await self.record(what, [], refusal.code)
            raise

    async def write_once(self, operation: Operation[Result]) -> Result:
        """A request with an Idempotency-Key has one change; a repetition gets the stored result."""
        request = self.idempotent_request
        if request is None:
            return await self.db.write(operation)
        assert request.outcome is None
        result, request.outcome = await self.db.write(performing_once(request, self.now, operation))
        return result

    async def record(self, what: str, about: About, outcome: str = DONE) -> None:
        if self.recorder is not None:
            await self.recorder.keep(self.record_of(what, outcome, about))

    async def refused(self, what: str, refusal: CareError, named: Named = NOTHING_NAMED) -> CareError:
        """The refusal of a read, for the caller to raise. It is on record before it is answered, with the ids
        that were named; of many refusals in a minute only their number is."""
        if self.recorder is not None:
            about: About = [(None, None, dict(named))] if named else []
            await self.recorder.refusals.keep(self.record_of(what, refusal.code, about))
        return refusal

    async def admit(self, role: Role, what: str, named: Named = NOTHING_NAMED) -> int:
        """The viewer's id, if the viewer holds the role that `what` needs; the refusal is on record."""
        try:
            return self.signed_in_as(role)
        except NotAllowed as refusal:
            raise await self.refused(what, refusal, named) from None

    def record_of(self, what: str, outcome: str, about: About) -> Record:
        viewer = self.signed_in()
        actor = AuditActor(viewer.role)
        return Record(
            self.now, actor, viewer.id, self.contract, what, outcome, as_text(about), self.request_id
        )

    def spend(self, cost: int) -> None:
        """Count what is asked for; refused where it has become too much."""
        if self.allowance is not None:
            self.allowance.spend(cost)

    def signed_in(self) -> Viewer:
        if self.viewer is None:
            raise NotSignedIn("sign in with a valid bearer token")
        return self.viewer

    def signed_in_as(self, role: Role) -> int:
        """The viewer's id, if the viewer holds this role."""
        viewer = self.signed_in()
        if viewer.role is not role:
            raise NotAllowed(f"only a {role.lower()} may do this")
        return viewer.id

    def access(self) -> AccessScope:
        """Whose rows the viewer may see: their own, on either side of the relationship."""
        viewer = self.signed_in()
        if viewer.role is Role.CAREGIVER:
            return AccessScope(self.now, caregiver=viewer.id, time_zone=self.time_zone)
        return AccessScope(self.now, client=viewer.id, time_zone=self.time_zone)

    def access_as(self, role: Role) -> AccessScope:
        """The same, if the viewer holds this role."""
        self.signed_in_as(role)
        return self.access()
