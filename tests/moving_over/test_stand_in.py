"""Each misbehaviour of the stand-in changes an answer while it is switched on, and only then."""

from collections.abc import Iterator

import httpx2
import pytest

from app.settings import Settings
from tests import keys
from tests.callers import load
from tests.factories import a_world
from tests.moving_over.conftest import serving
from tests.moving_over.recordings import PATHS
from tests.moving_over.services import fake_service, forwarding_to
from tests.moving_over.stand_in import MISBEHAVIOURS, OldService

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

# Calls of a caregiver and a client.
CALLS = [
    ("CAREGIVER", f"{PATHS['caregiver']}?time-state=RUNNING&page=1&size=1"),
    ("CAREGIVER", f"{PATHS['caregiver']}?time-state=RUNNING&page=0&size=20"),
    ("CAREGIVER", f"{PATHS['caregiver']}/1"),
    ("CLIENT", f"{PATHS['client']}?time-state=RUNNING&page=0&size=1"),
]


@pytest.fixture
def old(settings: Settings) -> Iterator[OldService]:
    load(settings.database, a_world())
    with serving(settings) as gateway:
        old = OldService(forwarding_to(gateway.client))
        old.expired = {keys.token("CAREGIVER", "caregiver-1")}
        old.values = {"score": 77}
        old.hidden = {1}
        old.released.set()
        yield old


def answers(address: str) -> list[object]:
    found: list[object] = []
    for role, path in CALLS:
        headers = {"authorization": f"bearer {keys.token(role, f'{role.lower()}-1')}"}
        try:
            with httpx2.stream("GET", address + path, headers=headers) as response:
                found.append((response.status_code, b"".join(response.iter_raw())))
        except httpx2.HTTPError as error:
            found.append(type(error))
    return found


@pytest.mark.parametrize("name", [name for name in MISBEHAVIOURS if name != "hangs"])
def test_a_misbehaviour_shows_while_it_is_on(old: OldService, name: str) -> None:
    with fake_service(old) as address:
        before = answers(address)
        with old.misbehaving(name):
            meanwhile = answers(address)
        after = answers(address)

    assert meanwhile != before
    assert after == before


def test_a_misbehaviour_can_happen_now_and_then(old: OldService) -> None:
    with fake_service(old) as address, old.misbehaving("sends 502", first=4, every=2):
        statuses = [httpx2.get(address + CALLS[0][1]).status_code for _ in range(6)]

    assert statuses == [401, 502, 401, 502, 401, 401]
    assert len(MISBEHAVIOURS) >= 20
