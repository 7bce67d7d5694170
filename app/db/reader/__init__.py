"""Reads: a selection becomes one statement per level."""
