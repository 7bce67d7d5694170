"""Opens the context of a request, for both contracts."""

import asyncio

from starlette.types import Scope

from app.auth.authenticator import Authenticator
from app.care.context import Context
from app.db.tables import Contract
from app.http.messages import header


async def open_context(scope: Scope, request_id: str, contract: Contract) -> Context:
    """Authenticates the request, whose work counts for its viewer from here on.

    A request with a token that is new to the process had its own place in the queue for the event loop
    (server/turns.py). Its rest waits in the place of its viewer, who would get many by using ever new tokens.
    """
    state = scope["state"]
    authenticator: Authenticator = state["authenticator"]
    account = state.get("account")
    authorization = None if account else header(scope, b"authorization")
    context = await authenticator.open(authorization, request_id, contract, account)
    if context.viewer is not None:
        state["budget"] = context.budget
        if account is None:
            await asyncio.sleep(0)  # ends the slice
    return context
