"""Trusted documents from the manifest, and automatic persisted queries."""

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson
from graphql import GraphQLError, OperationDefinitionNode, parse, validate

from app.caches import BoundedCache
from app.http.errors import Failure, RequestRejected
from app.schema.schema import Schema
from app.schema.transport.request_parsing import GraphQLRequest
from app.settings import Settings, SettingsError, Trust
from app.telemetry.counters import OTHER

MAX_PERSISTED = 1024  # persisted queries
MAX_PERSISTED_TEXT = 2 * 1024 * 1024  # characters in all persisted queries, each counted with at least 2048
MAX_LOGGED = 4096  # documents per process, so that requests cannot fill the log
MAX_NAMES = 100  # trusted operations with their own metrics
PREFIX = "sha256:"
OPERATION = re.compile(r"\s*(?:query|mutation|subscription)\s+([A-Za-z_][A-Za-z0-9_]{0,63})\b")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

SETTING = "CARE_TRUSTED_MANIFEST"
APOLLO = "apollo-persisted-query-manifest"
UNKNOWN_FORMAT = f"{SETTING} must be a JSON object that maps ids to documents, or have the format {APOLLO}"

logger = logging.getLogger("care.documents")


class Documents:
    """Finds the document of a request and checks whether it is trusted."""

    def __init__(self, trust: Trust, manifest: Mapping[str, str]) -> None:
        self.trust = trust
        self.trusted = frozenset(manifest.values())
        self.by_id = {hash_of(text): text for text in self.trusted} | dict(manifest)
        self.persisted: BoundedCache[str] = BoundedCache(MAX_PERSISTED_TEXT)  # hash -> text
        self.logged: set[str] = set()  # hashes of untrusted documents
        names = dict(named_operations(manifest.values()))
        measured = set(list(dict.fromkeys(names.values()))[:MAX_NAMES])
        self.operation_names = {request: name for request, name in names.items() if name in measured}

    def metrics_name(self, request: GraphQLRequest) -> str:
        """The operation's name in the manifest; OTHER if it is not there."""
        return self.operation_names.get((request.query, request.operation_name), OTHER)

    def admit(self, request: GraphQLRequest, request_id: str) -> GraphQLRequest:
        """The request with its document. Raises RequestRejected if it is unknown or not trusted."""
        persisted = request.extensions.get("persistedQuery") if request.extensions else None
        if request.document_id is not None:
            if request.query:
                raise RequestRejected("A request has a `query` or a `documentId`, not both.")
            request = replace(request, query=self.document_by_id(request.document_id))
        elif persisted is not None and not request.query:
            request = replace(request, query=self.persisted_query(read_hash(persisted)))
        if self.trust is not Trust.OFF and request.query and request.query not in self.trusted:
            self.check_trust(request, request_id)
        if persisted is not None:
            self.add_persisted_query(read_hash(persisted), request.query)
        return request

    def document_by_id(self, document_id: str) -> str:
        text = self.find(document_id)
        if text is None:
            raise RequestRejected("No document is known by this `documentId`.", Failure.DOCUMENT_NOT_FOUND)
        return text

    def persisted_query(self, sha256: str) -> str:
        text = self.find(sha256)
        if text is not None:
            return text
        # Apollo's libraries compare these messages.
        if self.trust is Trust.ENFORCE:
            raise RequestRejected("PersistedQueryNotSupported", Failure.CANNOT_PERSIST)
        raise RequestRejected("PersistedQueryNotFound", Failure.NOT_PERSISTED)

    def find(self, id: str) -> str | None:
        """The document with this id in the manifest, or with this hash."""
        text = self.by_id.get(id)
        if text is not None:
            return text
        sha256 = id.removeprefix(PREFIX)
        return self.persisted.get(sha256) or self.by_id.get(sha256)

    def add_persisted_query(self, sha256: str, text: str) -> None:
        """Stores the query under its hash, unless the manifest contains it."""
        if self.find(sha256) == text:
            return
        if hash_of(text) != sha256:
            raise RequestRejected("`extensions.persistedQuery.sha256Hash` is not the SHA-256 of the `query`.")
        self.persisted.put(sha256, text, max(len(text), MAX_PERSISTED_TEXT // MAX_PERSISTED))

    def check_trust(self, request: GraphQLRequest, request_id: str) -> None:
        """Rejects a document that is not in the manifest, or logs it once."""
        if self.trust is Trust.ENFORCE:
            raise RequestRejected("This document is not trusted.", Failure.DOCUMENT_NOT_TRUSTED)
        sha256 = hash_of(request.query)
        if sha256 in self.logged or len(self.logged) > MAX_LOGGED:
            return
        self.logged.add(sha256)
        if len(self.logged) > MAX_LOGGED:
            logger.warning("more documents are not trusted; they are not logged any more")
            return
        logger.warning(
            "request %s: document %s (%s) is not trusted", request_id, sha256, logged_name(request)
        )


def named_operations(documents: Iterable[str]) -> Iterator[tuple[tuple[str, str | None], str]]:
    """Pairs the document and `operationName` of each possible request with the name of its operation.

    A request for the only operation of a document may omit `operationName`.
    """
    for text in documents:
        operations = [each for each in parse(text).definitions if isinstance(each, OperationDefinitionNode)]
        for name in (each.name.value for each in operations if each.name):
            yield (text, name), name
            if len(operations) == 1:
                yield (text, None), name


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def read_hash(persisted: Any) -> str:
    """Reads the `persistedQuery` extension of Apollo's libraries."""
    if isinstance(persisted, dict) and persisted.get("version") == 1:
        sha256 = persisted.get("sha256Hash")
        if isinstance(sha256, str):
            return sha256
    raise RequestRejected("`extensions.persistedQuery` must have the version 1 and a `sha256Hash`.")


def logged_name(request: GraphQLRequest) -> str:
    """The operation's name for the log; `-` if missing or invalid."""
    if request.operation_name is not None:
        return request.operation_name if NAME.fullmatch(request.operation_name) else "-"
    found = OPERATION.match(request.query)
    return found[1] if found else "-"


# --- the manifest ---------------------------------------------------------------------------------


def open_documents(settings: Settings, schema: Schema) -> Documents:
    path = settings.trusted_manifest
    if not path:
        if settings.trusted_documents is not Trust.OFF:
            raise SettingsError(f"CARE_TRUSTED_DOCUMENTS={settings.trusted_documents} needs {SETTING}")
        return Documents(Trust.OFF, {})
    try:
        with open(path, "rb") as file:
            manifest = read_manifest(file.read())
    except OSError as error:
        raise SettingsError(f"{SETTING} cannot be read: {error.strerror}") from None
    for name, text in manifest.items():
        check_document(schema, name, text)
    return Documents(settings.trusted_documents, manifest)


def read_manifest(content: bytes) -> dict[str, str]:
    """Id -> document. Reads a plain JSON object, and the format of Apollo's tools."""
    try:
        parsed = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise SettingsError(f"{SETTING} is not JSON") from None
    if not isinstance(parsed, dict):
        raise SettingsError(UNKNOWN_FORMAT)
    entries = apollo_entries(parsed) if isinstance(parsed.get("operations"), list) else list(parsed.items())
    if not entries:
        raise SettingsError(f"{SETTING} contains no document")
    manifest: dict[str, str] = {}
    for name, text in entries:
        if not (isinstance(name, str) and name and isinstance(text, str)):
            raise SettingsError(UNKNOWN_FORMAT)
        if manifest.setdefault(name, text) != text:
            raise SettingsError(f"{SETTING}: the entry {name} has two documents")
    return manifest


def apollo_entries(manifest: dict[str, Any]) -> list[tuple[Any, Any]]:
    if manifest.get("format") != APOLLO or manifest.get("version", 1) != 1:
        raise SettingsError(UNKNOWN_FORMAT)
    operations: list[Any] = manifest["operations"]
    return [(one.get("id"), one.get("body")) if isinstance(one, dict) else (None, None) for one in operations]


def check_document(schema: Schema, name: str, text: str) -> None:
    try:
        document = parse(text)
    except GraphQLError as error:
        raise SettingsError(f"{SETTING}: the entry {name} cannot be read: {error.message}") from None
    if not any(isinstance(each, OperationDefinitionNode) for each in document.definitions):
        raise SettingsError(f"{SETTING}: the entry {name} contains no operation")
    if errors := validate(schema._schema, document):
        raise SettingsError(f"{SETTING}: the entry {name} does not fit the schema: {errors[0].message}")
