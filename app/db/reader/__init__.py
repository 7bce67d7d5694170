"""Reads: a selection is planned, written as SQL statements, and run."""
