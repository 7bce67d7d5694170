"""Until the switch is declared, people read here, and every change of theirs is rejected with 503."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from httpx2 import Response

from app.auth.authenticator import ACCOUNT_CACHE_SECONDS, Authenticator
from app.db.statements.switch import SwitchState, saving_switch
from app.http.paths import ASSIGNMENTS
from tests.access.documents import mutation_document
from tests.access.table import CHANGES, PATHS, is_for
from tests.access.test_legacy_paths import send
from tests.access.viewers import MINE, assert_rejects_outsiders, post, sign_in, write_in
from tests.callers import Caller, Gateway
from tests.cli.conftest import Command, command, no_settings
from tests.database_rows import stored
from tests.db import raw

__all__ = ["command", "no_settings"]

MESSAGE = "nothing was changed: until the switch, make changes in the old service"


@pytest.fixture(scope="module")
def waiting(changing: Gateway) -> Iterator[Gateway]:
    declare(changing, SwitchState.WAITING)
    yield changing


def declare(gateway: Gateway, state: SwitchState) -> None:
    assert gateway.client.portal is not None
    gateway.client.portal.call(gateway.database.write, saving_switch(state))
    expire_accounts(gateway)


def expire_accounts(gateway: Gateway) -> None:
    """Then a declaration is known."""
    authenticator: Authenticator = gateway.client.app_state["authenticator"]
    ticks = authenticator.ticks
    authenticator.ticks = lambda: ticks() + ACCOUNT_CACHE_SECONDS


def viewer_of(who: str) -> str:
    return next(viewer for viewer in MINE if is_for(who, viewer))


@pytest.mark.parametrize("change", CHANGES)
def test_a_mutation_is_rejected(waiting: Gateway, change: str) -> None:
    row, query = CHANGES[change], mutation_document(change)
    viewer = viewer_of(row.who)
    before = stored(waiting)

    def change_as(caller: Caller) -> Response:
        return post(caller, query, {"input": write_in(row.given, MINE[viewer])})

    answer = change_as(sign_in(waiting, viewer))

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    [error] = answer.json()["errors"]
    assert (error["message"], error["extensions"]) == (MESSAGE, {"code": "READ_ONLY", "requestId": "r"})
    assert_rejects_outsiders(waiting, change_as)
    assert stored(waiting) == before


def test_the_legacy_put_is_rejected_and_counted(waiting: Gateway) -> None:
    before, row = stored(waiting), PATHS["assign homework"]
    usage = waiting.client.app_state["usage"]
    usage.take()

    answer = send(sign_in(waiting, "A"), row, "AX")
    unreadable = sign_in(waiting, "A").put(ASSIGNMENTS, content=b"")  # as the shadow sends it

    body: dict[str, Any] = orjson.loads(answer.content)
    assert body.pop("timestamp")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert body == {"status": 503, "error": "Service Unavailable", "message": MESSAGE, "path": ASSIGNMENTS}
    assert unreadable.status_code == 404
    assert [(each.path, each.requests) for each in usage.take()] == [(f"PUT {ASSIGNMENTS}", 2)]
    assert stored(waiting) == before


def test_a_rejection_is_recorded(waiting: Gateway) -> None:
    find = "SELECT count(*) FROM audit_record WHERE outcome = 'READ_ONLY' AND operation = 'assignHomework'"
    before = raw.run(waiting.settings.database, find)[0][0]

    send(sign_in(waiting, "A"), PATHS["assign homework"], "AX")

    assert raw.run(waiting.settings.database, find)[0][0] == before + 1


def test_reads_are_answered(waiting: Gateway) -> None:
    for name in ("list sessions", "list assignments", "get assignment"):
        row = PATHS[name]
        assert send(sign_in(waiting, viewer_of(row.who)), row, MINE[viewer_of(row.who)]).status_code == 200
    assert post(sign_in(waiting, "A"), "{ sessions { totalCount } }").status_code == 200


def test_commands_declare_the_switch_and_the_way_back(waiting: Gateway, command: Command) -> None:
    row, url = PATHS["assign homework"], waiting.settings.database

    declared = command("legacy", "switch", database_url=url)
    expire_accounts(waiting)
    accepted = send(sign_in(waiting, "A"), row, "AX")
    back = command("legacy", "switch", "--back", database_url=url)
    expire_accounts(waiting)
    rejected = send(sign_in(waiting, "A"), row, "AX")

    assert (declared.exit_code, declared.output) == (0, "within 5 s changes by people are accepted\n")
    assert (back.exit_code, back.output) == (
        0, "within 5 s changes by people are rejected: people use the old service\n"
    )  # fmt: skip
    assert (accepted.status_code, rejected.status_code) == (200, 503)
    records = raw.run(url, "SELECT outcome FROM audit_record WHERE operation = 'switch'")
    assert [row[0] for row in records] == ["DONE", "DONE"]
