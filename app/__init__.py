"""Care Gateway: one domain behind GraphQL and four legacy REST paths."""
