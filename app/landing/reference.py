"""The reference pages: the operations of openapi.yaml, and the GraphQL schema as SDL."""

from collections.abc import Iterator
from typing import Any

from app.landing.html_builder import Html, block, document, inline, join, link, prose, tag
from app.rest_compat.description import document as openapi


def openapi_page() -> str:
    info = openapi()["info"]
    return reference_page(
        info["title"],
        prose(info["summary"]),
        tag(
            "p",
            "Parameters, response bodies and examples: ",
            link("/openapi.yaml", "openapi.yaml"),
            ", ",
            link("/openapi.json", "openapi.json"),
        ),
        *(operation_section(*each) for each in operations()),
    )


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in openapi()["paths"].items():
        for method in ("get", "put"):
            if method in item:
                yield method.upper(), path, item[method]


def operation_section(method: str, path: str, operation: dict[str, Any]) -> Html:
    name = operation["operationId"]
    heading = join(tag("span", method, class_="method"), " ", tag("code", path))
    return tag(
        "section",
        tag("h2", heading, id=name),
        tag("p", tag("strong", inline(operation["summary"]))),
        prose(operation["description"]),
        aria_labelledby=name,
    )


def schema_page(sdl: str) -> str:
    return reference_page(
        "The GraphQL schema",
        tag("p", "For tools: ", link("/schema.graphql", "schema.graphql")),
        block(sdl, "GraphQL schema"),
    )


def reference_page(title: str, *content: Html) -> str:
    return document(
        f"Care Gateway: {title}",
        tag("header", tag("p", link("/", "Care Gateway")), tag("h1", title)),
        tag("main", *content, id="content"),
    )
