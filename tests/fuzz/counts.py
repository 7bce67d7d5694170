"""Numbers of fuzzing examples: few in every run of the suite; in `make soak` as the environment sets."""

import os

from hypothesis import HealthCheck, Phase, settings

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
SOAK_REST = int(os.environ.get("SOAK_REST", "50000"))
SOAK_GRAPHQL = int(os.environ.get("SOAK_GRAPHQL", "5000"))
SOAK_WIRE = int(os.environ.get("SOAK_WIRE", "5000"))


def short(examples: int) -> settings:
    """The same examples in every run, so that a failure can be repeated."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*SLOW_TO_DRAW, HealthCheck.function_scoped_fixture],
    )


def soak(examples: int) -> settings:
    """Other examples in every run; a failure prints how to repeat it."""
    phases = (Phase.generate, Phase.shrink)
    return settings(short(examples), derandomize=False, print_blob=True, phases=phases)
