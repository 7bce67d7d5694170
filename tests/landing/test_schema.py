"""`/schema` is the printed GraphQL schema, served where introspection needs no token.

`care-gateway schema --reference` prints the same page in any environment.
"""

import html

import pytest
from click.testing import CliRunner

from app.cli import main
from app.landing.reference import schema_page
from app.main import create_app
from app.schema.schema import build_schema, schema_text
from app.settings import Environment, Settings
from tests.callers import opened


@pytest.fixture(scope="module")
def page() -> str:
    return schema_page(schema_text(build_schema()))


def test_the_command_prints_the_page_with_the_whole_schema(page: str) -> None:
    result = CliRunner().invoke(main, ["schema", "--reference"])

    assert (result.exit_code, result.stdout) == (0, page)
    assert html.escape(schema_text(build_schema())) in page


@pytest.mark.parametrize(
    ("env", "introspection", "status"),
    [
        (Environment.DEVELOPMENT, None, 200),
        (Environment.DEVELOPMENT, False, 404),
        (Environment.PRODUCTION, None, 404),
        (Environment.PRODUCTION, True, 404),  # introspection needs a token there
    ],
)
def test_the_page_is_served_where_introspection_needs_no_token(
    settings: Settings, page: str, env: Environment, introspection: bool | None, status: int
) -> None:
    settings = settings.model_copy(update={"env": env, "introspection": introspection})

    with opened(create_app(settings)) as client:
        response, as_text = (client.fetch("GET", path) for path in ("/schema", "/schema.graphql"))
        front = client.fetch("GET", "/", headers={"accept": "text/html"})

    assert (response.status_code, as_text.status_code) == (status, status)
    assert ('href="/schema"' in front.text) == (status == 200)
    assert (response.text == page) == (status == 200)
    if status == 200:
        assert "script" not in response.headers["content-security-policy"] and "<script" not in page
