"""README's examples return what it shows, and the recorded calls of the migration page can be read."""

import json
import re
from pathlib import Path

import pytest

from app.db.admin.demo import CAREGIVER, demo_lines
from app.db.admin.importing import importing
from app.legacy_migration.recorded_calls import read_calls
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


def test_the_calls_that_the_migration_page_shows_can_be_read(tmp_path: Path) -> None:
    shown = [block.text for block in pages.blocks(pages.read("docs/moving-over.md")) if block.kind == "json"]
    (tmp_path / "000007.json").write_text("{}")
    (tmp_path / "index.jsonl").write_text("".join(shown))

    calls = list(read_calls(tmp_path))

    assert [(call.method, call.role, call.user is None) for call in calls] == [
        ("GET", "CLIENT", False),
        ("GET", None, True),
    ]
