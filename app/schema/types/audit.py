"""AuditEvent: who saw a client's answers, or changed something."""

from datetime import datetime

import strawberry

from app.db.audit.reading import AuditEvent as Told
from app.db.tables import AnswerSet, Assignment, AuditActor, Caregiver, Client, Contract, Session
from app.schema.types.node import COMPUTES, GLOBAL_ID, global_id

KINDS = {AuditActor.CAREGIVER: Caregiver, AuditActor.CLIENT: Client}


def own_id(event: strawberry.Parent[Told]) -> strawberry.ID:
    return strawberry.ID(global_id("AuditEvent", event.id))


def actor_id_of(event: strawberry.Parent[Told]) -> strawberry.ID | None:
    kind = KINDS.get(event.actor)
    if kind is None or event.actor_id is None:
        return None
    return strawberry.ID(global_id(kind.__name__, event.actor_id))


def ids(kind: str, numbers: list[int]) -> list[strawberry.ID]:
    return [strawberry.ID(global_id(kind, number)) for number in numbers]


def sessions_of(event: strawberry.Parent[Told]) -> list[strawberry.ID]:
    return ids(Session.__name__, event.sessions)


def assignments_of(event: strawberry.Parent[Told]) -> list[strawberry.ID]:
    return ids(Assignment.__name__, event.assignments)


def answer_sets_of(event: strawberry.Parent[Told]) -> list[strawberry.ID]:
    return ids(AnswerSet.__name__, event.answer_sets)


@strawberry.type(description="An access to a client's answers, or a change, as it was recorded.")
class AuditEvent:
    id: strawberry.ID = strawberry.field(resolver=own_id, metadata=COMPUTES, description=GLOBAL_ID)
    moment: datetime = strawberry.field(description="When the request came in.")
    actor: AuditActor = strawberry.field(description="In which role somebody acted.")
    actor_id: strawberry.ID | None = strawberry.field(
        resolver=actor_id_of,
        metadata=COMPUTES,
        description="The global id of the caregiver or client; null for an operator.",
    )
    contract: Contract = strawberry.field(description="By which door they came in.")
    operation: str = strawberry.field(
        description="What was read or changed, such as `assignments` or `closeSession`."
    )
    outcome: str = strawberry.field(description="DONE, or the code of a refusal.")
    request_id: str = strawberry.field(
        description="As the `X-Request-Id` of the answer said it; empty for a command."
    )
    session_ids: list[strawberry.ID] = strawberry.field(
        resolver=sessions_of,
        metadata=COMPUTES,
        description="Global ids of the sessions that were opened, changed or closed.",
    )
    assignment_ids: list[strawberry.ID] = strawberry.field(
        resolver=assignments_of,
        metadata=COMPUTES,
        description="Global ids of the assignments that were changed.",
    )
    answer_set_ids: list[strawberry.ID] = strawberry.field(
        resolver=answer_sets_of,
        metadata=COMPUTES,
        description="Global ids of the answer sets that were read; empty where all that is held was read at "
        "once.",
    )
