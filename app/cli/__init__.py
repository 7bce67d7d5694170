"""The command line `care-gateway`. Each module adds its commands to `main`."""

import os
import signal
from importlib import import_module
from pkgutil import iter_modules

if os.getpid() == 1:  # in a container: Linux ignores SIGTERM for it until there is a handler
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))

from app.cli.common import main as main  # after the handler, because it takes long

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
