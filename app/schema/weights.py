"""What the fields cost: how long lists are taken to be, and which fields are dear (docs/limits.md)."""

from graphql import GraphQLField, GraphQLObjectType, GraphQLSchema, get_named_type

from app.engine.costs import Page, Weight
from app.schema.types.lists import MOST_ROWS, PAGE

CONNECTION = Weight(own=10, page=Page("first", PAGE, MOST_ROWS))
OF_PAGE = Weight(of_page=True)
CHANGE = Weight(own=50)
LISTENING = Weight(own=10)
LOOK_UP = Weight(own=5)

WEIGHTS = {
    "Query.session": LOOK_UP,
    "Query.assignment": LOOK_UP,
    "Query.book": LOOK_UP,
    "Query.node": LOOK_UP,
    "Query.nodes": Weight(own=10, page=Page("ids", MOST_ROWS, MOST_ROWS)),
    "Query.ownData": Weight(own=10_000),
    # It reads all homework of a client, which is some hundred rows after some years, and of a session.
    "Client.progress": Weight(own=300),
    "Client.scoreHistory": Weight(own=50, objects=10),
    "Session.progress": Weight(own=100),
    "Session.scoreHistory": Weight(own=50, objects=10),
    "Progress.completion": Weight(own=5, objects=25),
    "Assignment.answerSets": Weight(objects=2),
    "Assignment.feedbacks": Weight(objects=2),
    "Assignment.reminders": Weight(objects=3),
    "AnswerSet.answers": Weight(objects=10),
    "Book.questions": Weight(objects=10),
    "Question.options": Weight(own=5),
    "CreateSessionPayload.sessions": Weight(objects=10),
    "AssignHomeworkPayload.assignments": Weight(objects=10),
}


def weigh(schema: GraphQLSchema) -> None:
    """Writes its weight on every field that has one."""
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLObjectType):
            for name, definition in kind.fields.items():
                weight = weight_of(schema, kind, name, definition)
                if weight is not None:
                    definition.extensions["cost"] = weight


def weight_of(
    schema: GraphQLSchema, kind: GraphQLObjectType, name: str, definition: GraphQLField
) -> Weight | None:
    if kind is schema.mutation_type:
        return CHANGE
    if kind is schema.subscription_type:
        return LISTENING
    if kind.name.endswith("Connection"):
        return {"nodes": OF_PAGE, "edges": OF_PAGE, "totalCount": Weight(own=10)}.get(name)
    if get_named_type(definition.type).name.endswith("Connection"):
        return CONNECTION
    if name == "userErrors":
        return Weight(objects=1)
    return WEIGHTS.get(f"{kind.name}.{name}")
