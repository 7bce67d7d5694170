"""A stand-in for the old service: an instance of the service, and misbehaviours that tests switch on and off.

with serving(settings) as gateway:
    old = OldService(forwarding_to(gateway.client))
    with fake_service(old) as address:
        with old.misbehaving("resets", first=2):
            ...
"""

import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson

from tests.moving_over.services import JSON, Handler, Request, Response

Next = Callable[[Request], Response | None]
Misbehaviour = Callable[["OldService", Request, Next], Response | None]
Item = dict[str, Any]
MISBEHAVIOURS: dict[str, Misbehaviour] = {}


@dataclass(frozen=True)
class Switch:
    """When a misbehaviour happens: for these users and paths, the first times only or each n-th time."""

    misbehave: Misbehaviour
    first: int | None
    every: int
    path: str  # a part of it, with the query
    user: str | None


class OldService:
    """A handler for `fake_service`."""

    def __init__(self, answer: Handler) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.switches: dict[str, Switch] = {}
        self.times: Counter[str] = Counter()  # for which each misbehaviour was considered
        self.released = Event()  # ends `hangs`
        self.expired: set[str] = set()  # tokens, of `expires`
        self.values: dict[str, Any] = {}  # of `has another value`, by member
        self.hidden: set[int] = set()  # ids, of `hides rows`
        self.lock = Lock()

    def on(
        self,
        name: str,
        first: int | None = None,
        every: int = 1,
        path: str = "",
        user: str | None = None,
    ) -> None:
        with self.lock:
            self.times[name] = 0
            self.switches[name] = Switch(MISBEHAVIOURS[name], first, every, path, user)

    def off(self, name: str) -> None:
        with self.lock:
            del self.switches[name]

    @contextmanager
    def misbehaving(self, name: str, **when: Any) -> Iterator[None]:
        self.on(name, **when)
        try:
            yield
        finally:
            self.off(name)

    def __call__(self, request: Request) -> Response | None:
        with self.lock:
            self.requests.append(request)
            chosen = [
                switch.misbehave for name, switch in self.switches.items() if self.hits(name, switch, request)
            ]
        return self.pass_through(request, chosen)

    def hits(self, name: str, switch: Switch, request: Request) -> bool:
        token = request.headers.get("authorization", "")
        if switch.path not in request.path or (switch.user is not None and not token.endswith(switch.user)):
            return False
        self.times[name] += 1
        is_early = switch.first is None or self.times[name] <= switch.first
        return is_early and self.times[name] % switch.every == 0

    def pass_through(self, request: Request, chosen: list[Misbehaviour]) -> Response | None:
        if not chosen:
            return self.answer(request)
        first, *rest = chosen
        return first(self, request, lambda changed: self.pass_through(changed, rest))


def misbehaviour(name: str) -> Callable[[Misbehaviour], Misbehaviour]:
    def register(function: Misbehaviour) -> Misbehaviour:
        MISBEHAVIOURS[name] = function
        return function

    return register


def instead(name: str, response: Response | None) -> None:
    """Answers without reaching the service."""
    MISBEHAVIOURS[name] = lambda old, request, answer: response


def of_body(name: str, change: Callable[[bytes], bytes], **headers: str) -> None:
    def misbehave(old: OldService, request: Request, answer: Next) -> Response | None:
        response = answer(request)
        if response is None or response.status != 200 or request.method != "GET":
            return response
        return replace(response, body=change(response.body), headers={**response.headers, **headers})

    MISBEHAVIOURS[name] = misbehave


def of_page(name: str, change: Callable[[Item], object]) -> None:
    def apply(body: bytes) -> bytes:
        page = orjson.loads(body)
        if "content" in page:
            change(page)
        return orjson.dumps(page)

    of_body(name, apply)


def of_item(name: str, change: Callable[[Item], object]) -> None:
    """Changes the first item of each list, and each assignment that is requested by its id."""

    def apply(body: bytes) -> bytes:
        page = orjson.loads(body)
        for item in page.get("content", [page])[:1]:
            change(item)
        return orjson.dumps(page)

    of_body(name, apply)


# --- the network ----------------------------------------------------------------------------------

instead("sends 429", Response(429, headers={**JSON, "Retry-After": "0"}))
instead("sends 429 without Retry-After", Response(429))
instead("sends 500", Response(500))
instead("sends 502", Response(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"}))
instead("sends 503 with Retry-After", Response(503, headers={**JSON, "Retry-After": "0"}))
instead("redirects", Response(302, headers={"Location": "https://login.example.test/"}))
instead("resets", None)
instead("sends a login page", Response(body=b"<!doctype html><title>Log in</title>"))


@misbehaviour("resets after it has worked")
def reset_late(old: OldService, request: Request, answer: Next) -> None:
    """A change is saved, but its response is lost."""
    answer(request)


@misbehaviour("truncates")
def truncate(old: OldService, request: Request, answer: Next) -> Response | None:
    response = answer(request)
    assert response is not None
    length = str(len(response.body))
    return replace(
        response,
        body=response.body[:-7],
        headers={**response.headers, "Content-Length": length, "Connection": "close"},
    )


@misbehaviour("hangs")
def hang(old: OldService, request: Request, answer: Next) -> Response | None:
    """Until `old.released` is set."""
    old.released.wait(60)
    return answer(request)


@misbehaviour("expires")
def expire(old: OldService, request: Request, answer: Next) -> Response | None:
    """Rejects the tokens of `old.expired`."""
    is_expired = request.headers.get("authorization", "").rpartition(" ")[2] in old.expired
    return Response(401) if is_expired else answer(request)


# --- responses ------------------------------------------------------------------------------------

of_body("compresses", gzip.compress, **{"Content-Encoding": "gzip"})
of_body("compresses silently", gzip.compress)
of_body("writes Latin-1", lambda body: body.decode().encode("latin-1", "replace"))
of_body("writes UTF-16", lambda body: body.decode().encode("utf-16"))
of_body("begins with a byte order mark", lambda body: b"\xef\xbb\xbf" + body)
of_body("is cut in the middle", lambda body: body[: len(body) // 2])


# --- lists ----------------------------------------------------------------------------------------


def empty(page: Item) -> None:
    page.update(content=[], totalElements=0, totalPages=0, numberOfElements=0, first=True, last=True)


of_page("empties lists", empty)
of_page("promises pages", lambda page: page.update(totalPages=page["totalPages"] + 5))
of_page("promises a million pages", lambda page: page.update(totalPages=1_000_000))
of_page("denies pages", lambda page: page.update(totalPages=min(page["totalPages"], 1), last=True))
of_page("promises items", lambda page: page.update(totalElements=page["totalElements"] + 3))
of_page("denies items", lambda page: page.update(totalElements=min(page["totalElements"], 1)))
of_page("miscounts a page", lambda page: page.update(numberOfElements=page["numberOfElements"] + 1))
of_page("doubles an item", lambda page: page.update(content=page["content"][:1] + page["content"]))


@misbehaviour("ignores the page")
def ignore_page(old: OldService, request: Request, answer: Next) -> Response | None:
    return answer(with_query(request, page="0")) if "?" in request.path else answer(request)


@misbehaviour("counts pages from 1 as pageNo")
def count_from_one(old: OldService, request: Request, answer: Next) -> Response | None:
    """The parameters are `pageNo` and `limit`."""
    given = query_of(request)
    if "time-state" not in given:
        return answer(request)
    number = int(given.pop("pageNo", "1"))
    path = f"{urlsplit(request.path).path}?" + urlencode(
        {"time-state": given["time-state"], "page": number - 1, "size": given.get("limit", "2")}
    )
    response = answer(replace(request, path=path))
    assert response is not None
    page = orjson.loads(response.body)
    return replace(response, body=orjson.dumps({**page, "number": number}))


@misbehaviour("forgets details")
def forget_detail(old: OldService, request: Request, answer: Next) -> Response | None:
    """Deletes an item between the list and its detail."""
    return answer(request) if "time-state" in request.path else Response(404)


@misbehaviour("omits answers")
def omit_answers(old: OldService, request: Request, answer: Next) -> Response | None:
    response = answer(request)
    assert response is not None
    if "time-state" not in request.path or "/caregiver/" not in request.path or response.status != 200:
        return response
    page = orjson.loads(response.body)
    for item in page["content"]:
        item["answers"] = []
    return replace(response, body=orjson.dumps(page))


@misbehaviour("hides rows")
def hide(old: OldService, request: Request, answer: Next) -> Response | None:
    """Lists do not show the assignments of `old.hidden`."""
    response = answer(request)
    if response is None or response.status != 200 or "/caregiver/" not in request.path:
        return response
    page = orjson.loads(response.body)
    if "content" in page:
        shown = [item for item in page["content"] if item["id"] not in old.hidden]
        lost = len(page["content"]) - len(shown)
        page.update(content=shown, numberOfElements=len(shown), totalElements=page["totalElements"] - lost)
        page["totalPages"] = -(-page["totalElements"] // page["size"])
    return replace(response, body=orjson.dumps(page))


def query_of(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def with_query(request: Request, **changed: str) -> Request:
    path = urlsplit(request.path).path
    return replace(request, path=f"{path}?{urlencode({**query_of(request), **changed})}")


# --- items ----------------------------------------------------------------------------------------

of_item("has an unknown status", lambda item: "status" in item and item.update(status="EXPIRED"))
of_item("has a null title", lambda item: "title" in item and item.update(title=None))
of_item("writes 85.0", lambda item: "score" in item and item.update(score=85.0))
of_item("writes ids as text", lambda item: item.update(id=str(item["id"])))
of_item("writes seconds", lambda item: item.update(startDate=item["startDate"] + ":00"))
of_item("writes NUL", lambda item: item.update(clientName="Zoë\0"))
of_item("omits ids", lambda item: item.pop("id"))
of_item("has a new member", lambda item: item.update(rating=5))
of_item("shows feedbacks", lambda item: item.update(feedbacks=[{"id": 1, "text": "Well done"}]))
of_item("counts wrong", lambda item: "assignmentCount" in item and item.update(pendingAssignmentCount=9))
of_body(
    "writes a lone surrogate",
    lambda body: body.replace('"clientName":"Zoë'.encode(), b'"clientName":"\\ud83d', 1),
)


@misbehaviour("has another value")
def change_values(old: OldService, request: Request, answer: Next) -> Response | None:
    """The members of `old.values` have its values, in each item that has them."""
    response = answer(request)
    if response is None or response.status != 200:
        return response
    page = orjson.loads(response.body)
    for item in page.get("content", [page]):
        item.update({name: value for name, value in old.values.items() if name in item})
    return replace(response, body=orjson.dumps(page))
