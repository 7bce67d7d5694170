"""What ends a command about moving over: one sentence for the operator."""


class MovingRefused(Exception):
    """A file, a token, a mask or a service cannot be used; the message says which and why."""
