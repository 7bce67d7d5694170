"""Promise: the code is built as docs/architecture.md draws it. A module imports from its own room or from a
lower floor, and nothing of `moving_over`; every setting, command and make target is documented; files name no
person and no machine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from app.cli import main
from app.settings import KNOWN
from tests.commands import every_command

ROOT = Path(__file__).parent.parent
# From top to bottom: a module imports from its own room or from one further down. `telemetry` has two floors,
# because metrics and traces observe every other room.
ROOMS = (
    "__main__",
    "cli",
    "doctor",
    "main",
    "landing",
    "dev",
    "telemetry.metrics",
    "telemetry.tracing",
    "rest_compat",
    "schema",
    "events",
    "usage",
    "server",
    "http",
    "auth",
    "care",
    "engine",
    "db",
    "telemetry",
    "settings",
    "caches",
    "version",
)
FORBIDDEN = {
    "care": {"starlette", "strawberry", "graphql", "jwt", "os"},
    "db": {"starlette", "strawberry", "graphql", "jwt", "os"},
    "engine": {"app.care", "app.db", "app.settings", "app.telemetry"},
    "events": {"starlette", "strawberry", "graphql", "jwt", "os"},
}


# --- floors ---


def breaches(app: Path) -> list[str]:
    """Every import that goes up, across, or where its room must not go."""
    return [
        f"{path.relative_to(app)} imports {name}"
        for path in sorted(app.rglob("*.py"))
        for name in imports(path, app.parent)
        if not is_allowed(path.relative_to(app), name)
    ]


def imports(path: Path, root: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = path.relative_to(root).parts
            above = ".".join(here[: len(here) - node.level]) + "." if node.level else ""
            base = f"{above}{node.module or ''}".rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def is_allowed(path: Path, name: str) -> bool:
    if name.partition(".")[0] == "moving_over":
        return False
    room = room_of(".".join(path.with_suffix("").parts))
    if any(f"{name}.".startswith(f"{banned}.") for banned in FORBIDDEN.get(room, ())):
        return False
    if not name.startswith("app.") or room == "__init__":
        return not name.startswith("app.")
    other = room_of(name.removeprefix("app."))
    return room == other or ROOMS.index(room) < ROOMS.index(other)


def room_of(module: str) -> str:
    """The longest name in `ROOMS` that the module's name begins with."""
    names = [name for name in ROOMS if f"{module}.".startswith(f"{name}.")]
    return max(names, key=len, default=module.partition(".")[0])


def test_a_module_imports_from_its_own_room_or_from_a_lower_one() -> None:
    assert breaches(ROOT / "app") == []


def test_the_package_for_moving_over_imports_only_the_service() -> None:
    others = {path.name for path in ROOT.iterdir() if any(path.glob("*.py"))} - {"app", "moving_over"}

    used = {
        name.partition(".")[0]
        for path in (ROOT / "moving_over").rglob("*.py")
        for name in imports(path, ROOT)
    }

    assert {"tests", "supply"} <= others
    assert used & others == set()


def test_every_room_has_its_place_in_the_order() -> None:
    found = {path.stem for path in (ROOT / "app").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}

    assert found - {"__init__"} == {room for room in ROOMS if "." not in room}
    assert len(found - {"__init__", "__main__"}) <= 19


@pytest.mark.parametrize(
    ("file", "line", "imported"),
    [
        ("db/reads.py", "from app.care import errors", "app.care.errors"),
        ("db/reads.py", "import os.path", "os.path"),
        ("db/reads.py", "from os import environ", "os.environ"),
        ("db/migrations/env.py", "from strawberry.types import Info", "strawberry.types.Info"),
        ("care/sessions.py", "from app.schema.node import Node", "app.schema.node.Node"),
        ("care/sessions.py", "import jwt", "jwt"),
        ("care/sessions.py", "import app.settings\nfrom starlette import status", "starlette.status"),
        ("care/sessions.py", "from ..schema import node", "app.schema.node"),
        ("care/sessions.py", "def later():\n    import graphql", "graphql"),
        ("engine/executor.py", "from app.care.errors import NotFound", "app.care.errors.NotFound"),
        ("engine/executor.py", "import app.care", "app.care"),
        ("engine/executor.py", "from app import care", "app.care"),
        ("auth/keys.py", "from app.http import health", "app.http.health"),
        ("schema/query.py", "from app import dev", "app.dev"),
        ("landing/page.py", "from app.main import create_app", "app.main.create_app"),
        ("telemetry/logs.py", "from app.telemetry import tracing", "app.telemetry.tracing"),
        ("schema/query.py", "from app.rest_compat.bodies import page", "app.rest_compat.bodies.page"),
        ("rest_compat/routes.py", "from app.main import create_app", "app.main.create_app"),
        ("settings.py", "from app.db.moments import Moment", "app.db.moments.Moment"),
        ("__init__.py", "from app.main import create_app", "app.main.create_app"),
        ("cli/legacy.py", "from moving_over import commands", "moving_over.commands"),
        ("cli/legacy.py", "def later():\n    import moving_over.commands", "moving_over.commands"),
    ],
)  # fmt: skip
def test_an_import_that_breaks_a_rule_is_reported(
    tmp_path: Path, file: str, line: str, imported: str
) -> None:
    path = tmp_path / "app" / file
    path.parent.mkdir(parents=True)
    path.write_text(line + "\n")

    assert breaches(tmp_path / "app") == [f"{file} imports {imported}"]


def test_an_allowed_import_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "app/schema/query.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os\nimport strawberry\nfrom app.schema import node\nfrom . import lists\nimport app.care\n"
    )

    assert breaches(tmp_path / "app") == []


# --- documentation ---


def test_every_file_that_the_architecture_page_names_exists() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[\w.]*)`", (ROOT / "docs/architecture.md").read_text()))

    missing = {name for name in named if not ((ROOT / name).exists() or (ROOT / "app" / name).exists())}

    assert len(named) > 40
    assert missing == set()


def documentation() -> str:
    return "\n".join(
        path.read_text()
        for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    )


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()

    assert [name for name in KNOWN if not re.search(rf"^\|[^|]*`{name}`[^|]*\|", page, re.MULTILINE)] == []


def test_every_command_is_documented() -> None:
    text = documentation()
    names = [" ".join(words) for words, each in every_command(main) if not isinstance(each, click.Group)]

    assert [name for name in names if not re.search(rf"(care-gateway|python -m app) {name}\b", text)] == []


def test_every_make_target_is_documented() -> None:
    text = documentation()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert [name for name in targets if not re.search(rf"\bmake {name}\b", text)] == []


# --- what no file may hold ---

TEXTS = sorted(
    path
    for folder in (
        "app",
        "moving_over",
        "tests",
        "clients/helpers",
        "clients/relay",
        "clients/setups",
        "clients/tests",
    )
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and not {"__pycache__", "built", "node_modules"}.intersection(path.parts)
)
ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b")
MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|root|work|tmp)/\w|\b[A-Z]:\\\w")
TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}")


def held(text: str) -> list[str]:
    strangers = [
        address
        for address in ADDRESS.findall(text)
        if not address.endswith((".test", ".example", ".invalid"))
    ]
    return [*strangers, *MACHINE.findall(text), *TOKEN.findall(text)]


def test_no_file_names_a_real_person_or_a_machine_or_holds_a_token() -> None:
    assert {str(path.relative_to(ROOT)): found for path in TEXTS if (found := held(path.read_text()))} == {}


def test_such_a_name_would_be_found() -> None:
    at, slash, token = "@", "/", "eyJ" + "x" * 9 + "." + "y" * 9

    assert held(f"mara.lind{at}example.com") == [f"mara.lind{at}example.com"]
    assert held(f"open('{slash}home{slash}mara/care.db')") == [f"{slash}home{slash}m"]
    assert held(f"bearer {token}") == [token]
    assert held(f"jonas.berg{at}example.test and @pytest.mark.live and a{slash}home{slash}b") == []
