"""`schema.graphql` is the contract: it is what the code says, and a breaking change has a name.

Contract: the file is the printed schema, sorted; whatever graphql-core calls a breaking change against it
is listed by name.
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

from app.care.errors import Refused, UserErrorCode
from app.schema import schema as ours
from tests.schema.breaking import breaking_changes

SENTENCE = re.compile(r"[`A-Z0-9].*\.", re.DOTALL)
FILE = Path(__file__).parents[2] / "schema.graphql"


@pytest.fixture(scope="module")
def said() -> str:
    return ours.schema_text(ours.build_schema())


def test_the_file_is_what_the_code_says(said: str) -> None:
    assert FILE.read_text(encoding="utf-8") == said, "run `make schema`"


def test_nothing_breaks_against_the_file(said: str) -> None:
    assert breaking_changes(FILE.read_text(encoding="utf-8"), said) == []


def test_building_it_twice_gives_the_same(said: str) -> None:
    assert ours.schema_text(ours.build_schema()) == said


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
def test_a_breaking_change_has_a_name(said: str, old: str, new: str, name: str) -> None:
    assert said.count(old) == 1

    assert breaking_changes(said, said.replace(old, new)) == [name]


def test_an_addition_breaks_nothing(said: str) -> None:
    assert breaking_changes(said, said.replace("type Viewer {", "type Viewer {\n  isNew: Boolean!\n")) == []
    assert find_breaking_changes(build_schema(said), build_schema(said)) == []


# --- what the contract promises of itself ----------------------------------------------------------


def test_everything_that_can_be_looked_up_is_a_node(said: str) -> None:
    kinds = build_schema(said).type_map.values()

    nodes = {kind.name for kind in kinds if isinstance(kind, GraphQLObjectType) and kind.interfaces}

    assert nodes == {"AnswerSet", "Assignment", "Book", "Caregiver", "Client", "Session"}


def described(schema: GraphQLSchema) -> Iterator[tuple[str, str]]:
    """Everything that can have a description, as a reader names it, with the one it has."""
    for kind in schema.type_map.values():
        if is_introspection_type(kind) or is_specified_scalar_type(kind):
            continue
        yield kind.name, kind.description or ""
        members = kind.values if is_enum_type(kind) else getattr(kind, "fields", {})
        for name, member in members.items():
            yield f"{kind.name}.{name}", member.description or ""
            for argument, given in getattr(member, "args", {}).items():
                yield f"{kind.name}.{name}({argument}:)", given.description or ""


def test_everything_is_described_in_sentences(said: str) -> None:
    """Types, fields, arguments, members of inputs and values: the reference is made of nothing else."""
    descriptions = dict(described(build_schema(said)))

    assert {"Session", "Session.title", "Query.node(id:)", "RepeatInput.count", "Role.CLIENT"} <= set(
        descriptions
    )
    assert [name for name, text in descriptions.items() if not SENTENCE.fullmatch(text)] == []


def test_every_mutation_takes_one_input_and_answers_with_what_to_mend(said: str) -> None:
    mutation = build_schema(said).mutation_type
    assert mutation is not None

    for name, field in mutation.fields.items():
        (argument,) = field.args.items()
        assert argument[0] == "input" and is_input_object_type(argument[1].type.of_type), name
        assert str(field.type.of_type.fields["userErrors"].type) == "[UserError!]!", name


def required_with_a_default(schema: GraphQLSchema) -> list[str]:
    """Input members and arguments of the form `T! = default`: editors report them as missing variables."""
    found = []
    for kind in schema.type_map.values():
        for name, member in getattr(kind, "fields", {}).items():
            if is_input_object_type(kind) and not is_required_input_field(member):
                found += [f"{kind.name}.{name}"] if is_non_null_type(member.type) else []
            for argument, given in getattr(member, "args", {}).items():
                if is_non_null_type(given.type) and not is_required_argument(given):
                    found.append(f"{kind.name}.{name}({argument}:)")
    return [name for name in found if not name.startswith("__")]


def test_an_input_with_a_default_may_be_null(said: str) -> None:
    planted = build_schema(
        "input I { a: Int! = 1, b: Int = 1, c: Int! } type Query { q(i: I! = {c: 1}): Int }"
    )

    assert required_with_a_default(planted) == ["I.a", "Query.q(i:)"]
    assert required_with_a_default(build_schema(said)) == []


def refusals(kind: type[Refused] = Refused) -> Iterator[type[Refused]]:
    for narrower in kind.__subclasses__():
        yield narrower
        yield from refusals(narrower)


def test_the_codes_of_user_errors_are_those_of_refusals(said: str) -> None:
    code = build_schema(said).type_map["UserErrorCode"]
    assert is_enum_type(code)

    assert set(code.values) == set(UserErrorCode) == {kind.code for kind in refusals()}


def undated(schema: GraphQLSchema) -> list[str]:
    """What is on its way out without saying from when on it may be gone."""
    members = [
        (f"{kind.name}.{name}", member)
        for kind in schema.type_map.values()
        for name, member in (kind.values if is_enum_type(kind) else getattr(kind, "fields", {})).items()
    ]
    reasons = {name: member.deprecation_reason for name, member in members if member.deprecation_reason}
    return [name for name, reason in reasons.items() if not re.search(r"\b20\d\d-\d\d-\d\d\b", reason)]


def test_what_is_on_its_way_out_says_until_when(said: str) -> None:
    planted = build_schema(
        """type Query {
          a: Int @deprecated(reason: "Use b; may be gone from 2027-06-01.")
          b: Int @deprecated(reason: "Use a.")
        }"""
    )

    assert undated(planted) == ["Query.b"]
    assert undated(build_schema(said)) == []
