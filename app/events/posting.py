"""Sends one POST over asyncio. It can be cancelled at any time, follows no redirects and reads no body."""

import asyncio
import re
import socket
import ssl
from dataclasses import dataclass

from app.events.webhook import Webhook

RESPONSE_SECONDS = 10  # from the lookup of the host to the headers of the response
MOST_HEAD = 65_536
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")


@dataclass(frozen=True)
class PostResult:
    """The status of the response, or the reason why there is none."""

    status: str
    is_accepted: bool = False


async def post(
    webhook: Webhook, headers: dict[str, str], body: bytes, seconds: float = RESPONSE_SECONDS
) -> PostResult:
    try:
        async with asyncio.timeout(seconds):
            status = await send_request(webhook, headers, body)
    except TimeoutError:
        return PostResult("no answer in time")
    except ConnectionRefusedError:
        return PostResult("connection refused")
    except socket.gaierror:
        return PostResult("no such host")
    except ssl.SSLCertVerificationError:
        return PostResult("certificate not trusted")
    except ssl.SSLError:
        return PostResult("no TLS")
    except (asyncio.IncompleteReadError, ConnectionError):
        return PostResult("connection closed")
    except OSError:
        return PostResult("no connection")
    except asyncio.LimitOverrunError:
        return PostResult("no HTTP")
    return PostResult(str(status), is_accepted=200 <= status < 300) if status else PostResult("no HTTP")


async def send_request(webhook: Webhook, headers: dict[str, str], body: bytes) -> int:
    """Returns the status, or 0 if the response is not HTTP."""
    reader, writer = await asyncio.open_connection(
        webhook.host, webhook.port, ssl=webhook.tls, limit=MOST_HEAD
    )
    try:
        writer.write(request(webhook, headers, body))
        status = 100
        while 100 <= status < 200:  # interim responses
            match = STATUS.match(await reader.readuntil(b"\r\n\r\n"))
            status = int(match[1]) if match else 0
        return status
    finally:
        writer.transport.abort()  # the rest of the response is not needed


def request(webhook: Webhook, headers: dict[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {webhook.target} HTTP/1.1",
        f"host: {webhook.authority}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
