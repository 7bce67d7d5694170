"""Caregiver, Client and Viewer."""

import strawberry
from strawberry import ID, field

from app.care.context import Role
from app.care.people import get_myself
from app.care.subscriptions import get_last_event_id
from app.db.tables import Caregiver as CaregiverTable
from app.db.tables import Client as ClientTable
from app.schema.selection import Info, selected_rows
from app.schema.types.progress import Progress, ScorePoint, progress_field, score_history_field
from app.schema.types.scalars import Node, global_id


@strawberry.type(description="A caregiver, who opens sessions and assigns homework.")
class Caregiver(Node):
    name: str = field(description="First and last name.")
    position: str = field(description="Professional position, such as Family therapist.")


@strawberry.type(description="A client, who answers homework.")
class Client(Node):
    name: str = field(description="First and last name; `erased` after the client was erased.")
    oppt_id: str = field(description="External identifier of the client.")
    progress: Progress = progress_field("Progress of all homework that the viewer shares with this client.")
    score_history: list[ScorePoint] = score_history_field(
        "Scores of one book in all sessions that the viewer shares with this client, oldest first."
    )


@strawberry.type(description="The signed-in user.")
class Viewer:
    role: Role = field(description="Role in the token.")
    time_zone: str = field(description="Time zone of the local times on the legacy paths.")

    @field(description="The viewer as a caregiver; null for a client.", graphql_type=Caregiver | None)
    async def caregiver(self, info: Info) -> object:
        return await get_myself(info.context, Role.CAREGIVER, selected_rows(info, CaregiverTable))

    @field(description="The viewer as a client; null for a caregiver.", graphql_type=Client | None)
    async def client(self, info: Info) -> object:
        return await get_myself(info.context, Role.CLIENT, selected_rows(info, ClientTable))

    @field(
        description="Id of an event, at least a minute old. A subscription with it as `after` misses no"
        " change since this response; its first events may be in the response already."
    )
    async def last_event_id(self, info: Info) -> ID:
        return ID(global_id("Event", await get_last_event_id(info.context)))
