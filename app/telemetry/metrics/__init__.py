"""Prometheus metrics: collection, and the server, which aggregates those of several processes."""
