"""A build of the pages, and a browser that opens them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev import building
from app.main import create_app
from app.settings import Settings
from tests.callers import Caller, opened
from tests.factories import NOW

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FILES = {
    "page-A1B2C3D4.js": "import('./chunk-E5F6G7H8.js')",
    "page-I9J0K1L2.css": "body {}",
    "page-K1L2M3N4.js": "export {}",
    "page-O5P6Q7R8.css": "p {}",
    "page-S9T0U1V2.js": "import 'search'",
    "page-W3X4Y5Z6.css": "a {}",
    "chunk-E5F6G7H8.js": "export {}",
    "search.json": "[]",
    "docs-index.json": "[]",
    "licences.txt": "What it is built from.",
}
PAGE = {"script": "page-A1B2C3D4.js", "style": "page-I9J0K1L2.css"}
PAGES = {
    "graphiql": PAGE,
    "rest": {"script": "page-K1L2M3N4.js", "style": "page-O5P6Q7R8.css"},
    "site": {"script": "page-S9T0U1V2.js", "style": "page-W3X4Y5Z6.css"},
}
DOCUMENTS = {
    "/schema": {"title": "Schema", "html": "<main>The schema</main>"},
    "/docs": {
        "title": "Documentation",
        "html": "<main>The start of the docs</main>",
        "text": "# Documentation\n\n- [A guide](/docs/guides/frontend.md): how\n",
    },
    "/docs/guides/frontend": {
        "title": "Guide & <code>",
        "html": "<main>A {{guide}}</main>",
        "text": "# A {{guide}}\n",
    },
    "/docs/clients/relay.config.json": {"title": "relay.config.json", "html": "<main>A file</main>"},
}
MANIFEST = {
    "pages": PAGES,
    "documents": DOCUMENTS,
    "files": list(FILES),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build, beside files that must not be served."""
    made = tmp_path / "built"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "manifest.json").write_text(json.dumps(MANIFEST))
    (made / "other.js").write_text("private")
    (tmp_path / "secret.txt").write_text("private")
    monkeypatch.setattr(building, "BUILT", made)
    return made


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"recent_requests": 50})


@pytest.fixture
def browser(folder: Path, settings: Settings) -> Iterator[Caller]:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Caller(client, None)
