"""Limit: Starlette answering with constant bodies, those of R1 and R2; /jwt/... checks the token first."""

import os
from pathlib import Path

import auth
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODIES = {op: Path(os.environ["BENCH_BODIES"], f"{op}.json").read_bytes() for op in ("R1", "R2")}


async def static(request: Request) -> Response:
    return Response(BODIES[request.path_params["op"]], media_type="application/json")


async def checked(request: Request) -> Response:
    auth.user(request.headers.get("authorization"))
    return Response(BODIES[request.path_params["op"]], media_type="application/json")


async def unauthorized(request: Request, error: Exception) -> Response:
    return Response(status_code=401)


app = Starlette(
    exception_handlers={auth.Unauthorized: unauthorized},
    routes=[Route("/jwt/{op}", checked), Route("/{op}", static)],
)
