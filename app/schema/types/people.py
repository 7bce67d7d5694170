"""Caregiver, Client and Viewer."""

import strawberry

from app.care.context import Role
from app.care.people import get_myself
from app.db.tables import Caregiver as CaregiverTable
from app.db.tables import Client as ClientTable
from app.schema.selection import Info, wanted_rows
from app.schema.types.node import Node
from app.schema.types.progress import Progress, ScorePoint, progress_field, score_history_field


@strawberry.type(description="Gives care; opens sessions and assigns homework in them.")
class Caregiver(Node):
    name: str = strawberry.field(description="First and last name.")
    position: str = strawberry.field(description="Professional position, such as Family therapist.")


@strawberry.type(description="Receives care; answers homework.")
class Client(Node):
    name: str = strawberry.field(description="First and last name; `erased` once the client is erased.")
    oppt_id: str = strawberry.field(description="The client's identifier outside this service.")
    progress: Progress = progress_field("Of all homework that the viewer shares with this client.")
    score_history: list[ScorePoint] = score_history_field(
        "The scores of one book in all sessions that the viewer shares with this client, oldest first."
    )


@strawberry.type(description="Who is asking.")
class Viewer:
    role: Role = strawberry.field(description="Which of the two the token says.")
    time_zone: str = strawberry.field(description="Zone of the wall times on the legacy paths.")

    @strawberry.field(
        description="The viewer as a caregiver; null for a client.", graphql_type=Caregiver | None
    )
    async def caregiver(self, info: Info) -> object:
        return await get_myself(info.context, Role.CAREGIVER, wanted_rows(info, CaregiverTable))

    @strawberry.field(description="The viewer as a client; null for a caregiver.", graphql_type=Client | None)
    async def client(self, info: Info) -> object:
        return await get_myself(info.context, Role.CLIENT, wanted_rows(info, ClientTable))
