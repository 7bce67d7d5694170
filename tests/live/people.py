"""A caregiver and a client with a token, who use both contracts, websockets and event streams."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from gql import Client, GraphQLRequest
from gql.client import AsyncClientSession
from gql.transport.websockets import WebsocketsTransport

from tests import keys
from tests.live.processes import PATIENCE


@dataclass
class Person:
    """`url` is the address of the service, which changes when it is restarted."""

    url: str
    role: str
    user: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"bearer {keys.token(self.role, self.user)}"}

    def query(self, query: str, **variables: Any) -> Any:
        """The only root field of a response without errors."""
        body = {"query": query, "variables": variables}
        response = httpx2.post(
            f"{self.url}/graphql", json=body, headers=self.headers, timeout=PATIENCE
        ).json()
        assert "errors" not in response, response
        [found] = response["data"].values()
        return found

    def mutate(self, query: str, **variables: Any) -> Any:
        """The payload of a mutation without `userErrors`."""
        payload = self.query(query, **variables)
        assert payload.pop("userErrors") == [], payload
        return payload

    def legacy(self, path: str, **query: str) -> Any:
        response = httpx2.get(f"{self.url}/gateway/profile{path}", params=query, headers=self.headers)
        assert response.status_code == 200, response.text
        return response.json()

    def legacy_status(self, path: str) -> int:
        return httpx2.get(f"{self.url}/gateway/profile{path}", headers=self.headers).status_code

    def put(self, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
        return httpx2.put(f"{self.url}/gateway/profile{path}", json=body, headers={**self.headers, **headers})


class Unavailable(Exception):
    """The service is overloaded, or its database does not run."""


@dataclass
class Stream:
    """The events of a subscription."""

    events: Iterator[dict[str, Any]]

    def receive(self) -> dict[str, Any]:
        """The data of the next event, which has no errors. Raises Unavailable if the subscription could not
        begin."""
        response = next(self.events)
        errors = response.get("errors", [])
        if any(error["extensions"]["code"] == "OVERLOADED" for error in errors):
            raise Unavailable(errors)
        assert not errors, response
        [data] = response["data"].values()
        return dict(data)


@contextmanager
def subscribe_by_websocket(person: Person, query: str, **variables: Any) -> Iterator[Stream]:
    """Uses a client library for graphql-transport-ws."""
    with asyncio.Runner() as runner:
        session = runner.run(connect(person))
        results = session.subscribe(GraphQLRequest(query, variable_values=variables))
        try:
            yield Stream(results_of(runner, results))
        finally:
            runner.run(disconnect(session, results))


async def connect(person: Person) -> AsyncClientSession:
    transport = WebsocketsTransport(
        url=person.url.replace("http://", "ws://") + "/graphql",
        headers=person.headers,
        subprotocols=[WebsocketsTransport.GRAPHQLWS_SUBPROTOCOL],
    )
    return await Client(transport=transport, execute_timeout=PATIENCE).connect_async()


async def disconnect(session: AsyncClientSession, results: AsyncGenerator[dict[str, Any], None]) -> None:
    """Closes the connection and waits until its tasks have ended."""
    await results.aclose()  # the client would wait ten seconds for open subscriptions
    await session.client.close_async()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # the loop closes the socket in its next turn


def results_of(
    runner: asyncio.Runner, results: AsyncGenerator[dict[str, Any], None]
) -> Iterator[dict[str, Any]]:
    async def next_one() -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return {"data": await anext(results)}

    while True:
        yield runner.run(next_one())


@contextmanager
def subscribe_by_event_stream(person: Person, query: str, **variables: Any) -> Iterator[Stream]:
    with ExitStack() as stack:
        client = stack.enter_context(httpx2.Client(timeout=PATIENCE))
        response = stack.enter_context(
            client.stream(
                "POST",
                f"{person.url}/graphql",
                json={"query": query, "variables": variables},
                headers={**person.headers, "accept": "text/event-stream"},
            )
        )
        if response.status_code == 503:
            raise Unavailable(response.read())
        assert response.headers["content-type"].startswith("text/event-stream"), response.read()
        yield Stream(events(response.iter_lines()))


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The data of every event named `next`, without the heartbeats."""
    name = ""
    for line in lines:
        kind, _, data = line.partition(": ")
        if kind == "event":
            name = data
        elif kind == "data" and name == "next":
            yield json.loads(data)
