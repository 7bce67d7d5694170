"""Who calls the legacy paths, and who uses deprecated parts of the GraphQL schema."""
