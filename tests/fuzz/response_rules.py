"""The rules that every response of the legacy paths follows."""

import json
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from tests import openapi
from tests.fuzz.direct_requests import RawRequest, RawResponse

JSON = "application/json"


def check_response(request: RawRequest, response: RawResponse, may: frozenset[str]) -> None:
    """`may` are the roles of the valid token, if there is one."""
    path = unquote(request.path)
    assert response.status < 500, response
    assert response.header(b"content-type") == JSON
    body: Any = None
    if request.method == "HEAD":
        assert response.body == b""
    else:
        assert response.header(b"content-length") == str(len(response.body))
        body = json.loads(response.body.decode())
    headers = {name.decode(): value.decode("latin-1") for name, value in response.headers}
    openapi.assert_documented(request.method, path, response.status, headers, body)
    if response.status == HTTPStatus.OK:
        assert_right(request, path, may)


def assert_right(request: RawRequest, path: str, may: frozenset[str]) -> None:
    """Checks that a request with a 200 is valid by openapi.yaml."""
    operation = openapi.operation_of(request.method, path)
    assert operation is not None
    assert operation["tags"][0].upper() in may
    given = parse_qs(request.query, keep_blank_values=True)
    for parameter in map(openapi.resolved, operation["parameters"]):
        if parameter["required"] and parameter["in"] == "query":
            values = given.get(parameter["name"], [])
            assert len(values) == 1, values
            assert is_valid(parameter["schema"], values[0])
        if parameter["in"] == "path":
            last = path.rpartition("/")[2]
            assert re.fullmatch("[0-9]{1,19}", last)
            assert is_valid(parameter["schema"], int(last))
        if parameter["name"] == "Idempotency-Key":
            keys = request.all_of(b"idempotency-key")
            assert keys == [] or (len(keys) == 1 and re.fullmatch(rb"[!-~]{1,255}", keys[0]))
    if "requestBody" in operation:
        kinds = request.all_of(b"content-type")[:1] or [JSON.encode()]
        assert kinds[0].decode("latin-1").partition(";")[0].strip().lower() == JSON
        homework = json.loads(request.body.decode("utf-8-sig"))
        schema = openapi.validator("#/components/schemas/Homework")
        assert list(schema.iter_errors(homework)) == []
        assert all(type(each) is int for each in (*homework["bookIds"], homework["sessionId"]))


def is_valid(schema: dict[str, Any], value: Any) -> bool:
    return bool(openapi.validator(schema["$ref"]).is_valid(value))
