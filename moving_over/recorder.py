"""Records a service: requests every page that each user can read and writes the responses to a folder."""

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from app.care.context import Role
from app.db.tables import AssignmentStatus, TimeState
from app.http.paths import ASSIGNMENTS, SESSIONS
from moving_over import LegacyMigrationError
from moving_over.http_client import Address, Connection, RequestFailed
from moving_over.recorded_calls import INDEX
from moving_over.tokens import UserToken

LISTS = {Role.CAREGIVER: ASSIGNMENTS, Role.CLIENT: SESSIONS}
HEADERS = {"offset": "1"}  # old clients send it with every call
MAX_ATTEMPTS = 3  # for a list that changes while it is read

Line = dict[str, Any]  # of the index


def record(
    address: Address, folder: Path, tokens: list[UserToken], size: int, timeout: float, concurrency: int
) -> Iterator[int]:
    """Yields the number of responses of each user. The folder appears only when it is complete."""
    with new_folder(folder) as part, ThreadPoolExecutor(concurrency) as pool:
        recorder = Recorder(address, part, size, timeout)
        users = [pool.submit(recorder.record, token) for token in tokens]
        try:
            with open(part / INDEX, "xb", opener=open_private) as index:
                for user in users:
                    lines = user.result()
                    index.writelines(orjson.dumps(line) + b"\n" for line in lines)
                    yield len(lines)
        finally:
            recorder.is_stopped.set()
            pool.shutdown(cancel_futures=True)


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder, which gets its name when the block succeeds and is removed when it fails."""
    part = folder.with_name(f"{folder.name}.part")
    if folder.exists():
        raise LegacyMigrationError(f"{folder} exists already; a recording needs a new folder")
    if part.exists():
        raise LegacyMigrationError(f"{part} exists already, of an interrupted recording; remove it first")
    try:
        part.mkdir(mode=0o700)
    except OSError as error:
        raise LegacyMigrationError(f"{part} cannot be created: {error.strerror}") from None
    try:
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@dataclass(frozen=True)
class Recorder:
    address: Address
    folder: Path
    size: int
    timeout: float
    numbers: Iterator[int] = field(default_factory=lambda: count(1))  # of the files
    is_stopped: threading.Event = field(default_factory=threading.Event)

    def record(self, token: UserToken) -> list[Line]:
        """Writes the responses of one user."""
        with closing(Connection(self.address, self.timeout)) as connection:
            return [line for state in TimeState for line in self.record_list(connection, token, state)]

    def record_list(self, connection: Connection, token: UserToken, state: TimeState) -> list[Line]:
        """Starts again, up to MAX_ATTEMPTS times, if the list changes meanwhile."""
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            totals: set[int] = set()
            lines: list[Line] = []
            details: list[str] = []
            number, pages = 0, 1
            while number < pages:
                path = f"{LISTS[token.role]}?time-state={state}&page={number}&size={self.size}"
                body = self.fetch(connection, token, path)
                page = read_page(body, path, number)
                totals.add(page["totalElements"])
                pages = page["totalPages"]
                lines.append(self.write(token, path, body))
                details += paths_of_details(page)
                number += 1
            if len(totals) == 1 or not attempts_left:
                break
            for line in lines:
                (self.folder / line["file"]).unlink()
        return [*lines, *(self.write(token, path, self.fetch(connection, token, path)) for path in details)]

    def fetch(self, connection: Connection, token: UserToken, path: str) -> bytes:
        if self.is_stopped.is_set():
            raise LegacyMigrationError("stopped")  # not shown: the first failure is reported
        try:
            response = connection.send("GET", path, token.token, HEADERS)
        except RequestFailed as error:
            raise LegacyMigrationError(f"{path} failed: {error}") from None
        if response.status in (401, 403):
            raise LegacyMigrationError(f"{token.place}: the service rejects this token ({response.status})")
        if response.status != 200:
            raise LegacyMigrationError(f"{path} failed with status {response.status}")
        return response.body

    def write(self, token: UserToken, path: str, body: bytes) -> Line:
        name = f"{next(self.numbers):06}.json"
        with open(self.folder / name, "xb", opener=open_private) as file:
            file.write(body)
        return {
            "method": "GET",
            "path": path,
            "role": token.role,
            "userName": token.user,
            "headers": HEADERS,
            "status": 200,
            "moment": datetime.now(UTC).isoformat(timespec="seconds"),
            "file": name,
        }


def read_page(body: bytes, path: str, number: int) -> dict[str, Any]:
    try:
        page: dict[str, Any] = orjson.loads(body)
        total, pages, returned = page["totalElements"], page["totalPages"], page["number"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise LegacyMigrationError(f"{path} does not return a page") from None
    if type(total) is not int or type(pages) is not int or returned != number:
        raise LegacyMigrationError(f"{path} returns a different page: the service does not support `page`")
    return page


def paths_of_details(page: dict[str, Any]) -> list[str]:
    """The paths of complete assignments whose answers the list omits."""
    return [
        f"{ASSIGNMENTS}/{item['id']}"
        for item in page.get("content") or ()
        if isinstance(item, dict)
        and item.get("status") == AssignmentStatus.COMPLETE
        and not item.get("answers")
    ]
