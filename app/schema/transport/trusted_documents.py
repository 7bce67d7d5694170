"""Trusted documents from the manifest, and automatic persisted queries."""

import hashlib
import logging
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from graphql import OperationDefinitionNode, parse

from app.schema.transport.request_parsing import Posted
from app.settings import Trust
from app.telemetry.counters import OTHER

MOST_REMEMBERED = 1024
MOST_TEXT = 2 * 1024 * 1024  # characters in all persisted queries
MOST_LOGGED = 4096  # per process, so that clients cannot fill the log

MOST_NAMES = 100  # of trusted operations with their own metrics

PREFIX = "sha256:"
BEGINNING = re.compile(r"\s*(?:query|mutation|subscription)\s+([A-Za-z_][A-Za-z0-9_]{0,63})\b")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

logger = logging.getLogger("care.graphql")


class DocumentRefused(Exception):
    def __init__(self, message: str, code: str = "BAD_REQUEST", status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status


class Documents:
    """Finds the document of a request and checks whether it is trusted."""

    def __init__(self, trust: Trust, manifest: Mapping[str, str]) -> None:
        self.trust = trust
        self.trusted = frozenset(manifest.values())
        self.by_id = {hash_of(text): text for text in self.trusted} | dict(manifest)
        self.remembered: OrderedDict[str, str] = OrderedDict()  # hash -> text, least recently used first
        self.length = 0
        self.logged: set[str] = set()
        self.names = dict(list(names_in(manifest.values()))[:MOST_NAMES])

    def name_of(self, posted: Posted) -> str:
        """The operation's name for metrics; OTHER if it is not in the manifest."""
        return self.names.get((posted.query, posted.operation_name), OTHER)

    def resolve(self, posted: Posted) -> Posted:
        """The request with its document if known, without a trust check."""
        if posted.query:
            return posted
        persisted = hashed(posted)
        id = posted.document_id or (persisted.get("sha256Hash") if isinstance(persisted, dict) else None)
        return replace(posted, query=(self.find(id) if isinstance(id, str) else None) or "")

    def admit(self, posted: Posted, request_id: str) -> Posted:
        """The request with its document. Raises DocumentRefused if it is unknown or not trusted."""
        persisted = hashed(posted) if posted.extensions else None
        if posted.document_id is not None:
            posted = self.named(posted, posted.document_id)
        elif persisted is not None and not posted.query:
            posted = self.persisted(posted, read_hash(persisted))
        if self.trust is not Trust.OFF and posted.query and posted.query not in self.trusted:
            self.check_trust(posted, request_id)
        if persisted is not None:
            self.remember(read_hash(persisted), posted.query)
        return posted

    def named(self, posted: Posted, document_id: str) -> Posted:
        if posted.query:
            raise DocumentRefused("A request has a `query` or a `documentId`, not both.")
        text = self.find(document_id)
        if text is None:
            raise DocumentRefused("No document is known by this `documentId`.", "DOCUMENT_NOT_FOUND")
        return replace(posted, query=text)

    def persisted(self, posted: Posted, sha256: str) -> Posted:
        text = self.find(sha256)
        if text is not None:
            return replace(posted, query=text)
        # Clients check for exactly these messages and this status.
        if self.trust is Trust.ENFORCE:
            raise DocumentRefused("PersistedQueryNotSupported", "PERSISTED_QUERY_NOT_SUPPORTED", 200)
        raise DocumentRefused("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND", 200)

    def find(self, id: str) -> str | None:
        text = self.by_id.get(id)
        if text is not None:
            return text
        sha256 = id.removeprefix(PREFIX)
        if text := self.remembered.get(sha256):
            self.remembered.move_to_end(sha256)
        return text or self.by_id.get(sha256)

    def remember(self, sha256: str, text: str) -> None:
        """Stores a persisted query, unless the manifest contains it."""
        if self.find(sha256) == text:
            return
        if hash_of(text) != sha256:
            raise DocumentRefused("`extensions.persistedQuery.sha256Hash` is not the SHA-256 of the `query`.")
        self.remembered[sha256] = text
        self.length += len(text)
        while len(self.remembered) > MOST_REMEMBERED or self.length > MOST_TEXT:
            self.length -= len(self.remembered.popitem(last=False)[1])

    def check_trust(self, posted: Posted, request_id: str) -> None:
        """Rejects a document that is not in the manifest, or logs it once."""
        if self.trust is Trust.ENFORCE:
            raise DocumentRefused("This document is not one of the trusted.", "DOCUMENT_NOT_TRUSTED")
        sha256 = hash_of(posted.query)
        if sha256 in self.logged or len(self.logged) > MOST_LOGGED:
            return
        self.logged.add(sha256)
        if len(self.logged) > MOST_LOGGED:
            logger.warning("more documents are not trusted; they are not logged any more")
            return
        name = operation_of(posted)
        logger.warning("request %s: document %s (%s) is not trusted", request_id, sha256, name)


def names_in(documents: Iterable[str]) -> Iterator[tuple[tuple[str, str | None], str]]:
    """Maps document and requested operation name to the operation's name."""
    for text in documents:
        every = [each for each in parse(text).definitions if isinstance(each, OperationDefinitionNode)]
        for name in (each.name.value for each in every if each.name):
            yield (text, name), name
            if len(every) == 1:
                yield (text, None), name


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def hashed(posted: Posted) -> Any:
    """The extension of automatic persisted queries, as sent by Apollo clients."""
    return (posted.extensions or {}).get("persistedQuery")


def read_hash(persisted: Any) -> str:
    if isinstance(persisted, dict) and persisted.get("version") == 1:
        sha256 = persisted.get("sha256Hash")
        if isinstance(sha256, str):
            return sha256
    raise DocumentRefused("`extensions.persistedQuery` must have the version 1 and a `sha256Hash`.")


def operation_of(posted: Posted) -> str:
    """The operation's name for the log; `-` if missing or invalid."""
    if posted.operation_name is not None:
        return posted.operation_name if NAME.fullmatch(posted.operation_name) else "-"
    found = BEGINNING.match(posted.query)
    return found[1] if found else "-"
