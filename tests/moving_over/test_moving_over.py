"""The commands of docs/moving-over.md print what it shows, between two instances of the service."""

import re
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from app.settings import Settings
from tests import keys, pages
from tests.callers import load
from tests.cli.conftest import Command
from tests.db import raw
from tests.factories import a_world
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS
from tests.moving_over.services import Request, Response, fake_service, forwarding_to
from tests.moving_over.shadows import shadowing
from tests.moving_over.stand_in import OldService
from tests.rest_compat.legacy import homework

pytestmark = [pytest.mark.live, pytest.mark.parametrize("kind", ["sqlite"], indirect=True)]

COMMAND = re.compile(r"^\$ care-gateway (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
BARS = [f"{label}\n" for label in ("recording", "reading", "importing", "comparing")]  # of progress
LISTS = [f"{path}?time-state=RUNNING" for path in PATHS.values()]
LIST = f"GET {PATHS['caregiver']}"
ONE = f"{PATHS['caregiver']}/1"


def token(path: str) -> str:
    role = "CAREGIVER" if "caregiver" in path else "CLIENT"
    return f"bearer {keys.token(role, f'{role.lower()}-1', client_id='mobile')}"


class Runbook:
    def __init__(self, command: Command, old: str, new: str, database: str, folder: Path) -> None:
        self.command, self.database, self.folder = command, database, folder
        self.addresses = {"https://old.example": old, "https://new.example": new}

    def run(self, line: str) -> str:
        words = [self.addresses.get(word, word) for word in shlex.split(line)]
        if "--port" in words:
            return self.shadow(*words[3:7:2])
        result = self.command(*words, database_url=self.database)
        assert result.exit_code in (0, 1), result.output
        return "".join(line for line in result.output.splitlines(keepends=True) if line not in BARS)

    def shadow(self, old: str, new: str) -> str:
        """Meanwhile people read, and a caregiver assigns homework."""
        with shadowing(self.folder, old, new) as shadow:
            for path in (*LISTS, ONE):
                fetch(shadow.url, "GET", path)
            fetch(shadow.url, "PUT", PATHS["caregiver"], homework())
            fetch(shadow.url, "GET", LISTS[0])
            shadow.wait_for(
                f'outcome="different",path="{LIST}"',
                f'outcome="same",path="{LIST}"',
                f'outcome="same",path="{LIST}/{{id}}"',
                f'outcome="same",path="GET {PATHS["client"]}"',
            )
            code, lines = shadow.stop()
        assert code == 0
        return f"{lines[-1]}\n"


def fetch(url: str, method: str, path: str, body: object = None) -> None:
    response = httpx2.request(method, url + path, headers={"authorization": token(path)}, json=body)
    assert response.status_code == 200, response.text


def test_the_commands_of_the_page_print_what_it_shows(
    settings: Settings,
    new_settings: Settings,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    load(settings.database, a_world())
    for role in ("caregiver", "client"):
        people = [keys.token(role.upper(), f"{role}-{number}") for number in (1, 2)]
        Path(f"{role}s.txt").write_text("\n".join(people))
    commands = COMMAND.findall(
        "".join(
            block.text for block in pages.blocks(pages.read("docs/moving-over.md")) if block.kind == "console"
        )
    )
    printed = []
    with ExitStack() as stack:
        uncached = new_settings.model_copy(update={"token_cache": 0})  # the switch counts at once
        old, new = (stack.enter_context(serving(each)) for each in (settings, uncached))
        services = (OldService(forwarding_to(each.client)) for each in (old, new))
        addresses = (stack.enter_context(fake_service(each)) for each in services)
        runbook = Runbook(command, *addresses, new_settings.database, tmp_path)
        for line, shown in commands:
            if "recording-2 --caregivers" in line:
                for name, each in (("There", settings), ("Here", new_settings)):
                    raw.run(each.database, f"UPDATE session SET description = '{name}' WHERE id = 5")
            printed.append((line, runbook.run(line), shown))
            if line == "legacy switch":
                assert new.as_caregiver(1).put(PATHS["caregiver"], json=homework()).status_code == 200

    assert len(printed) == 14
    assert [line for line, real, shown in printed if not is_shown(real, shown)] == [], printed


def is_shown(real: str, shown: str) -> bool:
    """In place of some lines a page shows dots."""
    parts = (".*" if line == "...\n" else re.escape(line) for line in shown.splitlines(keepends=True))
    return re.fullmatch("".join(parts), real, re.DOTALL) is not None


# --- an old service that misbehaves ---


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def apply(body: bytes) -> bytes:
        page = orjson.loads(body)
        change(page)
        return orjson.dumps(page)

    return apply


numbers = count()
MISBEHAVIOURS: dict[str, tuple[Callable[[bytes], bytes], list[str]]] = {
    "adds a request number": (
        changed(lambda page: page.update(requestNumber=next(numbers))),
        ["requestNumber\tmissing\tdifferent"],
    ),
    "has random scores": (
        changed(lambda page: page["content"][0].update(score=next(numbers) + 100)),
        ["content[*].score\tvalue\texplained"],
    ),
    "has other scores": (
        changed(lambda page: page["content"][0].update(score=77)),
        ["content[*].score\tvalue\tdifferent"],
    ),
    "writes numbers as text": (
        changed(lambda page: page.update(totalElements=str(page["totalElements"]))),
        ["totalElements\ttype\tdifferent"],
    ),
    "omits a member": (changed(lambda page: page.pop("sort")), ["sort\textra\tdifferent"]),
    "sorts differently": (
        changed(lambda page: page["content"].reverse()),
        ["content\torder\tdifferent"],
    ),
    "indents": (
        lambda body: orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2),
        ["the body\twriting\tdifferent"],
    ),
    "does nothing wrong": (lambda body: body, []),
}


@pytest.mark.parametrize("case", MISBEHAVIOURS)
def test_the_report_names_how_an_old_service_misbehaves(
    settings: Settings, command: Command, tmp_path: Path, case: str
) -> None:
    misbehave, expected = MISBEHAVIOURS[case]
    load(settings.database, a_world())
    with serving(settings) as gateway:
        forward = forwarding_to(gateway.client)

        def old(request: Request) -> Response:
            response = forward(request)
            assert response is not None
            return replace(response, body=misbehave(response.body))

        with (
            fake_service(old) as one,
            fake_service(forward) as other,
            shadowing(tmp_path, one, other) as shadow,
        ):
            fetch(shadow.url, "GET", LISTS[0])
            shadow.wait_for(f'path="{LIST}"}} 1.0')
            shadow.stop()
    report = command("legacy", "shadow", "report", "--state", str(shadow.state))

    lines = report.stdout.splitlines()[1:-1]
    assert lines == [f"{LIST}\tmobile\t{each}\t1" for each in expected]
    assert report.exit_code == any("different" in each for each in expected)


def test_a_change_through_the_shadow_is_in_the_usage_report_of_the_new_service(
    settings: Settings, new_settings: Settings, command: Command, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for each in (settings, new_settings):
            load(each.database, a_world())
        old, new = (stack.enter_context(serving(each)) for each in (settings, new_settings))
        before = new.as_caregiver(1).get(LISTS[0]).json()
        addresses = (stack.enter_context(fake_service(forwarding_to(each.client))) for each in (old, new))
        shadow = stack.enter_context(shadowing(tmp_path, *addresses))
        fetch(shadow.url, "PUT", PATHS["caregiver"], homework())
        shadow.wait_for('outcome="not compared"')
        assert new.as_caregiver(1).get(LISTS[0]).json() == before
    report = command("legacy", "report", database_url=new_settings.database).stdout.splitlines()

    assert report[report.index(f"PUT {PATHS['caregiver']}") + 1].startswith(
        "  still 1 application: mobile (1 request, "
    )
