"""Promise: what cannot be compared is told in one line, and is no success; tokens go to the two services
alone, and stand in no message."""

from typing import Any

import pytest

from tests.legacy_migration.services import Asked, Said, listening
from tests.legacy_migration.two import FIRST, JSON, PATH, Two, told

pytestmark = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)

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


def test_a_token_that_the_new_service_does_not_take_is_no_difference(two: Two) -> None:
    two.say(Said(), Said(status=401))

    assert told(two.compare()) == (
        2,
        [
            FIRST,
            "  not compared: the new service does not let this caller in (401)",
            "0 same, 0 different, 1 not compared",
        ],
    )


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


def test_a_service_that_has_no_room_is_asked_again_when_it_says(two: Two) -> None:
    busy = iter([Said(503, headers={"Retry-After": "0"}), Said(429, headers={"Retry-After": "0"})])
    two.say(Said(), lambda asked: next(busy, Said()))

    assert told(two.compare()) == (0, ["1 same, 0 different"])


def test_a_change_that_is_not_answered_is_not_sent_twice(two: Two) -> None:
    """It may have arrived. A read is asked again, for a kept connection may have been closed meanwhile."""
    hung_up: set[str] = set()

    def answer(asked: Asked) -> Said | None:
        if asked.path != PATH or asked.method in hung_up:
            return Said()
        hung_up.add(asked.method)
        return None

    two.say(Said(), answer)
    cases = [
        {"path": "/livez", "role": "NOBODY"},
        {"path": PATH},
        {"method": "PUT", "path": PATH, "body": {}},
    ]

    said = two.compare("--changes", cases=cases)

    assert (said.exit_code, said.stdout.splitlines()) == (
        2,
        [
            f"line 3: PUT {PATH} (caregiver)",
            "  not compared: the new service: the connection broke off",
            "2 same, 0 different, 1 not compared",
        ],
    )
    assert [one.method for one in two.asked["new"]] == ["GET", "GET", "GET", "PUT"]
