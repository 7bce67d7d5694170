"""Alembic's entry: runs on the connection that app/db/admin/migrate.py hands over."""

from alembic import context
from sqlmodel import SQLModel

from app.db import tables

assert tables.CARE_TABLES  # imported for what it declares

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SQLModel.metadata, transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
