"""Reads keys from a file or from an issuer; errors advise the operator."""

import errno
import ssl
import urllib.request
from http.client import HTTPConnection, HTTPException, HTTPSConnection, InvalidURL
from ipaddress import ip_address
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from app.auth.limited_http import ResponseTooLong, limited
from app.settings import SettingsError

MAX_DOCUMENT = 1_000_000  # bytes
MAX_RESPONSE = MAX_DOCUMENT + 65_536  # bytes with the headers
FETCH_SECONDS = 5  # for a whole response, even if bytes still arrive

# No message repeats the setting, which may be a key instead of a path.
ADVICE = "set it to the path of a file"
ADVICE_BY_ERRNO = {
    errno.ENOENT: "set it to the absolute path that the service sees",
    errno.EISDIR: "set it to the path of a file in that folder",
    errno.EACCES: "allow the user of the service to read the file and to enter the folders above it",
}
URL_ADVICE = "check the URL, and that this machine can reach it"


class KeysUnreadable(SettingsError):
    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


def read_file(path: str, setting: str, kind: str) -> bytes:
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_DOCUMENT)
    except OSError as fault:
        reason = (fault.strerror or type(fault).__name__).lower()
        advice = ADVICE_BY_ERRNO.get(fault.errno or 0, ADVICE)
        raise KeysUnreadable(f"{setting} is not the path of a readable {kind}: {reason}", advice) from None
    except ValueError:
        raise KeysUnreadable(f"{setting} is not the path of a {kind}", ADVICE) from None
    if not text.strip():
        raise KeysUnreadable(
            f"{setting} is the path of an empty file", "write the issuer's public keys to it"
        )
    return text


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: keys come only from the configured address."""

    def redirect_request(self, *_: object) -> None:
        return None


class LimitedHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(limited(HTTPConnection, MAX_RESPONSE, FETCH_SECONDS), request)

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(limited(HTTPSConnection, MAX_RESPONSE, FETCH_SECONDS), request)


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """Uses no proxy for http://, because such a URL names this machine (see `is_insecure`)."""
    handlers = (NoRedirects, LimitedHandler)
    if url.startswith("http://"):
        return urllib.request.build_opener(*handlers, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


def fetch(url: str, setting: str) -> bytes:
    try:
        with opener_for(url).open(url, timeout=FETCH_SECONDS) as response:
            text: bytes = response.read(MAX_DOCUMENT)
        return text
    except HTTPError as refusal:
        refusal.close()
        reason = f"the response status is {refusal.code}"
        if refusal.code in range(300, 400):
            reason += " and redirects are not followed"
    except (OSError, HTTPException, ValueError) as fault:
        reason = reason_of(fault)
    raise KeysUnreadable(f"{setting} cannot be fetched: {reason}", URL_ADVICE) from None


def reason_of(fault: Exception) -> str:
    """Uses no messages of libraries: they quote the URL, which may contain a secret."""
    if isinstance(fault, URLError) and isinstance(fault.reason, Exception):
        fault = fault.reason
    if isinstance(fault, TimeoutError):
        return "no response in time"
    if isinstance(fault, ssl.SSLCertVerificationError):
        return "the certificate is not trusted"
    if isinstance(fault, ssl.SSLError):
        return "the TLS connection failed"
    if isinstance(fault, InvalidURL | URLError | ValueError):
        return "the URL is not valid"
    if isinstance(fault, ResponseTooLong):
        return "the response is too long"
    if isinstance(fault, HTTPException):
        return "the response is not HTTP"
    assert isinstance(fault, OSError)
    return (fault.strerror or type(fault).__name__).lower()


def is_insecure(url: str) -> bool:
    """Whether the URL is remote and unencrypted: an attacker on the network could replace the keys."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return parts.scheme == "http" and not is_loopback(parts.hostname)


def is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
