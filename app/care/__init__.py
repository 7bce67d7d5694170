"""What the service does: plain functions, the context first."""
