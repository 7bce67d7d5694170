"""A service with a manifest of documents, and requests that name documents by an id."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from httpx2 import Response

from app.main import create_app
from app.settings import Settings, Trust
from tests.callers import Caller, Gateway, opened
from tests.factories import NOW

ROLE = "query Role { viewer { role } }"
OTHER = "query Other($n: Int) { viewer { role } sessions(first: $n) { totalCount } }"
CHANGES = "subscription Changes($after: ID) { assignmentChanged(after: $after) { what } }"
MANIFEST = {"role-1": ROLE, "changes-1": CHANGES}
A_CLIENT = {"data": {"viewer": {"role": "CLIENT"}}}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def service_with_manifest(
    settings: Settings, trust: Trust, folder: Path, manifest: Any = MANIFEST
) -> Iterator[Gateway]:
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest))
    own = settings.model_copy(update={"trusted_documents": trust, "trusted_manifest": str(path)})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        yield Gateway(client, own)


def hashed(sha: str, version: Any = 1) -> dict[str, Any]:
    """The extensions that Apollo's library for browsers sends."""
    library = {"name": "@apollo/client", "version": "4.0.9"}
    return {"clientLibrary": library, "persistedQuery": {"version": version, "sha256Hash": sha}}


def post(caller: Caller, **members: Any) -> Response:
    return caller.request("POST", "/graphql", json=members)


def get(caller: Caller, **members: Any) -> Response:
    parameters = {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in members.items()
    }
    return caller.get("/graphql", params=parameters)


def rejection(response: Response) -> tuple[int, str, str]:
    """Status, code and message, once the rest is what it is with every refused request."""
    [error] = response.json().pop("errors")
    extensions = error["extensions"]
    assert response.json() == {"errors": [error]}
    assert error == {"message": error["message"], "extensions": extensions}
    assert extensions == {"code": extensions["code"], "requestId": response.headers["x-request-id"]}
    return response.status_code, extensions["code"], error["message"]


NOT_TRUSTED = (400, "DOCUMENT_NOT_TRUSTED", "This document is not trusted.")
NOT_KNOWN = (400, "DOCUMENT_NOT_FOUND", "No document is known by this `documentId`.")
NOT_FOUND = (200, "PERSISTED_QUERY_NOT_FOUND", "PersistedQueryNotFound")
NOT_SUPPORTED = (200, "PERSISTED_QUERY_NOT_SUPPORTED", "PersistedQueryNotSupported")
BOTH = (400, "BAD_REQUEST", "A request has a `query` or a `documentId`, not both.")
WRONG_HASH = (400, "BAD_REQUEST", "`extensions.persistedQuery.sha256Hash` is not the SHA-256 of the `query`.")
WRONG_FORM = (400, "BAD_REQUEST", "`extensions.persistedQuery` must have the version 1 and a `sha256Hash`.")
