"""README's examples return what it shows."""

import json
import re

import pytest

from app.db.admin.demo import CAREGIVER, demo_lines
from app.db.interchange.load import importing
from tests import keys, pages
from tests.callers import Gateway, run_write
from tests.factories import NOW

README = pages.read("README.md")


def blocks(language: str) -> list[str]:
    return [block.text for block in pages.blocks(README) if block.kind == language]


@pytest.fixture
def demo(gateway: Gateway) -> Gateway:
    run_write(gateway.settings.database, importing(demo_lines(NOW)))
    return gateway


@pytest.mark.sqlite_only
def test_the_first_query_returns_what_readme_shows(demo: Gateway) -> None:
    (query,) = blocks("graphql")
    shown = json.loads(blocks("json")[0])

    answer = demo.with_token(keys.token("CAREGIVER", CAREGIVER)).graphql(query)

    assert answer == shown


@pytest.mark.sqlite_only
def test_the_first_legacy_call_returns_what_readme_shows(demo: Gateway) -> None:
    path = re.search(r"http://127\.0\.0\.1:8000(/gateway\S+)", README)
    assert path is not None
    shown = json.loads(blocks("json")[1])

    answer = demo.with_token(keys.token("CAREGIVER", CAREGIVER)).get(path[1])

    assert answer.status_code == 200
    assert answer.text == json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
