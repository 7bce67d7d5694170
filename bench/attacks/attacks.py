"""The attacks. Most are of one signed-in caregiver. Each ends by itself."""

import json
import socket
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations, count, islice
from typing import NamedTuple

import overload
from servers import BENCH, WORK
from service import ATTACKER, BOOKS, CROWD, FOREIGN_SESSION, SESSIONS, Service, token
from wire import (
    UPGRADE,
    Connection,
    Received,
    graphql,
    hammer,
    in_parallel,
    read_events,
    repeated_for,
    request,
    subscription,
    text_frame,
)

HELD: list[Connection] = []  # until the process of the attack is ended
EMOJI = "\N{SLIGHTLY SMILING FACE}" * 10_000  # the longest description: 40 kB
LONG = " ".join(f"a{number}:description" for number in range(99))
WINDOW = 'startDate:"2030-01-01T09:00:00Z" endDate:"2030-01-02T09:00:00Z"'
COLUMNS = (
    "name",
    "assignDate",
    "startDate",
    "endDate",
    "submitDate",
    "status",
    "attempt",
    "score",
    "isTest",
    "id",
)
LONG_READ = f"{{sessions(first:100){{nodes{{{LONG}}}}}}}"
LONG_EVENTS = f"subscription{{assignmentChanged{{session{{{LONG}}}}}}}"
EVENTS = """subscription{assignmentChanged{id what moment session{id title client{id name}}
    assignment{id name status score startDate endDate book{id name}}}}"""


class Attack(NamedTuple):
    group: str
    run: Callable[[Service], Received]
    prepare: Callable[[Service], Received] | None
    settings: dict[str, str]
    holds: bool  # its connections stay open until the service has ended

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def title(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0]


ATTACKS: list[Attack] = []


def attack(
    group: str,
    prepare: Callable[[Service], Received] | None = None,
    holds: bool = False,
    **settings: str,
) -> Callable[[Callable[[Service], Received]], Callable[[Service], Received]]:
    def add(run: Callable[[Service], Received]) -> Callable[[Service], Received]:
        ATTACKS.append(Attack(group, run, prepare, settings, holds))
        return run

    return add


def mine(query: str, **headers: str) -> bytes:
    return graphql(token(ATTACKER), query, **headers)


def writing_long_descriptions(service: Service) -> Received:
    change = (
        "mutation($id:ID! $text:String){updateSession(input:{sessionId:$id description:$text}){__typename}}"
    )
    values = ({"id": str(number), "text": EMOJI} for number in range(1, SESSIONS + 1))
    return hammer(service.port, 4, (graphql(token(ATTACKER), change, each) for each in values))


def assigning(session: int, books: int) -> bytes:
    ids = ",".join(f'"{number}"' for number in range(1, books + 1))
    homework = f'{{sessionId:"{session}" bookIds:[{ids}] {WINDOW}}}'
    return mine(f"mutation{{assignHomework(input:{homework}){{userErrors{{code}}}}}}")


# --- the control -----------------------------------------------------------------------------------------


@attack("idle")
def idle(service: Service) -> Received:
    """Nothing for 5 s."""
    time.sleep(5)
    return Received()


# --- 1: plans --------------------------------------------------------------------------------------------


def distinct_pages(service: Service) -> list[bytes]:
    """Documents with 90 linked pages, each page after another cursor, with other columns each."""
    query = "{assignments(first:90){edges{cursor}}}"
    _, body, _ = Connection(service.port).fetch(mine(query))
    cursors = [edge["cursor"] for edge in json.loads(body)["data"]["assignments"]["edges"]]

    def document(columns: tuple[str, str]) -> str:
        nodes = f"{{nodes{{{' '.join(columns)}}}}}"
        pages = (f'a{n}:assignments(first:1 after:"{each}"){nodes}' for n, each in enumerate(cursors))
        return f"{{sessions(first:1){{nodes{{{' '.join(pages)}}}}}}}"

    return [mine(document(columns)) for columns in islice(combinations(COLUMNS, 2), 40)]


@attack("plans")
def plans(service: Service) -> Received:
    """40 documents with 90 linked pages and other columns each, one after the other."""
    return hammer(service.port, 1, distinct_pages(service), 40)


@attack("plans")
def plans_at_once(service: Service) -> Received:
    """The same from 8 connections."""
    return hammer(service.port, 8, distinct_pages(service), 40)


# --- 2: bytes of responses -------------------------------------------------------------------------------


@attack("aliases", prepare=writing_long_descriptions)
def aliases(service: Service) -> Received:
    """A description of 40 kB under 99 aliases in 100 nodes: one response of 396 MB."""
    return hammer(service.port, 1, [mine(LONG_READ)])


@attack("aliases", prepare=writing_long_descriptions)
def aliases_at_once(service: Service) -> Received:
    """Four of them at once."""
    return hammer(service.port, 4, [mine(LONG_READ)] * 4)


@attack("aliases", prepare=writing_long_descriptions)
def aliases_in_a_row(service: Service) -> Received:
    """60 of them, one after the other, for 15 s at most."""
    return hammer(service.port, 1, [mine(LONG_READ)] * 60)


@attack("aliases", prepare=writing_long_descriptions)
def streams_unread(service: Service) -> Received:
    """20 event streams that are not read, and 5 events of 3.9 MB each."""
    HELD.extend(Connection(service.port, receive_buffer=4096) for _ in range(20))
    for each in HELD:
        each.send(mine(LONG_EVENTS, accept="text/event-stream"))
    time.sleep(1)
    received = hammer(service.port, 1, [assigning(1, books=1)] * 5)
    time.sleep(8)
    return received


@attack("aliases", prepare=writing_long_descriptions)
def subscriptions_long(service: Service) -> Received:
    """100 subscriptions on one websocket, and 5 events of 3.9 MB each; all are read."""
    return subscribe_and_assign(service, LONG_EVENTS, [assigning(1, books=1)] * 5)


def subscribe_and_assign(service: Service, query: str, changes: list[bytes]) -> Received:
    connection = Connection(service.port)
    connection.open_websocket(token(ATTACKER), *(subscription(number, query) for number in range(100)))
    time.sleep(1)
    received = hammer(service.port, 1, changes)
    received.add(read_events([connection]))
    return received


# --- 3: idempotency keys ---------------------------------------------------------------------------------

LONG_CHANGE = (
    f'mutation($title:String){{updateSession(input:{{sessionId:"1" title:$title}}){{session{{{LONG}}}}}}}'
)


def changing_with_key(number: int) -> bytes:
    values = {"title": f"Title {number}"}
    return graphql(token(ATTACKER), LONG_CHANGE, values, idempotency_key=f"key-{number}")


KEYS = 20  # a key in use by another request is rejected


def storing_responses(service: Service) -> Received:
    received = writing_long_descriptions(service)
    received.add(hammer(service.port, 1, map(changing_with_key, range(KEYS))))
    return received


@attack("keys", prepare=writing_long_descriptions)
def keys_stored(service: Service) -> Received:
    """Responses of 3.9 MB stored under new keys, from 8 connections for 10 s."""
    return hammer(service.port, 8, map(changing_with_key, count()), 10)


@attack("keys", prepare=storing_responses)
def keys_replayed(service: Service) -> Received:
    """20 of them replayed to 16 connections for 10 s."""
    return hammer(service.port, 16, (changing_with_key(number % KEYS) for number in count()), 10)


@attack("keys", prepare=storing_responses)
def keys_unread(service: Service) -> Received:
    """200 replays that are not read, for 10 s."""
    return unread(service, 200)


def unread(service: Service, connections: int, seconds: float = 10) -> Received:
    for number in range(connections):
        HELD.append(Connection(service.port, receive_buffer=4096))
        HELD[-1].send(changing_with_key(number % KEYS))
        time.sleep(0.01)  # so that the key is free when it is sent again
    time.sleep(seconds)
    return statuses_of(HELD)


def statuses_of(connections: list[Connection]) -> Received:
    """What has begun to arrive on each connection."""
    received = Received()
    for each in connections:
        each.socket.setblocking(False)
        status = "nothing"
        with suppress(BlockingIOError, ConnectionError):
            status = each.read(4096)[9:12].decode(errors="replace")
        received.responses[status] += 1
    return received


# --- 4: distinct documents -------------------------------------------------------------------------------


def lists_document(number: int, columns: str = "id name score") -> str:
    lists = " ".join(f"a{each}_{number}:assignments(first:1){{nodes{{{columns}}}}}" for each in range(45))
    return f"{{{lists}}}"


@attack("documents")
def documents(service: Service) -> Received:
    """10,000 distinct small documents, each twice in a row."""
    return hammer(
        service.port,
        4,
        (mine(f"{{sessions(first:1){{nodes{{a{number // 2}:title}}}}}}") for number in range(20_000)),
        40,
    )


@attack("documents")
def documents_of_lists(service: Service) -> Received:
    """980 distinct documents with 45 lists each, each twice in a row."""

    def document(number: int) -> str:
        lists = " ".join(f"a{each}_{number}:answerSets{{id attempt}}" for each in range(45))
        return f'{{assignment(id:"1"){{{lists}}}}}'

    return hammer(service.port, 4, (mine(document(number // 2)) for number in range(2 * 980)), 60)


# --- 5: shares of the processor --------------------------------------------------------------------------


@attack("starve")
def starve_distinct(service: Service) -> Received:
    """Distinct documents of 5 kB from 16 connections for 10 s."""
    return hammer(service.port, 16, (mine(lists_document(number, "id name")) for number in count()), 10)


@attack("starve")
def starve_prepared(service: Service) -> Received:
    """One such document again and again."""
    return hammer(service.port, 16, (mine(lists_document(0, "id name")) for _ in count()), 10)


@attack("starve")
def starve_streams(service: Service) -> Received:
    """150 event streams with distinct documents, opened at once."""
    streams = [Connection(service.port) for _ in range(150)]
    for number, each in enumerate(streams):
        fields = " ".join(f"a{field}_{number}:what" for field in range(99))
        each.send(mine(f"subscription{{assignmentChanged{{{fields}}}}}", accept="text/event-stream"))
    return read_events(streams)


@attack("starve")
def starve_events(service: Service) -> Received:
    """100 subscriptions on one websocket, and 50 events."""
    return subscribe_and_assign(service, EVENTS, [assigning(1, books=BOOKS)])


@attack("starve")
def starve_reconnects(service: Service) -> Received:
    """757 websockets with 5 subscriptions each, for 10 s at most."""
    messages = [subscription(number, EVENTS) for number in range(5)]
    sockets = iter(range(757))

    def work(received: Received) -> None:
        for _ in repeated_for(10):
            if next(sockets, None) is None:
                return
            connection = Connection(service.port)
            try:
                connection.open_websocket(token(ATTACKER), *messages)
                received.responses["opened"] += 1
            except OSError as fault:
                received.responses[f"{type(fault).__name__} {fault}"] += 1
            connection.close()

    return in_parallel(8, work)


# --- 6: strangers ----------------------------------------------------------------------------------------


@attack("strangers")
def strangers_heads(service: Service) -> Received:
    """4,000 connections with 63 KiB of an unfinished head each, for 10 s."""
    head = "GET / HTTP/1.1\r\n" + "".join(f"x-{number}: {'a' * 1016}\r\n" for number in range(62))
    received = Received()
    for _ in range(4000):
        try:
            HELD.append(Connection(service.port, receive_buffer=4096))
            HELD[-1].socket.settimeout(1)
            HELD[-1].send(head.encode())
        except OSError as fault:
            received.responses[type(fault).__name__] += 1
    time.sleep(10)
    received.add(statuses_of(HELD))
    return received


@attack("strangers")
def strangers_malformed(service: Service) -> Received:
    """Malformed requests from 8 connections for 5 s."""
    return hammer(service.port, 8, (b"\x16\x03\x01 no request\r\n\r\n" for _ in count()), 5)


@attack("strangers")
def strangers_handshakes(service: Service) -> Received:
    """Rejected handshakes of websockets from 8 connections for 5 s."""
    handshake = request("GET", "/elsewhere", UPGRADE)
    return hammer(service.port, 8, (handshake for _ in count()), 5)


@attack("strangers")
def strangers_websockets(service: Service) -> Received:
    """Websockets that end after the handshake or an invalid message, from 8 connections for 5 s."""

    def work(received: Received) -> None:
        for number in repeated_for(5):
            with suppress(OSError):
                connection = Connection(service.port)
                received.responses[connection.fetch(request("GET", "/graphql", UPGRADE))[0]] += 1
                if number % 2:
                    connection.send(text_frame(b"no message"))
                    connection.read()
                connection.close()

    return in_parallel(8, work)


@attack(
    "strangers",
    webhook_url="http://127.0.0.1:{spare_port}/events",
    webhook_secret="whsec_" + b64encode(bytes(range(32))).decode(),
)
def strangers_continue(service: Service) -> Received:
    """A webhook receiver that sends `100 Continue` for ever, for 10 s."""
    received, until = Received(), time.monotonic() + 12

    def send_for_ever(one: socket.socket) -> None:
        with one, suppress(OSError):
            one.settimeout(5)
            one.recv(65536)
            while time.monotonic() < until:
                received.bytes += one.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    with socket.create_server(("127.0.0.1", service.spare_port)) as listener:
        listener.settimeout(1)
        received.add(hammer(service.port, 1, [assigning(1, books=1)]))
        while time.monotonic() < until:
            with suppress(TimeoutError):
                threading.Thread(target=send_for_ever, args=(listener.accept()[0],)).start()
                received.responses["delivery"] += 1
    return received


# --- 7: more than the capacity ---------------------------------------------------------------------------


@attack("overload")
def overload_512(service: Service) -> Received:
    """Small reads of 8 viewers at twice the capacity, in an open loop over 512 connections."""
    return overloaded(service, 512)


@attack("overload")
def overload_1024(service: Service) -> Received:
    """The same over 1,024 connections."""
    return overloaded(service, 1024)


def overloaded(service: Service, pool: int) -> Received:
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", overload.GENERATOR, BENCH / "openloop.c"], check=True)
    files = [WORK / f"viewer-{number}" for number in CROWD]
    for number, file in zip(CROWD, files, strict=True):
        file.write_bytes(graphql(token(number), "{ viewer { role } }"))
    overload.load(service.server, files, "warming up", overload.CONNECTIONS, 0, 1)
    capacity = overload.load(service.server, files, "capacity", overload.CONNECTIONS, 0, 4)["rate"]
    phase = overload.load(service.server, files, f"2 x capacity, {pool}", pool, 2 * capacity, 8)
    received = Received(notes={"goodput": f"{phase['rate'] / capacity:.0%}"})
    received.notes |= {name: f"{phase[name] * 1000:.0f} ms" for name in ("p50", "p99")}
    received.responses.update({"200": phase["answered"], "503": phase["refused"], "cut": phase["cut"]})
    return received


# --- 8: the audit log, shutdown --------------------------------------------------------------------------


@attack("audit")
def audit(service: Service) -> Received:
    """1,000 rejected changes of another caregiver's session."""
    change = (
        f'mutation{{updateSession(input:{{sessionId:"{FOREIGN_SESSION}" title:"x"}}){{userErrors{{code}}}}}}'
    )
    records = "SELECT count(*) FROM audit_record"
    before = service.database.value(records)
    received = hammer(service.port, 8, [mine(change)] * 1000)
    time.sleep(1)
    received.notes["new audit records"] = service.database.value(records) - before
    return received


@attack("audit", prepare=storing_responses, holds=True)
def shutdown(service: Service) -> Received:
    """20 clients that do not read their responses, while the service ends."""
    return unread(service, 20, 1)
