"""What enums and their values mean: they are declared where the rules are, which know no GraphQL."""

from graphql import GraphQLEnumType, GraphQLSchema

MEANINGS: dict[str, tuple[str, dict[str, str]]] = {
    "AssignmentChangeKind": (
        "What happened to an assignment.",
        {
            "ASSIGNED": "It was assigned.",
            "EXTENDED": "It got a later end.",
            "REMINDERS_SET": "Its reminders were changed.",
            "WITHDRAWN": "It was taken back, and is gone.",
            "DRAFT_SAVED": "The client saved a draft; told to the client alone.",
            "SUBMITTED": "The client submitted answers.",
            "REOPENED": "It is to be answered once more.",
            "FEEDBACK_GIVEN": "The caregiver responded, or mended the response.",
        },
    ),
    "AssignmentOrder": (
        "The order of a list of assignments.",
        {
            "NEWEST": "The assignment that was assigned last comes first.",
            "DUE_SOONEST": "Pending ones by their end date, the earliest first, overdue ones included; then"
            " pending ones without an end date; then submitted ones. Ties are in the order of assigning.",
        },
    ),
    "AssignmentStatus": (
        "Whether the present attempt at an assignment is submitted.",
        {"PENDING": "Not submitted yet.", "COMPLETE": "Submitted."},
    ),
    "AuditActor": (
        "In which role somebody acted.",
        {
            "CAREGIVER": "As a caregiver.",
            "CLIENT": "As a client.",
            "OPERATOR": "By a command of whoever runs the service.",
        },
    ),
    "Contract": (
        "By which door somebody came in.",
        {
            "GRAPHQL": "By GraphQL.",
            "LEGACY": "By one of the legacy paths.",
            "COMMAND": "By the command line.",
        },
    ),
    "DataFormat": (
        "In which form everything that is held of a client is written out.",
        {"JSON": "One JSON document, with all there is.", "CSV": "A table with one row per answer."},
    ),
    "FeedbackStatus": (
        "Whether the caregiver responded to the present attempt at an assignment.",
        {"WAITING": "Not yet.", "SUBMITTED": "They did."},
    ),
    "LatenessState": (
        "How an assignment stands to its end date.",
        {
            "ON_TIME": "Submitted by its end date, or pending and not yet at it, or without one.",
            "LATE": "Submitted after its end date.",
            "OVERDUE": "Pending after its end date.",
        },
    ),
    "QuestionKind": (
        "What an answer to a question looks like.",
        {
            "TEXT": "Any text.",
            "YES_NO": "`true` or `false`.",
            "NUMBER": "A number such as 7 or 7.5.",
            "SINGLE_CHOICE": "One of the options.",
            "MULTIPLE_CHOICE": "Any of the options, one per line.",
            "SCALE": "One of the options, which are the steps of a scale.",
        },
    ),
    "ReminderState": (
        "What became of a reminder.",
        {
            "SCHEDULED": "Its moment is still to come.",
            "SENT": "Its moment came, and it was told.",
            "SKIPPED": "Nobody is reminded: it was past when it was set, or there was nothing left to do.",
        },
    ),
    "Role": (
        "As what somebody uses the service.",
        {"CAREGIVER": "Gives care.", "CLIENT": "Receives care."},
    ),
    "SaveType": (
        "How an answer set came to be.",
        {
            "FINAL": "It was submitted.",
            "DRAFT": "A draft that the client saved.",
            "AUTO_SAVE": "A draft that the client's device saved by itself.",
        },
    ),
    "SessionOrder": (
        "The order of a list of sessions.",
        {
            "NEWEST": "The session that was opened last comes first.",
            "STARTS_SOONEST": "By start date, the earliest first; ties are in the order of opening.",
        },
    ),
    "TimeState": (
        "Where a session stands, at the moment of the request.",
        {"FUTURE": "Not started.", "RUNNING": "Started and not closed.", "COMPLETED": "Closed."},
    ),
    "UserErrorCode": (
        "Why a mutation changed nothing. Clients should handle values that they do not know.",
        {
            "INCOMPLETE": "Something required is missing, null, blank or an empty list.",
            "UNREADABLE": "A value is of the wrong kind or out of bounds.",
            "NOT_FOUND": "What an id names does not exist, or is not the viewer's.",
            "NOT_RUNNING": "The session is closed, or not running where it must be.",
            "WRONG_STATE": "The object does not allow this now, such as an assignment that is submitted.",
            "DRAFT_CONFLICT": "The draft was saved after `revision`; the payload has the stored draft.",
        },
    ),
}


def say_meanings(schema: GraphQLSchema) -> None:
    """Writes its meaning on every enum and every value; one without a meaning is a mistake of ours."""
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLEnumType) and not kind.name.startswith("__"):
            kind.description, values = MEANINGS[kind.name]
            for name, value in kind.values.items():
                value.description = values[name]
