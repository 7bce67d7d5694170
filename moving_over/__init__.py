"""Moving over from the old service: record its responses, import them, and compare both services.

The service does not need this package. `app/cli/legacy.py` finds its commands.
"""

from app.telemetry.wording import OperatorError


class LegacyMigrationError(OperatorError):
    """A file, a token, a mask or a service cannot be used; the message says which and why."""
