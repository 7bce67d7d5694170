"""Valid Idempotency-Keys, and the checks that come before the key."""

import pytest
from httpx2 import Headers

from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_world
from tests.rest_compat.keyed import AGAIN, FIRST, KEY, KEYED, MALFORMED, parts_of, put, stored_keys
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of

pytestmark = pytest.mark.sqlite_only


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    gateway.import_records(a_world())
    return gateway


KEYS = ["x", "x" * 255, "".join(map(chr, range(0x21, 0x7F))), '"8e03978e-40d5-43dd-bc93-6894a57f9324"']


@pytest.mark.parametrize("key", KEYS, ids=["one", "255", "every character", "in quotes"])
def test_a_key_is_1_to_255_visible_characters(world: Gateway, key: str) -> None:
    assert (parts_of(put(world, key)), parts_of(put(world, key))) == (FIRST, AGAIN)
    for other in {key + "." if len(key) < 255 else key[1:], key.swapcase()} - {key}:
        assert parts_of(put(world, other)) == FIRST


BAD_KEYS: dict[str, bytes] = {
    "empty": b"",
    "256": b"x" * 256,
    "a blank": b"a b",
    "a tab": b"a\tb",
    "a control character": b"a\x7fb",
    "not ASCII": "Zoë".encode(),
    "latin": b"Zo\xeb",
}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_any_other_key_is_rejected_before_the_change(world: Gateway, key: bytes) -> None:
    before = stored(world)

    for body in (homework(), homework(endTime=None)):
        response = world.as_caregiver(1).put(ASSIGNMENTS, json=body, headers={"idempotency-key": key})

        assert rejection_of(response) == MALFORMED
    assert stored(world) == before
    assert stored_keys(world) == []


def test_two_keys_are_rejected(world: Gateway) -> None:
    headers = Headers([("idempotency-key", "a"), ("idempotency-key", "b")])
    token = world.as_caregiver(1).token
    headers["authorization"] = f"bearer {token}"

    response = world.client.request("PUT", ASSIGNMENTS, json=homework(), headers=headers)

    assert rejection_of(response) == (400, "Idempotency-Key must be given once")


def test_token_length_and_type_are_checked_before_the_key(world: Gateway) -> None:
    put(world)
    caregiver = world.as_caregiver(1)

    assert rejection_of(world.as_anonymous().put(ASSIGNMENTS, json=homework(), headers=KEYED)) == (
        401,
        "sign in with a valid bearer token",
    )
    assert rejection_of(world.as_client(1).put(ASSIGNMENTS, json=homework(), headers=KEYED)) == (
        403,
        "only a caregiver may do this",
    )
    for key in (KEY, "a b"):
        headers = {"idempotency-key": key}
        too_long = caregiver.put(ASSIGNMENTS, content=b" " * 65537, headers=headers)
        no_json = caregiver.put(ASSIGNMENTS, content=b"{}", headers={**headers, "content-type": "text/plain"})
        assert rejection_of(too_long) == (413, "the body may have at most 65536 bytes")
        assert rejection_of(no_json) == (415, "the content type must be application/json")


@pytest.mark.parametrize("key", [KEY, "a b", ""])
def test_a_get_ignores_the_key(world: Gateway, key: str) -> None:
    headers = {"idempotency-key": key}
    for path in (f"{ASSIGNMENTS}?time-state=RUNNING", f"{ASSIGNMENTS}/1"):
        keyed = world.as_caregiver(1).get(path, headers=headers)
        plain = world.as_caregiver(1).get(path)

        assert parts_of(keyed) == parts_of(plain)
        assert keyed.status_code == 200
    assert stored_keys(world) == []
