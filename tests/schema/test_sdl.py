"""`schema.graphql` is the contract: it equals the schema of the code, and breaking changes are listed.

Contract: the file is the printed schema, sorted; every breaking change that graphql-core finds is listed
by name.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from graphql import (
    GraphQLObjectType,
    GraphQLSchema,
    build_schema,
    find_breaking_changes,
    is_enum_type,
    is_input_object_type,
    is_introspection_type,
    is_non_null_type,
    is_required_argument,
    is_required_input_field,
    is_specified_scalar_type,
)

from app.care.errors import Rejected, UserErrorCode
from app.schema import schema as ours
from tests.schema.breaking import breaking_changes

SENTENCE = re.compile(r"[`A-Z0-9].*\.", re.DOTALL)
FILE = Path(__file__).parents[2] / "schema.graphql"


@pytest.fixture(scope="module")
def sdl() -> str:
    return ours.schema_text(ours.build_schema())


def test_the_file_equals_the_schema_of_the_code(sdl: str) -> None:
    assert FILE.read_text(encoding="utf-8") == sdl, "run `make schema`"


def test_the_schema_has_no_breaking_change_against_the_file(sdl: str) -> None:
    assert breaking_changes(FILE.read_text(encoding="utf-8"), sdl) == []


def test_the_schema_text_is_deterministic(sdl: str) -> None:
    assert ours.schema_text(ours.build_schema()) == sdl


PLANTED = {
    "a field is gone": (
        "  chatId: String!\n",
        "  chat: String!\n",
        "FIELD_REMOVED: Field Session.chatId was removed.",
    ),
    "a field may be null": (
        "  isClosed: Boolean!\n",
        "  isClosed: Boolean\n",
        "FIELD_CHANGED_KIND: Field Session.isClosed changed type from Boolean! to Boolean.",
    ),
    "an argument is required": (
        "    id: ID!\n  ): Book\n",
        "    id: ID!\n    form: Int!\n  ): Book\n",
        "REQUIRED_ARG_ADDED: A required argument Query.book(form:) was added.",
    ),
    "a value is gone": (
        "  OVERDUE\n",
        "  PAST\n",
        "VALUE_REMOVED_FROM_ENUM: Enum value LatenessState.OVERDUE was removed.",
    ),
    "an input is required": (
        "clientOpptId: String = null",
        "clientOpptId: String!",
        "FIELD_CHANGED_KIND: Field CreateSessionInput.clientOpptId changed type from String to String!.",
    ),
    "an interface is gone": (
        "type Book implements Node {",
        "type Book {",
        "IMPLEMENTED_INTERFACE_REMOVED: Book no longer implements interface Node.",
    ),
}


@pytest.mark.parametrize(("old", "new", "name"), PLANTED.values(), ids=PLANTED.keys())
def test_a_breaking_change_is_reported_by_name(sdl: str, old: str, new: str, name: str) -> None:
    assert sdl.count(old) == 1

    assert breaking_changes(sdl, sdl.replace(old, new)) == [name]


def test_an_addition_is_not_a_breaking_change(sdl: str) -> None:
    assert breaking_changes(sdl, sdl.replace("type Viewer {", "type Viewer {\n  isNew: Boolean!\n")) == []
    assert find_breaking_changes(build_schema(sdl), build_schema(sdl)) == []


# --- conventions of the schema ---------------------------------------------------------------------


def test_every_type_with_a_lookup_is_a_node(sdl: str) -> None:
    kinds = build_schema(sdl).type_map.values()

    nodes = {kind.name for kind in kinds if isinstance(kind, GraphQLObjectType) and kind.interfaces}

    assert nodes == {"AnswerSet", "Assignment", "Book", "Caregiver", "Client", "Session"}


def described(schema: GraphQLSchema) -> Iterator[tuple[str, str]]:
    """The path and the description of everything that can have a description."""
    for kind in schema.type_map.values():
        if is_introspection_type(kind) or is_specified_scalar_type(kind):
            continue
        yield kind.name, kind.description or ""
        members = kind.values if is_enum_type(kind) else getattr(kind, "fields", {})
        for name, member in members.items():
            yield f"{kind.name}.{name}", member.description or ""
            for argument, given in getattr(member, "args", {}).items():
                yield f"{kind.name}.{name}({argument}:)", given.description or ""


def test_every_description_is_a_sentence(sdl: str) -> None:
    """Types, fields, arguments, input fields and enum values."""
    descriptions = dict(described(build_schema(sdl)))

    assert {"Session", "Session.title", "Query.node(id:)", "RepeatInput.count", "Role.CLIENT"} <= set(
        descriptions
    )
    assert [name for name, text in descriptions.items() if not SENTENCE.fullmatch(text)] == []


def test_every_mutation_has_one_input_and_user_errors(sdl: str) -> None:
    mutation = build_schema(sdl).mutation_type
    assert mutation is not None

    for name, field in mutation.fields.items():
        (argument,) = field.args.items()
        assert argument[0] == "input" and is_input_object_type(argument[1].type.of_type), name
        assert str(field.type.of_type.fields["userErrors"].type) == "[UserError!]!", name


def required_with_a_default(schema: GraphQLSchema) -> list[str]:
    """Input fields and arguments of the form `T! = default`, which editors report as missing variables."""
    found = []
    for kind in schema.type_map.values():
        for name, member in getattr(kind, "fields", {}).items():
            if is_input_object_type(kind) and not is_required_input_field(member):
                found += [f"{kind.name}.{name}"] if is_non_null_type(member.type) else []
            for argument, given in getattr(member, "args", {}).items():
                if is_non_null_type(given.type) and not is_required_argument(given):
                    found.append(f"{kind.name}.{name}({argument}:)")
    return [name for name in found if not name.startswith("__")]


def test_an_input_with_a_default_may_be_null(sdl: str) -> None:
    planted = build_schema(
        "input I { a: Int! = 1, b: Int = 1, c: Int! } type Query { q(i: I! = {c: 1}): Int }"
    )

    assert required_with_a_default(planted) == ["I.a", "Query.q(i:)"]
    assert required_with_a_default(build_schema(sdl)) == []


def rejections(kind: type[Rejected] = Rejected) -> Iterator[type[Rejected]]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from rejections(narrower)


def test_every_rejection_has_a_user_error_code(sdl: str) -> None:
    code = build_schema(sdl).type_map["UserErrorCode"]
    assert is_enum_type(code)

    assert set(code.values) == set(UserErrorCode) == {kind.code for kind in rejections()}


def undated(schema: GraphQLSchema) -> list[str]:
    """Deprecations without a date."""
    members = [
        (f"{kind.name}.{name}", member)
        for kind in schema.type_map.values()
        for name, member in (kind.values if is_enum_type(kind) else getattr(kind, "fields", {})).items()
    ]
    reasons = {name: member.deprecation_reason for name, member in members if member.deprecation_reason}
    return [name for name, reason in reasons.items() if not re.search(r"\b20\d\d-\d\d-\d\d\b", reason)]


def test_every_deprecation_has_a_date(sdl: str) -> None:
    planted = build_schema(
        """type Query {
          a: Int @deprecated(reason: "Use b; may be gone from 2027-06-01.")
          b: Int @deprecated(reason: "Use a.")
        }"""
    )

    assert undated(planted) == ["Query.b"]
    assert undated(build_schema(sdl)) == []
