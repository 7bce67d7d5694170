"""An unsafe webhook, or one without a secret, is rejected with a message that contains no secret."""

import base64
from datetime import timedelta

import pytest
from click.testing import CliRunner

from app.cli import main
from app.events.webhook import BAD_SECRET, BAD_URL, headers_of, open_webhook
from app.main import create_app
from app.settings import Settings, SettingsError
from tests.events.receiver import OTHER_SECRET, SECRET
from tests.factories import NOW

URL = "https://example.test/hooks/care"


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(b"x" * size).decode()


USABLE = {
    "https://example.test": ("example.test", 443, "example.test", "/"),
    "https://example.test:8443/a/b?c=d": ("example.test", 8443, "example.test:8443", "/a/b?c=d"),
    "https://[2001:db8::1]/a": ("2001:db8::1", 443, "[2001:db8::1]", "/a"),
    "http://localhost:9000": ("localhost", 9000, "localhost:9000", "/"),
    "http://127.0.0.1/a": ("127.0.0.1", 80, "127.0.0.1", "/a"),
    "http://127.8.8.8/": ("127.8.8.8", 80, "127.8.8.8", "/"),
    "http://[::1]:81?a": ("::1", 81, "[::1]:81", "/?a"),
}


@pytest.mark.parametrize("url", USABLE)
def test_a_safe_address_is_accepted(url: str) -> None:
    webhook = open_webhook(Settings(webhook_url=url, webhook_secret=SECRET))

    assert webhook is not None
    assert (webhook.host, webhook.port, webhook.authority, webhook.target) == USABLE[url]
    assert (webhook.tls is not None) == url.startswith("https:")


@pytest.mark.parametrize(
    "url",
    [
        "http://example.test/",
        "http://10.0.0.1/",
        "http://localhost.example.test/",
        "ftp://example.test/",
        "ftp://localhost/",
        "ws://127.0.0.1:8000/",
        "example.test/hooks",
        "https://",
        "https:///hooks",
        "https://example.test:port/",
        "https://example.test:0/",
        "https://example.test:99999/",
        "https://mara:hunter2@example.test/",
        "https://:hunter2@example.test/",
        "https://@example.test/",
        "https://example.test/#part",
        "https://example.test/a b",
        "https://example.test/a\r\nx-more:1",
        "https://example.test/a\x7f",
        "https://example.test/für",
        "https://" + "a" * 64 + ".test/",
        "https://[::1/",
    ],
)
def test_an_unsafe_address_is_rejected(url: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_webhook(Settings(webhook_url=url, webhook_secret=SECRET))

    assert str(refused.value) == BAD_URL


@pytest.mark.parametrize(
    "secret",
    [SECRET, f"{SECRET} {OTHER_SECRET}", f" {SECRET}  {OTHER_SECRET}\n", secret_of(24), secret_of(64)],
)
def test_a_valid_secret_is_accepted(secret: str) -> None:
    assert open_webhook(Settings(webhook_url=URL, webhook_secret=secret)) is not None


@pytest.mark.parametrize(
    "secret",
    [
        SECRET.removeprefix("whsec_"),
        "whsec_",
        "whsec_!!!!",
        f"{SECRET[:12]}!{SECRET[12:]}",
        "whsec_" + "ü" * 40,
        f"{SECRET},{OTHER_SECRET}",
        f"{SECRET} hunter2",
        secret_of(23),
        secret_of(65),
    ],
)
def test_an_invalid_secret_is_rejected(secret: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_webhook(Settings(webhook_url=URL, webhook_secret=secret))

    assert str(refused.value) == BAD_SECRET


@pytest.mark.parametrize("secret", ["", "  "])
def test_a_webhook_needs_a_secret(secret: str) -> None:
    with pytest.raises(SettingsError, match=r"^CARE_WEBHOOK_URL needs a CARE_WEBHOOK_SECRET to sign with$"):
        open_webhook(Settings(webhook_url=URL, webhook_secret=secret))


def test_the_timestamp_of_a_request_is_never_in_the_future() -> None:
    webhook = open_webhook(Settings(webhook_url=URL, webhook_secret=SECRET))
    assert webhook is not None

    headers = headers_of(webhook, 7, b"{}", NOW + timedelta(milliseconds=999))

    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))


def test_without_an_address_there_is_no_webhook() -> None:
    assert open_webhook(Settings()) is None
    assert open_webhook(Settings(webhook_secret=SECRET)) is None


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_an_invalid_webhook_stops_the_start(settings: Settings) -> None:
    with pytest.raises(SettingsError, match=r"^CARE_WEBHOOK_SECRET must be whsec_"):
        create_app(settings.model_copy(update={"webhook_url": URL, "webhook_secret": "hunter2"}))


def test_listed_settings_show_no_secret() -> None:
    result = CliRunner().invoke(
        main, ["settings"], env={"CARE_WEBHOOK_URL": URL, "CARE_WEBHOOK_SECRET": SECRET}
    )

    assert result.exit_code == 0
    assert "CARE_WEBHOOK_SECRET (default: empty; set, not shown)" in result.stdout
    assert SECRET not in result.output and URL not in result.output
