"""Descriptions of the enums, which are declared in `care` and `db` without GraphQL."""

from graphql import GraphQLEnumType, GraphQLSchema

DESCRIPTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "AssignmentChangeKind": (
        "A change to an assignment.",
        {
            "ASSIGNED": "Assigned to the client.",
            "EXTENDED": "The end date was moved to a later moment.",
            "REMINDERS_SET": "The reminders were replaced.",
            "WITHDRAWN": "Withdrawn by the caregiver; the assignment no longer exists.",
            "DRAFT_SAVED": "The client saved a draft. Only the client receives this event.",
            "SUBMITTED": "The client submitted answers.",
            "REOPENED": "Reopened for another attempt.",
            "FEEDBACK_GIVEN": "The caregiver gave or edited feedback.",
        },
    ),
    "AssignmentOrder": (
        "Sort order of assignments.",
        {
            "NEWEST": "Most recently assigned first.",
            "DUE_SOONEST": "Pending assignments by end date, earliest first and overdue ones included; then"
            " pending assignments without an end date; then submitted ones. Ties: first assigned first.",
        },
    ),
    "AssignmentStatus": (
        "Status of the current attempt.",
        {"PENDING": "Not submitted yet.", "COMPLETE": "Submitted."},
    ),
    "AuditActor": (
        "Role of the person who performed an action.",
        {
            "CAREGIVER": "A caregiver.",
            "CLIENT": "A client.",
            "OPERATOR": "An operator of the service, by command line.",
        },
    ),
    "Contract": (
        "Interface through which a request was received.",
        {"GRAPHQL": "The GraphQL API.", "LEGACY": "A legacy path.", "COMMAND": "The command line."},
    ),
    "DataFormat": (
        "Format of a data export.",
        {"JSON": "One JSON document with all data.", "CSV": "CSV with one row per answer."},
    ),
    "FeedbackStatus": (
        "Whether the current attempt has feedback.",
        {"WAITING": "No feedback yet.", "SUBMITTED": "Feedback was given."},
    ),
    "LatenessState": (
        "State of an assignment relative to its end date.",
        {
            "ON_TIME": "Submitted by the end date; or pending before the end date; or without an end date.",
            "LATE": "Submitted after the end date.",
            "OVERDUE": "Pending after the end date.",
        },
    ),
    "QuestionKind": (
        "Type of a question, which determines the format of its answers.",
        {
            "TEXT": "Any text.",
            "YES_NO": "`true` or `false`.",
            "NUMBER": "A number, such as 7 or 7.5.",
            "SINGLE_CHOICE": "One of the options.",
            "MULTIPLE_CHOICE": "Any number of the options, one per line.",
            "SCALE": "One of the options, which are the steps of a scale.",
        },
    ),
    "ReminderState": (
        "State of a reminder.",
        {
            "SCHEDULED": "Due in the future.",
            "SENT": "Due, and the notification was sent.",
            "SKIPPED": "Not sent: it was in the past when set, or there was nothing left to answer.",
        },
    ),
    "Role": ("Role of a user.", {"CAREGIVER": "Gives care.", "CLIENT": "Receives care."}),
    "SaveType": (
        "Kind of an answer set.",
        {
            "FINAL": "A submission.",
            "DRAFT": "A draft saved by the client.",
            "AUTO_SAVE": "A draft saved automatically by the client's device.",
        },
    ),
    "SessionOrder": (
        "Sort order of sessions.",
        {
            "NEWEST": "Most recently created first.",
            "STARTS_SOONEST": "By start date, earliest first. Ties: first created first.",
        },
    ),
    "TimeState": (
        "State of a session at the time of the request.",
        {"FUTURE": "Not started.", "RUNNING": "Started and not closed.", "COMPLETED": "Closed."},
    ),
    "UserErrorCode": (
        "Reason why a mutation was rejected. Clients should handle unknown values.",
        {
            "INCOMPLETE": "A required value is missing, null, blank or an empty list.",
            "UNREADABLE": "A value has the wrong format or is out of range.",
            "NOT_FOUND": "The object does not exist or the viewer cannot access it.",
            "NOT_RUNNING": "The session is closed, or it is not running as required.",
            "WRONG_STATE": "The object's state does not allow the change, such as a submitted assignment.",
            "DRAFT_CONFLICT": "The draft was saved after `revision`. The payload contains the stored draft.",
        },
    ),
}


def describe_enums(schema: GraphQLSchema) -> None:
    """Raises KeyError for an enum or a value without a description."""
    for kind in schema.type_map.values():
        if isinstance(kind, GraphQLEnumType) and not kind.name.startswith("__"):
            kind.description, values = DESCRIPTIONS[kind.name]
            for name, value in kind.values.items():
                value.description = values[name]
