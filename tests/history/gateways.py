"""Processes of the service on one database, and a run of random callers on them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path

import httpx2

from app.schema.types.scalars import global_id
from tests import keys
from tests.callers import load
from tests.crash.writers import ASSIGN
from tests.db import raw
from tests.events.receiver import SECRET, Receiver, receiving
from tests.history.callers import callers_of
from tests.history.life import FIRSTS, LASTS, PARTIES, a_world, marker
from tests.history.recording import History
from tests.history.requests import is_unavailable, is_unknown
from tests.history.subscribers import Subscriber, Visible
from tests.live.people import Person
from tests.live.processes import PATIENCE, Served, serving, start
from tests.ports import free_port

EACH = 2  # callers of each role in each session
VISIBLE = """SELECT id, kind, assignment_id, session_id FROM event
    WHERE {role}_id = {number} AND assignment_id IS NOT NULL AND kind <> 'REMINDER_DUE'
    AND ('{role}' = 'client' OR kind <> 'DRAFT_SAVED')"""
# Those of later years do not become due while a test runs.
SCHEDULED = "SELECT id FROM reminder WHERE state = 'SCHEDULED' AND remind_date < '2080-01-01'"
REJECTED_POSTS = 8  # by the receiver of the webhook


@contextmanager
def started(
    url: str, folder: Path, number: int, prepare: Callable[[], None] | None = None
) -> Iterator["Gateways"]:
    """`prepare` is called first in each process."""
    load(url, a_world())
    raw.begin_large_ids(url)
    with ExitStack() as stack:
        receiver = stack.enter_context(receiving())
        gateways = Gateways(url, folder, stack, prepare, receiver)
        for _ in range(number):
            port = free_port()
            gateways.served[port] = gateways.start(port)
        yield gateways


@dataclass
class Gateways:
    url: str
    folder: Path
    stack: ExitStack
    prepare: Callable[[], None] | None
    receiver: Receiver
    served: dict[int, Served] = field(default_factory=dict)  # by port
    kills: Iterator[int] = field(default_factory=count)

    @property
    def care(self) -> dict[str, str]:
        """With few connections, for which callers wait: their statements run in batches."""
        return {
            "env": "development",
            "database_url": self.url,
            "token_key": keys.public_pem(),
            "audit": "on",
            "read_threads": "3",
            "webhook_url": self.receiver.url,
            "webhook_secret": SECRET,
        }

    @property
    def ports(self) -> list[int]:
        return list(self.served)

    def start(self, port: int) -> Served:
        care = {**self.care, "var": str(self.folder / f"var-{port}")}
        log = self.folder / f"log-{port}"
        return self.stack.enter_context(serving(log, port=str(port), prepare=self.prepare, **care))

    @cached_property
    def subscribers(self) -> list[Subscriber]:
        """Of all people, from the first event of each on."""
        self.assign_in(FIRSTS)
        people = {("CAREGIVER", caregiver) for caregiver, _ in PARTIES.values()}
        people |= {("CLIENT", client) for _, client in PARTIES.values()}
        return [
            Subscriber(
                role,
                number,
                self.ports,
                {session for session, parties in LASTS.items() if parties[role == "CLIENT"] == number},
                [global_id("Event", self.first_event_id(role, number))],
            )
            for role, number in sorted(people)
        ]

    def first_event_id(self, role: str, number: int) -> int:
        found = self.visible(role, number)
        assert found, f"{role} {number} has no event"
        return min(found)[0]

    def visible(self, role: str, number: int) -> list[Visible]:
        """The events that a person receives."""
        return raw.run(self.url, VISIBLE.format(role=role.lower(), number=number))

    def assign_in(self, sessions: Mapping[int, tuple[int, int]]) -> None:
        for session, (caregiver, _) in sessions.items():
            person = Person(self.served[self.ports[0]].url, "CAREGIVER", f"caregiver-{caregiver}")
            wait_until(partial(assigns, person, session), "homework is assigned")

    def kill_one(self) -> None:
        port = self.ports[next(self.kills) % len(self.ports)]
        self.served[port].process.kill()
        self.served[port].process.wait(PATIENCE)
        self.served[port] = self.start(port)

    def start_worker(self) -> None:
        """Work that is due is done beside the gateways, too."""
        worker = start("worker", **self.care, var=str(self.folder / "var-worker"))
        self.stack.callback(worker.communicate)
        self.stack.callback(worker.kill)


def assigns(person: Person, session: int) -> bool:
    """Repeats the request of before, if that had no response."""
    response = httpx2.post(
        f"{person.url}/graphql",
        json={"query": ASSIGN, "variables": {"input": marker(session)}},
        headers={**person.headers, "idempotency-key": f"marker-{session}"},
        timeout=PATIENCE,
    ).json()
    if is_unknown(response) or is_unavailable(response):
        return False
    assert "errors" not in response and response["data"]["assignHomework"]["userErrors"] == [], response
    return True


def run(
    gateways: Gateways, seed: int, calls: int, disturbances: Sequence[Callable[[], None]] = ()
) -> History:
    """The disturbances come at even distances. Subscribers have received all events when it ends."""
    history = History(seed, gateways.ports)
    callers = callers_of(history, EACH)
    subscribers = gateways.subscribers

    def is_over() -> bool:
        return history.calls() >= calls

    gateways.receiver.answers = [200, 503] * REJECTED_POSTS
    with ThreadPoolExecutor(len(callers) + len(subscribers)) as pool, ending_after_a_failure(gateways):
        listening = [pool.submit(subscriber.run) for subscriber in subscribers]
        running = [pool.submit(caller.run, is_over) for caller in callers]
        for number, disturb in enumerate(disturbances, start=1):
            while history.calls() < calls * number // (len(disturbances) + 1):
                if any(one.done() for one in running):
                    break  # its response was unexpected
                time.sleep(0.01)  # the calls are counted, not awaited
            disturb()
        wait(running)
        for one in running:
            one.result()
        wait_until(lambda: not raw.run(gateways.url, SCHEDULED), "due reminders are sent")
        gateways.assign_in(LASTS)
        for one in listening:
            one.result(PATIENCE)
    return history


def wait_until(is_so: Callable[[], bool], what: str, pause: float = 0.05) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, f"waited too long until {what}"
        time.sleep(pause)  # the database is read each time


@contextmanager
def ending_after_a_failure(gateways: Gateways) -> Iterator[None]:
    """Otherwise the subscribers would wait for ever."""
    try:
        yield
    except BaseException:
        for subscriber in gateways.subscribers:
            subscriber.lasts.clear()
        gateways.stack.close()
        raise
