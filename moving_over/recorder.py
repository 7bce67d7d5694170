"""Records a service: requests every page that each user can read and writes the responses to a folder."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from app.care.context import Role
from app.db.tables import AssignmentStatus, TimeState
from app.http.paths import ASSIGNMENTS, SESSIONS
from app.telemetry.wording import counted
from moving_over import LegacyMigrationError
from moving_over.body_diff import printable
from moving_over.http_client import Address, Connection, RequestFailed, Unreachable, requested_pause
from moving_over.pages import id_in, read_json
from moving_over.recorded_calls import INDEX
from moving_over.tokens import UserToken

# In this order a session that changes its state during the recording is read twice and reported.
STATES = (TimeState.FUTURE, TimeState.RUNNING, TimeState.COMPLETED)
LISTS = {Role.CAREGIVER: ASSIGNMENTS, Role.CLIENT: SESSIONS}
HEADERS = {"offset": "1"}  # old clients send it with every call
MAX_ATTEMPTS = 3  # for a list that changes while it is read
FIRST_PAUSE, MAX_PAUSE = 0.2, 30  # seconds before the second attempt of a call, then twice as long each time
MAX_ERRORS = 10  # after which recording stops

Line = dict[str, Any]  # of the index
Renew = Callable[[UserToken], UserToken | None]  # reads another token of the user, if there is one now


class Failed(LegacyMigrationError):
    """A user cannot be recorded completely."""


@dataclass(frozen=True)
class Recorder:
    address: Address
    folder: Path
    renew: Renew
    concurrency: int
    size: int
    timeout: float
    attempts: int  # of each call
    paging: tuple[str, str]  # the names of the parameters
    first_page: int
    is_stopped: threading.Event = field(default_factory=threading.Event)

    def record(self, tokens: list[UserToken], continues: bool) -> Iterator[int]:
        """Yields the number of responses of each user. The folder appears only when it is complete.

        Until then it has another name, and contains the users who are complete.
        """
        if self.folder.exists():  # `.` exists too, and has no name for `with_name`
            raise LegacyMigrationError(f"{self.folder} exists already; a recording needs a new folder")
        part = self.folder.with_name(f"{self.folder.name}.part")
        done = self.open_folder(part, continues)
        yield from done.values()
        known = (int(file.stem) for file in part.glob("*.json") if file.stem.isdecimal())
        numbers = count(max(known, default=0) + 1)
        errors: list[str] = []
        with (
            ThreadPoolExecutor(self.concurrency) as pool,
            open(part / INDEX, "ab", opener=open_private) as index,
        ):
            users = [
                Caller(self, part, numbers, each)
                for each in tokens
                if name_of(each.role, each.user) not in done
            ]
            try:
                for user in [pool.submit(each.record) for each in users]:
                    try:
                        lines = user.result()
                    except Failed as error:
                        errors.append(str(error))
                        if len(errors) < MAX_ERRORS:
                            continue
                        break
                    index.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))
                    index.flush()
                    done[name_of(lines[0]["role"], lines[0]["userName"])] = len(lines)
                    yield len(lines)
            finally:
                self.is_stopped.set()
                pool.shutdown(cancel_futures=True)
                if not done:
                    shutil.rmtree(part, ignore_errors=True)
        if errors:
            rest = (
                f"{len(done):,} of {counted(len(tokens), 'user')} recorded; record the rest with --continue"
            )
            raise LegacyMigrationError("\n".join([*errors, *([rest] if done else [])]))
        part.rename(self.folder)

    def open_folder(self, part: Path, continues: bool) -> dict[str, int]:
        """Returns the number of responses of each user whom an interrupted recording contains."""
        if part.exists() and not continues:
            text = "exists already, of an interrupted recording; continue it with --continue, or remove it"
            raise LegacyMigrationError(f"{part} {text}")
        try:
            part.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LegacyMigrationError(f"{part} cannot be created: {error.strerror}") from None
        index = part / INDEX
        lines = index.read_bytes().rpartition(b"\n")[0].splitlines(keepends=True) if index.exists() else []
        users = [name_of(line["role"], line["userName"]) for line in map(orjson.loads, lines)]
        whole = users.index(users[-1]) if users else 0  # lines of the last user may be missing
        if index.exists():
            index.write_bytes(b"".join(lines[:whole]))
        return Counter(users[:whole])


def name_of(role: str, user: str) -> str:
    return f"{role.lower()} {user}"


def open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@dataclass
class Caller:
    """Records one user."""

    recorder: Recorder
    folder: Path
    numbers: Iterator[int]  # of the files
    token: UserToken
    connection: Connection = field(init=False)

    def record(self) -> list[Line]:
        self.connection = Connection(self.recorder.address, self.recorder.timeout)
        with closing(self.connection):
            return [line for state in STATES for line in self.record_list(state)]

    def record_list(self, state: TimeState) -> list[Line]:
        """Starts again, up to MAX_ATTEMPTS times, if the list changes meanwhile.

        Reads the promised pages, and then more until it has the promised items or a page has no new items.
        """
        page_name, size_name = self.recorder.paging
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            totals: set[int] = set()
            lines: list[Line] = []
            items: list[Any] = []
            ids: set[str] = set()
            for number in count():
                sent = number + self.recorder.first_page
                path = f"{LISTS[self.token.role]}?time-state={state}&{page_name}={sent}"
                line, page = self.fetch(f"{path}&{size_name}={self.recorder.size}", {number, sent})
                lines.append(line)
                totals.add(page["totalElements"])
                content = page.get("content") or []
                found = [item for item in content if isinstance(item, dict)]
                items += found
                known = len(ids)
                ids.update(str(item.get("id")) for item in found)
                is_end = len(items) == page["totalElements"] or len(ids) == known
                if not content or (number + 1 >= page["totalPages"] and is_end):
                    break
            is_stable = len(totals) == 1 and len(ids) == len(items)
            if is_stable or not attempts_left:
                break
            for line in lines:
                (self.folder / line["file"]).unlink()
        for item in items if self.token.role is Role.CAREGIVER else ():  # a list may omit answers
            if item.get("status") not in (None, AssignmentStatus.PENDING) and not item.get("answers"):
                row_id = id_in(item, "id")
                if row_id is not None:  # `import` sets an item without a valid id aside
                    lines.append(self.fetch(f"{ASSIGNMENTS}/{row_id}")[0])
        return lines

    def fetch(self, path: str, numbers: Container[int] = ()) -> tuple[Line, Any]:
        """Writes a page with one of these numbers, or without numbers an assignment, and returns it.

        Repeats a call that fails, after increasing pauses that are at least as long as the service requests.
        """
        reason, requested = "", 0
        for attempt in range(self.recorder.attempts):
            pause = max(min(FIRST_PAUSE * 2 ** (attempt - 1), MAX_PAUSE), requested)
            if self.recorder.is_stopped.wait(attempt and pause):
                break
            requested = 0
            try:
                response = self.connection.send("GET", path, self.token.token, HEADERS, attempts=1)
            except (RequestFailed, Unreachable) as error:
                reason = str(error)
                continue
            reason, requested = f"status {response.status}", requested_pause(response)
            if response.status in (401, 403):
                reason = f"the service rejects the token of {self.token.place} ({response.status})"
                if (renewed := self.recorder.renew(self.token)) is None:
                    break
                if renewed != self.token:
                    self.token = renewed
                    return self.fetch(path, numbers)
            elif response.status == 404 and not numbers:
                return self.line(path, 404), None
            elif response.status == 200:
                try:
                    page = read_json(response.body)
                    if numbers:
                        check_page(page, numbers)
                    return {**self.line(path, 200), "file": self.write(response.body)}, page
                except ValueError as error:
                    reason = f"the response {error}"
            elif response.status < 500 and response.status != 429:
                break
        raise Failed(f"{printable(name_of(self.token.role, self.token.user))}: {path}: {reason}")

    def write(self, body: bytes) -> str:
        name = f"{next(self.numbers):06}.json"
        with open(self.folder / name, "xb", opener=open_private) as file:
            file.write(body)
        return name

    def line(self, path: str, status: int) -> Line:
        return {
            "method": "GET",
            "path": path,
            "role": self.token.role,
            "userName": self.token.user,
            "headers": HEADERS,
            "status": status,
            "moment": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def check_page(page: Any, numbers: Container[int]) -> None:
    names = ("totalElements", "totalPages", "number")
    if (
        not isinstance(page, dict)
        or any(type(page.get(name)) is not int for name in names)
        or not isinstance(page.get("content") or [], list)
    ):
        raise ValueError("is not a page")
    if page["number"] not in numbers:
        raise ValueError("is another page; see --paging and --first-page")
