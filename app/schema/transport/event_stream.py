"""GraphQL over server-sent events: one response per operation, in distinct connections mode."""

import asyncio
from contextlib import aclosing

from starlette.types import Receive, Scope, Send
from strawberry.types import ExecutionResult

from app.care.budgets import KIB
from app.care.errors import ResponseTooLong
from app.engine.schema import PreparingSchema
from app.http.messages import SECURITY_HEADERS, Headers, Reply, rate_limit_headers, wait_writable
from app.schema.transport.request_parsing import GraphQLRequest
from app.schema.transport.responses import result_of, write_result
from app.schema.transport.subscriptions import SubscriptionContext, results_of
from app.server.admission import AdmissionControl
from app.telemetry import counters

HEARTBEAT_SECONDS = 12
HEARTBEAT = b": still there\n\n"
COMPLETE = b"event: complete\ndata: \n\n"  # browsers drop an event without data


def next_event(body: bytes) -> bytes:
    return b"event: next\ndata: %b\n\n" % body


async def send_start(scope: Scope, send: Send, request_id: str, extra: Headers = ()) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store, no-transform"),
        (b"x-accel-buffering", b"no"),  # no buffering by proxies
        (b"x-request-id", request_id.encode()),
        *scope["state"].get("headers", SECURITY_HEADERS),
        *extra,
        *rate_limit_headers(scope["state"].get("budget")),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_result_as_events(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    """Sends the result of a query or mutation to a client that accepts only event streams."""
    scope["state"]["status"] = 200
    if (budget := scope["state"].get("budget")) is not None:
        budget.charge(len(reply.body) // KIB, needed=0)
    await send_start(scope, send, request_id, reply.headers)
    await send({"type": "http.response.body", "body": next_event(reply.body) + COMPLETE})


async def send_subscription(
    scope: Scope,
    receive: Receive,
    send: Send,
    schema: PreparingSchema,
    request: GraphQLRequest,
    context: SubscriptionContext,
) -> None:
    """Sends events until the subscription ends or the client disconnects. The response begins once the
    subscription has its position, so that its client misses nothing that happens after the headers."""
    admission: AdmissionControl = scope["state"]["admission"]
    admission.free_slot()
    scope["state"]["status"] = 0
    counters.streams["opened"] += 1
    is_open = asyncio.Event()
    sending = asyncio.create_task(send_events(scope, send, schema, request, context, is_open))
    disconnect = asyncio.create_task(wait_for_disconnect(receive))
    both = {sending, disconnect}
    beginning = asyncio.create_task(context.has_begun.wait())
    try:
        await asyncio.wait({beginning, *both}, return_when=asyncio.FIRST_COMPLETED)
        await send_start(scope, send, context.request_id)
        is_open.set()
        while True:
            done, _ = await asyncio.wait(both, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
            await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
    finally:
        counters.streams["closed"] += 1
        for task in (*both, beginning):
            task.cancel()
        await asyncio.wait({*both, beginning})
    if not sending.cancelled():
        sending.result()
        await send({"type": "http.response.body", "body": b""})


async def send_events(
    scope: Scope,
    send: Send,
    schema: PreparingSchema,
    request: GraphQLRequest,
    context: SubscriptionContext,
    is_open: asyncio.Event,
) -> None:
    async with aclosing(results_of(schema, request, context)) as results:
        async for result in results:
            context.has_begun.set()  # a rejected subscription has no position
            await is_open.wait()
            await wait_writable(scope)
            try:
                await send_event(send, schema, result, context)
            except ResponseTooLong as rejection:
                await send_event(send, schema, result_of(rejection), context)
                break
    context.has_begun.set()
    await is_open.wait()
    if not context.notifier.is_stopping:  # otherwise the client reconnects
        await send({"type": "http.response.body", "body": COMPLETE, "more_body": True})


async def send_event(
    send: Send, schema: PreparingSchema, result: ExecutionResult, context: SubscriptionContext
) -> None:
    body = next_event(write_result(schema, result, context))
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
