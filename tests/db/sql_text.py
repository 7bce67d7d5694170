"""Parses SQL text: finds its care tables, and whether the statement names the relationship key of each."""

import re
from dataclasses import dataclass, field

from app.db.sql import CompiledStatement
from app.db.tables import CARE_TABLES, table_of

CARE = "|".join(table_of(table).name for table in CARE_TABLES)
NAMED = re.compile(rf"(?:\bFROM|\bJOIN|\bUPDATE|,) \"?({CARE})\"?(?: AS (\w+))?(?= |$|\))")
INSERTED = re.compile(rf"INSERT INTO ({CARE}) \(([^)]*)\) (?:SELECT (.*?) FROM|VALUES \(([^)]*)\))")
ANY_CARE_TABLE = re.compile(rf"(?<![:\w.\"'])\"?({CARE})\"?(?![\w.\"(])")
EACH_CAREGIVER = re.compile(
    r"SELECT (\w+)\.value FROM json_each\(:caregivers\) AS \1"
    r"|SELECT relationship\.caregiver_id FROM relationship WHERE relationship\.client_id = :client"
)


@dataclass
class Query:
    """The text of one SELECT, UPDATE or DELETE, with a marker in place of each nested query."""

    text: str
    inside: list["Query"] = field(default_factory=list)


def without_key(written: CompiledStatement, role: str) -> list[str]:
    """The care tables in the statement that do not name the relationship key of this role."""
    text = with_names(written)
    missing = [
        table
        for table, columns, selected, values in INSERTED.findall(text)
        if not fills_key(columns, selected or values)
    ]
    return missing + keyless(queries_of(text), role)


def care_tables(written: CompiledStatement) -> list[str]:
    """All aliases of care tables, also in nested queries."""
    found: list[str] = []
    waiting = [queries_of(with_names(written))]
    while waiting:
        query = waiting.pop()
        found += [alias or table for table, alias in NAMED.findall(query.text)]
        waiting += query.inside
    return found


def with_names(written: CompiledStatement) -> str:
    """The text on one line, with the names of the parameters."""
    names = [f":{name}" for name, _ in written.parameters]
    one_line = re.sub(r"\s+", " ", written.sql)
    if "$1" in one_line:
        return re.sub(r"\$(\d+)(::[\w ]+?(\[\])?)?(?=[\s,)]|$)", lambda at: names[int(at[1]) - 1], one_line)
    waiting = iter(names)
    return re.sub(r"\?", lambda _: next(waiting), one_line)


def queries_of(text: str) -> Query:
    """Replaces every nested `(SELECT ...)` by a marker, and parses it too."""
    inside: list[Query] = []
    own = ""
    at = 0
    while at < len(text):
        if text.startswith("(SELECT ", at):
            end = closing(text, at)
            own += f"(#{len(inside)})"
            inside.append(queries_of(text[at + 1 : end]))
            at = end + 1
        else:
            own += text[at]
            at += 1
    return Query(own, inside)


def closing(text: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise AssertionError(f"a parenthesis stays open: {text}")


def keyless(query: Query, role: str) -> list[str]:
    found = [alias for inner in query.inside for alias in keyless(inner, role)]
    certain = re.sub(r"\((?:[^()]|\([^()]*\))* OR (?:[^()]|\([^()]*\))*\)", "(either)", query.text)
    for table, alias in NAMED.findall(query.text):
        source = alias or table
        if " OR " in certain or not names_key(query, certain, source, role):
            found.append(source)
    return found


def names_key(query: Query, certain: str, source: str, role: str) -> bool:
    caregiver, client = (rf"(?:\(\+ {source}\.{name}\)|\b{source}\.{name})" for name in KEY)
    if role == "caregiver":
        return re.search(rf"{caregiver} = :caregiver\b(?!s)", certain) is not None
    among = re.search(
        rf"{caregiver} (?:IN \(#(\d+)\)|= any\(array\(\(#(\d+)\)\)\)|= any\(:caregivers\)|= :caregivers\b)",
        certain,
    )
    if among is None or re.search(rf"{client} = :client\b", certain) is None:
        return False
    inside = among[1] or among[2]
    return inside is None or EACH_CAREGIVER.fullmatch(query.inside[int(inside)].text) is not None


KEY = ("caregiver_id", "client_id")


def fills_key(columns: str, values: str) -> bool:
    filled = dict(zip(columns.split(", "), values.split(", "), strict=False))
    return all(filled.get(name, "").split(" ")[0] == f":{name.removesuffix('_id')}" for name in KEY)
