"""A browser, a service with the demo data, and what every page must not do."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.dev.building import NotBuilt
from tests.browser.browsers import ROOT, NoBrowser, find_browser
from tests.browser.chrome import Page, opened_browser
from tests.live.processes import Served, run, serving

SCREENSHOTS = ROOT / "var" / "browser"
# Everything that the page stores.
STORED = "JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])"


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return find_browser()
    except (NoBrowser, NotBuilt) as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def page(program: Path) -> Iterator[Page]:
    with opened_browser(program) as one:
        yield one


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    var = tmp_path_factory.mktemp("demo")
    assert run("demo", env="development", var=str(var)).returncode == 0
    return var


@pytest.fixture
def served(demo: Path, tmp_path: Path) -> Iterator[Served]:
    """A service with its own copy of the demo data."""
    var = shutil.copytree(demo, tmp_path / "var")
    with serving(tmp_path / "log", module="app", env="development", var=str(var)) as one:
        yield one


def allow_clipboard(served: Served, page: Page) -> None:
    rights = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    page.send("Browser.grantPermissions", origin=served.url, permissions=rights)


def assert_no_errors_and_no_foreign_requests(served: Served, page: Page) -> None:
    here = (f"{served.url}/", f"{served.url.replace('http', 'ws')}/", "data:")
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(here)] == []
    assert "bearer" not in page.evaluate(STORED).lower()
