"""Subscriptions: their contexts, their results, and delivery of events."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from starlette.types import Scope
from strawberry.schema.exceptions import CannotGetOperationTypeError
from strawberry.types import ExecutionResult
from strawberry.types.graphql import OperationType

from app.auth.authenticator import Authenticator, finding_viewer
from app.auth.rejections import Reason, rejection_for
from app.auth.tokens import Identity
from app.care.context import Context, Viewer, utc_now
from app.care.errors import CareError, NotSignedIn
from app.care.subscriptions import EventFilter, EventPosition, read_events
from app.db.drivers.interface import DatabaseUnavailable
from app.db.event_log import LoggedEvent
from app.db.sql import Steps
from app.engine.schema import PreparingSchema
from app.events.notifications import Notifier
from app.http.errors import RequestRejected
from app.http.messages import wait_writable
from app.schema.transport.request_parsing import GraphQLRequest
from app.server.background import wait_for
from app.usage.counts import note_deprecated

logger = logging.getLogger("care.graphql")

EARLY_SECONDS = 0.05  # margin, so that a token does not expire during a query
POLL_SECONDS = 5  # maximum time between two checks for events and of the account
SINGLE_RESULT = frozenset({OperationType.QUERY, OperationType.MUTATION})

Item = TypeVar("Item")


# --- contexts -------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class SubscriptionContext(Context):
    """The context of an operation over an event stream or a websocket, which outlives a request."""

    reauthenticate: Callable[[], Awaitable[Context]]  # a context with the current time
    account: Callable[[], Steps[Viewer]]  # raises if the account is disabled, or another person's now
    ends_at: float  # expiry of the token, by the event loop's clock
    notifier: Notifier
    scope: Scope
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)  # its position is known
    cost: int = 0  # charged at the start and for every event

    def charge(self, cost: int) -> None:
        super().charge(cost)
        self.cost = cost


async def extend_context(context: Context, scope: Scope, authorization: str | None) -> SubscriptionContext:
    """Requires a signed-in viewer; `authorization` is the header with which the viewer signed in."""
    viewer = context.signed_in()
    assert authorization is not None
    authenticator: Authenticator = scope["state"]["authenticator"]
    with noting_refusals(scope, context.request_id):
        identity = await authenticator.identity_of(authorization, context.now)
    end = identity.expiry + authenticator.verifier.settings.token_leeway
    return SubscriptionContext(
        **vars(context),
        reauthenticate=partial(authenticator.open, authorization, context.request_id),
        account=partial(finding_same, identity, viewer),
        ends_at=asyncio.get_running_loop().time() + end - utc_now().timestamp() - EARLY_SECONDS,
        notifier=scope["state"]["notifier"],
        scope=scope,
    )


@contextmanager
def noting_refusals(scope: Scope, request_id: str) -> Iterator[None]:
    """Logs and counts a token that is refused after the authenticator has opened a context for it."""
    try:
        yield
    except CareError as rejection:
        authenticator: Authenticator = scope["state"]["authenticator"]
        authenticator.verifier.rejections.note(rejection, request_id)
        raise


def finding_same(identity: Identity, viewer: Viewer) -> Steps[Viewer]:
    found = yield from finding_viewer(identity)
    check_same(found, viewer)
    return found


def check_same(found: Viewer | None, viewer: Viewer | None) -> None:
    """After an erasure an operator may link the user name to another person. What the erased person opened
    ends, and is not continued for the new one."""
    if found != viewer:
        raise rejection_for(Reason.UNKNOWN_ACCOUNT)


# --- results --------------------------------------------------------------------------------------


async def is_subscription(schema: PreparingSchema, request: GraphQLRequest, context: Context) -> bool:
    """Whether the operation is a subscription; False for an invalid document, which gets one error."""
    if "subscription" not in request.query:
        return False
    document = await schema.charged_document(request.query, request.operation_name, context)
    operation = document.operation(request.operation_name) if document else None
    return operation is not None and operation.operation.value == OperationType.SUBSCRIPTION.value


async def results_of(
    schema: PreparingSchema, request: GraphQLRequest, context: SubscriptionContext
) -> AsyncGenerator[ExecutionResult, None]:
    """One result of a query or mutation, any number of a subscription."""
    operation = (request.query, request.variables, context, None, request.operation_name)
    if not await is_subscription(schema, request, context):
        if not request.query:
            raise RequestRejected("No GraphQL query found in the message")
        try:
            single = await schema.execute(*operation, SINGLE_RESULT, request.extensions)
        except CannotGetOperationTypeError as error:
            raise RequestRejected(error.as_http_error_reason()) from error
        if context.deprecated:
            note_deprecated(context, context.scope)
        yield single
        return
    streamed = frozenset({OperationType.SUBSCRIPTION})
    async with aclosing(await schema.stream(*operation, request.extensions, streamed)) as results:
        async for result in results:
            assert isinstance(result, ExecutionResult)
            yield result


# --- events ---------------------------------------------------------------------------------------


async def deliver_events(
    ctx: SubscriptionContext,
    event_filter: EventFilter,
    position: EventPosition,
    load: Callable[[Context, LoggedEvent], Awaitable[Item]],
) -> AsyncGenerator[Item, None]:
    """Yields the events after `position` and charges each. The statement that reads events also checks the
    account, so an event is delivered only if the account was enabled when it happened.

    Of the subscriptions of a viewer, few load and send an event at the same time, and only if the client has
    read the events before. The others wait in the event log, which needs no memory."""
    ctx.has_begun.set()
    if ctx.deprecated:
        note_deprecated(ctx, ctx.scope)
    loop = asyncio.get_running_loop()
    waiting: deque[LoggedEvent] = deque()
    is_charged = False  # the first waiting event, which is loaded again after a database failure
    with ctx.notifier.listener(ctx.signed_in()) as wakeup:
        while not ctx.notifier.is_stopping:
            if loop.time() >= ctx.ends_at:
                raise NotSignedIn("the bearer token has expired")
            await wait_writable(ctx.scope)
            wakeup.clear()
            async with ctx.budget.deliveries:
                try:
                    context = await ctx.reauthenticate()
                    with noting_refusals(ctx.scope, ctx.request_id):
                        check_same(context.viewer, ctx.viewer)
                        if not waiting:
                            account = ctx.account()
                            found, position = await read_events(context, event_filter, position, account)
                            waiting.extend(found)
                    if waiting and not is_charged:
                        context.charge(ctx.cost)
                        is_charged = True
                    item = await load(context, waiting[0]) if waiting else None
                except DatabaseUnavailable as fault:  # retry from the same position
                    logger.warning("request %s: %s (%s)", ctx.request_id, fault, fault.__cause__)
                    item = None
                if item is not None:
                    waiting.popleft()
                    is_charged = False
                    yield item  # returns once the event is sent
            if item is not None:
                await asyncio.sleep(0)  # let other tasks run
                continue
            await wait_for(wakeup, min(POLL_SECONDS, max(0, ctx.ends_at - loop.time())))
