"""Reasons for rejecting a token: for the log, the metric and `token check`, never for the response."""

import logging
import time
from enum import StrEnum

from app.care.errors import CareError, NotAllowed, NotSignedIn
from app.telemetry import counters
from app.telemetry.logs import LOG_FIELDS

MAX_LOGGED = 60  # rejected tokens per minute, so that they cannot fill the log
MINUTE = 60

logger = logging.getLogger("care.auth")


class Reason(StrEnum):
    HEADER = "header"
    MALFORMED = "malformed"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown key"
    SIGNATURE = "signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    CLAIMS = "claims"
    REFRESH_TOKEN = "refresh token"
    ROLE = "role"
    UNKNOWN_ACCOUNT = "unknown account"
    DISABLED_ACCOUNT = "disabled account"
    KEYS_AWAITED = "keys awaited"


NO_ACCOUNT = (NotAllowed, "there is no enabled account for this token")
ERRORS: dict[Reason, tuple[type[CareError], str]] = {  # for the client
    Reason.HEADER: (NotSignedIn, "the Authorization header must read: bearer <token>"),
    Reason.ROLE: (NotAllowed, "the token must name exactly one of the roles CAREGIVER and CLIENT"),
    Reason.UNKNOWN_ACCOUNT: NO_ACCOUNT,
    Reason.DISABLED_ACCOUNT: NO_ACCOUNT,
}


def rejection_for(reason: Reason) -> CareError:
    """Returns the error for the client. Its message does not reveal the exact reason."""
    kind, message = ERRORS.get(reason, (NotSignedIn, "the bearer token is not valid"))
    rejection = kind(message)
    rejection.reason = reason
    return rejection


class RejectionLog:
    """Counts rejected tokens by reason. Logs MAX_LOGGED per minute, or all with CARE_LOG_REQUESTS."""

    def __init__(self, logs_all: bool) -> None:
        self.logs_all = logs_all
        self.ticks = time.monotonic
        self.began = self.ticks()
        self.logged = 0

    def note(self, rejection: CareError, request_id: str) -> None:
        reason = rejection.reason
        if reason is None:  # the error is not about the token
            return
        counters.rejected_tokens[reason] += 1
        if self.ticks() - self.began >= MINUTE:
            self.began, self.logged = self.ticks(), 0
        self.logged += 1
        if self.logs_all or self.logged <= MAX_LOGGED:
            fields = {LOG_FIELDS: {"reason": reason}}
            logger.info("request %s: token refused: %s", request_id, reason, extra=fields)
        elif self.logged == MAX_LOGGED + 1:
            logger.info("further refused tokens are not logged within this minute; the metric counts them")
