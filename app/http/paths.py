"""The four legacy paths, and their names in metrics and reports."""

import re

ROOT = "/gateway"
BELOW_ROOT = re.compile(rf"/*{ROOT}(?![^/])")  # `//gateway` is unknown, and gets the same error body
SESSIONS = f"{ROOT}/profile/client/session"
ASSIGNMENTS = f"{ROOT}/profile/caregiver/session/assignment"
ONE_ASSIGNMENT = f"{ASSIGNMENTS}/{{id}}"

LIST_CLIENT_SESSIONS = f"GET {SESSIONS}"
LIST_CAREGIVER_ASSIGNMENTS = f"GET {ASSIGNMENTS}"
GET_CAREGIVER_ASSIGNMENT = f"GET {ONE_ASSIGNMENT}"
ASSIGN_HOMEWORK = f"PUT {ASSIGNMENTS}"

PATHS = (LIST_CLIENT_SESSIONS, LIST_CAREGIVER_ASSIGNMENTS, GET_CAREGIVER_ASSIGNMENT, ASSIGN_HOMEWORK)


def path_name(method: str, target: str) -> str | None:
    """The one of PATHS that a request is for; None for other requests."""
    name = f"{method} {target.partition('?')[0]}"
    return next((each for each in PATHS if re.fullmatch(each.replace("{id}", "[^/]+"), name)), None)
