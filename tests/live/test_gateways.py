"""Three gateways share one PostgreSQL, behind a load balancer that sends each request to the next one."""

import itertools
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.db.admin.migrate import newest_version
from tests import keys
from tests.callers import load
from tests.conftest import fresh_database
from tests.crash.writers import ASSIGN, PUT_PATH, SAVE, a_world
from tests.db import raw
from tests.events.receiver import SECRET, Receiver, receiving
from tests.factories import an_assignment
from tests.live.people import Person
from tests.live.processes import PATIENCE, run, serving
from tests.live.subscribers import change, receive, subscribe_by_websocket
from tests.postgres import create_database, drop_database

pytestmark = pytest.mark.live
ACCOUNT = ("--role", "caregiver", "--user", "caregiver-2")
LONG_AGO = "2020-01-01T09:00:00Z"
REMINDERS = 60
WAITING = "SELECT count(*) FROM delivery WHERE state = 'WAITING'"
HOMEWORK = {
    "sessionId": "1",
    "bookIds": ["1"],
    "startDate": "2020-01-01T09:00:00Z",
    "endDate": "2036-11-29T18:30:00Z",
}


@dataclass
class Gateways:
    urls: list[str]
    care: dict[str, str]
    receiver: Receiver

    def __post_init__(self) -> None:
        self.turns = itertools.cycle(self.urls)

    def send(self, role: str, method: str, path: str, body: Any, **headers: str) -> httpx2.Response:
        """Sends the request to the next gateway, as person 1 of this role."""
        person = Person("", role, f"{role.lower()}-1")
        return httpx2.request(
            method,
            next(self.turns) + path,
            json=body,
            headers={**person.headers, **headers},
            timeout=PATIENCE,
        )

    def mutate(self, role: str, query: str, given: dict[str, Any], **headers: str) -> httpx2.Response:
        body = {"query": query, "variables": {"input": given}}
        return self.send(role, "POST", "/graphql", body, **headers)


@pytest.fixture(scope="module")
def gateways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateways]:
    folder = tmp_path_factory.mktemp("gateways")
    with ExitStack() as stack:
        url = stack.enter_context(fresh_database("postgresql", "", request, folder))
        load(url, a_world(2))
        receiver = stack.enter_context(receiving())
        care = {
            "env": "development",
            "database_url": url,
            "token_key": keys.public_pem(),
            "var": str(folder),
            "webhook_url": receiver.url,
            "webhook_secret": SECRET,
        }
        served = [stack.enter_context(serving(folder / name, **care)) for name in "abc"]
        yield Gateways([one.url for one in served], care, receiver)


def test_a_repeated_key_gets_the_first_response_from_every_gateway(gateways: Gateways) -> None:
    answers = [
        gateways.mutate("CAREGIVER", ASSIGN, HOMEWORK, **{"idempotency-key": "at-all-gateways"})
        for _ in gateways.urls
    ]

    assert [one.headers.get("idempotency-replayed") for one in answers] == [None, "true", "true"]
    assert {one.content for one in answers} == {answers[0].content}
    assert answers[0].json()["data"]["assignHomework"]["userErrors"] == []


def test_concurrent_requests_with_one_key_make_one_change(gateways: Gateways) -> None:
    def assign(_: int) -> httpx2.Response:
        return gateways.mutate("CAREGIVER", ASSIGN, HOMEWORK, **{"idempotency-key": "at-once"})

    before = raw.run(gateways.care["database_url"], "SELECT count(*) FROM assignment")[0][0]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(assign, range(12)))

    assert {one.status_code for one in answers} <= {200, 409}  # 409: still running at this gateway
    assert len({one.content for one in answers if one.status_code == 200}) == 1
    assert raw.run(gateways.care["database_url"], "SELECT count(*) FROM assignment") == [(before + 1,)]


def test_a_legacy_put_repeated_at_another_gateway_assigns_once(gateways: Gateways) -> None:
    body = {
        "bookIds": [2],
        "startDate": "2020/02/03",
        "startTime": "09:00",
        "endDate": "2036/11/29",
        "endTime": "18:30",
        "remindDates": [{"date": "2036/02/03", "time": "09:00"}],
        "sessionId": 1,
    }
    answers = [gateways.send("CAREGIVER", "PUT", PUT_PATH, body) for _ in gateways.urls]

    assert [one.status_code for one in answers] == [200, 200, 200]
    found = raw.run(gateways.care["database_url"], "SELECT count(*) FROM assignment WHERE book_id = 2")
    assert found == [(1,)]


def test_a_draft_saved_at_one_gateway_conflicts_at_another(gateways: Gateways) -> None:
    created = gateways.mutate("CAREGIVER", ASSIGN, HOMEWORK).json()["data"]["assignHomework"]["assignments"]
    saved = [
        gateways.mutate(
            "CLIENT",
            SAVE,
            {
                "assignmentId": created[0]["legacyId"],
                "answers": [{"questionId": "1", "answer": text}],
                "revision": revision,
            },
        ).json()["data"]["saveAnswers"]
        for revision, text in ((0, "phone"), (0, "tablet"), (1, "both"))
    ]

    assert [(one["draft"]["revision"], [error["code"] for error in one["userErrors"]]) for one in saved] == [
        (1, []),
        (1, ["DRAFT_CONFLICT"]),
        (2, []),
    ]


def test_an_event_written_at_each_gateway_reaches_a_subscriber_of_one(gateways: Gateways) -> None:
    newest = raw.run(gateways.care["database_url"], "SELECT max(id) FROM event WHERE client_id = 1")
    with subscribe_by_websocket(gateways.urls[0], "client", str(newest[0][0])) as socket:
        created, received = [], []
        for _ in gateways.urls:
            payload = gateways.mutate("CAREGIVER", ASSIGN, HOMEWORK).json()["data"]["assignHomework"]
            created.append(payload["assignments"][0]["legacyId"])
            received.append(change(receive(socket))[2])

    assert received == created


def test_each_due_reminder_is_delivered_once_by_three_dispatchers(gateways: Gateways) -> None:
    url, receiver = gateways.care["database_url"], gateways.receiver
    reminders = [{"remindDate": LONG_AGO}] * (REMINDERS // 3)
    load(url, [an_assignment(1000 + at, session=2, book=3, reminders=reminders) for at in range(3)])
    while len(due_reminders(receiver)) < REMINDERS or raw.run(url, WAITING) != [(0,)]:
        receiver.has_received.acquire(timeout=0.1)  # or until the last outcome is stored

    due = due_reminders(receiver)
    assert len(set(due)) == len(due) == REMINDERS
    assert raw.run(url, "SELECT count(*) FROM event WHERE kind = 'REMINDER_DUE'") == [(REMINDERS,)]


def due_reminders(receiver: Receiver) -> list[str]:
    return [one.id for one in [*receiver.received] if one.verified(SECRET)["type"] == "reminder.due"]


def test_a_disabled_account_is_rejected_by_every_gateway(gateways: Gateways) -> None:
    """Within five seconds: so long each process remembers the account of a token."""
    headers = Person("", "CAREGIVER", "caregiver-2").headers
    request = {"json": {"query": "{ viewer { name } }"}, "headers": headers, "verify": False}
    before = [httpx2.post(f"{url}/graphql", **request).status_code for url in gateways.urls]
    disabled = run("account", "disable", *ACCOUNT, **gateways.care)
    statuses: list[int] = []
    while set(statuses) != {403}:
        time.sleep(0.1)  # polls until every cache has expired
        statuses = [httpx2.post(f"{url}/graphql", **request).status_code for url in gateways.urls]

    assert before == [200, 200, 200]
    assert (disabled.returncode, statuses) == (0, [403, 403, 403])


def test_concurrent_migrations_of_an_empty_database_succeed(postgres: str) -> None:
    url = create_database(postgres, f"empty_{uuid.uuid4().hex}")
    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(lambda _: run("migrate", database_url=url), range(3)))
    version = raw.run(url, "SELECT version_num FROM alembic_version")
    drop_database(postgres, url.rsplit("/", 1)[1])

    outcomes = sorted(one.stdout.partition(": ")[2] for one in ended)
    assert [one.returncode for one in ended] == [0, 0, 0], [one.stderr for one in ended]
    assert version == [(newest_version(),)]
    assert outcomes == [
        f"migrated from an empty database to version {newest_version()}\n",
        *[f"the schema is already at version {newest_version()}\n"] * 2,
    ]
