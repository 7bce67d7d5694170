"""Recordings for tests: what people are answered, in lines as docs/moving-over.md tells of them."""

from collections.abc import Iterable, Iterator
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


def pages(caller: Caller, role: str, size: int) -> Iterator[tuple[str, bytes]]:
    """Every page of every list, as the path and what was answered."""
    for state in TimeState:
        number, of_all = 0, 1
        while number < max(of_all, 1):
            path = f"{PATHS[role]}?time-state={state}&page={number}&size={size}"
            answer = caller.get(path)
            assert answer.status_code == 200, (path, answer.text)
            yield path, answer.content
            number, of_all = number + 1, answer.json()["totalPages"]


def caller_of(gateway: Gateway, role: str, number: int) -> Caller:
    return gateway.as_caregiver(number) if role == "caregiver" else gateway.as_client(number)


def recording(
    gateway: Gateway, caregivers: Iterable[int], clients: Iterable[int], size: int = 20
) -> list[Line]:
    """As `legacy record` makes one: with each complete assignment whose answers its list does not show."""
    return [
        {"path": path, "userName": f"{role}-{number}", "answer": body.decode()}
        for role, numbers in (("caregiver", caregivers), ("client", clients))
        for number in numbers
        for path, body in with_details(caller_of(gateway, role, number), role, size)
    ]


def with_details(caller: Caller, role: str, size: int) -> Iterator[tuple[str, bytes]]:
    for path, body in pages(caller, role, size):
        yield path, body
        for item in orjson.loads(body)["content"]:
            if item.get("status") == "COMPLETE" and not item["answers"]:
                detail = f"{PATHS[role]}/{item['id']}"
                yield detail, caller.get(detail).content


def write_lines(file: Path, lines: Iterable[Line]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file
