"""Prometheus metrics: collection, the HTTP server for them, and aggregation of several processes."""
