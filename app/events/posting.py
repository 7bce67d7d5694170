"""One POST over asyncio: it can be called off at any moment, follows nothing, and reads no body."""

import asyncio
import re
import socket
import ssl
from dataclasses import dataclass

from app.events.webhook import Webhook

ANSWER_SECONDS = 10  # from looking up the host to the head of the answer
MOST_HEAD = 65_536
STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])[ \r]")


@dataclass(frozen=True)
class Answer:
    """The receiver's status, or why there is none; nothing else of what it said."""

    said: str
    is_taken: bool = False


async def post(
    webhook: Webhook, headers: dict[str, str], body: bytes, seconds: float = ANSWER_SECONDS
) -> Answer:
    try:
        async with asyncio.timeout(seconds):
            status = await exchange(webhook, headers, body)
    except TimeoutError:
        return Answer("no answer in time")
    except ConnectionRefusedError:
        return Answer("connection refused")
    except socket.gaierror:
        return Answer("no such host")
    except ssl.SSLCertVerificationError:
        return Answer("certificate not trusted")
    except ssl.SSLError:
        return Answer("no TLS")
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer("connection closed")
    except OSError:
        return Answer("no connection")
    except asyncio.LimitOverrunError:
        return Answer("no HTTP")
    return Answer(str(status), is_taken=200 <= status < 300) if status else Answer("no HTTP")


async def exchange(webhook: Webhook, headers: dict[str, str], body: bytes) -> int:
    """The status; 0 where what comes back is no HTTP."""
    reader, writer = await asyncio.open_connection(
        webhook.host, webhook.port, ssl=webhook.tls, limit=MOST_HEAD
    )
    try:
        writer.write(request(webhook, headers, body))
        status = 100
        while 100 <= status < 200:  # what is said before the answer
            match = STATUS.match(await reader.readuntil(b"\r\n\r\n"))
            status = int(match[1]) if match else 0
        return status
    finally:
        writer.transport.abort()  # nothing is left to say, and nothing else is read


def request(webhook: Webhook, headers: dict[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {webhook.target} HTTP/1.1",
        f"host: {webhook.authority}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body
