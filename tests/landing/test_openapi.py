"""The OpenAPI description of the legacy paths is public: as YAML and as JSON."""

import yaml

from tests import openapi
from tests.callers import Gateway


def test_the_yaml_is_served_unchanged(gateway: Gateway) -> None:
    found = gateway.as_anonymous().get("/openapi.yaml")

    assert (found.status_code, found.headers["content-type"]) == (200, "application/yaml")
    assert found.content == openapi.PATH.read_bytes()
    assert yaml.safe_load(found.text) == openapi.DOCUMENT


def test_the_json_equals_the_yaml(gateway: Gateway) -> None:
    found = gateway.as_anonymous().get("/openapi.json")

    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json() == openapi.DOCUMENT
