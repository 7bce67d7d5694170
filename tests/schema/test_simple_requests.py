"""A request that a page of another origin can send without a preflight changes nothing.

These are GET, HEAD and POST with a body of text, a form or several parts. The tests add a valid token, as if
a browser had.
"""

from typing import Any
from urllib.parse import quote, urlencode

import orjson
import pytest

from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_world
from tests.rest_compat.legacy import ASSIGNMENTS, homework
from tests.schema.test_assign_homework import ASSIGN
from tests.schema.test_assign_homework import homework as assigned

pytestmark = pytest.mark.sqlite_only

REQUEST: dict[str, Any] = {"query": ASSIGN, "variables": {"input": assigned()}}
AS_JSON = orjson.dumps(REQUEST)
AS_FORM = urlencode({"query": ASSIGN, "variables": orjson.dumps(REQUEST["variables"])}).encode()
PARTS = (
    b"--x\r\n"
    b'content-disposition: form-data; name="operations"\r\n\r\n' + AS_JSON + b"\r\n"
    b"--x\r\n"
    b'content-disposition: form-data; name="map"\r\n\r\n{}\r\n'
    b"--x--\r\n"
)
FORM, TEXT, SEVERAL = "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"
BODIES: dict[str | None, list[bytes]] = {
    None: [AS_JSON],
    "": [AS_JSON],
    TEXT: [AS_JSON, ASSIGN.encode()],
    "text/plain; charset=utf-8": [AS_JSON],
    "text/plain; application/json": [AS_JSON],
    "text/plain,application/json": [AS_JSON],
    "application/graphql": [ASSIGN.encode()],
    FORM: [AS_FORM, AS_JSON],
    SEVERAL: [PARTS, AS_JSON],
}
ACCEPTED = [{}, {"accept": "text/event-stream"}, {"idempotency-key": "k"}]


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records(a_world())
    return gateway


def test_a_post_without_a_preflight_is_never_executed(world: Gateway) -> None:
    """Requests for events or with a key take another path through the service."""
    before = stored(world)

    for kind, bodies in BODIES.items():
        for body in bodies:
            for others in ACCEPTED:
                headers = others if kind is None else {**others, "content-type": kind}
                response = world.as_caregiver(1).request("POST", "/graphql", content=body, headers=headers)
                assert response.status_code == 415, (kind, body, others)
    assert stored(world) == before


def test_no_mutation_is_executed_by_get(world: Gateway) -> None:
    before = stored(world)
    caregiver = world.as_caregiver(1)
    parameters = {"query": ASSIGN, "variables": orjson.dumps(REQUEST["variables"]).decode()}

    for others in ACCEPTED:
        by_get = caregiver.get("/graphql", params=parameters, headers=others)
        assert by_get.status_code == 400
        assert by_get.json()["errors"][0]["message"] == "mutations are not allowed when using GET"
    for method in ("HEAD", "PUT", "PATCH", "DELETE"):
        assert caregiver.request(method, "/graphql", params=parameters, json=REQUEST).status_code == 405
    for header in ("x-http-method-override", "x-http-method", "x-method-override"):
        assert caregiver.get("/graphql", params=parameters, headers={header: "POST"}).status_code == 400
    with_body = caregiver.request(
        "GET", "/graphql", content=AS_JSON, headers={"content-type": "application/json"}
    )
    assert with_body.status_code == 400
    assert stored(world) == before


def test_the_legacy_put_needs_json_and_no_other_method_replaces_it(world: Gateway) -> None:
    """Browsers send a preflight before a PUT, but not before a POST that overrides its method."""
    before = stored(world)
    caregiver, body = world.as_caregiver(1), orjson.dumps(homework())

    for kind in (TEXT, "text/plain; application/json", FORM, SEVERAL, ""):
        response = caregiver.put(ASSIGNMENTS, content=body, headers={"content-type": kind})
        assert response.status_code == 415, kind
    for headers in ({}, {"x-http-method-override": "PUT"}, {"content-type": FORM}):
        path = f"{ASSIGNMENTS}?_method=PUT&{quote('query')}=x"
        assert caregiver.request("POST", path, content=body, headers=headers).status_code == 405
    assert stored(world) == before
