"""Care Gateway: one domain, told in GraphQL and in four legacy REST paths."""
