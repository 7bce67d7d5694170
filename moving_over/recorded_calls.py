"""Reads files of calls: one JSON object per line with a request and optionally its response."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, Field, ValidationError

from app.care.context import Role
from app.db.interchange.import_format import JsonObject, LineRejected, Moment, Text, UserName, null_means
from moving_over import LegacyMigrationError
from moving_over.http_client import SAFE_METHODS, is_visible_ascii

INDEX = "index.jsonl"  # the calls of a recording that is a folder; the response files are beside it
Method = Literal["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
NO_ROLE = "NOBODY"
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
    headers: Mapping[str, str]
    body: bytes | None
    status: int
    response: bytes | Path | None = None
    moment: datetime | None = None

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


def read_path(text: str) -> str:
    """The path and query. Some recorders write complete addresses, whose host is dropped."""
    if "://" in text.partition("?")[0]:
        address = urlsplit(text)
        text = address.path + (f"?{address.query}" if address.query else "")
    if not text.startswith("/") or not is_visible_ascii(text):
        raise ValueError("must be a path like /gateway/profile/client/session?time-state=RUNNING")
    return text


def check_headers(given: dict[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not name or not HEADER_NAME.issuperset(name.lower()):
            raise ValueError("contains an invalid name")
        if name.lower() in RESERVED:
            raise ValueError(f"{name} is not allowed; options of the command name the tokens")
        if not value.isprintable() or not value.isascii():
            raise ValueError(f"{name} must be ASCII text of one line")
    return given


Headers = Annotated[dict[str, str], AfterValidator(check_headers), null_means({})]


class CallLine(JsonObject):
    """One line of a file of calls."""

    method: Annotated[Method, null_means("GET")] = "GET"
    path: Annotated[str, AfterValidator(read_path)]
    role: Literal["CAREGIVER", "CLIENT", "NOBODY"] | None = None
    user_name: UserName | None = None
    headers: Headers = Field(default_factory=dict)
    body: Any = None
    status: Annotated[int, Field(ge=100, le=599), null_means(200)] = 200
    moment: Moment | None = None
    answer: Any = None
    file: Text | None = None


def invalid_line(path: Path, line: int, rejection: LineRejected) -> LegacyMigrationError:
    return LegacyMigrationError(f"{calls_file(path)}, line {line}: {rejection}")


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
                except LineRejected as rejection:
                    raise invalid_line(path, number, rejection) from None
            advance(len(line))


def read_call(number: int, text: bytes, folder: Path) -> Call:
    try:
        line = CallLine.model_validate(orjson.loads(text))
    except orjson.JSONDecodeError:
        raise LineRejected("the line is not JSON") from None
    except ValidationError as error:
        raise LineRejected.of(error, has_kind=False) from None
    in_path = (str(role) for role in Role if f"/{role.lower()}/" in line.path)  # of the legacy paths
    role: str = line.role or next(in_path, NO_ROLE)
    return Call(
        number,
        line.method,
        line.path,
        None if role == NO_ROLE else role,
        line.user_name,
        line.headers,
        as_bytes(line.body),
        line.status,
        as_bytes(line.answer) if line.file is None else find_file(folder, line.file),
        line.moment,
    )


def as_bytes(value: object) -> bytes | None:
    """Text is kept byte for byte; other values are written as compact JSON, like the services do."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def find_file(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise LineRejected("file: must be in the folder of the file that names it, or below")
    if not path.is_file():
        raise LineRejected(f"file: {name} does not exist")
    return path
