"""Saving and submitting answers, rejected: the error has code, field and message, and nothing is written.

Contract: the table "Refusals"; the limits; every failing question is named.
"""

from typing import Any

import pytest

from app.db.admin.books import importing_books
from tests.answers import (
    FITTING,
    IN_CLOSED,
    IN_FUTURE,
    LATE,
    NEXT_SECOND,
    OF_CAREGIVER_2,
    OF_CLIENT_2,
    REMARK,
    SAVE,
    SUBMIT,
    SUBMITTED,
    SUBMITTED_IN_CLOSED,
    TEST,
    a_world_to_answer_in,
    answers,
    refused,
    save,
    submit,
    to_answer,
)
from tests.callers import Gateway
from tests.database_rows import stored
from tests.factories import a_book, an_assignment, lines, starting_with
from tests.schema.worlds import global_id, refusal

pytestmark = starting_with(a_world_to_answer_in)

NOT_THERE = refused("NOT_FOUND", "assignment not found", "assignmentId")
CLOSED = refused("NOT_RUNNING", "the session is closed", "assignmentId")
NO_SUCH = "the book has no such question"


def question(number: int) -> str:
    return global_id("Question", number)


def wrong(code: str, message: str, number: int) -> dict[str, Any]:
    return {"code": code, "field": ["answers", question(number)], "message": message}


def with_ids(*texts: tuple[str, str]) -> dict[str, Any]:
    return {"assignmentId": str(TEST), "answers": [{"questionId": n, "answer": text} for n, text in texts]}


# Of both mutations: the input, and the user errors.
REFUSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "an unknown assignment": (to_answer(99, {}), NOT_THERE),
    "another client's": (to_answer(OF_CLIENT_2, {}), NOT_THERE),
    "another client's of another caregiver": (to_answer(OF_CAREGIVER_2, {}), NOT_THERE),
    "a withdrawn one": (to_answer(LATE, {REMARK: "x"}), NOT_THERE),
    "the id of an answer set": ({"assignmentId": global_id("AnswerSet", 1), "answers": []}, NOT_THERE),
    "an id behind the largest": (to_answer(2**63, {}), NOT_THERE),
    "no id": (
        {"assignmentId": " ", "answers": []},
        refused("INCOMPLETE", "required and missing: assignmentId", "assignmentId"),
    ),
    "another's with wrong answers": (to_answer(OF_CLIENT_2, {99: "x"}), NOT_THERE),
    "of a future session": (
        to_answer(IN_FUTURE, {}),
        refused("NOT_RUNNING", "the session is not running", "assignmentId"),
    ),
    "of a closed session": (to_answer(IN_CLOSED, {}), CLOSED),
    "of the next second": (
        to_answer(NEXT_SECOND, {}),
        refused("WRONG_STATE", "the assignment has not started", "assignmentId"),
    ),
    "submitted": (
        to_answer(SUBMITTED, {REMARK: "x"}),
        refused("WRONG_STATE", "the assignment is submitted", "assignmentId"),
    ),
    "501 answers": (
        {"assignmentId": str(TEST), "answers": answers(FITTING) + answers({4: "x"}) * 494},
        refused("UNREADABLE", "answers may hold at most 500 answers", "answers"),
    ),
    "a stale revision": (
        to_answer(TEST, FITTING, revision=1),
        refused("DRAFT_CONFLICT", "the draft was saved elsewhere meanwhile", "revision"),
    ),
    "an unknown question": (to_answer(TEST, FITTING | {999: "x"}), [wrong("NOT_FOUND", NO_SUCH, 999)]),
    "a question of another book": (
        to_answer(TEST, {REMARK: "x", **FITTING, 1: "x"}),
        [wrong("NOT_FOUND", NO_SUCH, REMARK), wrong("NOT_FOUND", NO_SUCH, 1)],
    ),
    "ids that name no question": (
        with_ids((global_id("Book", 4), "x"), ("", "x"), (str(2**63), "x"), ("4", "x")),
        refused("NOT_FOUND", NO_SUCH, "answers") * 3,
    ),
    "a question twice": (
        with_ids(("4", "a"), (question(5), "true"), (question(4), "a"), ("5", "false"), ("4", "b")),
        [wrong("UNREADABLE", "the question is answered twice", number) for number in (4, 5, 4)],
    ),
    "an answer too long": (
        to_answer(TEST, FITTING | {4: "ü" * 10_001}),
        [wrong("UNREADABLE", "an answer may have at most 10000 characters", 4)],
    ),
    "characters that cannot be stored": (
        to_answer(TEST, FITTING | {4: "a\0", 5: "\0", 10: "\0"}),
        [wrong("UNREADABLE", "the answer holds a character that cannot be stored", n) for n in (4, 5, 10)],
    ),
}


def misfit(position: int, should_be: str) -> dict[str, Any]:
    message = f"the answer to question {position} must be {should_be}"
    return wrong("UNREADABLE", message, position + 3)


def missing(*positions: int) -> list[dict[str, Any]]:
    return [wrong("INCOMPLETE", f"question {each} must be answered", each + 3) for each in positions]


# Of submitting alone, as a draft may be incomplete.
MISFITS: dict[str, tuple[dict[int, str], list[dict[str, Any]]]] = {
    "nothing": ({}, missing(1, 2, 3, 4, 5, 6)),
    "blanks": ({4: " ", 5: "", 6: "\n", 7: "\t", 8: " ", 9: ""}, missing(1, 2, 3, 4, 5, 6)),
    "one left out": ({n: texts for n, texts in FITTING.items() if n != 7}, missing(4)),
    "neither yes nor no": (FITTING | {5: "True"}, [misfit(2, "true or false")]),
    "no number": (FITTING | {6: "7,5"}, [misfit(3, "a number such as 7 or 7.5")]),
    "a number too small": (FITTING | {6: "-0.5"}, [misfit(3, "at least 0")]),
    "a number too large": (FITTING | {6: "24.000001"}, [misfit(3, "at most 24")]),
    "no option": (FITTING | {7: "often"}, [misfit(4, "one of its options")]),
    "two options of one": (FITTING | {7: "Never\nOften"}, [misfit(4, "one of its options")]),
    "no option among some": (
        FITTING | {8: "Tea\nCoffee"},
        [misfit(5, "some of its options, each once, one per line")],
    ),
    "an option twice": (
        FITTING | {8: "Tea\nTea"},
        [misfit(5, "some of its options, each once, one per line")],
    ),
    "beyond the scale": (FITTING | {9: "4"}, [misfit(6, "one of its options")]),
    "several": (
        FITTING | {4: "", 6: "x", 9: "0"},
        [*missing(1), misfit(3, "a number such as 7 or 7.5"), misfit(6, "one of its options")],
    ),
}


# A submission reports all errors at once.
ALSO_MISSING = {"ids that name no question": missing(2, 3, 4, 5, 6), "a question twice": missing(3, 4, 5, 6)}


@pytest.fixture
def world(gateway: Gateway) -> Gateway:
    withdraw = (
        f"mutation {{ withdrawAssignment(input: {{assignmentId: {LATE}}}) {{ userErrors {{ code }} }} }}"
    )
    assert gateway.as_caregiver(1).data(withdraw) == {"withdrawAssignment": {"userErrors": []}}
    return gateway


@pytest.mark.sqlite_only
def test_a_rejected_draft_is_a_user_error_and_nothing_is_written(world: Gateway) -> None:
    before, found = stored(world), {}
    in_closed = {"submitted, of a closed session": (to_answer(SUBMITTED_IN_CLOSED, {REMARK: "x"}), CLOSED)}
    cases = REFUSED | in_closed

    for what, (input_fields, _) in cases.items():
        found[what] = world.as_client(1).graphql(SAVE, input=input_fields)
        assert stored(world) == before, what

    assert found == {
        what: {"data": {"saveAnswers": {"draft": None, "userErrors": errors}}}
        for what, (_, errors) in cases.items()
    }


def test_rejected_answers_are_user_errors_and_nothing_is_written(world: Gateway) -> None:
    before, found = stored(world), {}
    misfits = {what: (to_answer(TEST, texts), errors) for what, (texts, errors) in MISFITS.items()}
    also = {
        what: (input_fields, errors + ALSO_MISSING.get(what, []))
        for what, (input_fields, errors) in REFUSED.items()
    }
    cases = also | misfits

    for what, (input_fields, _) in cases.items():
        found[what] = world.as_client(1).graphql(SUBMIT, input=input_fields)
        assert stored(world) == before, what

    nothing = {"assignment": None, "answerSet": None, "draft": None}
    assert found == {
        what: {"data": {"submitAnswers": {**nothing, "userErrors": errors}}}
        for what, (_, errors) in cases.items()
    }


BARE = 12  # an assignment whose book came from the old service without questions
NO_QUESTIONS = refused("WRONG_STATE", "the book has no questions yet", "assignmentId")


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("texts", [{}, {REMARK: "x"}], ids=["nothing", "an answer"])
def test_a_book_without_questions_accepts_no_answers(world: Gateway, texts: dict[int, str]) -> None:
    bare = a_book(6, questions=[])
    world.import_records([bare, an_assignment(BARE, book=6)])
    before, client = stored(world), world.as_client(1)

    saved = save(client, BARE, texts)
    submitted = submit(client, BARE, texts)

    assert saved == {"draft": None, "userErrors": NO_QUESTIONS}
    nothing = {"assignment": None, "answerSet": None, "draft": None}
    assert submitted == {**nothing, "userErrors": NO_QUESTIONS}
    assert stored(world) == before

    asking = bare | {"questions": [{"text": "How was it?"}]}
    assert world.client.portal is not None
    world.client.portal.call(world.database.write, importing_books(lines([asking])))

    question = stored(world)["question"][-1]["id"]
    assert submit(client, BARE, {question: "Better"})["userErrors"] == []


def test_a_rejected_submission_keeps_the_draft(world: Gateway) -> None:
    draft = save(world.as_client(1), TEST, {4: "x"})["draft"]
    before = stored(world)

    for texts in (texts for texts, _ in MISFITS.values()):
        assert submit(world.as_client(1), TEST, texts, revision=1)["userErrors"] != []
        assert stored(world) == before

    again = save(world.as_client(1), TEST, {4: "x"})
    assert again == {"draft": draft, "userErrors": []}


def test_values_at_the_limits_are_accepted(world: Gateway) -> None:
    long = FITTING | {4: "🌙" * 10_000, 10: "ü" * 10_000}

    assert save(world.as_client(1), TEST, long)["userErrors"] == []
    assert submit(world.as_client(1), TEST, long, revision=1)["userErrors"] == []


@pytest.mark.sqlite_only
@pytest.mark.parametrize(("document", "verb"), [(SAVE, "saveAnswers"), (SUBMIT, "submitAnswers")])
def test_a_viewer_without_permission_gets_a_top_level_error(world: Gateway, document: str, verb: str) -> None:
    """Invalid input is not reported to a caregiver."""
    before = stored(world)
    column = document.index(f" {verb}(input") + 2
    texts = {
        "FORBIDDEN": (world.as_caregiver(1), 200, "only a client may do this"),
        "UNAUTHENTICATED": (world.as_anonymous(), 401, "sign in with a valid bearer token"),
    }

    for input_fields in (
        to_answer(TEST, FITTING),
        to_answer(99, {}),
        to_answer(TEST, {99: ""}),
        to_answer(IN_CLOSED, {}),
    ):
        for code, (caller, status, message) in texts.items():
            assert caller.post_graphql(document, input=input_fields).status_code == status
            assert caller.graphql(document, input=input_fields) == {
                "data": None,
                "errors": [refusal(code, message, verb, column=column)],
            }
    assert stored(world) == before


NO_ANSWERS: dict[str, dict[str, Any]] = {
    "no answers": {"assignmentId": str(TEST)},
    "no assignment": {"answers": []},
    "a revision too large": to_answer(TEST, {}, revision=2**31),
    "a revision as text": to_answer(TEST, {}, revision="1"),
    "a question alone": {"assignmentId": str(TEST), "answers": [{"questionId": "4"}]},
    "an answer alone": {"assignmentId": str(TEST), "answers": [{"answer": "x"}]},
    "a null": {"assignmentId": str(TEST), "answers": [{"questionId": "4", "answer": None}]},
    "a number": {"assignmentId": str(TEST), "answers": [{"questionId": "4", "answer": 7}]},
    "nothing": {"assignmentId": str(TEST), "answers": [None]},
}


@pytest.mark.sqlite_only
@pytest.mark.parametrize("document", [SAVE, SUBMIT], ids=["save", "submit"])
def test_invalid_answer_input_fails_validation(world: Gateway, document: str) -> None:
    before = stored(world)

    for what, input_fields in NO_ANSWERS.items():
        (error,) = world.as_client(1).graphql(document, input=input_fields)["errors"]
        assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}, what
    assert stored(world) == before
