"""GraphQL over server-sent events: a subscription is answered by a stream of events, on its own request."""

import asyncio
from asyncio import FIRST_COMPLETED
from contextlib import aclosing

import orjson
from starlette.types import Receive, Scope, Send

from app.engine.schema import PreparingSchema
from app.http.messages import HEADERS, Reply
from app.schema.errors import as_response
from app.schema.transport.request_parsing import Posted
from app.schema.transport.subscriptions import LiveContext, results_of
from app.server.admission import AdmissionControl
from app.telemetry import counters

EVENT_STREAM = "text/event-stream"
KINDS_OF_JSON = ("application/json", "application/graphql-response+json", "*/*")
HEARTBEAT_SECONDS = 12
HEARTBEAT = b": still there\n\n"
COMPLETE = b"event: complete\ndata: \n\n"  # browsers drop an event without data


def accepted(accept: str | None) -> set[str]:
    """The media types that the caller takes, where an event stream is among them; else none."""
    if accept is None or EVENT_STREAM not in accept.lower():
        return set()
    return {each.partition(";")[0].strip() for each in accept.lower().split(",")}


def takes_only_events(accept: set[str]) -> bool:
    """Many clients list event streams with every request: one answer is JSON for them, as for all."""
    return EVENT_STREAM in accept and accept.isdisjoint(KINDS_OF_JSON)


def next_event(body: bytes) -> bytes:
    return b"event: next\ndata: %b\n\n" % body


async def send_start(scope: Scope, send: Send, request_id: str) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store, no-transform"),
        (b"x-accel-buffering", b"no"),  # or a proxy would wait until there is more
        (b"x-request-id", request_id.encode()),
        *scope["state"].get("headers", HEADERS),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_as_events(scope: Scope, send: Send, reply: Reply, request_id: str) -> None:
    """The one answer to a query or a mutation, for who takes nothing but events."""
    scope["state"]["status"] = 200
    await send_start(scope, send, request_id)
    await send({"type": "http.response.body", "body": next_event(reply.body) + COMPLETE})


async def send_stream(
    scope: Scope,
    receive: Receive,
    send: Send,
    schema: PreparingSchema,
    posted: Posted,
    context: LiveContext,
) -> None:
    """Until it ends, or nobody reads it any more."""
    admission: AdmissionControl = scope["state"]["admission"]
    admission.free_slot()
    scope["state"]["status"] = 0
    counters.streams["begun"] += 1
    await send_start(scope, send, context.request_id)
    sending = asyncio.create_task(send_events(send, schema, posted, context))
    gone = asyncio.create_task(until_gone(receive))
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


async def send_events(send: Send, schema: PreparingSchema, posted: Posted, context: LiveContext) -> None:
    async with aclosing(results_of(schema, posted, context)) as results:
        async for result in results:
            event = next_event(orjson.dumps(as_response(result, context.request_id)))
            await send({"type": "http.response.body", "body": event, "more_body": True})
    if not context.notifier.is_stopping:  # else it is not complete: whoever listens comes again
        await send({"type": "http.response.body", "body": COMPLETE, "more_body": True})


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
