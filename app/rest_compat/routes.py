"""The four legacy paths: each reads its request, runs its document for the viewer, shapes the answer."""

import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from app.auth.door import Door
from app.care.context import Context, Role
from app.care.errors import CareError, Unreadable
from app.db.selection import NEWEST
from app.db.tables import TimeState
from app.rest_compat import shapes
from app.rest_compat.errors import LegacyError, error_response, refusal
from app.rest_compat.homework import read_homework
from app.schema.endpoint import read_body, request_id_of
from app.schema.errors import INTERNAL, code_of
from app.schema.lists import LARGEST_INT
from app.schema.schema import Schema

FOLDER = Path(__file__).parent / "documents"
CLIENT_SESSIONS, CAREGIVER_ASSIGNMENTS, CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK = (
    (FOLDER / f"{name}.graphql").read_text()
    for name in ("client_sessions", "caregiver_assignments", "caregiver_assignment", "assign_homework")
)

PAGE_SIZE = 20
LARGEST_PAGE = 100
LONGEST_BODY = 64 * 1024
MOST_DIGITS = 18

logger = logging.getLogger("care.legacy")
Handler = Callable[[Request], Awaitable[dict[str, Any]]]


def build_legacy(schema: Schema, zone: ZoneInfo) -> Starlette:
    async def list_client_sessions(request: Request) -> dict[str, Any]:
        ctx = await enter(request, Role.CLIENT)
        return await list_page(ctx, request, CLIENT_SESSIONS, "sessions", shapes.session)

    async def list_caregiver_assignments(request: Request) -> dict[str, Any]:
        ctx = await enter(request, Role.CAREGIVER)
        return await list_page(ctx, request, CAREGIVER_ASSIGNMENTS, "assignments", shapes.assignment)

    async def get_caregiver_assignment(request: Request) -> dict[str, Any]:
        ctx = await enter(request, Role.CAREGIVER)
        data = await run(ctx, CAREGIVER_ASSIGNMENT, {"id": read_path_id(request.path_params["id"])})
        return shapes.assignment(data["assignment"], zone)

    async def assign_homework(request: Request) -> dict[str, Any]:
        ctx = await enter(request, Role.CAREGIVER)
        homework = read_homework(await read_json_body(request), zone)
        payload = (await run(ctx, ASSIGN_HOMEWORK, {"input": homework}))["assignHomework"]
        if errors := payload["userErrors"]:
            raise refusal(errors[0]["code"], errors[0]["message"])
        return {"message": payload["message"]}

    async def list_page(
        ctx: Context, request: Request, document: str, field: str, shape: shapes.Shape
    ) -> dict[str, Any]:
        state = read_time_state(request)
        number, size = read_page(request)
        # A page behind what a GraphQL Int holds is past the end of any list.
        offset = min(number * size, LARGEST_INT)
        found = (await run(ctx, document, {"timeState": state, "first": size, "offset": offset}))[field]
        content = [shape(node, zone) for node in found["nodes"]]
        return shapes.page(content, found["totalCount"], number, size)

    async def run(ctx: Context, document: str, variables: dict[str, Any]) -> dict[str, Any]:
        result = await schema.execute(document, variables, context_value=ctx)
        if result.errors:
            code = code_of(result.errors[0])
            raise refusal(code, "Internal error" if code == INTERNAL else result.errors[0].message)
        assert result.data is not None
        return result.data

    async def by_method(request: Request) -> dict[str, Any]:
        handler = assign_homework if request.method == "PUT" else list_caregiver_assignments
        return await handler(request)

    # One route per path, so that `Allow` is complete.
    app = Starlette(
        routes=[
            Route("/profile/client/session", legacy(list_client_sessions), methods=["GET"]),
            Route("/profile/caregiver/session/assignment", legacy(by_method), methods=["GET", "PUT"]),
            Route(
                "/profile/caregiver/session/assignment/{id}",
                legacy(get_caregiver_assignment),
                methods=["GET"],
            ),
        ],
        exception_handlers={HTTPException: unknown},
    )
    app.router.redirect_slashes = False  # a path with a slash at its end is an unknown one
    return app


def legacy(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler's body as a response, and its refusal as the one error body."""

    async def respond(request: Request) -> Response:
        request.state.request_id = request_id_of(request.headers)
        try:
            response = Response(orjson.dumps(await handler(request)), media_type="application/json")
        except LegacyError as error:
            response = error_response(request, error)
        except CareError as error:
            response = error_response(request, refusal(error.code, error.message))
        except ClientDisconnect:
            response = error_response(request, LegacyError(400, "the body did not arrive"))  # read by nobody
        except Exception:
            logger.exception("fault in request %s", request.state.request_id)
            response = error_response(request, refusal(INTERNAL, "Internal error"))
        response.headers["x-request-id"] = request.state.request_id
        return as_asked(request, response)

    return respond


def as_asked(request: Request, response: Response) -> Response:
    if request.method == "HEAD":
        response.body = b""  # the headers, content-length among them, are those of the GET
    return response


async def unknown(request: Request, error: Exception) -> Response:
    """What the router refuses: an unknown path, a method that the path does not have."""
    assert isinstance(error, HTTPException)
    messages = {404: "no such path", 405: "no such method on this path"}
    allow = (error.headers or {}).get("Allow")
    message = messages.get(error.status_code, error.detail)
    return as_asked(request, error_response(request, LegacyError(error.status_code, message, allow)))


async def enter(request: Request, role: Role) -> Context:
    door: Door = request.state.door
    ctx = await door.open(request.headers.get("authorization"), request.state.request_id)
    ctx.signed_in_as(role)
    return ctx


def read_time_state(request: Request) -> str:
    given = request.query_params.getlist("time-state")
    if len(given) != 1 or given[0] not in list(TimeState):
        raise Unreadable("time-state", "must be one of RUNNING, FUTURE, COMPLETED")
    return given[0]


def read_page(request: Request) -> tuple[int, int]:
    """Page and size; what cannot be used falls back to the documented call."""
    number = read_count(request.query_params.get("page"), 0)
    size = read_count(request.query_params.get("size"), PAGE_SIZE)
    return max(number, 0), min(max(size, 1), LARGEST_PAGE)


def read_count(text: str | None, default: int) -> int:
    if text is None or not re.fullmatch(r"-?[0-9]+", text):
        return default
    return int(text[:MOST_DIGITS])  # of more digits only that they are many counts


def read_path_id(text: str) -> str:
    if re.fullmatch(r"[0-9]{1,19}", text) is None or int(text) > NEWEST:
        raise Unreadable("id", "must be an integer id")
    return text


async def read_json_body(request: Request) -> bytes:
    """The body: refused when it is too long, without being read whole, or when it says it is no JSON."""
    body = await read_body(request, LONGEST_BODY)
    if body is None:
        raise LegacyError(413, f"the body may have at most {LONGEST_BODY} bytes")
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise LegacyError(415, "the content type must be application/json")
    return body
