"""Numbers with their noun, as messages show them."""


def counted(count: int, singular: str, plural: str = "") -> str:
    """ "1 record", "2 records"; a plural of another form is given."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
