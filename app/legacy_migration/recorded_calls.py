"""Reads files of calls: one JSON object per line with a request and optionally its response."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import orjson

from app.care.context import Role
from app.legacy_migration.errors import MovingRefused
from app.legacy_migration.json_object import Problem, Record

INDEX = "index.jsonl"  # of a recording that is a folder: its calls; the answers lie beside it
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
HARMLESS = ("GET", "HEAD", "OPTIONS")
ROLES = (*Role, "NOBODY")
# These are the connection's own, or belong to the token, which is in no such file.
NOT_SAID = {"authorization", "host", "content-length", "transfer-encoding", "connection", "te", "upgrade"}
HEADER_NAME = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


class CallRefused(MovingRefused):
    """An invalid line or response; the message names the file, the line and the member."""

    def __init__(self, file: Path, line: int, problem: Problem) -> None:
        super().__init__(f"{file}, line {line}: {problem.member} {problem.reason}")


class FileUnreadable(MovingRefused):
    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(f"{file} cannot be read: {error.strerror}")


@dataclass(frozen=True)
class Call:
    line: int
    method: str
    path: str  # with its query
    role: str | None  # whose token goes with it, if any does
    user: str | None  # the person's user name; without one, the first token of the role
    headers: dict[str, str]
    body: bytes | None
    status: int
    answer: bytes | Path | None = None

    def answered(self) -> bytes | None:
        """The recorded response body, if there is one."""
        if not isinstance(self.answer, Path):
            return self.answer
        try:
            return self.answer.read_bytes()
        except OSError as error:
            raise FileUnreadable(self.answer, error) from None

    @property
    def is_harmless(self) -> bool:
        return self.method in HARMLESS


def file_of(path: Path) -> Path:
    """The file that holds the calls: the index of a folder, or the file itself."""
    return path / INDEX if path.is_dir() else path


def open_calls(path: Path) -> BinaryIO:
    try:
        return file_of(path).open("rb")
    except OSError as error:
        raise FileUnreadable(file_of(path), error) from None


def size_of(path: Path) -> int:
    with open_calls(path) as file:
        return os.fstat(file.fileno()).st_size


def read_calls(path: Path, advance: Callable[[int], None] = lambda size: None) -> Iterator[Call]:
    """Calls `advance` with the number of bytes of each line, for a progress bar."""
    file = file_of(path)
    with open_calls(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield read_call(number, line, file.parent)
                except Problem as problem:
                    raise CallRefused(file, number, problem) from None
            advance(len(line))


def read_call(number: int, line: bytes, folder: Path) -> Call:
    try:
        record = Record(orjson.loads(line))
    except orjson.JSONDecodeError:
        raise Problem("the line", "is not JSON") from None
    method = record.take("method", f"one of {', '.join(METHODS)}", lambda v: v in METHODS, "GET")
    path = read_path(record.text("path"))
    role = record.take("role", f"one of {', '.join(ROLES)}", lambda v: v in ROLES, role_of(path))
    user = record.optional_text("userName")
    headers = read_headers(record.take("headers", "an object", lambda v: isinstance(v, dict), {}))
    body = as_sent(record.take("body", "text or JSON", lambda v: True, None))
    status = record.take("status", "a status", lambda v: type(v) is int and 100 <= v <= 599, 200)
    record.optional_moment("moment")
    answer = as_sent(record.take("answer", "text or JSON", lambda v: True, None))
    name = record.optional_text("file")
    record.finish()
    return Call(
        number,
        method,
        path,
        None if role == "NOBODY" else role,
        user,
        headers,
        body,
        status,
        answer if name is None else beside(folder, name),
    )


def read_path(text: str) -> str:
    """The path and its query; of a whole address, as recorders write them, these alone."""
    if "://" in text.partition("?")[0]:
        address = urlsplit(text)
        text = address.path + (f"?{address.query}" if address.query else "")
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise Problem("path", "must be a path like /gateway/profile/client/session?time-state=RUNNING")
    return text


def role_of(path: str) -> str:
    """The legacy paths contain the role."""
    for role in Role:
        if f"/{role.lower()}/" in path:
            return str(role)
    return "NOBODY"


def read_headers(given: dict[str, Any]) -> dict[str, str]:
    for name, value in given.items():
        if not name or not HEADER_NAME.issuperset(name.lower()):
            raise Problem("headers", "has a name that is none of a header")
        if name.lower() in NOT_SAID:
            raise Problem(f"headers.{name}", "is not said here; tokens are named on the command line")
        if not isinstance(value, str) or not value.isprintable() or not value.isascii():
            raise Problem(f"headers.{name}", "must be text of one line")
    return given


def as_sent(value: object) -> bytes | None:
    """Text as it is, to the byte; JSON written as the services write it."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def beside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Problem("file", "must lie beside the file that names it, or in a folder there")
    if not path.is_file():
        raise Problem("file", f"{name} is not there")
    return path
