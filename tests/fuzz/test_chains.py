"""Requests that follow each other as schemathesis connects the legacy operations: with ids, links and values
of earlier responses. Every response is documented."""

from collections import Counter
from http import HTTPStatus
from typing import Any

import pytest
import requests
import schemathesis
from schemathesis import Case
from schemathesis.core.transport import Response

from tests import openapi
from tests.fuzz.counts import SOAK_CHAINS, short, soak
from tests.fuzz.direct_requests import DirectService
from tests.fuzz.response_rules import check_response
from tests.fuzz.test_rest import MAY, bytes_of, with_token

WORKFLOW: Any = schemathesis.openapi.from_path(openapi.PATH).as_state_machine()
Counts = Counter[tuple[str, bool, int]]  # operation, whether it follows another one, status


def chains(service: DirectService) -> tuple[Any, Counts]:
    counts: Counts = Counter()

    class Chain(WORKFLOW):  # type: ignore[misc]
        def step(self, input: Any) -> Any:
            output = super().step(input)
            counts[input.case.operation.label, input.transition is not None, output.response.status_code] += 1
            return output

        def call(self, case: Case, **_: Any) -> Response:
            [sender] = [tag.lower() for tag in case.operation.tags]
            request = with_token(bytes_of(case), sender)
            response = service.send(request)
            check_response(request, response, MAY[sender])
            headers = {name.decode(): [value.decode("latin-1")] for name, value in response.headers}
            sent = requests.Request(request.method, f"http://gateway.test{request.path}").prepare()
            return Response(response.status, headers, response.body, sent, 0.0, False)

        def validate_response(self, *_: Any, **__: Any) -> None:
            """`call` checks it."""

    return Chain, counts


def assert_chained(counts: Counts) -> None:
    reached = {label for label, follows, status in counts if follows and status == HTTPStatus.OK}
    assert reached == {f"{method} {path}" for path, method, _ in openapi.operations()} - LISTS


LISTS = {f"GET {path}" for path in openapi.PATHS if "{id}" not in path}  # with which chains begin


def test_operations_that_follow_each_other_are_answered_as_documented(
    service: DirectService, logged_errors: list[str]
) -> None:
    chain, counts = chains(service)

    chain.run(settings=short(5))

    assert logged_errors == []
    assert any(follows for _, follows, _ in counts)


@pytest.mark.soak
def test_two_hundred_chains_are_answered_as_documented(
    service: DirectService, logged_errors: list[str]
) -> None:
    chain, counts = chains(service)

    chain.run(settings=soak(SOAK_CHAINS))

    assert logged_errors == []
    assert_chained(counts)
    print(f"{counts.total()} requests: {sorted(counts.items())}")
