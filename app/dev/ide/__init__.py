"""GraphiQL, the GraphQL page for browsers in development, with examples."""
