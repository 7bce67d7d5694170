"""Makes the response of a result, and writes it as JSON within a limit of bytes (docs/limits.md).

A text is in memory once, but in the response under each alias and in each row that refers to it. A response
that may be much longer than the limit is therefore measured before it is written.
"""

from collections import Counter
from math import inf
from typing import Any

import orjson
from graphql import GraphQLError
from strawberry.types import ExecutionResult

from app.care.budgets import KIB
from app.care.context import Context
from app.care.errors import ResponseTooLong
from app.engine.schema import PreparingSchema
from app.schema.errors import count_errors, format_error

# A response that is expected to have up to so many times the limit is written without being measured.
WRITTEN_UNMEASURED = 4
MAX_PART = 1000  # characters: the error of a response that is too long must not be too long itself

Path = tuple[str, ...]


def response_body(result: ExecutionResult, request_id: str) -> dict[str, Any]:
    response: dict[str, Any] = {"data": result.data}
    if result.errors:
        errors = sorted(result.errors, key=position_of)
        response["errors"] = [format_error(error, request_id) for error in errors]
    if result.extensions:
        response["extensions"] = result.extensions
    return response


def position_of(error: GraphQLError) -> tuple[object, ...]:
    """Sorts the errors of fields as the document does. They occur in the order in which statements end."""
    if error.path is None or not error.locations:
        return ()
    return (error.locations[0], *((isinstance(step, str), step) for step in error.path))


def write_response(schema: PreparingSchema, response: dict[str, Any], ctx: Context) -> bytes:
    """Raises ResponseTooLong, which names the part of the response to select less of."""
    limits = schema.engine_options.limits
    if limits is None:
        return orjson.dumps(response)
    limit = limits.response + ctx.exempt_length
    if ctx.expected_length > WRITTEN_UNMEASURED * limit:
        lengths = measure(response, limit)
        if lengths.total() > limit:
            raise too_long(limit, lengths, ctx)
    body = orjson.dumps(response)
    if len(body) > limit:
        raise too_long(limit, measure(response), ctx)
    return body


def write_result(schema: PreparingSchema, result: ExecutionResult, ctx: Context) -> bytes:
    """Charges a point per KiB, as the HTTP responses that are no streams."""
    body = write_response(schema, response_body(result, ctx.request_id), ctx)
    count_errors(result.errors or ())
    ctx.budget.charge(len(body) // KIB, needed=0)
    return body


def measure(response: dict[str, Any], limit: float = inf) -> Counter[Path]:
    """The bytes of names and texts in the objects under each path, without escapes. Stops above the limit."""
    lengths: Counter[Path] = Counter()
    waiting: list[tuple[Path, Any]] = [((), response)]
    while waiting and limit >= 0:
        path, value = waiting.pop()
        if value.__class__ is list:
            waiting += [(path, each) for each in value]
            continue
        texts = [value]
        if value.__class__ is dict:
            texts = [*value, *value.values()]
            waiting += [
                ((*path, name), each) for name, each in value.items() if each.__class__ in (dict, list)
            ]
        length = sum(length_of(each) for each in texts if each.__class__ is str)
        lengths[path] += length
        limit -= length
    return lengths


def length_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def too_long(limit: int, lengths: Counter[Path], ctx: Context) -> ResponseTooLong:
    longest = max(lengths, key=lengths.__getitem__)
    part = ".".join(longest[1:] if longest[:1] == ("data",) else longest)
    fewer = f"select fewer fields of `{part}`" if 0 < len(part) <= MAX_PART else "select fewer fields"
    return ctx.too_long(limit, f"{fewer}, or request less at once")


def result_of(rejection: ResponseTooLong, extensions: dict[str, Any] | None = None) -> ExecutionResult:
    error = GraphQLError(rejection.message, original_error=rejection)
    return ExecutionResult(None, [error], extensions)
