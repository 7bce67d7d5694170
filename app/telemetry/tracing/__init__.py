"""OpenTelemetry traces, by the semantic conventions for HTTP, GraphQL and databases.

Spans contain no values, no person's id and no name that a client chooses: paths are routes, and statements
have placeholders. If tracing is off, nothing is imported or wrapped.
"""
