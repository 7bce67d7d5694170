"""Promise: `legacy compare` tells apart what differs in status, headers, writing, order and values; shows no
values unless asked; sends changes only where that is said; and masks hide what they name and nothing else."""

import orjson
import pytest

from tests.legacy_migration.services import Said
from tests.legacy_migration.two import FIRST, JSON, ONE, PATH, Two, body, told

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

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
        ["body: same JSON, different formatting"],
    ),
    "escapes": (
        Said(body='"ü"'.encode()),
        Said(body=b'"\\u00fc"'),
        ["body: same JSON, different formatting"],
    ),
    "order": (Said(body=b'{"a":1,"b":2}'), Said(body=b'{"b":2,"a":1}'), ["body: different order of members"]),
    "order and whitespace": (
        Said(body=b'[{"a":1,"b":2}]'),
        Said(body=b'[{"b":2, "a":1}]'),
        ["body: different order of members"],
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
    "no JSON": (
        Said(body=b"<a>"),
        Said(body=b"<b>"),
        ["body: different bytes, not both valid JSON"],
    ),
    "lists in lists": (
        Said(body=b"[" * 1000 + b"1" + b"]" * 1000),
        Said(body=b"[" * 1000 + b"2" + b"]" * 1000),
        ["body: different bytes, not both valid JSON"],
    ),
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

    assert (exit_code, len(lines), lines[21]) == (1, 23, "  and 5 more members")


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
        [FIRST, "  body: same JSON, different formatting", ONE],
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

    assert told(left_out) == (0, ["1 same, 0 different, 2 skipped because they change data (--changes)"])
    assert before == 1
    assert (sent.exit_code, sent.stdout) == (0, "3 same, 0 different\n")
    assert sent.stderr == "warning: calls that change data are sent to all services\ncomparing\n"
    assert [(one.method, one.body, one.headers.get("content-type")) for one in two.asked["new"][1:]] == [
        ("GET", b"", None),
        ("PUT", b'{"sessionId":1}', "application/json"),
        ("PUT", b"{ }", "application/json"),
    ]
