"""The reference is the schema as a page to read: all of it, where the schema may be asked for.

Contract: `/schema` in development, unless introspection is off; `care-gateway schema --reference` anywhere.
"""

import re
from html import unescape

import pytest
from click.testing import CliRunner
from graphql import GraphQLField, GraphQLObjectType, GraphQLSchema, GraphQLString, build_schema

from app.cli import main
from app.landing.schema import schema_page
from app.main import create_app
from app.schema import schema as ours
from app.settings import Environment, Settings
from tests.callers import opened
from tests.schema.test_sdl import described


@pytest.fixture(scope="module")
def page() -> str:
    return schema_page(ours.build_schema()._schema)


def test_everything_that_is_described_is_on_the_page(page: str) -> None:
    read = unescape(re.sub(r"<[^>]*>", "", page))

    for name, text in described(build_schema(ours.schema_text(ours.build_schema()))):
        assert text.replace("`", "") in read, name
        if "(" not in name:
            assert page.count(f' id="{name}"') == 1, name


def test_every_link_of_the_page_leads_somewhere_on_it(page: str) -> None:
    links = re.findall(r'href="(#[^"]*)"', page)

    assert "#Session" in links
    assert {link for link in links if f' id="{link.removeprefix("#")}"' not in page} == set()


def test_the_page_shows_what_is_on_its_way_out() -> None:
    field = GraphQLField(GraphQLString, description="Old & <odd>.", deprecation_reason="Use `new` by 2030.")

    page = schema_page(GraphQLSchema(GraphQLObjectType("Query", {"old": field})))

    assert "<div>Old &amp; &lt;odd&gt;.</div>" in page
    assert '<p class="bad">Deprecated: Use <code>new</code> by 2030.</p>' in page


def test_the_command_prints_the_page(page: str) -> None:
    said = CliRunner().invoke(main, ["schema", "--reference"])

    assert (said.exit_code, said.stdout) == (0, page)


@pytest.mark.parametrize(
    ("env", "introspection", "status"),
    [
        (Environment.DEVELOPMENT, None, 200),
        (Environment.DEVELOPMENT, False, 404),
        (Environment.PRODUCTION, None, 404),
        (Environment.PRODUCTION, True, 404),  # by those alone who are signed in
    ],
)
def test_the_page_is_served_where_anybody_may_ask_for_the_schema(
    settings: Settings, page: str, env: Environment, introspection: bool | None, status: int
) -> None:
    settings = settings.model_copy(update={"env": env, "introspection": introspection})

    with opened(create_app(settings)) as client:
        answer, as_text = (client.ask("GET", path) for path in ("/schema", "/schema.graphql"))
        front = client.ask("GET", "/", headers={"accept": "text/html"})

    assert (answer.status_code, as_text.status_code) == (status, status)
    assert ('href="/schema"' in front.text) == (status == 200)
    assert (answer.text == page) == (status == 200)
    if status == 200:
        assert "script" not in answer.headers["content-security-policy"] and "<script" not in page
