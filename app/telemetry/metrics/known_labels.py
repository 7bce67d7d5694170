"""The label values that are known from the start. Their counters are exported as 0: in a series that appears
with its first error, Prometheus sees no increase.
"""

from collections.abc import Iterator
from itertools import product

from app.care.errors import CareError
from app.http.health import HEALTH
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.http.router import ANY_LEGACY, CLOSE_CODES, METHODS, ONE_ASSIGNMENT
from app.rest_compat.errors import STATUS
from app.schema.errors import INTERNAL
from app.schema.transport.content_negotiation import PARTIAL_SUCCESS, Rejection
from app.schema.transport.endpoint import STATUS_OF_REJECTION
from app.server.rejections import INVALID_HTTP, LIMITS
from app.telemetry.counters import OTHER, RequestLabels

BOTH = {200, 400, 405, 413, 415, 500}  # statuses of both contracts
GRAPHQL = BOTH | {*STATUS_OF_REJECTION.values(), PARTIAL_SUCCESS}
GRAPHQL |= {status for each in Rejection for status in (each.newer, each.older)}
LEGACY = BOTH | {*STATUS.values()}
REJECTED = {204, 403, 404, 405, 500}  # of other methods; 204 and 403: CORS preflights

# The methods of each route with their statuses, and the statuses of all other methods.
STATUSES: dict[str, tuple[set[str], set[int], set[int]]] = {
    "/graphql": ({"GET", "POST"}, GRAPHQL, {204, 401, 403, 405, 500, 503}),
    SESSIONS: ({"GET", "HEAD"}, LEGACY, REJECTED),
    ASSIGNMENTS: ({"GET", "HEAD", "PUT"}, LEGACY, REJECTED),
    ONE_ASSIGNMENT: ({"GET", "HEAD"}, LEGACY, REJECTED),
    ANY_LEGACY: (set(), set(), REJECTED),
    **{path: ({"GET", "HEAD"}, {200, 500, 503}, {405, 500}) for path in HEALTH},
    OTHER: (set(), set(), {200, 404, 405, 500}),
}
REQUESTS: list[RequestLabels] = [
    (route, method, status)
    for route, (methods, statuses, others) in STATUSES.items()
    for method in (*METHODS, OTHER)
    for status in sorted(statuses if method in methods else others)
]

CLOSES = list(product(("client", "server"), [*map(str, sorted(CLOSE_CODES)), OTHER]))

LIMIT_LABELS = [
    *LIMITS.values(),
    INVALID_HTTP,
    "frames of a websocket",
    "websockets that are not signed in",
    "subscriptions of a viewer",
    "points a minute",
    "unsent bytes of a viewer",
    "client identifiers an hour",
    # of a document, in `engine/limits.py`
    "tokens",
    "comments",
    "levels",
    "levels of fields",
    "fragments",
    "selections",
    "aliases",
    "root fields",
    "objects and lists",
    "lists with pages inside objects",
    "directives",
    "comparisons of fields under one name",
    "values in the variables",
    "points of cost",
    "bytes of a response",
]


def codes_of(error: type[CareError]) -> Iterator[str]:
    if hasattr(error, "code"):
        yield error.code
    for each in error.__subclasses__():
        yield from codes_of(each)


CODES = sorted({*codes_of(CareError), *(each.code for each in Rejection), INTERNAL})
