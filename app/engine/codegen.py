"""Generates Python code that completes a selection: it turns a resolved value into its part of the response.

Generated code handles only values without errors. It raises on any other value, and the caller lets
graphql-core complete the same value, so that errors, paths and nulls are decided only there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any
from weakref import WeakValueDictionary

from graphql import (
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLField,
    GraphQLID,
    GraphQLInt,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLString,
    Undefined,
    get_nullable_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
    is_object_type,
)
from graphql.execution.collect_fields import CollectedFields, FieldDetails
from strawberry.execution import optimized_is_awaitable
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import INFO_PARAMSPEC, PARENT_PARAMSPEC, ROOT_PARAMSPEC, SELF_PARAMSPEC

from app.engine.arguments import Unsupported, is_constant, plain_field

Fields = list[FieldDetails]
Collect = Callable[[GraphQLObjectType, Fields], CollectedFields]
Arguments = Callable[[StrawberryField, GraphQLField, FieldDetails], dict[str, Any]]
Completer = Callable[[Any], Any]

MAX_CLASSES = 64  # cached per leaf; values of further classes are checked each time
MAX_ROW_CLASSES = 16  # per selection
MAX_SOURCES = 256  # of generated functions whose code is cached
MAX_SOURCE_LENGTH = 4096


class UnexpectedValue(Exception):
    """A value that only graphql-core can complete."""


class CodeGenerator:
    """Generates the functions of one operation.

    Nothing that is generated refers to its user: a function holds the functions of the selections below it,
    and these hold the generator. So an operation that is dropped is freed without the garbage collector.
    """

    def __init__(self, collect: Collect, arguments: Arguments) -> None:
        self.collect = collect
        self.arguments = arguments
        self.objects: WeakValueDictionary[tuple[object, ...], ObjectCompleter] = WeakValueDictionary()

    def complete(self, kind: GraphQLOutputType, fields: Fields) -> Completer:
        function = FunctionGenerator(self)
        return function.compile(function.value_code(kind, fields, "v"))

    def complete_members(self, kind: GraphQLObjectType, fields: Fields, layout: Any) -> Completer:
        function = FunctionGenerator(self)
        return function.compile(function.members_code(kind, fields, "v", layout))

    def object_completer(self, kind: GraphQLObjectType, fields: Fields) -> "ObjectCompleter":
        if kind.is_type_of is not None:
            raise Unsupported(f"{kind} checks the type of each value")
        key = (kind, *(id(each.node) for each in fields))
        completer = self.objects.get(key)
        if completer is None:
            completer = self.objects[key] = ObjectCompleter(self, kind, fields)
        return completer


@dataclass
class FunctionGenerator:
    """Generates one function, and collects the global names that it uses.

    A method that ends in `_code` returns the code of an expression; its parameter `value` is the code of the
    value to complete. A tuple class may have a `__layout__`, which maps member names to tuple indexes:
    - `columns`: name -> index, and a function that converts the value, or None.
    - `joined`: name of an object stored in the same tuple -> an index whose value is None if there is no
      object, and the layout of the object.
    - `lists`: name of a list of tuples -> a column as above, and the layout of the items.
    It may also have an `__owner__`, a weak reference: without its owner the class gets no new values.

    Field metadata: `computes` marks a resolver without side effects, which can run here and again in
    graphql-core. `from_column` is a column name and a factory that returns, for the name of a type, the
    function that converts the column. Scalar extensions: `from_text` converts a stored text to its output.
    """

    generator: CodeGenerator
    names: dict[str, Any] = field(
        default_factory=lambda: {"complete_list": complete_list, "complete_objects": complete_objects}
    )

    def define(self, prefix: str, value: Any) -> str:
        """Makes a value available to the function under a new name."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, code: str) -> Completer:
        """Compiles an expression in `v`."""
        source = f"def completer(v):\n return {code}"
        exec(cached_code(source) if len(source) <= MAX_SOURCE_LENGTH else code_of(source), self.names)
        function: Completer = self.names.pop("completer")
        return function

    def value_code(self, kind: GraphQLOutputType, fields: Fields, value: str) -> str:
        if is_non_null_type(kind):
            return self.present_code(kind.of_type, fields, value)
        if is_leaf_type(kind):
            return self.leaf_code(kind, value, is_required=False)
        return f"(None if (x := {value}) is None else {self.present_code(kind, fields, 'x')})"

    def present_code(self, kind: Any, fields: Fields, value: str) -> str:
        """Completes a value that must not be null."""
        if is_leaf_type(kind):
            return self.leaf_code(kind, value, is_required=True)
        if is_list_type(kind):
            item = kind.of_type
            if is_non_null_type(item) and is_object_type(item.of_type):
                completer = self.generator.object_completer(item.of_type, fields)
                return f"complete_objects({value}, {self.define('s', completer)})"
            return f"complete_list({value}, {self.define('s', self.generator.complete(item, fields))})"
        if is_object_type(kind):
            return f"{self.define('s', self.generator.object_completer(kind, fields))}({value})"
        raise Unsupported(f"the type of {kind} is known only from the value")

    def members_code(self, kind: GraphQLObjectType, fields: Fields, value: str, layout: Any) -> str:
        members = [
            f"{response_key!r}: {self.field_code(kind, group, value, layout)}"
            for response_key, group in self.generator.collect(kind, fields).grouped_field_set.items()
        ]
        return f"{{{', '.join(members)}}}"

    def field_code(self, kind: GraphQLObjectType, group: Fields, value: str, layout: Any) -> str:
        name = group[0].node.name.value
        if name == "__typename":
            return repr(kind.name)
        definition = kind.fields[name]
        own = plain_field(definition)
        if own is None or own.is_async:
            raise Unsupported(f"{kind}.{name} has more than a plain resolver")
        column, make = own.metadata.get("from_column", (None, None))
        if layout is not None and column in layout.columns:
            return f"{self.define('convert', make(kind.name))}({self.column_code(*layout.columns[column])})"
        if own.base_resolver is not None:
            called = self.call_code(own, definition, group[0], value)
            return self.value_code(definition.type, group, called)
        member = own.python_name
        attribute = f"{value}.{member}"
        if layout is not None:
            if member in layout.joined:
                return self.joined_code(definition.type, group, attribute, *layout.joined[member])
            if member in layout.lists:
                return self.list_code(definition.type, group, attribute, *layout.lists[member])
            if member in layout.columns:
                attribute = self.column_code(*layout.columns[member])
        return self.value_code(definition.type, group, attribute)

    def joined_code(
        self, kind: GraphQLOutputType, fields: Fields, value: str, marker: int, layout: Any
    ) -> str:
        named = get_nullable_type(kind)
        if not is_object_type(named) or named.is_type_of is not None:
            return self.value_code(kind, fields, value)
        members = self.members_code(named, fields, value, layout)
        missing = f"{self.define('missing', raise_unexpected)}()" if is_non_null_type(kind) else "None"
        return f"({members} if v[{marker}] is not None else {missing})"

    def list_code(self, kind: GraphQLOutputType, fields: Fields, value: str, column: Any, layout: Any) -> str:
        listed = get_nullable_type(kind)
        named = get_nullable_type(listed.of_type) if is_list_type(listed) else None
        if not is_object_type(named) or named.is_type_of is not None:
            return self.value_code(kind, fields, value)
        members = self.members_code(named, fields, "v", layout)
        return f"[{members} for v in {self.column_code(*column)}]"  # within the list, `v` is an item

    def column_code(self, index: int, read: Completer | None) -> str:
        return f"v[{index}]" if read is None else f"{self.define('read', read)}(v[{index}])"

    def call_code(
        self, own: StrawberryField, definition: GraphQLField, details: FieldDetails, value: str
    ) -> str:
        resolver = own.base_resolver
        assert resolver is not None
        reserved = resolver.reserved_parameters
        if reserved[INFO_PARAMSPEC] or not own.metadata.get("computes"):
            raise Unsupported(f"{own.name} may have side effects")
        arguments = [value] if reserved[SELF_PARAMSPEC] else []
        for parameter in filter(None, (reserved[PARENT_PARAMSPEC], reserved[ROOT_PARAMSPEC])):
            arguments.append(f"{parameter.name}={value}")
        if definition.args:
            values = self.generator.arguments(own, definition, details)
            if not all(map(is_constant, values.values())):
                raise Unsupported(f"{own.name} has mutable arguments")
            arguments.append(f"**{self.define('a', values)}")
        return f"{self.define('call', resolver.wrapped_func)}({', '.join(arguments)})"

    def leaf_code(self, kind: Any, value: str, is_required: bool) -> str:
        """Checks for the common class first; the type converts all other values."""
        if isinstance(kind, GraphQLEnumType):
            known: dict[Any, str] = {}
            member = self.define("leaf", enum_function(kind, is_required, known))
            return f"({self.define('known', known)}.get(x := {value}) or {member}(x))"
        leaf = self.define("leaf", leaf_function(kind, is_required))
        if kind in (GraphQLString, GraphQLID):
            return f"(x if (x := {value}).__class__ is str else {leaf}(x))"
        if kind is GraphQLInt:
            return f"(x if (x := {value}).__class__ is int and -2147483648 <= x <= 2147483647 else {leaf}(x))"
        if kind is GraphQLBoolean:
            return f"(x if (x := {value}) is True or x is False else {leaf}(x))"
        if from_text := kind.extensions.get("from_text"):
            other = f"{leaf}(x)" if is_required else f"None if x is None else {leaf}(x)"
            return f"({self.define('convert', from_text)}(x) if (x := {value}).__class__ is str else {other})"
        return f"{leaf}({value})"


def code_of(source: str) -> CodeType:
    return compile(source, "<completer>", "exec")


cached_code = lru_cache(MAX_SOURCES)(code_of)  # the same selection with other arguments has the same source


class ObjectCompleter:
    """Completes a selection of an object, with one function per class of values, generated on first use."""

    def __init__(self, generator: CodeGenerator, kind: GraphQLObjectType, fields: Fields) -> None:
        self.generator = generator
        self.kind = kind
        self.fields = fields
        self.known: dict[type, Completer] = {}
        # Raises Unsupported early.
        self.by_attribute = generator.complete_members(kind, fields, None)

    def __call__(self, value: Any) -> Any:
        return (self.known.get(value.__class__) or self.add_class(value))(value)

    def add_class(self, value: Any) -> Completer:
        """Checks only the first value of a class: its other values cannot be suspect either."""
        if is_suspect(value):
            raise UnexpectedValue
        layout = getattr(value.__class__, "__layout__", None)
        complete = self.by_attribute
        if layout is not None:
            complete = self.generator.complete_members(self.kind, self.fields, layout)
        self.known = {each: known for each, known in list(self.known.items()) if is_in_use(each)}
        if len(self.known) >= MAX_ROW_CLASSES:
            self.known.clear()
        self.known[value.__class__] = complete
        return complete


# --- called by generated code --------------------------------------------------------------------


def complete_list(values: Any, item: Completer) -> list[Any]:
    if values.__class__ is not list and values.__class__ is not tuple:
        raise UnexpectedValue
    return [item(value) for value in values]  # map() would swallow a StopIteration


def complete_objects(values: Any, item: ObjectCompleter) -> list[Any]:
    """Looks up the function once if all values have the same class."""
    classes = set(map(type, values)) if values.__class__ is list else ()
    complete = item.known.get(*classes) if len(classes) == 1 else None
    return complete_list(values, complete or item)


def is_in_use(kind: type) -> bool:
    owner = getattr(kind, "__owner__", None)
    return owner is None or owner() is not None


def raise_unexpected() -> None:
    raise UnexpectedValue


def is_suspect(value: Any) -> bool:
    return (
        value is None or value is Undefined or isinstance(value, Exception) or optimized_is_awaitable(value)
    )


def leaf_function(kind: Any, is_required: bool) -> Completer:
    coerce = kind.coerce_output_value
    safe_classes: set[type] = set()

    def leaf(value: Any) -> Any:
        if value.__class__ not in safe_classes:
            if value is None and not is_required:
                return None
            if is_suspect(value):
                raise UnexpectedValue
            if len(safe_classes) < MAX_CLASSES:
                safe_classes.add(value.__class__)
        coerced = coerce(value)
        if coerced is None or coerced is Undefined:
            raise UnexpectedValue
        return coerced

    return leaf


def enum_function(kind: GraphQLEnumType, is_required: bool, known: dict[Any, str]) -> Completer:
    leaf = leaf_function(kind, is_required)

    def member(value: Any) -> Any:
        name = leaf(value)
        if name is not None and len(known) < 2 * len(kind.values):  # a member and its value
            known[value] = name
        return name

    return member
