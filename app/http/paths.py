"""The four legacy paths by name, as they are routed, counted and reported."""

ROOT = "/gateway"
SESSIONS = f"{ROOT}/profile/client/session"
ASSIGNMENTS = f"{ROOT}/profile/caregiver/session/assignment"

LIST_CLIENT_SESSIONS = f"GET {SESSIONS}"
LIST_CAREGIVER_ASSIGNMENTS = f"GET {ASSIGNMENTS}"
GET_CAREGIVER_ASSIGNMENT = f"GET {ASSIGNMENTS}/{{id}}"
ASSIGN_HOMEWORK = f"PUT {ASSIGNMENTS}"

PATHS = (LIST_CLIENT_SESSIONS, LIST_CAREGIVER_ASSIGNMENTS, GET_CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK)
