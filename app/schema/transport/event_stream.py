"""GraphQL over server-sent events: one response per operation, in distinct connections mode."""

import asyncio
from asyncio import FIRST_COMPLETED
from contextlib import aclosing

import orjson
from starlette.types import Receive, Scope, Send

from app.engine.schema import PreparingSchema
from app.http.messages import HEADERS, Reply
from app.schema.errors import response_body
from app.schema.transport.request_parsing import Posted
from app.schema.transport.subscriptions import SubscriptionContext, results_of
from app.server.admission import AdmissionControl
from app.telemetry import counters

EVENT_STREAM = "text/event-stream"
KINDS_OF_JSON = ("application/json", "application/graphql-response+json", "*/*")
HEARTBEAT_SECONDS = 12
HEARTBEAT = b": still there\n\n"
COMPLETE = b"event: complete\ndata: \n\n"  # browsers drop an event without data


def accepted(accept: str | None) -> set[str]:
    """The accepted media types if they include event streams; else empty."""
    if accept is None or EVENT_STREAM not in accept.lower():
        return set()
    return {each.partition(";")[0].strip() for each in accept.lower().split(",")}


def takes_only_events(accept: set[str]) -> bool:
    """Many clients accept event streams with every request; they get a single result as JSON."""
    return EVENT_STREAM in accept and accept.isdisjoint(KINDS_OF_JSON)


def next_event(body: bytes) -> bytes:
    return b"event: next\ndata: %b\n\n" % body


async def send_start(scope: Scope, send: Send, request_id: str) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store, no-transform"),
        (b"x-accel-buffering", b"no"),  # no buffering by proxies
        (b"x-request-id", request_id.encode()),
        *scope["state"].get("headers", HEADERS),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_as_events(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    """Sends the result of a query or mutation to a client that accepts only event streams."""
    scope["state"]["status"] = 200
    await send_start(scope, send, request_id)
    await send({"type": "http.response.body", "body": next_event(reply.body) + COMPLETE})


async def send_stream(
    scope: Scope,
    receive: Receive,
    send: Send,
    schema: PreparingSchema,
    posted: Posted,
    context: SubscriptionContext,
) -> None:
    """Sends events until the subscription ends or the client disconnects."""
    admission: AdmissionControl = scope["state"]["admission"]
    admission.free_slot()
    scope["state"]["status"] = 0
    counters.streams["begun"] += 1
    await send_start(scope, send, context.request_id)
    sending = asyncio.create_task(send_events(send, schema, posted, context))
    gone = asyncio.create_task(wait_for_disconnect(receive))
    both = {sending, gone}
    try:
        while not (await asyncio.wait(both, timeout=HEARTBEAT_SECONDS, return_when=FIRST_COMPLETED))[0]:
            await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
    finally:
        counters.streams["ended"] += 1
        for task in both:
            task.cancel()
        await asyncio.wait(both)
    if not sending.cancelled():
        sending.result()
        await send({"type": "http.response.body", "body": b""})


async def send_events(
    send: Send, schema: PreparingSchema, posted: Posted, context: SubscriptionContext
) -> None:
    async with aclosing(results_of(schema, posted, context)) as results:
        async for result in results:
            event = next_event(orjson.dumps(response_body(result, context.request_id)))
            await send({"type": "http.response.body", "body": event, "more_body": True})
    if not context.notifier.is_stopping:  # otherwise the client reconnects
        await send({"type": "http.response.body", "body": COMPLETE, "more_body": True})


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
