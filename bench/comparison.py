"""Whether a running server answers an operation rightly: a server is timed only on what it gets right."""

import base64
import json
import re
import sqlite3
from typing import Any

import expected
import httpx2
from servers import SUBMITTED, Request, Server, Target

DRAFTS, SUBMISSIONS, EVENING = "D", "S", "M"
WRITES = ("R4", "G4", EVENING)
WRITTEN = {"assignment": 2, "reminder": 2, SUBMITTED: 0}  # rows of one request: two books, one reminder each

MOMENT = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d)(:\d\d(\.\d+)?)?(Z|\+00:00)?")


def what_is_wrong(
    target: Target,
    server: Server,
    operation: str,
    request: Request,
    truth: sqlite3.Connection,
    values: expected.Values,
) -> str | None:
    """One sentence on the first thing that is wrong with the answer, or None."""
    spec = target.operations[operation]
    before = target.rows_written() if operation in WRITES else {}
    reply = send(server, request)
    if reply.status_code != 200:
        return f"status {reply.status_code}: {reply.text[:300]}"
    if accepts_forgery(server, request):
        return "a token with a broken signature was accepted"
    if operation in WRITES:
        after = target.rows_written()
        new = {table: after[table] - before[table] for table in after}
        return graphql_errors(reply) or (None if new == WRITTEN else f"wrote {new}, should write {WRITTEN}")
    want = expected.ANSWER[operation](truth, values)
    if "document" not in spec:
        return difference_in_rest(want, reply)
    if errors := graphql_errors(reply):
        return errors
    return difference(want, common_form(reply.json()["data"], spec.get("flatten", {})))


def send(server: Server, request: Request) -> httpx2.Response:
    with httpx2.Client(base_url=server.url, timeout=10) as client:
        return client.request(request.method, request.path, headers=request.headers, content=request.body)


def accepts_forgery(server: Server, request: Request) -> bool:
    forged = {**request.headers, "Authorization": request.headers["Authorization"][:-8] + "AAAAAAAA"}
    reply = send(server, request._replace(headers=forged))
    return reply.status_code == 200 and '"errors"' not in reply.text


def graphql_errors(reply: httpx2.Response) -> str | None:
    body = reply.json()
    errors = body.get("errors")
    for payload in (body.get("data") or {}).values():
        if isinstance(payload, dict):
            errors = errors or payload.get("userErrors")
    return f"errors: {str(errors)[:300]}" if errors else None


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def difference_in_rest(want: Any, reply: httpx2.Response) -> str | None:
    """Clients of the legacy paths may be strict parsers: names, order, types, values and bytes all count."""
    if reply.content == encoded(want):
        return None
    return difference(want, reply.json()) or "the same JSON, but not the same bytes (spaces or escapes)"


def difference(want: Any, got: Any, where: str = "reply") -> str | None:
    """The first difference, in a sentence; members must have the same order."""
    if isinstance(want, dict) and isinstance(got, dict):
        if list(want) != list(got):
            return f"{where} has members {list(got)}, expected {list(want)}"
        pairs = [(f"{where}.{name}", want[name], got[name]) for name in want]
    elif isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{where} has {len(got)} items, expected {len(want)}"
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(want, got, strict=True))]
    else:
        same = type(want) is type(got) and want == got
        return None if same else f"{where} is {got!r}, expected {want!r}"
    return next((found for name, a, b in pairs if (found := difference(a, b, name))), None)


def common_form(value: Any, flatten: dict[str, str], member: str = "") -> Any:
    """A GraphQL answer with ids as numbers, moments as on the legacy paths, and some objects flattened."""
    if isinstance(value, list):
        return [common_form(item, flatten) for item in value]
    if isinstance(value, dict):
        plain = {}
        for name, item in value.items():
            inner = next((path.split(".")[1] for path in flatten if path.split(".")[0] == name), None)
            if inner and isinstance(item, dict):
                plain[flatten[f"{name}.{inner}"]] = item[inner]
            else:
                plain[name] = common_form(item, flatten, name)
        return plain
    if isinstance(value, str) and (m := MOMENT.fullmatch(value)):
        return f"{m[1]}/{m[2]}/{m[3]} {m[4]}"
    if isinstance(value, str) and member == "id":
        return number_of(value)
    return value


def number_of(identifier: str) -> int:
    """The number in an id: itself, or that of an opaque id such as base64("Session:12")."""
    if identifier.isdecimal():
        return int(identifier)
    return int(base64.b64decode(identifier).decode().rpartition(":")[2])
