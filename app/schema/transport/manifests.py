"""Reads the manifest of trusted documents in the formats written by client tools."""

from typing import Any

import orjson
from graphql import GraphQLError, OperationDefinitionNode, parse, validate

from app.schema.schema import Schema
from app.schema.transport.trusted_documents import Documents
from app.settings import Settings, SettingsError, Trust

NAME = "CARE_TRUSTED_MANIFEST"
APOLLO = "apollo-persisted-query-manifest"
FORMS = f"{NAME} is no manifest: it must be a JSON object of ids and documents, or have the format {APOLLO}"


def open_documents(settings: Settings, schema: Schema) -> Documents:
    path = settings.trusted_manifest
    if not path:
        if settings.trusted_documents is not Trust.OFF:
            raise SettingsError(f"CARE_TRUSTED_DOCUMENTS={settings.trusted_documents} needs {NAME}")
        return Documents(Trust.OFF, {})
    try:
        with open(path, "rb") as file:
            manifest = read_manifest(file.read())
    except OSError as error:
        raise SettingsError(f"{NAME} cannot be read: {error.strerror}") from None
    for name, text in manifest.items():
        refuse_invalid(schema, name, text)
    return Documents(settings.trusted_documents, manifest)


def read_manifest(content: bytes) -> dict[str, str]:
    """Id -> document."""
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise SettingsError(f"{NAME} is not JSON") from None
    if not isinstance(parsed, dict):
        raise SettingsError(FORMS)
    entries = apollo_entries(parsed) if isinstance(parsed.get("operations"), list) else list(parsed.items())
    if not entries:
        raise SettingsError(f"{NAME} holds no document")
    manifest: dict[str, str] = {}
    for name, text in entries:
        if not (isinstance(name, str) and name and isinstance(text, str)):
            raise SettingsError(FORMS)
        if manifest.setdefault(name, text) != text:
            raise SettingsError(f"{NAME}: the entry {name} is there twice")
    return manifest


def apollo_entries(manifest: dict[str, Any]) -> list[tuple[Any, Any]]:
    if manifest.get("format") != APOLLO or manifest.get("version", 1) != 1:
        raise SettingsError(FORMS)
    each: list[Any] = manifest["operations"]
    return [(one.get("id"), one.get("body")) if isinstance(one, dict) else (None, None) for one in each]


def refuse_invalid(schema: Schema, name: str, text: str) -> None:
    try:
        document = parse(text)
    except GraphQLError as error:
        raise SettingsError(f"{NAME}: the entry {name} cannot be read: {error.message}") from None
    if not any(isinstance(each, OperationDefinitionNode) for each in document.definitions):
        raise SettingsError(f"{NAME}: the entry {name} holds no operation")
    if errors := validate(schema._schema, document):
        raise SettingsError(f"{NAME}: the entry {name} does not fit the schema: {errors[0].message}")
