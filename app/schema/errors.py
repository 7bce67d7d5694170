"""GraphQL errors: `userErrors` of payloads, and top-level errors with a code."""

import re
from collections.abc import Iterable
from typing import Any

import strawberry
from graphql import FieldNode, GraphQLError, GraphQLSyntaxError

from app.care.errors import Rejected, UserErrorCode, WrongAnswer, WrongAnswers
from app.db.tables import Question
from app.engine.limits import TooCostly
from app.http.errors import INTERNAL_ERROR, Failure, failure_of
from app.schema.types.scalars import global_id
from app.telemetry import counters

# The parts of graphql-core 3.3's messages that quote the input.
QUOTES = re.compile(
    r"[,;] found: .*|(?<!invalid value)(?<= value): .*|(?:(?<=String)|(?<= Int)|(?<= Float)) ['\"].*"
    r"|(?<=\?) Found: .*",
    re.DOTALL,
)
QUOTE_BEFORE = re.compile(r"(?<=Value )'.*' (?=does not exist in '\w+' enum)", re.DOTALL)


@strawberry.type(description="A correctable problem with the input.")
class UserError:
    code: UserErrorCode = strawberry.field(description="Reason for the rejection.")
    field: list[str] | None = strawberry.field(
        description="Path of the invalid field in `input`, in a list with the index: `bookIds`, `1`. "
        "For an answer, `answers` and the question id."
    )
    message: str = strawberry.field(
        description="A fixed message for developers, without input values. Show users your own text."
    )


def user_errors(rejection: Rejected) -> list[UserError]:
    """One error per field, so that a form can show each next to its field."""
    rejection.__traceback__ = None  # a failed write holds its error, which would hold the request's frames
    if isinstance(rejection, WrongAnswers):
        return [
            UserError(code=each.code, field=path_of_answer(each), message=each.message)
            for each in rejection.wrong
        ]
    paths: list[list[str] | None] = [member.split(".") for member in rejection.members] or [None]
    return [UserError(code=rejection.code, field=path, message=rejection.message) for path in paths]


def path_of_answer(wrong: WrongAnswer) -> list[str]:
    """Names the question instead of the list index, as a missing answer has no index."""
    if wrong.question_id is None:
        return ["answers"]
    return ["answers", global_id(Question.__name__, wrong.question_id)]


def failure_in(error: GraphQLError) -> Failure:
    """The failure of a rule, of GraphQL itself, or INTERNAL for unexpected exceptions."""
    if isinstance(error, TooCostly):
        return Failure.TOO_COSTLY
    original = error.original_error
    if is_wrong_value(error):
        return Failure.INTERNAL
    if original is not None and not isinstance(original, GraphQLError) and not is_unreadable_literal(error):
        return failure_of(original)
    return Failure.NOT_PARSED if isinstance(error, GraphQLSyntaxError) else Failure.NOT_VALID


def is_wrong_value(error: GraphQLError) -> bool:
    """Whether a field has a value that its type cannot have. An error with a path and another node than a
    field is about an argument."""
    original = error.original_error
    if error.path is None or not isinstance(original, GraphQLError):
        return False
    return all(isinstance(node, FieldNode) for node in original.nodes or ())


def is_unreadable_literal(error: GraphQLError) -> bool:
    """Whether a scalar rejected a literal in the document during validation."""
    return isinstance(error.original_error, ValueError) and error.path is None and bool(error.nodes)


def format_error(error: GraphQLError, request_id: str) -> dict[str, Any]:
    """An error for the response. An internal error has only its request id, which the log has too."""
    failure = failure_in(error)
    body: dict[str, Any] = dict(error.formatted)
    body["message"] = INTERNAL_ERROR if failure is Failure.INTERNAL else without_input(error.message)
    body["extensions"] = {"code": failure.code, "requestId": request_id}
    return body


def count_errors(errors: Iterable[GraphQLError]) -> None:
    """Counts the errors of a response that was written."""
    for error in errors:
        counters.codes[failure_in(error).code] += 1
        if isinstance(error, TooCostly):
            counters.limits[error.unit] += 1


def without_input(message: str) -> str:
    """Removes quoted input, as clients may log messages."""
    quoting = QUOTES.search(cut := QUOTE_BEFORE.sub("", message, count=1))
    if quoting is None:
        return cut
    return cut[: quoting.start()] + ("" if quoting[0].startswith(" Found") else ".")
