"""The files and functions of `app/` that one request runs: how much a reader has to follow.

python bench/crossing.py [-o assignHomework] [-v]

Loads the demo data into a temporary SQLite database, passes the bytes of requests to the HTTP protocol, and
counts the calls of the last one, in all threads. The requests before it fill the caches.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import orjson

APP = Path(__file__).resolve().parent.parent / "app"
WARM = 5  # requests before the one that is counted
ASSIGN = "mutation($input: AssignHomeworkInput!) { assignHomework(input: $input) {\
 message assignments { id name status } userErrors { code } } }"
NOW = datetime.now(UTC)
INPUT = {"sessionId": "1", "bookIds": ["1"], "startDate": NOW, "endDate": NOW + timedelta(days=7)}
REQUESTS: dict[str, tuple[str, str, str, dict[str, Any] | None]] = {
    "assignHomework": ("CAREGIVER", "POST", "/graphql", {"query": ASSIGN, "variables": {"input": INPUT}}),
    "legacy list": ("CLIENT", "GET", "/gateway/profile/client/session?time-state=RUNNING", None),
}

called: set[CodeType] = set()
is_counting = False


def count(frame: FrameType, event: str, _: object) -> None:
    if is_counting and event == "call" and frame.f_code.co_filename.startswith(str(APP)):
        called.add(frame.f_code)


async def run(operation: str, folder: Path) -> None:
    import uvicorn
    from instructions import Transport
    from uvicorn.server import ServerState

    from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
    from app.db.admin.migrate import migrate
    from app.db.drivers.factory import open_database
    from app.db.interchange.load import importing
    from app.dev.tokens import mint_token
    from app.main import create_app
    from app.server.protocol import EdgeProtocol
    from app.settings import read_settings

    global is_counting
    settings = read_settings()
    await migrate(settings.database)
    db = await open_database(settings.database)
    await db.write(importing(demo_lines(NOW)))
    await db.close()
    config = uvicorn.Config(create_app(settings), lifespan="on", log_level="warning")
    config.load()
    lifespan = config.lifespan_class(config)
    await lifespan.startup()
    role, method, path, content = REQUESTS[operation]
    token = mint_token(settings, role, CAREGIVER if role == "CAREGIVER" else CLIENT, NOW + timedelta(hours=1))
    body = b"" if content is None else orjson.dumps(content)
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: bearer {token}\r\n"
    if body:
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    connection, transport = EdgeProtocol(config, ServerState(), lifespan.state.copy()), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    for number in range(WARM + 1):
        is_counting = number == WARM
        connection.data_received(head.encode() + b"\r\n" + body)
        response = await transport.responses.get()
        assert response.startswith(b"HTTP/1.1 200") and b"UNREADABLE" not in response, response
    is_counting = False
    await lifespan.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--operation", choices=REQUESTS, action="append")
    parser.add_argument("-v", "--verbose", action="store_true", help="Print the functions of each file.")
    args = parser.parse_args()
    sys.path.insert(0, str(APP.parent))
    threading.setprofile(count)
    for operation in args.operation or REQUESTS:
        called.clear()
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {"CARE_ENV": "development", "CARE_VAR": folder, "CARE_DISPATCHER": "off"}
            os.environ["CARE_RECENT_REQUESTS"] = "0"  # as in production
            os.environ["CARE_DATABASE_URL"] = f"sqlite:///{folder}/care.db"
            sys.setprofile(count)
            asyncio.run(run(operation, Path(folder)))
            sys.setprofile(None)
        files: dict[str, list[str]] = defaultdict(list)
        for code in called:
            if not code.co_name.startswith("<"):  # a lambda or a comprehension belongs to its function
                files[str(Path(code.co_filename).relative_to(APP))].append(code.co_qualname)
        print(f"{operation}: {len(files)} files, {sum(map(len, files.values()))} functions")
        for file, functions in sorted(files.items()) if args.verbose else ():
            print(f"  {file}: {', '.join(sorted(functions))}")


if __name__ == "__main__":
    main()
