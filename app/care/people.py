"""Reading caregivers and clients: the viewer, and the people with whom the viewer has a session."""

from app.care.context import Context, Role
from app.db.reader.access import is_known_caregiver, is_known_client, is_my_client
from app.db.reader.reads import Page, Row, get_rows, list_rows
from app.db.reader.selection import AccessScope, PageRequest, Selection, Where
from app.db.tables import Caregiver, Client

TABLES: dict[Role, type[Caregiver] | type[Client]] = {Role.CAREGIVER: Caregiver, Role.CLIENT: Client}
IS_KNOWN = {Role.CAREGIVER: is_known_caregiver, Role.CLIENT: is_known_client}


async def get_myself(ctx: Context, role: Role, selection: Selection) -> Row | None:
    """Returns the viewer as a caregiver or client, or None if the viewer has the other role."""
    viewer = ctx.signed_in()
    rows = await read_people(ctx, "viewer", role, [viewer.id], selection) if viewer.role is role else []
    return rows[0] if rows else None


async def list_my_clients(ctx: Context, page_request: PageRequest, selection: Selection) -> Page:
    """Lists the clients with whom the caregiver has or had a session."""
    await ctx.require_role(Role.CAREGIVER, "clients")
    page_request = page_request._replace(where=(Where(is_my_client),))
    access = ctx.access()
    return await ctx.read("clients", access, list_rows(Client, access, page_request, selection))


async def get_my_caregivers(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    return await read_people(ctx, "caregiver", Role.CAREGIVER, ids, selection)


async def get_my_clients(ctx: Context, ids: list[int], selection: Selection) -> list[Row]:
    return await read_people(ctx, "client", Role.CLIENT, ids, selection)


async def read_people(ctx: Context, what: str, role: Role, ids: list[int], selection: Selection) -> list[Row]:
    """Returns those of the people with this role whom the viewer may see: themselves, or those with whom they
    have a session."""
    viewer, access = ctx.signed_in(), ctx.access()
    if viewer.role is role:
        if not selection.links:  # the viewer's own columns need no relationship
            access = AccessScope(access.now)
        steps = get_rows(TABLES[role], access, [viewer.id] if viewer.id in ids else [], selection)
    else:
        steps = get_rows(TABLES[role], access, ids, selection, (Where(IS_KNOWN[role]),))
    return await ctx.read(what, access, steps)
