"""The audit trail: who saw a person's answers, and who changed what (docs/decisions/0026)."""
