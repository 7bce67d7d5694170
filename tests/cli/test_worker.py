"""Promise: operators list and retry deliveries; a worker without a usable webhook or database fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.common import check_before_serving
from app.db.admin.migrate import newest_version
from app.db.statements.dispatch import SEARCH_LIMIT
from app.settings import Settings
from tests.cli.conftest import Command, assert_rejected
from tests.db import raw
from tests.doctor.test_database import STOPPED, WORKER_STOPS
from tests.events.conftest import Care, add_dead_deliveries
from tests.events.receiver import SECRET, Receiver, receiving
from tests.factories import HOUR, NOW, a_world, starting_with

pytestmark = starting_with(a_world)

NOT_RETRIED = "event {} has no waiting or dead delivery"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def care(settings: Settings, receiver: Receiver) -> Care:
    """Three deliveries: one dead, one waiting after its third attempt, one delivered."""
    webhook = {"webhook_url": receiver.url, "webhook_secret": SECRET}
    care = Care(settings.model_copy(update=webhook))
    for kind in ("SUBMITTED", "SESSION_CLOSED", "FEEDBACK_GIVEN"):
        care.add_event(kind)
    care.dispatch()
    for event, state, attempts, response in (
        (3, "DELIVERED", 1, "200"),
        (2, "WAITING", 3, "503"),
        (1, "DEAD", 11, "connection refused"),
    ):  # PostgreSQL stores a changed row behind the others
        care.rows(
            f"UPDATE delivery SET state = '{state}', attempts = {attempts}, last_answer = '{response}',"
            f" next_date = '2026-11-21T10:00:00.000000Z' WHERE event_id = {event}"
        )
    receiver.received.clear()
    return care


LINES = {
    "dead": "1\tassignment.submitted\tdead\t11\t2026-11-21T10:00:00.000000Z\tconnection refused\n",
    "waiting": "2\tsession.closed\twaiting\t3\t2026-11-21T10:00:00.000000Z\t503\n",
    "delivered": "3\tassignment.feedback_given\tdelivered\t1\t2026-11-21T10:00:00.000000Z\t200\n",
}


def test_deliveries_are_listed_in_the_order_of_their_events(care: Care, command: Command) -> None:
    """Also if the database reads the tables in the order in which it stores them."""
    care.rows("ANALYZE")

    result = command("deliveries", "list")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "".join(LINES.values()), "")


@pytest.mark.sqlite_only
def test_an_unknown_kind_of_event_is_listed_as_stored(care: Care, command: Command) -> None:
    care.rows("UPDATE event SET kind = 'SESSION_DREAMT_OF' WHERE id = 1")

    result = command("deliveries", "list", "--state", "dead")

    assert (result.exit_code, result.stdout) == (
        0,
        LINES["dead"].replace("assignment.submitted", "SESSION_DREAMT_OF"),
    )


def test_tables_of_the_next_version_are_served_but_not_changed_by_commands(
    command: Command, settings: Settings
) -> None:
    """So that an upgrade can expand the tables while processes of this version still run."""
    next_one = f"{int(newest_version()[:4]) + 1:04}"
    raw.run(settings.database, f"UPDATE alembic_version SET version_num = '{next_one}'")

    check_before_serving(settings)
    assert command("deliveries", "list").exit_code == 2


@pytest.mark.parametrize("kind", ["postgresql"], indirect=True)
@pytest.mark.parametrize(("words", "exit_code"), [(("worker",), 1), (("deliveries", "list"), 2)])
def test_a_service_whose_database_goes_while_it_is_checked_can_be_started_again(
    command: Command, settings: Settings, words: tuple[str, ...], exit_code: int
) -> None:
    raw.run(settings.database, *(statement.format("alembic_version") for statement in WORKER_STOPS))

    result = command(*words)

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert result.stderr.splitlines()[0] == f"care-gateway: database error: {STOPPED}"


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("state", LINES)
def test_deliveries_are_filtered_by_state(care: Care, command: Command, state: str) -> None:
    result = command("deliveries", "list", "--state", state)

    assert (result.exit_code, result.stdout, result.stderr) == (0, LINES[state], "")


@pytest.mark.sqlite_only
def test_a_list_can_be_longer_than_one_page(care: Care, command: Command) -> None:
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT 1, 1, 'ASSIGNED', 1, '2026-11-21T08:30:00.000000Z'"
        " FROM book a, book b, book c, book d, book e, book f"
    )
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " SELECT id, 1, 1, 'WAITING', 0, moment FROM event WHERE id > 3"
    )

    result = command("deliveries", "list", "--state", "waiting")

    assert len(result.stdout.splitlines()) == 1 + 3**6
    assert result.stdout.splitlines()[-1].endswith(
        "\tassignment.assigned\twaiting\t0\t2026-11-21T08:30:00.000000Z\t-"
    )


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("event", [1, 2])
def test_a_delivery_is_retried(care: Care, receiver: Receiver, command: Command, event: int) -> None:
    result = command("deliveries", "retry", str(event))
    care.dispatch(NOW + 10_000 * HOUR)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 scheduled for delivery\n", "")
    assert f"evt_{event}" in receiver.ids()
    assert care.deliveries()[event - 1] == (event, "DELIVERED", 1, "200")


def test_more_dead_deliveries_than_one_search_finds_are_retried(care: Care, command: Command) -> None:
    add_dead_deliveries(care, 4, 3 + SEARCH_LIMIT)

    result = command("deliveries", "retry", "--all-dead")

    assert (result.exit_code, result.stdout) == (0, f"{SEARCH_LIMIT + 1} scheduled for delivery\n")


def test_all_dead_deliveries_are_retried(care: Care, receiver: Receiver, command: Command) -> None:
    result = command("deliveries", "retry", "--all-dead")
    again = command("deliveries", "retry", "--all-dead")
    listed = [line.split("\t") for line in command("deliveries", "list").stdout.splitlines()]

    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 scheduled for delivery\n", "")
    assert again.stdout == "0 scheduled for delivery\n"
    assert [[*each[:4], *each[5:]] for each in listed[:2]] == [
        ["1", "assignment.submitted", "waiting", "0", "connection refused"],
        ["2", "session.closed", "waiting", "3", "503"],
    ]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("event", "reminder"), [("assignment.submitted", None), ("reminder.due", 0)])
def test_an_example_event_is_posted_like_a_real_one(
    receiver: Receiver, command: Command, event: str, reminder: int | None
) -> None:
    arguments = [] if event == "assignment.submitted" else ["--type", event]

    result = command("deliveries", "test", *arguments, webhook_url=receiver.url, webhook_secret=SECRET)

    [posted] = receiver.received
    body = posted.verified(SECRET)
    assert body.pop("timestamp").endswith("Z")
    ids = {"sessionId": 0, "assignmentId": 0, "caregiverId": 0, "clientId": 0, "reminderId": reminder}
    assert (posted.id, body) == ("evt_0", {"type": event, "data": ids})
    assert (result.exit_code, result.output) == (0, f"{posted.body.decode()}\naccepted: 200\n")


@pytest.mark.sqlite_only
def test_an_example_event_that_the_webhook_rejects_is_a_failure(receiver: Receiver, command: Command) -> None:
    receiver.answers = [503]

    rejected = command("deliveries", "test", webhook_url=receiver.url, webhook_secret=SECRET)

    assert (rejected.exit_code, rejected.output.splitlines()[1:]) == (1, ["not accepted: 503"])
    assert_rejected(command("deliveries", "test"), "CARE_WEBHOOK_URL is not set")


REFUSE_DEATHS_OF_CAREGIVER_2 = {
    "sqlite": "CREATE TRIGGER refusing BEFORE UPDATE ON delivery WHEN OLD.caregiver_id = 2"
    " BEGIN SELECT RAISE(ABORT, 'refused'); END",
    "postgresql": "ALTER TABLE delivery ADD CONSTRAINT refusing"
    " CHECK (caregiver_id <> 2 OR state = 'DEAD') NOT VALID",
}
REFUSE_DEATHS_OF_CAREGIVER_2["citus"] = REFUSE_DEATHS_OF_CAREGIVER_2["postgresql"]


def test_deliveries_of_a_caregiver_that_cannot_be_changed_are_reported_and_delay_no_others(
    care: Care, command: Command, kind: str
) -> None:
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " VALUES (2, 2, 'ASSIGNED', 5, '2026-11-21T08:30:00.000000Z'),"
        " (1, 1, 'ASSIGNED', 1, '2026-11-21T08:30:00.000000Z'),"
        " (2, 2, 'ASSIGNED', 5, '2026-11-21T08:30:00.000000Z')"
    )
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " SELECT id, caregiver_id, client_id, 'DEAD', 11, moment FROM event WHERE id > 3"
    )
    care.rows(REFUSE_DEATHS_OF_CAREGIVER_2[kind])

    every, one = command("deliveries", "retry", "--all-dead"), command("deliveries", "retry", "4")

    assert [(each.exit_code, each.stdout) for each in (every, one)] == [
        (2, "2 scheduled for delivery\n"),
        (2, "0 scheduled for delivery\n"),
    ]
    assert [each.stderr.splitlines()[-1] for each in (every, one)] == [
        f"care-gateway: {number} could not be scheduled, for the reasons above" for number in (2, 1)
    ]
    assert [each[:2] for each in care.deliveries()] == [
        (1, "WAITING"), (2, "WAITING"), (3, "DELIVERED"), (4, "DEAD"), (5, "WAITING"),
        (6, "DEAD"),
    ]  # fmt: skip


@pytest.mark.sqlite_only
def test_dead_deliveries_on_several_pages_are_retried_and_counted(care: Care, command: Command) -> None:
    care.rows(
        "INSERT INTO event (caregiver_id, client_id, kind, session_id, moment)"
        " SELECT CASE WHEN a.id = 1 AND d.id = 1 THEN 2 ELSE 1 END, 1, 'ASSIGNED', 1, b.id || c.id || e.id"
        " FROM book a, book b, book c, book d, book e, book f ORDER BY a.id, d.id"
    )
    care.rows(
        "INSERT INTO delivery (event_id, caregiver_id, client_id, state, attempts, next_date)"
        " SELECT id, caregiver_id, 1, 'DEAD', 11, '2026-11-21T08:30:00.000000Z' FROM event WHERE id > 3"
    )
    care.rows(REFUSE_DEATHS_OF_CAREGIVER_2["sqlite"])

    result = command("deliveries", "retry", "--all-dead")

    refused = 3**4  # all on the first page
    assert (result.exit_code, result.stdout) == (2, f"{1 + 3**6 - refused} scheduled for delivery\n")
    assert result.stderr.splitlines()[-1] == (
        f"care-gateway: {refused} could not be scheduled, for the reasons above"
    )


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("event", [3, 4, 2**63 - 1])
def test_a_delivered_or_unknown_event_is_not_retried(care: Care, command: Command, event: int) -> None:
    before = care.deliveries()

    assert_rejected(command("deliveries", "retry", str(event)), NOT_RETRIED.format(event))

    assert care.deliveries() == before


@pytest.mark.sqlite_only
def test_a_worker_with_an_invalid_webhook_does_not_start(command: Command) -> None:
    sentence = "CARE_WEBHOOK_URL must be https://HOST/PATH, or an http:// URL of this machine"

    assert_rejected(command("worker", webhook_url="http://example.test", webhook_secret=SECRET), sentence)


def test_a_worker_on_tables_of_an_older_version_does_not_start(
    command: Command, settings: Settings, tmp_path: Path
) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '0001'")

    assert_rejected(
        command("worker"),
        f"the tables are of version 0001, and this version needs {newest_version()}; "
        "back up, then run `care-gateway migrate`",
    )


@pytest.mark.sqlite_only
def test_the_message_about_tables_of_a_newer_version_names_the_rollback(
    command: Command, settings: Settings
) -> None:
    raw.run(settings.database, "UPDATE alembic_version SET version_num = '9999'")
    sentence = (
        "the database has the newer schema version 9999; this program supports up to "
        f"{newest_version()}: start the newer version again, or restore the backup from before the upgrade "
        '(docs/upgrading.md, "Rolling back")'
    )

    assert_rejected(command("worker"), sentence)
    assert_rejected(command("migrate"), sentence)
