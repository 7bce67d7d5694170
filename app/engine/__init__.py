"""Prepared GraphQL operations: parsed once, completed by generated code, graphql-core as the fallback."""
