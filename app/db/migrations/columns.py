"""Columns of the migrations. Never change what these produce: a migration must stay as it was released."""

from typing import Any

import sqlalchemy as sa

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
MOMENT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
WORD = sa.String(length=64, collation="C").with_variant(sa.String(length=64), "sqlite")
TEXT, STRING, BOOLEAN, INTEGER, BIGINT, JSON = (
    sa.Text(), sa.String(), sa.Boolean(), sa.Integer(), sa.BigInteger(), sa.JSON(),
)  # fmt: skip


def required(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name, kind in kinds.items()]


def optional(**kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=True) for name, kind in kinds.items()]


def reference(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([f"{table}_id"], [f"{table}.id"])
