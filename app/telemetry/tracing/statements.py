"""The attributes of a step: a statement, several at once, or rows to insert."""

import re
from weakref import WeakKeyDictionary

from app.db.sql import Bulk, DatabaseKind, Statement, Step, changes_of
from app.telemetry.tracing.spans import Attributes

MAX_TEXT, MAX_SUMMARY = 2000, 255  # characters
# What a statement does and to which tables. A function or a subquery is no table.
PARTS = re.compile(
    r"\b(SELECT)\b|\b(INSERT) INTO (\w+)|\b(DELETE) FROM (\w+)|(?<!FOR )(?<!KEY )(?<!DO )\b(UPDATE) (\w+)"
    r"|(?:(?<!DISTINCT )\bFROM|\bJOIN) (\w+)\b(?! ?\()"
)
# Callers choose the statements of reads, so their attributes do not outlive them.
of_statements: WeakKeyDictionary[Statement, dict[DatabaseKind, Attributes]] = WeakKeyDictionary()


def attributes_of(step: Step, kind: DatabaseKind) -> Attributes:
    if isinstance(step, Bulk):
        return {
            "db.collection.name": step.table,
            "db.operation.name": "INSERT",
            "db.query.summary": f"INSERT {step.table}",
        }
    each = [statement_attributes(statement, kind) for statement, _ in changes_of(step)]
    if len(each) == 1:
        return each[0]
    operations, summaries, texts = (
        [str(attributes.get(name, "")) for attributes in each]
        for name in ("db.operation.name", "db.query.summary", "db.query.text")
    )
    return {
        "db.operation.batch.size": len(each),
        "db.operation.name": batch_of(operations),
        "db.query.summary": batch_of(summaries),
        "db.query.text": (texts[0] if len(set(texts)) == 1 else "; ".join(texts))[:MAX_TEXT],
    }


def batch_of(names: list[str]) -> str:
    return f"BATCH {names[0]}".strip() if len(set(names)) == 1 else "BATCH"


def statement_attributes(statement: Statement, kind: DatabaseKind) -> Attributes:
    by_kind = of_statements.setdefault(statement, {})
    if kind not in by_kind:
        compiled = statement.for_(kind)
        text = compiled.sql
        by_kind[kind] = {"db.query.summary": summary_of(text), "db.query.text": text[:MAX_TEXT]}
        if compiled.verb:  # the text does not name one operation
            by_kind[kind]["db.operation.name"] = compiled.verb
    return by_kind[kind]


def summary_of(text: str) -> str:
    """The operations and tables in their order, such as `INSERT event SELECT assignment`."""
    parts = " ".join(part for found in PARTS.findall(text) for part in found if part)
    if not parts:
        return text.split(None, 1)[0]
    return parts if len(parts) <= MAX_SUMMARY else parts[: MAX_SUMMARY + 1].rpartition(" ")[0]
