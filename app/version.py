"""The version of the service, as it was installed."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    try:
        return version("care-gateway")
    except PackageNotFoundError:  # run from a folder
        return "unknown"
