"""Development serves the built pages and their files only, under a policy that allows no other hosts.
An incomplete build is not served, and a failing build explains why."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.dev import building
from app.dev.assets import built_page
from app.dev.building import NotBuilt, check_built
from app.main import create_app
from app.settings import Environment, Settings
from tests.callers import Caller, opened
from tests.dev.conftest import BROWSER, FILES, MANIFEST, PAGE
from tests.factories import NOW

pytestmark = pytest.mark.sqlite_only

SOURCES = Path(building.SOURCES)
PRIVATE = "private"


def test_a_page_is_served_under_a_strict_policy(browser: Caller) -> None:
    page = browser.get("/graphql", headers=BROWSER)

    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        "img-src 'self' data:; connect-src 'self'; worker-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    loaded = re.findall(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?([^"'\s>]+)""", page.text)
    assert [each for each in loaded if not each.startswith("data:")] == [
        "/assets/page-I9J0K1L2.css",
        "/assets/page-A1B2C3D4.js",
    ]
    assert re.findall(r"<script(.*?)>", page.text) == [
        ' type="application/json" id="config"',
        ' type="module" src="/assets/page-A1B2C3D4.js"',
    ]
    assert "{{" not in page.text and "<style" not in page.text and not re.search(r"\son\w+=", page.text)


def test_what_a_script_reads_cannot_end_the_element_or_a_line(folder: Path) -> None:
    text = "</script><!--&\u2028\u2029"

    page = bytes(built_page(check_built(folder), "/graphql", {"a": text}).body).decode()

    [config] = re.findall(r'id="config">(.*)</script>\n', page)
    assert config == r'{"a": "\u003c/script\u003e\u003c!--\u0026\u2028\u2029"}'
    assert json.loads(config) == {"a": text}


def test_its_files_are_cached_forever(browser: Caller) -> None:
    kinds = {"js": "text/javascript", "css": "text/css", "txt": "text/plain", "json": "application/json"}

    for name, text in FILES.items():
        response = browser.get(f"/assets/{name}")
        is_hashed = name.startswith(("page-", "chunk-"))
        caching = "public, max-age=31536000, immutable" if is_hashed else "no-cache"
        assert (response.status_code, response.text) == (200, text)
        assert response.headers["content-type"].removesuffix("; charset=utf-8") == kinds[name.split(".")[1]]
        assert response.headers["cache-control"] == caching
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


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
def test_other_files_are_not_served(browser: Caller, name: str) -> None:
    response = browser.get(f"/assets/{name}")

    assert response.status_code == 404
    assert PRIVATE not in response.text


def test_production_serves_neither_page_nor_files(folder: Path, settings: Settings) -> None:
    own = settings.model_copy(update={"env": Environment.PRODUCTION})
    with opened(create_app(own, clock=lambda: NOW)) as client:
        anonymous = Caller(client, None)
        page = anonymous.get("/graphql", headers=BROWSER)
        script = anonymous.get(f"/assets/{PAGE['script']}")

    assert (page.status_code, script.status_code) == (401, 404)


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        json.dumps(MANIFEST | {"pages": {"graphiql": PAGE | {"script": "page-ZZZZZZZZ.js"}}}),
        json.dumps(MANIFEST | {"files": [*FILES, "chunk-gone.js"]}),
        *(
            json.dumps(MANIFEST | {"files": [name for name in FILES if name != lacking]})
            for lacking in ("licences.txt", PAGE["script"], PAGE["style"])
        ),
        json.dumps(MANIFEST | {"files": [*FILES, "../secret.txt"]}),
        json.dumps(MANIFEST | {"files": [*FILES, "page.html"]}),
        json.dumps(MANIFEST | {"files": 1}),
        json.dumps(MANIFEST | {"pages": ["graphiql"]}),
        json.dumps({name: MANIFEST[name] for name in ("pages", "files")}),
        json.dumps(MANIFEST | {"documents": {"/docs": {"title": "Documentation"}}}),
        None,
    ],
)
def test_an_incomplete_build_is_not_served(folder: Path, settings: Settings, manifest: str | None) -> None:
    if manifest is None:
        (folder / "manifest.json").unlink()
        (folder / "manifest.json").mkdir()  # like a file of another user, it cannot be read
    else:
        (folder / "manifest.json").write_text(manifest)

    with pytest.raises(NotBuilt):
        check_built(folder)
    with opened(create_app(settings, clock=lambda: NOW)) as client:
        page = Caller(client, None).get("/graphql", headers=BROWSER)
        script = Caller(client, None).get(f"/assets/{PAGE['script']}")

    assert page.status_code == 200
    assert "<code>make pages</code> builds it" in page.text
    assert "{{" not in page.text and "<script" not in page.text
    assert script.status_code == 404


def test_a_build_with_an_empty_file_is_incomplete(folder: Path) -> None:
    (folder / PAGE["style"]).write_text("")

    with pytest.raises(NotBuilt, match=f"^the build is incomplete: {PAGE['style']} is missing$"):
        check_built(folder)


# --- building ----------------------------------------------------------------------------------


def test_without_node_the_command_explains_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)

    result = CliRunner().invoke(main, ["pages", "build"])

    assert result.exit_code == 2
    assert result.stderr == (
        "care-gateway: Node is missing. `make pages` installs it, or do so yourself: "
        "pip install --require-hashes -r requirements-node.lock\n"
    )


def test_outside_a_checkout_the_command_refuses_to_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "SOURCES", tmp_path)

    result = CliRunner().invoke(main, ["pages", "build"])

    assert (result.exit_code, result.stderr) == (2, f"care-gateway: {building.NO_SOURCES}\n")


def test_a_failing_npm_is_reported_and_the_previous_build_stays(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that fails stands for Node without a network."""
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho npm error network; exit 1\n")
    node.chmod(0o755)
    monkeypatch.setattr(building, "find_node", lambda: node)

    with pytest.raises(NotBuilt) as fault:
        building.build(folder, report=lambda text: None)

    assert str(fault.value) == f"{building.NO_PACKAGES}\nnpm error network"
    assert check_built(folder).pages["graphiql"].script == PAGE["script"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo npm warn old; for n in 1 2 3 4 5 6 7; do echo npm error $n; done >&2; exit 1",
            "\n".join([building.NO_PACKAGES, *(f"npm error {n}" for n in range(1, 7))]),
        ),
        ("echo npm error memory; kill -9 $$", f"{building.NO_PACKAGES}\nnpm error memory"),
        ("exit 0", "the build has no readable manifest.json"),
        ("test ! -e node_modules || echo a copy; exit 1", building.NO_PACKAGES),
        ("exec sleep 100", f"{building.NO_PACKAGES}: timeout after 0.2 seconds"),
    ],
    ids=["long", "killed", "no result", "with packages of the sources", "slow"],
)
def test_a_failing_build_is_explained_and_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    sources, node = tmp_path / "web", tmp_path / "node"
    (sources / "node_modules").mkdir(parents=True)
    (sources / "package-lock.json").touch()
    node.write_text(f"#!/bin/sh\n{script}\n")
    node.chmod(0o755)
    monkeypatch.setattr(building, "SOURCES", sources)
    monkeypatch.setattr(building, "find_node", lambda: node)
    if "sleep" in script:
        monkeypatch.setattr(building, "TIMEOUT_SECONDS", 0.2)

    with pytest.raises(NotBuilt) as fault:
        building.build(folder, report=lambda text: None)

    assert str(fault.value) == message
    assert check_built(folder).pages["graphiql"].script == PAGE["script"]


def test_a_build_replaces_the_previous_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that copies files stands for npm and esbuild."""
    new, node, reported = tmp_path / "new", tmp_path / "node", []
    shutil.copytree(folder, new)
    (new / "other.js").unlink()
    (new / "chunk-E5F6G7H8.js").write_text("new")
    node.write_text(f'#!/bin/sh\nif [ "$1" = build.mjs ]; then cp {new}/* "$2"; fi\n')
    node.chmod(0o755)
    monkeypatch.setattr(building, "find_node", lambda: node)

    built = building.build(folder, report=reported.append)

    assert built == check_built(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in new.iterdir()
    }
    assert reported == ["installing the npm packages", "bundling"]


def test_a_node_that_does_not_start_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_node", lambda: folder / "missing")

    with pytest.raises(NotBuilt, match=r"^Node does not start: "):
        building.build(folder, report=lambda text: None)


def test_the_packages_are_pinned_and_hashed_without_addresses() -> None:
    named = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]

    own = lock.pop("")
    wanted = {**named["dependencies"], **named["devDependencies"]}
    assert own["dependencies"] | own["devDependencies"] == wanted
    assert {name: lock[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, one in lock.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert [name for name, one in lock.items() if "resolved" in one] == []
