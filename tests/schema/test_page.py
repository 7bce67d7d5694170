"""GraphiQL, in development: served with a strict content security policy and with working examples.

Contract: a browser gets the page, every other client gets GraphQL; every example is valid, runs without
errors on the demo data, and names the legacy call that it replaces.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from graphql import parse, validate

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.admin.importing import importing
from app.dev.ide.examples import EXAMPLES, SUBSCRIPTION_EXAMPLES, Example
from app.dev.ide.page import ASSETS, PLAIN_POLICY
from app.main import create_app, schema_of_service
from tests import keys
from tests.callers import Caller, Gateway, opened, run_write
from tests.factories import NOW

pytestmark = pytest.mark.sqlite_only

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
TITLES = [example.title for example in EXAMPLES]


def test_a_browser_gets_the_page_under_a_strict_policy(standing: Gateway) -> None:
    response = standing.as_anonymous().get("/graphql", headers=BROWSER)

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"] == PLAIN_POLICY
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-request-id"]
    assert "script-src 'self'" in PLAIN_POLICY and "unsafe" not in PLAIN_POLICY
    assert "{{" not in response.text  # no placeholder is left


def test_the_page_loads_nothing_but_its_own_assets(standing: Gateway) -> None:
    page = standing.as_anonymous().get("/graphql", headers=BROWSER).text

    for name, (content, kind) in ASSETS.items():
        asset = standing.as_anonymous().get(f"/graphql/ide/{name}")
        assert f"/graphql/ide/{name}" in page
        assert (asset.status_code, asset.headers["content-type"], asset.content) == (200, kind, content)
        assert asset.headers["x-content-type-options"] == "nosniff"
    loaded = re.findall(r"""(?:src|href)=["']?([^"'\s>]+)""", page)
    assert sorted(each for each in loaded if not each.startswith("data:")) == [
        f"/graphql/ide/{name}" for name in sorted(ASSETS)
    ]


@pytest.mark.parametrize(
    "name", ["nothing.js", "page.html", "examples.py", "..%2fexamples.py", "%2e%2e/main.py"]
)
def test_other_assets_are_not_found(standing: Gateway, name: str) -> None:
    assert standing.as_anonymous().get(f"/graphql/ide/{name}").status_code == 404


def test_the_page_has_no_token_if_an_identity_provider_issues_tokens(standing: Gateway) -> None:
    assert '"tokens": {}' in standing.as_anonymous().get("/graphql", headers=BROWSER).text


@contextmanager
def with_own_keys(standing: Gateway) -> Iterator[Caller]:
    settings = standing.settings.model_copy(update={"token_key": ""})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Caller(client, None)


def config_in(page: str) -> dict[str, Any]:
    config = page.split('type="application/json"')[1].split(">", 1)[1].split("</script>")[0]
    return dict(json.loads(config))


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"])
def test_the_tokens_of_the_page_are_valid(standing: Gateway, host: str) -> None:
    """With its own keys the service issues a token for each role."""
    with with_own_keys(standing) as caller:
        page = caller.get("/graphql", headers={**BROWSER, "host": host}).text

    config = config_in(page)
    assert config["tokens"].keys() == {"caregiver", "client"}
    assert config["endpoint"] == "/graphql"
    assert [example["title"] for example in config["examples"]] == TITLES


@pytest.mark.parametrize(
    "host",
    [
        "care.example.test",
        "192.168.0.7:8000",
        "localhost.example.test",
        "127.0.0.1.example.test:8000",
        "x@localhost",
    ],
)
def test_a_page_with_another_host_name_has_no_token(standing: Gateway, host: str) -> None:
    """DNS rebinding: any page can point its name at this machine."""
    with with_own_keys(standing) as caller:
        page = caller.get("/graphql", headers={**BROWSER, "host": host})

    assert page.status_code == 200
    assert config_in(page.text)["tokens"] == {}


def test_a_page_requested_from_another_machine_has_no_token(standing: Gateway) -> None:
    """With any Host header."""
    with with_own_keys(standing) as caller:
        caller.client.comes_from = "192.168.0.8"
        page = caller.get("/graphql", headers={**BROWSER, "host": "localhost:8000"}).text

    assert config_in(page)["tokens"] == {}


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_clients_that_are_not_browsers_get_no_page(standing: Gateway, accept: str) -> None:
    response = standing.as_anonymous().get("/graphql", headers={"accept": accept})

    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")


# --- the examples ----------------------------------------------------------------------------------


@pytest.fixture
def demo(gateway: Gateway) -> Iterator[Gateway]:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    yield gateway


@pytest.mark.parametrize("example", EXAMPLES + SUBSCRIPTION_EXAMPLES, ids=lambda example: example.title)
def test_an_example_is_valid(example: Example) -> None:
    assert validate(schema_of_service(True)._schema, parse(example.query)) == []


def test_every_example_runs_on_the_demo_world(demo: Gateway) -> None:
    users = {"caregiver": CAREGIVER, "client": CLIENT}

    for example in EXAMPLES:
        caller = demo.with_token(keys.token(example.role.upper(), users[example.role]))
        variables = json.loads(example.variables) if example.variables else {}
        (found,) = caller.data(example.query, **variables).values()
        assert found, example.title
        assert found.get("userErrors", []) == [], example.title
        assert found.get("nodes", [True]) != [], example.title
        assert found.get("assignments", [True]) != [], example.title


def test_every_legacy_path_has_an_example() -> None:
    assert {example.replaces.split("?")[0] for example in EXAMPLES if example.replaces} == {
        "GET /gateway/profile/client/session",
        "GET /gateway/profile/caregiver/session/assignment",
        "GET /gateway/profile/caregiver/session/assignment/{id}",
        "PUT /gateway/profile/caregiver/session/assignment",
    }
