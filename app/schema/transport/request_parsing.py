"""Parses common GraphQL requests: a POST of a JSON object with a query or a document id."""

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope

from app.http.messages import header, is_encoded

JSON = "application/json"


@dataclass
class Posted:
    query: str
    variables: dict[str, Any] | None
    operation_name: str | None
    extensions: dict[str, Any] | None
    document_id: str | None = None


async def read_at_once(scope: Scope, receive: Receive, most: int) -> tuple[Posted | None, Receive]:
    """The request if it arrived in one message; otherwise None and a `receive` that replays the message."""
    if scope["method"] != "POST" or header(scope, b"content-type") != JSON or is_encoded(scope):
        return None, receive
    message = await receive()
    waiting = [message]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    body = message.get("body", b"")
    if message.get("more_body") or len(body) > most:
        return None, receive_again
    return as_posted(body), receive_again


async def read_whole(scope: Scope, receive: Receive, most: int) -> tuple[Posted | None, Receive]:
    """Like read_at_once, for a body in several messages and with any form of the content type."""
    kind = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    if scope["method"] != "POST" or kind != JSON or is_encoded(scope):
        return None, receive
    message: Message = {"more_body": True}
    body = bytearray()
    while message.get("more_body") and len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
    waiting = [{**message, "body": bytes(body)}]  # joined, as many small messages use more memory

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return None if len(body) > most else as_posted(bytes(body)), receive_again


def as_posted(body: bytes) -> Posted | None:
    """None for an invalid request; Strawberry's view then reports the error."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(data, dict):
        return None
    query, name = data.get("query"), data.get("operationName")
    variables, extensions = data.get("variables"), data.get("extensions")
    document_id = data.get("documentId")
    if (
        ((isinstance(query, str) and query) or (query is None and is_named(document_id, extensions)))
        and (variables is None or isinstance(variables, dict))
        and (name is None or isinstance(name, str))
        and (extensions is None or isinstance(extensions, dict))
        and (document_id is None or isinstance(document_id, str))
    ):
        return Posted(query or "", variables, name, extensions, document_id)
    return None


def is_named(document_id: object, extensions: object) -> bool:
    """Whether the request refers to a stored document (app/schema/transport/trusted_documents.py)."""
    if document_id is not None:
        return True
    return isinstance(extensions, dict) and extensions.get("persistedQuery") is not None
