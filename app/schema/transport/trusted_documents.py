"""Documents that are known by an id: those of a manifest, and those that came before with their hash."""

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
MOST_TEXT = 2 * 1024 * 1024  # characters, of all that are remembered
MOST_LOGGED = 4096  # in the life of a process: whoever sends ever new ones must not fill the log

MOST_NAMES = 100  # of trusted operations, by which they are counted

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
    """Which document a request means, and whether it may run."""

    def __init__(self, trust: Trust, manifest: Mapping[str, str]) -> None:
        self.trust = trust
        self.trusted = frozenset(manifest.values())
        self.by_id = {hash_of(text): text for text in self.trusted} | dict(manifest)
        self.remembered: OrderedDict[str, str] = OrderedDict()  # by hash, the last used last
        self.length = 0
        self.logged: set[str] = set()
        self.names = dict(list(names_in(manifest.values()))[:MOST_NAMES])

    def called(self, posted: Posted) -> str:
        """The operation's name, if it is of the manifest: nothing is counted by what callers think of."""
        return self.names.get((posted.query, posted.operation_name), OTHER)

    def meant(self, posted: Posted) -> Posted:
        """The request with its document, as far as that is known. It is not said yet whether it may run."""
        if posted.query:
            return posted
        persisted = hashed(posted)
        said = posted.document_id or (persisted.get("sha256Hash") if isinstance(persisted, dict) else None)
        return replace(posted, query=(self.find(said) if isinstance(said, str) else None) or "")

    def admitted(self, posted: Posted, request_id: str) -> Posted:
        """The request with its document, which may run; a request without any stays as it is."""
        persisted = hashed(posted) if posted.extensions else None
        if posted.document_id is not None:
            posted = self.named(posted, posted.document_id)
        elif persisted is not None and not posted.query:
            posted = self.persisted(posted, read_hash(persisted))
        if self.trust is not Trust.OFF and posted.query and posted.query not in self.trusted:
            self.doubt(posted, request_id)
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
        # Clients look for these very words, and at the status of an answer.
        if self.trust is Trust.ENFORCE:
            raise DocumentRefused("PersistedQueryNotSupported", "PERSISTED_QUERY_NOT_SUPPORTED", 200)
        raise DocumentRefused("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND", 200)

    def find(self, said: str) -> str | None:
        text = self.by_id.get(said)
        if text is not None:
            return text
        sha256 = said.removeprefix(PREFIX)
        if text := self.remembered.get(sha256):
            self.remembered.move_to_end(sha256)
        return text or self.by_id.get(sha256)

    def remember(self, sha256: str, text: str) -> None:
        """A text that came with its hash. What the manifest holds need not be kept twice."""
        if self.find(sha256) == text:
            return
        if hash_of(text) != sha256:
            raise DocumentRefused("`extensions.persistedQuery.sha256Hash` is not the SHA-256 of the `query`.")
        self.remembered[sha256] = text
        self.length += len(text)
        while len(self.remembered) > MOST_REMEMBERED or self.length > MOST_TEXT:
            self.length -= len(self.remembered.popitem(last=False)[1])

    def doubt(self, posted: Posted, request_id: str) -> None:
        """A document that is not in the manifest: refused, or noted once for the operator."""
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
    """The operations of documents, as requests ask for them, with their names."""
    for text in documents:
        every = [each for each in parse(text).definitions if isinstance(each, OperationDefinitionNode)]
        for name in (each.name.value for each in every if each.name):
            yield (text, name), name
            if len(every) == 1:
                yield (text, None), name


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def hashed(posted: Posted) -> Any:
    """What Apollo's clients send for persisted queries."""
    return (posted.extensions or {}).get("persistedQuery")


def read_hash(persisted: Any) -> str:
    if isinstance(persisted, dict) and persisted.get("version") == 1:
        sha256 = persisted.get("sha256Hash")
        if isinstance(sha256, str):
            return sha256
    raise DocumentRefused("`extensions.persistedQuery` must have the version 1 and a `sha256Hash`.")


def operation_of(posted: Posted) -> str:
    """The operation's name for the log, where it is one."""
    if posted.operation_name is not None:
        return posted.operation_name if NAME.fullmatch(posted.operation_name) else "-"
    found = BEGINNING.match(posted.query)
    return found[1] if found else "-"
