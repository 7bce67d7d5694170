"""Own data: everything that is held of a client, as one document, for the client and for the operator."""

from collections.abc import Callable
from enum import StrEnum

from app.care.context import Context, Role
from app.care.own_data.as_csv import CsvDocument
from app.care.own_data.as_json import JsonDocument
from app.db.audit.records import About
from app.db.reader.own_data import client_held, events_held, key_of, sessions_held
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
    about = await ctx.db.read(telling_all(client_id, format, parts.append))
    await ctx.record("ownData", about)
    return "".join(parts)


def telling_all(client_id: int, format: DataFormat, write: Callable[[str], object]) -> Operation[About]:
    """Writes part by part, all of one snapshot. What is told does not depend on when it is asked.

    Returns what it is about: all relationships, each as a whole."""
    document = DOCUMENTS[format](write)
    document.begin((yield from client_held(client_id)))
    key = yield from key_of(client_id)
    after = 0
    while sessions := (yield from sessions_held(key, after)):
        for session in sessions:
            document.add_session(session)
        after = sessions[-1]["id"]
    document.end((yield from events_held(key)))
    return [(caregiver, client_id, {}) for caregiver in sorted(key["caregivers"])]
