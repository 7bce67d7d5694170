"""Records a service: requests every page that each user can read and writes the responses to a folder."""

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from app.care.context import Role
from app.db.tables import AssignmentStatus, TimeState
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.legacy_migration.errors import MovingRefused
from app.legacy_migration.http_client import Address, Line, NoAnswer
from app.legacy_migration.recorded_calls import INDEX
from app.legacy_migration.tokens import Person

LISTS = {
    Role.CAREGIVER: ASSIGNMENTS,
    Role.CLIENT: SESSIONS,
}
HEADERS = {"offset": "1"}  # old clients send it with every call
WALKS = 3  # attempts for a list that changes while it is read

Said = dict[str, Any]


class RecordingFailed(MovingRefused):
    """The service cannot be recorded."""


@dataclass(frozen=True)
class Recorder:
    address: Address
    folder: Path
    size: int
    seconds: float
    at_once: int
    is_given_up: threading.Event = field(default_factory=threading.Event)

    def record(self, people: list[Person]) -> Iterator[int]:
        """How many answers were written for each person, one after the other.

        The folder is there when all of it is; what broke off is removed.
        """
        with unfinished(self.folder) as folder, ThreadPoolExecutor(self.at_once) as pool:
            numbers = count(1)
            walks = [pool.submit(Walk(self, folder, person, numbers).all) for person in people]
            try:
                with open(folder / INDEX, "xb", opener=for_owner) as index:
                    for walk in walks:
                        written = walk.result()
                        index.writelines(orjson.dumps(said) + b"\n" for said in written)
                        yield len(written)
            finally:
                self.is_given_up.set()
                pool.shutdown(cancel_futures=True)


def for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def unfinished(folder: Path) -> Iterator[Path]:
    part = folder.with_name(f"{folder.name}.part")
    if folder.exists():
        raise RecordingFailed(f"{folder} is there already; recordings are not mixed")
    if part.exists():
        raise RecordingFailed(f"{part} is there already, of a recording that broke off; remove it first")
    try:
        part.mkdir(mode=0o700)
    except OSError as error:
        raise RecordingFailed(f"{part} cannot be made: {error.strerror}") from None
    try:
        yield part
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


class Walk:
    """Reads all pages of one user."""

    def __init__(self, recorder: Recorder, folder: Path, person: Person, numbers: Iterable[int]) -> None:
        self.recorder = recorder
        self.folder = folder
        self.person = person
        self.numbers = iter(numbers)
        self.line = Line(recorder.address, recorder.seconds)

    def all(self) -> list[Said]:
        try:
            return [said for state in TimeState for said in self.walk(state)]
        finally:
            self.line.close()

    def walk(self, state: TimeState) -> list[Said]:
        """Reads one list, and starts again, up to WALKS times, if it changed meanwhile."""
        for left in reversed(range(WALKS)):
            totals: set[int] = set()
            written: list[Said] = []
            wanted: list[str] = []
            number, of_all = 0, 1
            while number < of_all:
                path = f"{LISTS[self.person.role]}?time-state={state}&page={number}&size={self.recorder.size}"
                body = self.ask(path)
                total, of_all = read_page(body, path, number)
                totals.add(total)
                written.append(self.write(path, body))
                wanted += details_of(body)
                number += 1
            if len(totals) == 1 or not left:
                break
            for said in written:
                (self.folder / said["file"]).unlink()
        return [*written, *(self.write(path, self.ask(path)) for path in wanted)]

    def ask(self, path: str) -> bytes:
        if self.recorder.is_given_up.is_set():
            raise RecordingFailed("given up")  # not shown: the first failure is reported
        try:
            answer = self.line.ask_patiently("GET", path, self.person.token, HEADERS, None)
        except NoAnswer as fault:
            raise RecordingFailed(f"{path} is not answered: {fault}") from None
        if answer.status in (401, 403):
            raise RecordingFailed(f"{self.person.place}: the service refuses this token ({answer.status})")
        if answer.status != 200:
            raise RecordingFailed(f"{path} is answered with {answer.status}")
        return answer.body

    def write(self, path: str, body: bytes) -> Said:
        name = f"{next(self.numbers):06}.json"
        with open(self.folder / name, "xb", opener=for_owner) as file:
            file.write(body)
        return {
            "method": "GET",
            "path": path,
            "role": self.person.role,
            "userName": self.person.user,
            "headers": HEADERS,
            "status": 200,
            "moment": datetime.now(UTC).isoformat(timespec="seconds"),
            "file": name,
        }


def read_page(body: bytes, path: str, number: int) -> tuple[int, int]:
    """The total numbers of items and pages."""
    try:
        page = orjson.loads(body)
        total, of_all, answered = page["totalElements"], page["totalPages"], page["number"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise RecordingFailed(f"{path} is not answered with a page") from None
    if type(total) is not int or type(of_all) is not int or answered != number:
        raise RecordingFailed(f"{path} is answered with another page: it cannot be walked by `page`")
    return total, of_all


def details_of(body: bytes) -> list[str]:
    """Of what was completed without the list showing its answers."""
    return [
        f"{LISTS[Role.CAREGIVER]}/{item['id']}"
        for item in orjson.loads(body).get("content") or ()
        if isinstance(item, dict)
        and item.get("status") == AssignmentStatus.COMPLETE
        and not item.get("answers")
    ]
