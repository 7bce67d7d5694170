"""Reads: each level of a selection is one statement."""
