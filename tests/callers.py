"""People calling the service, each with their own token; and what it asked its database meanwhile."""

import asyncio
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from httpx2 import Response
from starlette.applications import Starlette

from app.auth.authenticator import Authenticator
from app.db.admin.importing import importing
from app.db.drivers.factory import open_database
from app.db.drivers.interface import Database
from app.db.sql import Operation, Step
from app.engine.schema import PreparingSchema
from app.settings import Settings
from tests import keys
from tests.client import Client, open_client
from tests.factories import Record, lines

Result = TypeVar("Result")

# Tests ask for far more at once than anybody else does; those of the limits set their own.
WIDE: dict[str, Any] = {"token_limit": 100_000, "depth_limit": 64, "cost_limit": 10_000_000}


@contextmanager
def opened(app: Starlette, reports_cost: bool = False) -> Iterator[Client]:
    """The service as it answers what it knows: documents are prepared when they come the first time.

    What an answer cost is left out, though it is told in development: it is not what most tests are about.
    """
    schema = schema_of(app)
    schema.operations.prepared_at_use = 1
    schema.engine_options = replace(schema.engine_options, reports_cost=reports_cost)
    with open_client(app) as client:
        yield client


def schema_of(app: Starlette) -> PreparingSchema:
    schema: PreparingSchema = app.user_middleware[0].kwargs["graphql"].schema
    return schema


@dataclass(frozen=True)
class Caller:
    """Somebody with a token, or with none."""

    client: Client
    token: str | None

    def request(self, method: str, path: str, **options: Any) -> Response:
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("authorization", f"bearer {self.token}")
        return self.client.ask(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> Response:
        return self.request("GET", path, **options)

    def put(self, path: str, **options: Any) -> Response:
        return self.request("PUT", path, **options)

    def post_graphql(self, query: str, **variables: Any) -> Response:
        return self.request("POST", "/graphql", json={"query": query, "variables": variables})

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        """The whole answer, errors included, less the request ids, which are new every time."""
        answer: dict[str, Any] = self.post_graphql(query, **variables).json()
        for error in answer.get("errors", ()):
            assert error["extensions"].pop("requestId")
        return answer

    def data(self, query: str, **variables: Any) -> dict[str, Any]:
        answer = self.graphql(query, **variables)
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data


@dataclass(frozen=True)
class Gateway:
    client: Client
    settings: Settings

    def given(self, records: Iterable[Record]) -> None:
        """Put a world into the database, as `import` does."""
        assert self.client.portal is not None
        self.client.portal.call(self.database.write, importing(lines(records)))

    def read(self, operation: Operation[Result]) -> Result:
        assert self.client.portal is not None
        return self.client.portal.call(self.database.read, operation)

    @property
    def database(self) -> Database:
        """As it is open already: to open it once more takes longer than many a test."""
        authenticator: Authenticator = self.client.app_state["authenticator"]
        return authenticator.db

    def as_caregiver(self, number: int) -> Caller:
        return Caller(self.client, keys.token("CAREGIVER", f"caregiver-{number}"))

    def as_client(self, number: int) -> Caller:
        return Caller(self.client, keys.token("CLIENT", f"client-{number}"))

    def as_nobody(self) -> Caller:
        return Caller(self.client, None)

    def with_token(self, token: str) -> Caller:
        return Caller(self.client, token)

    @contextmanager
    def watched(self) -> Iterator[list[Step]]:
        """The statements that run inside the block, account lookups left out."""
        state = self.client.app_state
        authenticator: Authenticator = state["authenticator"]
        seen: list[Step] = []
        state["authenticator"] = replace(authenticator, db=Watched(authenticator.db, seen))
        try:
            yield seen
        finally:
            state["authenticator"] = authenticator


@dataclass(frozen=True)
class Watched:
    """A database that remembers what it was asked."""

    db: Database
    seen: list[Step]

    async def read(self, operation: Operation[Result]) -> Result:
        return await self.db.read(remembering(operation, self.seen))

    async def write(self, operation: Operation[Result]) -> Result:
        return await self.db.write(remembering(operation, self.seen))

    async def close(self) -> None:
        await self.db.close()


def remembering(operation: Operation[Result], seen: list[Step]) -> Generator[Step, list[Any], Result]:
    try:
        step = next(operation)
        while True:
            if not is_account_lookup(step):
                seen.append(step)
            step = operation.send((yield step))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def is_account_lookup(step: Step) -> bool:
    return isinstance(step, tuple) and list(step[1]) == ["user"]


def load(database_url: str, records: Iterable[Record]) -> None:
    """Put a world into a database, as `import` does."""
    run_write(database_url, importing(lines(records)))


def run_read(database_url: str, operation: Operation[Result]) -> Result:
    return asyncio.run(once(database_url, operation, is_write=False))


def run_write(database_url: str, operation: Operation[Result]) -> Result:
    return asyncio.run(once(database_url, operation, is_write=True))


async def once(database_url: str, operation: Operation[Result], is_write: bool) -> Result:
    db = await open_database(database_url)
    try:
        return await (db.write(operation) if is_write else db.read(operation))
    finally:
        await db.close()
