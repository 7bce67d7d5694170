"""Promise: the description of the legacy paths is served as it is, as JSON and as a page, to anybody."""

import html
import json
import re

import yaml

from tests import openapi
from tests.callers import Gateway


def test_it_is_served_as_it_is(gateway: Gateway) -> None:
    found = gateway.as_nobody().get("/openapi.yaml")

    assert (found.status_code, found.headers["content-type"]) == (200, "application/yaml")
    assert found.content == openapi.PATH.read_bytes()
    assert yaml.safe_load(found.text) == openapi.DOCUMENT


def test_it_is_served_as_json(gateway: Gateway) -> None:
    found = gateway.as_nobody().get("/openapi.json")

    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json() == openapi.DOCUMENT


def test_it_is_served_as_a_page_with_every_path_status_member_and_example(gateway: Gateway) -> None:
    found = gateway.as_nobody().get("/openapi.html")

    shown = html.unescape(re.sub("<[^>]*>", "", found.text))
    assert (found.status_code, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path, method, operation in openapi.operations():
        begins = found.text.index(f'<h2 id="{operation["operationId"]}">')
        part = found.text[begins : found.text.index("</section>", begins)]
        assert f'<span class="method">{method}</span> <code>{path}</code>' in part
        assert re.findall(r"<h4>(\d+)</h4>", part) == list(operation["responses"])
    for name, schema in openapi.SCHEMAS.items():
        assert f'id="shape-{name}"' in found.text
        for member in schema.get("properties", ()):
            assert f"<code>{member}</code>" in found.text
    examples = [
        json.loads(html.unescape(text))
        for text in re.findall("<pre[^>]*><code>(.*?)</code>", found.text, re.DOTALL)
    ]
    assert len(examples) > 20
    for *_, operation in openapi.operations():
        for response in operation["responses"].values():
            content = openapi.resolved(response)["content"]["application/json"]
            assert all(one["value"] in examples for one in content.get("examples", {}).values())
    assert "`" not in shown
