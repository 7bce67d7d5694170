"""Validates responses against openapi.yaml."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from tests.rest_compat.legacy import PHRASES

PATH = Path(__file__).parent.parent / "app/rest_compat/openapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
PATHS: dict[str, dict[str, Any]] = DOCUMENT["paths"]
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]
METHODS = ("get", "put", "post", "delete", "patch", "options", "head", "trace")


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """Follows references."""
    while "$ref" in part:
        found: Any = DOCUMENT
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in PATHS.items():
        for method in METHODS:
            if method in item:
                yield path, method.upper(), item[method]


def template_of(path: str) -> str | None:
    """The documented path, with its parameters."""
    for template in PATHS:
        if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", template), path):
            return template
    return None


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    template = template_of(path)
    if template is None or method != method.upper():  # methods are case-sensitive
        return None
    found: dict[str, Any] | None = PATHS[template].get("get" if method == "HEAD" else method.lower())
    return found


def response_of(method: str, path: str, status: int) -> dict[str, Any] | None:
    """The documented response. An unknown path has the same body as every rejection."""
    operation = operation_of(method, path)
    if operation is None:
        template = template_of(path)
        if template is None:
            return UNKNOWN_PATH if status == 404 else None
        return resolved(PATHS[template]["x-other-methods"]) if status == 405 else None
    response = operation["responses"].get(str(status))
    return None if response is None else resolved(response)


UNKNOWN_PATH: dict[str, Any] = {
    "headers": {"X-Request-Id": {"$ref": "#/components/headers/RequestId"}},
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


@cache
def validator(reference: str) -> Any:
    components = {"components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator({"$ref": reference, **components}, validate_formats=True)


def assert_documented(method: str, path: str, status: int, headers: dict[str, str], body: Any) -> None:
    """`path` is unquoted; the body of a HEAD is None."""
    response = response_of(method, path, status)
    assert response is not None, f"{status} is not documented for {method} {path}"
    for name, header in response.get("headers", {}).items():
        value = headers.get(name.lower())
        header = resolved(header)
        assert value is not None or not header.get("required"), name
        assert value is None or jsonschema_rs.is_valid(header["schema"], value), (name, value)
    if method == "HEAD":
        return
    schema = response["content"]["application/json"]["schema"]
    for error in validator(schema["$ref"]).iter_errors(body):
        raise AssertionError(f"{status} of {method} {path}: {error}")
    assert_order(body, schema)
    if status != 200:
        assert (body["status"], body["error"], body["path"]) == (status, PHRASES[status], path)


def assert_order(value: Any, schema: dict[str, Any]) -> None:
    """Compares the order of members with the documentation, on every level."""
    schema = resolved(schema)
    if isinstance(value, dict):
        assert list(value) == list(schema["properties"])
        for name, each in value.items():
            assert_order(each, schema["properties"][name])
    elif isinstance(value, list):
        for each in value:
            assert_order(each, schema["items"])
