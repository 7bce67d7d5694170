"""Every way to be refused.

CareError
├── NotSignedIn     no valid token where one is needed
├── NotAllowed      signed in, but not in the role or with the account that this needs
└── Refused         something a person can mend; names the members it is about
    ├── Incomplete  a required member is missing
    ├── Unreadable  a value that cannot be read or is out of bounds
    ├── NotFound    not there, or not the viewer's: nobody learns which
    └── NotRunning  the session does not accept this now

Messages are fixed phrases: no names, no answers, no tokens.
"""

from typing import ClassVar


class CareError(Exception):
    code: ClassVar[str]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotSignedIn(CareError):
    code = "UNAUTHENTICATED"


class NotAllowed(CareError):
    code = "FORBIDDEN"


class Refused(CareError):
    def __init__(self, message: str, *members: str) -> None:
        super().__init__(message)
        self.members = members


class Incomplete(Refused):
    code = "INCOMPLETE"

    def __init__(self, *members: str) -> None:
        super().__init__(f"required and missing: {', '.join(members)}", *members)


class Unreadable(Refused):
    code = "UNREADABLE"

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{member} {reason}", member)


class NotFound(Refused):
    code = "NOT_FOUND"

    def __init__(self, what: str, *members: str) -> None:
        super().__init__(f"{what} not found", *members)


class NotRunning(Refused):
    code = "NOT_RUNNING"

    def __init__(self, *members: str) -> None:
        super().__init__("the session is not running", *members)
