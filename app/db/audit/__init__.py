"""The audit log: who read a person's answers, and who changed data (docs/decisions/0026)."""
