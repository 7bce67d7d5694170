"""The reference pages: the operations of openapi.yaml, and the GraphQL schema as SDL."""

from app.landing.html_builder import Html, block, document, inline, join, link, prose, tag
from app.rest_compat.description import document as openapi


def openapi_page() -> str:
    info = openapi()["info"]
    operations = (
        operation_section(method.upper(), path, item[method])
        for path, item in openapi()["paths"].items()
        for method in ("get", "put")
        if method in item
    )
    files = "[openapi.yaml](/openapi.yaml), [openapi.json](/openapi.json)"
    intro = prose(f"{info['summary']}\n\nParameters, response bodies and examples: {files}")
    return reference_page(info["title"], intro, *operations)


def operation_section(method: str, path: str, operation: dict[str, str]) -> Html:
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
    tools = prose("For tools: [schema.graphql](/schema.graphql)")
    return reference_page("The GraphQL schema", tools, block(sdl, "GraphQL schema"))


def reference_page(title: str, *content: Html) -> str:
    return document(
        f"Care Gateway: {title}",
        tag("header", tag("p", link("/", "Care Gateway")), tag("h1", title)),
        tag("main", *content, id="content"),
    )
