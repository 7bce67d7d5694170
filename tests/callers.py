"""Callers of a service with tokens, and the statements that the service runs for them."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import unwrap
from typing import Any, TypeVar

from httpx2 import Response

from app.auth.authenticator import Authenticator
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.interchange.load import importing
from app.db.sql import (
    DATABASE_KIND,
    Bulk,
    DatabaseKind,
    FastPath,
    FastRead,
    LongWork,
    Step,
    Steps,
    Together,
    mapping_steps,
)
from app.engine.schema import PreparingSchema
from app.http.router import Router
from app.settings import Settings
from tests import keys
from tests.client import Client, open_client
from tests.factories import Record, lines

Result = TypeVar("Result")

# Tests send larger requests than clients do. Tests of the limits set their own.
WIDE: dict[str, Any] = {"token_limit": 100_000, "depth_limit": 64, "cost_limit": 10_000_000}


@contextmanager
def opened(app: Router, reports_cost: bool = False) -> Iterator[Client]:
    """Starts the application. Documents are prepared at their first use.

    Responses omit the costs, which development adds, unless `reports_cost`.
    """
    schema = schema_of(app)
    schema.operations.prepared_at_use = 1
    schema.engine_options = replace(schema.engine_options, reports_cost=reports_cost)
    with open_client(app) as client:
        yield client


def schema_of(app: Router) -> PreparingSchema:
    schema: PreparingSchema = unwrap(app.graphql).schema
    return schema


@dataclass(frozen=True)
class Caller:
    """A client with one token, or without a token."""

    client: Client
    token: str | None

    def request(self, method: str, path: str, **options: Any) -> Response:
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("authorization", f"bearer {self.token}")
        return self.client.fetch(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> Response:
        return self.request("GET", path, **options)

    def put(self, path: str, **options: Any) -> Response:
        return self.request("PUT", path, **options)

    def post_graphql(self, query: str, **variables: Any) -> Response:
        return self.request("POST", "/graphql", json={"query": query, "variables": variables})

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """The complete response body, without the request ids of errors, which differ every time."""
        body: dict[str, Any] = self.post_graphql(query, **variables).json()
        for error in body.get("errors", ()):
            assert error["extensions"].pop("requestId")
        return body

    def data(self, query: str, **variables: Any) -> dict[str, Any]:
        body = self.graphql(query, **variables)
        assert "errors" not in body, body["errors"]
        data: dict[str, Any] = body["data"]
        return data


@dataclass(frozen=True)
class Gateway:
    client: Client
    settings: Settings

    def import_records(self, records: Iterable[Record]) -> None:
        """Imports the records."""
        assert self.client.portal is not None
        self.client.portal.call(self.database.write, importing(lines(records)))

    def read(self, steps: Steps[Result]) -> Result:
        assert self.client.portal is not None
        return self.client.portal.call(self.database.read, steps)

    @property
    def database(self) -> Database:
        """The open database of the service; opening another one is slow."""
        authenticator: Authenticator = self.client.app_state["authenticator"]
        return authenticator.db

    def as_caregiver(self, number: int) -> Caller:
        return Caller(self.client, keys.token("CAREGIVER", f"caregiver-{number}"))

    def as_client(self, number: int) -> Caller:
        return Caller(self.client, keys.token("CLIENT", f"client-{number}"))

    def as_anonymous(self) -> Caller:
        return Caller(self.client, None)

    def with_token(self, token: str) -> Caller:
        return Caller(self.client, token)

    @contextmanager
    def watched(self) -> Iterator[list[Step]]:
        """Collects the statements that run inside the block, except account lookups."""
        state = self.client.app_state
        authenticator: Authenticator = state["authenticator"]
        steps: list[Step] = []
        state["authenticator"] = replace(authenticator, db=Watched(authenticator.db, steps))
        try:
            yield steps
        finally:
            state["authenticator"] = authenticator


@dataclass(frozen=True)
class Watched:
    """A database that collects the steps that it runs."""

    db: Database
    seen: list[Step]

    async def read(self, steps: Steps[Result]) -> Result:
        return await self.db.read(collecting(steps, self.seen))

    async def write(self, steps: Steps[Result]) -> Result:
        return await self.db.write(collecting(steps, self.seen))

    async def close(self) -> None:
        await self.db.close()


def collecting(steps: Steps[Result], seen: list[Step]) -> Steps[Result]:
    def collect(step: Step) -> Step:
        if step is DATABASE_KIND or isinstance(step, FastRead | FastPath | LongWork):
            return step
        if isinstance(step, Bulk | Together) or "user" not in step[1]:  # of the look-up of the account
            seen.append(step)
        return step

    return mapping_steps(steps, collect)


def kind_of(url: str) -> DatabaseKind:
    return "sqlite" if url.startswith("sqlite:") else "postgresql"


def load(database_url: str, records: Iterable[Record]) -> None:
    """Imports the records."""
    run_write(database_url, importing(lines(records)))


def run_read(database_url: str, steps: Steps[Result]) -> Result:
    return asyncio.run(run_once(database_url, steps, is_write=False))


def run_write(database_url: str, steps: Steps[Result]) -> Result:
    return asyncio.run(run_once(database_url, steps, is_write=True))


async def run_once(database_url: str, steps: Steps[Result], is_write: bool) -> Result:
    db = await open_database(database_url)
    try:
        return await (db.write(steps) if is_write else db.read(steps))
    finally:
        await db.close()
