"""Invalid addresses, tokens and lines of calls are rejected with one sentence, which contains no token."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from app.care.context import Role
from moving_over import LegacyMigrationError
from moving_over.http_client import read_address
from moving_over.recorded_calls import NO_ROLE, read_calls
from moving_over.tokens import read_tokens
from tests import keys, pages
from tests.cli.test_arguments import error_of
from tests.cli.test_without_moving_over import run
from tests.moving_over.recordings import write_lines

PATH = "/gateway/profile/caregiver/session/assignment/1"
INVALID_PATH = "path: must be a path like /gateway/profile/client/session?time-state=RUNNING"
LINES: dict[str, tuple[dict[str, Any], str]] = {
    "a token in the file": (
        {"path": PATH, "headers": {"offset": "1", "Authorization": "bearer x"}},
        "headers: Authorization is not allowed; options of the command name the tokens",
    ),
    "an invalid header name": ({"path": PATH, "headers": {"a b": "x"}}, "headers: contains an invalid name"),
    "a header of two lines": (
        {"path": PATH, "headers": {"a": "x\r\nb: c"}}, "headers: a must be ASCII text of one line"
    ),
    **{
        f"a header with {value!r}": (
            {"path": PATH, "headers": {"a": value}}, "headers: a must be ASCII text of one line"
        )
        for value in ("x\ry", "x\0", "x\x7f")
    },
    "a relative path": ({"path": "gateway"}, INVALID_PATH),
    "a path with a space": ({"path": "/a b"}, INVALID_PATH),
    "a path in another alphabet": ({"path": "/ä"}, INVALID_PATH),
    "a path of two lines": ({"path": "/a\r\nHost:b"}, INVALID_PATH),
    **{
        f"the header {name}": (
            {"path": PATH, "headers": {name: "x"}},
            f"headers: {name} is not allowed; options of the command name the tokens",
        )
        for name in ("Host", "Content-Length", "transfer-encoding", "Connection", "TE", "upgrade")
    },
    "a header without a name": ({"path": PATH, "headers": {"": "x"}}, "headers: contains an invalid name"),
    "a header in another alphabet": (
        {"path": PATH, "headers": {"a": "→"}}, "headers: a must be ASCII text of one line"
    ),
    "an impossible status": (
        {"path": PATH, "status": 99}, "status: Input should be greater than or equal to 100"
    ),
    "a status above the largest": (
        {"path": PATH, "status": 600}, "status: Input should be less than or equal to 599"
    ),
    "a folder": ({"path": PATH, "file": "."}, "file: . does not exist"),
    "a link out of the folder": (
        {"path": PATH, "file": "link"}, "file: must be in the folder of the file that names it, or below"
    ),
    "an unknown method": (
        {"path": PATH, "method": "get"},
        "method: Input should be 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH' or 'DELETE'",
    ),
    "an unknown member": ({"path": PATH, "paht": "x"}, "paht: Extra inputs are not permitted"),
    "no file name": ({"path": PATH, "file": ""}, "file:  does not exist"),
    "a missing file": ({"path": PATH, "file": "7.json"}, "file: 7.json does not exist"),
    "a file in another folder": (
        {"path": PATH, "file": "../7.json"}, "file: must be in the folder of the file that names it, or below"
    ),
    "a file in a folder with a longer name": (
        {"path": PATH, "file": "../r-old/7.json"},
        "file: must be in the folder of the file that names it, or below",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_an_invalid_line_is_rejected_with_its_number(tmp_path: Path, case: str) -> None:
    line, sentence = LINES[case]
    folder, other = tmp_path / "r", tmp_path / "r-old"
    for each in (folder, other):
        each.mkdir()
    file = write_lines(folder / "calls.jsonl", [{"path": PATH}, line])
    (folder / "link").symlink_to(__file__)
    (other / "7.json").touch()

    with pytest.raises(LegacyMigrationError) as error:
        list(read_calls(file))

    assert str(error.value) == f"{file}, line 2: {sentence}"


ANY_HEADER = {"!#$%&'*+-.^_`|~0123456789AZaz": " ~", "te-x": ""}
READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a complete address": (
        {"path": "https://old.example/gateway/x?a=1&b"},
        {"path": "/gateway/x?a=1&b", "role": None},
    ),
    "a complete address without a query": ({"path": "https://old.example/x"}, {"path": "/x"}),
    "a path with two slashes": ({"path": "//a/b"}, {"path": "//a/b"}),
    "empty bodies": ({"path": PATH, "body": {}, "answer": []}, {"body": b"{}", "response": b"[]"}),
    "empty texts": ({"path": PATH, "body": "", "answer": ""}, {"body": b"", "response": b""}),
    "an address in the query": ({"path": "/x?to=https://a/b"}, {"path": "/x?to=https://a/b"}),
    "null": (
        {"path": PATH, "method": None, "headers": None, "status": None, "body": None},
        {"method": "GET", "headers": {}, "status": 200, "body": None, "role": "CAREGIVER"},
    ),
    "a path in which a role is only a part of a word": ({"path": "/clients/x-caregiver/7"}, {"role": None}),
    "without a token": ({"path": PATH, "role": NO_ROLE}, {"role": None}),
    **{
        f"{role} on any path": ({"path": "/x", "role": role}, {"role": role})
        for role in ("CAREGIVER", "CLIENT")
    },
    **{
        method: ({"path": PATH, "method": method}, {"method": method, "is_safe": is_safe})
        for method, is_safe in {
            "GET": True,
            "HEAD": True,
            "OPTIONS": True,
            "POST": False,
            "PUT": False,
            "PATCH": False,
            "DELETE": False,
        }.items()
    },
    **{f"status {status}": ({"path": PATH, "status": status}, {"status": status}) for status in (100, 599)},
    "any header": ({"path": PATH, "headers": ANY_HEADER}, {"headers": ANY_HEADER}),
    "bodies": (
        {"path": PATH, "body": {"a": [1]}, "answer": "{ }"},
        {"body": b'{"a":[1]}', "response": b"{ }"},
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_line_is_read_after_blank_ones(tmp_path: Path, case: str) -> None:
    line, expected = READ[case]
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"\n \n" + orjson.dumps(line))
    sizes: list[int] = []

    (call,) = read_calls(file, sizes.append)

    assert {name: getattr(call, name) for name in expected} == expected
    assert call.line == 3
    assert sizes == [1, 2, file.stat().st_size - 3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(b"{", "the line is not JSON"), (b"7", "Input should be a valid dictionary or instance of CallLine")],
)
def test_a_line_that_is_no_object_is_rejected(tmp_path: Path, text: bytes, sentence: str) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_bytes(text)

    with pytest.raises(LegacyMigrationError) as error:
        list(read_calls(file))

    assert str(error.value) == f"{file}, line 1: {sentence}"


def test_a_response_file_is_found_from_a_relative_folder_and_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, link = tmp_path / "r", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    write_lines(folder / "index.jsonl", [{"path": PATH, "file": "7.json"}])
    (folder / "7.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    calls = [call for path in (Path("r"), Path("r/index.jsonl"), link) for call in read_calls(path)]

    assert [call.response_body() for call in calls] == [b"{}"] * 3
    (folder / "7.json").unlink()
    with pytest.raises(LegacyMigrationError, match=r"/r/7\.json cannot be read: No such file or directory$"):
        calls[0].response_body()


@pytest.mark.parametrize(
    "address",
    [
        "care.example.test",
        "ftp://care.example.test",
        "https://a:b@care.example.test",
        "https://a@care.example.test",
        "https://a:b@care.example.test:99999",
        "https://:b@care.example.test",
        "https://care.example.test?a=1",
        "https://care.example.test/#a",
        "https://care.example.test:0",
        "https://care.example.test:99999",
        "https://[::1/gateway",
        "https://care.example.test/a b",
        "https://care.example.test/a\x7fb",
        "https://care.example.test/ä",
        "https:///gateway",
    ],
)
def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(LegacyMigrationError, match=r"^an address is like https://care\.example, with an"):
        read_address(address)


ADDRESSES = {  # TLS, host, port and prefix; whether others can read the tokens
    "https://care.example.test": (True, "care.example.test", 443, "", False),
    "http://care.example.test/": (False, "care.example.test", 80, "", True),
    "https://care.example.test:8443/old/": (True, "care.example.test", 8443, "/old", False),
    "http://127.0.0.1:8000": (False, "127.0.0.1", 8000, "", False),
    "http://[::1]:8000": (False, "::1", 8000, "", False),
    "http://LocalHost": (False, "localhost", 80, "", False),
    "http://localhost.example.test": (False, "localhost.example.test", 80, "", True),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_names_host_port_and_prefix(text: str) -> None:
    read = read_address(text)

    assert (read.is_secure, read.host, read.port, read.prefix, read.exposes_tokens) == ADDRESSES[text]


TOKENS = {
    "a b c": "must be a token, or a user name and a token",
    "someone tök": "must be a token, or a user name and a token",
    "a-token": "the token does not contain a user name; put it before the token",
    "one a-token\none b-token": "this user already has a token",
}


@pytest.mark.parametrize("text", TOKENS)
def test_an_unusable_token_is_rejected_and_not_repeated(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", text)

    with pytest.raises(LegacyMigrationError) as error:
        read_tokens(Role.CLIENT, ("env:TOKENS",), "user_name")

    assert str(error.value) == f"env:TOKENS, line {len(text.splitlines())}: {TOKENS[text]}"


def test_a_byte_order_mark_is_not_part_of_a_user_name(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("Zoë a-token\nother b-token\n", "utf-8-sig")

    tokens = read_tokens(Role.CLIENT, (str(file),), "user_name")

    assert [(each.user, each.token) for each in tokens] == [("Zoë", "a-token"), ("other", "b-token")]


def test_a_user_name_is_in_the_token_or_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order stays: a call without a user name takes the first token of its role."""
    claims = {"user_name": ("a", None), "sub": (None, "b")}
    tokens = [keys.token("CLIENT", user, sub=subject) for user, subject in claims.values()]
    tokens += [tokens[0], "Az09._~+/-=="]
    lines = ["", " # of the old service", *tokens[:2], f"d {tokens[2]}", f"c {tokens[3]}"]
    monkeypatch.setenv("TOKENS", "\n".join(lines))

    read = read_tokens(Role.CLIENT, ("env:TOKENS",), "user_name")

    assert [(each.user, each.token) for each in read] == list(zip("abdc", tokens, strict=True))
    assert [each.place for each in read] == [f"env:TOKENS, line {line}" for line in (3, 4, 5, 6)]


UNUSABLE = {
    "env:MISSING": "the environment variable MISSING is not set",
    "none": "none cannot be read: No such file or directory",
    "image": "image cannot be read: it is not text",
    **{
        name: f"{name}, line 1: the token does not contain a user name; put it before the token"
        for name in ("blank", "empty")
    },
}


@pytest.mark.parametrize("source", UNUSABLE)
def test_an_unusable_source_of_tokens_is_rejected(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("image").write_bytes(b"\xff\xd8")
    Path("blank").write_text(keys.token("CLIENT", " "))
    Path("empty").write_text(keys.token("CLIENT", "", sub="someone"))

    with pytest.raises(LegacyMigrationError) as error:
        read_tokens(Role.CLIENT, (source,), "user_name")

    assert str(error.value) == UNUSABLE[source]


def test_a_user_has_one_token_in_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONE", "OTHER"):
        monkeypatch.setenv(name, "someone a-token")

    with pytest.raises(LegacyMigrationError, match=r"^env:OTHER, line 1: this user already has a token$"):
        read_tokens(Role.CLIENT, ("env:ONE", "env:OTHER"), "user_name")


def test_a_token_and_its_user_are_not_part_of_its_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "someone a-token")

    (token,) = read_tokens(Role.CLIENT, ("env:TOKENS",), "user_name")

    assert repr(token) == "UserToken(role=<Role.CLIENT: 'CLIENT'>, place='env:TOKENS, line 1')"


def test_the_calls_that_the_migration_page_shows_can_be_read(tmp_path: Path) -> None:
    shown = [block.text for block in pages.blocks(pages.read("docs/moving-over.md")) if block.kind == "json"]
    (tmp_path / "000007.json").write_text("{}")
    (tmp_path / "index.jsonl").write_text("".join(shown))

    calls = list(read_calls(tmp_path))

    assert [(call.method, call.role, call.user is None) for call in calls] == [
        ("GET", "CLIENT", False),
        ("GET", None, True),
    ]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("legacy compare . --new http://127.0.0.1", "give either --old or --recorded"),
        *[
            (f"legacy shadow {options}", "give --old, --new and --port")
            for options in (
                "--port 8001",
                "--old http://127.0.0.1 --port 8001",
                "--new http://127.0.0.1 --port 8001",
                "--old http://127.0.0.1 --new http://127.0.0.1",
            )
        ],
        (
            "legacy compare . --new http://127.0.0.1 --old http://127.0.0.1 --recorded",
            "give either --old or --recorded",
        ),
    ],
)
def test_invalid_arguments_are_rejected(line: str, error: str) -> None:
    assert error_of(line) == error


@pytest.mark.sqlite_only
def test_a_package_that_is_damaged_is_not_reported_as_missing() -> None:
    code, _, errors = run("legacy", "record", missing="moving_over.commands")

    assert code == 1
    assert "\nModuleNotFoundError: No module named 'moving_over.commands'" in errors
