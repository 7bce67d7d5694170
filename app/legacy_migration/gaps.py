"""Finds what a recording lacks: pages that were not requested, and rows that other pages refer to."""

from app.db.tables import AssignmentStatus, TimeState
from app.legacy_migration.extraction import Gap, Gathered, is_whole


def find_gaps(gathered: Gathered) -> None:
    find_unseen_pages(gathered)
    assignments = gathered.facts["assignment"]
    for number, newest_first in gathered.of_session().items():
        if not is_whole(gathered.facts["session"][number]):
            facts = gathered.facts["session"][number]
            gathered.lacks(Gap.SESSION, f"session {number} of client {facts['clientId']}")
        for one in newest_first:
            facts = assignments[one]
            if facts["status"] == AssignmentStatus.COMPLETE and not facts["answers"] and not facts["isAsked"]:
                gathered.lacks(Gap.ANSWERS, f"assignment {one}")
    find_wrong_numbers(gathered)
    find_two_persons(gathered)
    for what, number in gathered.odd.items():
        gathered.lacks(Gap.NOT_TAKEN, f"{what} ({number:,} times)")


def find_unseen_pages(gathered: Gathered) -> None:
    for role, users in gathered.users.items():
        for user in users:
            for state in TimeState:
                sizes = gathered.lists.get((role, user, state), [])
                reasons = [seen.missing for seen in sizes]
                if not reasons:
                    gathered.lacks(Gap.LIST, f"{role.lower()} {user}: {state} was not asked for")
                elif all(reasons):
                    gathered.lacks(Gap.LIST, f"{role.lower()} {user}: {state}: {reasons[-1]}")


def find_wrong_numbers(gathered: Gathered) -> None:
    """What the sessions' own pages say of their assignments, and what was seen of these."""
    assignments, of_session = gathered.facts["assignment"], gathered.of_session()
    for number, session in gathered.facts["session"].items():
        if not is_whole(session):
            continue
        newest_first = of_session.get(number, [])
        count = session["assignmentCount"]
        if len(newest_first) < count:
            said = f"session {number} of caregiver {session['caregiverId']}: {len(newest_first)} of {count}"
            gathered.lacks(Gap.ASSIGNMENT, said)
            continue
        complete = [one for one in newest_first if assignments[one]["status"] == AssignmentStatus.COMPLETE]
        found = {
            "assignmentCount": len(newest_first),
            "completedAssignmentCount": len(complete),
            "pendingAssignmentCount": len(newest_first) - len(complete),
            "assignmentId": newest_first[0] if newest_first else None,
            "lastAssignmentScore": assignments[complete[0]]["score"] if complete else None,
            "isClosed": session["runningStatus"] == TimeState.COMPLETED,
        }
        for name, value in found.items():
            if session[name] != value:
                gathered.lacks(Gap.TWO_WAYS, f"session {number}: {name}")


def find_two_persons(gathered: Gathered) -> None:
    for role, users in gathered.users.items():
        named: dict[int, str] = {}
        for user, ids in users.items():
            if len(ids) > 1:
                gathered.lacks(Gap.TWO_WAYS, f"{role.lower()} {user}: the pages are those of several people")
            for number in ids:
                if named.setdefault(number, user) != user:
                    gathered.lacks(Gap.TWO_WAYS, f"{role.lower()} {number}: two user names")
