"""Reading caregivers and clients: the viewer, and the people with whom the viewer has a session."""

from dataclasses import replace

from app.care.context import Context, Role
from app.db.reader.reads import Page, Row, get_rows, list_rows, reading_scope_values
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.sql import Operation
from app.db.statements.accounts import FIND_CLIENTS_OF_CAREGIVER
from app.db.statements.conditions import is_my_client
from app.db.tables import Caregiver, Client


async def get_myself(ctx: Context, role: Role, selection: Selection) -> Row | None:
    """Returns the viewer as a caregiver or client, or None if the viewer has the other role."""
    viewer = ctx.signed_in()
    if viewer.role is not role:
        return None
    table = Caregiver if role is Role.CAREGIVER else Client
    access = scope_for(selection, ctx.access())
    rows = await ctx.read("viewer", access, get_rows(table, access, [viewer.id], selection))
    return rows[0] if rows else None


async def list_my_clients(ctx: Context, page_request: PageRequest, selection: Selection) -> Page:
    """Lists the clients with whom the caregiver has or had a session."""
    await ctx.require_role(Role.CAREGIVER, "clients")
    page_request = replace(page_request, where=(Where(is_my_client),))
    access = ctx.access()
    return await ctx.read("clients", access, list_rows(Client, access, page_request, selection))


async def get_my_caregivers(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    access = ctx.access()
    return await ctx.read("caregiver", access, reading_caregivers(access, ids, selection))


async def get_my_clients(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    access = ctx.access()
    return await ctx.read("client", access, reading_clients(access, ids, selection))


def reading_caregivers(access: AccessScope, ids: list[int], selection: Selection) -> Operation[list[Row]]:
    key = yield from reading_scope_values(access)
    mine = {access.caregiver, *key.get("caregivers", ())}
    known = [person for person in ids if person in mine]
    return (yield from get_rows(Caregiver, scope_for(selection, access), known, selection))


def reading_clients(access: AccessScope, ids: list[int], selection: Selection) -> Operation[list[Row]]:
    if access.client is not None:
        known = [person for person in ids if person == access.client]
    else:
        values = {"ids": ids, "caregiver": access.caregiver}
        known = [row[0] for row in (yield FIND_CLIENTS_OF_CAREGIVER, values)]
    return (yield from get_rows(Client, scope_for(selection, access), known, selection))


def scope_for(selection: Selection, access: AccessScope) -> AccessScope:
    """Looks up no relationships if only columns of people are selected, since those need no access
    condition."""
    return access if selection.links else AccessScope(access.now)
