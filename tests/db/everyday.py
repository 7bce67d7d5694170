"""The everyday statements, and how many shards of a distributed database each of them uses."""

import re
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from sqlalchemy import text

from app.care.subscriptions import KINDS_BY_ROLE
from app.db.event_log import events_from, find_event, newest_event
from app.db.reader import document, levels
from app.db.reader.access import CAREGIVERS_OF_CLIENT, is_my_client
from app.db.reader.entities import ENTITIES, ToOne
from app.db.reader.queries import CountedBy
from app.db.reader.selection import Link, PageRequest, ReaderRole, Selection, Where
from app.db.sql import CompiledStatement, Statement, Steps
from app.db.statements import answers, assignments, deliveries, dispatch, events, sessions
from app.db.tables import Client, Table, table_of

CAREGIVERS = (1, 2, 3)  # of a client with several
CHANGES: tuple[ModuleType, ...] = (answers, assignments, deliveries, dispatch, events, sessions)
PARAMETER = re.compile(r"\$(\d+)(?:::([A-Z]+(?: WITH TIME ZONE)?\[\]|TIMESTAMP|BOOLEAN|JSON)?)?")
SAMPLES = {"TIMESTAMP": "2026-11-21", "BOOLEAN": "true", "JSON": "[]", "": "1"}
SHARDS = re.compile(r'"Task Count": (\d+)')


class Everyday(NamedTuple):
    name: str
    statement: Statement
    caregivers: tuple[int, ...] = CAREGIVERS[:1]


# --- the statements -------------------------------------------------------------------------------


def everyday_statements() -> Iterator[Everyday]:
    """Reads of every table with all of its links, and the changes that name a caregiver."""
    for table, entity in ENTITIES.items():
        if entity.is_care or table is Client:
            yield from reads_of(table)
    for role, kinds in KINDS_BY_ROLE.items():
        viewer = "client" if role == "CLIENT" else "caregiver"
        of_role = (
            events_from(viewer, kinds, True),
            newest_event(viewer, is_old=True),
            find_event(viewer, kinds),
        )
        for statement in of_role:
            yield Everyday(f"the events of a {viewer}", statement, CAREGIVERS)
    yield Everyday("the caregivers of a client", CAREGIVERS_OF_CLIENT)
    for module in CHANGES:
        for name, value in vars(module).items():
            for statement in value.values() if isinstance(value, dict) else [value]:
                if isinstance(statement, Statement) and finds_rows_of_caregiver(statement):
                    yield Everyday(name, statement)


def finds_rows_of_caregiver(statement: Statement) -> bool:
    """Leaves out searches of the dispatcher in all shards, and inserts, which cannot be planned in a read."""
    if statement.for_("citus").sql.startswith("INSERT"):
        return False
    return not {"caregiver", "caregivers"}.isdisjoint(dict(statement.for_("citus").parameters))


def reads_of(table: Table) -> Iterator[Everyday]:
    selection, where = everything_of(table), (Where(is_my_client),) if table is Client else ()
    request = PageRequest(with_total=True, where=where)
    counted_by = CountedBy(table, None, where)
    roles: tuple[ReaderRole, ...] = ("caregiver", "client in a document")
    for role in roles[:1] if where else roles:
        name = f"{table_of(table).name} rows of a {role}"
        plan = document.plan_of_page(table, selection, role, request, counted_by, "citus")
        yield Everyday(name, plan.statement)
        plan = document.plan_of_ids(table, selection, role, where, is_single=False, kind="citus")
        yield Everyday(name, plan.statement)
    name = f"{table_of(table).name} rows of a client of several"
    plans = [levels.plan_of_ids(table, selection, "client", (), "citus")]
    if not where:
        plans.append(levels.plan_of_page(table, selection, "client", request, counted_by, "citus"))
    for each in plans:
        for statement in each.statements():
            yield Everyday(name, statement, CAREGIVERS)


def everything_of(table: Table, depth: int = 2) -> Selection:
    """All columns and links, each list in full and as a page, some levels deep."""
    columns = frozenset(ENTITIES[table].columns)
    links = []
    for name, link in ENTITIES[table].links.items() if depth else ():
        selection = everything_of(link.target, depth - 1)
        links.append(Link(name, selection))
        if not isinstance(link, ToOne):
            links.append(Link(name, selection, PageRequest(with_total=True)))
    return Selection(columns, tuple(links))


# --- their plans ----------------------------------------------------------------------------------


def finding_scattered() -> Steps[list[tuple[str, int]]]:
    """The names of the statements whose plans use more shards than they name caregivers, and how many."""
    found = []
    # Compiled before the first statement runs: that takes seconds, and an idle transaction would be ended.
    explained = [
        (one, explain(with_samples(one.statement.for_("citus"), one.caregivers)))
        for one in everyday_statements()
    ]
    for one, statement in explained:
        rows = yield statement, {}
        shards = sum(map(int, SHARDS.findall(rows[0][0])))
        if shards > len(one.caregivers):
            found.append((one.name, shards))
    return found


def explain(sql: str) -> Statement:
    return Statement(text(f"EXPLAIN (FORMAT JSON, COSTS OFF) {sql}".replace(":", "\\:")))


def with_samples(written: CompiledStatement, caregivers: tuple[int, ...]) -> str:
    """The statement with a value in place of each parameter. Only those of caregivers choose shards."""

    def sample(found: re.Match[str]) -> str:
        name, _ = written.parameters[int(found[1]) - 1]
        kind = found[2] or ""
        items = ", ".join(map(str, caregivers)) if name == "caregivers" else "1"
        value = f"{{{items}}}" if kind.endswith("[]") else SAMPLES[kind]
        return f"'{value}'{found[0].removeprefix('$' + found[1])}"

    return PARAMETER.sub(sample, written.sql)
