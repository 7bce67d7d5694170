"""Promise: where the full GraphQL page is built, development serves it under a policy that lets in nothing
from elsewhere, with its files and nothing beside them; a build that is not whole is not served, and who
cannot build hears why."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import main
from app.dev.ide import building
from app.dev.ide.building import NotBuilt, check_built
from app.dev.ide.examples import EXAMPLES, SUBSCRIPTION_EXAMPLES
from app.dev.ide.page import PLAIN_POLICY
from app.main import create_app
from app.settings import Environment, Settings
from supply.lock import NODE_LOCK, read_lock
from supply.wheel import locked_node
from tests.callers import Caller, opened
from tests.factories import NOW

pytestmark = pytest.mark.sqlite_only

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FILES = {
    "page-A1B2C3D4.js": "import('./chunk-E5F6G7H8.js')",
    "page-I9J0K1L2.css": "body {}",
    "chunk-E5F6G7H8.js": "export {}",
    "licences.txt": "What it is built from.",
}
MANIFEST = {"script": "page-A1B2C3D4.js", "style": "page-I9J0K1L2.css", "files": list(FILES)}
SOURCES = Path(building.SOURCES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build, and beside it what is nobody's business."""
    made = tmp_path / "built"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    (made / "manifest.json").write_text(json.dumps(MANIFEST))
    (made / "other.js").write_text("nobody's business")
    (tmp_path / "secret.txt").write_text("nobody's business")
    monkeypatch.setattr(building, "BUILT", made)
    return made


@pytest.fixture
def browser(folder: Path, settings: Settings) -> Iterator[Caller]:
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        yield Caller(client, None)


def test_the_full_page_is_served_under_a_strict_policy(browser: Caller) -> None:
    page = browser.get("/graphql", headers=BROWSER)

    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        "img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    loaded = re.findall(r"""(?:src|href)=["']?([^"'\s>]+)""", page.text)
    assert [each for each in loaded if not each.startswith("data:")] == [
        "/graphql/ide/page-I9J0K1L2.css",
        "/graphql/ide/page-A1B2C3D4.js",
    ]
    assert re.findall(r"<script(.*?)>", page.text) == [
        ' type="application/json" id="config"',
        ' type="module" src="/graphql/ide/page-A1B2C3D4.js"',
    ]
    assert "{{" not in page.text and "<style" not in page.text and not re.search(r"\son\w+=", page.text)


def test_its_config_has_the_examples_and_those_that_listen(browser: Caller) -> None:
    text = browser.get("/graphql", headers=BROWSER).text
    config: dict[str, Any] = json.loads(text.split('id="config">')[1].split("</script>")[0])

    assert config["endpoint"] == "/graphql"
    assert config["tokens"] == {}  # these tests' keys are from elsewhere
    assert [(one["role"], one["title"]) for one in config["examples"]] == [
        (one.role, one.title) for one in EXAMPLES + SUBSCRIPTION_EXAMPLES
    ]


def test_what_it_loads_is_kept_for_good(browser: Caller) -> None:
    kinds = {"js": "text/javascript", "css": "text/css", "txt": "text/plain"}

    for name, text in FILES.items():
        said = browser.get(f"/graphql/ide/{name}")
        kept = "no-cache" if name == "licences.txt" else "public, max-age=31536000, immutable"
        assert (said.status_code, said.text) == (200, text)
        assert said.headers["content-type"] == f"{kinds[name.split('.')[1]]}; charset=utf-8"
        assert said.headers["cache-control"] == kept
        assert said.headers["x-content-type-options"] == "nosniff"
        assert said.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "other.js",
        "",
        ".",
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "chunk-E5F6G7H8.js/",
        "chunk-E5F6G7H8.js%00",
        "CHUNK-E5F6G7H8.JS",
        "%2fetc%2fpasswd",
        "page.html",
    ],
)
def test_nothing_beside_its_files_is_given_to_anybody(browser: Caller, name: str) -> None:
    said = browser.get(f"/graphql/ide/{name}")

    assert said.status_code == 404
    assert "nobody's business" not in said.text


def test_production_shows_none_of_it(folder: Path, settings: Settings) -> None:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        nobody = Caller(client, None)
        said = [
            nobody.get(path, headers=BROWSER) for path in ("/graphql", f"/graphql/ide/{MANIFEST['script']}")
        ]

    assert [one.status_code for one in said] == [401, 404]


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        json.dumps(MANIFEST | {"script": "page-ZZZZZZZZ.js"}),
        json.dumps(MANIFEST | {"files": [*FILES, "chunk-gone.js"]}),
        json.dumps(MANIFEST | {"files": [name for name in FILES if name != "licences.txt"]}),
        json.dumps(MANIFEST | {"files": [*FILES, "../secret.txt"]}),
        json.dumps(MANIFEST | {"files": [*FILES, "page.html"]}),
        json.dumps(MANIFEST | {"files": 1}),
    ],
)
def test_a_build_that_is_not_whole_is_not_served(folder: Path, settings: Settings, manifest: str) -> None:
    (folder / "manifest.json").write_text(manifest)

    with pytest.raises(NotBuilt):
        check_built(folder)
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        page = Caller(client, None).get("/graphql", headers=BROWSER)
        script = Caller(client, None).get(f"/graphql/ide/{MANIFEST['script']}")

    assert page.headers["content-security-policy"] == PLAIN_POLICY
    assert "<code>make ide</code>" in page.text
    assert script.status_code == 404


# --- building it ----------------------------------------------------------------------------------


def test_without_node_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)

    said = CliRunner().invoke(main, ["ide", "build"])

    assert said.exit_code == 2
    assert said.stderr == (
        "care-gateway: Node is missing. `make ide` installs it, or do so yourself: "
        "pip install --require-hashes -r requirements-node.lock\n"
    )


def test_an_installed_package_says_that_it_is_built_in_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "SOURCES", tmp_path)

    said = CliRunner().invoke(main, ["ide", "build"])

    assert (said.exit_code, said.stderr) == (2, f"care-gateway: {building.NO_SOURCES}\n")


def test_where_npm_gets_nothing_the_command_says_so_and_what_was_there_stays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that only complains stands for Node without a network."""
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho npm error network; exit 1\n")
    node.chmod(0o755)
    monkeypatch.setattr(building, "find_node", lambda: node)

    with pytest.raises(NotBuilt) as fault:
        building.build(folder, report=lambda text: None)

    assert str(fault.value) == f"{building.NO_PACKAGES}\nnpm error network"
    assert check_built(folder).script == MANIFEST["script"]


def test_the_packages_are_exact_hashed_and_say_no_address() -> None:
    named = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]

    own = lock.pop("")
    wanted = {**named["dependencies"], **named["devDependencies"]}
    assert own["dependencies"] | own["devDependencies"] == wanted
    assert {name: lock[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, one in lock.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, one in lock.items() if "resolved" in one] == []


def test_the_wheel_is_built_with_the_node_that_is_locked() -> None:
    assert locked_node() == [f"{one.name}=={one.version}" for one in read_lock(NODE_LOCK.read_text())]
