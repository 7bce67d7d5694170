"""A shadow compares answers of two services, explains noise of the old one, and counts without values."""

import gzip
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry, generate_latest

from app.cli import main
from app.http.paths import GET_CAREGIVER_ASSIGNMENT, LIST_CLIENT_SESSIONS
from moving_over.body_diff import read_masks
from moving_over.commands.shadow import save_and_show
from moving_over.comparison import Comparison, Service
from moving_over.http_client import Connection, read_address
from moving_over.http_client import Response as Received
from moving_over.recorded_calls import Call
from moving_over.shadow import MAX_BYTES, MAX_WAITING, MAX_WAITING_BYTES, SAMPLE, Shadow, application_in
from moving_over.shadow_counts import MAX_SERIES, Counts, read_counts
from tests import keys
from tests.live.processes import PATIENCE
from tests.moving_over.services import (
    JSON,
    PATH,
    Handler,
    Request,
    Response,
    fake_service,
    json_response,
)

Judged = tuple[str, dict[tuple[str, str], str]]
SAME: Judged = ("same", {})
TOKEN = keys.token("CAREGIVER", "caregiver-1")


def call(path: str = PATH, method: str = "GET", **headers: str) -> Call:
    return Call(0, method, path, None, None, headers, None, 0)


def idle_shadow(
    old: str = "http://127.0.0.1:1", new: str = "http://127.0.0.1:1", *masks: str, threads: int = 0
) -> Shadow:
    """Without threads the queue is not emptied."""
    services = (Service(name, read_address(address), []) for name, address in (("old", old), ("new", new)))
    return Shadow(Comparison(*services, read_masks(masks), 30, concurrency=threads), Counts({}))


class Pair:
    """Compares a response of an old fake service with one of a new one."""

    def __init__(
        self, stack: ExitStack, old: Response | Handler, new: Response | Handler, *masks: str
    ) -> None:
        self.old_requests: list[Request] = []
        addresses = [
            stack.enter_context(fake_service(self.counting(old))),
            stack.enter_context(fake_service(handler_of(new))),
        ]
        self.shadow = idle_shadow(*addresses, *masks)
        self.connections = [Connection(read_address(address), 10, MAX_BYTES) for address in addresses]
        for each in self.connections:
            stack.callback(each.close)

    def counting(self, response: Response | Handler) -> Handler:
        def handler(request: Request) -> Response | None:
            self.old_requests.append(request)
            return handler_of(response)(request)

        return handler

    def compare(self) -> Judged:
        old, new = self.connections
        answer = old.send_once("GET", PATH, {}, None)
        return self.shadow.compare(GET_CAREGIVER_ASSIGNMENT, call(), answer, old, new)


def handler_of(response: Response | Handler) -> Handler:
    return response if callable(response) else lambda request: response


@pytest.fixture
def pair() -> Iterator[Callable[..., Pair]]:
    with ExitStack() as stack:
        yield lambda *arguments: Pair(stack, *arguments)


def different(*found: tuple[str, str]) -> Judged:
    return "different", dict.fromkeys(found, "different")


def explained(*found: tuple[str, str]) -> Judged:
    return "explained", dict.fromkeys(found, "explained")


# --- kinds of differences ---


def nested(value: Any, depth: int) -> Any:
    return nested({"a": [value]}, depth - 1) if depth else value


ITEMS = [{"id": 7, "score": 1}, {"id": 9, "score": 2}]
KINDS: dict[str, tuple[Response, Response, tuple[str, str]]] = {
    "status": (json_response({"a": 1}), Response(404), ("200 -> 404", "status")),
    "status of a missing row": (Response(404), json_response({"a": 1}), ("404 -> 200", "status")),
    "header": (Response(), Response(headers={"Content-Type": "text/html"}), ("content-type", "header")),
    "missing member": (json_response({"content": ITEMS}), json_response({"content": [{"id": 7}, {"id": 9}]}),
        ("content[*].score", "missing")),
    "missing item": (json_response({"content": ITEMS}), json_response({"content": ITEMS[:1]}),
        ("content[*]", "missing")),
    "extra": (json_response({}), json_response({"drafts": []}), ("drafts", "extra")),
    "type": (json_response({"score": 1}), json_response({"score": "1"}), ("score", "type")),
    "value": (json_response([[1, {"a": {"b": 1}}]]), json_response([[1, {"a": {"b": 2}}]]),
        ("[*][*].a.b", "value")),
    "order of items": (json_response({"content": ITEMS}), json_response({"content": ITEMS[::-1]}),
        ("content", "order")),
    "order of members": (Response(body=b'{"a":1,"b":2}'), Response(body=b'{"b":2,"a":1}'),
        ("the body", "order")),
    "writing": (Response(body=b'{"a":1}'), Response(body=b'{"a": 1}'), ("the body", "writing")),
    "not JSON": (Response(body=b"<a>"), Response(body=b"<b>"), ("the body", "value")),
    **{
        f"the name {name}": (json_response({name: 1}), json_response({}), (member, "missing"))
        for name, member in {
            "mara@example.test": "other", "Zoë": "other", "_links": "_links", "7": "other",
            "m" * 41: "m" * 41, "m" * 42: "other", f"{'m' * 60}@": "other",
        }.items()
    },
    **{
        f"{depth} levels": (
            json_response(nested(1, depth)), json_response(nested(2, depth)), (member, "value")
        )
        for depth, member in ((6, ".".join(["a[*]"] * 6)), (7, "other"))
    },
    "an item with a negative id": (json_response([{"id": -7}, {"id": 1}]), json_response([{"id": 1}]),
        ("[*]", "missing")),
    "another type of body": (json_response([]), json_response({}), ("the body", "type")),
    "a status and a header": (json_response({}), Response(404, headers={"Content-Type": "text/html"}),
        ("200 -> 404", "status")),
}  # fmt: skip


@pytest.mark.parametrize("case", KINDS)
def test_a_difference_has_a_member_and_a_kind(pair: Callable[..., Pair], case: str) -> None:
    old, new, found = KINDS[case]

    assert pair(old, new).compare() == different(found)


def test_every_difference_of_an_answer_is_found(pair: Callable[..., Pair]) -> None:
    old = Response(body=b'{"a":1,"b":2}', headers={**JSON, "Location": "/x"})
    ordered = Response(body=b'{"b":2,"a":1}', headers={"Content-Type": "text/html"})
    changed = Response(body=b'{"a":"1"}')
    headers = [(name, "header") for name in ("content-type", "location")]

    assert pair(old, ordered).compare() == different(*headers, ("the body", "order"))
    assert pair(old, changed).compare() == different(headers[1], ("a", "type"), ("b", "missing"))


def test_masks_and_equal_answers_are_no_difference(pair: Callable[..., Pair]) -> None:
    old, new = json_response({"at": 1, "a": 2}), json_response({"at": 2, "a": 2})

    assert pair(old, old).compare() == SAME
    assert pair(old, new, "at").compare() == SAME


def test_gzip_bodies_are_compared_by_their_content(pair: Callable[..., Pair]) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    old, new, other = (
        Response(body=gzip.compress(body, level), headers=headers)
        for body, level in ((b'{"a":1}', 1), (b'{"a":1}', 9), (b'{"a":2}', 9))
    )
    assert old.body != new.body

    assert pair(old, new).compare() == SAME
    assert pair(old, other).compare() == different(("a", "value"))


def test_a_gzip_body_is_compared_to_its_end(pair: Callable[..., Pair]) -> None:
    """Some services compress each part of an answer by itself."""
    headers = {**JSON, "Content-Encoding": "gzip"}
    old, new = (
        Response(body=gzip.compress(b'{"a":1,"b":') + gzip.compress(rest), headers=headers)
        for rest in (b"1}", b"2}")
    )

    assert pair(old, old).compare() == SAME
    assert pair(old, new).compare() == different(("b", "value"))


ZIPPED = {**JSON, "content-encoding": "gzip"}
DAMAGED = {
    "cut off": gzip.compress(b"{}")[:-1],
    "no gzip": b"{}",
    "with another checksum": gzip.compress(b"{}")[:-8] + bytes(8),
    "with invalid data": gzip.compress(b"{}")[:10] + b"\xff" * 9,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_body_that_is_no_gzip_is_compared_as_it_is(pair: Callable[..., Pair], case: str) -> None:
    damaged = Response(body=DAMAGED[case], headers=ZIPPED)

    assert pair(damaged, damaged).compare() == SAME


def test_a_gzip_body_may_be_as_long_as_the_limit(pair: Callable[..., Pair]) -> None:
    longest = [Response(body=gzip.compress(bytes(MAX_BYTES), level), headers=ZIPPED) for level in (1, 9)]

    assert pair(*longest).compare() == SAME


LONG: dict[str, tuple[dict[str, str], bytes, bytes]] = {
    "gzip bodies": (ZIPPED, gzip.compress(bytes(MAX_BYTES) + b"a"), gzip.compress(bytes(MAX_BYTES) + b"b")),
    "an answer of the new service": (JSON, b"{}", bytes(MAX_BYTES + 1)),
}


@pytest.mark.parametrize("case", LONG)
def test_bodies_that_are_too_long_are_not_compared(case: str) -> None:
    """The gzip bodies differ only beyond the limit."""
    headers, old, new = LONG[case]
    with fake_service(lambda request: Response(body=new, headers=headers)) as address:
        shadow = idle_shadow(new=address, threads=1)
        shadow.offer(call(), Received(200, headers, old))
        until = time.monotonic() + PATIENCE
        while not (found := shadow.counts.of("answers")):
            assert time.monotonic() < until

    assert found == [((GET_CAREGIVER_ASSIGNMENT, "unknown", "dropped"), 1)]


def test_only_the_old_service_gets_the_host_of_the_client_again(pair: Callable[..., Pair]) -> None:
    """Another host gets another answer, which would explain every difference."""
    hosts: list[str] = []

    def old(request: Request) -> Response:
        return json_response({"a": request.headers["host"]})

    def new(request: Request) -> Response:
        hosts.append(request.headers["host"])
        return json_response({"a": "wrong"})

    one = pair(old, new)
    answer = Received(200, {"content-type": "application/json"}, b'{"a":"care.example"}')

    judged = one.shadow.compare(GET_CAREGIVER_ASSIGNMENT, call(host="care.example"), answer, *one.connections)

    assert judged == different(("a", "value"))
    assert [each.headers["host"] for each in one.old_requests] == ["care.example"]
    assert hosts == [urlsplit(one.connections[1].address.text).netloc]


# --- noise ---


def changing(**constant: object) -> Handler:
    numbers = count()
    return lambda request: json_response({"requestTime": next(numbers), **constant})


def test_a_member_that_differs_between_two_answers_of_the_old_service_is_explained(
    pair: Callable[..., Pair],
) -> None:
    one = pair(changing(score=1), json_response({"requestTime": -1, "score": 2}))

    assert one.compare() == (
        "different",
        {("requestTime", "value"): "explained", ("score", "value"): "different"},
    )


def test_learned_noise_needs_no_second_request(pair: Callable[..., Pair]) -> None:
    one = pair(changing(), json_response({"requestTime": -1}))

    judged = [one.compare() for _ in range(4)]

    assert judged == [explained(("requestTime", "value"))] * 4
    assert len(one.old_requests) == 4 + 2  # the first two differences


def test_a_difference_that_stays_is_never_noise(pair: Callable[..., Pair]) -> None:
    one = pair(changing(score=1), json_response({"requestTime": -1, "score": 2}))

    judged = [one.compare() for _ in range(4)]

    found = {("requestTime", "value"): "explained", ("score", "value"): "different"}
    assert judged == [("different", found)] * 4


def test_a_change_between_two_answers_explains_only_itself(pair: Callable[..., Pair]) -> None:
    """Otherwise every later difference of the member would be hidden."""
    answers = iter([json_response({"status": "PENDING"})])
    complete = json_response({"status": "COMPLETE"})
    one = pair(lambda request: next(answers, complete), complete)
    changed = one.compare()
    one.connections[1] = one.connections[0]
    answers = iter([json_response({"status": "PENDING"}), complete, json_response({"status": "PENDING"})])

    assert changed == explained(("status", "value"))
    assert one.compare() == different(("status", "value"))


def test_a_member_that_changes_now_and_then_is_no_noise() -> None:
    counts, status = Counts({}), ("status", "value")
    counts.learn(LIST_CLIENT_SESSIONS, [status])
    counts.learn(LIST_CLIENT_SESSIONS, [status])
    at_first = counts.is_noise(LIST_CLIENT_SESSIONS, status)

    for _ in range(18):
        counts.learn(LIST_CLIENT_SESSIONS, [])
    each_tenth = counts.is_noise(LIST_CLIENT_SESSIONS, status)
    counts.learn(LIST_CLIENT_SESSIONS, [])

    assert (at_first, each_tenth) == (True, True)
    assert not counts.is_noise(LIST_CLIENT_SESSIONS, status)


def test_a_value_that_changes_is_learned_from_equal_answers_too(pair: Callable[..., Pair]) -> None:
    answers = iter([json_response({"a": 1})] * SAMPLE)
    one = pair(lambda request: next(answers, json_response({"a": 2})), json_response({"a": 1}))

    assert [one.compare() for _ in range(SAMPLE)] == [SAME] * SAMPLE

    learned = [one.shadow.counts.of(each) for each in ("repeats", "noise")]
    path = GET_CAREGIVER_ASSIGNMENT
    assert learned == [[((path,), 1)], [((path, "a", "value"), 1)]]


def test_only_values_are_noise() -> None:
    """A list whose items are added now and then hides no missing item."""
    counts, found = Counts({}), [("content[*]", kind) for kind in ("missing", "extra", "order", "value")]
    for _ in range(2):
        counts.learn(LIST_CLIENT_SESSIONS, found)

    noise = [each for each in found if counts.is_noise(LIST_CLIENT_SESSIONS, each)]

    assert noise == [("content[*]", "value")]
    assert not counts.is_noise(GET_CAREGIVER_ASSIGNMENT, ("content[*]", "value"))


def test_a_status_that_changes_explains_the_difference(pair: Callable[..., Pair]) -> None:
    answers = iter([json_response({"id": 1})])
    one = pair(lambda request: next(answers, Response(404)), json_response({"id": 2}))

    assert one.compare() == explained(("id", "value"))


@pytest.mark.parametrize(
    "again", [Response(429), Response(503), Response(500, b'{"a":2}'), Response(408), None]
)
def test_a_repeated_read_that_fails_explains_nothing(
    pair: Callable[..., Pair], again: Response | None
) -> None:
    answers = iter([json_response({"a": 1})])
    one = pair(lambda request: next(answers, again), json_response({"a": 2}))

    assert one.compare() == different(("a", "value"))
    assert one.shadow.counts.of("repeats") == []  # nothing was learned


def test_an_old_service_that_is_down_for_the_repeated_read_explains_nothing(
    pair: Callable[..., Pair],
) -> None:
    one = pair(Response(), json_response({"a": 2}))
    one.connections[0] = Connection(read_address("http://127.0.0.1:1"), 10, MAX_BYTES)

    judged = one.shadow.compare(GET_CAREGIVER_ASSIGNMENT, call(), ONE, *one.connections)

    assert judged == different(("a", "value"))


ONE = Received(200, {"content-type": "application/json"}, b'{"a":1}')


def test_a_change_of_another_member_explains_nothing(pair: Callable[..., Pair]) -> None:
    answers = iter([json_response({"a": 1, "b": 1})])
    one = pair(
        lambda request: next(answers, json_response({"a": 1, "b": 2})), json_response({"a": 2, "b": 1})
    )

    assert one.compare() == different(("a", "value"))


def test_a_change_is_not_sent_to_the_old_service_again(pair: Callable[..., Pair]) -> None:
    one = pair(Response(), json_response({"a": 2}))
    one.shadow.comparison = replace(one.shadow.comparison, with_changes=True)

    judged = one.shadow.compare(f"PUT {PATH}", call(method="PUT"), ONE, *one.connections)

    assert judged == different(("a", "value"))
    assert one.old_requests == []


def test_a_token_that_expires_before_the_repeated_read_explains_only_its_own_status(
    pair: Callable[..., Pair],
) -> None:
    both = [iter([json_response({"a": 1})]) for _ in range(2)]
    wrong = pair(lambda request: next(both[0], Response(401)), json_response({"a": 2}))
    expired = pair(lambda request: next(both[1], Response(401)), Response(401))

    assert wrong.compare() == different(("a", "value"))
    assert expired.compare() == explained(("200 -> 401", "status"))


def test_an_equal_answer_stays_equal_if_the_repeated_read_of_the_sample_fails(
    pair: Callable[..., Pair],
) -> None:
    answers = iter([json_response({})] * SAMPLE)
    one = pair(lambda request: next(answers, Response(503)), json_response({}))

    assert [one.compare() for _ in range(SAMPLE)] == [SAME] * SAMPLE


def test_a_sample_of_equal_answers_is_requested_twice(pair: Callable[..., Pair]) -> None:
    one = pair(json_response({}), json_response({}))

    judged = [one.compare() for _ in range(SAMPLE)]

    assert judged == [SAME] * SAMPLE
    assert len(one.old_requests) == SAMPLE + 1


# --- which answers are queued ---

ANSWER = Received(200, {}, b"{}")


@pytest.mark.parametrize(
    ("one", "queued"),
    [
        (call(), 1),
        (call("/gateway/profile/client/session?time-state=RUNNING"), 1),
        (call("/gateway/profile/caregiver/session/assignment"), 1),
        (call("/gateway/profile/caregiver/session/assignment", "PUT"), 1),
        (call(PATH, "HEAD"), 0),
        (call(f"{PATH}/answers"), 0),
        (call("/gateway/profile"), 0),
    ],
)
def test_only_calls_of_the_legacy_paths_are_sent_to_the_new_service(one: Call, queued: int) -> None:
    shadow = idle_shadow()

    shadow.offer(one, ANSWER)

    assert (shadow.waiting.qsize(), shadow.counts.of("answers")) == (queued, [])


def test_the_queue_is_bounded_by_number() -> None:
    shadow = idle_shadow()

    for _ in range(MAX_WAITING + 2):
        shadow.offer(call(), ANSWER)

    assert shadow.waiting.qsize() == MAX_WAITING
    assert shadow.counts.total("answers", "dropped") == 2


def test_the_queue_is_bounded_by_bytes() -> None:
    shadow = idle_shadow()

    for _ in range(9):
        shadow.offer(call(), Received(200, {}, bytes(MAX_BYTES)))
    shadow.offer(call(), Received(200, {}, bytes(MAX_BYTES + 1)))

    assert shadow.waiting.qsize() == 8
    assert shadow.counts.total("answers", "dropped") == 2


def test_the_bytes_of_a_request_count_with_those_of_its_response() -> None:
    shadow = idle_shadow()

    shadow.offer(replace(call(), body=b"1"), Received(200, {}, bytes(MAX_BYTES - 1)))
    shadow.offer(replace(call(), body=b"12"), Received(200, {}, bytes(MAX_BYTES - 1)))

    assert shadow.waiting.qsize() == 1
    assert shadow.counts.total("answers", "dropped") == 1


def test_an_answer_leaves_the_queue_with_its_bytes() -> None:
    """One after the other, more bytes than the queue holds at once."""
    shadow = idle_shadow(threads=1)  # the new service cannot be reached
    count = 2 * MAX_WAITING_BYTES // MAX_BYTES
    for number in range(1, count + 1):
        shadow.offer(call(), Received(200, {}, bytes(MAX_BYTES)))
        until = time.monotonic() + PATIENCE
        while sum(found for _, found in shadow.counts.of("answers")) < number:
            assert time.monotonic() < until

    assert shadow.counts.of("answers") == [((GET_CAREGIVER_ASSIGNMENT, "unknown", "failed"), count)]


def test_changes_are_sent_one_after_another() -> None:
    """In their order: the second one is not sent before the response to the first one."""
    together, met = threading.Barrier(2), []

    def new(request: Request) -> Response:
        with suppress(threading.BrokenBarrierError):
            met.append(together.wait(0.2))
        return json_response({})

    with fake_service(new) as address:
        comparison = replace(idle_shadow(new=address).comparison, with_changes=True, concurrency=4)
        shadow = Shadow(comparison, Counts({}))
        for _ in range(2):
            shadow.offer(call("/gateway/profile/caregiver/session/assignment", "PUT"), ONE)
        until = time.monotonic() + PATIENCE
        while sum(number for _, number in shadow.counts.of("answers")) < 2:
            assert time.monotonic() < until

    assert met == []


def test_an_old_service_that_fails_is_counted_and_not_compared() -> None:
    shadow = idle_shadow()

    shadow.offer(call(), None)
    for status in (503, 500, 429, 408):
        shadow.offer(call(), Received(status, {}, b""))

    assert shadow.counts.of("answers") == [((GET_CAREGIVER_ASSIGNMENT, "unknown", "old failed"), 5)]


def test_an_answer_that_a_client_did_not_wait_for_is_not_compared() -> None:
    shadow = idle_shadow()

    shadow.offer(call(), None, "dropped")
    shadow.offer(call(), ANSWER, "dropped")

    assert shadow.counts.of("answers") == [((GET_CAREGIVER_ASSIGNMENT, "unknown", "dropped"), 2)]


@pytest.mark.parametrize(
    ("headers", "application"),
    [
        ({"authorization": f"bearer {TOKEN}", "user-agent": "app/1"}, "tests"),
        ({"authorization": f"Bearer {TOKEN}", "user-agent": "app/1"}, "tests"),
        ({"authorization": f"bearer {keys.token('CLIENT', 'c', client_id=None, azp='web')}"}, "web"),
        ({"authorization": f"bearer {keys.token('CLIENT', 'c', client_id='a@example.test')}"}, "unknown"),
        ({"authorization": "bearer x.y.z", "user-agent": "app/1 (x)"}, "app"),
        ({}, "unknown"),
    ],
)
def test_the_application_is_named_by_the_token_or_the_user_agent(
    headers: dict[str, str], application: str
) -> None:
    assert application_in(call(**headers)) == application


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_token_names_no_application(status: int) -> None:
    shadow = idle_shadow()

    shadow.offer(call(authorization=f"bearer {TOKEN}"), Received(status, {}, b""))

    assert shadow.waiting.get()[1] == "unknown"


# --- counts, metrics and the report ---


def some_counts(*outcomes: str) -> Counts:
    counts = Counts({})
    for outcome in outcomes:
        found = {("content[*].score", "value"): outcome} if outcome in ("explained", "different") else {}
        found |= {("title", "type"): outcome} if outcome == "different" else {}
        counts.note(LIST_CLIENT_SESSIONS, "web", outcome, found)
    return counts


def test_more_series_than_the_limit_are_counted_as_other() -> None:
    counts = some_counts("same")

    for number in range(MAX_SERIES):
        counts.note(
            LIST_CLIENT_SESSIONS, f"app-{number}", "different", {(f"m{number}", "value"): "different"}
        )

    assert len(counts.numbers) < MAX_SERIES + 10
    assert counts.total("answers", "different") == counts.total("differences", "different") == MAX_SERIES
    assert ((LIST_CLIENT_SESSIONS, "other", "other", "other", "different"), 501) in counts.of("differences")


def test_beside_any_number_of_series_known_ones_and_days_are_counted() -> None:
    series = [("answers", LIST_CLIENT_SESSIONS, f"app-{number}", "same") for number in range(MAX_SERIES)]
    counts = Counts(dict.fromkeys(series, 1))

    for _ in range(2):
        counts.note(LIST_CLIENT_SESSIONS, "app-7", "same", {})
        counts.learn(LIST_CLIENT_SESSIONS, [("a", "value")])

    assert counts.numbers[series[7]] == 3
    assert [(len(key), number) for key, number in counts.of("days")] == [(1, 2)]
    assert counts.of("repeats") == [((LIST_CLIENT_SESSIONS,), 2)]
    assert counts.of("noise") == [((LIST_CLIENT_SESSIONS, "other", "value"), 2)]


def test_as_many_series_as_the_limit_have_names_of_their_own() -> None:
    series = [("answers", LIST_CLIENT_SESSIONS, f"app-{number}", "same") for number in range(MAX_SERIES - 1)]
    counts = Counts(dict.fromkeys(series, 1))

    for name in ("last", "one-more"):
        counts.add("answers", LIST_CLIENT_SESSIONS, name, "same")

    assert sorted(counts.numbers.keys() - series) == [
        ("answers", LIST_CLIENT_SESSIONS, name, "same") for name in ("last", "other")
    ]


def test_each_difference_is_counted_with_its_own_outcome() -> None:
    counts, outcomes = Counts({}), ("different", "explained")

    counts.note(LIST_CLIENT_SESSIONS, "web", "different", {(each, "value"): each for each in outcomes})

    assert counts.of("differences") == [
        ((LIST_CLIENT_SESSIONS, "web", each, "value", each), 1) for each in outcomes
    ]


def test_a_day_counts_if_a_response_was_compared() -> None:
    assert some_counts("dropped", "failed", "old failed", "not compared").of("days") == []
    assert [number for _, number in some_counts("same", "explained", "different").of("days")] == [3]


def test_a_day_is_one_of_utc_in_any_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    late = datetime(2026, 11, 21, 23, 30, tzinfo=UTC)
    monkeypatch.setattr("moving_over.shadow_counts.utc_now", lambda: late)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        counts = some_counts("same")
    time.tzset()

    assert counts.of("days") == [(("2026-11-21",), 1)]


def test_counts_are_saved_although_nobody_reads_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of standard error may have ended before the shadow, which saves its counts each minute."""
    reader, writer = os.pipe()
    os.close(reader)
    counts = some_counts("same")
    with open(writer, "wb", buffering=0) as closed:
        monkeypatch.setattr("sys.stderr", TextIOWrapper(closed, write_through=True))
        for _ in range(2):
            save_and_show(counts, tmp_path / "s")
        monkeypatch.undo()

    assert read_counts(tmp_path / "s").numbers == counts.numbers


def test_metrics_show_the_counts() -> None:
    registry = CollectorRegistry()
    registry.register(some_counts("same", "same", "different"))

    path = f'path="{LIST_CLIENT_SESSIONS}"'
    assert [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"] == [
        f'care_shadow_answers_total{{application="web",outcome="different",{path}}} 1.0',
        f'care_shadow_answers_total{{application="web",outcome="same",{path}}} 2.0',
        f'care_shadow_differences_total{{application="web",kind="value",member="content[*].score",'
        f'outcome="different",{path}}} 1.0',
        f'care_shadow_differences_total{{application="web",kind="type",member="title",'
        f'outcome="different",{path}}} 1.0',
    ]


def report(file: Path, counts: Counts | None = None) -> Result:
    if counts is not None:
        file.write_bytes(orjson.dumps([[*key, number] for key, number in counts.numbers.items()]))
    return CliRunner().invoke(main, ["legacy", "shadow", "report", "--state", str(file)])


def test_the_report_lists_the_counts_and_ends_with_a_verdict(tmp_path: Path) -> None:
    numbers = {"same": 4, "explained": 6, "different": 2, "dropped": 5, "failed": 3, "old failed": 1}
    result = report(tmp_path / "s", some_counts(*Counter(numbers).elements()))

    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            *(f"{LIST_CLIENT_SESSIONS}\tweb\t{outcome}\t{numbers[outcome]}" for outcome in sorted(numbers)),
            f"{LIST_CLIENT_SESSIONS}\tweb\tcontent[*].score\tvalue\tdifferent\t2",
            f"{LIST_CLIENT_SESSIONS}\tweb\tcontent[*].score\tvalue\texplained\t6",
            f"{LIST_CLIENT_SESSIONS}\tweb\ttitle\ttype\tdifferent\t2",
            "12 answers of 1 day, 4 unexplained differences, 5 dropped, 3 failed, 1 old failed",
        ],
    )


@pytest.mark.parametrize(
    ("outcomes", "exit_code"),
    [(["same"], 0), (["explained"], 0), (["same", "different"], 1), (["failed", "dropped"], 3), ([], 3)],
)
def test_the_exit_code_of_the_report_is_its_verdict(
    tmp_path: Path, outcomes: list[str], exit_code: int
) -> None:
    assert report(tmp_path / "shadow.json", some_counts(*outcomes)).exit_code == exit_code


def test_counts_of_several_days_are_read_again(tmp_path: Path) -> None:
    counts = some_counts("same")
    counts.numbers |= {("days", f"2026-11-{day:02}"): 1 for day in range(1, 14)}

    assert report(tmp_path / "s", counts).stdout.endswith(
        "1 answer of 14 days, 0 unexplained differences, 0 dropped, 0 failed, 0 old failed\n"
    )
    assert read_counts(tmp_path / "s").numbers == counts.numbers


@pytest.mark.parametrize("content", [None, "", "{", "7", '[["a","b"]]'])
def test_an_unusable_state_file_is_rejected(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "shadow.json"
    if content is not None:
        file.write_text(content)

    result = report(file)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"care-gateway: {file} cannot be read: ")
