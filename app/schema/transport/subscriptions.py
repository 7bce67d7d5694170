"""Operations that last: their contexts, their results, and how a subscription is told what happens."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from graphql import GraphQLError
from graphql import OperationType as Kind
from starlette.types import Scope
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from app.auth.authenticator import Authenticator, viewer_for
from app.care.context import Context, Viewer, utc_now
from app.care.errors import NotSignedIn
from app.care.subscriptions import EventFilter, EventPosition, read_events
from app.db.drivers.interface import DatabaseUnavailable
from app.db.event_log import LoggedEvent
from app.db.sql import Operation
from app.engine.schema import PreparingSchema
from app.events.notifications import Notifier
from app.http.messages import header
from app.schema.transport.request_parsing import Posted
from app.server.admission import AdmissionControl

logger = logging.getLogger("care.graphql")

EARLY_SECONDS = 0.05  # so that a token is not found to have ended in the middle of a look
LOOK_SECONDS = 5  # between two looks where nothing was heard; also at the account
ONE_ANSWER = frozenset({OperationType.QUERY, OperationType.MUTATION})
MANY_ANSWERS = frozenset({OperationType.SUBSCRIPTION})

Told = TypeVar("Told")


# --- contexts -------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class LiveContext(Context):
    """That of an operation which may last: `again` asks anew who is asking, and at which moment."""

    again: Callable[[], Awaitable[Context]]
    account: Callable[[], Operation[Viewer]]  # refuses if the account is disabled by now
    ends_at: float  # the token, by the event loop's clock
    notifier: Notifier
    cost: int = 0  # what the operation was charged when it began

    def charge(self, cost: int) -> None:
        super().charge(cost)
        self.cost = cost


@dataclass(frozen=True)
class Entrance:
    """Where somebody came in who may stay for long."""

    authenticator: Authenticator
    notifier: Notifier
    admission: AdmissionControl
    authorization: str | None
    request_id: str

    @classmethod
    def of(cls, scope: Scope, request_id: str) -> "Entrance":
        state = scope["state"]
        return cls(
            state["authenticator"],
            state["notifier"],
            state["admission"],
            header(scope, b"authorization"),
            request_id,
        )

    async def enter(self) -> LiveContext:
        return await self.stay(await self.authenticator.open(self.authorization, self.request_id))

    async def stay(self, context: Context) -> LiveContext:
        """Only those who are signed in: there is nothing to listen to for anybody else."""
        context.signed_in()
        assert self.authorization is not None
        identity = await self.authenticator.identity_of(self.authorization, context.now)
        end = identity.expiry + self.authenticator.verifier.settings.token_leeway
        return LiveContext(
            **vars(context),
            again=partial(self.authenticator.open, self.authorization, self.request_id),
            account=partial(viewer_for, identity),
            ends_at=asyncio.get_running_loop().time() + end - utc_now().timestamp() - EARLY_SECONDS,
            notifier=self.notifier,
        )


# --- results --------------------------------------------------------------------------------------


def is_subscription(schema: PreparingSchema, posted: Posted) -> bool:
    """Whether the operation is one. What cannot be read is none: it is answered once, by what is wrong."""
    if "subscription" not in posted.query:
        return False
    try:
        return schema.read(posted.query).kind(posted.operation_name) is Kind.SUBSCRIPTION
    except GraphQLError:
        return False


async def results_of(
    schema: PreparingSchema, posted: Posted, context: LiveContext
) -> AsyncGenerator[ExecutionResult, None]:
    """One of a query or a mutation, any number of a subscription."""
    asked = (posted.query, posted.variables, context, None, posted.operation_name)
    if not is_subscription(schema, posted):
        yield await schema.execute(*asked, ONE_ANSWER, posted.extensions)
        return
    async with aclosing(await schema.stream(*asked, posted.extensions, MANY_ANSWERS)) as results:
        async for result in results:
            assert isinstance(result, ExecutionResult)
            yield result


# --- telling --------------------------------------------------------------------------------------


async def tell(
    ctx: LiveContext,
    event_filter: EventFilter,
    position: EventPosition,
    load: Callable[[Context, LoggedEvent], Awaitable[Told]],
) -> AsyncGenerator[Told, None]:
    """The events after the position. The account is checked by the statement that looks for events, so that
    an event is delivered only if the account was enabled when it happened. Every event is charged."""
    loop = asyncio.get_running_loop()
    waiting: deque[LoggedEvent] = deque()
    is_paid = False  # the first of them: if the database is gone it is read again
    with ctx.notifier.listener(ctx.signed_in()) as wakeup:
        while not ctx.notifier.is_stopping:
            if loop.time() >= ctx.ends_at:
                raise NotSignedIn("the bearer token has expired")
            wakeup.clear()
            try:
                context = await ctx.again()
                if not waiting:
                    found, position = await read_events(context, event_filter, position, ctx.account())
                    waiting.extend(found)
                if waiting and not is_paid:
                    context.charge(ctx.cost)
                    is_paid = True
                told = await load(context, waiting[0]) if waiting else None
            except DatabaseUnavailable as fault:  # it may come back; the position is still the same
                logger.warning("request %s: %s (%s)", ctx.request_id, fault, fault.__cause__)
                told = None
            if told is not None:
                waiting.popleft()
                is_paid = False
                yield told
                await asyncio.sleep(0)  # nothing else may have waited: others have their turn
                continue
            with suppress(TimeoutError):
                until = min(LOOK_SECONDS, max(0, ctx.ends_at - loop.time()))
                await asyncio.wait_for(wakeup.wait(), until)
