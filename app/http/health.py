"""Liveness and readiness endpoints."""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.auth.authenticator import Authenticator
from app.db.admin.migrate import is_newer, serves, stored_version

READ_SECONDS = 5  # less than a read may wait for a connection: who checks does not wait longer

logger = logging.getLogger("care")


async def live(request: Request) -> Response:
    """The process is running."""
    return JSONResponse({"status": "live"})


async def ready(request: Request) -> Response:
    """The database responds and is migrated, and the process is not shutting down."""
    if part := request.state.vitals.failed_part:
        return JSONResponse({"status": f"{part} has ended"}, 503)
    if request.state.admission.is_draining:
        return JSONResponse({"status": "shutting down"}, 503)
    authenticator: Authenticator = request.state.authenticator
    reading = asyncio.create_task(authenticator.db.read(stored_version()))
    reading.add_done_callback(lambda task: task.cancelled() or task.exception())
    done, _ = await asyncio.wait([reading], timeout=READ_SECONDS)
    reading.cancel()  # the cancellation may take longer
    if fault := reading.exception() if done else TimeoutError():  # of any driver
        logger.warning("not ready: %s", type(fault).__name__)
        return JSONResponse({"status": "the database does not respond"}, 503)
    version = reading.result()
    if serves(version):
        return JSONResponse({"status": "ready"})
    if is_newer(version):
        return JSONResponse({"status": "the database has the tables of a newer version"}, 503)
    return JSONResponse({"status": "the database is not migrated"}, 503)


HEALTH_ROUTES = (Route("/livez", live), Route("/readyz", ready))
HEALTH = tuple(route.path for route in HEALTH_ROUTES)  # polled every few seconds
