"""The errors of the rules. Each has a code, which the two contracts map to their own form.

Messages are fixed phrases: no names, no answers, no tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.telemetry import counters

CLOSED = "the session is closed"


class UserErrorCode(StrEnum):
    """The codes of `userErrors`, an enum of the GraphQL schema."""

    INCOMPLETE = "INCOMPLETE"
    UNREADABLE = "UNREADABLE"
    NOT_FOUND = "NOT_FOUND"
    NOT_RUNNING = "NOT_RUNNING"
    WRONG_STATE = "WRONG_STATE"
    DRAFT_CONFLICT = "DRAFT_CONFLICT"


class CareError(Exception):
    code: str
    message: str
    reason: str | None = None  # of a rejected token; for the log, never for the response

    def __init__(self, message: str | None = None) -> None:
        self.message = message or self.message
        super().__init__(self.message)


class NotSignedIn(CareError):
    """No valid token where one is needed."""

    code = "UNAUTHENTICATED"


class NotAllowed(CareError):
    """The viewer has another role, or there is no enabled account."""

    code = "FORBIDDEN"


class CannotVerify(CareError):
    """The key of the token is being fetched, and too many requests wait for it.

    Not a NotSignedIn: the token may be valid, so a client must not discard it.
    """

    code = "OVERLOADED"
    message = "the token cannot be verified now"
    reason = "keys awaited"


class KeyTaken(CareError):
    """The Idempotency-Key belongs to another request."""

    code = "IDEMPOTENCY_CONFLICT"
    message = "the Idempotency-Key was used for another request"


class ReadOnly(CareError):
    """People use the old service until the switch is declared; a change here would be on the wrong side."""

    code = "READ_ONLY"
    message = "nothing was changed: until the switch, make changes in the old service"


class RateLimited(CareError):
    """The viewer exceeded the points of a minute, or the client identifiers of an hour."""

    code = "RATE_LIMITED"

    def __init__(self, seconds: int, message: str = "too many points were used within a minute") -> None:
        super().__init__(message)
        self.seconds = seconds


class ResponseTooLong(CareError):
    """The response has more bytes than are allowed; the message says what to do."""

    code = "TOO_COSTLY"

    def __init__(self, message: str) -> None:
        counters.limits["bytes of a response"] += 1
        super().__init__(message)


class TooManyListening(CareError):
    code = RateLimited.code

    def __init__(self, most: int) -> None:
        super().__init__(f"there are {most} subscriptions already, and no more are allowed")


class EventsExpired(CareError):
    code = "EXPIRED"
    message = "events after this one were removed; read the current state and subscribe without `after`"


class Rejected(CareError):
    """A correctable problem with the input; names its members, as in `bookIds` or `bookIds.1`."""

    code: UserErrorCode

    def __init__(self, message: str, *members: str) -> None:
        super().__init__(message)
        self.members = members


class Incomplete(Rejected):
    """A required member is missing."""

    code = UserErrorCode.INCOMPLETE

    def __init__(self, *members: str) -> None:
        super().__init__(f"required and missing: {', '.join(members)}", *members)


class InvalidValue(Rejected):
    """A value has the wrong form or is out of bounds."""

    code = UserErrorCode.UNREADABLE

    def __init__(self, member: str, reason: str, index: int | None = None) -> None:
        super().__init__(f"{member} {reason}", member if index is None else f"{member}.{index}")


class NotFound(Rejected):
    """The object is missing or another viewer's: the error does not show which."""

    code = UserErrorCode.NOT_FOUND

    def __init__(self, what: str, *members: str) -> None:
        super().__init__(f"{what} not found", *members)


class NotRunning(Rejected):
    code = UserErrorCode.NOT_RUNNING

    def __init__(self, *members: str, message: str = "the session is not running") -> None:
        super().__init__(message, *members)


class WrongState(Rejected):
    """The object does not accept the change: an assignment that is submitted, for example."""

    code = UserErrorCode.WRONG_STATE


class DraftConflict(Rejected):
    """The draft was saved elsewhere meanwhile; names the stored draft."""

    code = UserErrorCode.DRAFT_CONFLICT

    def __init__(self, draft_id: int | None, *members: str) -> None:
        super().__init__("the draft was saved elsewhere meanwhile", *members)
        self.draft_id = draft_id


@dataclass(frozen=True)
class WrongAnswer:
    """The error of one answer. `question_id` is None if the answer names no valid id."""

    code: UserErrorCode
    question_id: int | None
    message: str


class WrongAnswers(Rejected):
    """Answers that do not match the questions; names each. The code is that of the first answer."""

    code = UserErrorCode.UNREADABLE

    def __init__(self, wrong: Sequence[WrongAnswer], *members: str) -> None:
        super().__init__("the answers do not match the questions", *members)
        self.code = wrong[0].code
        self.wrong = wrong
