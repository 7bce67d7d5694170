"""Invalid addresses, tokens and lines of calls are rejected with one sentence, which contains no token."""

from pathlib import Path
from typing import Any

import pytest

from app.care.context import Role
from moving_over import LegacyMigrationError
from moving_over.http_client import read_address
from moving_over.recorded_calls import read_calls
from moving_over.tokens import read_tokens
from tests import pages
from tests.cli.test_arguments import error_of
from tests.cli.test_without_moving_over import run
from tests.moving_over.recordings import write_lines

PATH = "/gateway/profile/caregiver/session/assignment/1"
INVALID_PATH = "path: must be a path like /gateway/profile/client/session?time-state=RUNNING"
LINES: dict[str, tuple[dict[str, Any], str]] = {
    "a token in the file": (
        {"path": PATH, "headers": {"Authorization": "bearer x"}},
        "headers: Authorization is not allowed; options of the command name the tokens",
    ),
    "an invalid header name": ({"path": PATH, "headers": {"a b": "x"}}, "headers: contains an invalid name"),
    "a header of two lines": (
        {"path": PATH, "headers": {"a": "x\r\nb: c"}}, "headers: a must be ASCII text of one line"
    ),
    "a relative path": ({"path": "gateway"}, INVALID_PATH),
    "a path of two lines": ({"path": "/a\r\nHost: b"}, INVALID_PATH),
    "an unknown method": (
        {"path": PATH, "method": "get"},
        "method: Input should be 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH' or 'DELETE'",
    ),
    "an unknown member": ({"path": PATH, "paht": "x"}, "paht: Extra inputs are not permitted"),
    "a missing file": ({"path": PATH, "file": "7.json"}, "file: 7.json does not exist"),
    "a file in another folder": (
        {"path": PATH, "file": "../7.json"}, "file: must be in the folder of the file that names it, or below"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_an_invalid_line_is_rejected_with_its_number(tmp_path: Path, case: str) -> None:
    line, sentence = LINES[case]
    file = write_lines(tmp_path / "calls.jsonl", [{"path": PATH}, line])

    with pytest.raises(LegacyMigrationError) as error:
        list(read_calls(file))

    assert str(error.value) == f"{file}, line 2: {sentence}"


@pytest.mark.parametrize(
    "address",
    [
        "care.example.test",
        "ftp://care.example.test",
        "https://a:b@care.example.test",
        "https://a:b@care.example.test:99999",
    ],
)
def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(LegacyMigrationError, match=r"^an address is like https://care\.example, with an"):
        read_address(address)


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


def test_a_token_is_not_part_of_its_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENS", "someone a-token")

    assert "a-token" not in repr(read_tokens(Role.CLIENT, ("env:TOKENS",), "user_name"))


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
        ("legacy shadow --port 8001", "give --old, --new and --port"),
    ],
)
def test_invalid_arguments_are_rejected(line: str, error: str) -> None:
    assert error_of(line) == error


@pytest.mark.sqlite_only
def test_a_package_that_is_damaged_is_not_reported_as_missing() -> None:
    code, _, errors = run("legacy", "record", missing="moving_over.commands")

    assert code == 1
    assert "\nModuleNotFoundError: No module named 'moving_over.commands'" in errors
