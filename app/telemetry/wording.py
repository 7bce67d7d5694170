"""Counts with a noun, for messages."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """ "1 record", "2 records"; pass irregular plurals."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
