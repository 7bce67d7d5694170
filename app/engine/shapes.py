"""A selection as a function: generated source that turns a value into the response it stands for.

A shape knows only how things go when they go well. Whatever else it meets, it raises, and the caller lets
graphql-core complete the same value: errors, paths and nulls are decided there and nowhere else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any

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
from graphql.execution.collect_fields import FieldDetails
from strawberry.execution import optimized_is_awaitable
from strawberry.types.field import StrawberryField
from strawberry.types.fields.resolver import (
    INFO_PARAMSPEC,
    PARENT_PARAMSPEC,
    ROOT_PARAMSPEC,
    SELF_PARAMSPEC,
)

from app.engine.arguments import is_constant, plain_field

Fields = list[FieldDetails]
Collect = Callable[[GraphQLObjectType, Fields], dict[str, Fields]]
Arguments = Callable[[StrawberryField, GraphQLField, FieldDetails], dict[str, Any]]
Completed = Callable[[Any], Any]

MOST_CLASSES = 64  # remembered as harmless per place; more are looked at each time


class NotShaped(Exception):
    """The selection holds something that only graphql-core executes."""


class Surprise(Exception):
    """A value that only graphql-core may judge."""


@dataclass
class Shapes:
    """The generated functions of one operation, and what stands behind the names they use."""

    collect: Collect
    arguments: Arguments
    names: dict[str, Any] = field(default_factory=lambda: {"many": many, "many_objects": many_objects})
    objects: dict[tuple[object, ...], "ObjectShape"] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=count)

    def name(self, kind: str, value: Any) -> str:
        name = f"{kind}{next(self.numbers)}"
        self.names[name] = value
        return name

    def function(self, code: str) -> Completed:
        """A function of `v`."""
        exec(compiled(f"def shape(v):\n return {code}"), self.names)
        function: Completed = self.names.pop("shape")
        return function

    def complete(self, kind: GraphQLOutputType, fields: Fields) -> Completed:
        return self.function(completing(self, kind, fields, "v"))

    def object_shape(self, kind: GraphQLObjectType, fields: Fields) -> "ObjectShape":
        if kind.is_type_of is not None:
            raise NotShaped(f"{kind} asks of each value whether it is one")
        key = (kind, *(id(each.node) for each in fields))
        if key not in self.objects:
            self.objects[key] = ObjectShape(self, kind, fields)
        return self.objects[key]


@lru_cache(maxsize=512)
def compiled(source: str) -> CodeType:
    """The same selection with other arguments is the same source."""
    return compile(source, "<shape>", "exec")


class ObjectShape:
    """A selection of an object: one function for each class of values, made when the first one comes."""

    def __init__(self, shapes: Shapes, kind: GraphQLObjectType, fields: Fields) -> None:
        self.shapes = shapes
        self.kind = kind
        self.fields = fields
        self.known: dict[type, Completed] = {}
        # Also says at once whether the selection can be shaped at all.
        self.by_attribute = shapes.function(completing_members(shapes, kind, fields, "v", None))

    def __call__(self, value: Any) -> Any:
        return (self.known.get(value.__class__) or self.meet(value))(value)

    def meet(self, value: Any) -> Completed:
        """Of most classes no object is ever suspect: those are looked at once."""
        if is_suspect(value):
            raise Surprise
        layout = getattr(value.__class__, "__layout__", None)
        complete = self.by_attribute
        if len(self.known) >= MOST_CLASSES:
            return complete
        if layout is not None:
            code = completing_members(self.shapes, self.kind, self.fields, "v", layout)
            complete = self.shapes.function(code)
        self.known[value.__class__] = complete
        return complete


# --- writing code ---------------------------------------------------------------------------------
#
# A class of tuples may have a `__layout__` that says by which index its objects hold their members: `columns`
# are names with an index and a function that reads the value, or None; `joined` are objects whose members the
# same tuple holds: names with the index that is None without such an object, and with their own layout;
# `lists` are lists of such tuples: names with the index and the layout of every one in it.
#
# A field's metadata says that its resolver only `computes`: it may run here, and once more after a surprise.
# It may say besides that it is a function `of` one column: its name, and what makes, for a type, the function
# that writes the column into the response. A scalar's extensions may name the function that does so for
# texts, `of_text`: what a database stores is mostly nearly what is answered.


def completing(shapes: Shapes, kind: GraphQLOutputType, fields: Fields, value: str) -> str:
    """Code that completes what the code `value` yields. Nothing, where nothing may be, is a surprise."""
    if not is_non_null_type(kind):
        if is_leaf_type(kind):
            return completing_leaf(shapes, kind, value, is_required=False)
        return f"(None if (x := {value}) is None else {completing_present(shapes, kind, fields, 'x')})"
    return completing_present(shapes, kind.of_type, fields, value)


def completing_present(shapes: Shapes, kind: Any, fields: Fields, value: str) -> str:
    if is_leaf_type(kind):
        return completing_leaf(shapes, kind, value, is_required=True)
    if is_list_type(kind):
        item = kind.of_type
        if is_non_null_type(item) and is_object_type(item.of_type):
            return f"many_objects({value}, {shapes.name('s', shapes.object_shape(item.of_type, fields))})"
        return f"many({value}, {shapes.name('s', shapes.complete(item, fields))})"
    if is_object_type(kind):
        return f"{shapes.name('s', shapes.object_shape(kind, fields))}({value})"
    raise NotShaped(f"the type of {kind} is known only when a value is there")


def completing_members(
    shapes: Shapes, kind: GraphQLObjectType, fields: Fields, value: str, layout: Any
) -> str:
    members = [
        f"{response_key!r}: {completing_field(shapes, kind, group, value, layout)}"
        for response_key, group in shapes.collect(kind, fields).items()
    ]
    return f"{{{', '.join(members)}}}"


def completing_field(shapes: Shapes, kind: GraphQLObjectType, group: Fields, value: str, layout: Any) -> str:
    name = group[0].node.name.value
    if name == "__typename":
        return repr(kind.name)
    definition = kind.fields[name]
    own = plain_field(definition)
    if own is None or own.is_async:
        raise NotShaped(f"{kind}.{name} is more than a plain function")
    of, make = own.metadata.get("of", (None, None))
    if layout is not None and of in layout.columns:
        return f"{shapes.name('of', make(kind.name))}({column(shapes, *layout.columns[of])})"
    if own.base_resolver is not None:
        called = calling(shapes, own, definition, group[0], value, layout)
        return completing(shapes, definition.type, group, called)
    member = own.python_name
    if layout is not None and member in layout.joined:
        return completing_joined(shapes, definition.type, group, f"{value}.{member}", *layout.joined[member])
    if layout is not None and member in layout.lists:
        return completing_list(shapes, definition.type, group, f"{value}.{member}", *layout.lists[member])
    if layout is not None and member in layout.columns:
        return completing(shapes, definition.type, group, column(shapes, *layout.columns[member]))
    return completing(shapes, definition.type, group, f"{value}.{member}")


def completing_joined(
    shapes: Shapes, kind: GraphQLOutputType, fields: Fields, value: str, marker: int, layout: Any
) -> str:
    named = get_nullable_type(kind)
    if not is_object_type(named) or named.is_type_of is not None:
        return completing(shapes, kind, fields, value)
    members = completing_members(shapes, named, fields, value, layout)
    missing = f"{shapes.name('missing', surprise)}()" if is_non_null_type(kind) else "None"
    return f"({members} if v[{marker}] is not None else {missing})"


def completing_list(
    shapes: Shapes, kind: GraphQLOutputType, fields: Fields, value: str, index: int, layout: Any
) -> str:
    listed = get_nullable_type(kind)
    named = get_nullable_type(listed.of_type) if is_list_type(listed) else None
    if not is_object_type(named) or named.is_type_of is not None:
        return completing(shapes, kind, fields, value)
    each = shapes.function(completing_members(shapes, named, fields, "v", layout))
    return f"[{shapes.name('each', each)}(one) for one in v[{index}]]"


def column(shapes: Shapes, index: int, read: Completed | None) -> str:
    return f"v[{index}]" if read is None else f"{shapes.name('read', read)}(v[{index}])"


def calling(
    shapes: Shapes,
    own: StrawberryField,
    definition: GraphQLField,
    details: FieldDetails,
    value: str,
    layout: Any,
) -> str:
    resolver = own.base_resolver
    assert resolver is not None
    reserved = resolver.reserved_parameters
    if reserved[INFO_PARAMSPEC] or not own.metadata.get("computes"):
        raise NotShaped(f"{own.name} may do more than compute from its object and its arguments")
    given = [value] if reserved[SELF_PARAMSPEC] else []
    for parameter in filter(None, (reserved[PARENT_PARAMSPEC], reserved[ROOT_PARAMSPEC])):
        given.append(f"{parameter.name}={value}")
    if definition.args:
        arguments = shapes.arguments(own, definition, details)
        if not all(map(is_constant, arguments.values())):
            raise NotShaped(f"{own.name} might change what it is given")
        given.append(f"**{shapes.name('a', arguments)}")
    return f"{shapes.name('call', resolver.wrapped_func)}({', '.join(given)})"


def completing_leaf(shapes: Shapes, kind: Any, value: str, is_required: bool) -> str:
    """What is already right stays as it is; the type itself decides on everything else."""
    leaf = shapes.name("leaf", leaf_function(kind, is_required))
    if kind in (GraphQLString, GraphQLID):
        return f"(x if (x := {value}).__class__ is str else {leaf}(x))"
    if kind is GraphQLInt:
        return f"(x if (x := {value}).__class__ is int and -2147483648 <= x <= 2147483647 else {leaf}(x))"
    if kind is GraphQLBoolean:
        return f"(x if (x := {value}) is True or x is False else {leaf}(x))"
    if isinstance(kind, GraphQLEnumType):
        known: dict[Any, str] = {}
        leaf = shapes.name("leaf", enum_function(kind, is_required, known))
        return f"({shapes.name('known', known)}.get(x := {value}) or {leaf}(x))"
    if of_text := kind.extensions.get("of_text"):
        other = f"{leaf}(x)" if is_required else f"None if x is None else {leaf}(x)"
        return f"({shapes.name('of', of_text)}(x) if (x := {value}).__class__ is str else {other})"
    return f"{leaf}({value})"


# --- what generated code calls --------------------------------------------------------------------


def many(values: Any, item: Completed) -> list[Any]:
    if values.__class__ is not list and values.__class__ is not tuple:
        raise Surprise
    return [item(value) for value in values]  # map() would take a StopIteration for the end


def many_objects(values: Any, item: ObjectShape) -> list[Any]:
    """Mostly all of one class: then its function is looked up once."""
    classes = set(map(type, values)) if values.__class__ is list else ()
    complete = item.known.get(*classes) if len(classes) == 1 else None
    return many(values, complete or item)


def surprise() -> None:
    raise Surprise


def is_suspect(value: Any) -> bool:
    return (
        value is None or value is Undefined or isinstance(value, Exception) or optimized_is_awaitable(value)
    )


def leaf_function(kind: Any, is_required: bool) -> Completed:
    coerce = kind.coerce_output_value
    harmless: set[type] = set()

    def leaf(value: Any) -> Any:
        if value.__class__ not in harmless:
            if value is None and not is_required:
                return None
            if is_suspect(value):
                raise Surprise
            if len(harmless) < MOST_CLASSES:
                harmless.add(value.__class__)
        coerced = coerce(value)
        if coerced is None or coerced is Undefined:
            raise Surprise
        return coerced

    return leaf


def enum_function(kind: GraphQLEnumType, is_required: bool, known: dict[Any, str]) -> Completed:
    leaf = leaf_function(kind, is_required)

    def member(value: Any) -> Any:
        name = leaf(value)
        if name is not None and len(known) < 2 * len(kind.values):  # a member, and its value
            known[value] = name
        return name

    return member
