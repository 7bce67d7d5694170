"""Breaking changes between two schemas, by name."""

from graphql import build_schema, find_breaking_changes


def breaking_changes(old: str, new: str) -> list[str]:
    """One line per change that breaks a client of the old schema."""
    found = find_breaking_changes(build_schema(old), build_schema(new))
    return sorted(f"{change.type.name}: {change.description}" for change in found)
