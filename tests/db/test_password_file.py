"""The file of PGPASSFILE is read by the rules of libpq, and a file that may not be read is named."""

from pathlib import Path

from app.db.drivers import hosts


def test_a_password_with_a_colon_and_a_backslash_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.touch(mode=0o600)
    lines = (r"db.internal:5432:*:care:a\:b\\c\\\:d", r"standby.internal:*:care:*:é f")
    file.write_text("\n".join(("# a comment", "not a line", *lines)))

    read = hosts.asyncpg.connect_utils._read_password_file(file)

    assert read == [
        ("db.internal", "5432", "*", "care", r"a:b\c\:d"),
        ("standby.internal", "*", "care", "*", "é f"),
    ]


def test_a_file_that_may_not_be_read_is_named() -> None:
    fault = PermissionError(13, "Permission denied", "postgresql.key")

    assert hosts.reason_of_fault(fault) == "cannot be used: Permission denied: postgresql.key"
    assert not hosts.is_away(fault)
