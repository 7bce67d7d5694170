"""Response headers of both contracts: security, caching, content type, retries and rate limits."""

from app.care.budgets import MINUTE, Budget

Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")
RETRY_AFTER = (b"retry-after", b"1")  # seconds; of every 503
HEADERS_OF_ERROR = {401: ((b"www-authenticate", b"Bearer"),), 503: (RETRY_AFTER,)}  # by status
SECURITY_HEADERS = (  # of every response, see docs/decisions/0023
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def rate_limit_headers(budget: Budget | None) -> list[tuple[bytes, bytes]]:
    """draft-ietf-httpapi-ratelimit-headers: the quota, the remainder, and the seconds until it is full."""
    if budget is None or not budget.points:
        return []
    left, seconds = max(0, int(budget.left)), budget.seconds_until_full()
    return [
        (b"ratelimit-policy", b'"default";q=%d;w=%d' % (budget.points, MINUTE)),
        (b"ratelimit", b'"default";r=%d;t=%d' % (left, seconds)),
    ]
