"""GraphiQL, in development: demo tokens only for visitors on the same machine, and working examples.

Contract: a browser gets the page, every other client gets GraphQL; every example is valid, runs without
errors on the demo data, and names the legacy call that it replaces.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from graphql import parse, validate

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.interchange.load import importing
from app.dev.graphiql import EXAMPLES, Example
from app.main import create_app, schema_of_service
from app.settings import Settings
from tests import keys
from tests.callers import Caller, Gateway, opened, run_write
from tests.dev.conftest import BROWSER
from tests.factories import NOW
from tests.schema.listening import streaming

pytestmark = pytest.mark.sqlite_only


def test_the_page_has_no_token_if_an_identity_provider_issues_tokens(browser: Caller) -> None:
    assert config_in(browser.get("/graphql", headers=BROWSER).text) == {
        "endpoint": "/graphql",
        "tokens": {},
        "examples": [asdict(example) for example in EXAMPLES],
    }


@pytest.fixture
def own_keys(folder: Path, settings: Settings) -> Iterator[Caller]:
    """A service with demo data that signs tokens itself."""
    run_write(settings.database, importing(demo_lines(NOW)))
    with opened(create_app(settings.model_copy(update={"token_key": ""}), clock=lambda: NOW)) as client:
        yield Caller(client, None)


def config_in(page: str) -> dict[str, Any]:
    config = page.split('type="application/json"')[1].split(">", 1)[1].split("</script>")[0]
    return dict(json.loads(config))


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST"])
def test_a_page_on_the_same_machine_has_a_valid_token_for_each_role(own_keys: Caller, host: str) -> None:
    tokens = config_in(own_keys.get("/graphql", headers={**BROWSER, "host": host}).text)["tokens"]

    viewers = {
        role: Caller(own_keys.client, token).data("{ viewer { role } }")["viewer"]["role"]
        for role, token in tokens.items()
    }
    assert viewers == {"caregiver": "CAREGIVER", "client": "CLIENT"}


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
def test_a_page_with_another_host_name_has_no_token(own_keys: Caller, host: str) -> None:
    """DNS rebinding: any page can point its name at this machine."""
    page = own_keys.get("/graphql", headers={**BROWSER, "host": host})

    assert page.status_code == 200
    assert config_in(page.text)["tokens"] == {}


def test_a_page_requested_from_another_machine_has_no_token(own_keys: Caller) -> None:
    """With any Host header."""
    own_keys.client.comes_from = "192.168.0.8"
    page = own_keys.get("/graphql", headers={**BROWSER, "host": "localhost:8000"}).text

    assert config_in(page)["tokens"] == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("forwarded", "for=192.0.2.1"),
        ("via", "1.1 a-proxy"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "care.example.test"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "127.0.0.1"),
        ("x-client-ip", "127.0.0.1"),
        ("true-client-ip", "127.0.0.1"),
        ("cf-connecting-ip", "127.0.0.1"),
    ],
)
def test_a_page_requested_through_a_proxy_on_the_same_machine_has_no_token(
    own_keys: Caller, name: str, value: str
) -> None:
    headers = {**BROWSER, "host": "localhost:8000", name: value}

    assert config_in(own_keys.get("/graphql", headers=headers).text)["tokens"] == {}


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_clients_that_are_not_browsers_get_no_page(browser: Caller, accept: str) -> None:
    response = browser.get("/graphql", headers={"accept": accept})

    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")


# --- the examples ----------------------------------------------------------------------------------


@pytest.fixture
def demo(gateway: Gateway) -> Iterator[Gateway]:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    yield gateway


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_an_example_is_valid(example: Example) -> None:
    assert validate(schema_of_service(True)._schema, parse(example.query)) == []


def test_every_example_runs_on_the_demo_world(demo: Gateway) -> None:
    users = {"caregiver": CAREGIVER, "client": CLIENT}

    for example in EXAMPLES:
        caller = demo.with_token(keys.token(example.role.upper(), users[example.role]))
        if example.query.startswith("subscription"):
            with streaming(caller, example.query) as stream:
                assert stream.response.headers["content-type"].startswith("text/event-stream"), example.title
            continue
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
