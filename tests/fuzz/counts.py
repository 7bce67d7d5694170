"""The number of generated examples: few in every run, more in `make soak`."""

import os

from hypothesis import HealthCheck, Phase, settings

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
SOAK_REST = int(os.environ.get("SOAK_REST", "50000"))
SOAK_GRAPHQL = int(os.environ.get("SOAK_GRAPHQL", "5000"))
SOAK_CHAINS = int(os.environ.get("SOAK_CHAINS", "200"))
SOAK_WIRE = int(os.environ.get("SOAK_WIRE", "5000"))
SOAK_READERS = int(os.environ.get("SOAK_READERS", "20000"))


def short(examples: int) -> settings:
    return settings(
        max_examples=examples, suppress_health_check=[*SLOW_TO_DRAW, HealthCheck.function_scoped_fixture]
    )


def soak(examples: int) -> settings:
    """New examples in every run; a failure prints how to reproduce it."""
    phases = (Phase.generate, Phase.shrink)
    return settings(short(examples), derandomize=False, print_blob=True, phases=phases)
