"""The viewer, database and moment of a request: the first argument of every care function."""

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from math import inf
from typing import TypeVar

from app.care.budgets import KIB, POINTS_PER_STORED_KIB, Budget, IdentifierLimiter
from app.care.errors import CareError, NotAllowed, NotSignedIn, ReadOnly, ResponseTooLong
from app.care.idempotency import IdempotentRequest, performing_once
from app.db.audit.recorder import MORE_REJECTED_CHANGES, AuditRecorder
from app.db.audit.records import DONE, About, Record, about_answers, as_text, recorded
from app.db.drivers.interface import Database, DatabaseUnavailable, OutcomeUnknown, to_the_end
from app.db.reader.document import MAX_DOCUMENT, ReadTooLong
from app.db.reader.reads import Row
from app.db.reader.selection import AccessScope, Selection
from app.db.sql import Repeatable, Steps
from app.db.tables import AuditActor, Contract

Result = TypeVar("Result")
RowIds = Mapping[str, list[int]]  # by kind of row, as the audit log names kinds
NO_ROWS: RowIds = {}
CHANGED = "the change was made, but the database cannot return its result now"


def utc_now() -> datetime:
    return datetime.now(UTC)


class Role(StrEnum):
    CAREGIVER = "CAREGIVER"
    CLIENT = "CLIENT"


@dataclass(frozen=True)
class Viewer:
    role: Role
    id: int


@dataclass(eq=False)  # not frozen: a frozen dataclass takes a microsecond longer to create
class Context:
    viewer: Viewer | None
    db: Database
    now: datetime
    request_id: str
    time_zone: str  # of legacy wall times, and of the weeks of a progress report
    idempotent_request: IdempotentRequest | None = None  # of a change with an Idempotency-Key
    repeats_within: timedelta | None = None  # within this time, the same homework is a retry
    contract: Contract = Contract.GRAPHQL
    recorder: AuditRecorder | None = None  # of the audit log; None: it is off
    budget: Budget = field(default_factory=Budget)  # of the viewer; by default without a limit
    identifier_limiter: IdentifierLimiter | None = None  # None: no limit
    application: str = ""  # the client software that the token names
    is_read_only: bool = False  # people still use the old service
    has_changed: bool = False  # a change of this request is committed
    expected_length: float = inf  # of the response in bytes, at most and roughly; inf: unknown
    exempt_length: int = 0  # bytes of the response that have their own limit
    deprecated: tuple[str, ...] = ()  # schema coordinates that the operation uses
    sealing: Future[bool] | None = None  # of the audit log, once a request; True: more records wait

    async def read(self, what: str, access: AccessScope, steps: Steps[Result]) -> Result:
        """Runs a read. If it returned answers, records that before the response is sent."""
        try:
            result = await self.db.read(steps)
            if access.shown:
                if self.idempotent_request is not None:
                    self.idempotent_request.shows_answers = True
                if self.recorder is not None:
                    await self.record(what, about_answers(access.shown.values()))
        except DatabaseUnavailable as fault:
            if self.has_changed:  # "nothing was changed" would be wrong
                raise OutcomeUnknown(CHANGED) from fault.__cause__
            raise
        except ReadTooLong:
            raise self.too_long(MAX_DOCUMENT, "request less at once") from None
        return result

    async def write(self, what: str, steps: Repeatable[Result]) -> Result:
        """Writes one change and its audit record in one transaction. A rejection is recorded on its own; of
        many in a minute only the number is recorded."""
        try:
            if self.is_read_only:
                raise ReadOnly
            if self.recorder is not None:
                steps = recorded(steps, partial(self.record_of, what, DONE))
            result = await self.write_once(steps)
        except CareError as rejection:
            if self.recorder is not None:
                rejected = self.record_of(what, rejection.code, [])
                await self.recorder.rejections.keep(rejected, MORE_REJECTED_CHANGES)
            raise
        self.has_changed = True
        return result

    async def write_once(self, steps: Repeatable[Result]) -> Result:
        """A request with an Idempotency-Key has one change; a repetition gets the stored result."""
        request = self.idempotent_request
        if request is None:
            return await self.db.write(steps)
        assert request.outcome is None
        result, outcome = await self.db.write(performing_once(request, self.now, steps))
        request.outcome = outcome
        return result

    async def record(self, what: str, about: About) -> None:
        if self.recorder is not None:
            await self.recorder.keep(self.record_of(what, DONE, about))

    async def rejected(self, what: str, rejection: CareError, ids: RowIds = NO_ROWS) -> CareError:
        """Records a rejected read with the requested ids, and returns the error for the caller to raise. Of
        many rejections in a minute only the number is recorded."""
        if self.recorder is not None:
            about: About = [(None, None, dict(ids))] if ids else []
            # If a field fails, graphql-core cancels the fields beside it.
            await to_the_end(self.recorder.rejections.keep(self.record_of(what, rejection.code, about)))
        return rejection

    async def require_role(self, role: Role, what: str, ids: RowIds = NO_ROWS) -> int:
        """Returns the viewer's id. Records the rejection if the viewer does not have the role."""
        try:
            return self.signed_in_as(role)
        except NotAllowed as rejection:
            raise await self.rejected(what, rejection, ids) from None

    def record_of(self, what: str, outcome: str, about: About) -> Record:
        viewer = self.signed_in()
        actor = AuditActor(viewer.role)
        return Record(
            self.now, actor, viewer.id, self.contract, what, outcome, as_text(about), self.request_id
        )

    def charge(self, points: int) -> None:
        """Charges an operation before it is executed. Raises RateLimited over the limit."""
        self.budget.charge(points)

    def too_long(self, limit: int, advice: str) -> ResponseTooLong:
        its = "the change was made, but its" if self.has_changed else "the"
        return ResponseTooLong(f"{its} response would have more than {limit} bytes: {advice}")

    def charge_stored(self, length: int) -> None:
        """Charges what a change will store, before it is made. The request has paid for its operation, so
        half the points are enough. Raises RateLimited over the limit."""
        is_repeated = self.idempotent_request is not None and self.idempotent_request.is_repeated
        if length >= KIB and not is_repeated:
            cost = length // KIB * POINTS_PER_STORED_KIB
            self.budget.charge(cost, needed=self.budget.points // 2)

    def signed_in(self) -> Viewer:
        if self.viewer is None:
            raise NotSignedIn("sign in with a valid bearer token")
        return self.viewer

    def signed_in_as(self, role: Role) -> int:
        """Returns the viewer's id. Raises NotAllowed if the viewer does not have this role."""
        viewer = self.signed_in()
        if viewer.role is not role:
            raise NotAllowed(f"only a {role.lower()} may do this")
        return viewer.id

    def access(self) -> AccessScope:
        """Limits statements to the rows of the viewer's own relationships."""
        viewer = self.signed_in()
        if viewer.role is Role.CAREGIVER:
            return AccessScope(self.now, caregiver=viewer.id, time_zone=self.time_zone)
        return AccessScope(self.now, client=viewer.id, time_zone=self.time_zone)

    def access_as(self, role: Role) -> AccessScope:
        """The same, for a viewer with this role only."""
        self.signed_in_as(role)
        return self.access()


Get = Callable[[Context, list[int], Selection], Awaitable[list[Row]]]


async def read_one(get: Get, ctx: Context, row_id: int | None, selection: Selection | None) -> Row | None:
    """The row with this id, after its change. None if it is not selected, or no longer exists."""
    if selection is None or row_id is None:
        return None
    rows = await get(ctx, [row_id], selection)
    return rows[0] if rows else None
