"""What `care-gateway` gets from this package: commands of `legacy`, and the import of a recording."""

from moving_over.commands.compare import compare
from moving_over.commands.importing import import_recording, resolve
from moving_over.commands.reconcile import ready, reconcile
from moving_over.commands.record import record
from moving_over.commands.shadow import shadow

__all__ = ["COMMANDS", "import_recording"]
COMMANDS = (compare, ready, reconcile, record, resolve, shadow)
