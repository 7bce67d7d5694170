"""Promise: a document above a limit is rejected before execution on every transport; production discloses
nothing about the schema."""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.engine.schema import EngineOptions
from app.main import create_app
from app.schema.schema import engine_options_of
from app.settings import Environment, Settings
from tests.callers import Caller, Gateway, opened, schema_of
from tests.factories import NOW
from tests.schema.keyed import KEY, post
from tests.schema.listening import listening, streaming

pytestmark = pytest.mark.sqlite_only

USUAL = {name: Settings.model_fields[name].default for name in ("token_limit", "depth_limit", "cost_limit")}
DEEP = "{ session(id: 1) " + "{ latestAssignment { session " * 8 + "{ id }" + " } }" * 8 + " }"
WIDE_LISTS = "{ sessions(first: 100) { nodes { assignments(first: 100) { nodes { id name } } } } }"
FANNING_OUT = (
    "{ ...F0 } "
    + " ".join(f"fragment F{n} on Query {{ ...F{n + 1} ...F{n + 1} }}" for n in range(40))
    + " fragment F40 on Query { viewer { role } }"
)
EQUAL = "{ viewer { " + "role " * 500 + "} }"
ALIASES = "{ viewer { " + " ".join(f"a{n}: role" for n in range(101)) + " } }"
ROOTS = "{ " + "viewer { role } " * 51 + "}"
DIRECTIVES = "{ viewer { role " + "@skip(if: false) " * 101 + "} }"
TOKENS = "{ viewer { " + "role " * 2000 + "} }"
COMMENTS = "#\n" * 2001 + "{ viewer { role } }"
FRAGMENTS = "{ viewer { role } } " + "".join(f"fragment F{n} on Viewer {{ role }} " for n in range(101))
LINKED_LISTS = (
    "{ sessions(first: 1) { nodes { "
    + " ".join(f"a{n}: assignments(first: {n}) {{ nodes {{ id }} }}" for n in range(1, 22))
    + " } } }"
)
OBJECTS = (
    "{ "
    + " ".join(
        f"a{n}: assignment(id: {n}) {{ book {{ module {{ id }} }} session {{ id }} }}" for n in range(38)
    )
    + " }"
)
SPREAD = f"{2**41 - 1 + 2**40 + 2**40}"

REFUSED = {
    TOKENS: "more than 2000 tokens, and 2000",
    COMMENTS: "more than 2000 comments, and 2000",
    FRAGMENTS: "101 fragments, and 100",
    DEEP: "18 levels of fields, and 15",
    FANNING_OUT: f"{SPREAD} selections, and 1000",
    ALIASES: "101 aliases, and 100",
    ROOTS: "51 root fields, and 50",
    DIRECTIVES: "101 directives, and 100",
    EQUAL: "249500 comparisons of fields under one name, and 10000",
    LINKED_LISTS: "21 lists with pages inside objects, and 20",
    OBJECTS: "152 objects and lists, and 150",
    WIDE_LISTS: "21111 points of cost, and 15000",
    "{ a " * 600 + "}" * 600: "more than 64 levels, and 64",
}
COST = {WIDE_LISTS: 21111}


def refusal(text: str) -> dict[str, Any]:
    """The whole response without the request id, with the cost if it is known."""
    message = f"Too costly: {REFUSED[text]} are allowed."
    extensions = {"extensions": {"cost": {"cost": COST[text], "limit": 15000}}} if text in COST else {}
    return {
        "data": None,
        "errors": [{"message": message, "extensions": {"code": "TOO_COSTLY"}}],
        **extensions,
    }


@pytest.fixture(scope="module")
def usual(standing: Gateway) -> Iterator[Gateway]:
    """With the default limits, in development."""
    settings = standing.settings.model_copy(update=USUAL)
    with opened(create_app(settings, clock=lambda: NOW), reports_cost=True) as client:
        yield Gateway(client, settings)


@pytest.fixture
def caregiver(usual: Gateway) -> Caller:
    return usual.as_caregiver(1)


@pytest.mark.parametrize("text", REFUSED, ids=[each.partition(",")[0] for each in REFUSED.values()])
def test_a_document_above_a_limit_is_rejected_every_time(caregiver: Caller, text: str) -> None:
    for _ in range(3):
        assert caregiver.post_graphql(text).status_code == 400
        assert caregiver.graphql(text) == refusal(text)


def test_a_document_at_a_limit_is_executed(caregiver: Caller) -> None:
    text = "{ viewer { " + " ".join(f"a{n}: role" for n in range(100)) + " } }"

    assert caregiver.data(text) == {"viewer": {f"a{n}": "CAREGIVER" for n in range(100)}}


def test_the_largest_number_of_lists_inside_objects_is_executed(caregiver: Caller) -> None:
    lists = " ".join(f"a{n}: assignments(first: {n}) {{ nodes {{ id }} }}" for n in range(1, 21))

    for _ in range(3):
        [session] = caregiver.data(f"{{ sessions(first: 1) {{ nodes {{ {lists} }} }} }}")["sessions"]["nodes"]
        assert len(session) == 20


# --- the deepest documents -------------------------------------------------------------------------


def nested(levels: int) -> str:
    """A document with this many levels of fields, an even number."""
    below = levels // 2 - 1
    opened = "{ session(id: 1) " + "{ latestAssignment { session " * below
    return opened + "{ title }" + " } }" * below + " }"


def stack_depth() -> int:
    frame, depth = inspect.currentframe(), 0
    while frame:
        frame, depth = frame.f_back, depth + 1
    return depth


@pytest.mark.parametrize("engine", [True, False], ids=["prepared", "plain"])
def test_the_deepest_document_needs_half_of_the_stack_of_the_interpreter(
    standing: Gateway, engine: bool
) -> None:
    """With CARE_DEPTH_LIMIT=64, its maximum. So its result does not depend on the version of Python."""
    settings = standing.settings.model_copy(update={"depth_limit": 64, "engine": engine})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        caller = Gateway(client, settings).as_client(1)
        caller.data(nested(6))  # what is made at the first use needs more of the stack
        limit = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(stack_depth() + limit // 2)
            responses = [caller.graphql(nested(64)) for _ in range(2)]
            refused = caller.graphql(nested(66))
        finally:
            sys.setrecursionlimit(limit)

    for response in responses:
        assert "errors" not in response
        levels, found = 1, response["data"]["session"]
        while isinstance(found, dict):
            levels, found = levels + 1, next(iter(found.values()))
        assert (levels, found) == (64, "Session 1")
    [error] = refused["errors"]
    assert error["message"] == "Too costly: more than 64 levels, and 64 are allowed."


def by_get(caller: Caller, text: str) -> Any:
    return caller.get("/graphql", params={"query": text})


def with_a_key(caller: Caller, text: str) -> Any:
    return post(caller, {"query": text}, KEY)


def in_pieces(caller: Caller, text: str) -> Any:
    headers = {"content-type": "application/json; charset=utf-8"}
    return caller.request("POST", "/graphql", json={"query": text}, headers=headers)


@pytest.mark.parametrize("send", [by_get, with_a_key, in_pieces])
@pytest.mark.parametrize(
    "text", [WIDE_LISTS, DEEP, FANNING_OUT, TOKENS], ids=["cost", "depth", "spread", "tokens"]
)
def test_a_document_above_a_limit_is_rejected_over_every_transport(
    caregiver: Caller, send: Callable[[Caller, str], Any], text: str
) -> None:
    response = send(caregiver, text)
    body = response.json()
    assert body["errors"][0]["extensions"].pop("requestId")

    assert (response.status_code, body) == (400, refusal(text))


@pytest.mark.parametrize(
    "text", [WIDE_LISTS, DEEP, FANNING_OUT, TOKENS], ids=["cost", "depth", "spread", "tokens"]
)
def test_a_document_above_a_limit_is_rejected_over_a_websocket(caregiver: Caller, text: str) -> None:
    with listening(caregiver) as listener:
        listener.subscribe(text)

        assert listener.receive() == {"type": "error", "id": "1", "payload": refusal(text)["errors"]}


SUBSCRIPTION = (
    "subscription { assignmentChanged { assignment " + "{ session { latestAssignment " * 8 + "{ id }"
)
SUBSCRIPTION += " } }" * 8 + " } }"
SUBSCRIBED = {
    "data": None,
    "errors": [
        {
            "message": "Too costly: 19 levels of fields, and 15 are allowed.",
            "extensions": {"code": "TOO_COSTLY"},
        }
    ],
}


def test_a_subscription_above_a_document_limit_is_rejected_before_the_stream(caregiver: Caller) -> None:
    headers = {"accept": "text/event-stream"}
    response = caregiver.request("POST", "/graphql", json={"query": SUBSCRIPTION}, headers=headers)
    body = response.json()
    assert body["errors"][0]["extensions"].pop("requestId")

    assert (response.status_code, body) == (400, SUBSCRIBED)


def test_a_subscription_above_the_cost_limit_is_rejected_in_an_event(caregiver: Caller) -> None:
    text = "subscription($n: Int) { assignmentChanged { session { assignments(first: $n) { nodes { session {"
    text += " assignments(first: 100) { nodes { id name } } } } } } } }"

    with streaming(caregiver, text, n=100) as stream:
        [(kind, body), end] = list(stream.events)
    [error] = body["errors"]

    assert (kind, end) == ("next", ("complete", None))
    assert error["message"] == "Too costly: 21222 points of cost, and 15000 are allowed."
    assert error["extensions"]["code"] == "TOO_COSTLY"


def test_a_subscription_above_the_cost_limit_is_rejected_over_a_websocket(caregiver: Caller) -> None:
    with listening(caregiver) as listener:
        listener.subscribe(SUBSCRIPTION)

        assert listener.receive() == {"type": "error", "id": "1", "payload": SUBSCRIBED["errors"]}


def test_a_subscription_with_too_many_variables_is_rejected_in_an_event(caregiver: Caller) -> None:
    text = "subscription($after: ID) { assignmentChanged(after: $after) { id } }"

    with streaming(caregiver, text, others=[1] * 2000) as stream:
        [(kind, body), end] = list(stream.events)
    [error] = body["errors"]

    assert (kind, end) == ("next", ("complete", None))
    assert error["message"] == "Too costly: 2001 values in the variables, and 2000 are allowed."
    assert error["extensions"]["code"] == "TOO_COSTLY"


def test_a_page_size_in_a_variable_counts(caregiver: Caller) -> None:
    text = "query($n: Int) { sessions(first: 50) { nodes { assignments(first: $n) {"
    text += " nodes { id name score } } } } }"

    assert "errors" not in caregiver.graphql(text, n=1)
    assert caregiver.graphql(text, n=100)["errors"] == [
        {
            "message": "Too costly: 15561 points of cost, and 15000 are allowed.",
            "extensions": {"code": "TOO_COSTLY"},
        }
    ]


def test_too_many_values_in_variables_are_rejected(caregiver: Caller) -> None:
    text = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }"

    for _ in range(2):
        assert caregiver.graphql(text, ids=[1.5] * 2000)["errors"] == [
            {
                "message": "Too costly: 2001 values in the variables, and 2000 are allowed.",
                "extensions": {"code": "TOO_COSTLY"},
            }
        ]


@pytest.mark.parametrize(
    "text", ["{ ...A } fragment A on Query { ...A }", "{ ...A } fragment A on Query { node(id: 1) { ...B } }"
             " fragment B on Query { ...A }"],
)  # fmt: skip
def test_circular_fragments_are_reported(caregiver: Caller, text: str) -> None:
    [error] = caregiver.graphql(text)["errors"]

    assert error["message"].startswith("Cannot spread fragment 'A' within itself")
    assert error["extensions"] == {"code": "GRAPHQL_VALIDATION_FAILED"}


def test_only_the_first_validation_errors_are_reported(caregiver: Caller) -> None:
    text = "{ viewer { " + " ".join(f"x{n}" for n in range(50)) + " } }"

    errors = caregiver.graphql(text)["errors"]

    assert len(errors) == 11
    assert errors[-1]["message"] == "Too many validation errors, error limit reached. Validation aborted."


def test_introspection_is_limited_in_its_depth(caregiver: Caller) -> None:
    text = "interfaces { possibleTypes { " * 2 + "name" + " } }" * 2

    errors = caregiver.graphql(f'{{ __type(name: "Session") {{ {text} }} }}')["errors"]

    assert [each["message"] for each in errors] == ["Maximum introspection depth exceeded"]


# --- reported cost ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("{ viewer { role } }", 2),
        ("{ viewer { role } session(id: 1) { id } }", 8),
        ("{ nothing }", 1),
        ("{ session(id: 99) { id } }", 6),
    ],
    ids=["answered", "with two roots", "invalid", "with an error"],
)
def test_in_development_a_response_reports_its_cost(caregiver: Caller, text: str, cost: int) -> None:
    for _ in range(3):
        assert caregiver.graphql(text)["extensions"] == {"cost": {"cost": cost, "limit": 15000}}


def test_in_development_a_rejected_repetition_reports_its_cost(caregiver: Caller) -> None:
    query = "query($n: Int) { clients(first: $n) { nodes { progress { assignmentCount } } } }"

    responses = [caregiver.graphql(query, n=number) for number in (1, 1, 1, 100)]

    assert ["errors" in each for each in responses] == [False, False, False, True]
    assert [each["extensions"]["cost"]["cost"] for each in responses] == [312, 312, 312, 30_111]


def test_in_development_a_response_that_is_too_long_reports_its_cost(
    usual: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_of(usual.client.app)
    assert schema.engine_options.limits is not None
    limits = replace(schema.engine_options.limits, response=1000)
    monkeypatch.setattr(schema, "engine_options", replace(schema.engine_options, limits=limits))

    roles = " ".join(f"a{n}: role" for n in range(100))
    response = usual.as_caregiver(1).graphql(f"{{ viewer {{ {roles} }} }}")

    advice = "select fewer fields of `viewer`, or request less at once"
    message = f"the response would have more than 1000 bytes: {advice}"
    assert response == {
        "data": None,
        "errors": [{"message": message, "extensions": {"code": "TOO_COSTLY"}}],
        "extensions": {"cost": {"cost": 101, "limit": 15000}},
    }


def test_in_development_a_websocket_reports_the_cost(caregiver: Caller) -> None:
    with listening(caregiver) as listener:
        listener.subscribe("{ viewer { role } }")

        assert listener.receive()["payload"]["extensions"] == {"cost": {"cost": 2, "limit": 15000}}


def test_production_disables_introspection_suggestions_and_cost_reports() -> None:
    found = engine_options_of(Settings())

    assert found == EngineOptions(found.limits, introspection=False, reports_cost=False)
    assert found.limits is not None
    assert not engine_options_of(Settings(env=Environment.DEVELOPMENT, introspection=False)).introspection


# --- production ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def production(standing: Gateway) -> Iterator[Gateway]:
    settings = standing.settings.model_copy(update={**USUAL, "env": Environment.PRODUCTION})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Gateway(client, settings)


def test_introspection_is_rejected_in_production(production: Gateway) -> None:
    for field in ("__schema { queryType { name } }", '__type(name: "Query") { name }'):
        error = production.as_client(1).graphql(f"{{ {field} }}")["errors"][0]

        name = field.partition(" ")[0].partition("(")[0]
        assert error["message"] == (
            f"GraphQL introspection has been disabled, but the requested query contained the field '{name}'."
        )
    assert production.as_client(1).data("{ __typename viewer { __typename } }") == {
        "__typename": "Query",
        "viewer": {"__typename": "Viewer"},
    }


def test_introspection_can_be_enabled_in_production(production: Gateway) -> None:
    settings = production.settings.model_copy(update={"introspection": True})
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        gateway = Gateway(client, settings)

        assert gateway.as_client(1).data("{ __schema { queryType { name } } }") == {
            "__schema": {"queryType": {"name": "Query"}}
        }
        assert gateway.as_anonymous().post_graphql("{ __schema { queryType { name } } }").status_code == 401


CLOSING = {"i": {"sesionId": "1"}}
MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("{ viewr { role } }", {}),
    ("{ viewer { rol } }", {}),
    ("{ sessions(frst: 1) { totalCount } }", {}),
    ("{ sessions(timeState: RUNING) { totalCount } }", {}),
    ("{ viewer { ... on Viewr { role } } }", {}),
    ("{ viewer sessions }", {}),
    ("query($s: TimeStat) { sessions(timeState: $s) { totalCount } }", {}),
    ("query($s: TimeState) { sessions(timeState: $s) { totalCount } }", {"s": "RUNING"}),
    ("mutation($i: CloseSessionInput!) { closeSession(input: $i) { session { id } } }", CLOSING),
    ("query($s: TimeState) { viewer { role } sessions(timeState: $s) { totalCount } }", {"s": "FUTUR"}),
    ("mutation { closeSession(input: {sesionId: 1}) { userErrors { code } } }", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "variables"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_errors_have_no_suggestions_in_production(
    usual: Gateway, production: Gateway, text: str, variables: dict[str, Any]
) -> None:
    extensions = usual.as_client(1).graphql(text, **variables)["errors"]
    for _ in range(2):
        untold = production.as_client(1).graphql(text, **variables)["errors"]

        assert "Did you mean" in str(extensions)
        assert "Did you mean" not in str(untold)
        assert [each["extensions"] for each in untold] == [each["extensions"] for each in extensions]


@pytest.mark.parametrize(
    ("text", "variables"),
    [("subscription { assignmentChanged { idd } }", {}),
     ("subscription($s: ID) { assignmentChanged(sesionId: $s) { id } }", {"s": "1"})],
)  # fmt: skip
def test_errors_have_no_suggestions_over_a_websocket_in_production(
    production: Gateway, text: str, variables: dict[str, Any]
) -> None:
    with listening(production.as_caregiver(1)) as listener:
        listener.subscribe(text, **variables)

        body = listener.receive()
    assert body["type"] == "error"
    assert "Did you mean" not in str(body)
