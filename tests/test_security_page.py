"""The tests, pages and settings that docs/security.md and docs/dependencies.md name exist."""

import re
from pathlib import Path

import pytest

from app.settings import KNOWN

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "docs" / name for name in ("security.md", "dependencies.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_the_page_names_exists(page: Path) -> None:
    text = page.read_text()
    files = [ROOT / name for name in re.findall(r"`((?:tests|bench)/[\w/.]+)`", text)]
    linked = [page.parent / name for name in re.findall(r"\]\(([\w/.-]+\.md)", text)]
    settings = set(re.findall(r"`(CARE_[A-Z_]+)", text)) - set(KNOWN)

    assert [str(path.relative_to(ROOT)) for path in [*files, *linked] if not path.exists()] == []
    assert settings == set()
