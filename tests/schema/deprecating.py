"""A schema with deprecated parts. Today's has none, so tests deprecate some of it, as `@deprecated` would."""

import pytest

from app.engine.deprecated import deprecated_parts
from app.engine.schema import EngineOptions
from app.schema.schema import Schema, build_schema

REASON = "Use `other`; may be gone from 2027-06-01."
FIELD, ARGUMENT = "Session.title", "Query.sessions(timeState:)"
INPUT_FIELD, VALUE = "AssignHomeworkInput.remindDates", "TimeState.FUTURE"
EVENT, ITEM_FIELD = "AssignmentChange.what", "AnswerInput.answer"
PARTS = (FIELD, ARGUMENT, INPUT_FIELD, VALUE, EVENT, ITEM_FIELD)


def schema_with_deprecated_parts(prepares: bool = True, options: EngineOptions | None = None) -> Schema:
    schema = build_schema(prepares, options)
    types = schema._schema.type_map
    for part in (
        types["Session"].fields["title"],
        types["Query"].fields["sessions"].args["timeState"],
        types["AssignHomeworkInput"].fields["remindDates"],
        types["TimeState"].values["FUTURE"],
        types["AssignmentChange"].fields["what"],
        types["AnswerInput"].fields["answer"],
    ):
        part.deprecation_reason = REASON
    schema.deprecated = deprecated_parts(schema._schema)
    return schema


@pytest.fixture
def deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services and commands that start from now on have this schema."""
    monkeypatch.setattr(
        "app.main.schema_of_service", lambda *options: schema_with_deprecated_parts(*options[:2])
    )
    monkeypatch.setattr("app.schema.schema.build_schema", schema_with_deprecated_parts)
