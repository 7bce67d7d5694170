"""Logs, counters, metrics and traces."""
