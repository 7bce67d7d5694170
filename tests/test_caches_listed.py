"""Every cache of the service is in the table of docs/caches.md, with its key and its bound in bytes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import pages

APP = pages.ROOT / "app"
WITHOUT = ("caches.py", "dev", "cli", "db/admin", "db/migrations")
FUNCTIONS = {"cache", "lru_cache", "cached_property"}
CLASSES = {"BoundedCache", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}
EMPTY = {"dict", "set", "defaultdict", "Counter"}


def caches_in(app: Path) -> set[str]:
    """The names of all caches, found by their signs."""
    trees = {
        ".".join(path.relative_to(app).with_suffix("").parts): ast.parse(path.read_text())
        for path in app.rglob("*.py")
        if not path.relative_to(app).as_posix().startswith(WITHOUT)
    }
    nodes = [(module, node) for module, tree in trees.items() for node in ast.walk(tree)]
    measured = {each for module, node in nodes for each in measured_in(module, node)}
    return {
        f"{module}.{name}"
        for module, node in nodes
        for name in signs(node, {name for of, name in measured if of in (module, "")})
    }


def measured_in(module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """Collections whose length is compared with a limit, or whose first item is looked for: variables of this
    module, and attributes of any module."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Call) and name_of(node) == "iter":
        found = node.args
    elif isinstance(node, ast.Call) and name_of(node) == "popitem":
        found = [node.func.value]  # type: ignore[attr-defined]
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call) and name_of(node.left) == "len":
        is_order = isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        if is_order and not isinstance(node.comparators[0], ast.Constant | ast.Call):
            found = node.left.args
    for each in found:
        if isinstance(each, ast.Name | ast.Attribute):
            yield module if isinstance(each, ast.Name) else "", name_of(each)


def signs(node: ast.AST, measured: set[str]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if FUNCTIONS & {name_of(each) for each in node.decorator_list}:
            yield node.name
    elif isinstance(node, ast.ClassDef):
        is_filled = any(
            isinstance(each, ast.FunctionDef) and each.name == "__missing__" for each in node.body
        )
        if is_filled or any("Cache" in name_of(base) for base in node.bases):
            yield node.name
    elif isinstance(node, ast.keyword) and node.arg and node.arg.startswith("cached_"):
        yield node.arg  # of a library
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        name = name_of(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        calls = {name_of(each.func) for each in ast.walk(node.value) if isinstance(each, ast.Call)}
        mentioned = {name_of(each) for each in ast.walk(node)}
        is_filled_by_hand = "cache" in name.lower() or (name in measured and mentioned & EMPTY)
        if calls & FUNCTIONS or mentioned & CLASSES or (is_filled_by_hand and is_empty(node.value)):
            yield name


def is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and name_of(value) in {*EMPTY, "field"} and not value.args


def name_of(node: ast.AST) -> str:
    """The last name of an expression: `plans` of `self.plans`, `lru_cache` of `lru_cache(64)`."""
    if isinstance(node, ast.Call | ast.Subscript):
        return name_of(node.func if isinstance(node, ast.Call) else node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


LISTED = {row[0].strip("`"): row[1:] for row in pages.rows(pages.read("docs/caches.md")) if "`" in row[0]}
CACHES = [
    name for name, row in LISTED.items() if len(row) == 4
]  # the others are collections of open requests


def test_every_cache_is_listed_and_every_listed_cache_exists() -> None:
    found = caches_in(APP)

    assert (found - set(LISTED), set(LISTED) - found) == (set(), set())


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_has_a_key_its_users_and_a_bound_in_bytes(name: str) -> None:
    key, filled_by, bound, size = LISTED[name]

    assert key and bound and filled_by.partition(":")[0] in ("callers", "operator", "own")
    assert re.fullmatch(r"[\d,.]+ (KiB|MiB|KiB each)", size)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("@lru_cache(8)\ndef a(b): ...", "a"),
        ("@functools.cache\ndef a(b): ...", "a"),
        ("a = lru_cache(8)(b)", "a"),
        ("class A(B):\n @cached_property\n def a(self): ...", "a"),
        ("self.a = OrderedDict()", "a"),
        ("@dataclass\nclass A(B):\n a: OrderedDict[str, int] = field(default_factory=OrderedDict)", "a"),
        ("a: WeakKeyDictionary[A, B] = WeakKeyDictionary()", "a"),
        ("a = caches.BoundedCache(8)", "a"),
        ("a_cache = {}", "a_cache"),
        ("class B(C):\n a: dict[str, int] = field(default_factory=dict)\nif len(b.a) > MOST: ...", "a"),
        ("self.a: dict[str, int] = {}\nif len(self.a) >= self.most:\n del self.a[next(iter(self.a))]", "a"),
        ("class A(dict):\n def __missing__(self, key): ...", "A"),
        ("class A(library.StatementCache): ...", "A"),
        ("connect(cached_statements=100)", "cached_statements"),
    ],
)  # fmt: skip
def test_a_cache_is_found(tmp_path: Path, code: str, name: str) -> None:
    (tmp_path / "module.py").write_text(code + "\n")

    assert caches_in(tmp_path) == {f"module.{name}"}


@pytest.mark.parametrize(
    "code",
    ["a = {}", "self.a: dict[str, int] = {}", "if len(a) > MOST: ...", "def f():\n a: Values = {}\n len(a)"],
)
def test_other_collections_are_not_found(tmp_path: Path, code: str) -> None:
    (tmp_path / "module.py").write_text(code + "\n")

    assert caches_in(tmp_path) == set()
