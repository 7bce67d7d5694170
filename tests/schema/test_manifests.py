"""Manifests of trusted documents in the formats of client tools. An invalid one prevents the start with
one sentence that names the entry."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.schema.transport.request_parsing import GraphQLRequest
from app.schema.transport.trusted_documents import MAX_NAMES, Documents, read_manifest
from app.settings import Environment, Settings, SettingsError, Trust
from app.telemetry.counters import OTHER as UNNAMED
from tests import keys
from tests.schema.manifest_service import OTHER, ROLE

APOLLO: dict[str, Any] = {
    "format": "apollo-persisted-query-manifest",
    "version": 1,
    "operations": [
        {"id": "a", "name": "Role", "type": "query", "body": ROLE},
        {"id": "b", "name": "Other", "type": "query", "body": OTHER},
    ],
}
NAME = "CARE_TRUSTED_MANIFEST"
UNKNOWN_FORMAT = (
    f"{NAME} must be a JSON object that maps ids to documents, or have the format "
    "apollo-persisted-query-manifest"
)


def start(tmp_path: Path, content: bytes | None, trust: Trust = Trust.ENFORCE) -> None:
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_bytes(content)
    create_app(
        Settings(
            env=Environment.PRODUCTION,
            token_key=keys.public_pem(),
            trusted_documents=trust,
            trusted_manifest=str(path),
        )
    )


def test_the_documented_manifests_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trusted-documents.md").read_text()
    as_object, as_apollo, _ = re.findall(r"```json\n(.*?)```", page, re.DOTALL)

    assert read_manifest(as_object.encode()) == read_manifest(as_apollo.encode()) == {"role-1": ROLE}


MANIFESTS: list[Any] = [
    {"a": ROLE, "b": OTHER},
    APOLLO,
    {"format": APOLLO["format"], "operations": [*APOLLO["operations"], {"id": "a", "body": ROLE}]},
]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_both_formats_are_read(tmp_path: Path, manifest: Any) -> None:
    content = json.dumps(manifest).encode()

    assert read_manifest(content) == {"a": ROLE, "b": OTHER}
    start(tmp_path, content)


def entries(*bodies: Any) -> dict[str, Any]:
    return {**APOLLO, "operations": [{"id": "a", "body": body} for body in bodies]}


INVALID: dict[str, tuple[Any, str]] = {
    "a list": ([], UNKNOWN_FORMAT),
    "a text": ("x", UNKNOWN_FORMAT),
    "a number for a document": ({"a": 1}, UNKNOWN_FORMAT),
    "no id": ({"": ROLE}, UNKNOWN_FORMAT),
    "nothing in it": ({}, f"{NAME} contains no document"),
    "no operations": ({**APOLLO, "operations": []}, f"{NAME} contains no document"),
    "another format": ({**APOLLO, "format": "x"}, UNKNOWN_FORMAT),
    "another version": ({**APOLLO, "version": 2}, UNKNOWN_FORMAT),
    "an operation that is none": ({**APOLLO, "operations": [1]}, UNKNOWN_FORMAT),
    "an operation without a body": ({**APOLLO, "operations": [{"id": "a"}]}, UNKNOWN_FORMAT),
    "an id that means two": (entries(ROLE, OTHER), f"{NAME}: the entry a has two documents"),
    "no document": (
        {"a": ROLE, "b": "{ viewer"},
        f"{NAME}: the entry b cannot be read: Syntax Error: Expected Name, found <EOF>.",
    ),
    "an empty document": (
        entries(""),
        f"{NAME}: the entry a cannot be read: Syntax Error: Unexpected <EOF>.",
    ),
    "too deep a document": (
        {"a": "{a" * 100_000},
        f"{NAME}: the entry a cannot be read: Syntax Error: Document is nested too deeply. Parsing aborted.",
    ),
    "a document of another schema": (
        {"a": ROLE, "b": "{ viewer { shoeSize } }"},
        f"{NAME}: the entry b does not fit the schema: Cannot query field 'shoeSize' on type 'Viewer'.",
    ),
    "a fragment alone": (
        {"a": "fragment A on Viewer { role }"},
        f"{NAME}: the entry a contains no operation",
    ),
    "a type": ({"a": "type A { a: Int }"}, f"{NAME}: the entry a contains no operation"),
}


@pytest.mark.parametrize("trust", list(Trust))
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_manifest_is_a_settings_error(tmp_path: Path, name: str, trust: Trust) -> None:
    manifest, message = INVALID[name]

    with pytest.raises(SettingsError) as error:
        start(tmp_path, json.dumps(manifest).encode(), trust)

    assert str(error.value) == message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"{'a': 1}"])
def test_a_manifest_that_is_not_json_is_a_settings_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SettingsError, match=f"^{NAME} is not JSON$"):
        start(tmp_path, content)


def test_a_missing_manifest_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"^{NAME} cannot be read: No such file or directory$"):
        start(tmp_path, None)


@pytest.mark.parametrize("trust", [Trust.AUDIT, Trust.ENFORCE])
def test_trusted_documents_need_a_manifest(trust: Trust) -> None:
    settings = Settings(env=Environment.PRODUCTION, token_key=keys.public_pem(), trusted_documents=trust)

    with pytest.raises(SettingsError, match=f"^CARE_TRUSTED_DOCUMENTS={trust} needs {NAME}$"):
        create_app(settings)


def test_a_hundred_operations_have_metrics_of_their_own() -> None:
    """Whether requests name the operation or omit its name."""
    names = [f"Name{number}" for number in range(MAX_NAMES + 1)]
    texts = [f"query {name} {{ viewer {{ role }} }}" for name in names]
    documents = Documents(Trust.OFF, {**dict(zip(names, texts, strict=True)), "again": f"{texts[0]} "})

    found = {
        documents.metrics_name(GraphQLRequest(text, None, given, None))
        for name, text in zip(names, texts, strict=True)
        for given in (name, None)
    }

    assert (MAX_NAMES, found) == (100, {*names[:MAX_NAMES], UNNAMED})
