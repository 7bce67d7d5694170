"""The command line `care-gateway`. Each module adds its commands to `main`."""

from importlib import import_module
from pkgutil import iter_modules

from app.cli.common import main as main

for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
