"""Whether the old service is still in use, in which case people cannot change data here.

The first import of a recording marks the database, and `legacy switch` declares the switch. Without a mark
the database was not moved over. The mark is a row of IMPORTED_ROW, whose id is the state.
"""

from enum import IntEnum

from sqlalchemy import and_, delete, exists, select

from app.db.sql import Bulk, Statement, Steps
from app.db.tables import IMPORTED_ROW

SWITCH = "switch"  # the kind of the row


class SwitchState(IntEnum):
    WAITING = 0  # people use the old service
    DECLARED = 1


IS_SWITCH = IMPORTED_ROW.c.kind == SWITCH
IS_WAITING = exists().where(and_(IS_SWITCH, IMPORTED_ROW.c.id == SwitchState.WAITING.value))
FIND_SWITCH = Statement(select(IMPORTED_ROW.c.id).where(IS_SWITCH))
DROP_SWITCH = Statement(delete(IMPORTED_ROW).where(IS_SWITCH))


def reading_switch() -> Steps[SwitchState | None]:
    rows = yield FIND_SWITCH, {}
    return SwitchState(rows[0][0]) if rows else None


def saving_switch(state: SwitchState) -> Steps[None]:
    yield DROP_SWITCH, {}
    yield Bulk("imported_row", ("kind", "id", "client_id", "fingerprint"), [(SWITCH, state.value, None, "")])
