"""Cost weights of the fields (docs/limits.md)."""

from graphql import GraphQLField, GraphQLObjectType, GraphQLSchema, get_named_type

from app.care.bounds import MAX_TEXT, MAX_TITLE
from app.care.own_data import MAX_OWN_DATA
from app.engine.costs import SizeArgument, Weight
from app.schema.types.lists import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE

CONNECTION = Weight(points=10, size_argument=SizeArgument("first", DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE))
PAGE_ITEMS = Weight(is_sized_by_connection=True)
MUTATION = Weight(points=50)
SUBSCRIPTION = Weight(points=10)
LOOKUP = Weight(points=5)

# A character has at most six bytes in JSON. Long texts cost more, because each row reads one.
TITLE = Weight(bytes=6 * MAX_TITLE)
TEXT = Weight(points=10, bytes=6 * MAX_TEXT)
# An answer may be as long, but the answers of one request together only as long as CARE_GRAPHQL_BODY_LIMIT.
ANSWER = Weight(bytes=26_000)

WEIGHTS = {
    "Query.session": LOOKUP,
    "Query.assignment": LOOKUP,
    "Query.book": LOOKUP,
    "Query.node": LOOKUP,
    "Query.nodes": Weight(points=10, size_argument=SizeArgument("ids", MAX_PAGE_SIZE, MAX_PAGE_SIZE)),
    "Viewer.lastEventId": LOOKUP,
    "Query.ownData": Weight(points=10_000, bytes=MAX_OWN_DATA),
    # Progress reads all homework of a client or session, which can be hundreds of rows.
    "Client.progress": Weight(points=300),
    "Client.scoreHistory": Weight(points=50, objects=10),
    "Session.progress": Weight(points=100),
    "Session.scoreHistory": Weight(points=50, objects=10),
    "Progress.completion": Weight(points=5, objects=25),
    "Assignment.answerSets": Weight(objects=2),
    "Assignment.feedbacks": Weight(objects=2),
    "Assignment.reminders": Weight(objects=3),
    "AnswerSet.answers": Weight(objects=10),
    "Book.questions": Weight(objects=10),
    "Question.options": Weight(points=5, bytes=2000),
    "Question.text": Weight(bytes=2000),
    "Answer.questionText": Weight(bytes=2000),
    "Answer.answer": ANSWER,
    "Feedback.text": TEXT,
    "Session.title": TITLE,
    "Session.description": TEXT,
    "CreateSessionPayload.sessions": Weight(objects=10),
    "AssignHomeworkPayload.assignments": Weight(objects=10),
}


def add_weights(schema: GraphQLSchema) -> None:
    """Sets the weight in the extensions of every field that has one."""
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
        return MUTATION
    if kind is schema.subscription_type:
        return SUBSCRIPTION
    if kind.name.endswith("Connection"):
        return {"nodes": PAGE_ITEMS, "edges": PAGE_ITEMS, "totalCount": Weight(points=10)}.get(name)
    if get_named_type(definition.type).name.endswith("Connection"):
        return CONNECTION
    if name == "userErrors":
        return Weight(objects=1)
    return WEIGHTS.get(f"{kind.name}.{name}")
