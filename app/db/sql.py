"""SQL statements, compiled once for each database and run by the drivers."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial, wraps
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Delete,
    Dialect,
    FromClause,
    Insert,
    Integer,
    Select,
    String,
    Table,
    Text,
    Update,
    bindparam,
    case,
    column,
    func,
    literal,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from app.db.moments import Moment

# Citus is PostgreSQL with tables that `care-gateway distribute` has distributed.
DatabaseKind = Literal["sqlite", "postgresql", "citus"]
Values = dict[str, Any]

DIALECTS: dict[DatabaseKind, Dialect] = {
    "sqlite": SQLiteDialect_pysqlite(paramstyle="qmark"),
    "postgresql": PGDialect_asyncpg(paramstyle="numeric_dollar"),  # type: ignore[no-untyped-call]
    "citus": PGDialect_asyncpg(paramstyle="numeric_dollar"),  # type: ignore[no-untyped-call]
}

# INSERT with ON CONFLICT, which SQLAlchemy has in the dialects only.
INSERT: dict[DatabaseKind, Callable[[Table], postgresql.Insert]] = {
    "sqlite": sqlite.insert,  # type: ignore[dict-item]  # has the same methods
    "postgresql": postgresql.insert,
    "citus": postgresql.insert,
}

REQUIRED: Any = object()  # marks a parameter without a default: the caller must pass its value


class MissingParameter(Exception):
    """A bug: without the value the statement would compare with NULL or store NULL."""

    def __init__(self, name: str, sql: str) -> None:
        super().__init__(f"no value for :{name} in {sql[:200]}")


@dataclass(frozen=True)
class CompiledStatement:
    """The text of a statement and its parameters in order, each with its default or REQUIRED.

    Only constants that SQLAlchemy has moved out of the text have a default. There are no optional parameters:
    the steps pass None for NULL.
    """

    sql: str
    parameters: tuple[tuple[str, Any], ...]
    returns_ids: bool = False  # an INSERT whose new ids SQLite derives from the last one
    verb: str = ""  # SELECT, INSERT, UPDATE or DELETE; none of a statement that is written as SQL

    def values(self, given: Values) -> list[Any]:
        try:
            return [given[name] if default is REQUIRED else default for name, default in self.parameters]
        except KeyError as missing:
            raise MissingParameter(missing.args[0], self.sql) from None


@dataclass(eq=False)
class Statement:
    """An SQLAlchemy expression, compiled at the first use on a kind of database.

    A function of the kind returns the expression if it must be built late or differs between the databases.
    A statement that is compiled for one kind has no expression: SQLAlchemy's objects take 50 times the memory
    of the text, and refer to each other, so that only the garbage collector frees them.
    """

    expression: ClauseElement | Callable[[DatabaseKind], ClauseElement] | None
    returns_ids: bool = False
    adds_events: bool = False  # which PostgreSQL announces to other processes after the commit
    reads_after_lock: bool = False  # locks one row, and reads more once it is locked
    compiled: dict[DatabaseKind, CompiledStatement] = field(default_factory=dict, init=False, repr=False)

    def for_(self, kind: DatabaseKind) -> CompiledStatement:
        compiled = self.compiled.get(kind)
        if compiled is None:
            compiled = self.compiled[kind] = self.compile(kind)
        return compiled

    def compile(self, kind: DatabaseKind) -> CompiledStatement:
        expression = self.expression
        assert expression is not None, "this statement is for another kind of database"
        if not isinstance(expression, ClauseElement):
            expression = expression(kind)
        if self.returns_ids and kind != "sqlite":
            assert isinstance(expression, Insert)
            expression = expression.returning(expression.table.c.id)
        compiled = expression.compile(dialect=DIALECTS[kind])
        assert isinstance(compiled, SQLCompiler)
        parameters = tuple(
            (name, REQUIRED if compiled.binds[name].required else compiled.params[name])
            for name in compiled.positiontup or ()
        )
        is_standard = isinstance(expression, Select | Insert | Update | Delete)
        verb = expression.__visit_name__.upper() if is_standard else ""
        return CompiledStatement(compiled.string, parameters, self.returns_ids, verb)


def compiled_statement(kind: DatabaseKind, expression: ClauseElement) -> Statement:
    """A statement for one kind of database, without its expression."""
    statement = Statement(expression)
    statement.for_(kind)
    statement.expression = None
    return statement


def insert_if_absent(table: Table, values: Values, returning: Sequence[Column[Any]] = ()) -> Statement:
    """An INSERT that does nothing if a row with the same key exists."""

    def build(kind: DatabaseKind) -> ClauseElement:
        added = INSERT[kind](table).values(values).on_conflict_do_nothing()
        return added.returning(*returning) if returning else added

    return Statement(build)


def only_on_postgresql(sql: str) -> Statement:
    """A statement for the locks of PostgreSQL. SQLite, which has one writer, selects a constant instead."""
    return Statement(lambda kind: select(literal(1)) if kind == "sqlite" else text(sql))


def statement_of_text(sqlite: str, postgresql: str, parameter: str) -> Statement:
    """A statement that is written as SQL, with one text parameter."""

    def build(kind: DatabaseKind) -> ClauseElement:
        written = text(sqlite if kind == "sqlite" else postgresql)
        return written.bindparams(bindparam(parameter, type_=Text))

    return Statement(build)


@dataclass(frozen=True)
class Bulk:
    """Rows to insert into one table."""

    table: str
    columns: tuple[str, ...]
    rows: Iterable[tuple[Any, ...]]


class OnlyStatement(NamedTuple):
    """The only statement of its steps, which PostgreSQL runs without BEGIN and COMMIT."""

    statement: Statement
    values: Values


class Batchable(OnlyStatement):
    """A short read that PostgreSQL may run in a batch with the same statement of other requests. It returns
    exactly one row, whose first column is the parameter NUMBER: the place of the request in the batch."""


class FastRead(Batchable):
    """A read for a FastPath, before its change. It returns no row inside a transaction and on other databases
    than PostgreSQL."""


class FastPath(NamedTuple):
    """A change by one statement, which PostgreSQL runs in a batch and commits. Its row begins with NUMBER and
    the client of the added events, or NULL if it changed nothing. The step returns that row if the change was
    made. It returns no row if not, inside a transaction and on other databases: the next steps then make the
    change, or reject it."""

    statement: Statement
    recorded: Statement  # the same with an audit record, whose parameters begin with `record_`
    values: Values
    events: tuple[Values, ...] = ()  # that name the rows of the record, unless the statement does


class Together(NamedTuple):
    """Changes that do not read what the others write: one round trip to PostgreSQL. Returns no rows."""

    changes: tuple[tuple[Statement, Values], ...]
    is_last: bool = False  # of the steps, so that its audit record can be added to them


class LongWork(NamedTuple):
    """A function that would hold the event loop for too long: a driver calls it in a thread, outside of a
    transaction if none has begun, and returns its result as the only row."""

    function: Callable[[], Any]


DATABASE_KIND: Any = object()  # this step returns the kind of the database

Step = tuple[Statement, Values] | Together | Bulk | FastRead | FastPath | LongWork
Result = TypeVar("Result")
P = ParamSpec("P")
# A generator that yields the next statement and receives its rows. It knows no connection, thread or loop.
Steps = Generator[Step, list[Any], Result]


def selecting(statement: Statement, **values: Any) -> Steps[list[Any]]:
    """Reads the rows of one statement."""
    return (yield statement, values)


@dataclass(frozen=True)
class Repeatable(Generic[Result]):
    """Steps that have not begun: a driver can begin them again if the database chose its transaction as
    the victim of a deadlock or of a serialization failure. `yield from` runs them inside others."""

    begin: Callable[[], Steps[Result]]

    def __iter__(self) -> Steps[Result]:
        return self.begin()


def repeatable(function: Callable[P, Steps[Result]]) -> Callable[P, Repeatable[Result]]:
    """Decorates steps whose only effects are their statements."""

    @wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Repeatable[Result]:
        return Repeatable(partial(function, *args, **kwargs))

    return make


def changes_of(step: Step) -> Sequence[tuple[Statement, Values]]:
    """The statements of a step with their values."""
    if step is DATABASE_KIND or isinstance(step, Bulk | FastPath | LongWork):
        return ()
    return step.changes if isinstance(step, Together) else [step]


def mapping_steps(steps: Steps[Result] | Repeatable[Result], change: Callable[[Step], Step]) -> Steps[Result]:
    """The same steps; `change` receives each of them and returns the one to run."""
    steps = iter(steps)
    try:
        step = next(steps)
        while True:
            step = steps.send((yield change(step)))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()


# --- parameters and literals ----------------------------------------------------------------------


def moment_parameter(name: str) -> ColumnElement[datetime]:
    return bindparam(name, type_=Moment)


def text_parameter(name: str) -> ColumnElement[str]:
    return bindparam(name, type_=String)


def id_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=BigInteger)


def count_parameter(name: str) -> ColumnElement[int]:
    return bindparam(name, type_=Integer)


def parameters_of(table: Table, columns: Iterable[str], prefix: str = "") -> dict[str, ColumnElement[Any]]:
    """For each of the columns a parameter of its type, with its name after the prefix."""
    return {name: bindparam(f"{prefix}{name}", type_=table.c[name].type) for name in columns}


def literal_text(text: str) -> ColumnElement[Any]:
    """A literal in the statement. A parameter does not match the expression of an index, and if it decides on
    a partial index, SQLite prepares the statement again whenever the parameters change."""
    return literal_column(f"'{text}'")


# --- expressions that the databases write differently ---------------------------------------------


class PerDatabase(FunctionElement[Any]):
    """An expression with one form for SQLite, one for PostgreSQL, and one for Citus if that differs."""

    inherit_cache = False

    def __init__(
        self,
        sqlite: ColumnElement[Any],
        postgresql: ColumnElement[Any],
        citus: ColumnElement[Any] | None = None,
    ) -> None:
        super().__init__(sqlite, postgresql, postgresql if citus is None else citus)
        self.type = postgresql.type

    def self_group(self, against: Any = None) -> "PerDatabase":
        """Returns itself: SQLAlchemy would compare a condition with 1 on SQLite, which has no booleans."""
        return self


@compiles(PerDatabase)
def write_form(element: PerDatabase, compiler: SQLCompiler, **options: Any) -> str:
    forms = dict(zip(DIALECTS, element.clauses, strict=True))
    kind = next((kind for kind, dialect in DIALECTS.items() if dialect is compiler.dialect), "postgresql")
    return compiler.process(forms[kind], **options)


def new_id(table: str) -> ColumnElement[int]:
    """An id for each row of a select. Ids that are known beforehand let PostgreSQL make all changes in one
    round trip; a change that does not use its id leaves a gap. SQLite has one writer."""
    last = f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0)"
    return PerDatabase(
        sqlite=literal_column(f"{last} + row_number() OVER ()"),
        postgresql=func.nextval(literal_text(f"{table}_id_seq")),
    )


def new_id_if_here(table: str) -> ColumnElement[int]:
    """The same, but NULL on Citus, which would take the ids on the machine of the caregiver."""
    taken = new_id(table)
    return PerDatabase(sqlite=taken, postgresql=taken, citus=literal_column("CAST(NULL AS BIGINT)"))


def after_lock(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Read by PostgreSQL in the second run of a statement with `reads_after_lock`; NULL in the first."""
    return PerDatabase(sqlite=value, postgresql=case((is_locked_before(), value)))


def is_locked_before() -> ColumnElement[bool]:
    """Whether this is the second run."""
    return bindparam("is_locked", type_=Boolean)


NUMBER = count_parameter("number").label("number")  # the first column of statements in batches


def among(subject: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """`subject` is one of the ids in the list parameter `name`."""
    items = func.json_each(bindparam(name)).table_valued("value")
    return PerDatabase(
        sqlite=subject.in_(select(items.c.value)),
        postgresql=subject == func.any(bindparam(name, type_=ARRAY(BigInteger))),
    )


def is_the_id(subject: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """The same for a single id, without a list: SQLite takes 2 us to open a list."""
    return subject == id_parameter(name)


@cache
def each(name: str, kind: DatabaseKind, item: TypeEngine[Any] | None = None) -> FromClause:
    """The items of the list parameter `name` as a table (value, position)."""
    item = item or BigInteger()
    if kind == "sqlite":
        items = func.json_each(bindparam(name)).table_valued("value", "key", name=name)
        rows = select(items.c.value.label("value"), items.c.key.label("position"))
        return rows.select_from(items).subquery(name)
    items = func.unnest(bindparam(name, type_=ARRAY(item))).table_valued(
        column("value", item), with_ordinality="position", name=name
    )
    return items.render_derived()


def in_order(rows: Select[Any], kind: DatabaseKind, *lists: FromClause) -> Select[Any]:
    """Orders rows by their position in the lists. SQLite reads them in this order anyway."""
    return rows if kind == "sqlite" else rows.order_by(*(items.c.position for items in lists))
