"""The whole switch and the way back while people work, with an old service that misbehaves: nothing that was
acknowledged is lost, doubled or altered, and every refusal names what to do."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import orjson
import pytest

from app.settings import Settings
from tests import keys
from tests.callers import Gateway, load
from tests.care.actions import a_catalogue, sessions_with_homework
from tests.cli.conftest import Command
from tests.db import raw
from tests.factories import a_session, an_assignment, lines
from tests.moving_over.conftest import serving
from tests.moving_over.moves import Move
from tests.moving_over.recordings import PATHS, caller_of, pages
from tests.moving_over.services import fake_service, forwarding_to
from tests.moving_over.stand_in import MISBEHAVIOURS, OldService
from tests.moving_over.test_ready import shadowed
from tests.rest_compat.legacy import homework

pytestmark = [pytest.mark.live, pytest.mark.parametrize("kind", ["sqlite"], indirect=True)]

PEOPLE = (1, 2)
SUBMIT = """mutation ($id: ID!, $answer: String!) {
  submitAnswers(input: {assignmentId: $id, answers: [{questionId: "1", answer: $answer}]}) {
    userErrors { code }
  }
}"""
HOMEWORK, SUBMISSIONS = 12, 8  # of each phase
MAX_TRIES = 30  # of a person, who repeats what was not acknowledged
# Each third response; `hangs` only once, until the command has given up.
WHEN = {"hangs": {"first": 1}}
OMITTED = {"has another value"}  # the people of the old service do the same


@dataclass
class People:
    """A caregiver who assigns homework and reads, and a client who submits, each until it is acknowledged."""

    url: str
    gateway: Gateway
    starts: Counter[str] = field(default_factory=Counter)  # of acknowledged homework
    answers: dict[int, str] = field(default_factory=dict)  # of acknowledged submissions, by assignment

    @contextmanager
    def working(self, phase: int) -> Iterator[None]:
        """Everything is acknowledged when the block ends."""
        errors: list[BaseException] = []

        def run(work: Callable[[int], None]) -> None:
            try:
                work(phase)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(work,)) for work in (self.assign, self.submit)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                thread.join()
        assert errors == []

    def assign(self, phase: int) -> None:
        token = {"authorization": f"bearer {keys.token('CAREGIVER', 'caregiver-1', client_id='app')}"}
        for number in range(HOMEWORK):
            time = f"{8 + phase:02}:{number:02}"
            body = homework(bookIds=[1], sessionId=1 + number % 4, startTime=time, remindDates=[])
            key = {**token, "idempotency-key": f"{phase}-{number}"}  # a repetition is executed once
            self.until_acknowledged("PUT", PATHS["caregiver"], key, body)
            self.starts[f"2026-11-22T{time}:00.000000Z"] += 1
            self.until_acknowledged("GET", f"{PATHS['caregiver']}?time-state=RUNNING", token)

    def until_acknowledged(
        self, method: str, path: str, headers: dict[str, str], body: object = None
    ) -> None:
        for _ in range(MAX_TRIES):
            with suppress(httpx2.HTTPError, ValueError):
                response = httpx2.request(  # the commands change the environment meanwhile
                    method, self.url + path, headers=headers, json=body, timeout=2, trust_env=False
                )
                if response.status_code == 200 and (method == "GET" or "message" in response.json()):
                    return
        raise AssertionError(f"never acknowledged: {method} {path}")

    def submit(self, phase: int) -> None:
        for number in range(phase * SUBMISSIONS + 1, (phase + 1) * SUBMISSIONS + 1):
            answer = str(number % 4)
            found = self.gateway.as_client(1).data(SUBMIT, id=str(number), answer=answer)
            assert found == {"submitAnswers": {"userErrors": []}}
            self.answers[number] = answer


def stored_starts(url: str) -> Counter[str]:
    rows = raw.run(url, "SELECT start_date FROM assignment WHERE withdraw_date IS NULL AND id > 33")
    return Counter(row[0] for row in rows)


def stored_answers(url: str) -> dict[int, str]:
    rows = raw.run(url, "SELECT assignment_id, answers FROM answer_set WHERE save_type = 'FINAL'")
    assert len({row[0] for row in rows}) == len(rows)  # none is doubled
    return {row[0]: orjson.loads(row[1])[0][-1] for row in rows}


def every_page(gateway: Gateway) -> dict[str, bytes]:
    return {
        f"{role} {number} {path}": body
        for role in PATHS
        for number in PEOPLE
        for path, body in pages(caller_of(gateway, role, number), role, 7)
    }


class Switch:
    """The operator, who reads what is refused."""

    def __init__(self, move: Move, name: str) -> None:
        self.move, self.name = move, name
        self.refusals: list[str] = []

    @contextmanager
    def misbehaving(self) -> Iterator[None]:
        with self.move.old.misbehaving(self.name, **WHEN.get(self.name, {"every": 3})):
            yield

    def refused(self, *words: str) -> bool:
        result = self.move.run(*words)
        assert result.exit_code in (0, 1, 2), result.output
        if result.exit_code == 2:
            self.refusals.append(result.stderr.splitlines()[-1])
        return result.exit_code == 2

    def record(self, folder: str) -> str:
        """If it is refused, the old service is repaired, and recording continues."""
        options = ("--size", "5", "--attempts", "3", "--timeout", "0.5")
        with self.misbehaving():
            recorded = self.move.record_to(folder, *options)
        self.move.old.released.set()
        if recorded.exit_code:
            self.refusals.extend(recorded.stderr.splitlines()[-2:])
            part = (self.move.folder / f"{folder}.part").exists()
            recorded = self.move.record_to(folder, *options[:2], *(["--continue"] if part else []))
            assert recorded.exit_code == 0, recorded.output
        return str(self.move.folder / folder)

    def bring_over(self, folder: str, *options: str) -> None:
        """First without consent, then as far as possible."""
        words = ("import", folder, *options)
        if self.refused(*words):
            self.refused(*words, "--partial")


def switch_and_back(move: Move, new_settings: Settings, old_gateway: Gateway, name: str) -> list[str]:
    """Returns what was refused."""
    operator, people = Switch(move, name), People(move.address, old_gateway)
    move.old.hidden, move.old.expired = {2, 7}, {keys.token("CLIENT", "client-2")}
    with people.working(0):
        first = operator.record("first")
    operator.bring_over(first)
    if not raw.row_counts(move.database)["session"]:  # nothing could be imported: again, without the fault
        assert move.run("import", move.record(), "--partial").exit_code == 0
    books = move.folder / "books.jsonl"
    books.write_bytes(b"\n".join(lines(each for each in a_catalogue() if each["kind"] in ("module", "book"))))
    assert move.run("books", "import", str(books)).exit_code == 0
    with people.working(1):
        second = operator.record("second")
    operator.bring_over(second, "--update", "--remove-gone")

    last = move.record()  # without concurrent changes or misbehaviour
    update = move.lines("import", last, "--update")
    assert update[1][-1].endswith("0 conflicts"), update
    link_accounts(move, last)
    reconciled = move.lines("legacy", "reconcile", last)
    assert reconciled[0] == 0, "\n".join([*reconciled[1], *operator.refusals])
    shadowed(move)
    ready = move.lines("legacy", "ready", last, "--state", str(move.folder / "shadow.json"))
    assert ready[0] == 0, ready
    assert stored_starts(move.database) == people.starts == Counter(dict.fromkeys(people.starts, 1))
    assert stored_answers(move.database) == people.answers
    with serving(new_settings.model_copy(update={"token_cache": 0})) as new:
        assert every_page(new) == every_page(old_gateway)
        rejected = new.as_caregiver(1).put(PATHS["caregiver"], json=homework(bookIds=[1]))
        assert rejected.status_code == 503
        operator.refusals.append(rejected.json()["message"])
        assert move.run("legacy", "switch").exit_code == 0
        with fake_service(forwarding_to(new.client)) as address:
            here = People(address, new)
            with here.working(2):
                assert operator.refused("import", last, "--update")
            switch_back(move, operator, here, new, address, last)
    assert stored_starts(move.database) == people.starts + here.starts
    assert stored_answers(move.database) == people.answers | here.answers
    check_old(move, old_gateway, people, here)
    return operator.refusals


def link_accounts(move: Move, recording: str) -> None:
    """Of people whose own pages the first recording did not show."""
    found = orjson.loads(move.run("legacy", "reconcile", recording, "--json").stdout)
    for person in found["peopleWithoutAccount"]:
        role = person["role"].lower()
        words = ("--role", role, "--id", str(person["id"]), "--user", f"{role}-{person['id']}")
        assert move.run("account", "link", *words).exit_code == 0


def switch_back(move: Move, operator: Switch, here: People, new: Gateway, address: str, last: str) -> None:
    """Exactly what people have changed here is listed, and a recording has its contents."""
    assert move.run("legacy", "switch", "--back").exit_code == 0
    assert new.as_caregiver(1).put(PATHS["caregiver"], json=homework(bookIds=[1])).status_code == 503
    listed = move.lines("legacy", "reconcile", last)[1]
    only_here = [int(line.split("\t")[2]) for line in listed if line.startswith("only here\tassignment\t")]
    different = [int(line.split("\t")[2]) for line in listed if line.startswith("different\tassignment\t")]
    assert (len(only_here), sorted(different)) == (HOMEWORK, sorted(here.answers))
    assert listed[-1] == f"{HOMEWORK + SUBMISSIONS} differences"
    old, move.address = move.address, address
    recorded = Path(move.record())
    move.address = old
    contents = b"".join(file.read_bytes() for file in recorded.glob("*.json"))
    assert all(f'"id":{number},'.encode() in contents for number in only_here)


def check_old(move: Move, old_gateway: Gateway, people: People, here: People) -> None:
    """The operator enters what was listed at the old service, which then has everything once."""
    again = People(move.address, old_gateway)
    with again.working(2):
        pass
    url = old_gateway.settings.database
    assert stored_starts(url) == people.starts + here.starts
    assert stored_answers(url) == people.answers | here.answers


@pytest.fixture
def whole(
    settings: Settings,
    new_settings: Settings,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], list[str]]]:
    for role in ("CAREGIVER", "CLIENT"):
        tokens = [keys.token(role, f"{role.lower()}-{number}") for number in PEOPLE]
        monkeypatch.setenv(f"{role}S", "\n".join(tokens))
    load(settings.database, [*sessions_with_homework(4, each=8), a_session(5, 2, 2), an_assignment(33, 5)])
    with serving(settings) as gateway:
        old = OldService(forwarding_to(gateway.client))
        with fake_service(old) as address:
            move = Move(old, address, command, new_settings.database, tmp_path)
            yield lambda name: switch_and_back(move, new_settings, gateway, name)


READ_ONLY = "nothing was changed: until the switch, make changes in the old service"
SWITCHED = (
    "care-gateway: the switch was declared, so people use this service; nothing was imported "
    "(legacy switch --back)"
)


@pytest.mark.parametrize("name", ["resets", "empties lists", "has an unknown status"])
def test_a_switch_and_the_way_back_lose_nothing(whole: Callable[[str], list[str]], name: str) -> None:
    assert whole(name)[-2:] == [READ_ONLY, SWITCHED]


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(MISBEHAVIOURS.keys() - OMITTED))
def test_a_switch_under_each_misbehaviour_loses_nothing(whole: Callable[[str], list[str]], name: str) -> None:
    refusals = whole(name)

    print(f"\n{name}", *dict.fromkeys(refusals), sep="\n  ")
    assert refusals[-2:] == [READ_ONLY, SWITCHED]
