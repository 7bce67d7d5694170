"""Promise: error messages describe invalid input without quoting its values."""

import pytest

from tests.callers import Gateway
from tests.factories import a_world, starting_with

pytestmark = starting_with(a_world)

SECRET = "a secret 'found: it' value: \"x\n, found: y"
LITERAL = '"a secret"'
SUBMIT = "mutation ($input: SubmitAnswersInput!) { submitAnswers(input: $input) { userErrors { message } } }"
SAVE = "mutation ($input: SaveAnswersInput!) { saveAnswers(input: $input) { userErrors { message } } }"
GIVE = "mutation ($input: GiveFeedbackInput!) { giveFeedback(input: $input) { userErrors { message } } }"
LIST = "query ($input: TimeState) { assignments(timeState: $input) { totalCount } }"
DATES = "mutation ($input: SetRemindersInput!) { setReminders(input: $input) { userErrors { message } } }"
AT = "Variable '$input' has invalid value"

BY_VARIABLE = {
    "no object": (SUBMIT, SECRET, f"{AT}: Expected value of type 'SubmitAnswersInput' to be an object."),
    "no object within": (
        SUBMIT,
        {"assignmentId": 1, "answers": SECRET},
        f"{AT} at .answers: Expected value of type 'AnswerInput' to be an object.",
    ),
    "unknown member": (
        GIVE,
        {"answerSetId": 1, "text": SECRET, "nothing": SECRET},
        f"{AT}: Expected value of type 'GiveFeedbackInput' not to include unknown field 'nothing'.",
    ),
    "misspelt member": (
        GIVE,
        {"answerSetId": 1, "text": "", "scores": SECRET},
        f"{AT}: Expected value of type 'GiveFeedbackInput' not to include unknown field 'scores'."
        " Did you mean 'score'?",
    ),
    "no text": (
        GIVE,
        {"answerSetId": 1, "text": [SECRET]},
        f"{AT} at .text: String cannot represent a non string value.",
    ),
    "no id": (
        GIVE,
        {"answerSetId": {"note": SECRET}, "text": ""},
        f"{AT} at .answerSetId: ID cannot represent value.",
    ),
    "no 32-bit number": (
        GIVE,
        {"answerSetId": 1, "text": "", "score": 4711**3},
        f"{AT} at .score: Int cannot represent non 32-bit signed integer value.",
    ),
    "no boolean": (
        SAVE,
        {"assignmentId": 1, "answers": [], "autoSave": SECRET},
        f"{AT} at .autoSave: Boolean cannot represent a non boolean value.",
    ),
    "no word": (LIST, SECRET, f"{AT}: Value does not exist in 'TimeState' enum."),
    "no moment": (
        DATES,
        {"assignmentId": 1, "remindDates": [SECRET]},
        f"{AT} at .remindDates[0]: Expected value of type 'DateTime', but encountered error"
        " 'a DateTime reads like 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00'.",
    ),
}  # fmt: skip

MANY_DIGITS = "47" * 2150 + "1"  # more than Python converts
IN_THE_DOCUMENT = {
    f"{{ assignments(timeState: {LITERAL}) {{ totalCount }} }}": "Enum 'TimeState' cannot represent"
    " non-enum value.",
    f"{{ assignments(first: {LITERAL}) {{ totalCount }} }}": "Int cannot represent non-integer value.",
    '{ assignments(first: """a\nsecret""") { totalCount } }': "Int cannot represent non-integer value.",
    "{ assignments(first: 4711000000) { totalCount } }": "Int cannot represent non 32-bit signed integer"
    " value.",
    f"{{ assignments(first: {MANY_DIGITS}) {{ totalCount }} }}": "Expected value of type 'Int', but"
    " encountered error 'Exceeds the limit (4300 digits) for integer string conversion: value has 4301"
    " digits; use sys.set_int_max_str_digits() to increase the limit'.",
    f"{{ books(isTest: {LITERAL}) {{ totalCount }} }}": "Boolean cannot represent a non boolean value.",
    "{ book(id: 47.11) { id } }": "ID cannot represent a non-string and non-integer value.",
    "{ submissions(since: 4711) { totalCount } }": "Expected value of type 'DateTime', but encountered error"
    " 'a DateTime reads like 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00'.",
    f"{{ books({LITERAL}) {{ totalCount }} }}": "Syntax Error: Expected Name, found String.",
    f'{{ books(""{LITERAL}"") {{ totalCount }} }}': "Syntax Error: Expected Name, found BlockString.",
    "{ books(search 4711) { totalCount } }": "Syntax Error: Expected ':', found Int.",
    "{ viewer { role } } 47.11": "Syntax Error: Unexpected Float.",
    f"{{ books(search: [{LITERAL}]) {{ totalCount }} }}": "String cannot represent a non string value.",
}  # fmt: skip


NAMES = {
    "{ mine }": "Cannot query field 'mine' on type 'Query'.",
    "{ assignments(mine: 1) { totalCount } }": "Unknown argument 'mine' on field 'Query.assignments'.",
    "{ viewer { ...mine } }": "Unknown fragment 'mine'.",
    "{ viewer @mine { role } }": "Unknown directive '@mine'.",
    "query ($mine: Int) { viewer { role } }": "Variable '$mine' is never used.",
    "{ assignments(timeState: MINE) { totalCount } }": "Value does not exist in 'TimeState' enum.",
}  # fmt: skip


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize(("query", "value", "message"), BY_VARIABLE.values(), ids=BY_VARIABLE)
def test_messages_do_not_quote_variables(gateway: Gateway, query: str, value: object, message: str) -> None:

    response = gateway.as_caregiver(1).graphql(query, input=value)

    assert [error["message"] for error in response["errors"]] == [message]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("query", IN_THE_DOCUMENT, ids=[query[:50] for query in IN_THE_DOCUMENT])
def test_messages_do_not_quote_literals(gateway: Gateway, query: str) -> None:

    response = gateway.as_caregiver(1).graphql(query)

    assert [error["message"] for error in response["errors"]] == [IN_THE_DOCUMENT[query]]


@pytest.mark.once_on_postgresql
@pytest.mark.parametrize("query", NAMES)
def test_messages_quote_names_but_not_values(gateway: Gateway, query: str) -> None:

    response = gateway.as_caregiver(1).graphql(query)

    assert [error["message"] for error in response["errors"]] == [NAMES[query]]
