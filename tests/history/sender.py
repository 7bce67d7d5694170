"""Sends the requests of one caller to any of the processes that accept it."""

import json
import time
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any

from tests.live.processes import PATIENCE

GONE = (OSError, HTTPException)


@dataclass
class Sender:
    headers: dict[str, str]
    ports: list[int]
    chance: Random
    connection: HTTPConnection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def send(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """Returns the body of the response; None if it got lost. Waits for a process that accepts it."""
        headers = (
            {"content-type": "application/json"} | self.headers | ({"idempotency-key": key} if key else {})
        )
        connection = self.connected()
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except GONE:
            connection.close()
            self.connection = None
            return None
        if path != "/graphql":
            answer["httpStatus"] = response.status
        if response.getheader("idempotency-replayed") == "true":
            answer["isReplayed"] = True
        return answer

    def connected(self) -> HTTPConnection:
        until = time.monotonic() + PATIENCE
        while self.connection is None:
            connection = HTTPConnection("127.0.0.1", self.chance.choice(self.ports), timeout=PATIENCE)
            try:
                connection.connect()
                self.connection = connection
            except GONE:
                assert time.monotonic() < until, "no process accepts connections"
                time.sleep(0.01)  # until a process is back
        return self.connection
