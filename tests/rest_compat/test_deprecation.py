"""Without configured dates the legacy paths send no deprecation headers. With dates, every response has the
headers of RFC 9745 and RFC 8594. Contradictory dates stop the start with an error."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from httpx2 import Response

from app.main import create_app
from app.settings import Settings, SettingsError, read_settings
from tests import openapi
from tests.callers import Gateway, opened
from tests.factories import NOW, a_world
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS

pytestmark = pytest.mark.sqlite_only

DEPRECATED, SUNSET = datetime(2027, 1, 31, tzinfo=UTC), datetime(2027, 7, 31, 12, tzinfo=UTC)
NAMES = ("deprecation", "sunset", "link")
SUCCESSOR = '</graphql>; rel="successor-version"'
LISTED = f"{ASSIGNMENTS}?time-state=RUNNING"


@contextmanager
def gateway_with(settings: Settings, **changed: object) -> Iterator[Gateway]:
    own = settings.model_copy(update=changed)
    with opened(create_app(own, clock=lambda: NOW)) as client:
        gateway = Gateway(client, own)
        gateway.import_records(a_world())
        yield gateway


def sent(response: Response) -> dict[str, str]:
    return {name: response.headers[name] for name in NAMES if name in response.headers}


def preflight(gateway: Gateway, origin: str) -> Response:
    headers = {"origin": origin, "access-control-request-method": "PUT"}
    return gateway.as_anonymous().request("OPTIONS", ASSIGNMENTS, headers=headers)


def test_both_dates_and_a_notice_page_are_sent(settings: Settings) -> None:
    page = "https://example.test/leaving?why=1"
    dated = {"legacy_deprecated": DEPRECATED, "legacy_sunset": SUNSET, "legacy_notice": page}
    with gateway_with(settings, **dated) as gateway:
        answers = [
            gateway.as_caregiver(1).get(LISTED),
            gateway.as_caregiver(1).request("HEAD", LISTED),
            gateway.as_caregiver(1).get(f"{ASSIGNMENTS}/1"),
            gateway.as_caregiver(1).put(ASSIGNMENTS, json={}),
            gateway.as_client(1).get(f"{SESSIONS}?time-state=RUNNING"),
            gateway.as_anonymous().get(LISTED),
            gateway.as_caregiver(1).request("DELETE", ASSIGNMENTS),
        ]
        others = [
            gateway.as_caregiver(1).post_graphql("{ viewer { role } }"),
            gateway.as_anonymous().get("/readyz"),
            gateway.as_anonymous().get("/gateway/nowhere"),
            preflight(gateway, "http://localhost:3000"),
            preflight(gateway, "https://elsewhere.test"),
        ]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 404, 200, 401, 405]
    assert (answers[5].headers["www-authenticate"], answers[6].headers["allow"]) == (
        "Bearer",
        "GET, HEAD, PUT",
    )
    assert [answer.status_code for answer in others] == [200, 200, 404, 204, 403]
    links = [f'<{page}>; rel="{relation}"; type="text/html"' for relation in ("deprecation", "sunset")]
    for answer in answers:
        assert sent(answer) == {
            "deprecation": "@1801353600",
            "sunset": "Sat, 31 Jul 2027 12:00:00 GMT",
            "link": ", ".join([SUCCESSOR, *links]),
        }
    assert [sent(answer) for answer in others] == [{}] * 5
    path, answer = LISTED.partition("?")[0], answers[0]
    openapi.assert_documented("GET", path, 200, answer.headers, answer.json())


def test_without_a_date_there_are_no_headers_and_the_response_is_otherwise_the_same(
    settings: Settings,
) -> None:
    with gateway_with(settings) as gateway:
        before = gateway.as_caregiver(1).get(LISTED, headers={"x-request-id": "r"})
    own = settings.model_copy(update={"legacy_sunset": SUNSET})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        after = Gateway(client, own).as_caregiver(1).get(LISTED, headers={"x-request-id": "r"})

    assert sent(before) == {}
    assert after.content == before.content
    others = [each for each in after.headers.multi_items() if each[0] not in NAMES]
    assert others == before.headers.multi_items()


@pytest.mark.parametrize(
    ("dated", "expected", "notice"),
    [
        (
            {"legacy_deprecated": DEPRECATED},
            {"deprecation": "@1801353600"},
            "The legacy paths are deprecated from 2027-01-31 00:00 UTC on.",
        ),
        (
            {"legacy_sunset": SUNSET},
            {"sunset": "Sat, 31 Jul 2027 12:00:00 GMT"},
            "The legacy paths may no longer answer from 2027-07-31 12:00 UTC on.",
        ),
    ],
    ids=["deprecated", "sunset"],
)
def test_one_date_alone_is_sent_and_shown(
    settings: Settings, dated: dict[str, object], expected: dict[str, str], notice: str
) -> None:
    with gateway_with(settings, **dated) as gateway:
        assert sent(gateway.as_caregiver(1).get(LISTED)) == {**expected, "link": SUCCESSOR}
        assert f"\n{notice}\n" in gateway.as_anonymous().get("/").text


@pytest.mark.sqlite_only
def test_a_caller_over_the_rate_limit_also_learns_when_to_retry(settings: Settings) -> None:
    with gateway_with(settings, legacy_deprecated=DEPRECATED, rate_limit=1) as gateway:
        answers = [gateway.as_caregiver(1).get(LISTED) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert int(answers[1].headers["retry-after"]) > 0
    assert sent(answers[1]) == {"deprecation": "@1801353600", "link": SUCCESSOR}


def test_a_sunset_before_the_deprecation_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_LEGACY_DEPRECATED", "2027-01-31")
    monkeypatch.setenv("CARE_LEGACY_SUNSET", "2027-01-30")

    with pytest.raises(SettingsError) as refusal:
        read_settings()

    assert str(refusal.value) == ("CARE_LEGACY_SUNSET must not be before CARE_LEGACY_DEPRECATED")


@pytest.mark.parametrize("name", ["DEPRECATED", "SUNSET"])
def test_a_notice_page_needs_only_one_date(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"CARE_LEGACY_{name}", "2027-01-31")
    monkeypatch.setenv("CARE_LEGACY_NOTICE", "https://a.test")

    assert read_settings().legacy_notice == "https://a.test"


def test_dates_and_notice_page_are_read_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARE_LEGACY_DEPRECATED", "2027-01-31")
    monkeypatch.setenv("CARE_LEGACY_SUNSET", "2027-01-31T00:00:00Z")
    monkeypatch.setenv("CARE_LEGACY_NOTICE", "https://a.test")

    settings = read_settings()

    assert (settings.legacy_deprecated, settings.legacy_sunset) == (DEPRECATED, DEPRECATED)
    assert settings.legacy_notice == "https://a.test"
