"""The four legacy paths. Each handler reads its request, runs its GraphQL document and writes the body."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from app.care.context import Context, Role
from app.care.errors import InvalidValue, NotAllowed, NotSignedIn
from app.care.idempotency import KeyScope
from app.db.audit.records import ASSIGNMENTS
from app.db.tables import Contract, TimeState
from app.http import paths
from app.http.errors import BY_CODE, Failure, RequestRejected, explain, headers_of, legacy_reply
from app.http.idempotency import HEADER, idempotency_for, read_key, run_once
from app.http.messages import (
    ENCODED,
    Reply,
    header,
    is_encoded,
    read_body,
    request_id_of,
    send_reply,
)
from app.http.sign_in import open_context
from app.rest_compat import bodies
from app.rest_compat.deprecation import deprecation_headers
from app.rest_compat.homework import read_homework
from app.schema.errors import UserError
from app.schema.schema import Schema
from app.schema.types.lists import LARGEST_INT
from app.schema.types.scalars import read_number
from app.settings import Settings
from app.telemetry import counters
from app.usage.counts import Usage

FOLDER = Path(__file__).parent / "documents"
CLIENT_SESSIONS, CAREGIVER_ASSIGNMENTS, CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK = (
    (FOLDER / f"{name}.graphql").read_text()
    for name in ("client_sessions", "caregiver_assignments", "caregiver_assignment", "assign_homework")
)

ONE_ASSIGNMENT = re.compile(rf"{paths.ASSIGNMENTS}/[^/]+")
COUNT = re.compile(r"-?[0-9]+")
PAGE_SIZE = 20
MAX_PAGE_SIZE = 100
TIME_STATES = frozenset(state.value for state in TimeState)

logger = logging.getLogger("care.legacy")
Body = dict[str, Any] | Reply
Handler = Callable[[Scope, Receive], Awaitable[Body]]
Handlers = Mapping[str, Handler]
Parameters = Mapping[str, list[str]]  # of the query string


def build_legacy(schema: Schema, settings: Settings) -> ASGIApp:
    zone, repeats_within = settings.zone, settings.retry_window
    added_headers = deprecation_headers(settings)
    local_times = bodies.LocalTimes(zone)
    running: set[KeyScope] = set()  # idempotency keys of requests in progress
    for document in (CLIENT_SESSIONS, CAREGIVER_ASSIGNMENTS, CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK):
        schema.pin(document)

    async def list_client_sessions(scope: Scope, receive: Receive) -> dict[str, Any]:
        ctx = await authenticate(scope, Role.CLIENT, paths.LIST_CLIENT_SESSIONS, "sessions")
        return await list_page(ctx, scope, CLIENT_SESSIONS, bodies.session)

    async def list_caregiver_assignments(scope: Scope, receive: Receive) -> dict[str, Any]:
        ctx = await authenticate(scope, Role.CAREGIVER, paths.LIST_CAREGIVER_ASSIGNMENTS, "assignments")
        return await list_page(ctx, scope, CAREGIVER_ASSIGNMENTS, bodies.assignment)

    async def get_caregiver_assignment(scope: Scope, receive: Receive) -> dict[str, Any]:
        ctx = await authenticate(scope, Role.CAREGIVER, paths.GET_CAREGIVER_ASSIGNMENT, "assignment")
        number = read_path_id(last_part(scope))
        row = await schema.resolve(CAREGIVER_ASSIGNMENT, {"id": number}, ctx)
        return bodies.assignment(row, local_times)

    async def assign_homework(scope: Scope, receive: Receive) -> Body:
        ctx = await authenticate(scope, Role.CAREGIVER, paths.ASSIGN_HOMEWORK, "assignHomework")
        body = await read_json_body(scope, receive, settings.legacy_body_limit)
        if header(scope, HEADER) is None:
            return await assign(replace(ctx, repeats_within=repeats_within) if repeats_within else ctx, body)
        target = (scope["method"].encode(), scope["path"].encode())
        once = idempotency_for(ctx, "legacy", read_key(scope), *target, body)

        async def assign_once(ctx: Context) -> tuple[Reply, bool]:
            return Reply(orjson.dumps(await assign(ctx, body))), True

        return await run_once(running, ctx, once, assign_once)

    async def assign(ctx: Context, body: bytes) -> dict[str, Any]:
        homework = read_homework(body, zone)
        payload = await schema.resolve(ASSIGN_HOMEWORK, {"input": homework}, ctx)
        if errors := payload.user_errors:
            raise RequestRejected(message_of(errors[0]), BY_CODE[errors[0].code])
        return {"message": payload.message}

    async def list_page(ctx: Context, scope: Scope, document: str, body: bodies.Body) -> dict[str, Any]:
        parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        state = read_time_state(parameters)
        number, size = read_page(parameters)
        # GraphQL Int is limited; a larger offset is past the end of any list.
        offset = min(number * size, LARGEST_INT)
        page = await schema.resolve(document, {"timeState": state, "first": size, "offset": offset}, ctx)
        content = [body(row, local_times) for row in page.rows]
        return bodies.page(content, page.total, number, size)

    handlers: dict[str, Handlers] = {
        paths.SESSIONS: {"GET": list_client_sessions},
        paths.ASSIGNMENTS: {"GET": list_caregiver_assignments, "PUT": assign_homework},
    }
    one_assignment: Handlers = {"GET": get_caregiver_assignment}

    async def legacy(scope: Scope, receive: Receive, send: Send) -> None:
        request_id = scope["state"]["request_id"] = request_id_of(scope)
        methods: Handlers = {}
        if not has_encoded_slash(scope):
            path = scope["path"]
            methods = handlers.get(path) or (one_assignment if ONE_ASSIGNMENT.fullmatch(path) else {})
        reply = await respond(scope, receive, methods)
        if added_headers and methods:
            reply = reply._replace(headers=(*reply.headers, *added_headers))
        await send_reply(scope, send, reply, request_id)

    return legacy


def message_of(error: UserError) -> str:
    """Adds the item of a list, as in `book not found: bookIds[1]`: a legacy error has no field."""
    path = error.field or []
    return f"{error.message}: {path[0]}[{path[1]}]" if len(path) > 1 else error.message


async def respond(scope: Scope, receive: Receive, methods: Handlers) -> Reply:
    """Runs the handler and maps every error to a reply."""
    try:
        handler = choose(methods, scope["method"])
        body = await handler(scope, receive)
        return body if isinstance(body, Reply) else Reply(orjson.dumps(body))
    except ClientDisconnect:
        return legacy_reply(scope, 400, "the body did not arrive")  # never delivered
    except Exception as error:
        failure, message = explain(error, scope["state"]["request_id"], logger)
        return legacy_reply(scope, failure.legacy, message, headers_of(error))


def choose(methods: Handlers, method: str) -> Handler:
    if not methods:
        raise RequestRejected("no such path", Failure.NOT_FOUND)
    handler = methods.get("GET" if method == "HEAD" else method)
    if handler is None:
        allowed = ", ".join(sorted([*methods, *(["HEAD"] if "GET" in methods else [])]))
        message = "no such method on this path"
        raise RequestRejected(message, Failure.METHOD, ((b"allow", allowed.encode()),))
    return handler


def has_encoded_slash(scope: Scope) -> bool:
    """`%2F` is part of a segment (RFC 3986, section 2.2), which the decoded path does not show."""
    return b"%2f" in scope.get("raw_path", b"").lower()


async def authenticate(scope: Scope, role: Role, path: str, operation: str) -> Context:
    """Authenticates the viewer, counts the request and checks the role. `operation` is its name in the audit
    log, the same for both contracts."""
    state = scope["state"]
    state["path"] = path  # for the log
    usage: Usage = state["usage"]
    try:
        ctx = await open_context(scope, state["request_id"], Contract.LEGACY)
    except (NotSignedIn, NotAllowed):
        usage.note_anonymous(path)
        raise
    except Exception:  # for example, the database is unavailable: the token may be valid
        counters.turned_away[path] += 1
        raise
    usage.note(path, ctx, scope)
    viewer = ctx.signed_in()
    if viewer.role is not role:
        number = read_number(last_part(scope))  # the id in the path, if any
        await ctx.require_role(role, operation, {} if number is None else {ASSIGNMENTS: [number]})
    return ctx


def last_part(scope: Scope) -> str:
    return str(scope["path"]).rpartition("/")[2]


def read_time_state(parameters: Parameters) -> str:
    given = parameters.get("time-state", [])
    if len(given) > 1:
        raise InvalidValue("time-state", "must be given once")
    if not given or given[0] not in TIME_STATES:
        raise InvalidValue("time-state", "must be one of RUNNING, FUTURE, COMPLETED")
    return given[0]


def read_page(parameters: Parameters) -> tuple[int, int]:
    """Page and size. The last of repeated values counts; invalid values mean the defaults. A later page than
    the largest 32-bit number is empty too."""
    number = read_count(parameters.get("page", [""])[-1], 0)
    size = read_count(parameters.get("size", [""])[-1], PAGE_SIZE)
    return min(max(number, 0), LARGEST_INT), min(max(size, 1), MAX_PAGE_SIZE)


def read_count(text: str, default: int) -> int:
    if not COUNT.fullmatch(text):
        return default
    return int(max(min(float(text), LARGEST_INT), -1))


def read_path_id(text: str) -> str:
    if read_number(text) is None:
        raise InvalidValue("id", "must be an integer id")
    return text


async def read_json_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """Rejects a body that is too long, not declared as JSON or compressed."""
    body = await read_body(scope, receive, most)
    if body is None:
        raise RequestRejected(f"the body may have at most {most} bytes", Failure.TOO_LONG)
    kind = header(scope, b"content-type")
    if kind is not None and kind.partition(";")[0].strip().lower() != "application/json":
        raise RequestRejected("the content type must be application/json", Failure.CONTENT_TYPE)
    if is_encoded(scope):
        raise RequestRejected(ENCODED, Failure.CONTENT_TYPE)
    return body
