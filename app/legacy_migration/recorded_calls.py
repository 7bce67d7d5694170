"""Reads files of calls: one JSON object per line with a request and optionally its response."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import orjson

from app.care.context import Role
from app.legacy_migration import LegacyMigrationError
from app.legacy_migration.http_client import SAFE_METHODS, is_visible_ascii
from app.legacy_migration.json_object import Problem, Record

INDEX = "index.jsonl"  # the calls of a recording that is a folder; the response files are beside it
METHODS = (*SAFE_METHODS, "POST", "PUT", "PATCH", "DELETE")
ROLES = (*Role, "NOBODY")
# Headers that the connection sets; tokens are never in a file of calls.
RESERVED = {"authorization", "host", "content-length", "transfer-encoding", "connection", "te", "upgrade"}
HEADER_NAME = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Call:
    line: int
    method: str
    path: str  # with its query
    role: str | None  # of the token to send; None sends no token
    user: str | None  # of the token to send; None takes the first token of the role
    headers: dict[str, str]
    body: bytes | None
    status: int
    response: bytes | Path | None = None

    def response_body(self) -> bytes | None:
        """The recorded response body, if there is one."""
        if not isinstance(self.response, Path):
            return self.response
        try:
            return self.response.read_bytes()
        except OSError as error:
            raise unreadable(self.response, error) from None

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE_METHODS


def invalid_line(path: Path, line: int, problem: Problem) -> LegacyMigrationError:
    return LegacyMigrationError(f"{calls_file(path)}, line {line}: {problem.member} {problem.reason}")


def unreadable(file: Path, error: OSError) -> LegacyMigrationError:
    return LegacyMigrationError(f"{file} cannot be read: {error.strerror}")


def calls_file(path: Path) -> Path:
    """The index of a folder, or the file itself."""
    return path / INDEX if path.is_dir() else path


def open_calls(path: Path) -> BinaryIO:
    try:
        return calls_file(path).open("rb")
    except OSError as error:
        raise unreadable(calls_file(path), error) from None


def size_of(path: Path) -> int:
    with open_calls(path) as file:
        return os.fstat(file.fileno()).st_size


def read_calls(path: Path, advance: Callable[[int], None] = lambda size: None) -> Iterator[Call]:
    """Calls `advance` with the number of bytes of each line, for a progress bar."""
    folder = calls_file(path).parent
    with open_calls(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield read_call(number, line, folder)
                except Problem as problem:
                    raise invalid_line(path, number, problem) from None
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
    body = as_bytes(record.take("body", "text or JSON", lambda v: True, None))
    status = record.take("status", "a status", lambda v: type(v) is int and 100 <= v <= 599, 200)
    record.optional_moment("moment")
    response: bytes | Path | None = as_bytes(record.take("answer", "text or JSON", lambda v: True, None))
    if name := record.optional_text("file"):
        response = find_file(folder, name)
    record.finish()
    return Call(
        number, method, path, None if role == "NOBODY" else role, user, headers, body, status, response
    )


def read_path(text: str) -> str:
    """The path and query. Some recorders write complete addresses, whose host is dropped."""
    if "://" in text.partition("?")[0]:
        address = urlsplit(text)
        text = address.path + (f"?{address.query}" if address.query else "")
    if not text.startswith("/") or not is_visible_ascii(text):
        raise Problem("path", "must be a path like /gateway/profile/client/session?time-state=RUNNING")
    return text


def role_of(path: str) -> str:
    """The legacy paths contain the role."""
    return next((str(role) for role in Role if f"/{role.lower()}/" in path), "NOBODY")


def read_headers(given: dict[str, Any]) -> dict[str, str]:
    for name, value in given.items():
        if not name or not HEADER_NAME.issuperset(name.lower()):
            raise Problem("headers", "contains an invalid name")
        if name.lower() in RESERVED:
            raise Problem(f"headers.{name}", "is not allowed; options of the command name the tokens")
        if not isinstance(value, str) or not value.isprintable() or not value.isascii():
            raise Problem(f"headers.{name}", "must be ASCII text of one line")
    return given


def as_bytes(value: object) -> bytes | None:
    """Text is kept byte for byte; other values are written as compact JSON, like the services do."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def find_file(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Problem("file", "must be in the folder of the file that names it, or below")
    if not path.is_file():
        raise Problem("file", f"{name} does not exist")
    return path
