"""Promise: an Idempotency-Key stores a bounded response, and storing and replaying are charged. A longer
response is built again from the result of its change, which is still made once."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from app.http import idempotency
from app.http.idempotency import MAX_STORED, REPLAY_POINTS
from app.main import create_app
from app.settings import Settings
from tests.answers import FITTING, SAVE, TEST, a_world_to_answer_in, to_answer
from tests.callers import Gateway, opened
from tests.database_rows import stored
from tests.db import raw
from tests.factories import NOW, a_world
from tests.rest_compat.legacy import ASSIGNMENTS, homework, rejection_of
from tests.schema.keyed import KEYED, REPLAYED, post
from tests.schema.limited import described, limited_gateway, only_budget

POINTS = 100_000
DESCRIPTION = "x" * 10_000
UPDATE = "mutation($title: String) { updateSession(input: {sessionId: 1, title: $title}) { session { %s } } }"
REFUSED = "too many points were used within a minute"


@pytest.fixture
def limited(settings: Settings) -> Iterator[Gateway]:
    """A viewer's points do not grow."""
    with limited_gateway(settings, POINTS, described(a_world(), DESCRIPTION)) as gateway:
        yield gateway


def update(gateway: Gateway, aliases: int, title: str = "New") -> Response:
    selected = " ".join(f"a{n}: description" for n in range(aliases))
    body: dict[str, Any] = {"query": UPDATE % f"title {selected}", "variables": {"title": title}}
    return post(gateway.as_caregiver(1), body)


def stored_bytes(gateway: Gateway) -> list[int | None]:
    return [row[0] for row in raw.run(gateway.settings.database, "SELECT length(body) FROM idempotency_key")]


def test_a_response_up_to_64_kib_is_stored_and_charged(limited: Gateway) -> None:
    response = update(limited, 6)

    length = len(response.content)
    assert 60_000 < length < MAX_STORED
    assert stored_bytes(limited) == [length]
    assert POINTS - only_budget(limited).left == 50 + 1 + 1 + 6 * 10 + 33 * (length // 1024)


def test_a_longer_response_is_not_stored_and_is_built_again(limited: Gateway) -> None:
    first = update(limited, 7)
    once = stored(limited)
    repeated = [update(limited, 7) for _ in range(2)]

    assert len(first.content) > MAX_STORED
    assert stored_bytes(limited) == [None]
    for each in repeated:
        assert (each.status_code, each.content) == (200, first.content)
        assert REPLAYED in each.headers.items()
    assert stored(limited) == once


def test_a_response_with_answers_is_not_stored_without_an_audit_log_either(settings: Settings) -> None:
    own = settings.model_copy(update={"audit": False})
    body = {"query": SAVE, "variables": {"input": to_answer(TEST, FITTING)}}

    with opened(create_app(own, lambda: NOW)) as client:
        gateway = Gateway(client, own)
        gateway.import_records(a_world_to_answer_in())
        first, second = [post(gateway.as_client(1), body) for _ in range(2)]

    assert FITTING[4] in first.text
    assert second.content == first.content
    assert stored_bytes(gateway) == [None]


def test_a_response_of_exactly_the_limit_is_stored(limited: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(idempotency, "MAX_STORED", 0)
    length = len(update(limited, 1).content)
    for limit in (length - 1, length):
        monkeypatch.setattr(idempotency, "MAX_STORED", limit)
        update(limited, 1)
        found.append(stored_bytes(limited))

    assert found == [[None], [length]]


def test_a_change_that_was_made_is_answered_although_its_response_costs_more_than_is_left(
    limited: Gateway,
) -> None:
    assert limited.as_caregiver(1).post_graphql("{ viewer { role } }").status_code == 200
    only_budget(limited).left = 200

    response = update(limited, 6)

    assert (response.status_code, stored_bytes(limited)) == (200, [len(response.content)])
    assert only_budget(limited).left < -1000  # a debt


def test_a_replay_is_charged_as_a_lookup_and_its_bytes(limited: Gateway) -> None:
    first = update(limited, 6)
    before = only_budget(limited).left

    replayed = update(limited, 6)

    assert replayed.content == first.content
    assert before - only_budget(limited).left == REPLAY_POINTS + len(first.content) // 1024


def test_a_replay_without_points_is_rejected_and_possible_later(limited: Gateway) -> None:
    first = update(limited, 2)
    only_budget(limited).left = REPLAY_POINTS - 1

    refused = update(limited, 2)
    only_budget(limited).left = POINTS

    assert (refused.status_code, refused.json()["errors"][0]["message"]) == (429, REFUSED)
    assert refused.headers["retry-after"] == "1"
    assert update(limited, 2).content == first.content


def test_building_a_response_again_is_charged_like_a_read(limited: Gateway) -> None:
    """The change itself, which is not made again, stores nothing."""
    first = update(limited, 7, title="x" * 200)
    raw.run(limited.settings.database, "UPDATE idempotency_key SET status = NULL, body = NULL")
    before = only_budget(limited).left

    update(limited, 7, title="x" * 200)

    assert before - only_budget(limited).left == 50 + 1 + 1 + 7 * 10 + len(first.content) // 1024


def test_a_legacy_replay_is_charged(limited: Gateway) -> None:
    caregiver = limited.as_caregiver(1)
    first = caregiver.put(ASSIGNMENTS, json=homework(), headers=KEYED)
    before = only_budget(limited).left

    replayed = caregiver.put(ASSIGNMENTS, json=homework(), headers=KEYED)
    left = only_budget(limited).left
    only_budget(limited).left = 0
    refused = caregiver.put(ASSIGNMENTS, json=homework(), headers=KEYED)

    assert (replayed.status_code, replayed.content) == (first.status_code, first.content)
    assert before - left == REPLAY_POINTS
    assert rejection_of(refused) == (429, REFUSED)
