"""Every recipe of docs/cookbook.md, run on fresh demo data, returns the whole response that it shows."""

import re

import pytest
from graphql import parse, print_ast

from app.care.errors import CareError
from app.db.admin.demo import demo_lines
from app.db.admin.importing import importing
from app.dev.ide.examples import EXAMPLES
from app.http.errors import OVERLOADED
from app.main import schema_of_service
from app.schema.errors import INTERNAL, TOO_COSTLY
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


def codes(kind: type[CareError] = CareError) -> set[str]:
    own = {kind.code} if hasattr(kind, "code") else set()
    return own.union(*(codes(each) for each in kind.__subclasses__()))


def test_every_error_code_is_documented() -> None:
    table = dict(pages.sections(PAGE))["Errors"]

    documented = set(re.findall(r"`([A-Z_]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))))

    assert codes() | {INTERNAL, OVERLOADED, TOO_COSTLY} <= documented
