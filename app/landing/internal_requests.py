"""Sends requests to this application in process, through the same middleware as network requests."""

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.types import Message

from app.rest_compat.usage import Usage


class InternalResponse(NamedTuple):
    status: int
    body: bytes


async def send_request(
    request: Request, method: str, target: str, token: str | None = None, body: bytes = b""
) -> InternalResponse:
    """The visitor's own headers are not forwarded, and the request is not counted as legacy usage."""
    path, _, query = target.partition("?")
    headers = [
        (b"host", b"localhost"),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json"),
    ]
    if token is not None:
        headers.append((b"authorization", f"bearer {token}".encode()))
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": request.scope["asgi"],
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
        "state": {**request.scope["state"], "usage": Usage()},
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await request.app(scope, receive, send)
    return InternalResponse(sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]))
