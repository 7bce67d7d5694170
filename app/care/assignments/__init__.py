"""Assignments: reading them, assigning homework, and changing pending homework."""
