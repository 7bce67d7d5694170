"""The legacy paths reject every invalid request as documented, never with a 200."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.conftest import served
from tests.fuzz.direct_requests import Asked, Direct
from tests.fuzz.handwritten_requests import AS_CLIENT, BAD_TOKENS, ENTRANCES, ODD, WRONG
from tests.fuzz.response_rules import judge
from tests.rest_compat.legacy import SESSIONS

CAREGIVER = frozenset({"CAREGIVER"})
CLIENT = frozenset({"CLIENT"})


@pytest.fixture(scope="module")
def standing(wide_world: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Direct]:
    with served(wide_world, tmp_path_factory.mktemp("by-hand")) as one:
        yield one


def test_invalid_requests_are_rejected_as_documented(standing: Direct, complaints: list[str]) -> None:
    let_in = []

    for asked in WRONG:
        answered = standing.ask(asked)
        judge(asked, answered, CAREGIVER)
        if answered.status == 200:
            let_in.append(asked)

    assert let_in == []
    assert complaints == []


@pytest.mark.parametrize("entrance", ENTRANCES, ids=["a list", "an assignment", "assigning"])
def test_bad_tokens_are_rejected(standing: Direct, complaints: list[str], entrance: Asked) -> None:
    for token in BAD_TOKENS:
        asked = entrance.saying((b"authorization", token))
        answered = standing.ask(asked)
        judge(asked, answered, frozenset())
        assert answered.status in (401, 403), token
    assert complaints == []


def test_unusual_valid_requests_are_answered(standing: Direct, complaints: list[str]) -> None:
    refused = []

    for asked in ODD:
        answered = standing.ask(asked)
        judge(asked, answered, CAREGIVER)
        if answered.status != 200:
            refused.append((asked, answered.body))

    assert refused == []
    assert complaints == []


def test_an_unsafe_request_id_is_not_returned(standing: Direct) -> None:
    for value in (b"a\r\nset-cookie: b", b"a\nb", b"\x00", b"x" * 65, "é".encode(), b"", b"a b", b"<script>"):
        asked = Asked("GET", SESSIONS, "time-state=RUNNING", (AS_CLIENT, (b"x-request-id", value)))
        answered = standing.ask(asked)
        judge(asked, answered, CLIENT)
        assert (answered.header(b"x-request-id") or "").encode("latin-1") != value
