"""Processes of the service on one database, a run of random callers on them, and what contradicts it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from random import Random

from app.db.session_counters import differences
from app.schema.types.scalars import global_id
from tests import keys
from tests.callers import load, run_read
from tests.crash.changes import moment
from tests.crash.writers import ASSIGN
from tests.db import raw
from tests.history.callers import Caller, History
from tests.history.checker import Act, Call, check, printed, shrink
from tests.history.life import FIRSTS, LASTS, PARTIES, Life, a_world, marker, minutes, new_life
from tests.history.subscribers import Subscriber, wrong
from tests.live.people import Person
from tests.live.processes import PATIENCE, Served, serving, start
from tests.ports import free_port

EACH = 2  # callers of each role in each session
EVENTS = "SELECT session_id, kind, assignment_id FROM event ORDER BY id"
VISIBLE = """SELECT id, kind, assignment_id FROM event
    WHERE {role}_id = {number} AND assignment_id IS NOT NULL
    AND ('{role}' = 'client' OR kind <> 'DRAFT_SAVED')"""
STARTS = "SELECT id, start_date FROM assignment"
AUDIT = "SELECT operation, count(*) FROM audit_record WHERE outcome = 'DONE' GROUP BY operation"
END_CONNECTIONS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
OPERATIONS = {
    "ASSIGNED": "assignHomework",
    "EXTENDED": "extendAssignment",
    "REMINDERS_SET": "setReminders",
    "WITHDRAWN": "withdrawAssignment",
    "DRAFT_SAVED": "saveAnswers",
    "SUBMITTED": "submitAnswers",
    "REOPENED": "reopenAssignment",
    "FEEDBACK_GIVEN": "giveFeedback",
    "SESSION_CLOSED": "closeSession",
}
Kinds = dict[int | None, list[str]]  # of events, by the start of their assignment


@contextmanager
def started(
    url: str, folder: Path, number: int, prepare: Callable[[], None] | None = None
) -> Iterator["Gateways"]:
    """`prepare` is called first in each process."""
    load(url, a_world())
    raw.begin_large_ids(url)
    with ExitStack() as stack:
        gateways = Gateways(url, folder, stack, prepare)
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
    served: dict[int, Served] = field(default_factory=dict)  # by port
    kills: Iterator[int] = field(default_factory=count)

    @property
    def care(self) -> dict[str, str]:
        token_key = keys.public_pem()
        return {"env": "development", "database_url": self.url, "token_key": token_key, "audit": "on"}

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
                [global_id("Event", min(self.visible(role, number))[0])],
            )
            for role, number in sorted(people)
        ]

    def visible(self, role: str, number: int) -> list[tuple[int, str, int]]:
        """The events that a person receives: id, kind and assignment."""
        return raw.run(self.url, VISIBLE.format(role=role.lower(), number=number))

    def assign_in(self, sessions: Mapping[int, tuple[int, int]]) -> None:
        for session, (caregiver, _) in sessions.items():
            person = Person(self.served[self.ports[0]].url, "CAREGIVER", f"caregiver-{caregiver}")
            person.mutate(ASSIGN, input=marker(session))

    def kill_one(self) -> None:
        port = self.ports[next(self.kills) % len(self.ports)]
        self.served[port].process.kill()
        self.served[port].process.wait(PATIENCE)
        self.served[port] = self.start(port)

    def end_connections(self) -> None:
        raw.run(self.url, END_CONNECTIONS)

    def start_worker(self) -> None:
        """Work that is due is done beside the gateways, too."""
        worker = start("worker", **self.care, var=str(self.folder / "var-worker"))
        self.stack.callback(worker.communicate)
        self.stack.callback(worker.kill)


def run(
    gateways: Gateways, seed: int, calls: int, disturbances: Sequence[Callable[[], None]] = ()
) -> History:
    """The disturbances come at even distances. Subscribers have received all events when it ends."""
    history = History(seed, gateways.ports)
    callers = history.callers(EACH)
    subscribers = gateways.subscribers

    def is_over() -> bool:
        return history.calls() >= calls

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
        gateways.assign_in(LASTS)
        for one in running:
            one.result()
        for one in listening:
            one.result(PATIENCE)
    return history


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


def contradictions(gateways: Gateways, history: History) -> list[str]:
    """The stored rows are read last, so the order has to end with them."""
    for session in PARTIES:
        for is_client in (False, True):
            last = Caller(history, session, is_client, Random(0))
            last.look()
            last.close()
    starts = {number: minutes(moment(start)) for number, start in raw.run(gateways.url, STARTS)}
    events: dict[int, Kinds] = {session: {} for session in (*PARTIES, *FIRSTS, *LASTS)}
    for session, kind, assignment in raw.run(gateways.url, EVENTS):
        events[session].setdefault(starts.get(assignment), []).append(kind)
    found = [text for session in PARTIES for text in without_order(history, session, events[session])]
    for subscriber in gateways.subscribers:
        role, number = subscriber.role, subscriber.number
        found += [f"{role} {number}: {each}" for each in wrong(subscriber, gateways.visible(role, number))]
    emitted = Counter(kind for kinds in events.values() for own in kinds.values() for kind in own)
    recorded: dict[str, int] = dict(raw.run(gateways.url, AUDIT))
    found += [
        f"{number} events {kind}, but {recorded.get(OPERATIONS[kind], 0)} audit records"
        for kind, number in emitted.items()
        if recorded.get(OPERATIONS[kind], 0) != number
    ]
    return [*history.unexpected, *found, *map(str, run_read(gateways.url, differences()))]


def without_order(history: History, session: int, kinds: Kinds) -> list[str]:
    now = time.monotonic()
    stored = Call("the stored events", now, now, (Act(lambda life: life.kinds, kinds),))
    lines = [line for line in [*history.lines[session], [stored]] if line]
    life, fits = new_life(session), partial(Life.leads_to, kinds=kinds)
    if check(lines, life, fits).order is not None:
        return []
    small = shrink(lines, life, fits)
    verdict = check(small, life, fits)
    found = [f"seed {history.seed}, session {session}:", *printed(small), "explained:", *verdict.longest]
    return [*found, "not explained:", *verdict.stuck]
