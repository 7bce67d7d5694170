"""Own data: all stored data of a client as one document, for the client and for the operator."""

from collections.abc import Callable
from enum import StrEnum

from app.care.context import Context, Role
from app.care.own_data.as_csv import CsvDocument
from app.care.own_data.as_json import JsonDocument
from app.db.audit.records import About
from app.db.reader.own_data import reading_client, reading_events, reading_key, reading_sessions
from app.db.sql import Operation


class DataFormat(StrEnum):
    JSON = "JSON"
    CSV = "CSV"


DOCUMENTS: dict[DataFormat, type[JsonDocument] | type[CsvDocument]] = {
    DataFormat.JSON: JsonDocument,
    DataFormat.CSV: CsvDocument,
}


async def get_own_data(ctx: Context, format: DataFormat) -> str:
    client_id = await ctx.require_role(Role.CLIENT, "ownData")
    parts: list[str] = []
    about = await ctx.db.read(exporting(client_id, format, parts.append))
    await ctx.record("ownData", about)
    return "".join(parts)


def exporting(client_id: int, format: DataFormat, write: Callable[[str], object]) -> Operation[About]:
    """Writes the document part by part from one snapshot; the content does not depend on the current time.

    Returns the relationships of the client for the audit record.
    """
    document = DOCUMENTS[format](write)
    document.begin((yield from reading_client(client_id)))
    key = yield from reading_key(client_id)
    after = 0
    while sessions := (yield from reading_sessions(key, after)):
        for session in sessions:
            document.add_session(session)
        after = sessions[-1]["id"]
    document.end((yield from reading_events(key)))
    return [(caregiver, client_id, {}) for caregiver in sorted(key["caregivers"])]
