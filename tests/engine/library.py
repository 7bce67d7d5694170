"""A small library schema over data set by tests, executed with and without preparation."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, NewType

import strawberry
from graphql import GraphQLError, GraphQLObjectType, Undefined
from strawberry.extensions import FieldExtension
from strawberry.permission import BasePermission
from strawberry.scalars import JSON
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from app.engine.prepared import OperationCache
from app.engine.schema import PreparingSchema

# --- context and values ----------------------------------------------------------------------------


@dataclass
class LibraryContext:
    """The context of a request: the values of the root fields, and a record of calls."""

    found: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    effects: list[str] = field(default_factory=list)
    expected_length: float = 0

    def charge(self, points: int) -> None: ...

    def find(self, name: str) -> Any:
        self.calls[name] += 1
        return self.found[name]() if name in self.found else None


Info = strawberry.Info[LibraryContext, None]


class PlainObject:
    """An object with any attributes: only the schema determines its type."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __repr__(self) -> str:
        return "a thing"


class AsyncValue:
    """An awaitable of a value or an exception, which may be awaited more than once."""

    def __init__(self, value: Any, turns: int = 1) -> None:
        self.value = value
        self.turns = turns

    def __repr__(self) -> str:
        return "something later"

    def __await__(self) -> Generator[Any, None, Any]:
        for _ in range(self.turns):
            yield from asyncio.sleep(0).__await__()
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def a_volume(**changed: Any) -> PlainObject:
    return PlainObject(
        **{
            "title": "Emma",
            "subtitle": None,
            "pages": 320,
            "lent": False,
            "price": 7.5,
            "code": "v-1",
            "genre": Genre.NOVEL,
            "mood": None,
            "stamp": "7",
            "seal": "8",
            "author": an_author(),
            "editor": None,
            "tags": ["old", "red"],
            "notes": None,
            "grid": None,
            "moods": None,
            "related": None,
            "sequels": [],
        }
        | changed
    )


def an_author(**changed: Any) -> PlainObject:
    return PlainObject(**{"name": "Jane", "born": 1775, "rival": None, "volumes": None} | changed)


def raising(error: Exception) -> Callable[[], Any]:
    def find() -> Any:
        raise error

    return find


# --- leafs -----------------------------------------------------------------------------------------


@strawberry.enum
class Genre(Enum):
    NOVEL = "novel"
    POEMS = strawberry.enum_value("poems", name="VERSE")
    LETTERS = 3


Stamp = NewType("Stamp", str)


def write_stamp(value: object) -> object:
    if value == "torn":
        raise ValueError("a torn stamp")
    if value == "blank":
        return None
    if value == "lost":
        return Undefined
    return f"#{value}"


def read_stamp(value: object) -> Stamp:
    if value == "fault":
        raise KeyError("fault")
    if value == "refused":
        raise GraphQLError("This stamp is refused.", extensions={"code": "REFUSED"})
    if not isinstance(value, str):
        raise ValueError("a stamp is text")
    return Stamp(value.removeprefix("#"))


# --- permissions and extensions of fields ----------------------------------------------------------


class IsOpen(BasePermission):
    message = "the cabinet is locked"

    def has_permission(self, source: Any, info: Info, **_: Any) -> bool:
        return bool(getattr(source, "is_open", False))


class WillOpen(BasePermission):
    message = "the cabinet stays locked"

    async def has_permission(self, source: Any, info: Info, **_: Any) -> bool:
        await asyncio.sleep(0)
        return bool(getattr(source, "is_open", False))


class Louder(FieldExtension):
    def resolve(self, next_: Callable[..., Any], source: Any, info: Info, **arguments: Any) -> Any:
        return str(next_(source, info, **arguments)).upper()


# --- types -----------------------------------------------------------------------------------------

# Of resolvers without side effects, which generated code calls; it leaves all others to graphql-core.
COMPUTES = {"computes": True}


@strawberry.input
class Place:
    room: str
    row: int = 1
    beside: "Place | None" = None
    genres: list[Genre] | None = None
    stamps: list[Stamp] | None = strawberry.UNSET


def place_text(place: Place | None) -> str:
    if place is None:
        return "nowhere"
    stamps = "unset" if place.stamps is strawberry.UNSET else str(place.stamps)
    return f"{place.room}/{place.row}/{place.genres}/{stamps} beside {place_text(place.beside)}"


@strawberry.type
class Author:
    name: str
    born: int | None = None
    rival: "Author | None" = None
    volumes: "list[Volume] | None" = None

    @strawberry.field(metadata=COMPUTES)
    def initial(self) -> str:
        return self.name[0]

    @strawberry.field
    async def biography(self) -> str:
        await asyncio.sleep(0)
        return f"The life of {self.name}"


def spine_of(volume: strawberry.Parent[Any], width: int = 3) -> str:
    return str(volume.title)[:width]


def age_of(root: Any) -> int | None:
    return getattr(root, "age", None)


@strawberry.type
class Volume:
    title: str
    subtitle: str | None
    pages: int
    lent: bool
    price: float | None
    code: strawberry.ID
    genre: Genre | None
    mood: Genre | None
    moods: list[Genre] | None
    stamp: Stamp | None
    seal: Stamp
    author: Author
    editor: Author | None
    tags: list[str]
    notes: list[str | None] | None
    grid: list[list[int | None] | None] | None
    related: "list[Volume | None] | None"
    sequels: "list[Volume]"
    spine: str = strawberry.field(resolver=spine_of, metadata=COMPUTES)
    age: int | None = strawberry.field(resolver=age_of, metadata=COMPUTES)
    label: str | None = strawberry.field(resolver=lambda self: f"{self.title} ({self.pages})")

    @strawberry.field(metadata=COMPUTES)
    def excerpt(self, length: int = 2, upper: bool | None = False, by: str | None = None) -> str:
        text = f"{self.title}{by or ''}"[:length]
        return text.upper() if upper else text

    @strawberry.field(metadata=COMPUTES)
    def of_genre(self, genre: Genre | None = Genre.NOVEL) -> bool | None:
        return None if genre is None else self.genre is genre

    @strawberry.field(metadata=COMPUTES)
    def placed(self, place: Place | None = None) -> str:
        return place_text(place)

    @strawberry.field
    def stamped(self, stamp: Stamp | None = strawberry.UNSET) -> str:
        return "unset" if stamp is strawberry.UNSET else f"{stamp!r}"

    @strawberry.field(metadata=COMPUTES)
    def opened_at(self, pages: list[int]) -> list[int]:
        return [page for page in pages if page <= self.pages]

    @strawberry.field
    def nearest(self, numbers: list[list[int | None]] | None = None) -> str:
        return repr(numbers)

    @strawberry.field
    def info_text(self, info: Info, by: str | None = None) -> str:
        selected = [each.name for each in info.selected_fields]
        return f"{info.field_name} {info.path.as_list()} {info.return_type} {selected} {info.variable_values}"

    @strawberry.field
    async def slow(self, turns: int = 1) -> str | None:
        for _ in range(turns):
            await asyncio.sleep(0)
        fault = getattr(self, "fault", None)
        if fault is not None:
            raise fault
        return f"slowly {self.title}"

    @strawberry.field
    async def slow_author(self) -> Author:
        await asyncio.sleep(0)
        return self.author

    @strawberry.field
    def wrong(self) -> str | None:
        fault: Exception | None = getattr(self, "fault", None)
        if fault is not None:
            raise fault
        return "right"

    @strawberry.field
    def quite_wrong(self) -> str:
        raise LookupError(f"nothing is right with {self.title}")

    @strawberry.field(permission_classes=[IsOpen])
    def secret(self) -> str | None:
        return "the key"

    @strawberry.field(permission_classes=[WillOpen])
    def deep_secret(self) -> str:
        return "the other key"

    @strawberry.field(extensions=[Louder()])
    def loud(self, times: int = 1) -> str:
        return str(self.title) * times


@strawberry.interface
class Item:
    mark: str

    @strawberry.field(metadata=COMPUTES)
    def shelf(self, row: int = 0) -> str:
        return f"{self.mark}-{row}"

    @classmethod
    def resolve_type(cls, value: Any, *_: object) -> str | None:
        kind: str | None = getattr(value, "kind", None)
        return kind


@strawberry.type
class Map(Item):
    scale: int
    of: "Map | None" = None


@strawberry.type
class Record(Item):
    """Checks the type of each value."""

    minutes: int | None = None

    @classmethod
    def is_type_of(cls, value: Any, _: object) -> bool:
        return bool(getattr(value, "is_round", True))


@strawberry.type
class Globe:
    """Implements no interface, and checks the type of each value too."""

    radius: int

    @classmethod
    def is_type_of(cls, value: Any, _: object) -> bool:
        return bool(getattr(value, "is_round", False))


Finding = Annotated[Author | Globe | Map, strawberry.union("Finding")]


NO_CODE = strawberry.ID("none")


# --- roots -----------------------------------------------------------------------------------------


@strawberry.type
class Query:
    @strawberry.field(graphql_type=Volume | None)
    async def volume(self, info: Info) -> Any:
        return info.context.find("volume")

    @strawberry.field(graphql_type=Volume)
    async def sure_volume(self, info: Info) -> Any:
        await asyncio.sleep(0)
        return info.context.find("sureVolume")

    @strawberry.field(graphql_type=Volume | None)
    def handed(self, info: Info) -> Any:
        return info.context.find("handed")

    @strawberry.field(graphql_type=list[Volume])
    async def volumes(self, info: Info) -> Any:
        return info.context.find("volumes")

    @strawberry.field(graphql_type=list[Volume | None] | None)
    async def pile(self, info: Info) -> Any:
        await asyncio.sleep(0)
        return info.context.find("pile")

    @strawberry.field(graphql_type=str | None)
    async def motto(self, info: Info) -> Any:
        return info.context.find("motto")

    @strawberry.field(graphql_type=int)
    def count(self, info: Info) -> Any:
        return info.context.find("count")

    @strawberry.field(graphql_type=list[Genre] | None)
    def genres(self, info: Info) -> Any:
        return info.context.find("genres")

    @strawberry.field(graphql_type=Item | None)
    async def item(self, info: Info) -> Any:
        return info.context.find("item")

    @strawberry.field(graphql_type=list[Item | None] | None)
    def items(self, info: Info) -> Any:
        return info.context.find("items")

    @strawberry.field(graphql_type=Map | None)
    def map(self, info: Info) -> Any:
        return info.context.find("map")

    @strawberry.field(graphql_type=Globe | None)
    def globe(self, info: Info) -> Any:
        return info.context.find("globe")

    @strawberry.field(graphql_type=list[Finding | None] | None)
    async def findings(self, info: Info) -> Any:
        return info.context.find("findings")

    @strawberry.field(graphql_type=Volume | None)
    async def wanted(
        self,
        info: Info,
        code: strawberry.ID,
        genre: Genre = Genre.NOVEL,
        place: Place | None = None,
        stamp: Stamp | None = None,
        pages: list[int] | None = None,
    ) -> Any:
        info.context.calls["wanted"] += 1
        return a_volume(title=f"{code} {genre} {place_text(place)} {stamp!r} {pages}", code=code)

    @strawberry.field
    async def noted(
        self,
        info: Info,
        code: strawberry.ID = NO_CODE,
        genre: Genre | None = Genre.NOVEL,
        stamp: Stamp | None = strawberry.UNSET,
        loud: bool | None = None,
        times: int = 1,
        price: float | None = 1.5,
        more: JSON | None = None,
    ) -> str:
        info.context.calls["noted"] += 1
        return f"{code!r} {genre!r} {stamp!r} {loud!r} {times!r} {price!r} {more!r}"

    @strawberry.field(graphql_type=Volume | None, permission_classes=[IsOpen])
    async def cabinet(self, info: Info) -> Any:
        return info.context.find("cabinet")

    @strawberry.field(graphql_type=str)
    async def info_text(self, info: Info) -> Any:
        selected = [each.name for each in info.selected_fields]
        parts = (info.field_name, info.path.as_list(), str(info.return_type), selected, info.variable_values)
        return f"{parts} {info.operation.operation.value} {info.root_value} {info.input_extensions}"

    @strawberry.field
    def again(self) -> "Query":
        return Query()

    @strawberry.field
    def greeting(self, loud: bool | None = False) -> str:
        return "HELLO" if loud else "hello"


@strawberry.type
class Mutation:
    @strawberry.mutation(graphql_type=Volume | None)
    async def lend(self, info: Info, code: str) -> Any:
        return await changed(info, "lend", code)

    @strawberry.mutation(graphql_type=Volume)
    async def bind(self, info: Info, code: str) -> Any:
        return await changed(info, "bind", code)

    @strawberry.mutation(graphql_type=Volume)
    def write(self, info: Info, code: str) -> Any:
        info.context.effects.append(f"write {code}")
        return info.context.find(code)


async def changed(info: Info, what: str, code: str) -> Any:
    info.context.effects.append(f"{what} {code} begins")
    await asyncio.sleep(0)
    info.context.effects.append(f"{what} {code} ends")
    return info.context.find(code)


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def arrivals(self) -> AsyncIterator[str]:
        yield "Emma"


# --- execution -------------------------------------------------------------------------------------


class Library(PreparingSchema):
    """Records the processed errors."""

    processed: list[str]

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        self.processed += [error.message for error in errors]


def library(prepares: bool, kind: type[Library] = Library, **given: Any) -> Library:
    options: dict[str, Any] = {
        "query": Query,
        "mutation": Mutation,
        "subscription": Subscription,
        "types": [Map, Record],
        "config": StrawberryConfig(
            scalar_map={Stamp: strawberry.scalar(name="Stamp", serialize=write_stamp, parse_value=read_stamp)}
        ),
    } | given
    schema = kind(prepares=prepares, **options)
    schema.processed = []
    # Only `Record` and `Globe` check the type of each value.
    map_type = schema._schema.type_map.get("Map")
    if isinstance(map_type, GraphQLObjectType):
        map_type.is_type_of = None
    return schema


def only(query: type) -> dict[str, Any]:
    """The parts of a schema with only this query type."""
    return {"query": query, "mutation": None, "subscription": None, "types": []}


PREPARING, PLAIN = library(prepares=True), library(prepares=False)


def ready(schema: PreparingSchema) -> OperationCache:
    """Empties the cache, and prepares every document at its first use."""
    schema.operations = OperationCache()
    schema.operations.prepared_at_use = 1
    return schema.operations


@dataclass(frozen=True)
class Outcome:
    """Everything that an execution returned and did."""

    data: str  # written out, so that the order of keys and the kinds of values count
    errors: list[tuple[dict[str, Any], str]]
    processed: list[str]
    raised: str | None
    calls: dict[str, int]
    effects: list[str]

    @property
    def messages(self) -> list[str]:
        return [error["message"] for error, _ in self.errors]

    @property
    def paths(self) -> list[Any]:
        return [error.get("path") for error, _ in self.errors]


async def outcome_of(schema: Library, query: str | None, desk: LibraryContext, **options: Any) -> Outcome:
    schema.processed = []
    data, errors, raised = "", [], None
    try:
        result = await schema.execute(query, context_value=desk, **options)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    else:
        data = repr(result.data)
        errors = [(dict(each.formatted), kind_of(each.original_error)) for each in result.errors or ()]
    return Outcome(data, errors, schema.processed, raised, dict(desk.calls), desk.effects)


def kind_of(error: BaseException | None) -> str:
    return "" if error is None else f"{type(error).__name__}: {error}"


Found = Mapping[str, Callable[[], Any]]


async def run_to_the_end(awaitable: Awaitable[Any]) -> Any:
    """The result, after all background tasks of graphql-core have ended."""
    result = await awaitable
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    return result


def run(awaitable: Awaitable[Any]) -> Any:
    return asyncio.run(run_to_the_end(awaitable))


async def execute_and_compare(
    preparing: Library, plain: Library, query: str | None, found: Found, **options: Any
) -> Outcome:
    expected = await outcome_of(plain, query, LibraryContext(found), **options)
    first = await outcome_of(preparing, query, LibraryContext(found), **options)
    again = await outcome_of(preparing, query, LibraryContext(found), **options)
    assert first == expected
    assert again == expected
    return expected


def execute_both(
    query: str | None, found: Found | None = None, is_prepared: bool = True, **options: Any
) -> Outcome:
    """The outcome, which must be the same with and without preparation, at the first and second use."""
    operations = ready(PREPARING)
    outcome: Outcome = run(execute_and_compare(PREPARING, PLAIN, query, found or {}, **options))
    assert bool(operations.recent.values) is is_prepared, "whether the document was prepared"
    return outcome


def execute_both_in_turn(
    query: str, *variables: dict[str, Any] | None, found: Found | None = None
) -> list[Outcome]:
    """Executes a document, prepared once, with each of these variables."""
    ready(PREPARING)

    async def in_turn() -> list[Outcome]:
        return [
            await execute_and_compare(PREPARING, PLAIN, query, found or {}, variable_values=each)
            for each in variables
        ]

    outcomes: list[Outcome] = run(in_turn())
    return outcomes


def execute_both_with(
    given: dict[str, Any], query: str, found: Found | None = None, times: int = 1, **options: Any
) -> Outcome:
    """The outcome with a schema made of these parts."""
    preparing, plain = library(True, **given), library(False, **given)
    preparing.operations.prepared_at_use = 1
    outcomes: Iterable[Outcome] = [
        run(execute_and_compare(preparing, plain, query, found or {}, **options)) for _ in range(times)
    ]
    return list(outcomes)[-1]
