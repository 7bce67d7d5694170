"""Limits of GraphQL operations (docs/limits.md)."""

from app.engine.limits import Limits
from app.engine.schema import EngineOptions
from app.settings import Settings

MOST_FRAGMENTS = 100
MOST_LEVELS = 64
MOST_SELECTIONS = 1000
MOST_ALIASES = 100
MOST_ROOT_FIELDS = 50
MOST_DIRECTIVES = 100
MOST_COMPARISONS = 10_000
MOST_VALUES = 2000


def engine_options_of(settings: Settings) -> EngineOptions:
    limits = Limits(
        tokens=settings.token_limit,
        fragments=MOST_FRAGMENTS,
        levels=MOST_LEVELS,
        depth=settings.depth_limit,
        selections=MOST_SELECTIONS,
        aliases=MOST_ALIASES,
        root_fields=MOST_ROOT_FIELDS,
        directives=MOST_DIRECTIVES,
        comparisons=MOST_COMPARISONS,
        cost=settings.cost_limit,
        values=MOST_VALUES,
    )
    return EngineOptions(
        limits=limits,
        introspection=settings.introspects,
        suggestions=settings.in_development,
        reports_cost=settings.in_development,
    )
