"""Messages for operators: counts with a noun, and errors that a command prints."""


class OperatorError(Exception):
    """A problem that an operator can correct. A command prints the message and exits with code 2."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """ "1 record", "2 records"; pass irregular plurals."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
