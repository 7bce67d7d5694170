"""Alembic loads this file; it uses the connection of app/db/admin/migrate.py."""

from alembic import context
from sqlmodel import SQLModel

from app.db import tables

assert tables.CARE_TABLES  # the import declares the tables

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SQLModel.metadata, transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
