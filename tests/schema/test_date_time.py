"""The DateTime scalar: RFC 3339 with an offset on input, UTC with `Z` on output.

Contract: any other text is a validation error with a reason, as a variable and as a literal.
"""

from datetime import UTC, datetime

import pytest

from app.schema.types.scalars import read_moment, write_moment
from tests.callers import Gateway
from tests.schema.worlds import refusal

READ = {
    "2026-11-21T09:00:00Z": "2026-11-21T09:00:00Z",
    "2026-11-21t09:00:00z": "2026-11-21T09:00:00Z",
    "2026-11-21T10:00:00+01:00": "2026-11-21T09:00:00Z",
    "2026-11-21T00:30:00-08:30": "2026-11-21T09:00:00Z",
    "2026-11-21T09:00:00+00:00": "2026-11-21T09:00:00Z",
    "2026-11-21T09:00:00-00:00": "2026-11-21T09:00:00Z",
    "2026-11-21T09:00:00.5Z": "2026-11-21T09:00:00.500000Z",
    "2026-11-21T09:00:00.123456Z": "2026-11-21T09:00:00.123456Z",
    "2026-11-21T09:00:00.123456789Z": "2026-11-21T09:00:00.123456Z",
    "2026-11-21T09:00:00.0Z": "2026-11-21T09:00:00Z",
    "2028-02-29T23:59:59+23:59": "2028-02-29T00:00:59Z",
    "0001-01-01T00:00:00Z": "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z": "9999-12-31T23:59:59.999999Z",
}
FORM = "a DateTime reads like 2026-11-21T09:00:00Z or 2026-11-21T10:00:00+01:00"
EXISTS = "this DateTime does not exist"
REFUSED = {
    "2026-W01": FORM,
    "2026-W47-6T09:00:00Z": FORM,
    "2026-325T09:00:00Z": FORM,
    "2026-11-21": FORM,
    "2026-11-21T09:00:00": FORM,
    "2026-11-21T09:00Z": FORM,
    "2026-11-21T09Z": FORM,
    "2026-11-21 09:00:00Z": FORM,
    "20261121T090000Z": FORM,
    "2026-11-21T09:00:00+0100": FORM,
    "2026-11-21T09:00:00+01": FORM,
    "2026-11-21T09:00:00+01:00:00": FORM,
    "2026-11-21T09:00:00 Z": FORM,
    "2026-11-21T09:00:00.Z": FORM,
    "2026-11-21T09:00:00,5Z": FORM,
    " 2026-11-21T09:00:00Z": FORM,
    "2026-11-21T09:00:00Z\n": FORM,
    "+2026-11-21T09:00:00Z": FORM,
    "12026-11-21T09:00:00Z": FORM,
    "٢٠٢٦-11-21T09:00:00Z": FORM,
    "2026/11/21 09:00": FORM,
    "1795251600": FORM,
    "": FORM,
    "now": FORM,
    "0000-01-01T00:00:00Z": EXISTS,
    "0001-01-01T00:00:00+00:01": EXISTS,
    "9999-12-31T23:59:59-00:01": EXISTS,
    "2026-13-01T00:00:00Z": EXISTS,
    "2026-02-29T00:00:00Z": EXISTS,
    "2026-11-31T00:00:00Z": EXISTS,
    "2026-11-21T24:00:01Z": EXISTS,
    "2026-11-21T25:00:00Z": EXISTS,
    "2026-11-21T09:60:00Z": EXISTS,
    "2026-11-21T09:00:60Z": EXISTS,
    "2026-11-21T09:00:00+24:00": EXISTS,
}
ASSIGN = """mutation($d: DateTime!) { assignHomework(input: {
    sessionId: 5, bookIds: [1], startDate: $d, endDate: "2999-12-31T23:59:59Z" }) { userErrors { code } } }"""


@pytest.mark.parametrize(("text", "written"), READ.items(), ids=READ.keys())
def test_a_time_is_parsed_and_written_in_utc(text: str, written: str) -> None:
    moment = read_moment(text)

    assert moment.tzinfo is UTC
    assert write_moment(moment) == written


@pytest.mark.parametrize(("text", "reason"), REFUSED.items(), ids=REFUSED.keys())
def test_an_invalid_time_is_rejected(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}".replace("+", r"\+")):
        read_moment(text)


@pytest.mark.parametrize("value", [None, 1795251600, 1.5, True, [], {}, datetime(2026, 11, 21)])
def test_only_text_is_parsed(value: object) -> None:
    with pytest.raises(ValueError, match="a DateTime reads like"):
        read_moment(value)


@pytest.mark.sqlite_only
@pytest.mark.parametrize("text", ["2026-W01", "2026-11-21T09:00:00", "2026-02-29T00:00:00Z"])
def test_an_invalid_variable_fails_validation(standing: Gateway, text: str) -> None:
    message = (
        "Variable '$d' has invalid value: Expected value of type 'DateTime', "
        f"but encountered error '{REFUSED[text]}'."
    )

    assert standing.as_caregiver(1).graphql(ASSIGN, d=text) == {
        "data": None,
        "errors": [refusal("GRAPHQL_VALIDATION_FAILED", message, column=10)],
    }


@pytest.mark.sqlite_only
@pytest.mark.parametrize("text", ["2026-W01", "2026-11-21T09:00:00", "2026-02-29T00:00:00Z"])
def test_an_invalid_literal_fails_validation_without_a_log_line(
    standing: Gateway, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = ASSIGN.replace("($d: DateTime!)", "").replace("$d", f'"{text}"')
    message = f"Expected value of type 'DateTime', but encountered error '{REFUSED[text]}'."

    response = standing.as_caregiver(1).graphql(query)

    assert response == {
        "data": None,
        "errors": [refusal("GRAPHQL_VALIDATION_FAILED", message, line=2, column=44)],
    }
    assert [record for record in caplog.records if record.name == "care.graphql"] == []


@pytest.mark.parametrize("text", ["2026-11-21T09:00:00Z", "2026-11-21T10:00:00.5+01:00"])
def test_a_time_may_be_a_literal(standing: Gateway, text: str) -> None:
    query = ASSIGN.replace("($d: DateTime!)", "").replace("$d", f'"{text}"')

    response = standing.as_caregiver(1).data(query)  # of another caregiver's session: nothing is written

    assert response == {"assignHomework": {"userErrors": [{"code": "NOT_FOUND"}]}}


@pytest.mark.sqlite_only
def test_the_scalar_has_a_specification_url(standing: Gateway) -> None:
    query = '{ __type(name: "DateTime") { kind specifiedByURL } }'

    assert standing.as_anonymous().data(query) == {
        "__type": {"kind": "SCALAR", "specifiedByURL": "https://www.rfc-editor.org/rfc/rfc3339"}
    }
