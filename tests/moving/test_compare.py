"""Promise: `legacy compare` tells apart what differs in status, headers, writing, order and values; shows no
values unless asked; sends tokens to the two services alone, and changes only where that is said."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import Result

from tests.cli.conftest import Command
from tests.moving.recordings import write_lines
from tests.moving.services import Answering, Asked, Said, listening

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

PATH = "/gateway/profile/caregiver/session/assignment/1"
TOKENS = {"caregiver": "caregiver-token", "client": "client-token"}
JSON = {"Content-Type": "application/json"}
Saying = Said | Answering


class Two:
    """Two services, what they were asked, and the command that compares them."""

    def __init__(self, command: Command, folder: Path, stack: ExitStack) -> None:
        self.command = command
        self.folder = folder
        self.stack = stack
        self.asked: dict[str, list[Asked]] = {"old": [], "new": []}
        self.addresses: dict[str, str] = {}
        for role, token in TOKENS.items():
            (folder / f"{role}s").write_text(
                f"# of the old service\n{role}-1 {token}-1\n\n{role}-2 {token}-2\n"
            )

    def say(self, old: Saying, new: Saying) -> None:
        for name, said in (("old", old), ("new", new)):
            self.addresses[name] = self.stack.enter_context(listening(self.noting(name, said)))

    def noting(self, name: str, said: Saying) -> Answering:
        def answer(asked: Asked) -> Said | None:
            self.asked[name].append(asked)
            return said(asked) if callable(said) else said

        return answer

    def compare(self, *options: str, cases: list[dict[str, Any]] | None = None) -> Result:
        file = write_lines(self.folder / "cases.jsonl", [{"path": PATH}] if cases is None else cases)
        addresses = [word for name, address in self.addresses.items() for word in (f"--{name}", address)]
        tokens = [word for role in TOKENS for word in (f"--{role}s", str(self.folder / f"{role}s"))]
        return self.command("legacy", "compare", *addresses, *tokens, *options, str(file))


@pytest.fixture
def two(command: Command, tmp_path: Path) -> Iterator[Two]:
    with ExitStack() as stack:
        yield Two(command, tmp_path, stack)


def told(result: Result) -> tuple[int, list[str]]:
    assert result.stderr == "comparing\n"
    return result.exit_code, result.stdout.splitlines()


def body(value: object) -> Said:
    return Said(body=orjson.dumps(value))


FIRST = f"line 1: GET {PATH} (caregiver)"
ONE = "0 same, 1 different"
LISTS = ({"content": [{"id": 3}, {"id": 2, "a": "x"}]}, {"content": [{"id": 2, "a": "y"}, {"id": 1}]})
DIFFERENT: dict[str, tuple[Said, Said, list[str]]] = {
    "status": (Said(), Said(404), ["status: 200 -> 404"]),
    "header": (
        Said(headers={"Content-Type": "application/json;charset=UTF-8", "Location": "/x", "Date": "1"}),
        Said(headers={"Content-Type": "application/json", "Location": "/y"}),
        [
            'header content-type: "application/json;charset=UTF-8" -> "application/json"',
            "header location: text of 2 -> another text of 2",
        ],
    ),
    "whitespace": (
        Said(body=b'{"a":1}'),
        Said(body=b'{"a": 1}'),
        ["body: the same JSON, written differently"],
    ),
    "escapes": (
        Said(body='"ü"'.encode()),
        Said(body=b'"\\u00fc"'),
        ["body: the same JSON, written differently"],
    ),
    "order": (Said(body=b'{"a":1,"b":2}'), Said(body=b'{"b":2,"a":1}'), ["body: members in another order"]),
    "order and whitespace": (
        Said(body=b'[{"a":1,"b":2}]'),
        Said(body=b'[{"b":2, "a":1}]'),
        ["body: members in another order"],
    ),
    "values": (
        body({"a": "secret", "b": {"c": [1, None]}, "d": 1, "e": True}),
        body({"a": "hidden", "b": {"c": [2, "?"]}, "d": 1.0, "f": []}),
        [
            "a: text of 6 -> another text of 6",
            "b.c[0]: number -> another number",
            "b.c[1]: null -> text of 1",
            "d: number -> another number",
            "e: true or false -> nothing",
            "f: nothing -> list of 0",
        ],
    ),
    "items": (
        *(map(body, LISTS)),
        [
            "content[id=3]: object -> nothing",
            "content[id=2].a: text of 1 -> another text of 1",
            "content[id=1]: nothing -> object",
        ],
    ),
    "no JSON": (Said(body=b"<a>"), Said(body=b"<b>"), ["body: other bytes, and not both are JSON"]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_told_apart_and_no_value_is_shown(two: Two, what: str) -> None:
    old, new, lines = DIFFERENT[what]
    two.say(old, new)

    assert told(two.compare()) == (1, [FIRST, *(f"  {line}" for line in lines), ONE])


def test_equal_bytes_are_the_same_and_each_service_gets_the_token_of_the_person(two: Two) -> None:
    two.say(Said(body=b"\xff not JSON"), Said(body=b"\xff not JSON"))

    said = two.compare(
        cases=[
            {"path": PATH},
            {"path": PATH, "userName": "caregiver-2", "headers": {"offset": "1"}},
            {"method": "HEAD", "path": "/gateway/profile/client/session?time-state=RUNNING"},
            {"path": PATH, "role": "NOBODY"},
            {"path": "/livez"},
        ]
    )

    assert told(said) == (0, ["5 same, 0 different"])
    for asked in two.asked.values():
        assert sorted((one.method, one.path, one.headers.get("authorization", "")) for one in asked) == [
            ("GET", PATH, ""),
            ("GET", PATH, "bearer caregiver-token-1"),
            ("GET", PATH, "bearer caregiver-token-2"),
            ("GET", "/livez", ""),
            ("HEAD", "/gateway/profile/client/session?time-state=RUNNING", "bearer client-token-1"),
        ]


def test_values_are_shown_where_that_is_asked_for(two: Two) -> None:
    two.say(body({"a": "1\x1b[31m", "b": "x" * 100}), body({"a": None, "b": 1}))

    exit_code, lines = told(two.compare("--values"))

    assert (exit_code, lines[1:3]) == (1, [
        '  a: "1\\u001b[31m" -> null',
        f'  b: "{"x" * 76}... -> 1',
    ])  # fmt: skip


def test_many_differences_of_a_call_are_cut_short(two: Two) -> None:
    two.say(body(dict.fromkeys(map(str, range(25)), 0)), body(dict.fromkeys(map(str, range(25)), 1)))

    exit_code, lines = told(two.compare())

    assert (exit_code, len(lines), lines[21]) == (1, 23, "  and 5 members more")


def test_json_says_the_same_for_programs(two: Two) -> None:
    two.say(body({"a": "secret"}), body({"a": "hidden"}))

    said = two.compare("--json", "--mask", "b")

    assert said.exit_code == 1
    assert orjson.loads(said.stdout) == {
        "same": 0,
        "different": 1,
        "failed": 0,
        "leftOut": 0,
        "unmatchedMasks": ["b"],
        "calls": [
            {
                "line": 1, "method": "GET", "path": PATH, "role": "CAREGIVER", "outcome": "DIFFERENT",
                "reason": None, "status": {"old": 200, "new": 200}, "headers": [], "body": "VALUES",
                "members": [{"path": "a", "old": "text of 6", "new": "text of 6"}],
            }
        ],
    }  # fmt: skip


# --- masks ---


def test_what_is_masked_may_differ_and_a_mask_that_matches_nothing_is_pointed_out(two: Two) -> None:
    two.say(
        Said(
            body=b'{"content":[{"id":1,"score":1,"answers":[{"a":[1]}]},{"id":2,"score":null}],"at":"x, ]"}',
            headers={**JSON, "Allow": "GET"},
        ),
        Said(
            body=b'{"content":[{"id":1,"score":2,"answers":[]},{"id":2,"score":{"b":[]}}],"at":"y"}',
            headers={**JSON, "Allow": "PUT"},
        ),
    )
    masks = (
        "content[*].score",
        "content[0].answers",
        "at",
        "header:allow",
        "content[*].scoer",
        "content[7].id",
    )

    said = two.compare(*(word for mask in masks for word in ("--mask", mask)))

    assert told(said) == (
        0,
        [
            "1 same, 0 different",
            "the mask content[*].scoer matched nothing",
            "the mask content[7].id matched nothing",
        ],
    )


def test_beside_what_is_masked_bytes_count(two: Two) -> None:
    two.say(Said(body=b'{"at":1,"a":2}'), Said(body=b'{"at":2, "a":2}'))

    assert told(two.compare("--mask", "at")) == (
        1,
        [FIRST, "  body: the same JSON, written differently", ONE],
    )
    assert told(two.compare("--mask", "at", "--loose")) == (0, ["1 same, 0 different"])


def test_that_a_masked_member_is_there_at_all_is_still_compared(two: Two) -> None:
    two.say(body({"a": 1, "at": 2}), body({"a": 1}))

    assert told(two.compare("--mask", "at")) == (1, [FIRST, "  at: null -> nothing", ONE])


@pytest.mark.parametrize("mask", ["", ".a", "a[", "a[x]", "a]b", "header:", "a..b"])
def test_a_mask_that_is_none_is_refused(two: Two, mask: str) -> None:
    two.say(Said(), Said())

    refused = two.compare("--mask", mask)

    assert (refused.exit_code, two.asked) == (2, {"old": [], "new": []})
    assert refused.stderr == (
        f"care-gateway: the mask {mask!r} is none; masks are like content[*].score or header:date\n"
    )


# --- changes ---


def test_changes_are_sent_only_where_that_is_said_and_then_in_order(two: Two) -> None:
    two.say(Said(), Said())
    cases = [
        {"path": PATH},
        {"method": "PUT", "path": PATH, "body": {"sessionId": 1}, "headers": {"Idempotency-Key": "1"}},
        {"method": "PUT", "path": PATH, "body": "{ }"},
    ]

    left_out = two.compare(cases=cases)
    before = len(two.asked["new"])
    sent = two.compare("--changes", cases=cases)

    assert told(left_out) == (0, ["1 same, 0 different, 2 left out, for they change data (--changes)"])
    assert before == 1
    assert (sent.exit_code, sent.stdout) == (0, "3 same, 0 different\n")
    assert sent.stderr == "warning: calls that change data are sent, to every service named\ncomparing\n"
    assert [(one.method, one.body, one.headers.get("content-type")) for one in two.asked["new"][1:]] == [
        ("GET", b"", None),
        ("PUT", b'{"sessionId":1}', "application/json"),
        ("PUT", b"{ }", "application/json"),
    ]


# --- what cannot be compared ---


def test_a_service_that_is_down_is_told_in_one_line(two: Two) -> None:
    two.say(Said(), Said())
    two.addresses["new"] = "http://127.0.0.1:1"

    refused = two.compare()

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "comparing\ncare-gateway: http://127.0.0.1:1 cannot be reached: Connection refused\n"
    )


def test_a_call_that_one_service_does_not_answer_was_not_compared(two: Two) -> None:
    two.say(Said(), lambda asked: None if asked.path == PATH else Said())

    said = two.compare(cases=[{"path": PATH}, {"path": "/livez"}])

    assert told(said) == (
        2,
        [
            FIRST,
            "  not compared: the new service: the connection broke off",
            "1 same, 0 different, 1 not compared",
        ],
    )


def test_a_redirect_is_an_answer_and_nobody_follows_it_with_a_token(two: Two) -> None:
    elsewhere: list[Asked] = []

    def note(asked: Asked) -> Said:
        elsewhere.append(asked)
        return Said()

    away = two.stack.enter_context(listening(note))
    two.say(Said(), Said(302, b"{}", {**JSON, "Location": away}))

    exit_code, lines = told(two.compare())

    assert (exit_code, lines[1:3], elsewhere) == (
        1,
        ["  status: 200 -> 302", f"  header location: nothing -> text of {len(away)}"],
        [],
    )


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no such token": (
        [{"path": PATH, "userName": "caregiver-9"}],
        "line 1: there is no token of this caregiver for the old service; name a file that has it with "
        "--caregivers",
    ),
    "a token in the file": (
        [{"path": PATH, "headers": {"Authorization": "bearer x"}}],
        "{file}, line 1: headers.Authorization is not said here; tokens are named on the command line",
    ),
    "a path that is none": (
        [{"path": PATH}, {"path": "gateway"}],
        "{file}, line 2: path must be a path like /gateway/profile/client/session?time-state=RUNNING",
    ),
    "a path of two lines": (
        [{"path": "/a\r\nHost: b"}],
        "{file}, line 1: path must be a path like /gateway/profile/client/session?time-state=RUNNING",
    ),
    "a method that nobody knows": (
        [{"path": PATH, "method": "get"}],
        "{file}, line 1: method must be one of GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_cases_that_cannot_be_asked_are_told_with_their_place(two: Two, what: str) -> None:
    cases, sentence = REFUSED[what]
    two.say(Said(), Said())

    refused = two.compare(cases=cases)

    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        f"care-gateway: {sentence.format(file=two.folder / 'cases.jsonl')}"
    )


def test_nothing_to_compare_is_no_success(two: Two) -> None:
    two.say(Said(), Said())

    assert told(two.compare(cases=[])) == (2, ["0 same, 0 different"])


# --- tokens, and answers that were recorded ---


def test_tokens_may_stand_in_the_environment_and_differ_between_the_services(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.say(Said(), Said())
    monkeypatch.setenv("NEW_TOKENS", "caregiver-1 another-token")

    assert told(two.compare("--new-caregivers", "env:NEW_TOKENS")) == (0, ["1 same, 0 different"])
    assert [two.asked[name][0].headers["authorization"] for name in ("old", "new")] == [
        "bearer caregiver-token-1",
        "bearer another-token",
    ]


BAD_TOKENS = {
    "a b c": "must be a token, or a user name and a token",
    "someone tök": "must be a token, or a user name and a token",
    "a-token": "the token does not say whose it is; put the user name before it",
    "one a-token\none b-token": "there is a token of this person already",
}


@pytest.mark.parametrize("text", BAD_TOKENS)
def test_tokens_that_cannot_be_used_are_refused_and_not_repeated(
    two: Two, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.say(Said(), Said())
    monkeypatch.setenv("BAD", text)

    refused = two.compare("--new-clients", "env:BAD")

    number = len(text.splitlines())
    assert (refused.exit_code, two.asked) == (2, {"old": [], "new": []})
    assert refused.stderr == f"care-gateway: env:BAD, line {number}: {BAD_TOKENS[text]}\n"


def test_what_was_recorded_can_stand_for_the_old_service(two: Two) -> None:
    two.say(Said(), Said(body=b'{"a":1}'))
    del two.addresses["old"]
    cases = [
        {"path": PATH, "answer": '{"a":1}'},
        {"path": PATH, "answer": '{"a":1}', "status": 404},
        {"path": PATH},
    ]

    said = two.compare("--recorded", cases=cases)

    assert told(said) == (
        2,
        [
            FIRST.replace("1", "2", 1),
            "  status: 404 -> 200",
            FIRST.replace("1", "3", 1),
            "  not compared: the file does not say what was answered",
            "1 same, 1 different, 1 not compared",
        ],
    )


@pytest.mark.parametrize(
    "address", ["care.example.test", "ftp://care.example.test", "https://a:b@care.example.test"]
)
def test_an_address_is_that_of_a_service_and_holds_no_password(two: Two, address: str) -> None:
    two.say(Said(), Said())
    two.addresses["new"] = address

    refused = two.compare()

    assert (refused.exit_code, two.asked["old"]) == (2, [])
    assert refused.stderr == (
        "care-gateway: an address is like https://care.example, maybe with a port and a path\n"
    )
