"""Migration from the old service: record its responses, import them, and compare both services."""


class LegacyMigrationError(Exception):
    """A file, a token, a mask or a service cannot be used; the message says which and why."""
