"""What a recording leaves to the operator: accounts, questions of books, and clients who stay erased."""

from dataclasses import dataclass

from app.care.context import Role
from app.db.admin.tombstones import people_in, reading_tombstones
from app.db.interchange.load import reading_users
from app.db.sql import Steps
from app.db.statements.books import FIND_BOOKS_WITHOUT_QUESTIONS
from app.db.tables import TombstoneState
from moving_over.extraction import Recording


@dataclass(frozen=True)
class RemainingWork:
    """Of the people and books of a recording, as the database has them now."""

    people_without_account: list[tuple[Role, int]]
    users_without_person: list[tuple[Role, str]]
    books_without_questions: list[int]
    erased_clients: list[int]


def reading_remaining_work(recording: Recording) -> Steps[RemainingWork]:
    facts, users = recording.facts, (yield from reading_users())
    erased = people_in((yield from reading_tombstones()), TombstoneState.ERASED) & facts["client"].keys()
    known = {(kind, user) for (kind, _), user in users.items()}
    books = yield FIND_BOOKS_WITHOUT_QUESTIONS, {"books": sorted(facts["book"])}
    return RemainingWork(
        [
            (role, each)
            for role in Role
            for each in sorted(facts[role.lower()])
            if users.get((role.lower(), each), "") is None and not (role is Role.CLIENT and each in erased)
        ],
        [
            (role, user)
            for role, found in recording.users.items()
            for user, ids in found.items()
            if len(ids) != 1 and (role.lower(), user) not in known
        ],
        sorted(row[0] for row in books),
        sorted(erased),
    )
