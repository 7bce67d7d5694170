"""How what the page loads is answered: by name from what is known, so that no path leads anywhere else."""

import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from app.dev.ide import ASSETS
from app.dev.ide.built import KINDS, Built

HASHED = re.compile(r"-[A-Z0-9]{8}\.(?:js|css)")
FOR_GOOD = "public, max-age=31536000, immutable"  # what has a hash in its name never changes
ASKED_ANEW = "no-cache"


def asset_maker(built: Built | None) -> Callable[[Request], Awaitable[Response]]:
    files = built.files if built else {}

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if path := files.get(name):
            kept = FOR_GOOD if HASHED.search(name) else ASKED_ANEW
            return FileResponse(path, media_type=KINDS[path.suffix], headers={"cache-control": kept})
        if name in ASSETS:
            content, kind = ASSETS[name]
            return Response(content, media_type=kind, headers={"cache-control": ASKED_ANEW})
        return Response(status_code=404)

    return asset
