"""AuditEvent: a read of a client's answers, or a change."""

from datetime import datetime

import strawberry
from strawberry import ID, Parent, field

from app.db.audit.reading import StoredRecord
from app.db.audit.records import ANSWER_SETS, ASSIGNMENTS, SESSIONS
from app.db.tables import AnswerSet, Assignment, AuditActor, Caregiver, Client, Contract, Session
from app.schema.types.scalars import COMPUTES, GLOBAL_ID, global_id

ACTORS = {AuditActor.CAREGIVER: Caregiver, AuditActor.CLIENT: Client}


def actor_id_of(event: Parent[StoredRecord]) -> ID | None:
    kind = ACTORS.get(event.actor)
    if kind is None or event.actor_id is None:
        return None
    return ID(global_id(kind.__name__, event.actor_id))


def global_ids(kind: type, numbers: list[int]) -> list[ID]:
    return [ID(global_id(kind.__name__, number)) for number in numbers]


@strawberry.type(description="A recorded read of a client's answers, or a recorded change.")
class AuditEvent:
    id: ID = field(
        resolver=lambda self: ID(global_id("AuditEvent", self.id)), metadata=COMPUTES, description=GLOBAL_ID
    )
    moment: datetime = field(description="Time of the request.")
    actor: AuditActor = field(description="Role of the actor.")
    actor_id: ID | None = field(
        resolver=actor_id_of,
        metadata=COMPUTES,
        description="Global id of the caregiver or client; null for an operator.",
    )
    contract: Contract = field(description="Interface through which the request was received.")
    operation: str = field(description="Name of the operation, such as `assignments` or `closeSession`.")
    outcome: str = field(description="DONE, or the error code of a rejected request.")
    request_id: str = field(description="`X-Request-Id` of the response; empty for a command.")
    session_ids: list[ID] = field(
        resolver=lambda self: global_ids(Session, self.ids_of(SESSIONS)),
        metadata=COMPUTES,
        description="Global ids of the sessions that were created, changed or closed.",
    )
    assignment_ids: list[ID] = field(
        resolver=lambda self: global_ids(Assignment, self.ids_of(ASSIGNMENTS)),
        metadata=COMPUTES,
        description="Global ids of the assignments that were changed.",
    )
    answer_set_ids: list[ID] = field(
        resolver=lambda self: global_ids(AnswerSet, self.ids_of(ANSWER_SETS)),
        metadata=COMPUTES,
        description="Global ids of the answer sets that were read; empty for a data export.",
    )
