"""Headers and notice about the end of the legacy paths: Deprecation (RFC 9745), Sunset (RFC 8594), Link."""

from email.utils import format_datetime

from app.http.messages import Headers
from app.settings import Settings

SUCCESSOR = '</graphql>; rel="successor-version"'


def deprecation_headers(settings: Settings) -> Headers:
    """Empty if no date is set."""
    deprecated, sunset = settings.legacy_deprecated, settings.legacy_sunset
    headers, links = [], [SUCCESSOR]
    if deprecated is not None:
        headers.append((b"deprecation", b"@%d" % deprecated.timestamp()))
        links.append(link(settings, "deprecation"))
    if sunset is not None:
        headers.append((b"sunset", format_datetime(sunset, usegmt=True).encode()))
        links.append(link(settings, "sunset"))
    if not headers:
        return ()
    return (*headers, (b"link", ", ".join(filter(None, links)).encode()))


def link(settings: Settings, relation: str) -> str:
    if not settings.legacy_notice:
        return ""
    return f'<{settings.legacy_notice}>; rel="{relation}"; type="text/html"'


def deprecation_notice(settings: Settings) -> str:
    """One sentence for the landing page; empty if no date is set."""
    parts = []
    if settings.legacy_deprecated is not None:
        parts.append(f"are deprecated from {settings.legacy_deprecated:%Y-%m-%d %H:%M} UTC on")
    if settings.legacy_sunset is not None:
        parts.append(f"may no longer answer from {settings.legacy_sunset:%Y-%m-%d %H:%M} UTC on")
    return f"The legacy paths {' and '.join(parts)}." if parts else ""
