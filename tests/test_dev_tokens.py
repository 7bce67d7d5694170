"""In development without a configured key the service generates a private key pair; production has none."""

import errno
import os
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from app.auth.keys import open_keys
from app.auth.tokens import unverified_claims
from app.dev.tokens import (
    KEY_FILE,
    demo_tokens,
    has_own_keys,
    is_local,
    mint_token,
    private_key,
    public_key,
)
from app.main import keys_for
from app.settings import Environment, Settings, SettingsError
from tests import keys
from tests.factories import NOW

SECRET = "a development secret of 32 bytes"


def in_development(var: Path, **given: str) -> Settings:
    return Settings(env=Environment.DEVELOPMENT, var=str(var), **given)


def test_the_key_is_generated_once_and_is_private(tmp_path: Path) -> None:
    settings = in_development(tmp_path / "some/var")

    first, second = public_key(settings), public_key(settings)

    assert first == second
    assert [path.name for path in (tmp_path / "some/var").iterdir()] == [KEY_FILE]
    assert (tmp_path / "some/var" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "some/var").stat().st_mode & 0o777 == 0o700


def test_another_folder_has_another_key(tmp_path: Path) -> None:
    assert public_key(in_development(tmp_path / "a")) != public_key(in_development(tmp_path / "b"))


def test_the_key_is_private_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    write = Path.write_bytes

    def write_and_look(path: Path, data: bytes) -> int:
        modes.append(path.stat().st_mode & 0o777)
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_and_look)
    private_key(in_development(tmp_path))

    assert modes == [0o600]


@pytest.mark.parametrize("given", ["token_key", "token_jwks", "token_secret"])
def test_a_configured_key_replaces_the_own_key(tmp_path: Path, given: str) -> None:
    assert not has_own_keys(in_development(tmp_path, **{given: "something"}))
    assert has_own_keys(in_development(tmp_path))


def test_production_has_no_own_key_and_generates_none(tmp_path: Path) -> None:
    settings = Settings(env=Environment.PRODUCTION, var=str(tmp_path))

    assert not has_own_keys(settings)
    with pytest.raises(SettingsError):
        keys_for(settings)
    with pytest.raises(SettingsError):
        mint_token(settings, "CLIENT", "client-1", NOW)
    assert list(tmp_path.iterdir()) == []


def test_production_starts_although_it_cannot_look_for_an_own_key(tmp_path: Path) -> None:
    """A name of 300 characters is an error like that of a folder which another user has made."""
    settings = Settings(
        env=Environment.PRODUCTION, var=str(tmp_path / ("x" * 300)), token_key=keys.public_pem()
    )

    assert len(keys_for(settings).keys) == 1


def test_the_own_key_verifies_like_a_configured_one(tmp_path: Path) -> None:
    settings = in_development(tmp_path)

    own = keys_for(settings).keys
    same = open_keys(in_development(tmp_path, token_key=public_key(settings))).keys

    assert own == same
    assert own != open_keys(in_development(tmp_path, token_key=keys.public_pem())).keys


def pem(encryption: KeySerializationEncryption) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(NoEncryption()),
        pem(BestAvailableEncryption(b"secret")),
    ],
    ids=["empty", "damaged", "of another kind", "encrypted"],
)
def test_an_invalid_key_file_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / KEY_FILE).write_text(content)

    for use in (public_key, lambda settings: mint_token(settings, "CLIENT", "client-1", NOW)):
        with pytest.raises(SettingsError) as error:
            use(in_development(tmp_path))

        assert str(error.value) == f"the development key at {tmp_path / KEY_FILE} cannot be used; remove it"


LOCAL = [(b"host", b"localhost:8000")]
LOCAL_HOSTS = [b"LocalHost", b"127.0.0.1:1", b"[::1]", b"[::1]:65535"]
OTHER_HOSTS = [b"localhost:", b"localhost:655350", b"localhost.", b"127x0.0.1", b"127.0x0.1", b"::1"]


@pytest.mark.parametrize(
    ("client", "headers", "expected"),
    [
        (("127.0.0.1", 1), LOCAL, True),
        (("::1", 1), LOCAL, True),
        (("192.0.2.1", 1), LOCAL, False),
        (None, LOCAL, False),
        (("127.0.0.1", 1), [], False),
        (("127.0.0.1", 1), [*LOCAL, (b"x-forwarded-for", b"")], False),
        (("127.0.0.1", 1), [*LOCAL, (b"x-forwarded-proto", b"https")], False),
        (("127.0.0.1", 1), [*LOCAL, (b"viable", b"")], False),
        *((("127.1.2.3", 1), [(b"host", host)], True) for host in LOCAL_HOSTS),
        *((("127.0.0.1", 1), [(b"host", host)], False) for host in OTHER_HOSTS),
    ],
    ids=[
        "IPv4",
        "IPv6",
        "another machine",
        "a Unix socket",
        "no host",
        "a proxy",
        "a proxy without addresses",
        "perhaps a proxy",
        *map(bytes.decode, LOCAL_HOSTS + OTHER_HOSTS),
    ],
)
def test_only_a_visitor_on_the_same_machine_is_local(
    client: tuple[str, int] | None, headers: list[tuple[bytes, bytes]], expected: bool
) -> None:
    """A proxy connects to a Unix socket too, so its visitors may be anyone."""
    assert is_local({"type": "http", "client": client, "headers": headers}) is expected


def test_demo_tokens_are_valid_for_24_hours(tmp_path: Path) -> None:
    """Also in a time zone that is not UTC."""
    earliest = int(time.time()) + 24 * 3600
    tokens = demo_tokens(in_development(tmp_path))
    latest = int(time.time()) + 24 * 3600

    expiries = [unverified_claims(token)["exp"] for token in tokens.values()]
    assert [earliest <= expiry <= latest for expiry in expiries] == [True, True]


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SettingsError, match="cannot be created or read: "):
        public_key(in_development(tmp_path / "file"))


def test_a_key_that_another_process_has_created_meanwhile_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, link = in_development(tmp_path / "other"), os.link

    def link_later(new: Path, path: Path) -> None:
        path.write_bytes((tmp_path / "other" / KEY_FILE).read_bytes())
        link(new, path)

    own, expected = in_development(tmp_path / "own"), public_key(other)
    monkeypatch.setattr(os, "link", link_later)

    assert public_key(own) == expected
    assert [path.name for path in (tmp_path / "own").iterdir()] == [KEY_FILE]


def test_the_unfinished_key_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    """In a container each process has the same number."""
    (tmp_path / KEY_FILE).with_suffix(f".{os.getpid()}").write_text("-----BEGIN PRIVATE")

    assert len(keys_for(in_development(tmp_path)).keys) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_a_file_system_without_links_is_reported_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(new: Path, path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    with pytest.raises(SettingsError, match=r"cannot be created or read: .*Operation not permitted"):
        public_key(in_development(tmp_path))
    assert list(tmp_path.iterdir()) == []
