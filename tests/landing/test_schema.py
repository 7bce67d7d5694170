"""`/schema.graphql` is the printed GraphQL schema, served where introspection needs no token.

`care-gateway schema` prints it in any environment.
"""

import pytest
from click.testing import CliRunner

from app.cli import main
from app.main import create_app
from app.schema.schema import build_schema, schema_text
from app.settings import Environment, Settings
from tests.callers import opened


def test_the_command_prints_the_schema() -> None:
    result = CliRunner().invoke(main, ["schema"])

    assert (result.exit_code, result.stdout) == (0, schema_text(build_schema()))


@pytest.mark.parametrize(
    ("env", "introspection", "status"),
    [
        (Environment.DEVELOPMENT, None, 200),
        (Environment.DEVELOPMENT, False, 404),
        (Environment.PRODUCTION, None, 404),
        (Environment.PRODUCTION, True, 404),  # introspection needs a token there
    ],
)
def test_the_schema_is_served_where_introspection_needs_no_token(
    settings: Settings, env: Environment, introspection: bool | None, status: int
) -> None:
    settings = settings.model_copy(update={"env": env, "introspection": introspection})

    with opened(create_app(settings)) as client:
        page, text = (client.fetch("GET", path) for path in ("/schema", "/schema.graphql"))
        start = client.fetch("GET", "/")

    assert (page.status_code, text.status_code) == (status, status)
    assert ("/schema.graphql" in start.text) == (status == 200)
    assert (text.text == schema_text(build_schema())) == (status == 200)
