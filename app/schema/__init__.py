"""The GraphQL contract: types, resolvers, errors and the endpoint."""
