"""What an answer of a legacy path is made of: its members and their types, and nobody's data."""

from collections.abc import Iterator
from typing import Any

from app.rest_compat.description import document, resolved


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each operation of openapi.yaml with its method and path."""
    for path, item in document()["paths"].items():
        for method in ("get", "put"):
            if method in item:
                yield method.upper(), path, item[method]


def shape_of(operation_id: str) -> str:
    (operation,) = (one for *_, one in operations() if one["operationId"] == operation_id)
    content = resolved(operation["responses"]["200"])["content"]
    return written(content["application/json"]["schema"])


def written(schema: dict[str, Any], depth: int = 0) -> str:
    """Like JSON, with types in the place of values."""
    named, schema = schema, resolved(schema)
    inner, outer = "  " * (depth + 1), "  " * depth
    if "properties" in schema:
        members = (
            f'{inner}"{name}": {written(each, depth + 1)}' for name, each in schema["properties"].items()
        )
        return "{\n" + ",\n".join(members) + f"\n{outer}}}"
    if schema.get("type") == "array":
        return f"[{written(schema['items'], depth)}]" if "items" in schema else "[]"
    return type_of(named)


def type_of(schema: dict[str, Any]) -> str:
    """In a few words."""
    name, schema = schema.get("$ref", "").rpartition("/")[2], resolved(schema)
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if "oneOf" in schema:
        return " or ".join(type_of(each) for each in schema["oneOf"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    said = " or ".join("list" if kind == "array" else kind for kind in kinds)
    return {"DateTime": "yyyy/MM/dd HH:mm", "Date": "yyyy/MM/dd", "Time": "HH:mm"}.get(name, said)
