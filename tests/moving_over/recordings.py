"""Builds recordings in the format of docs/moving-over.md, and changes them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from app.db.tables import TimeState
from tests.callers import Caller, Gateway

PATHS = {
    "caregiver": "/gateway/profile/caregiver/session/assignment",
    "client": "/gateway/profile/client/session",
}
Line = dict[str, Any]
Change = Callable[[list[Line]], object]


def pages(caller: Caller, role: str, size: int) -> Iterator[tuple[str, bytes]]:
    """The path and the response body of every page of every list."""
    for state in TimeState:
        number, count = 0, 1
        while number < count:
            path = f"{PATHS[role]}?time-state={state}&page={number}&size={size}"
            response = caller.get(path)
            assert response.status_code == 200, (path, response.text)
            yield path, response.content
            number, count = number + 1, response.json()["totalPages"]


def caller_of(gateway: Gateway, role: str, number: int) -> Caller:
    return gateway.as_caregiver(number) if role == "caregiver" else gateway.as_client(number)


def recording(
    gateway: Gateway, caregivers: Iterable[int], clients: Iterable[int], size: int = 20
) -> list[Line]:
    """The same calls as `legacy record` makes."""
    return [
        {"path": path, "userName": f"{role}-{number}", "answer": body.decode()}
        for role, numbers in (("caregiver", caregivers), ("client", clients))
        for number in numbers
        for path, body in pages_with_details(caller_of(gateway, role, number), role, size)
    ]


def pages_with_details(caller: Caller, role: str, size: int) -> Iterator[tuple[str, bytes]]:
    """With each complete assignment whose answers its list omits."""
    for path, body in pages(caller, role, size):
        yield path, body
        for item in orjson.loads(body)["content"]:
            if item.get("status") == "COMPLETE" and not item["answers"]:
                detail = f"{PATHS[role]}/{item['id']}"
                yield detail, caller.get(detail).content


def write_lines(file: Path, lines: Iterable[Line]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


# --- changes of a complete recording --------------------------------------------------------------


def in_body(number: int, change: Callable[[Any], object]) -> Change:
    """Changes the response of one line. Lines are numbered from 1, like in messages."""

    def apply(lines: list[Line]) -> None:
        body = orjson.loads(lines[number - 1]["answer"])
        change(body)
        lines[number - 1]["answer"] = orjson.dumps(body).decode()

    return apply


def item(number: int, index: int = 0, **changed: Any) -> Change:
    return in_body(number, lambda body: body["content"][index].update(changed))


def line(number: int, **changed: Any) -> Change:
    return lambda lines: lines[number - 1].update(changed)


def without(*numbers: int) -> Change:
    def apply(lines: list[Line]) -> None:
        lines[:] = [each for number, each in enumerate(lines, 1) if number not in numbers]

    return apply


def several(*changes: Change) -> Change:
    return lambda lines: [change(lines) for change in changes]
