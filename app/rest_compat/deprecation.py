"""Headers and notice about the end of the legacy paths: Deprecation (RFC 9745), Sunset (RFC 8594), Link."""

from email.utils import format_datetime

from app.http.messages import Headers
from app.settings import Settings

SUCCESSOR = '</graphql>; rel="successor-version"'


def deprecation_headers(settings: Settings) -> Headers:
    """Empty if no date is set."""
    headers = {}
    if settings.legacy_deprecated is not None:
        headers["deprecation"] = f"@{int(settings.legacy_deprecated.timestamp())}"
    if settings.legacy_sunset is not None:
        headers["sunset"] = format_datetime(settings.legacy_sunset, usegmt=True)
    if not headers:
        return ()
    notice = settings.legacy_notice
    links = [f'<{notice}>; rel="{relation}"; type="text/html"' for relation in headers] if notice else []
    headers["link"] = ", ".join([SUCCESSOR, *links])
    return tuple((name.encode(), value.encode()) for name, value in headers.items())


def deprecation_notice(settings: Settings) -> str:
    """One sentence for the landing page; empty if no date is set."""
    parts = []
    if settings.legacy_deprecated is not None:
        parts.append(f"are deprecated from {settings.legacy_deprecated:%Y-%m-%d %H:%M} UTC on")
    if settings.legacy_sunset is not None:
        parts.append(f"may no longer answer from {settings.legacy_sunset:%Y-%m-%d %H:%M} UTC on")
    return f"The legacy paths {' and '.join(parts)}." if parts else ""
