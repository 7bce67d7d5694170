"""`legacy compare` sends calls to two services and reports the differences between the responses."""

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from moving_over.body_diff import read_masks
from moving_over.comparison import Comparison, Outcome, Service
from moving_over.http_client import read_address
from moving_over.recorded_calls import NO_ROLE, Call
from tests import keys
from tests.moving_over.services import (
    BUSY,
    JSON,
    PATH,
    Request,
    Response,
    ServicePair,
    fake_service,
    json_response,
    printed,
)
from tests.patience import PATIENCE

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

FIRST = f"line 1: GET {PATH} (caregiver)"
SAME, DIFFERENT = "1 same, 0 different", "0 same, 1 different"
DIFFERENCES: dict[str, tuple[Response, Response, list[str]]] = {
    "status": (Response(), Response(404), ["status: 200 -> 404"]),
    "status and more": (
        Response(body=b'{"a":1, "b":2}'),
        Response(201, b'{"b":2,"a":1}', {**JSON, "Allow": "GET"}),
        ["status: 200 -> 201", 'header allow: nothing -> "GET"', "body: different order of members"],
    ),
    "headers": (
        Response(
            headers={
                "Content-Type": "application/json;charset=UTF-8", "Content-Encoding": "br", "Allow": "GET",
                "WWW-Authenticate": "Bearer", "Location": "/x", "Date": "1",
            }
        ),
        Response(headers={"Content-Type": "application/json", "Allow": "PUT", "Location": "/y"}),
        [
            'header content-type: "application/json;charset=UTF-8" -> "application/json"',
            'header content-encoding: "br" -> nothing',
            "header www-authenticate: text of 6 -> nothing",
            'header allow: "GET" -> "PUT"',
            "header location: text of 2 -> another text of 2",
        ],
    ),
    "formatting": (
        Response(body=b'{"a":1}'), Response(body=b'{"a": 1}'), ["body: same JSON, different formatting"]
    ),
    "order": (
        Response(body=b'{"a":1,"b":2}'), Response(body=b'{"b":2,"a":1}'), ["body: different order of members"]
    ),
    "not JSON": (
        Response(body=b"<a>"), Response(body=b"<b>"), ["body: different bytes, not both valid JSON"]
    ),
    "values": (
        json_response({"a": "secret", "b": [1]}),
        json_response({"a": "hidden"}),
        ["a: text of 6 -> another text of 6", "b: list of 1 -> nothing"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENCES)
def test_differences_are_printed_without_values(pair: ServicePair, case: str) -> None:
    old, new, lines = DIFFERENCES[case]
    pair.start(old, new)

    assert printed(pair.compare()) == (1, [FIRST, *(f"  {line}" for line in lines), DIFFERENT])


def test_each_service_gets_the_token_of_the_user(pair: ServicePair) -> None:
    pair.start(Response(), Response())

    result = pair.compare(
        calls=[
            {"path": PATH},
            {"path": PATH, "userName": "caregiver-2", "headers": {"offset": "1"}},
            {"method": "HEAD", "path": "/gateway/profile/client/session?time-state=RUNNING"},
            {"path": PATH, "role": "NOBODY"},
            {"path": "/livez"},
        ]
    )

    assert printed(result) == (0, ["5 same, 0 different"])
    for requests in pair.requests.values():
        assert sorted(
            (each.method, each.path, each.headers.get("authorization", "")) for each in requests
        ) == [
            ("GET", PATH, ""),
            ("GET", PATH, "bearer caregiver-token-1"),
            ("GET", PATH, "bearer caregiver-token-2"),
            ("GET", "/livez", ""),
            ("HEAD", "/gateway/profile/client/session?time-state=RUNNING", "bearer client-token-1"),
        ]


MORE = {20: [], 21: ["  and 1 more member"], 25: ["  and 5 more members"]}


@pytest.mark.parametrize("number", MORE)
def test_the_option_values_prints_values_and_many_differences_are_shortened(
    pair: ServicePair, number: int
) -> None:
    names = [str(each) for each in range(number)]
    pair.start(json_response(dict.fromkeys(names, 0)), json_response(dict.fromkeys(names, 1)))

    exit_code, lines = printed(pair.compare("--values"))

    shown = [f"  {name}: 0 -> 1" for name in names[:20]]
    assert (exit_code, lines) == (1, [FIRST, *shown, *MORE[number], DIFFERENT])


SHOWN = {  # by the options: a header and two members
    (): (["text of 7", "nothing"], ["text of 6", "text of 6"], ["nothing", "number"]),
    ("--values",): (["/secret", "nothing"], ["secret", "hidden"], ["nothing", 1]),
}
NOT_COMPARED = {
    "line": 2, "method": "HEAD", "path": "/livez", "role": None, "outcome": "FAILED",
    "reason": "the new service: connection closed", "status": {"old": None, "new": None}, "headers": [],
    "body": "SAME", "members": [],
}  # fmt: skip


@pytest.mark.parametrize("options", SHOWN)
def test_the_option_json_prints_one_object(pair: ServicePair, options: tuple[str, ...]) -> None:
    located = Response(body=b'{"a": "secret"}', headers={**JSON, "Location": "/secret", "Allow": "GET"})
    new = Response(201, b'{"a": "hidden", "c": 1}')
    pair.start(located, lambda request: None if request.path == "/livez" else new)
    header, *members = (dict(zip(("old", "new"), each, strict=True)) for each in SHOWN[options])
    calls = [{"path": PATH}, {"method": "HEAD", "path": "/livez"}, {"path": PATH, "method": "PUT"}]

    result = pair.compare("--json", "--mask", "b", *options, calls=calls)

    assert (result.exit_code, result.stderr) == (2, "comparing\n")
    assert orjson.loads(result.stdout) == {
        "same": 0,
        "different": 1,
        "failed": 1,
        "skipped": 1,
        "unmatchedMasks": ["b"],
        "calls": [
            {
                "line": 1, "method": "GET", "path": PATH, "role": "CAREGIVER", "outcome": "DIFFERENT",
                "reason": None, "status": {"old": 200, "new": 201}, "body": "VALUES",
                "headers": [
                    {"path": "allow", "old": "GET", "new": "nothing"},
                    {"path": "location", **header},
                ],
                "members": [{"path": "a", **members[0]}, {"path": "c", **members[1]}],
            },
            NOT_COMPARED,
        ],
    }  # fmt: skip


def test_a_user_is_named_with_values_only(pair: ServicePair) -> None:
    pair.start(Response(), Response(404))
    calls = [
        {"path": PATH, "userName": "caregiver-2"},
        {"path": PATH, "role": NO_ROLE},
        {"path": PATH, "role": NO_ROLE, "userName": "\x1b[2J"},
    ]

    shown = [printed(pair.compare(*options, calls=calls))[1][:6:2] for options in ((), ("--values",))]

    lines = [f"line {number}: GET {PATH}" for number in (1, 2, 3)]
    users = (
        ("caregiver", "anonymous", "anonymous"),
        ("caregiver caregiver-2", "anonymous", r"anonymous \u001b[2J"),
    )
    assert shown == [[f"{line} ({user})" for line, user in zip(lines, of, strict=True)] for of in users]


def test_another_header_is_compared_on_request(pair: ServicePair) -> None:
    pair.start(*(Response(headers={**JSON, "X-Custom": value, "X-More": value}) for value in "12"))

    assert printed(pair.compare()) == (0, [SAME])
    assert printed(pair.compare("--header", "X-Custom")) == (
        1, [FIRST, "  header x-custom: text of 1 -> another text of 1", DIFFERENT]
    )  # fmt: skip
    both = printed(pair.compare("--header", "X-More", "--header", "X-Custom", "--values"))[1]
    assert both[1:3] == [f'  header {name}: "1" -> "2"' for name in ("x-more", "x-custom")]


def test_the_names_of_members_are_printed_without_control_characters(pair: ServicePair) -> None:
    pair.start(json_response({"\x1b[31m": 1}), json_response({"\x1b[31m": 2}))

    assert printed(pair.compare())[1][1] == "  \\u001b[31m: number -> another number"


def test_tokens_that_are_sent_unencrypted_are_a_warning_for_each_service(pair: ServicePair) -> None:
    pair.addresses = dict.fromkeys(("old", "new"), f"http://{'a' * 64}.example.test")

    assert pair.compare().stderr.splitlines()[:2] == [
        f"warning: tokens are sent to the {name} service unencrypted" for name in ("old", "new")
    ]


@pytest.mark.parametrize(
    ("body", "likeness"),
    [
        (b'{"at":2, "a":2}', "same JSON, different formatting"),
        (b'{"a":2,"at":2}', "different order of members"),
    ],
)
def test_masks_and_loose_ignore_differences(pair: ServicePair, body: bytes, likeness: str) -> None:
    pair.start(
        Response(body=b'{"at":1,"a":2}', headers={**JSON, "Allow": "GET"}),
        Response(body=body, headers={**JSON, "Allow": "PUT"}),
    )
    masks = ("--mask", "at", "--mask", "header:allow", "--mask", "b")

    assert printed(pair.compare(*masks, "--loose")) == (0, [SAME, "the mask b matched nothing"])
    assert printed(pair.compare(*masks))[1][:2] == [FIRST, f"  body: {likeness}"]


@pytest.mark.parametrize(("old", "new"), [(b'{"a":1}', b'{"a": 2}'), (b"<a>", b"<b>")])
def test_loose_ignores_no_values(pair: ServicePair, old: bytes, new: bytes) -> None:
    pair.start(Response(body=old), Response(body=new))

    assert printed(pair.compare("--loose")) == printed(pair.compare())
    assert printed(pair.compare("--loose"))[1][-1] == DIFFERENT


def test_a_mask_of_a_header_that_is_equal_matches(pair: ServicePair) -> None:
    pair.start(*[Response(headers={**JSON, "Allow": "GET"})] * 2)

    assert printed(pair.compare("--mask", "header:allow", "--mask", "header:location")) == (
        0, [SAME, "the mask header:location matched nothing"]
    )  # fmt: skip


def test_the_calls_of_a_long_file_are_compared_in_order(pair: ServicePair) -> None:
    pair.start(json_response(1), json_response(2))

    lines = printed(pair.compare("--at-once", "1", calls=[{"path": PATH}] * 12))[1]

    assert [line for line in lines if line.startswith("line ")] == [
        f"line {number}: {FIRST.partition(': ')[2]}" for number in range(1, 13)
    ]


def test_gzip_bodies_are_compared_by_their_content(pair: ServicePair) -> None:
    zipped = {**JSON, "Content-Encoding": "gzip"}
    pair.start(
        Response(body=gzip.compress(b'{"at":1,"a":2}', 1), headers=zipped),
        Response(body=gzip.compress(b'{"at":2,"a":2}', 9), headers=zipped),
    )
    calls = [{"path": PATH, "headers": {"Accept-Encoding": "gzip"}}]

    assert printed(pair.compare("--mask", "at", calls=calls)) == (0, [SAME])
    assert printed(pair.compare(calls=calls)) == (1, [FIRST, "  at: number -> another number", DIFFERENT])


def test_changes_are_sent_only_with_the_option_and_in_order(pair: ServicePair) -> None:
    pair.start(Response(), Response())
    calls = [
        {"path": PATH},
        {"method": "PUT", "path": PATH, "body": {"sessionId": 1}, "headers": {"Idempotency-Key": "1"}},
        {"method": "PUT", "path": PATH, "body": "{ }"},
        {"method": "PUT", "path": PATH, "body": ""},
    ]

    skipped = pair.compare(calls=calls)
    sent_before = len(pair.requests["new"])
    sent = pair.compare("--changes", calls=calls)

    assert printed(skipped) == (0, [f"{SAME}, 3 skipped because they change data (--changes)"])
    assert sent_before == 1
    assert (sent.exit_code, sent.stdout) == (0, "4 same, 0 different\n")
    assert sent.stderr == "warning: calls that change data are sent to all services\ncomparing\n"
    assert [
        (each.method, each.body, each.headers.get("content-type")) for each in pair.requests["new"][1:]
    ] == [
        ("GET", b"", None),
        ("PUT", b'{"sessionId":1}', "application/json"),
        ("PUT", b"{ }", "application/json"),
        ("PUT", b"", "application/json"),
    ]


def test_the_recording_can_replace_the_old_service(pair: ServicePair) -> None:
    pair.start(Response(), lambda request: Response(body=b"" if request.path == "/livez" else b'{"a":1}'))
    del pair.addresses["old"]
    calls = [
        {"path": PATH, "answer": '{"a":1}'},
        {"path": PATH, "answer": '{"a":1}', "status": 404},
        {"path": PATH},
        {"path": "/livez", "answer": ""},
    ]

    assert printed(pair.compare("--recorded", calls=calls)) == (
        2,
        [
            FIRST.replace("1", "2", 1),
            "  status: 404 -> 200",
            FIRST.replace("1", "3", 1),
            "  not compared: the file contains no response",
            "2 same, 1 different, 1 not compared",
        ],
    )


def test_as_many_calls_as_given_are_sent_at_the_same_time(pair: ServicePair) -> None:
    together = threading.Barrier(5, timeout=PATIENCE)

    def wait(request: Request) -> Response:
        together.wait()
        return Response()

    pair.start(Response(), wait)

    result = pair.compare("--at-once", "5", calls=[{"path": PATH}] * 10)

    assert printed(result) == (0, ["10 same, 0 different"])


def test_a_long_file_is_not_read_ahead(pair: ServicePair) -> None:
    pair.start(Response(), Response())
    services = (Service(name, read_address(url), []) for name, url in pair.addresses.items())
    read = []

    def calls() -> Iterator[Call]:
        for number in range(1000):
            read.append(number)
            yield Call(number, "GET", PATH, None, None, {}, None, 200)

    results = Comparison(*services, read_masks(()), 30, concurrency=2).run(calls())

    assert next(results).outcome is Outcome.SAME
    assert len(read) < 20
    results.close()


def test_no_change_that_waits_is_sent_after_the_end(
    pair: ServicePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second change is being sent when the command ends."""
    has_ended = threading.Event()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(False, cancel_futures=cancel_futures)
            has_ended.set()
            super().shutdown(wait)

    def change(request: Request) -> Response:
        if len(pair.requests["old"]) > 1:
            assert has_ended.wait(PATIENCE)
        return Response()

    monkeypatch.setattr("moving_over.comparison.ThreadPoolExecutor", Pool)
    pair.start(change, Response())
    services = (Service(name, read_address(url), []) for name, url in pair.addresses.items())
    calls = [Call(number, "PUT", PATH, None, None, {}, b"{}", 200) for number in range(9)]
    results = Comparison(*services, read_masks(()), 30, with_changes=True).run(calls)

    assert next(results).outcome is Outcome.SAME
    while len(pair.requests["old"]) < 2:
        pass
    results.close()

    assert (len(pair.requests["old"]), len(pair.requests["new"])) == (2, 2)


# --- calls that cannot be compared ---


def test_an_unreachable_service_ends_the_command(pair: ServicePair) -> None:
    pair.start(Response(), Response())
    pair.addresses["new"] = "http://127.0.0.1:1"

    result = pair.compare()

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "comparing\ncare-gateway: http://127.0.0.1:1 cannot be reached: Connection refused\n"
    )


def test_a_call_without_a_response_is_not_compared(pair: ServicePair) -> None:
    pair.start(Response(), lambda request: None if request.path == PATH else Response())

    assert printed(pair.compare(calls=[{"path": PATH}, {"path": "/livez"}])) == (
        2,
        [
            FIRST,
            "  not compared: the new service: connection closed",
            "1 same, 0 different, 1 not compared",
        ],
    )


def test_a_call_that_is_not_answered_in_the_given_time_is_not_compared(pair: ServicePair) -> None:
    answered = threading.Event()

    def new(request: Request) -> Response:
        answered.wait(5)  # with a longer timeout, the call would succeed
        return Response()

    pair.start(Response(), new)

    result = pair.compare("--timeout", "0.1")
    answered.set()

    assert printed(result)[1][:2] == [
        FIRST, "  not compared: the new service: no complete response in time"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "skipped"),
    [([], ""), ([{"path": PATH, "method": "PUT"}], ", 1 skipped because they change data (--changes)")],
)
def test_no_calls_are_no_success(pair: ServicePair, calls: list[dict[str, Any]], skipped: str) -> None:
    pair.start(Response(), Response())

    assert printed(pair.compare(calls=calls)) == (2, [f"0 same, 0 different{skipped}"])


@pytest.mark.parametrize("status", [200, 302])
def test_a_token_that_only_the_new_service_rejects_is_no_difference(pair: ServicePair, status: int) -> None:
    pair.start(Response(status), Response(status=401))

    assert printed(pair.compare()) == (
        2,
        [
            FIRST,
            "  not compared: the new service rejects the token (401)",
            "0 same, 0 different, 1 not compared",
        ],
    )


def test_a_token_that_both_services_reject_is_compared(pair: ServicePair) -> None:
    pair.start(Response(status=401), Response(status=401))

    assert printed(pair.compare()) == (0, [SAME])


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_call_that_the_old_service_rejects_too_is_compared(pair: ServicePair, status: int) -> None:
    pair.start(Response(status), Response(status=401))

    assert printed(pair.compare()) == (1, [FIRST, f"  status: {status} -> 401", DIFFERENT])


REJECTED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "unknown user": (
        [{"path": PATH, "userName": "caregiver-9"}],
        "line 1: the old service has no token of this caregiver; add it to a file given with --caregivers",
    ),
    "invalid line": ([{"path": PATH}, {"path": "gateway"}], "{file}, line 2: path: must be a path like "
        "/gateway/profile/client/session?time-state=RUNNING"),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_an_unusable_call_ends_the_command_with_its_line(pair: ServicePair, case: str) -> None:
    calls, sentence = REJECTED[case]
    pair.start(Response(), Response())

    result = pair.compare(calls=calls)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == (
        f"care-gateway: {sentence.format(file=pair.folder / 'calls.jsonl')}"
    )


# --- tokens and connections ---


def test_a_redirect_is_not_followed(pair: ServicePair) -> None:
    received: list[Request] = []

    def handler(request: Request) -> Response:
        received.append(request)
        return Response()

    other = pair.stack.enter_context(fake_service(handler))
    pair.start(Response(), Response(302, b"{}", {**JSON, "Location": other}))

    exit_code, lines = printed(pair.compare())

    assert (exit_code, lines[1:3], received) == (
        1,
        ["  status: 200 -> 302", f"  header location: nothing -> text of {len(other)}"],
        [],
    )


def test_tokens_can_be_in_the_environment_and_differ_between_the_services(
    pair: ServicePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.start(Response(), Response())
    monkeypatch.setenv("NEW_TOKENS", "caregiver-1 another-token")
    monkeypatch.setenv("NEW_CLIENTS", "client-1 a-client-token")
    options = ("--new-caregivers", "env:NEW_TOKENS", "--new-clients", "env:NEW_CLIENTS", "--at-once", "1")
    calls = [{"path": PATH}, {"path": "/gateway/profile/client/session?time-state=RUNNING"}]

    assert printed(pair.compare(*options, calls=calls)) == (0, ["2 same, 0 different"])
    assert [[each.headers["authorization"] for each in pair.requests[name]] for name in ("old", "new")] == [
        ["bearer caregiver-token-1", "bearer client-token-1"],
        ["bearer another-token", "bearer a-client-token"],
    ]


@pytest.mark.parametrize(
    ("options", "authorizations"),
    [
        (["--new-caregivers"], ["bearer another-token", "bearer client-token-1"]),
        (["--new-clients"], ["bearer caregiver-token-1", "bearer another-token"]),
    ],
)
def test_without_new_tokens_of_a_role_the_new_service_gets_those_of_the_old_one(
    pair: ServicePair, options: list[str], authorizations: list[str]
) -> None:
    """Both users have one name."""
    pair.start(Response(), Response())
    (pair.folder / "new").write_text("someone another-token")
    for role in ("caregiver", "client"):
        (pair.folder / f"{role}s").write_text(f"someone {role}-token-1")
    calls = [
        {"path": path, "userName": "someone"}
        for path in (PATH, "/gateway/profile/client/session?time-state=RUNNING")
    ]

    result = pair.compare(*options, str(pair.folder / "new"), "--at-once", "1", calls=calls)

    assert printed(result) == (0, ["2 same, 0 different"])
    assert [[each.headers["authorization"] for each in pair.requests[name]] for name in ("old", "new")] == [
        ["bearer caregiver-token-1", "bearer client-token-1"],
        authorizations,
    ]


def test_the_claim_of_the_settings_names_the_user_of_a_token(pair: ServicePair) -> None:
    (pair.folder / "caregivers").write_text(keys.token("CAREGIVER", "caregiver-1", login="caregiver-9"))
    pair.start(Response(), Response())
    calls = [{"path": PATH, "userName": "caregiver-9"}]

    assert printed(pair.compare(calls=calls, claim_user="login")) == (0, [SAME])


def test_an_overloaded_service_gets_the_request_again(pair: ServicePair) -> None:
    busy = iter([Response(503, headers=BUSY), Response(429, headers=BUSY)])
    pair.start(Response(), lambda request: next(busy, Response()))

    assert printed(pair.compare()) == (0, [SAME])


def test_an_overloaded_service_gets_a_change_only_once(pair: ServicePair) -> None:
    pair.start(Response(), Response(503, headers=BUSY))

    result = pair.compare("--changes", calls=[{"method": "PUT", "path": PATH, "body": {}}])

    assert (result.exit_code, [each.method for each in pair.requests["new"]]) == (1, ["PUT"])


def test_a_read_is_repeated_after_a_closed_connection_and_a_change_is_not(pair: ServicePair) -> None:
    """The change may have arrived. The service may have closed the reused connection of a read meanwhile."""
    closed: set[str] = set()

    def handler(request: Request) -> Response | None:
        if request.path != PATH or request.method in closed:
            return Response()
        closed.add(request.method)
        return None

    pair.start(Response(), handler)
    calls = [
        {"path": "/livez", "role": "NOBODY"},
        {"path": PATH},
        {"method": "PUT", "path": PATH, "body": {}},
    ]

    result = pair.compare("--changes", calls=calls)

    assert (result.exit_code, result.stdout.splitlines()) == (
        2,
        [
            f"line 3: PUT {PATH} (caregiver)",
            "  not compared: the new service: connection closed",
            "2 same, 0 different, 1 not compared",
        ],
    )
    assert [each.method for each in pair.requests["new"]] == ["GET", "GET", "GET", "PUT"]
