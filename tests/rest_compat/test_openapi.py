"""openapi.yaml describes the service: paths and methods, members and their order, every status, and examples
that are real responses for the demo data."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis

from app.db.admin.demo import CAREGIVER, CLIENT, demo_lines
from app.db.interchange.load import importing
from app.http import paths
from app.rest_compat.homework import REQUIRED
from tests import keys, openapi
from tests.callers import Caller, Gateway, run_write
from tests.factories import NOW
from tests.rest_compat.legacy import ASSIGNMENTS, SESSIONS, TIMESTAMP
from tests.rest_compat.test_failures import DECIDED

BEFORE_THE_CODES = {404, 405, 413, 415}  # refused by the path, the method or the length and type of the body


def test_the_document_is_valid() -> None:
    schema = schemathesis.openapi.from_path(openapi.PATH)

    schema.validate()

    assert openapi.DOCUMENT["openapi"] == "3.1.0"
    assert all(found.ok() for found in schema.get_all_operations())


# --- paths, methods, statuses ----------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_the_document_has_the_paths_and_methods_of_the_service(standing: Gateway) -> None:
    """Sends every method to each path; the allowed methods are the documented ones."""
    for template, item in openapi.PATHS.items():
        documented = sorted(method.upper() for method in openapi.METHODS if method in item)
        refused = standing.as_caregiver(1).request("REPORT", template.replace("{id}", "1"))

        assert refused.status_code == 405
        assert refused.headers["allow"] == ", ".join(sorted([*documented, "HEAD"]))


@pytest.mark.sqlite_only
def test_the_document_has_every_path(standing: Gateway) -> None:
    assert sorted(openapi.PATHS) == [ASSIGNMENTS, f"{ASSIGNMENTS}/{{id}}", SESSIONS]
    assert all(path.startswith(paths.ROOT) for path in openapi.PATHS)


def test_the_document_has_exactly_the_statuses_of_the_service() -> None:
    documented = {int(status) for *_, operation in openapi.operations() for status in operation["responses"]}
    of_other_methods = {
        response["content"]["application/json"]["examples"]["delete"]["value"]["status"]
        for item in openapi.PATHS.values()
        for response in [openapi.resolved(item["x-other-methods"])]
    }

    assert documented | of_other_methods == {200, *DECIDED.values(), *BEFORE_THE_CODES}
    assert set(DECIDED.values()) < documented


EVERYWHERE = {"200", "400", "401", "403", "429", "500", "503"}
STATUSES = {
    ("GET", SESSIONS): EVERYWHERE,
    ("GET", ASSIGNMENTS): EVERYWHERE,
    ("GET", f"{ASSIGNMENTS}/{{id}}"): EVERYWHERE | {"404"},
    ("PUT", ASSIGNMENTS): EVERYWHERE | {"404", "409", "413", "415", "422"},
}


def test_every_operation_has_the_statuses_of_its_checks() -> None:
    """The order of checks is that of docs/legacy-contract.md; a GET has no body, key or session to reject."""
    documented = {
        (method, path): set(operation["responses"]) for path, method, operation in openapi.operations()
    }

    assert documented == STATUSES


def test_all_errors_have_the_same_body() -> None:
    for *_, operation in openapi.operations():
        for status, response in operation["responses"].items():
            schema = openapi.resolved(response)["content"]["application/json"]["schema"]
            assert (schema["$ref"] == "#/components/schemas/Error") == (status != "200")


# --- members ---------------------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_responses_have_exactly_the_documented_members_in_order(standing: Gateway) -> None:
    sessions = standing.as_client(1).get(f"{SESSIONS}?time-state=RUNNING").json()
    assignments = standing.as_caregiver(1).get(f"{ASSIGNMENTS}?time-state=RUNNING").json()
    answer_set = standing.as_caregiver(1).get(f"{ASSIGNMENTS}/1").json()["answers"][0]
    bodies = {
        "PageOfSessions": sessions,
        "PageOfAssignments": assignments,
        "Session": sessions["content"][0],
        "Assignment": assignments["content"][0],
        "AnswerSet": answer_set,
        "Answer": answer_set["answers"][0],
        "Assigned": {"message": ""},
    }
    for name, body in bodies.items():
        schema = openapi.SCHEMAS[name]
        assert list(schema["properties"]) == schema["required"] == list(body), name
        assert schema["additionalProperties"] is False


@pytest.mark.sqlite_only
def test_an_error_has_exactly_the_documented_members(standing: Gateway) -> None:
    body = standing.as_anonymous().get(SESSIONS).json()

    assert list(openapi.SCHEMAS["Error"]["properties"]) == list(body)
    assert openapi.SCHEMAS["Error"]["required"] == list(body)


def test_the_document_requires_the_members_that_the_service_requires() -> None:
    assert tuple(openapi.SCHEMAS["Homework"]["required"]) == REQUIRED
    assert set(openapi.SCHEMAS["Homework"]["properties"]) == {*REQUIRED, "remindDates"}


# --- examples --------------------------------------------------------------------------------------


@pytest.fixture
def demo(gateway: Gateway) -> Gateway:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    return gateway


PUT = openapi.PATHS[ASSIGNMENTS]["put"]
HOMEWORK = PUT["requestBody"]["content"]["application/json"]["examples"]
TWO_BOOKS, ONE_BOOK = (HOMEWORK[name]["value"] for name in ("twoBooks", "oneBook"))
KEY = {"idempotency-key": "a-key"}

# The request behind every example: who asks, method, path, and what else it says.
REQUESTS: dict[tuple[str, str, str, str], tuple[str, str, dict[str, Any]]] = {
    ("GET", SESSIONS, "200", "nullMembers"): ("client", "?time-state=FUTURE", {}),
    ("GET", SESSIONS, "200", "running"): ("client", "?time-state=RUNNING&size=1", {}),
    ("GET", SESSIONS, "200", "none"): ("another client", "?time-state=COMPLETED", {}),
    ("GET", SESSIONS, "400", "timeState"): ("client", "?time-state=running", {}),
    ("GET", ASSIGNMENTS, "200", "completed"): ("caregiver", "?time-state=COMPLETED", {}),
    ("GET", ASSIGNMENTS, "200", "none"): ("caregiver", "?time-state=FUTURE", {}),
    ("GET", ASSIGNMENTS, "400", "timeState"): ("caregiver", "", {}),
    ("GET", ASSIGNMENTS, "401", "noToken"): ("anonymous", "", {}),
    ("GET", ASSIGNMENTS, "403", "aClient"): ("client", "", {}),
    ("GET", f"{ASSIGNMENTS}/{{id}}", "200", "complete"): ("caregiver", "/1", {}),
    ("GET", f"{ASSIGNMENTS}/{{id}}", "200", "pending"): ("caregiver", "/3", {}),
    ("GET", f"{ASSIGNMENTS}/{{id}}", "400", "noNumber"): ("caregiver", "/first", {}),
    ("GET", f"{ASSIGNMENTS}/{{id}}", "404", "notThere"): ("caregiver", "/999", {}),
    ("PUT", ASSIGNMENTS, "200", "assigned"): ("caregiver", "", {"json": TWO_BOOKS}),
    ("PUT", ASSIGNMENTS, "400", "notInTheCalendar"): (
        "caregiver",
        "",
        {"json": TWO_BOOKS | {"startDate": "2026/02/30"}},
    ),
    ("PUT", ASSIGNMENTS, "400", "noObject"): ("caregiver", "", {"content": b"[]"}),
    ("PUT", ASSIGNMENTS, "404", "incomplete"): ("caregiver", "", {"json": {}}),
    ("PUT", ASSIGNMENTS, "404", "noSession"): ("caregiver", "", {"json": TWO_BOOKS | {"sessionId": 999}}),
    ("PUT", ASSIGNMENTS, "409", "notRunning"): ("caregiver", "", {"json": TWO_BOOKS | {"sessionId": 3}}),
    ("PUT", ASSIGNMENTS, "413", "tooLong"): ("caregiver", "", {"content": b" " * (64 * 1024 + 1)}),
    ("PUT", ASSIGNMENTS, "415", "text"): ("caregiver", "", {"headers": {"content-type": "text/plain"}}),
    ("PUT", ASSIGNMENTS, "422", "keyTaken"): ("caregiver", "", {"json": ONE_BOOK, "headers": KEY}),
    ("DELETE", SESSIONS, "405", "delete"): ("client", "", {}),
}


def examples() -> Iterator[tuple[tuple[str, str, str, str], Any]]:
    """Examples of shared responses appear once, for the operation that has a request."""
    for path, method, operation in openapi.operations():
        for status, response in operation["responses"].items():
            content = openapi.resolved(response)["content"]["application/json"]
            for name, example in content.get("examples", {}).items():
                key = (method, path, status, name)
                if "$ref" not in response or key in REQUESTS:
                    yield key, example["value"]
    other = openapi.DOCUMENT["components"]["responses"]["WrongMethod"]["content"]["application/json"]
    yield ("DELETE", SESSIONS, "405", "delete"), other["examples"]["delete"]["value"]


EXAMPLES = dict(examples())


def test_every_example_has_a_request() -> None:
    assert EXAMPLES.keys() == REQUESTS.keys()
    shared = {
        name
        for response in openapi.DOCUMENT["components"]["responses"].values()
        for name in response["content"]["application/json"].get("examples", {})
    }
    assert shared - {name for *_, name in REQUESTS} == {"fault"}  # test_failures.py provokes some


def test_a_list_of_the_demo_has_two_pages(demo: Gateway) -> None:
    """As docs/guides/legacy-client.md promises."""
    client = demo.with_token(keys.token("CLIENT", CLIENT))
    listed = [client.get(f"{SESSIONS}?time-state=COMPLETED&page={page}").json() for page in range(2)]

    assert [(one["numberOfElements"], one["totalPages"], one["last"]) for one in listed] == [
        (20, 2, False),
        (1, 2, True),
    ]


def test_an_example_is_the_response_of_the_service(demo: Gateway) -> None:
    """Byte for byte, except for the moment of an error. Python names the statuses."""
    callers = {
        "caregiver": demo.with_token(keys.token("CAREGIVER", CAREGIVER)),
        "client": demo.with_token(keys.token("CLIENT", CLIENT)),
        "another client": demo.with_token(keys.token("CLIENT", "zoe.marchetti@example.test")),
        "anonymous": demo.as_anonymous(),
    }
    unlike = {}

    for key, example in EXAMPLES.items():
        method, path, status, name = key
        who, more, options = REQUESTS[key]
        if name == "keyTaken":
            callers[who].put(path, json=TWO_BOOKS, headers=KEY)
        answered = callers[who].request(method, path.removesuffix("/{id}") + more, **options)
        if (answered.status_code, answered.text) != (int(status), as_written(example, answered.text)):
            unlike[key] = answered.text

    assert unlike == {}


def as_written(example: dict[str, Any], answered: str) -> str:
    if "timestamp" in example:
        assert TIMESTAMP.fullmatch(example["timestamp"])
        moment = json.loads(answered).get("timestamp")
        example = example | {"timestamp": moment}
    return json.dumps(example, ensure_ascii=False, separators=(",", ":"))


def test_both_example_requests_succeed(demo: Gateway) -> None:
    caregiver = demo.with_token(keys.token("CAREGIVER", CAREGIVER))

    answers = [caregiver.put(ASSIGNMENTS, json=example["value"]) for example in HOMEWORK.values()]

    assert [answer.status_code for answer in answers] == [200, 200]


def test_every_example_is_valid() -> None:
    for (method, path, status, _), example in EXAMPLES.items():
        response = openapi.response_of(method, path, int(status))
        assert response is not None
        reference = response["content"]["application/json"]["schema"]["$ref"]
        assert list(openapi.validator(reference).iter_errors(example)) == []
    homework = openapi.validator("#/components/schemas/Homework")
    assert all(homework.is_valid(example["value"]) for example in HOMEWORK.values())


# --- headers ---------------------------------------------------------------------------------------


def headers_of(caller: Caller, method: str, path: str, **options: Any) -> set[str]:
    found = caller.request(method, path, **options)
    openapi.assert_documented(method, path.partition("?")[0], found.status_code, found.headers, found.json())
    return set(found.headers) - {"content-type", "content-length"}


@pytest.mark.sqlite_only
def test_a_response_has_the_documented_headers(demo: Gateway) -> None:
    caregiver = demo.with_token(keys.token("CAREGIVER", CAREGIVER))

    assert headers_of(caregiver, "GET", f"{ASSIGNMENTS}/1") >= {"x-request-id"}
    assert headers_of(demo.as_anonymous(), "GET", f"{ASSIGNMENTS}/1") >= {"x-request-id", "www-authenticate"}
    assert headers_of(caregiver, "DELETE", ASSIGNMENTS) >= {"x-request-id", "allow"}
    first = headers_of(caregiver, "PUT", ASSIGNMENTS, json=TWO_BOOKS, headers=KEY)
    again = headers_of(caregiver, "PUT", ASSIGNMENTS, json=TWO_BOOKS, headers=KEY)
    assert again - first == {"idempotency-replayed"}
