"""AuditEvent: a read of a client's answers, or a change."""

from datetime import datetime

import strawberry

from app.db.audit.reading import AuditEvent as Record
from app.db.tables import AnswerSet, Assignment, AuditActor, Caregiver, Client, Contract, Session
from app.schema.types.node import COMPUTES, GLOBAL_ID, global_id

KINDS = {AuditActor.CAREGIVER: Caregiver, AuditActor.CLIENT: Client}


def own_id(event: strawberry.Parent[Record]) -> strawberry.ID:
    return strawberry.ID(global_id("AuditEvent", event.id))


def actor_id_of(event: strawberry.Parent[Record]) -> strawberry.ID | None:
    kind = KINDS.get(event.actor)
    if kind is None or event.actor_id is None:
        return None
    return strawberry.ID(global_id(kind.__name__, event.actor_id))


def ids(kind: str, numbers: list[int]) -> list[strawberry.ID]:
    return [strawberry.ID(global_id(kind, number)) for number in numbers]


def sessions_of(event: strawberry.Parent[Record]) -> list[strawberry.ID]:
    return ids(Session.__name__, event.sessions)


def assignments_of(event: strawberry.Parent[Record]) -> list[strawberry.ID]:
    return ids(Assignment.__name__, event.assignments)


def answer_sets_of(event: strawberry.Parent[Record]) -> list[strawberry.ID]:
    return ids(AnswerSet.__name__, event.answer_sets)


@strawberry.type(description="A recorded read of a client's answers, or a recorded change.")
class AuditEvent:
    id: strawberry.ID = strawberry.field(resolver=own_id, metadata=COMPUTES, description=GLOBAL_ID)
    moment: datetime = strawberry.field(description="Time of the request.")
    actor: AuditActor = strawberry.field(description="Role of the actor.")
    actor_id: strawberry.ID | None = strawberry.field(
        resolver=actor_id_of,
        metadata=COMPUTES,
        description="Global id of the caregiver or client; null for an operator.",
    )
    contract: Contract = strawberry.field(description="Interface through which the request was received.")
    operation: str = strawberry.field(
        description="Name of the operation, such as `assignments` or `closeSession`."
    )
    outcome: str = strawberry.field(description="DONE, or the error code of a rejected request.")
    request_id: str = strawberry.field(description="`X-Request-Id` of the response; empty for a command.")
    session_ids: list[strawberry.ID] = strawberry.field(
        resolver=sessions_of,
        metadata=COMPUTES,
        description="Global ids of the sessions that were created, changed or closed.",
    )
    assignment_ids: list[strawberry.ID] = strawberry.field(
        resolver=assignments_of,
        metadata=COMPUTES,
        description="Global ids of the assignments that were changed.",
    )
    answer_set_ids: list[strawberry.ID] = strawberry.field(
        resolver=answer_sets_of,
        metadata=COMPUTES,
        description="Global ids of the answer sets that were read; empty for a data export.",
    )
