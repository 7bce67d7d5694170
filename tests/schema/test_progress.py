"""`progress` and `scoreHistory` of clients and sessions, compared with a naive computation.

Contract: the numbers cover what the viewer shares with the client, without withdrawn assignments; an
unknown book has no scores.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.callers import Gateway, opened
from tests.factories import NOW, a_session, a_world, an_assignment
from tests.schema.rich_world import SESSION_BY_ID, WITHDRAWN, clients_of, naive, naive_scores, records
from tests.schema.test_assign_homework import homework
from tests.schema.worlds import global_id, refusal

COUNTS = """assignmentCount completedAssignmentCount pendingAssignmentCount
    overdueAssignmentCount lateAssignmentCount"""
PROGRESS = f"progress {{ {COUNTS} completion {{ week assigned completed }} }}"
SCORES = "{ submitDate score attempt assignment { legacyId name } }"
CLIENTS = f"""{{ clients(first: 100) {{ nodes {{ legacyId {PROGRESS}
    one: scoreHistory(bookId: 1) {SCORES}
    other: scoreHistory(bookId: "{global_id("Book", 2)}") {SCORES} }} }} }}"""
SESSIONS = CLIENTS.replace("clients(", "sessions(")


# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("caregiver", [1, 2])
def test_a_caregiver_sees_the_progress_of_each_client_in_shared_homework(
    rich: Gateway, caregiver: int
) -> None:
    found = rich.as_caregiver(caregiver).data(CLIENTS)["clients"]["nodes"]

    assert found == [naive("clientId", number, caregiverId=caregiver) for number in clients_of(caregiver)]
    assert set(clients_of(1)) & set(clients_of(2))
    assert sum(len(each["one"]) for each in found) > 5
    assert sum(each["progress"]["overdueAssignmentCount"] for each in found) > 2
    assert sum(each["progress"]["lateAssignmentCount"] for each in found) > 3


@pytest.mark.parametrize("viewer", [("caregiverId", 1), ("clientId", 2)], ids=str)
def test_caregiver_and_client_see_the_progress_of_each_session(
    rich: Gateway, viewer: tuple[str, int]
) -> None:
    role, number = viewer
    caller = rich.as_caregiver(number) if role == "caregiverId" else rich.as_client(number)

    found = caller.data(SESSIONS)["sessions"]["nodes"]

    mine = [each["id"] for each in SESSION_BY_ID.values() if each[role] == number]
    assert found == [naive("id", session) for session in sorted(mine, reverse=True)]
    assert len(found) > 2


def test_a_client_sees_their_progress_with_each_caregiver(rich: Gateway) -> None:
    of_client = f"""legacyId {PROGRESS} one: scoreHistory(bookId: 1) {SCORES}
        other: scoreHistory(bookId: 2) {SCORES}"""
    query = f"""query($id: ID!) {{ viewer {{ client {{ {of_client} }} }}
        sessions(first: 1) {{ nodes {{ client {{ {of_client} }} }} }}
        node(id: $id) {{ ... on Client {{ {of_client} }} }} }}"""

    found = rich.as_client(2).data(query, id=global_id("Client", 2))

    mine = naive("clientId", 2)
    assert found["viewer"]["client"] == mine
    assert found["sessions"]["nodes"] == [{"client": mine}]
    assert found["node"] == mine
    assert {each["caregiverId"] for each in SESSION_BY_ID.values() if each["clientId"] == 2} == {1, 2}


def test_counts_selected_alone_are_the_same(rich: Gateway) -> None:
    found = rich.as_caregiver(1).data(f"{{ clients {{ nodes {{ progress {{ {COUNTS} }} }} }} }}")

    for node, number in zip(found["clients"]["nodes"], clients_of(1), strict=True):
        whole = naive("clientId", number, caregiverId=1)["progress"]
        assert node["progress"] == {name: whole[name] for name in COUNTS.split()}


def test_a_client_without_homework_has_zero_progress(rich: Gateway) -> None:
    caregiver = SESSION_BY_ID[12]["caregiverId"]

    found = rich.as_caregiver(caregiver).data(
        f"{{ session(id: 12) {{ {PROGRESS} client {{ {PROGRESS} }} }} }}"
    )

    nothing: dict[str, Any] = dict.fromkeys(COUNTS.split(), 0) | {"completion": []}
    assert found["session"] == {"progress": nothing, "client": {"progress": nothing}}


# --- selections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("book", ["0", "999", str(2**63), global_id("Book", 999)])
def test_an_unknown_book_has_no_scores(rich: Gateway, book: str) -> None:
    query = """query($book: ID!) { sessions(first: 2) { nodes {
        scoreHistory(bookId: $book) { score } client { scoreHistory(bookId: $book) { score } } } } }"""

    found = rich.as_caregiver(1).data(query, book=book)

    nothing: dict[str, Any] = {"scoreHistory": []}
    assert found["sessions"]["nodes"] == [nothing | {"client": nothing}] * 2


@pytest.mark.parametrize("book", ["", "x", "-1", global_id("Session", 1)])
def test_the_score_history_of_an_id_of_another_type_is_unreadable(rich: Gateway, book: str) -> None:
    """It would be empty, which looks like a book without scores."""
    of_session = "query($book: ID!) { session(id: 1) { scoreHistory(bookId: $book) { score } } }"
    of_client = of_session.replace("scoreHistory", "client { scoreHistory") + " }"
    error = refusal("UNREADABLE", "bookId must be the id of a book", "session", column=21)
    caregiver = rich.as_caregiver(SESSION_BY_ID[1]["caregiverId"])

    assert caregiver.graphql(of_session, book=book) == {"data": {"session": None}, "errors": [error]}
    assert caregiver.graphql(of_client, book=book) == {"data": {"session": None}, "errors": [error]}


@pytest.mark.parametrize("is_total_first", [True, False])
def test_a_list_below_two_forms_of_an_id_has_the_parts_of_both(rich: Gateway, is_total_first: bool) -> None:
    parts = [
        """a: scoreHistory(bookId: 1) {
            assignment { session { assignments(first: 1) { totalCount pageInfo { endCursor } } } } }""",
        """b: scoreHistory(bookId: $global) {
            assignment { session { assignments(first: 1) { nodes { attempt session { legacyId } } } } } }""",
    ]
    selected = " ".join(parts if is_total_first else reversed(parts))
    query = f"query($global: ID!) {{ clients {{ nodes {{ {selected} }} }} }}"

    clients = rich.as_caregiver(1).data(query, **{"global": global_id("Book", 1)})["clients"]["nodes"]
    a, b = (
        [point["assignment"]["session"]["assignments"] for client in clients for point in client[name]]
        for name in "ab"
    )

    assert len(a) == len(b) > 0
    assert all(page["totalCount"] > 0 and page["pageInfo"]["endCursor"] for page in a)
    assert all([node["attempt"] > 0 for node in page["nodes"]] == [True] for page in b)


def test_a_score_history_is_the_same_for_all_id_forms_and_aliases(rich: Gateway) -> None:
    query = """query($number: ID!, $global: ID!) { clients { nodes {
        a: scoreHistory(bookId: $number) { score } b: scoreHistory(bookId: $global) { score attempt }
        ... on Node { ... on Client { c: scoreHistory(bookId: 1) { ...point } } } } } }
        fragment point on ScorePoint { __typename assignment { session { client { legacyId } } } }"""

    found = rich.as_caregiver(1).data(query, number="1", **{"global": global_id("Book", 1)})

    histories = {number: naive("clientId", number, caregiverId=1)["one"] for number in clients_of(1)}
    assert any(histories.values())
    assert found["clients"]["nodes"] == [
        {
            "a": [{"score": each["score"]} for each in expected],
            "b": [{"score": each["score"], "attempt": each["attempt"]} for each in expected],
            "c": [
                {"__typename": "ScorePoint", "assignment": {"session": {"client": {"legacyId": str(number)}}}}
                for _ in expected
            ],
        }
        for number, expected in histories.items()
    ]


def test_progress_and_pages_of_assignments_can_be_selected_together(rich: Gateway) -> None:
    query = f"""{{ session(id: 1) {{ legacyId {PROGRESS} assignments(first: 1) {{ nodes {{ legacyId }} }}
        one: scoreHistory(bookId: 1) {SCORES} other: scoreHistory(bookId: 2) {SCORES} }} }}"""

    found = rich.as_caregiver(SESSION_BY_ID[1]["caregiverId"]).data(query)["session"]

    newest = max(
        each["id"] for each in records("assignment") if each["sessionId"] == 1 and each["id"] not in WITHDRAWN
    )
    assert found.pop("assignments")["nodes"] == [{"legacyId": str(newest)}]
    assert found == naive("id", 1)


def test_a_score_history_has_the_newest_assignments_of_the_book(
    rich: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.schema.types.progress.MAX_SCORED_ASSIGNMENTS", 2)
    query = f"{{ clients(first: 100) {{ nodes {{ newest: scoreHistory(bookId: 1) {SCORES} }} }} }}"

    found = rich.as_caregiver(1).data(query)["clients"]["nodes"]

    of_book: dict[int, list[Any]] = {number: [] for number in clients_of(1)}
    for each in sorted(records("assignment"), key=lambda record: record["id"], reverse=True):
        session = SESSION_BY_ID[each["sessionId"]]
        if session["caregiverId"] == 1 and each["bookId"] == 1 and each["id"] not in WITHDRAWN:
            of_book[session["clientId"]].append(each)
    assert found == [{"newest": naive_scores(some[:2], 1)} for some in of_book.values()]
    assert found != [{"newest": naive_scores(some, 1)} for some in of_book.values()]


# --- weeks -----------------------------------------------------------------------------------------


@contextmanager
def service_in(zone: str, settings: Settings) -> Iterator[Gateway]:
    there = settings.model_copy(update={"time_zone": zone})
    with opened(create_app(there, clock=lambda: NOW)) as client:
        yield Gateway(client, there)


@pytest.mark.parametrize(("zone", "monday"), [("Europe/Berlin", "2026-11-16"), ("UTC", "2026-11-09")])
def test_weeks_start_on_monday_in_the_zone_of_the_service(settings: Settings, zone: str, monday: str) -> None:
    late_on_sunday = datetime.fromisoformat("2026-11-15T23:30:00Z")
    with service_in(zone, settings) as gateway:
        gateway.import_records(
            [*a_world(), a_session(9, client=2), an_assignment(9, session=9, assignDate=late_on_sunday)]
        )
        weeks = "progress { completion { week } }"

        found = gateway.as_caregiver(1).data(f"{{ viewer {{ timeZone }} session(id: 9) {{ {weeks} }} }}")
        changed = gateway.as_caregiver(1).data(
            f"""mutation($input: AssignHomeworkInput!) {{ assignHomework(input: $input) {{
                assignments {{ session {{ {weeks} }} }} }} }}""",
            input=homework(sessionId="9", bookIds=["1"]),
        )["assignHomework"]["assignments"]

    assert found["viewer"] == {"timeZone": zone}
    assert found["session"]["progress"]["completion"][0] == {"week": monday}
    assert changed == [{"session": found["session"]}]
