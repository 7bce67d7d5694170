"""Operator commands on a database: migrations, imports, accounts, backups and erasure."""
