"""Reading keys from a file or from an issuer, with errors for the operator."""

import errno
import socket
import ssl
import urllib.request
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection, InvalidURL
from ipaddress import ip_address
from threading import Timer
from time import monotonic
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from app.settings import SettingsError

LONGEST_DOCUMENT = 1_000_000
SECONDS = 5  # for one fetch in all; a byte that arrives does not extend it

# Advice by errno. It does not repeat the setting, which may be a key instead of a path.
TO_DO = {
    errno.ENOENT: "give its path, from the root, as the service sees it",
    errno.EISDIR: "give the path of the file in that folder",
    errno.EACCES: "let the user of the service read it, and enter the folders above it",
}
NOT_REACHED = "is the address right, and may this machine reach it?"


class NotRead(SettingsError):
    """The keys cannot be read; `do` is advice for the operator."""

    def __init__(self, message: str, do: str) -> None:
        super().__init__(message)
        self.do = do


def read_file(path: str, setting: str, kind: str) -> bytes:
    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST_DOCUMENT)
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        do = TO_DO.get(fault.errno or 0, "give the path of a file")
        raise NotRead(f"{setting} cannot be read as the path of {kind}: {reason}", do) from None
    except ValueError:
        raise NotRead(f"{setting} is not the path of {kind}", "give the path of a file") from None
    if not text.strip():
        raise NotRead(f"{setting} is the path of an empty file", "write the issuer's public keys into it")
    return text


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: keys come only from the configured address."""

    def redirect_request(self, *_: object) -> None:
        return None


class LimitedConnection(HTTPConnection):
    """Cuts the connection after its timeout. The library's own timeout starts again with every byte."""

    def connect(self) -> None:
        super().connect()
        cut_later(self.sock, self.timeout)


class LimitedTlsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        cut_later(self.sock, self.timeout)


def cut_later(connected: socket.socket, seconds: float | None) -> None:
    def cut() -> None:
        with suppress(OSError):  # it is closed already
            connected.shutdown(socket.SHUT_RDWR)

    assert seconds is not None
    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()


class LimitedHandler(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(LimitedConnection, request)


class LimitedTlsHandler(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(LimitedTlsConnection, request)


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """Uses no proxy for http://, which is for this machine only."""
    handlers = (NoRedirects, LimitedHandler, LimitedTlsHandler)
    if url.startswith("http://"):
        return urllib.request.build_opener(*handlers, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def fetch(url: str, setting: str) -> bytes:
    began = monotonic()
    try:
        with opener_for(url).open(url, timeout=SECONDS) as reply:
            text: bytes = reply.read(LONGEST_DOCUMENT)
        if monotonic() - began >= SECONDS:  # the library returns what came until the connection was cut
            raise TimeoutError
        return text
    except HTTPError as refusal:
        refusal.close()
        reason = f"the answer is {refusal.code}"
        if refusal.code in range(300, 400):
            reason += ", and redirects are not followed"
    except (OSError, HTTPException, ValueError) as fault:
        reason = reason_of(TimeoutError() if monotonic() - began >= SECONDS else fault)
    raise NotRead(f"{setting} cannot be fetched: {reason}", NOT_REACHED) from None


def reason_of(fault: Exception) -> str:
    """Avoids messages of libraries, which quote the address and with it perhaps a secret."""
    if isinstance(fault, URLError) and isinstance(fault.reason, Exception):
        fault = fault.reason
    if isinstance(fault, TimeoutError):
        return "no answer in time"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return "the certificate is not trusted"
    if isinstance(fault, ssl.SSLError):
        return "no connection by TLS"
    if isinstance(fault, InvalidURL | URLError | ValueError):
        return "it is no address"
    if isinstance(fault, HTTPException):
        return "no answer in HTTP"
    assert isinstance(fault, OSError)
    return (fault.strerror or type(fault).__name__).lower()


def is_insecure(url: str) -> bool:
    """Whether the address is unencrypted and remote: an attacker on the network could replace the keys."""
    try:
        address = urlsplit(url)
        host = address.hostname or ""
        return address.scheme == "http" and host != "localhost" and not ip_address(host).is_loopback
    except ValueError:
        return True
