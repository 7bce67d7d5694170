"""The four legacy paths as a page to read, made from openapi.yaml."""

from typing import Any

from app.landing.markup import (
    Html,
    block,
    document,
    escaped,
    inline,
    link,
    prose,
    spread,
    table,
    tag,
    together,
)
from app.landing.shapes import operations, type_of
from app.rest_compat.description import document as description
from app.rest_compat.description import resolved


def reference_page() -> str:
    info = description()["info"]
    return document(
        info["title"],
        tag("a", "To the content", class_="skip", href="#content"),
        tag(
            "header",
            tag("p", link("/", "Care Gateway")),
            tag("h1", info["title"]),
            prose(info["summary"]),
            tag(
                "p",
                "For tools: ",
                link("/openapi.yaml", "openapi.yaml"),
                ", ",
                link("/openapi.json", "openapi.json"),
            ),
        ),
        tag(
            "main",
            tag("nav", contents(), aria_label="Paths"),
            prose(info["description"]),
            *(operation_section(*each) for each in operations()),
            other_methods(),
            schemas(),
            id="content",
        ),
    )


def contents() -> Html:
    items = [
        tag("li", link(f"#{one['operationId']}", together(heading(method, path))), ": ", one["summary"])
        for method, path, one in operations()
    ]
    return tag("ul", *items, tag("li", link("#shapes", "The shapes of bodies")))


def heading(method: str, path: str) -> Html:
    return together(tag("span", method, class_="method"), " ", tag("code", path))


def operation_section(method: str, path: str, operation: dict[str, Any]) -> Html:
    name = operation["operationId"]
    return tag(
        "section",
        tag("h2", heading(method, path), id=name),
        tag("p", tag("strong", operation["summary"])),
        prose(operation["description"]),
        parameters(operation),
        request_body(operation),
        tag("h3", "Answers"),
        *(response(status, resolved(each)) for status, each in operation["responses"].items()),
        aria_labelledby=name,
    )


def parameters(operation: dict[str, Any]) -> Html:
    rows = [parameter(resolved(each)) for each in operation["parameters"]]
    return together(tag("h3", "Parameters"), table(("Name", "Where", "Type", "Meaning"), rows))


def parameter(one: dict[str, Any]) -> tuple[object, ...]:
    where = one["in"] + (", required" if one["required"] else "")
    return tag("code", one["name"]), where, type_cell(one["schema"]), prose(one["description"])


def request_body(operation: dict[str, Any]) -> Html:
    body = operation.get("requestBody")
    if body is None:
        return Html("")
    return together(tag("h3", "Body"), prose(body["description"]), content_of(body))


def response(status: str, one: dict[str, Any], level: str = "h4") -> Html:
    headers = (
        (tag("code", name), prose(resolved(header)["description"])) for name, header in one["headers"].items()
    )
    return together(
        tag(level, status),
        prose(one["description"]),
        content_of(one),
        tag("details", tag("summary", "Headers"), table(("Name", "Meaning"), headers)),
    )


def content_of(part: dict[str, Any]) -> Html:
    content = part["content"]["application/json"]
    examples = [
        tag("details", tag("summary", inline(one["summary"])), block(spread(one["value"]), one["summary"]))
        for one in content.get("examples", {}).values()
    ]
    return together(tag("p", "A JSON object: ", type_cell(content["schema"])), *examples)


def other_methods() -> Html:
    one = description()["components"]["responses"]["WrongMethod"]
    return tag("section", tag("h2", "Other methods", id="other-methods"), response("405", one, "h3"))


# --- shapes ---


def schemas() -> Html:
    every = description()["components"]["schemas"].items()
    return tag(
        "section", tag("h2", "The shapes of bodies", id="shapes"), *(schema_part(*each) for each in every)
    )


def schema_part(name: str, schema: dict[str, Any]) -> Html:
    title = tag("h3", tag("code", name), id=f"shape-{name}")
    if "properties" not in schema:
        said = type_of({"$ref": f"#/components/schemas/{name}"})
        return together(title, prose(schema["description"]), tag("p", said, class_="soft"))
    rows = (
        (tag("code", member), type_cell(each), prose(resolved(each).get("description", "")))
        for member, each in schema["properties"].items()
    )
    return together(title, prose(schema["description"]), table(("Member", "Type", "Meaning"), rows))


def type_cell(schema: dict[str, Any]) -> Html:
    """Its name where it has one, as a link to what it means."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return link(f"#shape-{name}", tag("code", name))
    if "oneOf" in schema:
        first, *others = schema["oneOf"]
        return together(type_cell(first), *(together(" or ", type_cell(each)) for each in others))
    if "items" in schema:
        return together("list of ", type_cell(schema["items"]))
    return escaped(type_of(schema))
