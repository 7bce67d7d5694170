"""Reads keys from a file or from an issuer; errors advise the operator."""

import errno
import ssl
import urllib.request
from functools import partial
from http.client import HTTPException, HTTPResponse, InvalidURL
from ipaddress import ip_address
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from app.auth.limited_http import ResponseTooLong, limited
from app.settings import SettingsError
from app.telemetry.wording import entry_for

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
REASONS: dict[type[Exception], str] = {
    TimeoutError: "no response in time",
    ssl.SSLCertVerificationError: "the certificate is not trusted",
    ssl.SSLError: "the TLS connection failed",
    InvalidURL: "the URL is not valid",
    URLError: "the URL is not valid",
    ValueError: "the URL is not valid",
    ResponseTooLong: "the response is too long",
    HTTPException: "the response is not HTTP",
}


class KeysUnreadable(SettingsError):
    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class KeysAway(KeysUnreadable):
    """The issuer cannot be reached now; a later attempt may succeed."""


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


class LimitedHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def do_open(self, http_class: Any, req: urllib.request.Request, **given: Any) -> HTTPResponse:
        return super().do_open(partial(limited, http_class, MAX_RESPONSE), req, **given)


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """Follows no redirects, because keys come only from the configured address.

    Uses no proxy for http://, because such a URL names this machine (see `is_insecure`).
    """
    opener = urllib.request.OpenerDirector()
    opener.add_handler(LimitedHandler())
    opener.add_handler(urllib.request.ProxyHandler({} if url.startswith("http://") else None))
    return opener


def fetch(url: str) -> bytes:
    try:
        with opener_for(url).open(url, timeout=FETCH_SECONDS) as response:
            if response.status in range(200, 300):
                text: bytes = response.read(MAX_DOCUMENT)
                return text
            reason = f"the response status is {response.status}"
            if response.status in range(300, 400):
                reason += " and redirects are not followed"
    except (OSError, HTTPException, ValueError) as fault:
        reason = reason_of(fault)
    raise KeysAway(f"CARE_TOKEN_JWKS cannot be fetched: {reason}", URL_ADVICE) from None


def reason_of(fault: Exception) -> str:
    if isinstance(fault, URLError) and isinstance(fault.reason, Exception):
        fault = fault.reason
    reason: str = getattr(fault, "strerror", None) or type(fault).__name__
    return entry_for(fault, REASONS) or reason.lower()


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
