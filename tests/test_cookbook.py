"""Every recipe of docs/cookbook.md, run on fresh demo data, returns the whole response that it shows."""

import re

import pytest
from graphql import parse, print_ast

from app.db.admin.demo import demo_lines
from app.db.interchange.load import importing
from app.dev.graphiql import EXAMPLES
from app.http.errors import Failure
from app.main import schema_of_service
from app.settings import Settings
from tests import pages
from tests.callers import Gateway, run_write
from tests.doc_runner import run_page, with_default_limits
from tests.factories import NOW

PAGE = pages.read("docs/cookbook.md")


def recipes() -> dict[str, str]:
    return {title: text for title, text in pages.sections(PAGE, level=3) if "```json" in text}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return with_default_limits(settings)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize("title", recipes())
def test_a_recipe_returns_what_the_page_shows(gateway: Gateway, title: str) -> None:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))

    for shown, real in run_page(recipes()[title], gateway):
        assert real == shown


def operations(text: str) -> dict[str, str]:
    document = parse(text)
    return {one.name.value: print_ast(one) for one in document.definitions if getattr(one, "name", None)}


def test_an_example_of_the_graphql_page_equals_the_recipe_of_the_same_name() -> None:
    shown: dict[str, str] = {}
    for block in pages.blocks(PAGE):
        if block.kind.startswith("graphql"):
            shown |= operations(block.text)
    offered: dict[str, str] = {}
    for example in EXAMPLES:
        offered |= operations(example.query)

    common = shown.keys() & offered.keys()
    assert {"AssignHomework", "SubmitAnswers"} <= common
    assert {name: offered[name] for name in common} == {name: shown[name] for name in common}


def test_every_query_mutation_and_subscription_has_a_recipe() -> None:
    schema = schema_of_service(True)._schema
    roots = (schema.query_type, schema.mutation_type, schema.subscription_type)

    shown = {
        field.name.value
        for block in pages.blocks(PAGE)
        if block.kind.startswith("graphql")
        for one in parse(block.text).definitions
        for field in one.selection_set.selections  # type: ignore[attr-defined]
    }

    assert {name for root in roots if root for name in root.fields} - shown == set()


def documented_errors() -> dict[str, tuple[set[int], str]]:
    """The statuses and the action of each code."""
    found = {}
    for line in dict(pages.sections(PAGE))["Errors"].splitlines():
        if line.startswith("| `"):
            codes, where, action = line.strip("| ").split(" | ")
            statuses = set(map(int, re.findall(r"\b[2-5][0-9]{2}\b", where)))
            found |= dict.fromkeys(re.findall(r"`(\w+)`", codes), (statuses, action))
    return found


def test_exactly_the_error_codes_of_the_service_are_documented() -> None:
    assert documented_errors().keys() == {each.code for each in Failure}


@pytest.mark.parametrize("failure", Failure, ids=lambda each: each.name)
def test_an_error_is_documented_with_its_status_and_whether_to_retry(failure: Failure) -> None:
    same_code = [each for each in Failure if each.code == failure.code]
    statuses, action = documented_errors()[failure.code]

    assert statuses <= {each.graphql for each in same_code}
    if failure.is_of_result and failure.json != 200:
        assert failure.graphql in statuses
    is_retried = re.search("(?<!not )wait|with the same", action) is not None
    assert is_retried == any(each.is_retried for each in same_code)
